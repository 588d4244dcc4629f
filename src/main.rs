//! The program: parses arguments to settings, and runs a server with them.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};
use sundown::Backend;
use sundown::clock::Clock;
use sundown::config::{Config, LogFormat, Settings, TlsMode, usual_port};
use sundown::server::{Server, yield_if_busy};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Returns memory to the system by itself after a mass expiry.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A MongoDB-compatible server whose documents expire exactly on time.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(subcommand)]
    action: Option<Subcommands>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Exit with 0 if a server answers a ping
    Healthcheck {
        #[arg(long, default_value = "127.0.0.1")]
        host: String,
        /// [default: 27017, with --cosmos 10255]
        #[arg(long, env = "SUNDOWN_PORT")]
        port: Option<u16>,
        /// The server was started with --cosmos
        #[arg(long, env = "SUNDOWN_COSMOS", value_parser = BoolishValueParser::new())]
        cosmos: bool,
        /// Encrypt the connection if this is required; any certificate is accepted
        #[arg(long, env = "SUNDOWN_TLS", value_name = "MODE", value_enum, default_value_t = TlsMode::Disabled)]
        tls: TlsMode,
        /// How many seconds connecting and answering may take
        #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
        timeout: u64,
    },
}

fn main() -> ExitCode {
    let line = CommandLine::parse();
    if let Some(Subcommands::Healthcheck {
        host,
        port,
        cosmos,
        tls,
        timeout,
    }) = line.action
    {
        let port = port.unwrap_or(usual_port(cosmos));
        let patience = Duration::from_secs(timeout);
        let encrypted = tls == TlsMode::Required;
        return match sundown::healthcheck::ping(&host, port, patience, encrypted) {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => fail(&format!("no healthy server at {host}:{port}: {problem}")),
        };
    }
    let config = Config::try_from(line.settings).unwrap_or_else(|problem| {
        CommandLine::command()
            .error(ErrorKind::ArgumentConflict, problem)
            .exit()
    });
    if let Err(problem) = start_log(&config) {
        return fail(&format!("--log {:?}: {problem}", config.log));
    }
    start_allocator();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if config.workers > 0 {
        runtime.worker_threads(config.workers);
    }
    if config.upstream.is_some() {
        runtime.on_thread_park(yield_if_busy);
    }
    let runtime = match runtime.enable_all().thread_name("sundown").build() {
        Ok(runtime) => runtime,
        Err(problem) => return fail(&format!("cannot start threads: {problem}")),
    };
    let outcome = runtime.block_on(serve(config));
    // Everything that has not ended by now had its time.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => fail(&problem),
    }
}

async fn serve(config: Config) -> Result<(), String> {
    let server = Server::bind(config)
        .await
        .map_err(|problem| problem.to_string())?;
    let backend = Backend::open(server.config(), Clock::system()).await?;
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|problem| format!("no signals: {problem}"))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|problem| format!("no signals: {problem}"))?;
    // Handled even if there is nothing to reload: by default a closed terminal sends this signal and ends the process, and
    // all documents are lost.
    let mut hangup =
        signal(SignalKind::hangup()).map_err(|problem| format!("no signals: {problem}"))?;
    let tls = server.tls_acceptor();
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            match &tls {
                Some(tls) => tls.reload(),
                None => tracing::info!("SIGHUP: without TLS there is nothing to reload"),
            }
        }
    });
    announce(&server);
    let stopped = async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: finishing what runs, then leaving"),
            _ = interrupt.recv() => tracing::info!("SIGINT: finishing what runs, then leaving"),
        }
    };
    backend.serve(server, stopped).await;
    Ok(())
}

/// Prints the line that scripts wait for. If standard output is closed, the server serves nevertheless.
fn announce(server: &Server) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(
        out,
        "listening on {}, waiting for connections",
        server.local_addr()
    );
    let _ = out.flush();
}

fn start_log(config: &Config) -> Result<(), String> {
    let filter = EnvFilter::try_new(&config.log).map_err(|problem| problem.to_string())?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match config.log_format {
        LogFormat::Text => log
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        LogFormat::Json => log.json().try_init(),
    }
    .map_err(|problem| problem.to_string())
}

/// Lets background threads of the allocator return freed memory, instead of the next allocation, and within a few seconds:
/// after a mass expiry the memory should be free soon.
fn start_allocator() {
    #[cfg(feature = "jemalloc")]
    {
        use tikv_jemalloc_ctl::{Access, AsName, background_thread};
        /// The allocator's default is 10,000.
        const DECAY_MILLIS: isize = 3_000;
        // The first key is for arenas created later, the second for the existing one.
        for key in ["arenas.dirty_decay_ms\0", "arena.0.dirty_decay_ms\0"] {
            if let Err(problem) = key.name().write(DECAY_MILLIS) {
                tracing::warn!(%problem, key, "memory is given back late");
            }
        }
        let _ = background_thread::write(true);
        match background_thread::read() {
            Ok(true) => {}
            answer => tracing::warn!(
                ?answer,
                "memory is given back late: the allocator has no background threads"
            ),
        }
    }
}

fn fail(problem: &str) -> ExitCode {
    eprintln!("sundown: {problem}");
    ExitCode::FAILURE
}

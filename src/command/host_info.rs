//! `hostInfo`: describes the machine and the operating system.

use super::{Access, Call, Command, Flags, Needs, Outcome, system};
use crate::auth::Action;
use crate::error::Result;
use crate::value::DocBuilder;

pub(super) const COMMAND: Command = Command::ready(
    "hostInfo",
    Access::None,
    "Describes the machine that the server runs on.",
    run,
)
.with(Flags::SECONDARY)
.needs(Needs::Server(Action::HostInfo));

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    let cores = system::cores();
    let memory = system::total_memory_mb();
    let mut machine = reply.doc("system");
    machine
        .put_date("currentTime", call.now.0)
        .put_str("hostname", &system::host_name())
        .put_i32("cpuAddrSize", usize::BITS as i32)
        .put_i64("memSizeMB", memory)
        .put_i64("memLimitMB", memory)
        .put_i32("numCores", cores)
        .put_i32("numCoresAvailableToProcess", cores)
        .put_i32("numPhysicalCores", cores)
        .put_i32("numCpuSockets", 1)
        .put_str("cpuArch", std::env::consts::ARCH)
        .put_bool("numaEnabled", false)
        .put_i32("numNumaNodes", 1);
    machine.end();
    let mut os = reply.doc("os");
    os.put_str("type", system::os_type())
        .put_str("name", std::env::consts::OS)
        .put_str("version", &system::kernel());
    os.end();
    let mut extra = reply.doc("extra");
    if cfg!(target_os = "linux") {
        extra
            .put_str("versionString", &system::kernel_build())
            .put_str("libcVersion", system::C_LIBRARY)
            .put_str("kernelVersion", &system::kernel());
        for (name, key) in [("cpuFrequencyMHz", "cpu MHz"), ("cpuFeatures", "flags")] {
            if let Some(value) = system::processor(key) {
                extra.put_str(name, &value);
            }
        }
    } else {
        extra.put_str("versionString", &system::kernel());
    }
    extra.put_i64("pageSize", system::PAGE);
    if cfg!(target_os = "linux") {
        extra
            .put_i64("numPages", memory * (1 << 20) / system::PAGE)
            .put_i64("maxOpenFiles", system::max_open_files());
    }
    extra.end();
    Ok(Outcome::Reply)
}

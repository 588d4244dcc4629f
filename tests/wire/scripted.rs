//! The server under test: its handler does what the message asks for.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use sundown::config::Config;
use sundown::error::{Code, Error, Hangup};
use sundown::handler::{Answer, CallOutcome, Handler, Peer, Progress, Work};
use sundown::interrupt::tick;
use sundown::server::Server;
use sundown::value::DocBuf;
use sundown::wait::{Flag, Wait};
use sundown::wire::Request;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::raw::{Client, PATIENCE};

/// Answers `ping`, `hello` and `insert` (with the number of documents), and does odd things on demand.
#[derive(Default)]
pub struct Scripted {
    pub calls: AtomicUsize,
    pub abandoned: Arc<AtomicUsize>,
    pub streamed: Arc<AtomicUsize>,
    /// Ends `toil`, `wait`, `await` and `block`.
    pub release: Arc<Flag>,
}

/// How to make a reply that is sent when the test releases it.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    /// Steps without a pause.
    Toil,
    /// A step that waits, and one more step.
    Wait,
    /// A future that returns it.
    Await,
    /// A step that blocks its thread and counts its work.
    Block,
}

struct Held {
    until: Until,
    /// The server knows that the step blocks.
    announced: bool,
    release: Arc<Flag>,
    abandoned: Arc<AtomicUsize>,
}

/// `{work: steps, pause: milliseconds}`: this many steps, with a pause between them.
struct Steps {
    left: i64,
    pause: Duration,
    abandoned: Arc<AtomicUsize>,
    /// The reply is one of a stream, and not the last one.
    streams: bool,
}

impl Handler for Scripted {
    type Connection = ();

    fn open(&self, _: Peer) {}

    fn call(
        &self,
        (): &mut (),
        request: Request,
        reply: &mut Vec<u8>,
    ) -> Result<CallOutcome, Hangup> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let body = request.body();
        let first = body.first().expect("commands here are not empty");
        match first.name() {
            "ping" => put(reply, doc! {"ok": 1.0}),
            "hello" => put(
                reply,
                doc! {"db": request.query_database.clone().unwrap_or_default(), "ok": 1.0},
            ),
            "insert" => {
                let count = request
                    .sequences
                    .iter()
                    .map(|sequence| sequence.iter().count() as i32)
                    .sum::<i32>();
                put(reply, doc! {"n": count, "ok": 1.0});
            }
            "calls" => put(
                reply,
                doc! {"calls": self.calls.load(Ordering::SeqCst) as i32},
            ),
            "large" => {
                let size = first.value.as_i32().unwrap_or_default() as usize;
                put(reply, doc! {"filler": "x".repeat(size)});
            }
            // `{stream: replies}`: a stream of this many replies. With `pause`, each reply needs some work.
            "stream" => {
                let nth = self.streamed.fetch_add(1, Ordering::SeqCst) as i64 + 1;
                let more = nth < first.value.as_i64().unwrap_or_default();
                if let Some(pause) = body.get("pause").as_i64() {
                    return Ok(CallOutcome::Work(Box::new(Steps {
                        left: 2,
                        pause: Duration::from_millis(pause as u64),
                        abandoned: self.abandoned.clone(),
                        streams: more,
                    })));
                }
                put(reply, doc! {"nth": nth, "ok": 1.0});
                if more {
                    return Ok(CallOutcome::Streaming);
                }
            }
            "block" => return Ok(self.held(Until::Block)),
            "toil" => return Ok(self.held(Until::Toil)),
            "wait" => return Ok(self.held(Until::Wait)),
            "await" => return Ok(self.held(Until::Await)),
            "panic" => panic!("the test asked for it"),
            "hangup" => return Err(Hangup::new("the test asked for it")),
            "work" => {
                return Ok(CallOutcome::Work(Box::new(Steps {
                    left: first.value.as_i64().unwrap_or_default(),
                    pause: Duration::from_millis(
                        body.get("pause").as_i64().unwrap_or_default() as u64
                    ),
                    abandoned: self.abandoned.clone(),
                    streams: false,
                })));
            }
            name => Error::new(Code::CommandNotFound, format!("no such command: '{name}'"))
                .write_reply(reply),
        }
        Ok(CallOutcome::Replied)
    }
}

impl Scripted {
    fn held(&self, until: Until) -> CallOutcome {
        let held = Held {
            until,
            announced: false,
            release: self.release.clone(),
            abandoned: self.abandoned.clone(),
        };
        if until != Until::Await {
            return CallOutcome::Work(Box::new(held));
        }
        CallOutcome::Awaited(Box::pin(async move {
            held.release.wait_until_set().await;
            let document = DocBuf::from(doc! {"released": true, "ok": 1.0}).into_bytes();
            Ok(Answer {
                document: document.into(),
                streaming: false,
            })
        }))
    }
}

impl Work for Held {
    fn step(&mut self, reply: &mut Vec<u8>) -> Result<Progress, Hangup> {
        if self.until == Until::Block {
            if !std::mem::replace(&mut self.announced, true) {
                return Ok(Progress::Blocking);
            }
            while !self.release.is_set() {
                if let Err(ended) = tick(100) {
                    ended.write_reply(reply);
                    return Ok(Progress::Done);
                }
            }
        }
        if self.release.is_set() {
            put(reply, doc! {"released": true, "ok": 1.0});
            return Ok(Progress::Done);
        }
        Ok(match self.until {
            Until::Toil => Progress::More,
            _ => {
                let release = self.release.clone();
                let released = async move { release.wait_until_set().await };
                Progress::Wait(Wait::until(released))
            }
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.release.is_set() {
            self.abandoned.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Work for Steps {
    fn step(&mut self, reply: &mut Vec<u8>) -> Result<Progress, Hangup> {
        self.left -= 1;
        if self.left <= 0 {
            put(reply, doc! {"worked": true, "ok": 1.0});
            return Ok(match self.streams {
                true => Progress::Streaming,
                false => Progress::Done,
            });
        }
        Ok(if self.pause.is_zero() {
            Progress::More
        } else {
            Progress::Wait(Wait::sleep(self.pause))
        })
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if self.left > 0 {
            self.abandoned.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn put(reply: &mut Vec<u8>, document: Document) {
    reply.extend_from_slice(DocBuf::from(document).bytes());
}

pub struct Running {
    pub address: SocketAddr,
    pub handler: Arc<Scripted>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<usize>,
}

impl Running {
    pub async fn start() -> Self {
        Self::with(Config::default()).await
    }

    pub async fn with(config: Config) -> Self {
        Self::run(Config {
            shutdown_timeout: PATIENCE,
            ..config
        })
        .await
    }

    /// Starts a server that waits for no command when it stops.
    pub async fn impatient() -> Self {
        Self::run(Config {
            shutdown_timeout: Duration::ZERO,
            ..Config::default()
        })
        .await
    }

    async fn run(config: Config) -> Self {
        let server = Server::bind(Config { port: 0, ..config }).await.unwrap();
        let address = server.local_addr();
        assert_eq!(address.ip(), Ipv4Addr::LOCALHOST);
        assert_eq!(server.config().port, address.port());
        let handler = Arc::new(Scripted::default());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(handler.clone(), async {
            let _ = stopped.await;
        }));
        Self {
            address,
            handler,
            stop: Some(stop),
            task,
        }
    }

    pub async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    pub fn tell_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Returns the number of connections that the server abandoned.
    pub async fn stopped(self) -> usize {
        tokio::time::timeout(2 * PATIENCE, self.task)
            .await
            .expect("the server stops")
            .unwrap()
    }
}

//! What a thread of the runtime does before it waits for sockets, if a cluster answers the requests.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::monotonic;

/// A thread that has waited within this time is busy.
const BUSY: Duration = Duration::from_millis(1);

/// Lets the other threads of this core run first, if this thread is busy. To be called before each wait.
///
/// A proxy waits twice for each command, and each time for a thread that often shares its core: the client's, or that of a
/// cluster on the same machine. If these run now, what they send is there when this thread looks, so it reads several
/// messages at once, and neither side pays for a thread that goes to sleep and is woken. Where nothing else wants to run,
/// it costs one short system call. A thread that has little to do does not yield, because a core that others keep busy
/// would make its next command wait.
pub fn yield_if_busy() {
    thread_local! {
        static LAST_WAIT: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let now = monotonic();
    let last = LAST_WAIT.replace(Some(now));
    if last.is_some_and(|last| now.saturating_duration_since(last) < BUSY) {
        thread::yield_now();
    }
}

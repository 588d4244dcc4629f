//! What a computation that cannot be cut owes to others.
//!
//! Commands run on the runtime's workers in short steps. Some things have no steps: checking a large message, an expression that
//! loops for seconds over one document, a wait for the lock that its command holds. Meanwhile the tasks of that
//! worker wait, and everybody's sockets too if nobody else happens to look at them. Who knows beforehand that it will take long
//! runs [`uncut`]; who may loop counts its work with [`tick`], which looks up from it now and then: it leaves the worker's tasks to
//! another thread, and ends the work if the command was killed or its time is over.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::clock::monotonic;
use crate::error::{Code, Error, Result};
use crate::wait::{Flag, Wait};

/// What ends a command before it is done.
#[derive(Debug, Clone, Default)]
pub struct Limit {
    pub deadline: Option<Instant>,
    /// Set by killOp.
    pub killed: Option<Arc<Flag>>,
    /// Set when the result is no longer wanted: the client has left, or the server does not wait any longer.
    pub abandoned: Option<Arc<Flag>>,
}

/// Units of work (about a pass of a loop) between two looks at the clock.
const LOOK_EVERY: u32 = 4096;
/// Who has gone on for that long makes room for others, and again after as long.
const LONG: Duration = Duration::from_millis(10);
/// How long to wait for another thread to take over. If all are busy, the next time will do.
const HAND_OVER: Duration = Duration::from_millis(2);

thread_local! {
    static UNTIL_LOOK: Cell<u32> = const { Cell::new(LOOK_EVERY) };
    /// When this thread's step began, or when it last made room.
    static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
    static LIMIT: RefCell<Limit> = const { RefCell::new(Limit::NONE) };
}

/// Runs what takes a while, and leaves the other tasks of this worker to another thread meanwhile.
pub fn uncut<R>(work: impl FnOnce() -> R) -> R {
    // A program that embeds the server may have a runtime with one thread, and a library's user none: nobody takes over there.
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
            block_in_place(work)
        }
        _ => work(),
    }
}

/// How work in the background goes on behind one of its steps.
pub enum Background {
    Done,
    /// When others had their turn.
    More,
    /// When this is over.
    Wait(Wait),
}

/// Has the runtime do work in steps that nobody waits for, until one says that it is done. Where there is no runtime it is done
/// at once. Work that panics is dropped like any other.
pub fn in_background(mut step: impl FnMut() -> Background + Send + 'static) {
    let runtime = Handle::try_current();
    let work = async move {
        loop {
            match step() {
                Background::Done => return,
                Background::More => tokio::task::yield_now().await,
                Background::Wait(wait) => wait.await,
            }
        }
    };
    match runtime {
        Ok(runtime) => drop(runtime.spawn(work)),
        Err(_) => match Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime.block_on(work),
            Err(problem) => tracing::error!("work in the background is given up: {problem}"),
        },
    }
}

/// Counts units of work; fails when the command is to end. Where nothing can fail, the failure may be passed over as long as somebody
/// counts again who reports it.
#[inline]
pub fn tick(units: u32) -> Result<()> {
    #[cfg(test)]
    observe::ticked(units);
    match UNTIL_LOOK.get().checked_sub(units) {
        Some(left) => {
            UNTIL_LOOK.set(left);
            Ok(())
        }
        None => look_up(),
    }
}

/// The same for a look at each of many things.
#[inline]
pub fn tick_each<T>(all: &[T]) -> Result<()> {
    tick(u32::try_from(all.len()).unwrap_or(u32::MAX))
}

/// The same for looking through so many bytes once. What is small is not counted.
#[inline]
pub fn tick_read(bytes: usize) -> Result<()> {
    const UNIT: usize = 4096;
    if bytes < UNIT {
        return Ok(());
    }
    tick(u32::try_from(bytes / UNIT).unwrap_or(u32::MAX))
}

#[cold]
fn look_up() -> Result<()> {
    UNTIL_LOOK.set(LOOK_EVERY);
    let now = monotonic();
    if SINCE.get().is_none_or(|since| now - since >= LONG) {
        make_room();
        SINCE.set(Some(monotonic()));
    }
    let checked = LIMIT.with_borrow(|limit| limit.check_at(|| now));
    if checked.is_err() {
        // Whoever counts where nothing can fail passes this over: the next to count looks again.
        UNTIL_LOOK.set(0);
    }
    checked
}

/// Waits until somebody else serves the runtime's tasks, so that going on holds up nobody. `uncut` alone would not do: the work goes
/// on behind it, and a worker that comes back at once keeps its tasks.
fn make_room() {
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    uncut(|| {
        let (tell, served) = sync_channel(1);
        runtime.spawn(async move {
            let _ = tell.send(());
        });
        let _ = served.recv_timeout(HAND_OVER);
    });
}

// === impl Limit ===

impl Limit {
    const NONE: Self = Self {
        deadline: None,
        killed: None,
        abandoned: None,
    };

    /// That of work which is worth nothing once the flag is set.
    pub fn until_abandoned(abandoned: Arc<Flag>) -> Self {
        Self {
            abandoned: Some(abandoned),
            ..Self::NONE
        }
    }

    /// Runs a step under this limit: whatever it does can be ended by it. A step that can be abandoned stays so in the steps
    /// inside it.
    pub fn watch<R>(&self, step: impl FnOnce() -> R) -> R {
        /// Puts back what held before, however the step ends.
        struct Before(Limit);
        impl Drop for Before {
            fn drop(&mut self) {
                LIMIT.set(std::mem::take(&mut self.0));
            }
        }
        SINCE.set(Some(monotonic()));
        let mut limit = self.clone();
        let _before = Before(LIMIT.with_borrow_mut(|before| {
            if limit.abandoned.is_none() {
                limit.abandoned.clone_from(&before.abandoned);
            }
            std::mem::replace(before, limit)
        }));
        step()
    }

    /// A limit of time, for tests in rooms that do not know the clock.
    #[cfg(test)]
    pub fn within(time: Duration) -> Self {
        Self {
            deadline: Some(monotonic() + time),
            ..Self::NONE
        }
    }

    /// That of a command that was killed.
    #[cfg(test)]
    pub fn of_killed() -> Self {
        let killed = Arc::new(Flag::default());
        killed.set();
        Self {
            killed: Some(killed),
            ..Self::NONE
        }
    }

    /// Whether it is time to end, and why.
    pub fn check(&self) -> Result<()> {
        self.check_at(monotonic)
    }

    /// A wait that ends with the command: what ended it is found by [`Limit::check`] afterwards.
    pub fn bound(&self, mut wait: Wait) -> Wait {
        if let Some(killed) = &self.killed {
            wait = wait.unless(Arc::clone(killed));
        }
        match self.deadline {
            Some(deadline) => wait.no_later_than(deadline),
            None => wait,
        }
    }

    fn check_at(&self, now: impl FnOnce() -> Instant) -> Result<()> {
        let mut flags = self.killed.iter().chain(&self.abandoned);
        if flags.any(|flag| flag.is_set()) {
            return Err(Error::new(Code::Interrupted, "operation was interrupted"));
        }
        match self.deadline {
            Some(deadline) if now() >= deadline => Err(expired()),
            _ => Ok(()),
        }
    }
}

/// What a command is told whose time is over.
pub fn expired() -> Error {
    Error::new(Code::MaxTimeMSExpired, "operation exceeded time limit")
}

/// For tests: whoever counts work is seen to do so.
#[cfg(test)]
pub mod observe {
    use std::cell::RefCell;

    type Observer = Box<dyn FnMut(u32)>;

    thread_local! {
        static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
    }

    /// Runs something and tells `each` of every call of [`super::tick`] on this thread meanwhile. It is not called for its own.
    pub fn ticks<R>(each: impl FnMut(u32) + 'static, run: impl FnOnce() -> R) -> R {
        OBSERVER.set(Some(Box::new(each)));
        let result = run();
        OBSERVER.take();
        result
    }

    /// The units that something counts.
    pub fn units<R>(run: impl FnOnce() -> R) -> (R, u64) {
        let sum = std::rc::Rc::new(std::cell::Cell::new(0_u64));
        let counted = std::rc::Rc::clone(&sum);
        let result = ticks(
            move |units| counted.set(counted.get() + u64::from(units)),
            run,
        );
        (result, sum.get())
    }

    pub(super) fn ticked(units: u32) {
        OBSERVER.with(|observer| {
            if let Ok(mut observer) = observer.try_borrow_mut()
                && let Some(each) = observer.as_mut()
            {
                each(units);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes on until it is told not to.
    fn work() -> Error {
        loop {
            if let Err(error) = tick(100) {
                return error;
            }
        }
    }

    #[test]
    fn work_ends_at_its_limit_and_the_next_one_has_none() {
        let over = Limit {
            deadline: Some(monotonic()),
            ..Limit::default()
        };
        assert_eq!(over.watch(work).code(), Code::MaxTimeMSExpired);
        let killed = Limit::of_killed();
        assert_eq!(killed.watch(work).code(), Code::Interrupted);
        for _ in 0..3 {
            assert!(tick(LOOK_EVERY).is_ok());
        }
    }

    #[test]
    fn work_that_is_abandoned_ends_inside_the_limits_of_its_command() {
        let abandoned = Arc::new(Flag::default());
        let outside = Limit::until_abandoned(Arc::clone(&abandoned));
        let long = Limit::within(Duration::from_secs(3600));
        let ended = outside.watch(|| {
            abandoned.set();
            long.watch(work)
        });
        assert_eq!(ended.code(), Code::Interrupted);
        assert!(tick(LOOK_EVERY + 1).is_ok());
    }

    #[test]
    fn a_limit_is_taken_back_from_a_step_that_panics() {
        let over = Limit {
            deadline: Some(monotonic()),
            ..Limit::default()
        };
        let panicked = std::panic::catch_unwind(|| over.watch(|| panic!("as a bug does")));
        assert!(panicked.is_err());
        assert!(tick(LOOK_EVERY + 1).is_ok());
    }

    #[tokio::test]
    async fn a_wait_ends_at_the_limit_of_its_command() {
        let forever = || Wait::until(std::future::pending());
        let over = Limit {
            deadline: Some(monotonic()),
            killed: Some(Arc::default()),
            ..Limit::default()
        };
        over.bound(forever()).await;
        Limit::of_killed().bound(forever()).await;
        Limit::default().bound(Wait::until(async {})).await;
    }
}

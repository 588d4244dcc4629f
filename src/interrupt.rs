//! Long computations that leave the worker to other tasks.
//!
//! Commands run on the runtime's workers in short steps. Some computations have no steps: checking a large message, an
//! expression that loops for seconds over one document, a wait for a lock. Meanwhile the other tasks of that worker wait,
//! and so do all sockets if no other worker polls them. Code that takes long for sure runs in [`run_blocking`]. Code that
//! may loop counts its work with [`tick`]. Now and then `tick` hands the worker's tasks to another thread, and it returns
//! an error if the command was killed or its deadline has passed.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::clock::monotonic;
use crate::error::{Code, Error, Result};
use crate::wait::{Flag, Wait};

/// The conditions that end a command early.
#[derive(Debug, Clone, Default)]
pub struct Limit {
    pub deadline: Option<Instant>,
    /// Set by killOp.
    pub killed: Option<Arc<Flag>>,
    /// Set when the result is no longer wanted: the client has disconnected, or a server that shuts down waits no longer.
    pub abandoned: Option<Arc<Flag>>,
}

/// Checking, rewriting or inflating a message of this size takes about a millisecond or more.
pub const LARGE: usize = 2 * 1024 * 1024;
/// So does compressing a message of this size.
pub const LARGE_TO_COMPRESS: usize = 128 * 1024;

/// Units of work (about one pass of a loop) between two reads of the clock.
const LOOK_EVERY: u32 = 4096;
/// A computation hands over the worker's tasks after this time, and again after each such time.
const LONG: Duration = Duration::from_millis(10);
/// How long to wait for another thread to take over. If all are busy, the computation goes on and tries again later.
const HAND_OVER: Duration = Duration::from_millis(2);

thread_local! {
    static UNTIL_LOOK: Cell<u32> = const { Cell::new(LOOK_EVERY) };
    /// When this thread's step began, or when it last handed over the worker's tasks.
    static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
    static LIMIT: RefCell<Limit> = const { RefCell::new(Limit::NONE) };
}

/// Runs a long computation. Meanwhile another thread runs the other tasks of this worker.
pub fn run_blocking<R>(work: impl FnOnce() -> R) -> R {
    // A program that embeds the server may have a runtime with one thread, and a user of the library may have none. No
    // other thread can take over there.
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
            block_in_place(work)
        }
        _ => work(),
    }
}

/// Runs a computation over a message of this size. Other tasks do not wait for a [`LARGE`] one.
pub fn run_over<R>(size: usize, work: impl FnOnce() -> R) -> R {
    match size < LARGE {
        true => work(),
        false => run_blocking(work),
    }
}

/// Waits in the middle of a step, for code that cannot return to its task. Meanwhile another thread runs the other tasks of this
/// worker. Returns an error if the command must end.
pub fn wait_here(wait: Wait) -> Result<()> {
    let wait = LIMIT.with_borrow(|limit| limit.ends(wait));
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
            block_in_place(|| runtime.block_on(wait));
        }
        // Nobody else can run here, so all that is left is to look again soon.
        _ => std::thread::sleep(Duration::from_millis(1)),
    }
    look_up()
}

/// How background work continues after a step.
pub enum Background {
    Done,
    /// Run the next step after other tasks had their turn.
    More,
    /// Run the next step when this wait is over.
    Wait(Wait),
}

/// Runs work in the background, step by step, until a step returns `Done`. Without a runtime it runs all steps at once,
/// before it returns. Work that panics is dropped.
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

/// Counts units of work. Returns an error if the command must end. A caller that cannot fail may ignore the error, if a
/// later caller counts again and reports it.
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

/// Counts one unit for each element.
#[inline]
pub fn tick_each<T>(all: &[T]) -> Result<()> {
    tick(u32::try_from(all.len()).unwrap_or(u32::MAX))
}

/// Counts the work of reading this many bytes once. Small numbers count nothing.
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
        // A caller that cannot fail ignores this error, so the next call of `tick` must check again.
        UNTIL_LOOK.set(0);
    }
    checked
}

/// Waits until another thread runs the runtime's tasks, so that the computation delays no other task. `run_blocking` alone
/// is not enough: the computation continues after it, and a worker that returns at once from `run_blocking` keeps its
/// tasks.
fn make_room() {
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    run_blocking(|| {
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

    /// Returns the limit of work that is worthless once the flag is set.
    pub fn until_abandoned(abandoned: Arc<Flag>) -> Self {
        Self {
            abandoned: Some(abandoned),
            ..Self::NONE
        }
    }

    /// Runs a step under this limit, which can then end all code inside the step. Nested steps inherit the `abandoned`
    /// flag.
    pub fn watch<R>(&self, step: impl FnOnce() -> R) -> R {
        /// Restores the previous limit, however the step ends.
        struct RestoreLimit(Limit);
        impl Drop for RestoreLimit {
            fn drop(&mut self) {
                LIMIT.set(std::mem::take(&mut self.0));
            }
        }
        SINCE.set(Some(monotonic()));
        let mut limit = self.clone();
        let _before = RestoreLimit(LIMIT.with_borrow_mut(|before| {
            if limit.abandoned.is_none() {
                limit.abandoned.clone_from(&before.abandoned);
            }
            std::mem::replace(before, limit)
        }));
        step()
    }

    /// Returns the wait, which also ends when this limit is reached.
    fn ends(&self, mut wait: Wait) -> Wait {
        for flag in [&self.killed, &self.abandoned].into_iter().flatten() {
            wait = wait.unless(Arc::clone(flag));
        }
        match self.deadline {
            Some(deadline) => wait.no_later_than(deadline),
            None => wait,
        }
    }

    /// Returns a time limit, for tests in modules that do not know the clock.
    #[cfg(test)]
    pub fn within(time: Duration) -> Self {
        Self {
            deadline: Some(monotonic() + time),
            ..Self::NONE
        }
    }

    /// Returns the limit of a command that was killed.
    #[cfg(test)]
    pub fn of_killed() -> Self {
        let killed = Arc::new(Flag::default());
        killed.set();
        Self {
            killed: Some(killed),
            ..Self::NONE
        }
    }

    /// Returns an error if the command must end.
    pub fn check(&self) -> Result<()> {
        self.check_at(monotonic)
    }

    /// Ends a wait together with the command. [`Limit::check`] tells afterwards whether the command must end.
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

/// The error of a command whose time is up.
pub fn expired() -> Error {
    Error::new(Code::MaxTimeMSExpired, "operation exceeded time limit")
}

/// For tests: observes the calls of `tick`.
#[cfg(test)]
pub mod observe {
    use std::cell::RefCell;

    type Observer = Box<dyn FnMut(u32)>;

    thread_local! {
        static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
    }

    /// Runs `run` and calls `each` for every call of [`super::tick`] on this thread meanwhile, except for calls from `each`
    /// itself.
    pub fn ticks<R>(each: impl FnMut(u32) + 'static, run: impl FnOnce() -> R) -> R {
        OBSERVER.set(Some(Box::new(each)));
        let result = run();
        OBSERVER.take();
        result
    }

    /// Returns the units that `run` counts.
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

    /// Counts work until it gets an error.
    fn work() -> Error {
        loop {
            if let Err(error) = tick(100) {
                return error;
            }
        }
    }

    #[test]
    fn work_ends_at_its_limit_and_the_next_work_has_no_limit() {
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
    fn abandoned_work_keeps_the_limit_of_its_command() {
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
    fn a_limit_is_removed_after_a_panic() {
        let over = Limit {
            deadline: Some(monotonic()),
            ..Limit::default()
        };
        let panicked = std::panic::catch_unwind(|| over.watch(|| panic!("as a bug does")));
        assert!(panicked.is_err());
        assert!(tick(LOOK_EVERY + 1).is_ok());
    }

    /// The computation waits here for what only another task does.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_do_not_wait_for_work_over_a_large_message() {
        let work = tokio::spawn(async {
            let (tell, served) = sync_channel(1);
            tokio::spawn(async move {
                let _ = tell.send(());
            });
            run_over(LARGE, || served.recv_timeout(Duration::from_secs(60)))
        });
        assert_eq!(work.await.unwrap(), Ok(()));
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

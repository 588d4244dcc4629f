//! Waiting to be woken, instead of looking again and again.
//!
//! A command that cannot go on returns a [`Wait`] from its step, and the server steps it again when the wait is over. It waits
//! for a [`Flag`] (set once: an operation was killed), for a [`Signal`] (given again and again: a document has come), for time, or
//! for any other future. Whoever waits has to begin listening before looking whether it has to wait, so that nothing happens
//! unnoticed in between.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// What somebody waits for. It may be dropped at any time.
pub struct Wait(Pin<Box<dyn Future<Output = ()> + Send>>);

/// Set once and for all, and seen by everybody who looks or waits.
#[derive(Debug, Default)]
pub struct Flag {
    set: AtomicBool,
    told: Notify,
}

/// Tells all who listen that something has changed. Costs one relaxed load while nobody listens.
///
/// What has changed must be guarded by a lock: the signal is given in the lock hold that changes it, and those who listen look
/// at it under that lock afterwards. The lock then orders the two, so that either the listener sees the change or the one
/// that makes it sees the listener.
#[derive(Debug, Default)]
pub struct Signal(Arc<Notify>);

// === impl Wait ===

impl Wait {
    pub fn until(end: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(end))
    }

    /// Begins when it is first polled. Needs no runtime before that.
    pub fn sleep(time: Duration) -> Self {
        Self::until(async move { tokio::time::sleep(time).await })
    }

    /// The same, but no longer than until then.
    #[must_use]
    pub fn no_later_than(self, end: Instant) -> Self {
        Self::until(async move {
            let _ = tokio::time::timeout_at(end.into(), self).await;
        })
    }

    /// The same, but over as soon as the flag is set.
    #[must_use]
    pub fn unless(self, flag: Arc<Flag>) -> Self {
        Self::until(async move {
            tokio::select! {
                () = self => {}
                () = flag.is_set_at_last() => {}
            }
        })
    }
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wait")
    }
}

// === impl Flag ===

impl Flag {
    pub fn set(&self) {
        self.set.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    #[inline]
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Completes when it is set.
    pub async fn is_set_at_last(&self) {
        let told = self.told.notified();
        if !self.is_set() {
            told.await;
        }
    }
}

// === impl Signal ===

impl Signal {
    /// Wakes all who listen. Call it in the lock hold that makes the change.
    #[inline]
    pub fn give(&self) {
        // Everybody who listens holds a reference.
        if Arc::strong_count(&self.0) > 1 {
            self.0.notify_waiters();
        }
    }

    /// Completes when the signal is next given, from now on, whether it was polled before or not.
    pub fn listen(&self) -> OwnedNotified {
        Arc::clone(&self.0).notified_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it is over, without waiting for it.
    fn is_over(wait: &mut Wait) -> bool {
        let mut nobody = Context::from_waker(std::task::Waker::noop());
        Pin::new(wait).poll(&mut nobody).is_ready()
    }

    #[test]
    fn a_flag_ends_a_wait_whether_it_is_set_before_or_meanwhile() {
        let flag = Arc::new(Flag::default());
        let forever = || Wait::until(std::future::pending()).unless(Arc::clone(&flag));
        let (mut before, mut late) = (forever(), forever());
        assert!(!is_over(&mut before));
        flag.set();
        assert!(is_over(&mut before));
        assert!(is_over(&mut late));
        assert!(flag.is_set());
    }

    #[test]
    fn a_signal_is_heard_by_those_who_listened_before_it() {
        let signal = Signal::default();
        signal.give();
        let mut polled = Wait::until(signal.listen());
        let mut never_polled = Wait::until(signal.listen());
        assert!(!is_over(&mut polled));
        signal.give();
        let mut late = Wait::until(signal.listen());
        assert!(is_over(&mut polled));
        assert!(is_over(&mut never_polled));
        assert!(!is_over(&mut late));
        drop((polled, never_polled, late));
        assert_eq!(Arc::strong_count(&signal.0), 1, "nobody listens");
    }
}

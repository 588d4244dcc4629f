//! Waiting without polling.
//!
//! A command that cannot continue returns a [`Wait`] from its step, and the server steps it again when the wait is over. It
//! can wait for a [`Flag`] (set once: an operation was killed), for a [`Signal`] (given repeatedly: a document was
//! inserted), for time, or for any other future. A waiter must start to listen before it checks whether it has to wait, so
//! that it misses nothing in between.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// A future that a command waits for. It may be dropped at any time.
pub struct Wait(Pin<Box<dyn Future<Output = ()> + Send>>);

/// A flag that is set once and never cleared. It can be read, and awaited.
#[derive(Debug, Default)]
pub struct Flag {
    set: AtomicBool,
    notify: Notify,
}

/// A signal that wakes all listeners when something has changed. Costs one relaxed load while there are no listeners.
///
/// A lock must guard the value that changes. The writer gives the signal in the same lock hold in which it changes the
/// value, and a listener reads the value under that lock after it has started to listen. The lock orders the two: either
/// the listener sees the change, or the writer sees the listener.
#[derive(Debug, Default)]
pub struct Signal(Arc<Notify>);

/// A signal for many listeners that costs its giver no more than one listener does: it wakes one, and that one wakes the
/// others.
///
/// It follows the rules of [`Signal`], except that it may be given after the lock was released.
#[derive(Debug, Default)]
pub struct WakeRelay {
    /// Wakes one listener, or the next one that listens.
    first: Arc<Notify>,
    /// Wakes all that listen.
    others: Arc<Notify>,
}

/// A limited number of permits. Who finds none waits in a queue.
#[derive(Debug, Clone)]
pub struct Permits(Arc<Semaphore>);

/// A permit. Dropping it gives it to the next one in the queue.
#[derive(Debug)]
pub struct Permit {
    _permit: OwnedSemaphorePermit,
}

/// Where a permit is put for its owner. A wait for permits must not end without one: if those who wake had to ask again, they would
/// meet others in the queue, and pass the permit round for ever.
#[derive(Debug, Clone, Default)]
pub struct PermitSlot(Arc<Mutex<Option<Permit>>>);

// === impl Wait ===

impl Wait {
    pub fn until(end: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(end))
    }

    /// Waits for this time. The time starts at the first poll. Needs no runtime before that.
    pub fn sleep(time: Duration) -> Self {
        Self::until(async move { tokio::time::sleep(time).await })
    }

    /// Ends the wait at `end` at the latest.
    #[must_use]
    pub fn no_later_than(self, end: Instant) -> Self {
        Self::until(async move {
            let _ = tokio::time::timeout_at(end.into(), self).await;
        })
    }

    /// Ends the wait as soon as the flag is set.
    #[must_use]
    pub fn unless(self, flag: Arc<Flag>) -> Self {
        Self::until(async move {
            tokio::select! {
                () = self => {}
                () = flag.wait_until_set() => {}
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
        self.notify.notify_waiters();
    }

    #[inline]
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Completes when the flag is set.
    pub async fn wait_until_set(&self) {
        let notify = self.notify.notified();
        if !self.is_set() {
            notify.await;
        }
    }
}

// === impl Signal ===

impl Signal {
    /// Wakes all listeners. Call it in the lock hold that makes the change.
    #[inline]
    pub fn give(&self) {
        // Every listener holds a reference.
        if Arc::strong_count(&self.0) > 1 {
            self.0.notify_waiters();
        }
    }

    /// Returns a future that completes at the next signal after this call, even if it was not polled before that.
    pub fn listen(&self) -> OwnedNotified {
        Arc::clone(&self.0).notified_owned()
    }
}

// === impl WakeRelay ===

impl WakeRelay {
    #[inline]
    pub fn give(&self) {
        // Every listener holds a reference.
        if Arc::strong_count(&self.first) > 1 {
            self.first.notify_one();
        }
    }

    /// Returns a future that completes at the next signal after this call, even if it was not polled before that. It may
    /// also complete without a signal.
    pub fn listen(&self) -> impl Future<Output = ()> + Send + use<> {
        let (first, others) = (Arc::clone(&self.first), Arc::clone(&self.others));
        let woken = Arc::clone(&self.others).notified_owned();
        async move {
            tokio::select! {
                () = first.notified() => others.notify_waiters(),
                () = woken => {}
            }
        }
    }
}

// === impl Permits ===

impl Permits {
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Puts a permit into an empty slot, or returns a wait at whose end it is there.
    pub fn fill(&self, slot: &PermitSlot) -> Option<Wait> {
        let permits = Arc::clone(&self.0);
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            slot.put(permit);
            return None;
        }
        let slot = slot.clone();
        Some(Wait::until(async move {
            if let Ok(permit) = permits.acquire_owned().await {
                slot.put(permit);
            }
        }))
    }
}

// === impl PermitSlot ===

impl PermitSlot {
    fn put(&self, permit: OwnedSemaphorePermit) {
        *self.0.lock() = Some(Permit { _permit: permit });
    }

    pub fn is_filled(&self) -> bool {
        self.0.lock().is_some()
    }

    pub fn take(&self) -> Option<Permit> {
        self.0.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the wait is over, without waiting for it.
    fn is_over(wait: &mut Wait) -> bool {
        let mut nobody = Context::from_waker(std::task::Waker::noop());
        Pin::new(wait).poll(&mut nobody).is_ready()
    }

    #[test]
    fn a_flag_ends_a_wait_if_set_before_or_during_it() {
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
    fn a_signal_wakes_those_who_waited_before_it() {
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

    #[test]
    fn a_permit_goes_to_one_after_the_other() {
        let permits = Permits::new(1);
        let slots: [PermitSlot; 4] = Default::default();
        assert!(permits.fill(&slots[0]).is_none());
        let mut waits: Vec<_> = slots[1..]
            .iter()
            .map(|slot| permits.fill(slot).unwrap())
            .collect();
        let filled = || slots.iter().position(PermitSlot::is_filled);
        assert!(!waits.iter_mut().any(is_over));
        for expected in 0..4 {
            assert_eq!(filled(), Some(expected));
            assert_eq!(slots.iter().filter(|slot| slot.is_filled()).count(), 1);
            drop(slots[expected].take());
            // A future that is over must not be polled again.
            let next = (expected < 3).then(|| is_over(&mut waits[expected]));
            assert_ne!(next, Some(false));
        }
        assert!(permits.fill(&slots[0]).is_none());
    }

    #[test]
    fn a_relay_wakes_one_listener_and_that_one_the_others() {
        let relay = WakeRelay::default();
        relay.give();
        let mut all: Vec<Wait> = (0..3).map(|_| Wait::until(relay.listen())).collect();
        for wait in &mut all {
            assert!(!is_over(wait), "a signal before the listener came is none");
        }
        relay.give();
        let woken = all
            .iter_mut()
            .filter_map(|wait| is_over(wait).then_some(()));
        assert_eq!(woken.count(), 3);
        // A listener that was never polled has missed nothing either.
        let mut polled_late = Wait::until(relay.listen());
        relay.give();
        assert!(is_over(&mut polled_late));
        drop((all, polled_late));
        assert_eq!(Arc::strong_count(&relay.first), 1, "nobody listens");
    }
}

use std::pin::Pin;
use std::task::{Context, Wake, Waker};

use super::*;
use crate::storage::Namespace;
use crate::value::DocBuf;

const NOW: Millis = Millis(1_000_000);

fn op() -> LogOp {
    LogOp::Insert {
        document: DocBuf::new(),
    }
}

fn subject() -> Arc<LogSubject> {
    Arc::new(LogSubject {
        namespace: Namespace::new("db", "c"),
        uuid: None,
    })
}

fn times(log: &ChangeLog, from: LogPosition) -> Result<Vec<ClusterTime>, HistoryLost> {
    let mut times = Vec::new();
    log.read(from, |entry| {
        times.push(entry.time);
        true
    })?;
    Ok(times)
}

#[test]
fn entries_are_found_by_time_and_read_in_order() {
    let (log, clock) = (ChangeLog::default(), LogicalClock::default());
    log.start(&clock, NOW);
    for after in [0, 500, 1_000, -3_000] {
        log.turn(&clock, Millis(NOW.0 + after))
            .append(&subject(), op());
    }
    let all = times(&log, log.seek(ClusterTime(0)).unwrap()).unwrap();
    assert_eq!(all.len(), 4);
    assert!(all.is_sorted());
    for (nth, &time) in all.iter().enumerate() {
        let at = log.seek(time).unwrap();
        assert_eq!(times(&log, at).unwrap(), all[nth..]);
    }
    let (end, reached) = log.read(log.seek(all[3]).unwrap(), |_| true).unwrap();
    assert!(reached);
    assert_eq!(end, log.end());
    assert_eq!(times(&log, end).unwrap(), []);
}

/// A start before recording began is refused only if something may have been written since.
#[test]
fn the_log_knows_what_it_has_missed() {
    let at = |seconds: u32| ClusterTime::from_parts(seconds, 1);
    let (log, clock) = (ChangeLog::default(), LogicalClock::default());
    log.start(&clock, NOW);
    assert!(log.seek(ClusterTime(0)).is_ok(), "nothing was ever written");

    let (log, clock) = (ChangeLog::default(), LogicalClock::default());
    assert!(!log.note_write(NOW));
    assert!(log.is_indifferent(NOW));
    assert!(!log.is_indifferent(Millis(NOW.0 + 1_000)));
    log.start(&clock, Millis(NOW.0 + 5_000));
    assert!(log.note_write(NOW), "recording");
    assert_eq!(log.seek(at(999)), Err(HistoryLost));
    assert_eq!(log.seek(at(1_000)), Err(HistoryLost));
    assert!(log.seek(at(1_001)).is_ok());
}

#[test]
fn the_oldest_entries_go_first() {
    let (log, clock) = (ChangeLog::default(), LogicalClock::default());
    log.start(&clock, NOW);
    log.turn(&clock, NOW).append(&subject(), op());
    let first = log.seek(ClusterTime(0)).unwrap();
    let time = times(&log, first).unwrap()[0];
    let weight = log.kept.read().bytes;
    let age = Duration::from_secs(10);
    log.set_limits(LogLimits {
        bytes: 2 * weight,
        age,
    });
    log.turn(&clock, NOW).append(&subject(), op());
    assert!(log.seek(time).is_ok());
    log.turn(&clock, NOW).append(&subject(), op());
    assert_eq!(log.seek(time), Err(HistoryLost));
    assert_eq!(times(&log, first), Err(HistoryLost));
    assert_eq!(log.kept.read().entries.len(), 2);
    // By age, too. The newest entry stays.
    log.turn(&clock, Millis(NOW.0 + 10_001))
        .append(&subject(), op());
    assert_eq!(log.kept.read().entries.len(), 1);
}

/// Counts how often its task is woken.
#[derive(Default)]
struct Wakes(AtomicU64);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Some followers of one scope, which wait.
struct Crowd {
    wakes: Arc<Wakes>,
    waits: Vec<Wait>,
}

impl Crowd {
    fn of(count: usize, log: &ChangeLog, scope: &LogScope) -> Self {
        let mut crowd = Self {
            wakes: Arc::default(),
            waits: (0..count).map(|_| log.arrival(scope)).collect(),
        };
        assert_eq!(crowd.over(), 0);
        crowd
    }

    /// Polls those who wait, and returns how many waits are over.
    fn over(&mut self) -> usize {
        let waker = Waker::from(Arc::clone(&self.wakes));
        let mut cx = Context::from_waker(&waker);
        let before = self.waits.len();
        self.waits
            .retain_mut(|wait| Pin::new(wait).poll(&mut cx).is_pending());
        before - self.waits.len()
    }

    fn wakes(&self) -> u64 {
        self.wakes.0.load(Ordering::SeqCst)
    }
}

/// However many follow the log, a write wakes one follower of each name that it is about. That one wakes the others.
#[test]
fn a_write_wakes_one_of_those_who_follow_its_collection() {
    const MANY: usize = 1_000;
    let (log, clock) = (ChangeLog::default(), LogicalClock::default());
    log.start(&clock, NOW);
    let mut own = Crowd::of(MANY, &log, &LogScope::collection("db", "c"));
    let mut database = Crowd::of(2, &log, &LogScope::database("db"));
    let mut all = Crowd::of(2, &log, &LogScope::everything());
    let mut others: Vec<Crowd> = (0..MANY)
        .map(|number| LogScope::collection("db", &format!("c{number}")))
        .chain([LogScope::collection("d", "b.c"), LogScope::database("d")])
        .map(|scope| Crowd::of(1, &log, &scope))
        .collect();
    log.turn(&clock, NOW).append(&subject(), op());
    let wakes = [own.wakes(), database.wakes(), all.wakes()];
    assert_eq!(wakes, [1; 3]);
    assert!(others.iter().all(|other| other.wakes() == 0));
    assert_eq!([own.over(), database.over(), all.over()], [MANY, 2, 2]);
    assert!(others.iter_mut().all(|other| other.over() == 0));
    drop(others);
    assert_eq!(log.followers.waiting(), (0, 0), "nobody waits");
}

#[test]
fn a_rename_wakes_those_who_follow_either_name() {
    let (log, clock) = (ChangeLog::default(), LogicalClock::default());
    log.start(&clock, NOW);
    let mut crowds = [("db", "c"), ("d2", "e"), ("db", "e")]
        .map(|(database, collection)| LogScope::collection(database, collection))
        .map(|scope| Crowd::of(1, &log, &scope));
    let renamed = LogOp::Rename {
        to: Namespace::new("d2", "e"),
        replaced: None,
    };
    log.turn(&clock, NOW).append(&subject(), renamed);
    assert_eq!(crowds.each_mut().map(Crowd::over), [1, 1, 0]);
}

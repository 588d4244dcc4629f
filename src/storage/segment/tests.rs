use super::*;

fn stamp(ts: i64) -> Stamp {
    Stamp {
        ts: Millis(ts),
        own: OwnTtl::NONE,
        dates: End::NEVER,
        pending: End::NEVER,
    }
}

fn text(segment: &Segment, id: u16) -> Option<Vec<u8>> {
    segment
        .get(id, DefaultTtl::Off)
        .map(|stored| stored.bytes.to_vec())
}

#[test]
fn a_slot_takes_no_more_than_the_memory_budget_allows() {
    assert_eq!(size_of::<Slot>(), 24);
}

#[test]
fn ids_survive_replacement_removal_and_compaction() {
    let mut segment = Segment::new(None);
    let document = |n: u16, len: usize| vec![n as u8; len];
    for n in 0..200 {
        assert_eq!(segment.push(&document(n, 500), stamp(i64::from(n))), n);
    }
    for n in (0..200).filter(|n| n % 10 != 3) {
        assert_eq!(segment.remove(n), 500);
    }
    segment.compact_if_worth_it();
    assert!(
        segment.allocated() < 20 * 500 + 21 * 24 + 1000,
        "{}",
        segment.allocated()
    );
    for n in 0..200 {
        let expected = (n % 10 == 3).then(|| document(n, 500));
        assert_eq!(text(&segment, n), expected, "{n}");
    }
    // A shorter document stays in place, a longer one moves to the end. Both keep their ids.
    segment.replace(13, &document(1, 10), stamp(5));
    segment.replace(23, &document(2, 5_000), stamp(5));
    assert_eq!(text(&segment, 13), Some(document(1, 10)));
    assert_eq!(text(&segment, 23), Some(document(2, 5_000)));
    segment.replace(13, &document(9, 70_000), stamp(5));
    assert_eq!(text(&segment, 13), Some(document(9, 70_000)));
    segment.replace(13, &document(1, 10), stamp(5));
    assert_eq!(text(&segment, 13), Some(document(1, 10)));
    // Id 199 was the last one given out and is not given out again.
    assert_eq!(segment.push(b"x", stamp(1)), 200);
}

#[test]
fn ended_documents_are_counted_exactly_and_not_shown() {
    let mut segment = Segment::new(None);
    for n in 0..10 {
        segment.push(b"12345", stamp(n * 1000));
    }
    let default = DefaultTtl::Seconds(3);
    let now = Millis(6_000);
    assert_eq!(
        segment.ended_totals(default, now),
        Totals {
            count: 4,
            bytes: 20
        }
    );
    assert_eq!(
        segment.ended(0, default, now).collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
    let mut up = Vec::new();
    let all = segment.each_up(0, default, now, |id, _| {
        up.push(id);
        ControlFlow::<()>::Continue(())
    });
    assert!(all.is_continue());
    assert_eq!(up, [4, 5, 6, 7, 8, 9]);
    let mut down = Vec::new();
    let some = segment.each_down(7, default, now, |id, _| {
        down.push(id);
        match id {
            5 => ControlFlow::Break(id),
            _ => ControlFlow::Continue(()),
        }
    });
    assert_eq!(some, ControlFlow::Break(5));
    assert_eq!(down, [7, 6, 5]);
    assert_eq!(
        segment.ended_totals(DefaultTtl::Off, now),
        Totals::default()
    );
}

#[test]
fn rewriting_one_document_forever_takes_no_more_memory() {
    let mut segment = Segment::new(None);
    segment.push(&[1; 1000], stamp(0));
    for n in 0..10_000 {
        segment.replace(0, &vec![2; 1000 + n % 50], stamp(n as i64));
    }
    assert!(segment.allocated() < HEAP_BYTES, "{}", segment.allocated());
}

//! The order in which MongoDB returns rows whose sort keys are equal, if a limit cuts off others.
//!
//! MongoDB then holds the first rows in a heap. Which of equal rows comes first, and which one is beyond the limit, follows
//! from the steps of the C++ standard library. They are the same on every machine, and clients see them in every list that is
//! sorted by a field that is not unique, so these are the same steps.
//!
//! All other sorts keep the order of equal rows, as MongoDB does for up to 16 rows. (For more, 6.0 does and 8.2 promises
//! nothing.)

/// Makes a heap whose greatest element is the first.
pub(super) fn make_heap<T: Copy>(all: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    for parent in (0..all.len() / 2).rev() {
        let value = all[parent];
        fill_hole(all, parent, value, less);
    }
}

/// Puts another element in the place of the greatest of a heap.
pub(super) fn replace_greatest<T: Copy>(heap: &mut [T], new: T, less: &impl Fn(&T, &T) -> bool) {
    let Some((last, rest)) = heap.split_last_mut() else {
        return;
    };
    if !rest.is_empty() {
        fill_hole(rest, 0, *last, less);
    }
    *last = new;
    rise(heap, heap.len() - 1, 0, new, less);
}

/// Sorts a heap.
pub(super) fn sort_heap<T: Copy>(heap: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    for end in (1..heap.len()).rev() {
        let value = heap[end];
        heap[end] = heap[0];
        fill_hole(&mut heap[..end], 0, value, less);
    }
}

/// Moves the hole at `hole` down to a leaf, along the greater children, and puts the value where it belongs on the way back.
fn fill_hole<T: Copy>(heap: &mut [T], hole: usize, value: T, less: &impl Fn(&T, &T) -> bool) {
    let top = hole;
    let mut hole = hole;
    while 2 * hole + 2 < heap.len() {
        let right = 2 * hole + 2;
        let greater = if less(&heap[right], &heap[right - 1]) {
            right - 1
        } else {
            right
        };
        heap[hole] = heap[greater];
        hole = greater;
    }
    if 2 * hole + 2 == heap.len() {
        heap[hole] = heap[2 * hole + 1];
        hole = 2 * hole + 1;
    }
    rise(heap, hole, top, value, less);
}

/// Moves the hole up to where the value belongs, at most to `top`.
fn rise<T: Copy>(
    heap: &mut [T],
    hole: usize,
    top: usize,
    value: T,
    less: &impl Fn(&T, &T) -> bool,
) {
    let mut hole = hole;
    while hole > top && less(&heap[(hole - 1) / 2], &value) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements with a key of few values and their place.
    fn elements(count: usize, keys: u32) -> Vec<(u32, usize)> {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % keys
        };
        (0..count).map(|place| (next(), place)).collect()
    }

    fn less(one: &(u32, usize), other: &(u32, usize)) -> bool {
        one.0 < other.0
    }

    #[test]
    fn everything_is_sorted_and_nothing_is_lost() {
        for count in [0, 1, 2, 3, 15, 16, 17, 100, 1000] {
            for keys in [1, 2, 7, 1000] {
                let all = elements(count, keys);
                let mut heap = all.clone();
                make_heap(&mut heap, &less);
                sort_heap(&mut heap, &less);
                assert!(heap.is_sorted_by_key(|one| one.0), "{count} {keys}");
                heap.sort_unstable_by_key(|one| one.1);
                assert_eq!(heap, all);
            }
        }
    }

    #[test]
    fn a_heap_keeps_the_least() {
        let all = elements(200, 30);
        let mut heap = all[..20].to_vec();
        make_heap(&mut heap, &less);
        for &next in &all[20..] {
            if less(&next, &heap[0]) {
                replace_greatest(&mut heap, next, &less);
            }
        }
        sort_heap(&mut heap, &less);
        let mut expected: Vec<u32> = all.iter().map(|one| one.0).collect();
        expected.sort_unstable();
        let kept: Vec<u32> = heap.iter().map(|one| one.0).collect();
        assert_eq!(kept, expected[..20]);
    }
}

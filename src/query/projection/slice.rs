//! `{$slice: n}` and `{$slice: [skip, n]}` of a find: a part of an array.

use crate::value::{ArrayBuilder, Doc, DocBuilder, ValueRef};

/// A parsed `$slice` of a find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceField {
    /// Counted from the end if negative.
    skip: i64,
    limit: i64,
}

// === impl SliceField ===

impl SliceField {
    /// Parses the argument. Returns `None` if it belongs to the expression `$slice`, or if it is invalid. The expression
    /// parser then rejects it.
    pub fn parse(argument: ValueRef<'_>) -> Option<Self> {
        if let Some(number) = argument.as_num() {
            let n = number.to_i64_saturating();
            return Some(if n < 0 {
                Self {
                    skip: n,
                    limit: i64::MAX,
                }
            } else {
                Self { skip: 0, limit: n }
            });
        }
        let mut parts = argument.as_array()?.iter();
        let skip = parts.next()?.value.as_num()?.to_i64_saturating();
        let limit = parts.next()?.value.as_num()?.to_i64_saturating();
        // Without a positive limit, the argument belongs to the expression, whose first argument then is not an array.
        (parts.next().is_none() && limit > 0).then_some(Self { skip, limit })
    }

    pub(super) fn write(self, name: &str, array: Doc<'_>, out: &mut DocBuilder<'_>) {
        let count = i64::try_from(array.count()).unwrap_or(i64::MAX);
        let skip = if self.skip < 0 {
            count.saturating_add(self.skip).max(0)
        } else {
            self.skip.min(count)
        };
        if skip == 0 && self.limit >= count {
            out.put(name, ValueRef::array(array));
            return;
        }
        let mut part: ArrayBuilder<'_> = out.array(name);
        let wanted = array
            .iter()
            .skip(usize::try_from(skip).unwrap_or(usize::MAX))
            .take(usize::try_from(self.limit).unwrap_or(usize::MAX));
        for elem in wanted {
            part.push(elem.value);
        }
        part.end();
    }
}

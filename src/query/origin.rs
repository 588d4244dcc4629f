//! Where the values of a row come from, seen through a stage.

use crate::value::Path;

/// The origin of the value at a path of a stage's output rows, and of everything below that path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathOrigin {
    /// The same path of the input row. Nothing there has changed.
    Same,
    /// The same path of the input row, but a value may be missing in another way: a scalar in an array on the way may have
    /// become a document, or is left out.
    SameIfPresent,
    /// Another path of the input row, with exactly its value.
    Renamed(String),
    /// Another path of the input row. Equal values of several rows have become one, and a missing value may be null.
    Grouped(String),
    /// The value is computed, removed, or moved in a way that a path cannot say.
    Computed,
}

// === impl PathOrigin ===

impl PathOrigin {
    /// Returns the origin of a path below a path with this origin. `rest` is empty or begins with a dot.
    pub fn below(self, rest: &str) -> Self {
        match self {
            Self::Renamed(path) => Self::Renamed(path + rest),
            Self::Grouped(path) => Self::Grouped(path + rest),
            origin => origin,
        }
    }
}

/// Returns the origin of a path that a filter or a sort reads. There a number may be the index of an array element, so the
/// whole value before the number is read.
pub fn of_read_path(path: &Path, origin: &dyn Fn(&Path) -> PathOrigin) -> PathOrigin {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let Some(names) = path.parts().skip(1).position(is_number) else {
        return origin(path);
    };
    let length = path.parts().take(names + 1).map(str::len).sum::<usize>() + names;
    let (before, rest) = path.as_str().split_at(length);
    match origin(&Path::parse(before)) {
        PathOrigin::SameIfPresent => PathOrigin::Computed,
        origin => origin.below(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_reads_the_whole_array() {
        let origin = |path: &Path| match path.as_str() {
            "s" => PathOrigin::Computed,
            "a" => PathOrigin::Renamed("b".into()),
            "s.x" | "t.x" => PathOrigin::SameIfPresent,
            _ => PathOrigin::Same,
        };
        for (path, expected) in [
            ("s.x", PathOrigin::SameIfPresent),
            ("s.0.x", PathOrigin::Computed),
            ("a.0.x", PathOrigin::Renamed("b.0.x".into())),
            ("t.x.0", PathOrigin::Computed),
            ("0.s", PathOrigin::Same),
            ("t.y.7.s", PathOrigin::Same),
        ] {
            assert_eq!(
                of_read_path(&Path::parse(path), &origin),
                expected,
                "{path}"
            );
        }
    }
}

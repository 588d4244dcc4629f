//! `updateDescription`: the changed fields of an update by their dotted paths, made from what the log tells.

use crate::value::{Doc, DocBuf, DocBuilder, Value, ValueRef};

/// The parts of a description while the log's format is walked.
#[derive(Default)]
struct Description {
    path: Vec<Part>,
    updated: DocBuf,
    removed: Vec<String>,
    truncated: Vec<(String, i32)>,
    /// Paths that can be read in two ways, part by part.
    disambiguated: DocBuf,
}

/// One part of a path.
struct Part {
    name: String,
    is_index: bool,
}

/// Writes the fields of the description. Only expanded events tell how to read a path with numbers or dots in its names.
pub(super) fn write(delta: Doc<'_>, expanded: bool, out: &mut DocBuilder<'_>) {
    let mut description = Description::default();
    description.document(delta);
    out.put_doc("updatedFields", description.updated.as_doc());
    let mut removed = out.array("removedFields");
    for path in &description.removed {
        removed.push_str(path);
    }
    removed.end();
    let mut truncated = out.array("truncatedArrays");
    for (path, size) in &description.truncated {
        let mut array = truncated.doc();
        array.put_str("field", path).put_i32("newSize", *size);
        array.end();
    }
    truncated.end();
    if expanded {
        out.put_doc("disambiguatedPaths", description.disambiguated.as_doc());
    }
}

// === impl Description ===

impl Description {
    fn document(&mut self, delta: Doc<'_>) {
        for section in ["u", "i"] {
            for field in delta.get(section).as_doc().into_iter().flatten() {
                self.set(field.name(), false, field.value);
            }
        }
        for field in delta.get("d").as_doc().into_iter().flatten() {
            self.below(field.name(), false, |description| {
                let path = description.dotted();
                description.disambiguate(&path);
                description.removed.push(path);
            });
        }
        for field in delta {
            if let Some(name) = field.name().strip_prefix('s') {
                self.inner(name, false, field.value);
            }
        }
    }

    fn array(&mut self, delta: Doc<'_>) {
        if let Some(size) = delta.get("l").as_i32() {
            let path = self.dotted();
            self.disambiguate(&path);
            self.truncated.push((path, size));
        }
        for element in delta {
            let name = element.name();
            if let Some(index) = name.strip_prefix('u') {
                self.set(index, true, element.value);
            } else if let Some(index) = name.strip_prefix('s') {
                self.inner(index, true, element.value);
            }
        }
    }

    fn inner(&mut self, name: &str, is_index: bool, delta: ValueRef<'_>) {
        let Some(delta) = delta.as_doc() else {
            return;
        };
        self.below(name, is_index, |description| {
            match delta.first().is_some_and(|first| first.name() == "a") {
                true => description.array(delta),
                false => description.document(delta),
            }
        });
    }

    fn set(&mut self, name: &str, is_index: bool, value: ValueRef<'_>) {
        self.below(name, is_index, |description| {
            let path = description.dotted();
            description.disambiguate(&path);
            description.updated.put(&path, value);
        });
    }

    /// Runs `visit` with a longer path.
    fn below(&mut self, name: &str, is_index: bool, visit: impl FnOnce(&mut Self)) {
        self.path.push(Part {
            name: name.to_owned(),
            is_index,
        });
        visit(self);
        self.path.pop();
    }

    fn dotted(&self) -> String {
        let names: Vec<&str> = self.path.iter().map(|part| &*part.name).collect();
        names.join(".")
    }

    /// Notes the parts of the present path if a name in it has a dot, or looks like an array index and is none.
    fn disambiguate(&mut self, path: &str) {
        let is_ambiguous = |(at, part): (usize, &Part)| {
            !part.is_index && (at > 0 && is_number(&part.name) || part.name.contains('.'))
        };
        if !self.path.iter().enumerate().any(is_ambiguous) {
            return;
        }
        let parts = DocBuf::build(|parts| {
            for (at, part) in self.path.iter().enumerate() {
                let index = part.is_index.then(|| part.name.parse().ok()).flatten();
                let value = index.map_or_else(|| Value::string(&part.name), Value::int32);
                parts.put(&at.to_string(), value.as_ref());
            }
        });
        self.disambiguated
            .put(path, ValueRef::array(parts.as_doc()));
    }
}

/// Returns whether a name looks like an array index.
fn is_number(name: &str) -> bool {
    let digits = name.bytes().all(|byte| byte.is_ascii_digit());
    digits && !name.is_empty() && (name == "0" || !name.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    /// As mongod 6.0.5 describes its own log.
    #[test]
    fn descriptions_name_paths() {
        let rows = [
            (
                doc! {"d": {"s": false}, "u": {"x": 2}, "i": {"n": 1}, "ss": {"u": {"t": 5}}},
                doc! {"updatedFields": {"x": 2, "n": 1, "s.t": 5}, "removedFields": ["s"], "truncatedArrays": [], "disambiguatedPaths": {}},
            ),
            (
                doc! {"sa": {"a": true, "l": 8, "u7": 9, "s2": {"d": {"q": false}}}},
                doc! {
                    "updatedFields": {"a.7": 9}, "removedFields": ["a.2.q"],
                    "truncatedArrays": [{"field": "a", "newSize": 8}], "disambiguatedPaths": {},
                },
            ),
            (
                doc! {"sa": {"u": {"1": 2, "b.c": 3}}, "u": {"0": 1}, "sb": {"a": true, "s0": {"u": {"0": 1}}}},
                doc! {
                    "updatedFields": {"0": 1, "a.1": 2, "a.b.c": 3, "b.0.0": 1}, "removedFields": [], "truncatedArrays": [],
                    "disambiguatedPaths": {"a.1": ["a", "1"], "a.b.c": ["a", "b.c"], "b.0.0": ["b", 0, "0"]},
                },
            ),
        ];
        for (delta, expected) in rows {
            let written = DocBuf::build(|out| write(DocBuf::from(&delta).as_doc(), true, out));
            let written = Document::from_reader(written.bytes()).unwrap();
            assert_eq!(written, expected, "{delta}");
        }
    }
}

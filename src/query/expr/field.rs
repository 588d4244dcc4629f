//! "$a.b": a path as expressions read it. It maps over arrays, and a number in it is not an array index.

use crate::error::{Code, Error, Result};
use crate::value::{Doc, Path, Val, ValueRef};

/// A path of at least one name. Every name has been checked.
#[derive(Debug, Clone)]
pub struct FieldPath {
    path: Path,
}

/// The depth limit of documents.
const MAX_NAMES: usize = 200;

// === impl FieldPath ===

impl FieldPath {
    /// Parses "a.b", without the dollar sign.
    pub fn parse(path: &str) -> Result<Self> {
        if path.is_empty() {
            return Err(Error::location(
                40352,
                "FieldPath cannot be constructed with empty string",
            ));
        }
        if path.ends_with('.') {
            return Err(Error::location(40353, "FieldPath must not end with a '.'."));
        }
        // The fields of a DBRef are allowed after another name.
        let reference = |name: &str| matches!(name, "$id" | "$ref" | "$db");
        for (at, name) in path.split('.').enumerate() {
            if at == 0 || !reference(name) {
                check_name(name)?;
            }
        }
        let path = Path::parse(path);
        if path.len() > MAX_NAMES {
            return Err(Error::new(Code::Overflow, "FieldPath is too long"));
        }
        Ok(Self { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn into_path(self) -> Path {
        self.path
    }

    #[inline]
    pub fn eval<'a>(&self, root: Doc<'a>) -> Val<'a> {
        self.path.get_expr(root)
    }

    /// Evaluates the path inside a value, which need not be a document.
    pub fn eval_below<'a>(&self, value: ValueRef<'a>) -> Val<'a> {
        self.path.get_expr_in(value)
    }
}

/// Checks a name for a path or an object literal. Only the names of a DBRef may begin with a dollar sign.
pub fn check_name(name: &str) -> Result<()> {
    let (code, complaint) = if name.is_empty() {
        (15998, "FieldPath field names may not be empty strings.")
    } else if name.starts_with('$') && !matches!(name, "$id" | "$ref" | "$db") {
        (
            16410,
            "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
        )
    } else if name.contains('\0') {
        (16411, "FieldPath field names may not contain '\\0'.")
    } else if name.contains('.') {
        (
            16412,
            "FieldPath field names may not contain '.'. Consider using $getField or $setField.",
        )
    } else {
        return Ok(());
    };
    Err(Error::location(code, complaint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::DocBuf;
    use bson::doc;

    #[test]
    fn paths_map_over_arrays() {
        let doc = DocBuf::from(doc! {
            "a": 1, "b": {"c": 2}, "d": [{"e": 1}, {"e": 2}, {"f": 3}, 4, [{"e": 5}]], "g": {"h": [{"i": [{"j": 1}]}]},
        });
        for (path, expected) in [
            ("a", "Some(1)"),
            ("x", "missing([])"),
            ("a.x", "missing([])"),
            ("b.c", "Some(2)"),
            ("d.e", "[Some(1), Some(2)]"),
            ("d.0", "[]"),
            ("g.h.i.j", "[[Some(1)]]"),
        ] {
            let path = FieldPath::parse(path).unwrap();
            assert_eq!(
                format!("{:?}", path.eval(doc.as_doc())),
                expected,
                "{path:?}"
            );
        }
    }

    #[test]
    fn bad_paths() {
        for (path, code) in [
            ("", 40352),
            ("a.", 40353),
            (".", 40353),
            ("$.", 40353),
            ("a..b", 15998),
            (".a", 15998),
            ("a.$b", 16410),
            ("a\0b", 16411),
        ] {
            let error = FieldPath::parse(path).unwrap_err();
            assert_eq!(error.code().number(), code, "{path}");
        }
        let long = vec!["a"; 201].join(".");
        assert_eq!(FieldPath::parse(&long).unwrap_err().code().number(), 15);
    }
}

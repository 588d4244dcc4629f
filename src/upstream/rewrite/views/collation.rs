//! Collations of views. A command cannot bring another one.

use crate::error::{Code, Error, Result};
use crate::upstream::RuledView;
use crate::value::{Doc, DocBuf, equal};

/// Returns the collation that an aggregate for a view carries. Without it, that of the collection would take its place.
pub fn of_view(view: &RuledView) -> DocBuf {
    view.collation.clone().unwrap_or_else(|| {
        DocBuf::build(|simple| {
            simple.put_str("locale", "simple");
        })
    })
}

/// Refuses a collation other than that of the view.
pub fn check(view: &RuledView, asked: Doc<'_>) -> Result<()> {
    match is_same(of_view(view).as_doc(), asked) {
        true => Ok(()),
        false => Err(Error::new(
            Code::OptionNotSupportedOnView,
            "Cannot override a view's default collation",
        )),
    }
}

/// Compares two collations. The cluster shows that of a view in full; a client leaves out what it does not care about.
fn is_same(one: Doc<'_>, other: Doc<'_>) -> bool {
    let defaults = DocBuf::build(|full| {
        full.put_i32("strength", 3);
        full.put_str("caseFirst", "off");
        full.put_str("alternate", "non-ignorable");
        full.put_str("maxVariable", "punct");
        for name in ["caseLevel", "numericOrdering", "normalization", "backwards"] {
            full.put_bool(name, false);
        }
    });
    equal(one.get("locale"), other.get("locale"))
        && defaults.as_doc().iter().all(|default| {
            let [one, other] = [one, other].map(|collation| match collation.get(default.name()) {
                missing if missing.is_missing() => default.value,
                given => given,
            });
            equal(one, other)
        })
}

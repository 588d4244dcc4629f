//! `$exists` and `$type`.

use super::{
    FilterNode, Test, TypeSet,
    parse::{OperatorSite, ParseContext},
};
use crate::{
    error::Result,
    value::{ValueRef, is_true},
};

pub(super) fn exists(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    let node = FilterNode::field(site.path, Test::Exists);
    Ok(Some(if is_true(arg) {
        node
    } else {
        FilterNode::not(node)
    }))
}

pub(super) fn is_type(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    let types = TypeSet::parse(site.path, arg)?;
    Ok(Some(FilterNode::field(site.path, Test::Type(types))))
}

#[cfg(test)]
mod tests {
    use crate::query::filter::check;
    use bson::{Bson, doc};

    #[test]
    fn element() {
        check::passes(&[
            (
                doc! {"a": {"$exists": true}},
                vec![doc! {"a": Bson::Null}, doc! {"a": []}],
                vec![doc! {}],
            ),
            (
                doc! {"a.b": {"$exists": false}},
                vec![doc! {}, doc! {"a": [1]}, doc! {"a": []}],
                vec![doc! {"a": [{}, {"b": 1}]}],
            ),
            (
                doc! {"a": {"$type": "number"}},
                vec![doc! {"a": 1}, doc! {"a": 1.0}, doc! {"a": [1i64]}],
                vec![doc! {"a": "1"}, doc! {}],
            ),
            (
                doc! {"a": {"$type": 2}},
                vec![doc! {"a": "x"}],
                vec![doc! {"a": 1}],
            ),
            (
                doc! {"a": {"$type": ["array", "null"]}},
                vec![doc! {"a": []}, doc! {"a": Bson::Null}, doc! {"a": [1]}],
                vec![doc! {}, doc! {"a": 1}],
            ),
            (
                doc! {"a": {"$type": -1}},
                vec![doc! {"a": Bson::MinKey}],
                vec![doc! {"a": Bson::MaxKey}],
            ),
        ]);
        check::refused(&[
            (
                doc! {"a": {"$type": "foo"}},
                2,
                "Unknown type name alias: foo",
            ),
            (
                doc! {"a": {"$type": 0}},
                2,
                "Invalid numerical type code: 0. Instead use {$exists:false}.",
            ),
            (
                doc! {"a": {"$type": 99}},
                2,
                "Invalid numerical type code: 99",
            ),
            (
                doc! {"a": {"$type": true}},
                14,
                "type must be represented as a number or a string",
            ),
            (
                doc! {"a": {"$type": []}},
                9,
                "a must match at least one type",
            ),
        ]);
    }
}

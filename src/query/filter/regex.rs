//! `$regex` with `$options`: searches a string or symbol for a [`Pattern`].

use super::{
    FilterNode, Test,
    parse::{OperatorSite, ParseContext},
};
use crate::{
    error::{Error, Result},
    interrupt,
    query::pattern::Pattern,
    value::ValueRef,
};

pub(super) fn regex(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    _: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    let mut source = "";
    let mut flags = "";
    interrupt::tick_read(site.siblings.bytes().len())?;
    for elem in site.siblings {
        match elem.name() {
            "$regex" => {
                if let Some(text) = elem.value.as_str() {
                    source = text;
                } else if let Some((text, inline_options)) = elem.value.as_regex() {
                    source = text;
                    if !inline_options.is_empty() {
                        if !flags.is_empty() {
                            return Err(Error::location(
                                51074,
                                "options set in both $regex and $options",
                            ));
                        }
                        flags = inline_options;
                    }
                } else {
                    return Err(Error::bad_value("$regex has to be a string"));
                }
            }
            "$options" => {
                let Some(text) = elem.value.as_str() else {
                    return Err(Error::bad_value("$options has to be a string"));
                };
                if !flags.is_empty() {
                    return Err(Error::location(
                        51075,
                        "options set in both $regex and $options",
                    ));
                }
                flags = text;
            }
            _ => {}
        }
    }
    let pattern = Pattern::new(source, flags)?;
    Ok(Some(FilterNode::field(site.path, Test::Regex(pattern))))
}

/// Checks that `$options` comes with a `$regex`, which reads it.
pub(super) fn options(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    _: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    interrupt::tick_read(site.siblings.bytes().len())?;
    if site.siblings.has("$regex") {
        Ok(None)
    } else {
        Err(Error::bad_value("$options needs a $regex"))
    }
}

#[cfg(test)]
mod tests {
    use crate::query::filter::check;
    use bson::doc;

    #[test]
    fn patterns() {
        check::passes(&[
            (
                doc! {"a": {"$regex": "^ab", "$options": "i"}},
                vec![doc! {"a": "ABc"}, doc! {"a": ["x", "ab"]}],
                vec![doc! {"a": "xab"}, doc! {"a": 1}, doc! {}],
            ),
            (
                doc! {"a": {"$options": "s", "$regex": "a.b"}},
                vec![doc! {"a": "a\nb"}],
                vec![],
            ),
            (
                doc! {"a": {"$regex": "a b", "$options": "x"}},
                vec![doc! {"a": "ab"}],
                vec![doc! {"a": "a b"}],
            ),
            (
                doc! {"a": {"$regex": "^b", "$options": "m"}},
                vec![doc! {"a": "a\nb"}],
                vec![doc! {"a": "ab"}],
            ),
            (
                doc! {"a": {"$not": {"$regex": "b"}}},
                vec![doc! {"a": "a"}, doc! {}],
                vec![doc! {"a": "b"}],
            ),
            (doc! {"a": {"$regex": "^.$"}}, vec![doc! {"a": "é"}], vec![]),
            (
                doc! {"a": {"$regex": "(?<=x)y"}},
                vec![doc! {"a": "xy"}],
                vec![doc! {"a": "y"}],
            ),
        ]);
        check::refused(&[
            (doc! {"a": {"$regex": 1}}, 2, "$regex has to be a string"),
            (
                doc! {"a": {"$regex": "a", "$options": 1}},
                2,
                "$options has to be a string",
            ),
            (doc! {"a": {"$options": "i"}}, 2, "$options needs a $regex"),
            (
                doc! {"a": {"$regex": "a", "$options": "g"}},
                51108,
                " invalid flag in regex options: g",
            ),
            (
                doc! {"a": {"$regex": "["}},
                51091,
                "Regular expression is invalid: missing terminating ] for character class",
            ),
        ]);
    }
}

//! The texts of the cluster's errors. Some show a query as it was sent, or a document as it is stored.

use bytes::Bytes;

use super::naming::contains;
use super::run::is_ok;
use crate::upstream::HIDDEN_FIELD;
use crate::value::{Doc, DocBuf, DocBuilder, ValueRef};

/// Between these, a text shows the query. What Sundown has added to it cannot be told from the client's part. A line ends before the
/// second one, unless the query ends in an expression.
const TREE: (&str, &str) = ("Tree: ", "Sort: {");

/// Returns a reply whose errors do not show the hidden field.
pub fn shown(reply: Bytes) -> Bytes {
    let answer = Doc::new(&reply);
    let may_show = !is_ok(answer) || answer.has("writeErrors");
    if !may_show || !contains(&reply, HIDDEN_FIELD.as_bytes()) {
        return reply;
    }
    let shown = DocBuf::build_sized(reply.len(), |out| {
        for elem in answer {
            match (elem.name(), elem.value.as_array()) {
                ("writeErrors", Some(errors)) => {
                    let mut list = out.array(elem.name());
                    for error in errors.iter().filter_map(|error| error.value.as_doc()) {
                        let mut shown = list.doc();
                        for elem in error {
                            put(elem.name(), elem.value, &mut shown);
                        }
                        shown.end();
                    }
                    list.end();
                }
                _ => put(elem.name(), elem.value, out),
            }
        }
    });
    shown.into_bytes().into()
}

fn put(name: &str, value: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    match value.as_str().filter(|_| name == "errmsg") {
        Some(text) => out.put_str(name, &without_hidden(text)),
        None => out.put(name, value),
    };
}

fn without_hidden(text: &str) -> String {
    let mut shown = text.to_owned();
    let start = text.find(TREE.0).map(|start| start + TREE.0.len());
    if let (Some(start), Some(end)) = (start, text.rfind(TREE.1))
        && text
            .get(start..end)
            .is_some_and(|tree| tree.contains(HIDDEN_FIELD))
    {
        shown.replace_range(start..end, "\n");
    }
    let named = format!("{HIDDEN_FIELD}: ");
    let mut from = 0;
    while let Some(found) = shown.get(from..).and_then(|rest| rest.find(&named)) {
        let start = from + found;
        let before = shown.get(..start).unwrap_or_default();
        if !before.ends_with(['{', ' ', ',']) {
            from = start + named.len();
            continue;
        }
        let end = start + named.len();
        let end = end + value_length(shown.get(end..).unwrap_or_default());
        let first = before.trim_end_matches(' ').trim_end_matches(',').len();
        let is_first = before.trim_end_matches(' ').len() == first;
        match shown.get(end..).and_then(|rest| rest.strip_prefix(", ")) {
            Some(_) if is_first => shown.replace_range(start..end + 2, ""),
            None if is_first => shown.replace_range(start..end, ""),
            _ => shown.replace_range(first..end, ""),
        }
        from = first;
    }
    shown
}

/// Returns the length of the value with which a text goes on: up to the comma or brace behind it.
fn value_length(text: &str) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ',' if depth == 0 => {
                let value = text.get(..at).unwrap_or_default();
                return value.trim_end_matches(' ').len();
            }
            '}' | ']' | ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    #[test]
    fn what_is_hidden_is_cut_out() {
        let rows = [
            ("nothing", "nothing"),
            (
                "Input document: {a: 5, _sundown: 2026-11-19T20:42:58.116Z}",
                "Input document: {a: 5}",
            ),
            (
                "Input document: {_sundown: {_sundown: 2026-11-19T20:42:58.116Z}}",
                "Input document: {}",
            ),
            (
                "{ _id: 1, b: \"}\", _sundown: { b: \"},\" } }",
                "{ _id: 1, b: \"}\" }",
            ),
            (
                "{_sundown: {b: [1, 2]}, g: [{_id: 1}]} and {a: 1}",
                "{g: [{_id: 1}]} and {a: 1}",
            ),
            (
                "{a: 1, _sundown: new Date(1782932615250), g: 2}",
                "{a: 1, g: 2}",
            ),
            ("{a: 1, _sundown: 3", "{a: 1"),
            ("{my_sundown: 3}", "{my_sundown: 3}"),
            (
                "ns=d.cTree: $nor\n    _sundown $lte new Date(5)\nSort: { q: 1 }\nProj: { x: 1, _sundown: 1 }\n planner returned error",
                "ns=d.cTree: \nSort: { q: 1 }\nProj: { x: 1 }\n planner returned error",
            ),
            (
                "ns=d.cTree: a $eq 1\nSort: {}\n",
                "ns=d.cTree: a $eq 1\nSort: {}\n",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(without_hidden(text), expected);
        }
    }

    #[test]
    fn texts_of_errors_and_nothing_else() {
        let of = |reply: Document| {
            let shown = shown(Bytes::from(reply.to_vec().unwrap()));
            Document::from_reader(&shown[..]).unwrap()
        };
        let text = "{a: 1, _sundown: 2}";
        assert_eq!(
            of(doc! {"ok": 0.0, "errmsg": text, "code": 2}),
            doc! {"ok": 0.0, "errmsg": "{a: 1}", "code": 2}
        );
        assert_eq!(
            of(doc! {"n": 0, "writeErrors": [{"index": 0, "errmsg": text}], "ok": 1.0}),
            doc! {"n": 0, "writeErrors": [{"index": 0, "errmsg": "{a: 1}"}], "ok": 1.0}
        );
        let row = doc! {"cursor": {"firstBatch": [{"errmsg": text}]}, "errmsg": text, "ok": 1.0};
        assert_eq!(of(row.clone()), row);
    }
}

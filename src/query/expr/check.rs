//! Helpers for the table tests of the operators. A row has an expression, and its value or error code.

use bson::{Bson, doc};

use super::Expr;
use crate::query::{Scope, Vars};
use crate::value::{ClusterTime, DocBuf, Millis, Value};

/// Evaluates an expression on `root`. Returns `{r: value}` or `{error: code}`. `$$x` is 42 and the time is 7 s.
pub fn run(expr: &Bson, root: &bson::Document) -> bson::Document {
    let spec = DocBuf::from(doc! {"e": expr.clone()});
    let root = DocBuf::from(root);
    let vars = Vars::at(Millis(7000))
        .with_cluster_time(ClusterTime::from_parts(7, 1))
        .with([Value::int32(42)]);
    let value = Expr::parse(spec.as_doc().get("e"), &Scope::new().with(["x"])).and_then(|expr| {
        shows_every_part(&expr);
        expr.eval(root.as_doc(), &vars)
            .map(crate::value::Val::into_value)
    });
    match value {
        Ok(value) => {
            let out = DocBuf::build(|d| {
                d.put("r", value.as_ref());
            });
            bson::Document::from_reader(out.bytes()).expect("an expression writes whole BSON")
        }
        Err(error) => doc! {"error": error.code().number()},
    }
}

/// Checks that [`Expr::each`] visits every part of an operator, by comparing with the parts in its debug output.
fn shows_every_part(expr: &Expr) {
    fn paths(expr: &Expr) -> usize {
        let mut count = usize::from(matches!(expr, Expr::Field(_)));
        expr.each(&mut |within| count += paths(within));
        count
    }
    let printed = format!("{expr:?}");
    assert_eq!(
        paths(expr),
        printed.matches("Field(FieldPath {").count(),
        "{printed}"
    );
}

/// Checks rows on an empty document. The message of a failure shows its row.
pub fn values(rows: &[(Bson, Bson)]) {
    values_in(&doc! {}, rows);
}

pub fn values_in(root: &bson::Document, rows: &[(Bson, Bson)]) {
    for (expr, expected) in rows {
        let got = run(expr, root);
        // Compares debug output and not values, because NaN differs from itself.
        assert_eq!(
            format!("{:?}", got),
            format!("{:?}", doc! {"r": expected.clone()}),
            "{expr}"
        );
    }
}

pub fn missing(root: &bson::Document, rows: &[Bson]) {
    for expr in rows {
        assert_eq!(run(expr, root), doc! {}, "{expr}");
    }
}

pub fn errors(rows: &[(Bson, i32)]) {
    for (expr, code) in rows {
        assert_eq!(run(expr, &doc! {}), doc! {"error": code}, "{expr}");
    }
}

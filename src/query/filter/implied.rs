//! What an `$expr` implies about single fields, so that the planner can look for them in an index.
//!
//! `{$expr: {$eq: ["$a", 5]}}` is true only of documents that `{a: 5}` matches, too. The reverse does not hold: an element of
//! an array equals 5 in a filter and not in an expression. So an implied condition gives bounds and decides nothing.
//! Comparisons by order imply no condition of a filter, which compares values of one type only. They are kept apart.

use super::{CompareOp, Comparison, Filter, FilterNode, Members, Test};
use crate::query::{Expr, Vars};
use crate::value::{Path, TS_FIELD, Type, Value, ValueRef};

/// An expression in a filter.
#[derive(Debug, Clone)]
pub struct ExprTest {
    pub expr: Expr,
    /// The client's own text, for explain.
    pub written: Value,
    /// The equalities of fields that are true of every document that passes.
    pub implied: Vec<FilterNode>,
    /// The comparisons of fields by order that are true of every document that passes.
    pub ordered: Vec<FieldOrder>,
    /// The values of variables would imply more.
    names_variables: bool,
}

/// A comparison of a field with a constant in the order of all values: an array counts as a whole, and a missing field is
/// less than null.
#[derive(Debug, Clone)]
pub struct FieldOrder {
    pub path: Path,
    pub op: CompareOp,
    pub value: Value,
}

// === impl ExprTest ===

impl ExprTest {
    pub fn new(expr: Expr, written: Value) -> Self {
        let mut found = Found::default();
        found.search(&expr, None);
        Self {
            expr,
            written,
            implied: found.implied,
            ordered: found.ordered,
            names_variables: found.names_variables,
        }
    }

    fn bound(&self, vars: &Vars) -> Self {
        let mut found = Found::default();
        found.search(&self.expr, Some(vars));
        Self {
            implied: found.implied,
            ordered: found.ordered,
            ..self.clone()
        }
    }
}

// === impl Filter ===

impl Filter {
    /// Returns the filter for these variables, if it implies more with them.
    pub fn bound(&self, vars: &Vars) -> Option<Self> {
        let open =
            |node: &FilterNode| matches!(node, FilterNode::Expr(expr) if expr.names_variables);
        let bind = |node: &FilterNode| match node {
            FilterNode::Expr(expr) if expr.names_variables => {
                FilterNode::Expr(expr.bound(vars).into())
            }
            node => node.clone(),
        };
        match self.root() {
            FilterNode::And(nodes) if nodes.iter().any(open) => {
                Some(self.with_root(FilterNode::And(nodes.iter().map(bind).collect())))
            }
            root if open(root) => Some(self.with_root(bind(root))),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Found {
    implied: Vec<FilterNode>,
    ordered: Vec<FieldOrder>,
    names_variables: bool,
}

// === impl Found ===

impl Found {
    fn search(&mut self, expr: &Expr, vars: Option<&Vars>) {
        let Expr::Call(call) = expr else { return };
        match (call.name, &*call.args) {
            ("$or", [only]) => self.search(only, vars),
            ("$and", parts) => parts.iter().for_each(|part| self.search(part, vars)),
            ("$eq", [Expr::Field(path), other] | [other, Expr::Field(path)]) => {
                if let Some(value) = self.value(other, vars).filter(|value| is_single(*value)) {
                    let test = Test::Compare(Comparison::new(CompareOp::Eq, value));
                    self.add(path.path(), test);
                }
            }
            ("$in", [Expr::Field(path), list]) => {
                let list = self.value(list, vars).and_then(ValueRef::as_array);
                if let Some(list) = list
                    && list.iter().all(|elem| is_single(elem.value))
                {
                    let values = list.iter().map(|elem| elem.value.to_value()).collect();
                    self.add(path.path(), Test::In(Members::of(values)));
                }
            }
            (name, [Expr::Field(path), other]) => self.search_order(name, path.path(), other, vars),
            (name, [other, Expr::Field(path)]) => {
                self.search_order(reversed(name), path.path(), other, vars);
            }
            _ => {}
        }
    }

    fn search_order(&mut self, name: &str, path: &Path, other: &Expr, vars: Option<&Vars>) {
        let op = match name {
            "$gt" => CompareOp::Gt,
            "$gte" => CompareOp::Gte,
            "$lt" => CompareOp::Lt,
            "$lte" => CompareOp::Lte,
            _ => return,
        };
        if let Some(value) = self.value(other, vars).filter(|value| is_single(*value))
            && path.first() != TS_FIELD
        {
            self.ordered.push(FieldOrder {
                path: path.clone(),
                op,
                value: value.to_value(),
            });
        }
    }

    fn value<'v>(&mut self, expr: &'v Expr, vars: Option<&'v Vars>) -> Option<ValueRef<'v>> {
        match expr {
            Expr::Const(value) => Some(value.as_ref()),
            Expr::Var { slot, path: None } => {
                self.names_variables = true;
                vars?.get(*slot)
            }
            _ => None,
        }
    }

    fn add(&mut self, path: &Path, test: Test) {
        // The server keeps `_ts` outside of the document.
        if path.first() != TS_FIELD {
            self.implied.push(FilterNode::field(path.as_str(), test));
        }
    }
}

/// Returns the operator for the same comparison with its operands exchanged.
fn reversed(name: &str) -> &str {
    match name {
        "$gt" => "$lt",
        "$gte" => "$lte",
        "$lt" => "$gt",
        "$lte" => "$gte",
        other => other,
    }
}

/// Whether a field that equals the value in an expression equals it in a filter. An array may come from several fields on
/// the path; a pattern, an old type or a missing value is compared in other ways.
fn is_single(value: ValueRef<'_>) -> bool {
    matches!(
        value.ty(),
        Type::Double
            | Type::String
            | Type::Document
            | Type::Binary
            | Type::ObjectId
            | Type::Bool
            | Type::Date
            | Type::Null
            | Type::Int32
            | Type::Timestamp
            | Type::Int64
            | Type::Decimal
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Scope;
    use crate::value::{DocBuf, Millis};
    use bson::{Bson, Document, doc};

    fn implied(filter: &Filter) -> Vec<String> {
        let FilterNode::Expr(expr) = filter.root() else {
            return Vec::new();
        };
        let shown = |node: &FilterNode| Filter::of_node(node.clone()).unwrap().describe().unwrap();
        expr.implied
            .iter()
            .map(|node| shown(node).as_doc().to_string())
            .collect()
    }

    fn parsed(expr: Document, scope: &Scope) -> Filter {
        let filter = DocBuf::from(doc! {"$expr": expr});
        Filter::parse(filter.as_doc(), scope).unwrap()
    }

    #[test]
    fn equalities_are_implied_and_nothing_else() {
        for (expr, expected) in [
            (doc! {"$eq": ["$a.b", 5]}, vec!["{ a.b: { $eq: 5 } }"]),
            (doc! {"$eq": ["x", "$a"]}, vec!["{ a: { $eq: \"x\" } }"]),
            (
                doc! {"$and": [{"$eq": ["$a", 1]}, {"$gt": ["$b", 2]}, {"$and": [{"$eq": ["$c", 3]}]}]},
                vec!["{ a: { $eq: 1 } }", "{ c: { $eq: 3 } }"],
            ),
            (
                doc! {"$in": ["$a", [2, 1]]},
                vec!["{ a: { $in: [ 1, 2 ] } }"],
            ),
            (doc! {"$in": ["$a", [2, [1]]]}, vec![]),
            (doc! {"$eq": ["$a", [5]]}, vec![]),
            (doc! {"$eq": ["$a", "$b"]}, vec![]),
            (doc! {"$eq": ["$_ts", 5]}, vec![]),
            (doc! {"$gt": ["$a", 5]}, vec![]),
            (
                doc! {"$or": [{"$eq": ["$a", 5]}, {"$eq": ["$b", 5]}]},
                vec![],
            ),
            (doc! {"$not": [{"$eq": ["$a", 5]}]}, vec![]),
        ] {
            let filter = parsed(expr.clone(), &Scope::new());
            assert_eq!(implied(&filter), expected, "{expr}");
            assert!(filter.bound(&Vars::at(Millis(0))).is_none());
        }
    }

    #[test]
    fn comparisons_by_order_are_kept() {
        for (expr, expected) in [
            (doc! {"$gt": ["$a.b", 5]}, vec!["a.b Gt 5"]),
            (doc! {"$gt": [5, "$a"]}, vec!["a Lt 5"]),
            (
                doc! {"$and": [{"$gte": ["$a", "x"]}, {"$lte": ["$a", Bson::Null]}]},
                vec!["a Gte \"x\"", "a Lte null"],
            ),
            (doc! {"$lt": ["$a", [5]]}, vec![]),
            (doc! {"$lt": ["$a", "$b"]}, vec![]),
            (doc! {"$lt": ["$_ts", 5]}, vec![]),
            (doc! {"$ne": ["$a", 5]}, vec![]),
            (doc! {"$or": [{"$lt": ["$a", 5]}]}, vec!["a Lt 5"]),
            (
                doc! {"$or": [{"$lt": ["$a", 5]}, {"$gt": ["$a", 8]}]},
                vec![],
            ),
        ] {
            let filter = parsed(expr.clone(), &Scope::new());
            let FilterNode::Expr(test) = filter.root() else {
                panic!("{expr}: {filter:?}");
            };
            let shown = |order: &FieldOrder| {
                format!(
                    "{} {:?} {}",
                    order.path.as_str(),
                    order.op,
                    order.value.as_ref()
                )
            };
            let found: Vec<String> = test.ordered.iter().map(shown).collect();
            assert_eq!(found, expected, "{expr}");
        }
    }

    #[test]
    fn variables_imply_more_when_they_are_known() {
        let vars = Vars::at(Millis(0));
        let spec = DocBuf::from(doc! {"x": 7});
        let (scope, vars) = crate::query::bind_let(&vars, &Scope::new(), spec.as_doc()).unwrap();
        let filter = parsed(doc! {"$eq": ["$a", "$$x"]}, &scope);
        assert!(implied(&filter).is_empty());
        let bound = filter.bound(&vars).unwrap();
        assert_eq!(implied(&bound), ["{ a: { $eq: 7 } }"]);
    }
}

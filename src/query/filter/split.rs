//! Splits a filter, so that a part of it can be tested before a stage of a pipeline.

use std::ops::ControlFlow;

use super::{FieldTest, Filter, FilterNode, Test};
use crate::error::Result;
use crate::interrupt;
use crate::query::Expr;
use crate::query::origin::{PathOrigin, of_read_path};
use crate::value::{Path, ValueRef};

/// The two parts of a condition. At least one is there.
type Parts = (Option<FilterNode>, Option<FilterNode>);

// === impl Filter ===

impl Filter {
    /// Splits the filter at a stage. The first part can be tested on the input rows of the stage: its paths are those of the
    /// input. The second part must stay behind the stage. `origin` tells where the paths of the output come from.
    pub fn split(
        self,
        origin: &dyn Fn(&Path) -> PathOrigin,
    ) -> Result<(Option<Self>, Option<Self>)> {
        let (before, behind) = self.into_root().split(origin)?;
        let filter = |node: Option<FilterNode>| node.map(Self::of_node).transpose();
        Ok((filter(before)?, filter(behind)?))
    }

    /// Returns the filter of the documents that pass both.
    pub fn and(self, other: Self) -> Result<Self> {
        Self::of_node(FilterNode::And(vec![self.into_root(), other.into_root()]))
    }
}

// === impl FilterNode ===

impl FilterNode {
    fn split(self, origin: &dyn Fn(&Path) -> PathOrigin) -> Result<Parts> {
        interrupt::tick(1)?;
        match self {
            Self::And(nodes) => split_list(nodes, origin, Self::And),
            // Every alternative of a `$nor` is a condition of its own.
            Self::Nor(nodes) => split_list(
                nodes.into_iter().map(Self::not).collect(),
                origin,
                Self::And,
            ),
            mut node => Ok(match node.move_before(origin)? {
                true => (Some(node), None),
                false => (None, Some(node)),
            }),
        }
    }

    /// Returns whether the condition can be tested before the stage, and if so changes its paths to those of the input. A
    /// condition that cannot be moved may be half changed, so it is looked at first.
    fn move_before(&mut self, origin: &dyn Fn(&Path) -> PathOrigin) -> Result<bool> {
        if !self.is_movable(origin)? {
            return Ok(false);
        }
        self.rename(origin);
        Ok(true)
    }

    fn is_movable(&self, origin: &dyn Fn(&Path) -> PathOrigin) -> Result<bool> {
        interrupt::tick(1)?;
        Ok(match self {
            Self::True | Self::False => true,
            Self::And(nodes) | Self::Or(nodes) | Self::Nor(nodes) => {
                for node in nodes {
                    if !node.is_movable(origin)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Not(node) => node.is_movable(origin)?,
            Self::Field(field) => match of_read_path(&field.path, origin) {
                PathOrigin::Same | PathOrigin::Renamed(_) => true,
                PathOrigin::SameIfPresent => !field.test.accepts_missing(),
                PathOrigin::Grouped(_) => field.test.sees_only_equality(),
                PathOrigin::Computed => false,
            },
            Self::Expr(expr) => reads_only_unchanged(&expr.expr, origin).is_continue(),
            Self::Schema(_) | Self::Sample(_) => false,
        })
    }

    fn rename(&mut self, origin: &dyn Fn(&Path) -> PathOrigin) {
        match self {
            Self::And(nodes) | Self::Or(nodes) | Self::Nor(nodes) => {
                nodes.iter_mut().for_each(|node| node.rename(origin));
            }
            Self::Not(node) => node.rename(origin),
            Self::Field(FieldTest { path, .. }) => {
                if let PathOrigin::Renamed(before) | PathOrigin::Grouped(before) =
                    of_read_path(path, origin)
                {
                    *path = Path::parse(&before);
                }
            }
            Self::True | Self::False | Self::Expr(_) | Self::Schema(_) | Self::Sample(_) => {}
        }
    }
}

fn split_list(
    nodes: Vec<FilterNode>,
    origin: &dyn Fn(&Path) -> PathOrigin,
    join: fn(Vec<FilterNode>) -> FilterNode,
) -> Result<Parts> {
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    for node in nodes {
        let parts = node.split(origin)?;
        before.extend(parts.0);
        behind.extend(parts.1);
    }
    let list = |nodes: Vec<FilterNode>| (!nodes.is_empty()).then(|| join(nodes));
    Ok((list(before), list(behind)))
}

/// Breaks if the expression is random, or reads something that the stage changes.
fn reads_only_unchanged(expr: &Expr, origin: &dyn Fn(&Path) -> PathOrigin) -> ControlFlow<()> {
    match expr {
        Expr::Root => return ControlFlow::Break(()),
        Expr::Op(op) if !op.is_pure() => return ControlFlow::Break(()),
        Expr::Field(path) => match origin(path.path()) {
            PathOrigin::Same | PathOrigin::SameIfPresent => {}
            _ => return ControlFlow::Break(()),
        },
        _ => {}
    }
    let mut flow = ControlFlow::Continue(());
    expr.each(&mut |inner| {
        if flow.is_continue() {
            flow = reads_only_unchanged(inner, origin);
        }
    });
    flow
}

// === impl Test ===

impl Test {
    /// Returns whether a missing value passes.
    fn accepts_missing(&self) -> bool {
        match self {
            Self::All(members) => members.has_null(),
            test => test.passes(ValueRef::MISSING),
        }
    }

    /// Returns whether values that compare equal give the same answer, and null the same as a missing value.
    fn sees_only_equality(&self) -> bool {
        match self {
            Self::Compare(_) | Self::In(_) | Self::All(_) | Self::Regex(_) | Self::Size(_) => true,
            Self::Exists
            | Self::Type(_)
            | Self::Mod(_)
            | Self::Bits(_)
            | Self::ElemObject(_)
            | Self::ElemValue(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;
    use crate::query::filter::check;

    /// A stage that sets `z`, copies `a` to `r`, and changes something below `s`.
    fn origin(path: &Path) -> PathOrigin {
        match path.first() {
            "z" => PathOrigin::Computed,
            "r" => PathOrigin::Renamed("a".into()).below(&path.as_str()[1..]),
            "s" if path.len() > 1 => PathOrigin::SameIfPresent,
            "s" => PathOrigin::Computed,
            _ => PathOrigin::Same,
        }
    }

    #[test]
    fn conditions_that_do_not_read_changed_fields_go_before_the_stage() {
        let rows: Vec<(Document, Document, Document)> = vec![
            (doc! {"b": 1}, doc! {"b": {"$eq": 1}}, doc! {}),
            (doc! {"z": 1}, doc! {}, doc! {"z": {"$eq": 1}}),
            (
                doc! {"b": 1, "z": 1, "r.x": {"$gt": 2}},
                doc! {"$and": [{"b": {"$eq": 1}}, {"a.x": {"$gt": 2}}]},
                doc! {"z": {"$eq": 1}},
            ),
            (
                doc! {"$or": [{"b": 1}, {"r": 1}]},
                doc! {"$or": [{"a": {"$eq": 1}}, {"b": {"$eq": 1}}]},
                doc! {},
            ),
            (
                doc! {"$or": [{"b": 1}, {"z": 1}]},
                doc! {},
                doc! {"$or": [{"b": {"$eq": 1}}, {"z": {"$eq": 1}}]},
            ),
            (
                doc! {"$nor": [{"b": 1}, {"z": 1}]},
                doc! {"b": {"$not": {"$eq": 1}}},
                doc! {"z": {"$not": {"$eq": 1}}},
            ),
            (
                doc! {"s.x": 1, "s.y": null, "s": 1, "s.0": 1, "s.u": {"$exists": false}},
                doc! {"$and": [{"s.x": {"$eq": 1}}, {"s.u": {"$not": {"$exists": true}}}]},
                doc! {"$and": [{"s": {"$eq": 1}}, {"s.0": {"$eq": 1}}, {"s.y": {"$eq": null}}]},
            ),
            (
                doc! {"$expr": {"$gt": ["$b", "$s.x"]}},
                doc! {"$expr": {"$gt": ["$b", "$s.x"]}},
                doc! {},
            ),
            (doc! {"$expr": "$z"}, doc! {}, doc! {"$expr": "$z"}),
            (doc! {"$expr": "$$ROOT"}, doc! {}, doc! {"$expr": "$$ROOT"}),
            (
                doc! {"$expr": {"$lt": [{"$rand": {}}, 0.5]}},
                doc! {},
                doc! {"$expr": {"$lt": [{"$rand": {}}, 0.5]}},
            ),
            (
                doc! {"$sampleRate": 0.5},
                doc! {},
                doc! {"$sampleRate": 0.5},
            ),
        ];
        for (filter, before, behind) in rows {
            let parts = check::parse(&filter).unwrap().split(&origin).unwrap();
            let shown = |part: Option<Filter>| {
                let part = part.unwrap_or_else(Filter::all).describe().unwrap();
                Document::from_reader(part.bytes()).unwrap()
            };
            assert_eq!(
                (shown(parts.0), shown(parts.1)),
                (before, behind),
                "{filter}"
            );
        }
    }
}

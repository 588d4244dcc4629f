//! Projections. A row is tested once more when it leaves its cursor, so the fields that the rule needs ride along in it
//! where the projection allows, and are cut off here.

use crate::ttl::OwnTtl;
use crate::upstream::{CollectionRules, DateRule, HIDDEN_FIELD};
use crate::value::{Doc, DocBuf, Type, ValueRef, is_true};

use super::naming::root;
use super::predicate::in_force;

/// A client's projection, changed so that its rows can be tested.
#[derive(Debug)]
pub struct Carried {
    /// The projection to send. `None` if the client's own stays.
    pub projection: Option<DocBuf>,
    /// Root fields that the client does not expect in the rows.
    pub cut: Vec<Box<str>>,
    /// The rows hold all that the rule needs.
    pub complete: bool,
    /// The projection names the fields that stay. The hidden fields are not among them.
    pub inclusive: bool,
}

/// What a projection does with fields that it does not name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Include,
    Exclude,
}

// === impl Carried ===

impl Carried {
    /// Adapts a projection to the rules of its collection.
    pub fn new(projection: Doc<'_>, rules: &CollectionRules) -> Self {
        let mode = mode(projection);
        let mut carried = Self {
            projection: None,
            cut: Vec::new(),
            complete: true,
            inclusive: mode == Mode::Include,
        };
        if projection.is_empty() || rules.is_none() {
            return carried;
        }
        let possible = needed(rules).is_some_and(|paths| match mode {
            Mode::Include => carried.include(projection, &paths),
            Mode::Exclude => carried.keep(projection, &paths),
        });
        if !possible {
            carried.projection = None;
            carried.cut.clear();
            carried.complete = false;
        }
        carried
    }

    /// Adds the paths to a projection that names what stays.
    fn include(&mut self, projection: Doc<'_>, paths: &[&str]) -> bool {
        let mut added = Vec::new();
        for &path in paths {
            let mut named = projection
                .iter()
                .filter(|elem| root(elem.name()) == root(path));
            match named.next() {
                None => added.push(path),
                // The whole field, or the whole path, is there for the client.
                Some(elem)
                    if named.next().is_none()
                        && flag(elem.value) == Some(true)
                        && (elem.name() == path || elem.name() == root(path)) => {}
                Some(_) => return false,
            }
        }
        if !added.is_empty() {
            self.projection = Some(DocBuf::build(|out| {
                out.put_body(projection.body());
                for path in &added {
                    out.put_i32(path, 1);
                }
            }));
        }
        self.cut = added.iter().map(|path| root(path).into()).collect();
        true
    }

    /// Removes the paths from a projection that names what goes.
    fn keep(&mut self, projection: Doc<'_>, paths: &[&str]) -> bool {
        let mut kept: Vec<&str> = Vec::new();
        for &path in paths {
            for elem in projection
                .iter()
                .filter(|elem| root(elem.name()) == root(path))
            {
                if elem.name() != root(path) || flag(elem.value) != Some(false) {
                    return false;
                }
                kept.push(root(path));
            }
        }
        if !kept.is_empty() {
            self.projection = Some(DocBuf::build(|out| {
                super::stamp::put_without(projection, &kept, out);
            }));
            self.cut = kept.iter().map(|&name| name.into()).collect();
        }
        true
    }
}

/// Returns the paths that the rule reads. `None` if it may read any: partial filters do.
///
/// While the default is off nothing reads the stamp and `ttl`. They are named all the same, because a cursor may outlive that.
pub fn needed(rules: &CollectionRules) -> Option<Vec<&str>> {
    if date_rules(rules).any(|rule| rule.filter.is_some()) {
        return None;
    }
    let mut paths: Vec<&str> = date_rules(rules).map(|rule| rule.path.as_str()).collect();
    if rules.stamped {
        paths.extend([OwnTtl::FIELD, HIDDEN_FIELD]);
    }
    paths.sort_unstable();
    paths.dedup();
    Some(paths)
}

/// Returns the stage that puts what the rule reads into the hidden field, as a small document. There it rides through
/// stages that change the shape of rows.
pub fn riding(rules: &CollectionRules) -> DocBuf {
    DocBuf::build(|stage| {
        let mut set = stage.doc("$addFields");
        match needed(rules) {
            None => {
                set.put_str(HIDDEN_FIELD, "$$ROOT");
            }
            Some(paths) => {
                let mut roots: Vec<&str> = paths.into_iter().map(root).collect();
                roots.dedup();
                // An operator, because a plain object would be merged with the value that is there.
                let mut value = set.doc(HIDDEN_FIELD);
                let mut objects = value.array("$mergeObjects");
                let mut object = objects.doc();
                for name in roots {
                    object.put_str(name, &format!("${name}"));
                }
                object.end();
                objects.end();
                value.end();
            }
        }
        set.end();
    })
}

/// Returns the `newRoot` with what rides along. Anything but an object stays as it is, so that the cluster can refuse it.
pub fn riding_root(new_root: ValueRef<'_>) -> DocBuf {
    DocBuf::build(|out| {
        let mut call = out.doc("$let");
        call.doc("vars").put("row", new_root);
        let mut choice = call.doc("in");
        let mut args = choice.array("$cond");
        let mut is_object = args.doc();
        let mut sides = is_object.array("$eq");
        sides.doc().put_str("$type", "$$row");
        sides.push_str("object");
        sides.end();
        is_object.end();
        let mut merged = args.doc();
        let mut objects = merged.array("$mergeObjects");
        objects.push_str("$$row");
        objects
            .doc()
            .put_str(HIDDEN_FIELD, &format!("${HIDDEN_FIELD}"));
        objects.end();
        merged.end();
        args.push_str("$$row");
        args.end();
        choice.end();
        call.end();
    })
}

/// Returns whether a projection is a positional one, which may not stand beside an `$expr`.
pub fn is_positional(projection: Doc<'_>) -> bool {
    projection.iter().any(|elem| elem.name().ends_with(".$"))
}

/// Checks nothing: a projection that is wrong is the cluster's to refuse.
fn mode(projection: Doc<'_>) -> Mode {
    let fields = projection.iter().filter(|elem| elem.name() != "_id");
    let mut modes = fields.filter_map(|elem| mode_of(elem.value));
    modes
        .next()
        .unwrap_or_else(|| match flag(projection.get("_id")) {
            Some(true) => Mode::Include,
            _ => Mode::Exclude,
        })
}

fn mode_of(value: ValueRef<'_>) -> Option<Mode> {
    if let Some(included) = flag(value) {
        return Some(if included {
            Mode::Include
        } else {
            Mode::Exclude
        });
    }
    let Some(doc) = value.as_doc() else {
        return Some(Mode::Include);
    };
    match doc.first() {
        Some(first) if matches!(first.name(), "$slice" | "$meta") => None,
        Some(first) if first.name().starts_with('$') => Some(Mode::Include),
        Some(_) => doc.iter().find_map(|elem| mode_of(elem.value)),
        None => Some(Mode::Include),
    }
}

/// Returns whether the value includes or excludes a field. Any other value computes one.
fn flag(value: ValueRef<'_>) -> Option<bool> {
    match value.ty() {
        Type::Bool | Type::Int32 | Type::Int64 | Type::Double | Type::Decimal => {
            Some(is_true(value))
        }
        _ => None,
    }
}

/// Returns the root fields that a projection computes.
pub fn computed(projection: Doc<'_>) -> impl Iterator<Item = Box<str>> {
    let is_computed = |value: ValueRef<'_>| match value.as_doc().map(Doc::first) {
        // Part of a field, or a nested projection.
        Some(first) => first.is_some_and(|first| {
            let name = first.name();
            name.starts_with('$') && !matches!(name, "$slice" | "$elemMatch")
        }),
        None => flag(value).is_none(),
    };
    let computed = projection
        .iter()
        .filter(move |elem| is_computed(elem.value));
    computed.map(|elem| root(elem.name()).into())
}

/// Returns the TTL indexes on dates, also those of former rules.
pub fn date_rules(rules: &CollectionRules) -> impl Iterator<Item = &DateRule> {
    in_force(rules).flat_map(|rules| &rules.dates)
}

/// Returns the hidden root fields of a collection's documents, for a command that does or does not see `_ts`.
pub fn hidden(rules: &CollectionRules, shows_ts: bool) -> &'static [&'static str] {
    match (rules.stamped, rules.stores_ts && !shows_ts) {
        (false, _) => &[],
        (true, false) => &[HIDDEN_FIELD],
        (true, true) => &[HIDDEN_FIELD, crate::ttl::TS_FIELD],
    }
}

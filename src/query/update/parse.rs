//! Parsed updates: one of three styles, and its tree.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::error::{Error, Result};
use crate::query::{Scope, Vars, stage};
use crate::value::{Doc, Millis, TS_FIELD, Type, Value, ValueRef};

use super::array_filter::{self, ArrayFilters};
use super::check::{self, MAX_DEPTH};
use super::edit::{Edit, edit};
use super::modify::{UpdateArgument, UpdateLeaf};
use super::path::{self, UpdatePath};
use super::pipeline::PipelineUpdate;
use super::replace::Replacement;
use super::rewrite::Rewrite;
use super::table::{PathLeaf, UPDATES, UpdateParser};
use super::tree::{self, FieldNodes, UpdateNode};

/// Updates larger than this are sorted by path before they are inserted into the tree. Such an update may have a million
/// fields, and each one is inserted at its place among the others. (Conflicts may then be reported in another order than
/// the client's.)
const LARGE: usize = 256 * 1024;

/// A parsed update, which can be applied to any number of documents.
pub struct Update(pub(super) UpdateKind);

pub(super) enum UpdateKind {
    Operators(Operators),
    Replacement(Replacement),
    Pipeline(PipelineUpdate),
}

/// A parsed update with operators.
pub(super) struct Operators {
    root: FieldNodes,
    /// Boxed, because few updates have any, and an update is handed on several times before it runs.
    filters: Option<Box<ArrayFilters>>,
    /// True if some path contains the positional `$`.
    positional: bool,
    /// True if the result may nest too deep, so that its depth must be checked.
    deep: bool,
    /// True if all operators are quick and none must search an array for its elements.
    quick: bool,
    slow: bool,
    /// True if all operators are quick and on root fields without special rules.
    plain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Operators,
    Replacement,
    Pipeline,
}

/// The context in which an update is applied.
#[derive(Clone, Copy)]
pub struct Apply<'a> {
    pub now: Millis,
    pub vars: &'a Vars,
    /// The array index of the positional `$`, as the filter found it.
    pub position: Option<usize>,
    /// True if an upsert is about to insert the document.
    pub inserting: bool,
}

// === impl Update ===

impl Update {
    /// Stores timestamps of zeros in a replacement as they are (`bypassEmptyTsReplacement`), where they mean "now" else.
    pub fn keep_empty_timestamps(&mut self) {
        if let UpdateKind::Replacement(replacement) = &mut self.0 {
            replacement.keep_empty_timestamps();
        }
    }

    /// Refuses what is neither a document nor a pipeline. Commands do that when they read their fields.
    pub fn check_form(update: ValueRef<'_>) -> Result<()> {
        match update.ty() {
            Type::Document => Ok(()),
            Type::Array => stage::check_documents(Doc::new(update.data())),
            _ => Err(Error::failed_to_parse(
                "Update argument must be either an object or an array",
            )),
        }
    }

    /// Parses `u` and `arrayFilters`.
    pub fn parse(
        update: ValueRef<'_>,
        array_filters: Option<Doc<'_>>,
        scope: &Scope,
    ) -> Result<Self> {
        Self::check_form(update)?;
        if let Some(stages) = update.as_array() {
            if array_filters.is_some_and(|filters| !filters.is_empty()) {
                return Err(Error::failed_to_parse(
                    "arrayFilters may not be specified for pipeline-style updates",
                ));
            }
            return Ok(Self(UpdateKind::Pipeline(PipelineUpdate::parse(
                stages, scope,
            )?)));
        }
        let doc = update.as_doc().unwrap_or(Doc::EMPTY);
        let operators = doc
            .first()
            .is_some_and(|elem| elem.name_bytes().starts_with(b"$"));
        if operators {
            let operators = Operators::parse(doc, array_filters, scope)?;
            return Ok(Self(UpdateKind::Operators(operators)));
        }
        // They are read, and nothing uses them.
        if let Some(filters) = array_filters {
            array_filter::parse(filters, scope)?;
        }
        Ok(Self(UpdateKind::Replacement(Replacement::parse(doc))))
    }

    pub fn style(&self) -> Style {
        match self.0 {
            UpdateKind::Operators(_) => Style::Operators,
            UpdateKind::Replacement(_) => Style::Replacement,
            UpdateKind::Pipeline(_) => Style::Pipeline,
        }
    }

    pub fn has_array_filters(&self) -> bool {
        matches!(&self.0, UpdateKind::Operators(operators) if operators.filters.is_some())
    }

    /// Returns whether the update reads [`Apply::position`].
    pub fn needs_position(&self) -> bool {
        matches!(&self.0, UpdateKind::Operators(operators) if operators.positional)
    }

    /// Returns whether the update reads the `_ts` of the document.
    pub fn reads_ts(&self) -> bool {
        matches!(&self.0, UpdateKind::Pipeline(pipeline) if pipeline.reads_ts)
    }

    /// Returns whether the root field with that name certainly keeps its value.
    pub fn leaves_alone(&self, field: &str) -> bool {
        matches!(&self.0, UpdateKind::Operators(operators) if operators.root.find(field.as_bytes()).is_none())
    }

    /// Returns whether the resulting document certainly has no root field `ttl`.
    pub fn lacks_ttl(&self) -> bool {
        matches!(&self.0, UpdateKind::Replacement(replacement) if !replacement.has_ttl)
    }

    /// Returns whether applying it to a small document takes negligible time: no expression, no pattern, no array to
    /// search or sort.
    pub fn is_quick(&self) -> bool {
        match &self.0 {
            UpdateKind::Operators(operators) => operators.quick,
            UpdateKind::Replacement(replacement) => replacement.len() <= LARGE,
            UpdateKind::Pipeline(_) => false,
        }
    }

    /// Returns whether the update may take long with one document, as [`Survey`](crate::query::Survey) explains.
    pub fn is_slow(&self) -> bool {
        match &self.0 {
            UpdateKind::Operators(operators) => operators.slow,
            UpdateKind::Replacement(_) => false,
            UpdateKind::Pipeline(pipeline) => pipeline.is_slow,
        }
    }

    /// Returns what becomes of `doc` if the update only changes or removes root fields that are there. On `None` the caller
    /// uses [`Update::apply`], which also reports errors.
    #[inline]
    pub fn edit(&self, doc: Doc<'_>, apply: &Apply<'_>) -> Option<Edit> {
        match &self.0 {
            UpdateKind::Operators(operators) if operators.plain => {
                edit(&operators.root, doc, apply)
            }
            _ => None,
        }
    }

    /// Returns the updated document, or `None` if nothing changes.
    pub fn apply(&self, doc: Doc<'_>, apply: &Apply<'_>) -> Result<Option<Vec<u8>>> {
        // Most updates hardly change the size.
        let mut out = Vec::with_capacity(doc.bytes().len() + 64);
        Ok(self.apply_into(doc, apply, &mut out)?.then_some(out))
    }

    /// Appends the updated document to `out`. Returns whether anything changed. If not, or on an error, `out` stays as it
    /// was.
    pub fn apply_into(&self, doc: Doc<'_>, apply: &Apply<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        let changed = match &self.0 {
            UpdateKind::Operators(operators) => operators.apply(doc, apply, out),
            UpdateKind::Replacement(replacement) => replacement.apply(doc, apply, out),
            UpdateKind::Pipeline(pipeline) => pipeline.apply(doc, apply, out),
        };
        if !matches!(changed, Ok(true)) {
            out.truncate(start);
        }
        changed
    }
}

/// Parses an operator's argument for one field into leaves and their paths. A conflict of the first one is told before an
/// error of the second.
fn leaves<'a>(
    parse: UpdateParser,
    argument: &UpdateArgument<'a>,
) -> Result<SmallVec<[Result<PathLeaf<'a>>; 1]>> {
    Ok(match parse {
        UpdateParser::Field(parse) => {
            let path = UpdatePath::parse(argument.field)?;
            smallvec![Ok((path, parse(argument)?))]
        }
        UpdateParser::TwoFields(parse) => {
            let (first, second) = parse(argument)?;
            smallvec![Ok(first), second]
        }
    })
}

// === impl Operators ===

impl Operators {
    /// Returns whether an operator builds an array as this root field.
    pub(super) fn builds_an_array(&self, field: &str) -> bool {
        let at = self.root.find(field.as_bytes());
        let child = at.and_then(|at| self.root.children.get(at));
        child.is_some_and(
            |child| matches!(&child.node, UpdateNode::Leaf(leaf) if leaf.builds_an_array()),
        )
    }

    fn parse(update: Doc<'_>, array_filters: Option<Doc<'_>>, scope: &Scope) -> Result<Self> {
        let filters = match array_filters {
            Some(filters) => Some(Box::new(array_filter::parse(filters, scope)?)),
            None => None,
        };
        let mut used = vec![false; filters.as_ref().map_or(0, |filters| filters.len())];
        let mut parsed = Self {
            root: FieldNodes::default(),
            filters,
            positional: false,
            deep: false,
            quick: true,
            slow: false,
            plain: true,
        };
        parsed.slow = parsed
            .filters
            .as_deref()
            .is_some_and(array_filter::are_slow);
        let large = update.bytes().len() > LARGE;
        parsed.quick = !large && used.is_empty();
        let mut later = Vec::new();
        for elem in update {
            let Some(row) = UPDATES.find(elem.name_bytes()) else {
                let name = elem.name();
                return Err(Error::failed_to_parse(format!(
                    "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update specified as an array"
                )));
            };
            let Some(arguments) = elem.value.as_doc() else {
                return Err(Error::failed_to_parse(format!(
                    "Modifiers operate on fields but we found type {} instead. For example: {{$mod: {{<field>: ...}}}} not {{{}}}",
                    elem.value.ty().alias(),
                    check::element(row.name, elem.value)
                )));
            };
            let parse = *UPDATES.ready(row)?;
            for argument in arguments {
                let argument = UpdateArgument {
                    field: argument.name(),
                    value: argument.value,
                    scope,
                };
                if let UpdateParser::Field(parse) = parse
                    && !large
                    && path::is_field(argument.field)
                {
                    parsed.insert_field(argument.field, parse(&argument)?)?;
                    continue;
                }
                for leaf in leaves(parse, &argument)? {
                    let (path, leaf) = leaf?;
                    if large {
                        later.push((path, leaf));
                    } else {
                        parsed.insert(&path, leaf, &mut used)?;
                    }
                }
            }
        }
        later.sort_by(|(a, _), (b, _)| tree::path_order(a.dotted, b.dotted));
        for (path, leaf) in later {
            parsed.insert(&path, leaf, &mut used)?;
        }
        let unused = used.iter().position(|used| !used);
        if let Some((identifier, _)) = unused.and_then(|at| parsed.filters.as_ref()?.at(at)) {
            return Err(Error::failed_to_parse(format!(
                "The array filter for identifier '{identifier}' was not used in the update {update}",
            )));
        }
        Ok(parsed)
    }

    /// Adds a leaf for a root field.
    fn insert_field(&mut self, name: &str, leaf: UpdateLeaf) -> Result<()> {
        check_reserved(name, name)?;
        self.note_depth(1, &leaf);
        let is_quick = self.note_pace(&leaf);
        self.plain &= is_quick && !self.deep && name != "_id";
        self.root.insert_field(name, leaf)
    }

    /// Notes how deep a new value ends. Paths start at the root, so this is known before any document is read.
    fn note_depth(&mut self, above: usize, leaf: &UpdateLeaf) {
        let depth = leaf.depth();
        self.deep |= depth.is_none_or(|depth| above + depth > MAX_DEPTH);
    }

    /// Notes the speed of the leaf, and returns whether it is quick. A quick leaf is never slow.
    fn note_pace(&mut self, leaf: &UpdateLeaf) -> bool {
        let is_quick = leaf.is_quick();
        self.quick &= is_quick;
        self.slow |= !is_quick && leaf.is_slow();
        is_quick
    }

    fn insert(&mut self, path: &UpdatePath<'_>, leaf: UpdateLeaf, used: &mut [bool]) -> Result<()> {
        check_reserved(path.parts.first().copied().unwrap_or_default(), path.dotted)?;
        self.positional |= path.parts.contains(&"$");
        self.note_depth(path.parts.len(), &leaf);
        self.note_pace(&leaf);
        self.quick &= !self.positional;
        // Plain root fields are added by `insert_field`.
        self.plain = false;
        let filters = self.filters.as_deref();
        self.root.insert(path, leaf, &mut |identifier| {
            let at = filters?.find(identifier.as_bytes())?;
            if let Some(used) = used.get_mut(at) {
                *used = true;
            }
            Some(at)
        })
    }

    pub(super) fn root(&self) -> &FieldNodes {
        &self.root
    }

    pub(super) fn filters(&self) -> Option<&ArrayFilters> {
        self.filters.as_deref()
    }

    fn apply(&self, doc: Doc<'_>, apply: &Apply<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        out.reserve(doc.bytes().len() + 64);
        let changed = self.rewrite(&self.root, doc, apply, out);
        if !changed.map_err(|error| self.first_failure(doc, apply).unwrap_or(error))? {
            return Ok(false);
        }
        let result = Doc::new(out.get(start..).unwrap_or_default());
        if self.deep {
            check::check_depth(result)?;
        }
        if !apply.inserting {
            self.check_names(doc, result)?;
        }
        Ok(true)
    }

    fn rewrite(
        &self,
        fields: &FieldNodes,
        doc: Doc<'_>,
        apply: &Apply<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let start = out.len();
        let mut rewrite = Rewrite {
            root: doc,
            apply,
            filters: self.filters.as_deref(),
            out,
            start,
        };
        rewrite.run(fields)
    }

    /// Returns the error that MongoDB reports: it changes the fields of the root in the order of their names, and a rewrite in that
    /// of the document.
    fn first_failure(&self, doc: Doc<'_>, apply: &Apply<'_>) -> Option<Error> {
        /// An update with more fields reports the first error that was met.
        const MOST: usize = 64;
        if self.root.positional.is_some() || !(2..=MOST).contains(&self.root.children.len()) {
            return None;
        }
        self.root.children.iter().find_map(|child| {
            let alone = FieldNodes {
                children: vec![child.clone()],
                positional: None,
            };
            let changed = self.rewrite(&alone, doc, apply, &mut Vec::new());
            changed.err()
        })
    }

    /// Rejects root names that begin with `$` if this update created or changed the field.
    fn check_names(&self, before: Doc<'_>, after: Doc<'_>) -> Result<()> {
        for child in self
            .root
            .children
            .iter()
            .filter(|child| child.name.starts_with('$'))
        {
            let value = after.get(&*child.name);
            if !value.is_missing() && value != before.get(&*child.name) {
                check::check_root_name(after, &child.name)?;
            }
        }
        Ok(())
    }
}

/// Rejects a write to `_ts`, which belongs to the server. (Updates may still read it.)
pub(super) fn check_reserved(first: &str, path: &str) -> Result<()> {
    if first == TS_FIELD {
        return Err(Error::bad_value(format!(
            "Performing an update on the path '{path}' would modify the field '{TS_FIELD}', which is kept by the server"
        )));
    }
    Ok(())
}

/// Builds a document from paths and values. An upsert starts with it.
pub(super) fn document_of(
    pairs: &[(&str, &Value)],
    apply: &Apply<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut root = FieldNodes::default();
    for (path, value) in pairs {
        let parts = UpdatePath {
            dotted: path,
            parts: path.split('.').collect(),
        };
        let leaf = super::set::Set {
            value: (*value).clone(),
            only_on_insert: false,
        };
        root.insert(&parts, Arc::new(leaf), &mut |_| None)?;
    }
    let start = out.len();
    Rewrite {
        root: Doc::EMPTY,
        apply,
        filters: None,
        out,
        start,
    }
    .run(&root)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use super::*;
    use crate::query::survey::MANY;
    use crate::value::DocBuf;

    #[test]
    fn updates_that_are_slow() {
        let filters = |count: usize, filter: fn(String) -> Bson| -> Bson {
            (0..count)
                .map(|n| filter(format!("e{n}")))
                .collect::<Vec<_>>()
                .into()
        };
        let set = |count: usize| {
            let fields = (0..count).map(|n| (format!("a{n}.$[e{n}]"), Bson::from(1)));
            bson!({"$set": fields.collect::<bson::Document>()})
        };
        let equal: fn(String) -> Bson = |name| bson!({name: 1});
        let pattern: fn(String) -> Bson = |name| bson!({name: {"$regex": "x*"}});
        let rows: Vec<(Bson, Bson, bool)> = vec![
            (bson!({"$inc": {"a": 1}}), bson!([]), false),
            (bson!({"a": 1}), bson!([]), false),
            (
                bson!({"$push": {"a": {"$each": [1], "$sort": 1}}}),
                bson!([]),
                false,
            ),
            (bson!({"$pull": {"a": 1}}), bson!([]), false),
            (bson!({"$pull": {"a": {"$gt": 1}}}), bson!([]), false),
            (bson!({"$pull": {"a": {"$regex": "x*"}}}), bson!([]), true),
            (
                bson!({"$pull": {"a.b": {"c": {"$regex": "x*"}}}}),
                bson!([]),
                true,
            ),
            (set(MANY), filters(MANY, equal), false),
            (set(MANY + 1), filters(MANY + 1, equal), true),
            (set(1), filters(1, pattern), true),
            (
                bson!([{"$set": {"a": {"$add": ["$a", 1]}}}]),
                bson!([]),
                false,
            ),
            (
                bson!([{"$set": {"a": {"$map": {"input": "$a", "in": 1}}}}]),
                bson!([]),
                true,
            ),
        ];
        for (update, filters, expected) in rows {
            let doc = DocBuf::from(bson::doc! {"u": update.clone(), "f": filters});
            let filters = doc
                .as_doc()
                .get("f")
                .as_array()
                .filter(|list| !list.is_empty());
            let parsed = Update::parse(doc.as_doc().get("u"), filters, &Scope::new()).unwrap();
            assert_eq!(parsed.is_slow(), expected, "{update}");
        }
    }
}

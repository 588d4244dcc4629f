//! What the parsed trees of a command report about themselves before they run.

use super::expr::Expr;
use crate::value::Path;

/// A survey of the parsed trees of a command: whether they name a given root field of the documents they read, and whether
/// they are slow. Every tree reports its parts to the survey: filters, sorts, projections, stages, expressions.
///
/// # Naming
///
/// Only a command that names `_ts` sees it. The rule:
///
/// 1. A path that begins with the field names it, in any stage, whether the path is read or written.
/// 2. Deeper in a path, or below a variable, the field may belong to a whole document that was embedded there: by
///    `$$ROOT` in this or an earlier stage, or by a stage that embeds documents in a row (`$lookup`, `$facet`). In that
///    case it is named. If no document was embedded, it is a field of the client's own.
/// 3. A name that is computed at run time (`$getField` of an expression) may be any name, so it counts as the field.
/// 4. Embedding a whole document names nothing by itself.
///
/// # Slow
///
/// A tree is slow if it may take long with a single document. Only the run shows whether it does. A command with a
/// slow tree starts as a task and does not run at once, because a client can kill only what is on the list of operations.
/// A slow filter is tested on copies of the documents, because all writers wait while a scan holds the lock. These are
/// slow:
///
/// - expressions that loop (`$map`, `$filter`, `$reduce`, `$regexFindAll`), and patterns that may be costly or are not
///   known yet,
/// - filters with any expression, with a schema, with such a pattern, or with very many conditions: hundreds of documents
///   are tested under one lock,
/// - updates with very many array filters, or with a slow filter or expression in them.
pub struct Survey<'f> {
    field: &'f str,
    /// True once the field was named.
    found: bool,
    /// True if the current tree names the field below the root.
    below: bool,
    /// True if whole documents may be embedded below the root.
    carries: bool,
    slow: bool,
    random: bool,
}

/// The result of a survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SurveyResult {
    /// True if the trees name the root field in question.
    pub names_field: bool,
    pub is_slow: bool,
    /// True if equal documents may give different results (`$rand`, `$sampleRate`).
    pub is_random: bool,
}

/// More parts than this may take long, side by side or nested.
pub const MANY: usize = 16;

// === impl Survey ===

impl<'f> Survey<'f> {
    /// Surveys one tree, or several in sequence, for a root field.
    pub fn of(field: &'f str, visit: impl FnOnce(&mut Self)) -> SurveyResult {
        let mut survey = Self {
            field,
            found: false,
            below: false,
            carries: false,
            slow: false,
            random: false,
        };
        visit(&mut survey);
        survey.settle();
        SurveyResult {
            names_field: survey.found,
            is_slow: survey.slow,
            is_random: survey.random,
        }
    }

    /// Reports a path from the root of a row.
    pub fn path(&mut self, path: &Path) {
        self.parts(path.parts());
    }

    /// Reports a path from the root of a row, given as its names.
    pub fn parts<'p>(&mut self, parts: impl IntoIterator<Item = &'p str>) {
        let mut parts = parts.into_iter();
        self.found |= parts.next() == Some(self.field);
        self.names_below(parts);
    }

    /// Reports a path that does not start at the root of a row.
    pub fn path_below(&mut self, path: &Path) {
        self.names_below(path.parts());
    }

    fn names_below<'p>(&mut self, mut names: impl Iterator<Item = &'p str>) {
        self.below |= names.any(|name| name == self.field);
    }

    /// Reports one name, at the root or below it.
    pub fn name(&mut self, name: &str, at_root: bool) {
        match at_root {
            true => self.found |= name == self.field,
            false => self.below |= name == self.field,
        }
    }

    /// Reports a name that is computed at run time.
    pub fn any_name(&mut self) {
        self.below = true;
    }

    /// Notes that from here on, whole documents may be embedded below the root.
    pub fn carry(&mut self) {
        self.carries = true;
    }

    /// Ends a tree. A name below the root counts if this tree or an earlier one embedded a document.
    pub fn settle(&mut self) {
        self.found |= self.below && self.carries;
        self.below = false;
    }

    /// Notes that some part is slow.
    pub fn slow(&mut self) {
        self.slow = true;
    }

    /// Notes that some part is random.
    pub fn random(&mut self) {
        self.random = true;
    }

    pub fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Field(path) => self.path(path.path()),
            Expr::Root => self.carry(),
            Expr::Var {
                path: Some(path), ..
            } => self.path_below(path.path()),
            Expr::Op(op) => {
                self.random |= !op.is_pure();
                op.survey(self);
            }
            _ => {}
        }
        expr.each(&mut |within| self.expr(within));
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, bson, doc};

    use crate::query::projection::ProjectionKind;
    use crate::query::sort::Sort;
    use crate::query::stage::{Pipeline, StageContext, Transform};
    use crate::query::{Filter, Projection, Scope};
    use crate::value::DocBuf;

    use super::*;

    #[test]
    fn filters_that_name_the_field() {
        let rows: Vec<(Document, bool)> = vec![
            (doc! {"_ts": {"$gt": 5}}, true),
            (doc! {"_ts.x": 5}, true),
            (doc! {"_tsx": 5}, false),
            (doc! {"a._ts": 5}, false),
            (doc! {"a": {"_ts": 5}}, false),
            (doc! {"a": "_ts"}, false),
            (doc! {"a": {"$elemMatch": {"_ts": 5}}}, false),
            (doc! {"$or": [{"a": 1}, {"$and": [{"_ts": 1}]}]}, true),
            (doc! {"$nor": [{"_ts": {"$not": {"$lt": 1}}}]}, true),
            (doc! {"$or": [{"a": 1, "_ts": 5}, {}]}, true),
            (doc! {"$or": [{}, {"$and": [{"_ts": 1}]}]}, true),
            (doc! {"_ts": 5, "$alwaysFalse": 1}, true),
            (doc! {"a": {"$elemMatch": {"$or": [{"_ts": 5}, {}]}}}, false),
            (doc! {"$expr": {"$gt": ["$_ts", 1]}}, true),
            (doc! {"$expr": {"$gt": ["$a._ts", 1]}}, false),
            (doc! {"$expr": {"$eq": ["$a", "_ts"]}}, false),
            (doc! {"$jsonSchema": {"required": ["_ts"]}}, true),
            (
                doc! {"$jsonSchema": {"anyOf": [{"properties": {"_ts": {}}}]}},
                true,
            ),
            (doc! {"$jsonSchema": {"dependencies": {"a": ["_ts"]}}}, true),
            (
                doc! {"$jsonSchema": {"properties": {"a": {"required": ["_ts"]}}, "additionalProperties": false}},
                false,
            ),
        ];
        for (spec, expected) in rows {
            let doc = DocBuf::from(spec.clone());
            let filter = Filter::parse(doc.as_doc(), &Scope::new()).unwrap();
            let named = Survey::of("_ts", |survey| filter.survey(survey)).names_field;
            assert_eq!(named, expected, "{spec}");
        }
    }

    #[test]
    fn filters_that_are_slow() {
        let tests = |count: usize| -> Document {
            (0..count)
                .map(|n| (format!("f{n}"), Bson::from(1)))
                .collect()
        };
        let lists = |wide: usize| {
            let list = vec![tests(wide); wide];
            doc! {"$nor": [{"$and": list.clone()}, {"$nor": list}]}
        };
        let rows: Vec<(Document, bool)> = vec![
            (doc! {}, false),
            (tests(MANY), false),
            (tests(MANY + 1), true),
            (doc! {"a": {"$in": (0..1000).collect::<Vec<_>>()}}, false),
            (lists(2), false),
            (lists(4), true),
            (doc! {"a": {"$regex": "^abc"}}, false),
            (doc! {"a": {"$regex": "(?i)\\+49[*]"}}, true),
            (doc! {"a": {"$regex": "\\+49[*]"}}, false),
            (doc! {"a": {"$regex": "(?i)abc"}}, false),
            (doc! {"a": {"$regex": "a.*b"}}, true),
            (doc! {"a": {"$not": {"$regex": "a{5}"}}}, true),
            (doc! {"a": {"$elemMatch": {"b": {"$regex": "x+"}}}}, true),
            (
                doc! {"a": {"$in": [Bson::RegularExpression(bson::Regex {
                    pattern: "x+".try_into().unwrap(), options: "".try_into().unwrap(),
                })]}},
                true,
            ),
            (doc! {"$expr": {"$gt": ["$a", "$b"]}}, true),
            (
                doc! {"$or": [{"a": 1}, {"$jsonSchema": {"required": ["a"]}}]},
                true,
            ),
        ];
        for (spec, expected) in rows {
            let doc = DocBuf::from(spec.clone());
            let filter = Filter::parse(doc.as_doc(), &Scope::new()).unwrap();
            let surveyed = Survey::of("_ts", |survey| filter.survey(survey));
            assert_eq!(surveyed.is_slow, expected, "{spec}");
            assert_eq!(filter.is_slow(), expected, "{spec}");
        }
    }

    #[test]
    fn pipelines_and_projections_that_are_slow() {
        let map = || bson!({"$map": {"input": "$a", "in": "$$this"}});
        let find = |name: &str, regex: &str| bson!({name: {"input": "$a", "regex": regex}});
        let sub = || bson!([{"$set": {"x": map()}}]);
        let rows: Vec<(Bson, bool)> = vec![
            (bson!([{"$project": {"x": {"$add": [1, "$a"]}}}]), false),
            (bson!([{"$project": {"x": {"y": [map()]}}}]), true),
            (bson!([{"$match": {"$expr": true}}]), true),
            (
                bson!([{"$group": {"_id": "$a", "x": {"$push": map()}}}]),
                true,
            ),
            (
                bson!([{"$group": {"_id": {"$size": {"$filter": {"input": "$a", "cond": true}}}}}]),
                true,
            ),
            (
                bson!([{"$bucketAuto": {"groupBy": map(), "buckets": 2}}]),
                true,
            ),
            (
                bson!([{"$lookup": {"from": "b", "pipeline": sub(), "as": "j"}}]),
                true,
            ),
            (
                bson!([{"$lookup": {"from": "b", "let": {"v": map()}, "pipeline": [], "as": "j"}}]),
                true,
            ),
            (
                bson!([{"$unionWith": {"coll": "b", "pipeline": sub()}}]),
                true,
            ),
            (bson!([{"$facet": {"f": sub(), "g": []}}]), true),
            (
                bson!([{"$merge": {"into": "b", "whenMatched": sub()}}]),
                true,
            ),
            (
                bson!([{"$merge": {"into": "b", "whenMatched": [{"$set": {"x": 1}}]}}]),
                false,
            ),
            // MongoDB computes some constants with the documents, and so do we.
            (
                bson!([{"$set": {"x": {"$regexFindAll": {"input": "aa", "regex": "a"}}}}]),
                true,
            ),
            (bson!([{"$set": {"x": find("$regexFindAll", "a")}}]), true),
            (bson!([{"$set": {"x": find("$regexMatch", "a")}}]), false),
            (bson!([{"$set": {"x": find("$regexMatch", "a+")}}]), true),
            (bson!([{"$set": {"x": find("$regexMatch", "$b")}}]), true),
        ];
        for (stages, expected) in rows {
            let doc = DocBuf::from(doc! {"p": stages.clone()});
            let scope = Scope::new();
            let context = StageContext::new(&scope, "db", Some("a"));
            let stages_doc = doc.as_doc().get("p").as_array().unwrap();
            let pipeline = Pipeline::parse(stages_doc, &context).unwrap();
            let surveyed = Survey::of("_ts", |survey| pipeline.survey(survey));
            assert_eq!(surveyed.is_slow, expected, "{stages}");
        }
        for (spec, expected) in [
            (doc! {"a": 1, "b": "$c"}, false),
            (doc! {"a": {"b": map()}}, true),
            (doc! {"a": {"$elemMatch": {"b": {"$regex": "x*"}}}}, true),
            (doc! {"a": {"$elemMatch": {"b": 1}}}, false),
        ] {
            let doc = DocBuf::from(spec.clone());
            let projection =
                Projection::parse(doc.as_doc(), &Scope::new(), ProjectionKind::Find).unwrap();
            let surveyed = Survey::of("_ts", |survey| projection.survey(survey));
            assert_eq!(surveyed.is_slow, expected, "{spec}");
        }
    }

    #[test]
    fn sorts_and_projections_that_name_the_field() {
        for (spec, expected) in [
            (doc! {"_ts": -1}, true),
            (doc! {"a": 1, "_ts": 1}, true),
            (doc! {"a._ts": 1}, false),
        ] {
            let doc = DocBuf::from(spec.clone());
            let sort = Sort::parse(doc.as_doc()).unwrap();
            let named = Survey::of("_ts", |survey| sort.survey(survey)).names_field;
            assert_eq!(named, expected, "{spec}");
        }
        for (spec, expected) in [
            (doc! {"_ts": 1}, true),
            (doc! {"_ts": 0}, true),
            (doc! {"a": 1}, false),
            (doc! {"a": {"_ts": 1}}, false),
            (doc! {"a._ts": 1}, false),
            (doc! {"a": {"$elemMatch": {"_ts": 1}}}, false),
            (doc! {"t": "$_ts"}, true),
            (doc! {"o": {"t": {"$add": [1, "$_ts"]}}}, true),
            (doc! {"all": "$$ROOT"}, false),
        ] {
            let doc = DocBuf::from(spec.clone());
            let projection =
                Projection::parse(doc.as_doc(), &Scope::new(), ProjectionKind::Find).unwrap();
            let named = Survey::of("_ts", |survey| projection.survey(survey)).names_field;
            assert_eq!(named, expected, "{spec}");
        }
    }

    #[test]
    fn pipelines_that_name_the_field() {
        let push = || bson!({"$group": {"_id": null, "d": {"$push": "$$ROOT"}}});
        let lookup =
            || bson!({"$lookup": {"from": "b", "localField": "a", "foreignField": "b", "as": "j"}});
        let field = |expr: Bson| bson!([{"$project": {"x": expr}}]);
        let rows: Vec<(Bson, bool)> = vec![
            (bson!([{"$match": {"a": 1}}, {"$sort": {"_ts": -1}}]), true),
            (bson!([{"$match": {"_tsx": 1}}]), false),
            (bson!([{"$match": {"a._ts": 1}}]), false),
            (
                bson!([{"$group": {"_id": null, "x": {"$max": "$_ts"}}}]),
                true,
            ),
            (bson!([{"$group": {"_id": "$_ts"}}]), true),
            (bson!([{"$sortByCount": "$_ts"}]), true),
            (
                bson!([{"$bucket": {"groupBy": "$_ts", "boundaries": [1, 2]}}]),
                true,
            ),
            (
                bson!([{"$bucketAuto": {"groupBy": "$_ts", "buckets": 2}}]),
                true,
            ),
            (
                bson!([{"$group": {"_id": null, "x": {"$top": {"sortBy": {"_ts": -1}, "output": "$a"}}}}]),
                true,
            ),
            (
                bson!([{"$group": {"_id": null, "x": {"$topN": {"n": 2, "sortBy": {"a": -1}, "output": "$a"}}}}]),
                false,
            ),
            (bson!([{"$unset": "_ts"}]), true),
            (bson!([{"$unset": ["a", "_ts"]}]), true),
            (bson!([{"$unset": "a._ts"}]), false),
            (bson!([{"$set": {"t": "$_ts"}}]), true),
            (bson!([{"$set": {"_ts": 1}}]), true),
            (bson!([{"$set": {"a": {"_ts": 1}}}]), false),
            (bson!([{"$unwind": "$_ts"}]), true),
            (bson!([{"$replaceWith": {"t": "$_ts"}}]), true),
            (bson!([{"$replaceWith": "$$ROOT"}]), false),
            (bson!([{"$count": "_ts"}]), false),
            (bson!([{"$sample": {"size": 1}}]), false),
            (
                bson!([{"$unionWith": "b"}, {"$match": {"a._ts": 1}}]),
                false,
            ),
            (
                bson!([{"$unionWith": {"coll": "b", "pipeline": [{"$match": {"_ts": 1}}]}}]),
                true,
            ),
            (bson!([{"$facet": {"f": [{"$match": {"_ts": 1}}]}}]), true),
            // Joins.
            (bson!([lookup()]), false),
            (bson!([lookup(), {"$match": {"j._ts": 1}}]), true),
            (bson!([{"$match": {"j._ts": 1}}, lookup()]), false),
            (
                bson!([{"$lookup": {"from": "b", "localField": "_ts", "foreignField": "x", "as": "j"}}]),
                true,
            ),
            (
                bson!([{"$lookup": {"from": "b", "localField": "x", "foreignField": "_ts", "as": "j"}}]),
                true,
            ),
            (
                bson!([{"$lookup": {"from": "b", "pipeline": [{"$match": {"_ts": 1}}], "as": "j"}}]),
                true,
            ),
            (
                bson!([{"$lookup": {"from": "b", "pipeline": [{"$match": {"a._ts": 1}}], "as": "j"}}]),
                false,
            ),
            (
                bson!([{"$lookup": {"from": "b", "let": {"d": "$$ROOT"}, "pipeline": [{"$set": {"t": "$$d._ts"}}], "as": "j"}}]),
                true,
            ),
            (
                bson!([{"$lookup": {"from": "b", "let": {"d": "$a"}, "pipeline": [{"$set": {"t": "$$d._ts"}}], "as": "j"}}]),
                false,
            ),
            // Whole documents that are embedded.
            (field(bson!("$$ROOT")), false),
            (field(bson!("$$ROOT._ts")), true),
            (field(bson!("$$CURRENT._ts")), true),
            (
                field(bson!({"$let": {"vars": {"d": "$$ROOT"}, "in": "$$d._ts"}})),
                true,
            ),
            (
                field(bson!({"$let": {"vars": {"d": "$a"}, "in": "$$d._ts"}})),
                false,
            ),
            (
                field(bson!({"$map": {"input": "$a", "in": "$$this._ts"}})),
                false,
            ),
            (
                field(bson!({"$map": {"input": ["$$ROOT"], "in": "$$this._ts"}})),
                true,
            ),
            (bson!([push()]), false),
            (bson!([push(), {"$set": {"a": "$d.b"}}]), false),
            (bson!([push(), {"$set": {"t": "$d._ts"}}]), true),
            (
                bson!([push(), {"$unwind": "$d"}, {"$sort": {"d._ts": 1}}]),
                true,
            ),
            (
                bson!([push(), {"$unwind": "$d"}, {"$replaceWith": "$d"}]),
                false,
            ),
            (
                bson!([push(), {"$set": {"s": {"$sortArray": {"input": "$d", "sortBy": {"_ts": 1}}}}}]),
                true,
            ),
            (
                field(bson!({"$sortArray": {"input": "$a", "sortBy": {"_ts": 1}}})),
                false,
            ),
            (
                bson!([push(), {"$match": {"d": {"$elemMatch": {"_ts": 1}}}}]),
                true,
            ),
            (bson!([{"$set": {"t": "$d._ts"}}, push()]), false),
            (
                bson!([{"$facet": {"f": []}}, {"$set": {"t": "$f._ts"}}]),
                true,
            ),
            (
                bson!([{"$redact": {"$cond": [{"$gt": ["$$ROOT._ts", 1]}, "$$KEEP", "$$PRUNE"]}}]),
                true,
            ),
            (
                bson!([{"$redact": {"$cond": ["$a._ts", "$$KEEP", "$$PRUNE"]}}]),
                false,
            ),
            // By name.
            (field(bson!({"$getField": "_ts"})), true),
            (field(bson!({"$getField": "a"})), false),
            (field(bson!({"$getField": {"$literal": "_ts"}})), true),
            (
                field(bson!({"$getField": {"field": "_ts", "input": "$$ROOT"}})),
                true,
            ),
            (
                field(bson!({"$getField": {"field": "_ts", "input": "$a"}})),
                false,
            ),
            (
                field(bson!({"$getField": {"field": {"$concat": ["_", "ts"]}, "input": "$$ROOT"}})),
                true,
            ),
            (field(bson!({"$getField": {"$concat": ["$a", "ts"]}})), true),
            (
                field(bson!({"$getField": {"field": "$a", "input": "$b"}})),
                false,
            ),
            (
                field(bson!({"$unsetField": {"field": "_ts", "input": "$$ROOT"}})),
                true,
            ),
            (field(bson!({"$objectToArray": "$$ROOT"})), false),
            (field(bson!({"_ts": "$a"})), false),
            // Writing.
            (bson!([{"$merge": {"into": "b", "on": "_ts"}}]), true),
            (bson!([{"$merge": {"into": "b"}}]), false),
            (
                bson!([{"$merge": {"into": "b", "whenMatched": [{"$set": {"t": "$$new._ts"}}]}}]),
                true,
            ),
            (
                bson!([{"$merge": {"into": "b", "whenMatched": [{"$set": {"t": "$$new.a"}}]}}]),
                false,
            ),
            (bson!([{"$out": "b"}]), false),
        ];
        for (spec, expected) in rows {
            let doc = DocBuf::from(doc! {"p": spec.clone()});
            let stages = doc.as_doc().get("p").as_array().unwrap();
            let scope = Scope::new();
            let pipeline =
                Pipeline::parse(stages, &StageContext::new(&scope, "d", Some("c"))).unwrap();
            let named = Survey::of("_ts", |survey| pipeline.survey(survey)).names_field;
            assert_eq!(named, expected, "{spec}");
        }
    }

    #[test]
    fn updates_that_read_the_field() {
        for (spec, expected) in [
            (bson!([{"$set": {"t": "$_ts"}}]), true),
            (bson!([{"$set": {"t": "$a"}}]), false),
            (bson!([{"$set": {"d": "$$ROOT"}}]), false),
            (
                bson!([{"$set": {"d": "$$ROOT"}}, {"$set": {"t": "$d._ts"}}]),
                true,
            ),
        ] {
            let doc = DocBuf::from(doc! {"p": spec.clone()});
            let stages = doc.as_doc().get("p").as_array().unwrap();
            let transform = Transform::parse(stages, &Scope::new()).unwrap();
            let named = Survey::of("_ts", |survey| transform.survey(survey)).names_field;
            assert_eq!(named, expected, "{spec}");
        }
    }
}

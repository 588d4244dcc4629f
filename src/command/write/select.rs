//! Parses what selects the documents of a command: filter, hint, sort and variables.

use crate::args::Arg;
use crate::engine::plan::Hint;
use crate::engine::write::{Selection, Selector};
use crate::error::{Error, Result};
use crate::query::sort::Sort;
use crate::query::{Scope, Survey, Vars};
use crate::ttl::TS_FIELD;
use crate::value::{Doc, DocBuf, Type, ValueRef};

/// Reads `hint`: an index name or a key pattern.
pub fn hint(arg: &Arg<'_>) -> Result<Option<Hint>> {
    match arg.value().ty() {
        Type::String => Ok(arg.str()?.map(|name| Hint::Name(name.to_owned()))),
        Type::Document => {
            let key = arg.doc()?.filter(|key| !key.is_empty());
            if let Some(key) = key {
                check_natural(key)?;
            }
            Ok(key.map(|key| Hint::of_document(DocBuf::from(key))))
        }
        _ => Err(Error::failed_to_parse("Hint must be a string or an object")),
    }
}

/// Checks `{$natural: 1}`, which must be the only field and has two directions.
fn check_natural(key: Doc<'_>) -> Result<()> {
    let way = key.get("$natural");
    if way.is_missing() {
        return Ok(());
    }
    if key.count() > 1 {
        return Err(Error::bad_value(format!(
            "$natural hint cannot be combined with other fields: {}",
            ValueRef::document(key)
        )));
    }
    match way.as_num().and_then(|way| way.to_i64_exact()) {
        Some(1 | -1) => Ok(()),
        _ => Err(Error::bad_value(
            "$natural hint may only accept 1 or -1, not the given value",
        )),
    }
}

/// The parts of a statement that select documents.
pub struct Selecting<'a> {
    pub filter: Doc<'a>,
    pub sort: Option<Doc<'a>>,
    pub hint: Option<Hint>,
    pub let_vars: Option<Doc<'a>>,
    /// The command offers `$$NOW` and `$$CLUSTER_TIME`.
    pub constants: bool,
    pub multi: bool,
    pub upsert: bool,
}

// === impl Selecting ===

impl<'a> Selecting<'a> {
    /// Returns the selection of a command without a sort and without variables, not even those of the server.
    pub fn plain(filter: Option<Doc<'a>>, hint: Option<Hint>) -> Self {
        Self {
            filter: filter.unwrap_or(Doc::EMPTY),
            sort: None,
            hint,
            let_vars: None,
            constants: false,
            multi: true,
            upsert: false,
        }
    }

    /// Parses the parts. `update` parses what is to be done with the documents, in the same scope: MongoDB tells its mistakes
    /// before those of the filter.
    pub fn parse<T>(
        self,
        vars: &Vars,
        update: impl FnOnce(&Scope) -> Result<T>,
    ) -> Result<(Selection, T)> {
        let scope = match self.constants {
            true => Scope::new(),
            false => Scope::without_constants(),
        };
        let (scope, vars) = match self.let_vars {
            None => (scope, vars.clone()),
            Some(spec) => crate::query::bind_let(vars, &scope, spec)?,
        };
        let update = update(&scope)?;
        let wanted = match self.upsert {
            true => Selector::parse(self.filter, &scope.of_upsert())?,
            false => Selector::parse(self.filter, &scope)?,
        };
        let natural = self
            .sort
            .map(|sort| Hint::of_natural_sort(sort, self.hint.as_ref()))
            .transpose()?
            .flatten();
        let sort = self.sort.filter(|_| natural.is_none()).map(Sort::parse);
        let surveyed = Survey::of(TS_FIELD, |survey| {
            if let Selector::Filter(filter) = &wanted {
                filter.survey(survey);
                survey.settle();
            }
            if let Some(Ok(sort)) = &sort {
                sort.survey(survey);
            }
        });
        // A statement that selects one document by its `_id` does not sort, so even an invalid sort is accepted.
        let sort = sort
            .filter(|_| wanted.id().is_none())
            .transpose()?
            .filter(|sort| !sort.is_empty());
        let selection = Selection {
            wanted,
            vars,
            sort,
            hint: natural.or(self.hint),
            names_ts: surveyed.names_field,
            multi: self.multi,
        };
        Ok((selection, update))
    }
}

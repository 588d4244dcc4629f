//! Choosing a way to the documents: the planner's answer, ready to be walked.

use super::access::Access;
use crate::error::Result;
use crate::query::filter::{Filter, Node, Op, Test};
use crate::query::sort::Sort;
use crate::storage::Collection;
use crate::value::{DocBuf, Millis, key};

/// The client says which way to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    Name(String),
    Key(DocBuf),
}

/// A way, and whether it yields the documents in the order of the sort.
#[derive(Debug)]
pub struct Chosen {
    pub access: Access,
    pub sorted: bool,
}

pub fn choose(
    _: &Collection,
    filter: &Filter,
    sort: Option<&Sort>,
    _: Option<&Hint>,
    _: Millis,
) -> Result<Chosen> {
    let sorted = sort.is_none_or(Sort::is_empty);
    if let Some(key) = id_equality(filter) {
        return Ok(Chosen {
            access: Access::Ids(vec![key]),
            sorted: true,
        });
    }
    Ok(Chosen {
        access: Access::All { descending: false },
        sorted,
    })
}

/// The `_id` (as key bytes) that the filter asks for, if it does nothing else.
pub fn id_equality(filter: &Filter) -> Option<Vec<u8>> {
    let Node::Field(field) = filter.root() else {
        return None;
    };
    let Test::Compare(comparison) = &field.test else {
        return None;
    };
    if field.path.len() != 1 || field.path.first() != "_id" || comparison.op != Op::Eq {
        return None;
    }
    let value = comparison.value.as_ref();
    // An array or null also matches what is not stored under that very key.
    if value.is_nullish() || value.as_array().is_some() {
        return None;
    }
    let mut bytes = Vec::with_capacity(24);
    key::encode(value, false, &mut bytes);
    Some(bytes)
}

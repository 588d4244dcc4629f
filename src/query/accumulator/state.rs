//! What one group has gathered so far.

use super::Deviation;
use super::collect::{List, Set};
use super::extreme::Few;
use super::top::Best;
use crate::query::expr::total::Total;
use crate::value::{DocBuf, Value};

#[derive(Debug)]
pub enum State {
    Total {
        total: Total,
        count: u64,
    },
    Deviation(Deviation),
    One(Option<Value>),
    List(List),
    Set(Set),
    Merged(DocBuf),
    /// The first, last, least or greatest few.
    Few(Few),
    Top(Best),
    Numbers(Vec<f64>),
}

// === impl State ===

impl State {
    /// The bytes that it holds beyond itself.
    pub fn held(&self) -> usize {
        match self {
            Self::Total { .. } | Self::Deviation(_) => 0,
            Self::One(value) => value
                .as_ref()
                .map_or(0, |value| value.as_ref().data().len()),
            Self::List(list) => list.held(),
            Self::Set(set) => set.held(),
            Self::Merged(merged) => merged.bytes().len(),
            Self::Few(few) => few.held(),
            Self::Top(best) => best.held(),
            Self::Numbers(numbers) => numbers.len() * 8,
        }
    }
}

//! Random commands. Documents follow a loose schema (`n` has numbers, `s` text, and so on), so that most commands compute
//! something. A few values of another type at every position cause errors.

mod command;
mod expression;
mod filter;
mod options;
mod pipeline;
mod projection;
mod spoil;
mod update;
mod value;
mod vocabulary;

pub use command::round;
pub use vocabulary::check_complete;

use crate::random::Random;

/// The facts that the commands of one round rely on.
pub struct Generator {
    pub random: Random,
    /// No secondary index and `_id`s in ascending order: the order of results is known without a sort.
    pub plain: bool,
}

/// A command, and how to read its cursor.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub command: bson::Document,
    /// The batch size of the getMores that follow, or `None` if the cursor stays open.
    pub more: Option<i32>,
}

// === impl Step ===

impl Step {
    pub fn new(command: bson::Document) -> Self {
        Self {
            command,
            more: Some(0),
        }
    }
}

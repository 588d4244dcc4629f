//! Commands that MongoDB has and Sundown has not (yet): known, and honestly refused.

use super::{Access, Command};

pub(super) const fn planned(name: &'static str) -> Command {
    Command::planned(name, Access::None, "Not implemented.")
}

//! `ping`: replies as long as the server runs.

use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::error::Result;
use crate::value::DocBuilder;

pub(super) const COMMAND: Command =
    Command::ready("ping", Access::None, "Checks that the server answers.", run)
        .with(Flags::BEFORE_LOGIN.and(Flags::STABLE).and(Flags::SECONDARY))
        .needs(Needs::Nothing);

fn run(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    Ok(Outcome::Reply)
}

//! `profile`: there is no profiler, so its level is always 0 and cannot be raised. The server stores the thresholds for
//! slow operations, because clients read them back.

use parking_lot::Mutex;

use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::args::required;
use crate::auth::Action;
use crate::error::{Error, Result};
use crate::value::DocBuilder;

pub(super) const COMMAND: Command = Command::ready(
    "profile",
    Access::Admin,
    "Shows the profiling level, which is always off.",
    run,
)
.with(Flags::SECONDARY)
.needs(Needs::Database(Action::EnableProfiler));

/// The settings of the profiler, which apply to all databases.
pub struct Profiling(Mutex<SlowOperations>);

#[derive(Clone, Copy)]
struct SlowOperations {
    millis: i32,
    /// The fraction of slow operations that would be profiled.
    rate: f64,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let (mut level, mut millis, mut rate) = (None, None, None);
    let mut filters = false;
    for arg in call.args() {
        match arg.name() {
            "profile" => level = arg.int()?,
            "slowms" => millis = arg.int()?,
            "sampleRate" => rate = arg.double()?,
            "filter" => match arg.value().as_doc() {
                Some(_) => filters = true,
                None if arg.value().as_str() == Some("unset") => {}
                None => {
                    return Err(Error::bad_value(
                        "Expected an object, or the string 'unset'.",
                    ));
                }
            },
            _ => return Err(arg.unknown()),
        }
    }
    if rate.is_some_and(|rate| !(0.0..=1.0).contains(&rate)) {
        return Err(Error::bad_value(
            "'sampleRate' must be between 0.0 and 1.0 inclusive",
        ));
    }
    if filters || matches!(required(level, "profile", "profile")?, 1 | 2) {
        return Err(Error::not_implemented("the profiler"));
    }
    let mut slow = call.context.profiling.0.lock();
    reply
        .put_i32("was", 0)
        .put_i32("slowms", slow.millis)
        .put_f64("sampleRate", slow.rate);
    if let Some(millis) = millis {
        slow.millis = millis.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    }
    if let Some(rate) = rate {
        slow.rate = rate;
    }
    Ok(Outcome::Reply)
}

// === impl Profiling ===

impl Default for Profiling {
    fn default() -> Self {
        Self(Mutex::new(SlowOperations {
            millis: 100,
            rate: 1.0,
        }))
    }
}

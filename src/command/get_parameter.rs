//! `getParameter` and `setParameter`: show and change server parameters.

use std::sync::atomic::Ordering;

use super::parameters::{PARAMETERS, Parameter, Parameters};
use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::args::fields;
use crate::auth::Action;
use crate::error::{Code, Error, Result};
use crate::value::{DocBuilder, Value, is_true};

pub(super) const COMMAND: Command = Command::ready(
    "getParameter",
    Access::Admin,
    "Shows server parameters.",
    get,
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Server(Action::GetParameter));

pub(super) const SET: Command = Command::ready(
    "setParameter",
    Access::Admin,
    "Changes server parameters.",
    set,
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Server(Action::SetParameter));

fn get(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut all = call.target().as_str() == Some("*");
    let mut details = false;
    let (mut runtime_only, mut startup_only) = (false, false);
    if let Some(options) = call.target().as_doc() {
        for arg in fields("getParameter", options) {
            match arg.name() {
                "showDetails" => details = arg.bool()?.unwrap_or(false),
                "allParameters" => all = arg.bool()?.unwrap_or(false),
                "setAt" => match arg.str()? {
                    None => {}
                    Some("startup") => startup_only = true,
                    Some("runtime") => runtime_only = true,
                    Some(text) => return Err(crate::args::not_a_value("setAt", text)),
                },
                _ => return Err(arg.unknown()),
            }
        }
    }
    let parameters = &call.context.parameters;
    let mut shown = 0;
    let mut put = |parameter: &Parameter, value: Value| {
        shown += 1;
        if details {
            let mut entry = reply.doc(parameter.name);
            entry
                .put("value", value.as_ref())
                .put_bool("settableAtRuntime", parameter.at_runtime)
                .put_bool("settableAtStartup", parameter.at_startup);
            entry.end();
        } else {
            reply.put(parameter.name, value.as_ref());
        }
    };
    if all {
        for row in PARAMETERS {
            if (!runtime_only || row.at_runtime)
                && (!startup_only || row.at_startup)
                && let Some((parameter, value)) = parameters.get(row.name)
            {
                put(parameter, value);
            }
        }
    } else {
        for arg in call.args().skip(1) {
            if let Some((parameter, value)) = parameters.get(arg.name()) {
                put(parameter, value);
            }
        }
    }
    if shown == 0 && !all {
        return Err(Error::new(Code::InvalidOptions, "no option found to get"));
    }
    Ok(Outcome::Reply)
}

fn set(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    // All values are checked before the first one is set.
    let checked = call
        .args()
        .skip(1)
        .map(|arg| Parameters::check(arg.name(), arg.value()))
        .collect::<Result<Vec<_>>>()?;
    if checked.is_empty() {
        return Err(Error::new(
            Code::InvalidOptions,
            "no option found to set, use help:true to see options ",
        ));
    }
    let single = checked.len() == 1;
    for (parameter, value) in checked {
        match parameter.name {
            "ttlMonitorEnabled" => call.context.reaper.enable(is_true(value.as_ref())),
            "notablescan" => {
                let refuses_scans = &call.context.catalog.shared().refuses_scans;
                refuses_scans.store(is_true(value.as_ref()), Ordering::Relaxed);
            }
            _ => {}
        }
        let was = call.context.parameters.set(parameter, value);
        if single && was.as_ref().as_str() != Some("") {
            reply.put("was", was.as_ref());
        }
    }
    Ok(Outcome::Reply)
}

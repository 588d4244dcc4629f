//! The fail points that are set.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::fault::code;
use super::{FailPointMode, Fault, labels};
use crate::args::fields;
use crate::command::{Client, Command, find};
use crate::error::{Code, Error, Result};
use crate::value::Doc;
use crate::wire::Request;

/// The fail points, and the number of their strikes. Nearly always none is set.
#[derive(Default)]
pub struct FailPoints {
    /// Whether a fail point is on. Written under the lock.
    on: AtomicBool,
    points: Mutex<Points>,
}

#[derive(Default)]
struct Points {
    command: Point<Fault>,
    get_more: Point<GetMoreFault>,
    write: Point<WriteFault>,
    always_time_out: Point<()>,
    never_time_out: Point<()>,
    /// Connections that close when the command that they run is done.
    closing: HashSet<u64>,
}

/// A fail point.
struct Point<D> {
    mode: FailPointMode,
    data: Arc<D>,
    /// The number of strikes so far, over all modes.
    entered: i64,
}

/// The `data` of `failGetMoreAfterCursorCheckout`.
#[derive(Default)]
struct GetMoreFault {
    code: Option<Code>,
}

/// The `data` of `onPrimaryTransactionalWrite`.
#[derive(Default)]
struct WriteFault {
    stays_open: bool,
    code: Option<Code>,
}

/// Other fail points of mongod, which the tests of drivers use.
const UNBUILT: &[&str] = &["failReceivedGetmore"];

// === impl FailPoints ===

impl FailPoints {
    /// Whether a fail point is on. Called before every command: one relaxed load.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Sets the fail point with this name. Returns the number of its strikes before.
    pub fn set(&self, name: &str, mode: FailPointMode, data: Option<Doc<'_>>) -> Result<i64> {
        // The data is ignored if the fail point is off.
        let data = data.filter(|_| mode != FailPointMode::Off);
        let data = data.unwrap_or(Doc::EMPTY);
        let mut points = self.points.lock();
        let count = match name {
            "failCommand" => points.command.set(mode, Fault::parse(data)?),
            "failGetMoreAfterCursorCheckout" => {
                points.get_more.set(mode, GetMoreFault::parse(data)?)
            }
            "onPrimaryTransactionalWrite" => points.write.set(mode, WriteFault::parse(data)?),
            "maxTimeAlwaysTimeOut" => points.always_time_out.set(mode, ()),
            "maxTimeNeverTimeOut" => points.never_time_out.set(mode, ()),
            _ if UNBUILT.contains(&name) => {
                return Err(Error::not_implemented(format_args!("fail point {name}")));
            }
            _ => {
                let words = format!("{name} not found");
                return Err(Error::new(Code::FailPointSetFailed, words));
            }
        };
        self.note(&points);
        Ok(count)
    }

    /// Returns the fault that strikes this request, if there is one.
    pub fn strike(&self, client: &Client, request: &Request) -> Option<Arc<Fault>> {
        let command = find(request.body().first()?.name_bytes())?;
        self.enter(
            |points| &mut points.command,
            |fault| fault.strikes(client, command, request),
        )
    }

    /// Returns the error for a statement on `(database, collection)`, if the fail point strikes it. The command has many
    /// statements.
    pub fn refuse_statement(
        &self,
        client: &Client,
        command: &Command,
        place: (&str, &str),
    ) -> Option<Error> {
        if !self.is_on() {
            return None;
        }
        let fault = self.enter(
            |points| &mut points.command,
            |fault| fault.strikes_statement(client, command, place),
        )?;
        fault.refusal()
    }

    /// Strikes a statement of a retryable write that has not run before. The connection closes when the command is done,
    /// unless the data says otherwise. An error means that the statement must not run.
    pub fn strike_write(&self, client: u64) -> Result<()> {
        let Some(fault) = self.enter(|points| &mut points.write, |_| true) else {
            return Ok(());
        };
        if !fault.stays_open {
            self.points.lock().closing.insert(client);
        }
        let words = "Failing write due to failpoint. The write must not be reflected.";
        fault
            .code
            .map_or(Ok(()), |code| Err(Error::new(code, words)))
    }

    /// Whether a retryable write may be struck.
    pub fn watches_writes(&self) -> bool {
        self.points.lock().write.mode != FailPointMode::Off
    }

    /// Whether the connection must close now.
    pub fn closes(&self, client: u64) -> bool {
        self.points.lock().closing.remove(&client)
    }

    /// Returns the error of a getMore, if the fail point strikes it. `opening` is the command that has opened the cursor.
    pub fn refuse_more(&self, command: Doc<'_>, opening: Doc<'_>) -> Result<()> {
        if !self.is_on() {
            return Ok(());
        }
        let Some(fault) = self.enter(|points| &mut points.get_more, |_| true) else {
            return Ok(());
        };
        let code = fault.code.unwrap_or(Code::InternalError);
        let words = "Hit the 'failGetMoreAfterCursorCheckout' failpoint";
        let error = Error::new(code, words);
        Err(
            match labels::of_error(code.number(), command, Some(opening)) {
                Some(label) => error.with_label(label),
                None => error,
            },
        )
    }

    /// Returns how much of its time a command has left: `None` if its limit does not hold, zero if its time is over.
    pub fn time_left(&self, left: Duration) -> Option<Duration> {
        if !self.is_on() {
            return Some(left);
        }
        if self
            .enter(|points| &mut points.never_time_out, |()| true)
            .is_some()
        {
            return None;
        }
        let over = self.enter(|points| &mut points.always_time_out, |()| true);
        Some(if over.is_some() { Duration::ZERO } else { left })
    }

    /// Counts a strike and returns the fault, if the fault applies and its mode says that it strikes.
    fn enter<D>(
        &self,
        pick: impl FnOnce(&mut Points) -> &mut Point<D>,
        is_meant: impl FnOnce(&D) -> bool,
    ) -> Option<Arc<D>> {
        let mut points = self.points.lock();
        let struck = pick(&mut points).enter(is_meant);
        self.note(&points);
        struck
    }

    fn note(&self, points: &Points) {
        let modes = [
            points.command.mode,
            points.get_more.mode,
            points.write.mode,
            points.always_time_out.mode,
            points.never_time_out.mode,
        ];
        let on = modes.iter().any(|mode| *mode != FailPointMode::Off);
        self.on.store(on, Ordering::Relaxed);
    }
}

// === impl Point ===

impl<D> Point<D> {
    fn set(&mut self, mode: FailPointMode, data: D) -> i64 {
        // `{times: 0}` means off.
        self.mode = match mode {
            FailPointMode::Times(0) => FailPointMode::Off,
            mode => mode,
        };
        self.data = Arc::new(data);
        self.entered
    }

    fn enter(&mut self, is_meant: impl FnOnce(&D) -> bool) -> Option<Arc<D>> {
        if self.mode == FailPointMode::Off || !is_meant(&self.data) {
            return None;
        }
        if !self.mode.strikes(self.entered) {
            return None;
        }
        self.entered += 1;
        Some(Arc::clone(&self.data))
    }
}

impl<D: Default> Default for Point<D> {
    fn default() -> Self {
        Self {
            mode: FailPointMode::Off,
            data: Arc::default(),
            entered: 0,
        }
    }
}

// === impl GetMoreFault ===

impl GetMoreFault {
    /// Reads the data. mongod ignores other fields.
    fn parse(data: Doc<'_>) -> Result<Self> {
        let mut fault = Self::default();
        for arg in fields("failGetMoreAfterCursorCheckout", data) {
            if arg.name() == "errorCode" {
                fault.code = code(&arg)?;
            }
        }
        Ok(fault)
    }
}

// === impl WriteFault ===

impl WriteFault {
    /// Reads the data. mongod ignores other fields.
    fn parse(data: Doc<'_>) -> Result<Self> {
        let mut fault = Self::default();
        for arg in fields("onPrimaryTransactionalWrite", data) {
            match arg.name() {
                "closeConnection" => fault.stays_open = !arg.bool()?.unwrap_or(true),
                "failBeforeCommitExceptionCode" => fault.code = code(&arg)?,
                _ => {}
            }
        }
        Ok(fault)
    }
}

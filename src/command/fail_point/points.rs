//! The fail points that are set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::{FailPointMode, Fault};
use crate::command::{Client, Command, find};
use crate::error::Error;
use crate::wire::Request;

/// The fail point that is set, and the number of its strikes. Nearly always none is set.
#[derive(Default)]
pub struct FailPoints {
    /// Whether the fail point is on. Written under the lock.
    on: AtomicBool,
    command: Mutex<FailCommand>,
}

struct FailCommand {
    mode: FailPointMode,
    fault: Arc<Fault>,
    /// The number of strikes so far, over all modes.
    entered: i64,
}

// === impl FailPoints ===

impl FailPoints {
    /// Whether the fail point is on. Called before every command: one relaxed load.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Sets the fail point. Returns the number of strikes before.
    pub fn set(&self, mode: FailPointMode, fault: Fault) -> i64 {
        let mut command = self.command.lock();
        // `{times: 0}` means off.
        command.mode = match mode {
            FailPointMode::Times(0) => FailPointMode::Off,
            mode => mode,
        };
        command.fault = Arc::new(fault);
        self.on
            .store(command.mode != FailPointMode::Off, Ordering::Relaxed);
        command.entered
    }

    /// Returns the fault that strikes this request, if there is one.
    pub fn strike(&self, client: &Client, request: &Request) -> Option<Arc<Fault>> {
        let command = find(request.body().first()?.name_bytes())?;
        self.enter(|fault| fault.strikes(client, command, request))
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
        let fault = self.enter(|fault| fault.strikes_statement(client, command, place))?;
        fault.refusal()
    }

    /// Counts a strike and returns the fault, if the fault applies and its mode says that it strikes.
    fn enter(&self, is_meant: impl FnOnce(&Fault) -> bool) -> Option<Arc<Fault>> {
        let mut command = self.command.lock();
        if command.mode == FailPointMode::Off || !is_meant(&command.fault) {
            return None;
        }
        let entered = command.entered;
        if !command.mode.strikes(entered) {
            return None;
        }
        command.entered += 1;
        self.on
            .store(command.mode != FailPointMode::Off, Ordering::Relaxed);
        Some(Arc::clone(&command.fault))
    }
}

impl Default for FailCommand {
    fn default() -> Self {
        Self {
            mode: FailPointMode::Off,
            fault: Arc::default(),
            entered: 0,
        }
    }
}

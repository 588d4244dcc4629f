//! The fail points that are set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::{Fault, Mode};
use crate::command::{Client, Command, find};
use crate::error::Error;
use crate::wire::Request;

/// What is set, and how often it was looked at since. Nothing, nearly always.
#[derive(Default)]
pub struct FailPoints {
    /// Whether there is anything to look at. Written under the lock.
    on: AtomicBool,
    command: Mutex<FailCommand>,
}

struct FailCommand {
    mode: Mode,
    fault: Arc<Fault>,
    /// How often it has struck in all modes so far.
    entered: i64,
}

// === impl FailPoints ===

impl FailPoints {
    /// Asked before every command: one relaxed load.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Sets it; says how often it has struck before.
    pub fn set(&self, mode: Mode, fault: Fault) -> i64 {
        let mut command = self.command.lock();
        // No more times is never.
        command.mode = match mode {
            Mode::Times(0) => Mode::Off,
            mode => mode,
        };
        command.fault = Arc::new(fault);
        self.on.store(command.mode != Mode::Off, Ordering::Relaxed);
        command.entered
    }

    /// What happens to that request.
    pub fn strike(&self, client: &Client, request: &Request) -> Option<Arc<Fault>> {
        let command = find(request.body().first()?.name_bytes())?;
        self.enter(|fault| fault.strikes(client, command, request))
    }

    /// What is said to a statement on `(database, collection)` of a command that has many.
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

    /// Counts an occasion, if it is one. Returns what happens then.
    fn enter(&self, is_meant: impl FnOnce(&Fault) -> bool) -> Option<Arc<Fault>> {
        let mut command = self.command.lock();
        if command.mode == Mode::Off || !is_meant(&command.fault) {
            return None;
        }
        let entered = command.entered;
        if !command.mode.strikes(entered) {
            return None;
        }
        command.entered += 1;
        self.on.store(command.mode != Mode::Off, Ordering::Relaxed);
        Some(Arc::clone(&command.fault))
    }
}

impl Default for FailCommand {
    fn default() -> Self {
        Self {
            mode: Mode::Off,
            fault: Arc::default(),
            entered: 0,
        }
    }
}

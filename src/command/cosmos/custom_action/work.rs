//! An action that runs other commands one by one. If one fails, those before it are undone.

use std::sync::Arc;

use crate::command::{Call, Context, Outcome, Step, Task, dispatch};
use crate::cosmos::{Offer, Provisioned};
use crate::error::{Code, Error, Result};
use crate::handler::{Progress, Work};
use crate::interrupt::{Background, in_background};
use crate::value::{Doc, DocBuf, DocBuilder};
use crate::wire::Request;

/// A command, and the command that undoes it.
pub struct UndoableCommand {
    pub work: Box<dyn Work>,
    pub undo: Option<Box<dyn Work>>,
}

/// What is stored about the collection when all commands are done.
pub struct NewProvision {
    pub offer: Option<Offer>,
    pub shard_key: Option<DocBuf>,
}

pub struct CustomActionWork {
    /// The commands still to run. The next one is last.
    left: Vec<UndoableCommand>,
    /// The commands that undo those already run. The next one to run is last.
    undo: Vec<Box<dyn Work>>,
    failed: Option<Error>,
    context: Arc<Context>,
    database: String,
    collection: String,
    provision: Option<NewProvision>,
}

/// Returns a command as the client could have sent it, as work that runs with the client's rights.
pub fn client_command(call: &Call<'_>, body: &DocBuf) -> Box<dyn Work> {
    let request = Request::new(body.bytes().to_vec());
    dispatch::later(call.context, call.client, request)
}

// === impl CustomActionWork ===

impl CustomActionWork {
    pub fn begin(
        call: &Call<'_>,
        collection: &str,
        mut commands: Vec<UndoableCommand>,
        provision: NewProvision,
    ) -> Outcome {
        commands.reverse();
        Outcome::Work(Box::new(Self {
            left: commands,
            undo: Vec::new(),
            failed: None,
            context: Arc::clone(call.context),
            database: call.database().to_owned(),
            collection: collection.to_owned(),
            provision: Some(provision),
        }))
    }

    /// Stores the throughput after all commands are done.
    fn provision(&mut self) -> Result<()> {
        self.undo.clear();
        let there = self.context.catalog.get(&self.database, &self.collection)?;
        if let (Some(there), Some(provision)) = (there, self.provision.take()) {
            self.context.cosmos.offers.set_collection(
                format!("{}.{}", self.database, self.collection),
                Provisioned {
                    uuid: *there.uuid().as_bytes(),
                    offer: provision.offer,
                    shard_key: provision.shard_key,
                },
            );
        }
        Ok(())
    }
}

impl Task for CustomActionWork {
    fn step(&mut self, _: &mut DocBuilder<'_>) -> Result<Step> {
        if self.failed.is_some() {
            let Some(work) = self.undo.last_mut() else {
                return self.failed.take().map_or(Ok(Step::Done), Err);
            };
            // Errors while undoing are ignored: the client gets the first error.
            return Ok(match run(&mut **work) {
                Ok(Some(step)) => step,
                Ok(None) | Err(_) => {
                    self.undo.pop();
                    Step::More
                }
            });
        }
        let Some(command) = self.left.last_mut() else {
            self.provision()?;
            return Ok(Step::Done);
        };
        match run(&mut *command.work) {
            Ok(Some(step)) => return Ok(step),
            Ok(None) => {
                let done = self.left.pop();
                self.undo.extend(done.and_then(|command| command.undo));
                if self.left.is_empty() {
                    self.provision()?;
                    return Ok(Step::Done);
                }
            }
            Err(error) => self.failed = Some(error),
        }
        Ok(Step::More)
    }
}

/// An action abandoned in the middle leaves nothing half done. What it did is undone in the background, because undoing may
/// have to wait for another client's change of the same collection.
impl Drop for CustomActionWork {
    fn drop(&mut self) {
        // The running command undoes itself when it is dropped. It is dropped first, so that it does not block the undo.
        self.left.clear();
        let mut undo = std::mem::take(&mut self.undo);
        if !undo.is_empty() {
            in_background(move || {
                let Some(work) = undo.last_mut() else {
                    return Background::Done;
                };
                match run(&mut **work) {
                    Ok(Some(Step::Wait(wait))) => return Background::Wait(wait),
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => drop(undo.pop()),
                }
                Background::More
            });
        }
    }
}

/// Runs one step of a command. Returns `None` when the command is done.
fn run(work: &mut dyn Work) -> Result<Option<Step>> {
    let mut out = Vec::new();
    match work.step(&mut out) {
        Ok(Progress::More | Progress::Blocking) => Ok(Some(Step::More)),
        Ok(Progress::Wait(wait)) => Ok(Some(Step::Wait(wait))),
        Ok(Progress::Done | Progress::Streaming) => check(Doc::new(&out)).map(|()| None),
        Err(hangup) => Err(Error::new(Code::InternalError, hangup.to_string())),
    }
}

/// Returns the error in the reply of a command, if there is one.
fn check(reply: Doc<'_>) -> Result<()> {
    if reply.get("ok").as_f64() == Some(1.0) {
        return Ok(());
    }
    let code = reply.get("code").as_i32().unwrap_or(1);
    let words = reply.get("errmsg").as_str().unwrap_or_default();
    Err(Error::new(Code::numbered(code), words))
}

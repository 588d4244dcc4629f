//! Shortens a script as long as it still shows the same kind of difference.

use bson::{Bson, Document};

use crate::difference::{Difference, What};
use crate::generate::Step;
use crate::pair::{Accepted, Pair};

/// The largest number of times that a script is played.
const PLAYS: usize = 900;

/// Returns the smallest script that was found, or `None` if the command has two errors and the servers only report
/// different ones.
pub fn shrink(pair: &mut Pair, found: Difference) -> Option<Difference> {
    let mut shrinker = Shrinker {
        pair,
        kind: Kind::of(&found),
        plays: 0,
        agreed: (false, false),
        best: found,
    };
    shrinker.drop_steps();
    if shrinker.has_two_faults() {
        return None;
    }
    // Each cut may make another one possible.
    loop {
        let before = shrinker.best.steps.clone();
        shrinker.drop_steps();
        shrinker.cut_values();
        if shrinker.best.steps == before || shrinker.plays >= PLAYS {
            let two = shrinker.has_two_faults();
            return (!two).then_some(shrinker.best);
        }
    }
}

struct Shrinker<'a> {
    pair: &'a mut Pair,
    kind: Kind,
    plays: usize,
    /// Whether mongod or Sundown returned its own code for another form of the command, and the other server agreed.
    agreed: (bool, bool),
    best: Difference,
}

/// The properties that stay the same while a script gets shorter.
#[derive(PartialEq)]
struct Kind {
    what: What,
    codes: (i32, i32),
    verb: Option<String>,
}

// === impl Kind ===

impl Kind {
    fn of(difference: &Difference) -> Self {
        Self {
            what: difference.what,
            codes: difference.codes(),
            verb: difference.command().keys().next().cloned(),
        }
    }
}

// === impl Shrinker ===

impl Shrinker<'_> {
    /// Accepts the steps if they show the same difference.
    fn take(&mut self, steps: &[Step]) -> bool {
        if self.plays >= PLAYS {
            return false;
        }
        self.plays += 1;
        let Some(again) = self.pair.play(steps) else {
            self.note_agreement();
            return false;
        };
        let same = Kind::of(&again) == self.kind;
        if same {
            self.best = again;
        }
        same
    }

    /// Returns true if both servers return the one code after one change of the command, and the other code after another
    /// change.
    fn has_two_faults(&mut self) -> bool {
        let (theirs, ours) = self.kind.codes;
        let strict = self.pair.accepted == Accepted::Versions;
        if strict || theirs == 0 || ours == 0 || self.kind.what == What::State {
            return false;
        }
        let last = self.best.steps.len() - 1;
        let command = &self.best.steps[last].command;
        let forms = smaller_document(command, true).into_iter();
        for form in forms.chain(on_another_collection(command)) {
            let mut steps = self.best.steps.clone();
            steps[last].command = form;
            if self.pair.play(&steps).is_none() {
                self.note_agreement();
            }
        }
        self.agreed == (true, true)
    }

    /// Another form of the command showed no difference, or a known one.
    fn note_agreement(&mut self) {
        self.agreed.0 |= self.pair.last.0 == self.kind.codes.0;
        self.agreed.1 |= self.pair.last.1 == self.kind.codes.1;
    }

    fn drop_steps(&mut self) {
        let mut at = self.best.steps.len().saturating_sub(1);
        while at > 0 {
            at -= 1;
            let mut fewer = self.best.steps.clone();
            if at + 1 < fewer.len() {
                fewer.remove(at);
                self.take(&fewer);
            }
        }
    }

    fn cut_values(&mut self) {
        let mut at = self.best.steps.len();
        while at > 0 {
            at -= 1;
            if at >= self.best.steps.len() {
                continue;
            }
            if self.best.steps[at].more != Some(0) {
                let mut plain = self.best.steps.clone();
                plain[at].more = Some(0);
                self.take(&plain);
            }
            // Tries smaller forms of a command until none is accepted.
            let mut nth = 0;
            loop {
                let forms = smaller_document(&self.best.steps[at].command, true);
                let Some(form) = forms.get(nth) else { break };
                let mut steps = self.best.steps.clone();
                steps[at].command = form.clone();
                match self.take(&steps) {
                    true if at < self.best.steps.len() => {}
                    true => break,
                    false => nth += 1,
                }
                if self.plays >= PLAYS {
                    return;
                }
            }
        }
    }
}

/// Returns the command on a collection whose name is valid, because its name may be one of the faults.
fn on_another_collection(command: &Document) -> Option<Document> {
    let (verb, name) = command.iter().next()?;
    let mut other = command.clone();
    let name = match name.as_str()? {
        name if name.starts_with("DB") => "DB.u",
        _ => "v",
    };
    other.insert(verb, name);
    Some(other)
}

/// Returns the document without one field, or with a smaller value in one. The first field of a command is its name and
/// stays.
fn smaller_document(document: &Document, command: bool) -> Vec<Document> {
    let mut forms = Vec::new();
    let kept = usize::from(command);
    for name in document.keys().skip(kept) {
        let mut fewer = document.clone();
        fewer.remove(name);
        forms.push(fewer);
    }
    for (name, value) in document.iter().skip(kept) {
        for smaller in smaller_value(value) {
            let mut other = document.clone();
            other.insert(name, smaller);
            forms.push(other);
        }
    }
    forms
}

fn smaller_value(value: &Bson) -> Vec<Bson> {
    match value {
        Bson::Document(document) => {
            // The inner part may work without the outer one.
            let inside = document.values().cloned();
            let fewer = smaller_document(document, false).into_iter();
            inside.chain(fewer.map(Bson::Document)).collect()
        }
        Bson::Array(list) => {
            let mut forms: Vec<Bson> = list.clone();
            for at in 0..list.len() {
                let mut fewer = list.clone();
                fewer.remove(at);
                forms.push(fewer.into());
            }
            for (at, element) in list.iter().enumerate() {
                for smaller in smaller_value(element) {
                    let mut other = list.clone();
                    other[at] = smaller;
                    forms.push(other.into());
                }
            }
            forms
        }
        Bson::Int32(1) | Bson::Boolean(_) => Vec::new(),
        Bson::Int32(0) | Bson::Null => vec![Bson::Int32(1)],
        Bson::String(text) if text.is_empty() => vec![Bson::Int32(1)],
        Bson::String(text) if text.starts_with('$') => vec![Bson::Int32(1), Bson::Null],
        Bson::String(_) => vec!["".into(), Bson::Int32(1)],
        _ => vec![Bson::Int32(1), Bson::Null],
    }
}

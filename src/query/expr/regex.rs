//! `$regexMatch`, `$regexFind`, `$regexFindAll`.

use super::args::{ExprArgument, bool_val, eval_or};
use super::node::{Expr, ExprOp, OperatorFolding};
use super::{Env, fuel};
use crate::args::ArgumentError;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::query::Survey;
use crate::query::pattern::{Captures, Pattern, SearchError};
use crate::value::{ArrayBuilder, DocBuilder, Type, Val, Value, ValueRef, check_computed};

#[derive(Debug)]
struct RegexExpr {
    name: &'static str,
    wanted: MatchesWanted,
    input: Expr,
    regex: Expr,
    options: Option<Expr>,
    /// The compiled pattern, if pattern and options are constants and the pattern is not null.
    ready: Option<Pattern>,
}

/// The matches that the operator returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatchesWanted {
    /// None; only whether there is a match.
    Whether,
    First,
    All,
}

/// The longest pattern in bytes. Longer ones are refused, as in mongod.
const MAX_PATTERN: usize = 16 * 1024;

pub fn regex_match(arg: ExprArgument<'_>) -> Result<Expr> {
    parse(arg, MatchesWanted::Whether)
}

pub fn regex_find(arg: ExprArgument<'_>) -> Result<Expr> {
    parse(arg, MatchesWanted::First)
}

pub fn regex_find_all(arg: ExprArgument<'_>) -> Result<Expr> {
    parse(arg, MatchesWanted::All)
}

fn parse(arg: ExprArgument<'_>, wanted: MatchesWanted) -> Result<Expr> {
    let name = arg.name;
    let [input, regex, options] =
        arg.operands(["input", "regex", "options"], |wrong| match wrong {
            ArgumentError::NotAnObject(ty) => {
                let words = format!("{name} expects an object of named arguments but found: {ty}");
                (51103, words)
            }
            ArgumentError::Unknown(field) => {
                (31024, format!("{name} found unknown argument: {field}"))
            }
            ArgumentError::Missing("input") => {
                (31022, format!("{name} requires 'input' parameter"))
            }
            ArgumentError::Missing(field) => {
                (31023, format!("{name} requires '{field}' parameter"))
            }
        })?;
    let (input, regex) = (input.required()?, regex.required()?);
    let options = options.value();
    let constant = match (&regex, &options) {
        (Expr::Const(regex), None) => Some((regex.as_ref(), ValueRef::MISSING)),
        (Expr::Const(regex), Some(Expr::Const(options))) => {
            Some((regex.as_ref(), options.as_ref()))
        }
        _ => None,
    };
    // MongoDB compiles a constant pattern when it optimises.
    let ready = match constant.map_or(Ok(None), |(regex, options)| pattern(name, regex, options)) {
        Ok(ready) => ready,
        // A constant in the input that fails is reported first.
        Err(_) if arg.scope.keeps_failures() || input.failure().is_some() => None,
        Err(error) => return Ok(Expr::Fails(error)),
    };
    Ok(Expr::op(RegexExpr {
        name,
        wanted,
        input,
        regex,
        options,
        ready,
    }))
}

/// Compiles the pattern. `None` means that it is null.
fn pattern(name: &str, regex: ValueRef<'_>, options: ValueRef<'_>) -> Result<Option<Pattern>> {
    if !(regex.is_nullish() || matches!(regex.ty(), Type::String | Type::Regex)) {
        return Err(Error::location(
            51105,
            format!("{name} needs 'regex' to be of type string or regex"),
        ));
    }
    let given = match options.as_str() {
        Some(text) => Some(text),
        None if options.is_nullish() => None,
        None => {
            return Err(Error::location(
                51106,
                format!("{name} needs 'options' to be of type string"),
            ));
        }
    };
    let (source, flags) = match regex.ty() {
        Type::String => (
            regex.as_str().unwrap_or_default(),
            given.unwrap_or_default(),
        ),
        Type::Regex => {
            let (source, inline_options) = regex.as_regex().unwrap_or_default();
            if !inline_options.is_empty() && given.is_some() {
                return Err(Error::location(
                    51107,
                    format!(
                        "{name}: found regex option(s) specified in both 'regex' and 'option' fields"
                    ),
                ));
            }
            (source, given.unwrap_or(inline_options))
        }
        _ => ("", given.unwrap_or_default()),
    };
    if source.contains('\0') {
        return Err(Error::location(
            51109,
            format!("{name}: regular expression cannot contain an embedded null byte"),
        ));
    }
    if regex.is_nullish() {
        return Ok(None);
    }
    if flags.contains('\0') {
        return Err(Error::location(
            51110,
            format!(
                "{name}: regular expression options string cannot contain an embedded null byte"
            ),
        ));
    }
    if let Some(flag) = flags.chars().find(|flag| !"imsux".contains(*flag)) {
        return Err(Error::location(
            51108,
            format!("{name} invalid flag in regex options: {flag}"),
        ));
    }
    if source.len() > MAX_PATTERN {
        return Err(Error::location(
            51111,
            format!("Invalid Regex in {name}: regular expression is too large"),
        ));
    }
    match Pattern::new(source, flags) {
        Ok(pattern) => Ok(Some(pattern)),
        Err(error) => Err(Error::location(
            51111,
            format!("Invalid Regex in {name}: {}", error.message()),
        )),
    }
}

// === impl RegexExpr ===

/// An iterator over the matches in a text.
struct MatchIter<'t> {
    name: &'static str,
    text: &'t str,
    pattern: &'t Pattern,
    captures: Captures,
    /// The byte where the next search starts, and the number of characters before it.
    at: usize,
    letters: usize,
}

impl MatchIter<'_> {
    /// Returns the next match as a document, if there is one, and moves past it.
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        interrupt::tick(Pattern::UNITS)?;
        fuel::spend_read(self.text.len().saturating_sub(self.at))?;
        let found = self
            .pattern
            .matcher()
            .find(self.text, self.at, &mut self.captures)
            .map_err(|error| explain(self.name, error))?;
        let Some((start, end)) = self.captures.get(0).filter(|_| found) else {
            return Ok(None);
        };
        let before = self.text.get(self.at..start).unwrap_or_default();
        self.letters += before.chars().count();
        let matched = self.text.get(start..end).unwrap_or_default();
        let mut bytes = Vec::new();
        let mut doc = DocBuilder::begin(&mut bytes);
        doc.put_str("match", matched);
        doc.put_i32("idx", i32::try_from(self.letters).unwrap_or(i32::MAX));
        let mut texts = doc.array("captures");
        for group in 1..=self.pattern.matcher().groups() {
            match self
                .captures
                .get(group)
                .and_then(|(from, to)| self.text.get(from..to))
            {
                Some(text) => texts.push_str(text),
                None => texts.push(ValueRef::NULL),
            };
            // Thousands of groups may each contain the whole text.
            check_computed(texts.len())?;
        }
        texts.end();
        doc.end();
        if matched.is_empty() {
            // An empty match would be found at the same place again, so the search moves past the next character.
            let step = self
                .text
                .get(end..)
                .and_then(|rest| rest.chars().next())
                .map_or(1, char::len_utf8);
            self.at = end + step;
            self.letters += 1;
        } else {
            self.at = end;
            self.letters += matched.chars().count();
        }
        Ok(Some(bytes))
    }
}

impl ExprOp for RegexExpr {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let made;
        let pattern = match &self.ready {
            Some(pattern) => Some(pattern),
            None => {
                let regex = self.regex.eval_in(env)?;
                let options = eval_or(&self.options, env, Val::MISSING)?;
                made = pattern(self.name, regex.as_ref(), options.as_ref())?;
                made.as_ref()
            }
        };
        let input = self.input.eval_in(env)?;
        let input = input.as_ref();
        if !input.is_nullish() && input.as_str().is_none() {
            return Err(Error::location(
                51104,
                format!("{} needs 'input' to be of type string", self.name),
            ));
        }
        let both = input.as_str().zip(pattern);
        match self.wanted {
            MatchesWanted::Whether => {
                let Some((text, pattern)) = both else {
                    return bool_val(false);
                };
                interrupt::tick(Pattern::UNITS)?;
                fuel::spend_read(text.len())?;
                let found = pattern.matcher().is_match(text.as_bytes());
                bool_val(found.map_err(|error| explain(self.name, error))?)
            }
            MatchesWanted::First => {
                let Some((text, pattern)) = both else {
                    return Ok(Val::NULL);
                };
                let found = self.search(text, pattern)?.next()?;
                Ok(found.map_or(Val::NULL, |bytes| Val::Own(Value::document(bytes))))
            }
            MatchesWanted::All => {
                let mut bytes = Vec::new();
                let mut out = ArrayBuilder::begin(&mut bytes);
                if let Some((text, pattern)) = both {
                    let mut search = self.search(text, pattern)?;
                    while let Some(found) = search.next()? {
                        out.push(Value::document(found).as_ref());
                        check_computed(out.len())?;
                        if search.at >= text.len() {
                            break;
                        }
                    }
                }
                out.end();
                Ok(Val::Own(Value::array(bytes)))
            }
        }
    }

    fn optimised(&self) -> OperatorFolding {
        OperatorFolding::Parts
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.input);
        visit(&self.regex);
        self.options.iter().for_each(visit);
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        let is_known = self.regex.as_const().is_some();
        let is_slow = self.ready.as_ref().is_some_and(Pattern::is_slow);
        if self.wanted == MatchesWanted::All || !is_known || is_slow {
            survey.slow();
        }
    }
}

impl RegexExpr {
    fn search<'t>(&self, text: &'t str, pattern: &'t Pattern) -> Result<MatchIter<'t>> {
        let captures = pattern.matcher().captures();
        Ok(MatchIter {
            name: self.name,
            text,
            captures: captures.map_err(|error| explain(self.name, error))?,
            pattern,
            at: 0,
            letters: 0,
        })
    }
}

/// Converts the error of a search to the error of the command.
fn explain(name: &str, error: SearchError) -> Error {
    match error {
        SearchError::Interrupted(error) => error,
        SearchError::Failed(why) => Error::location(
            51156,
            format!(
                "Error occurred while executing the regular expression in {name}. Result code: {why}"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn values() {
        check::values(&[
            (
                bson!({"$regexMatch": {"input": "Hello", "regex": "h", "options": "i"}}),
                bson!(true),
            ),
            (
                bson!({"$regexMatch": {"input": Bson::Null, "regex": "h"}}),
                bson!(false),
            ),
            (
                bson!({"$regexFind": {"input": "éa1b2", "regex": "([a-z])(\\d)(x)?"}}),
                bson!({"match": "a1", "idx": 1, "captures": ["a", "1", Bson::Null]}),
            ),
            (
                bson!({"$regexFind": {"input": "a", "regex": "b"}}),
                Bson::Null,
            ),
            (
                bson!({"$regexFindAll": {"input": "a1b2", "regex": "[0-9]"}}),
                bson!([
                    {"match": "1", "idx": 1, "captures": []},
                    {"match": "2", "idx": 3, "captures": []}
                ]),
            ),
            (
                bson!({"$regexFindAll": {"input": "éa", "regex": "x*"}}),
                bson!([
                    {"match": "", "idx": 0, "captures": []},
                    {"match": "", "idx": 1, "captures": []}
                ]),
            ),
            (
                bson!({"$regexFindAll": {"input": Bson::Null, "regex": "a"}}),
                bson!([]),
            ),
        ]);
        check::errors(&[
            (bson!({"$regexMatch": 1}), 51103),
            (bson!({"$regexMatch": {"input": "a"}}), 31023),
            (bson!({"$regexMatch": {"input": "a", "regex": "("}}), 51111),
            (
                bson!({"$regexMatch": {"input": "a", "regex": "a", "options": "q"}}),
                51108,
            ),
            (bson!({"$regexMatch": {"input": 1, "regex": "a"}}), 51104),
        ]);
    }
}

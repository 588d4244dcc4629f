//! The rule of one collection for a single document, where Sundown looks at the document itself.

use crate::error::Result;
use crate::query::{Filter, Scope, Vars};
use crate::ttl::{DefaultTtl, End, OwnTtl, date_end};
use crate::upstream::{CollectionRules, Former, HIDDEN_FIELD};
use crate::value::{Doc, Millis, Path, Type, ValueRef};

/// The compiled rule of a collection. It agrees with [`EndedPredicate`](super::EndedPredicate) on every document.
#[derive(Debug)]
pub struct Visibility {
    default: DefaultTtl,
    since: Millis,
    dates: Vec<DateEnd>,
    /// Rules that ended documents until that moment.
    past: Vec<(Self, Millis)>,
}

#[derive(Debug)]
struct DateEnd {
    path: Path,
    seconds: i32,
    filter: Option<Filter>,
}

const HIDDEN: &[u8] = HIDDEN_FIELD.as_bytes();
const OWN_TTL: &[u8] = OwnTtl::FIELD.as_bytes();

// === impl Visibility ===

impl Visibility {
    /// Compiles the rules. Fails if a partial filter uses an operator that Sundown does not know.
    pub fn new(rules: &CollectionRules) -> Result<Self> {
        let dates = rules.dates.iter().map(|rule| {
            let filter = rule.filter.as_ref();
            let filter = filter.map(|filter| Filter::parse(filter.as_doc(), &Scope::new()));
            Ok(DateEnd {
                path: Path::parse(&rule.path),
                seconds: rule.seconds,
                filter: filter.transpose()?,
            })
        });
        let mut compiled = Self {
            default: rules.default,
            since: rules.since,
            dates: dates.collect::<Result<_>>()?,
            past: Vec::new(),
        };
        if let Some(former) = &rules.former {
            compiled.add_past(former)?;
        }
        Ok(compiled)
    }

    /// Adds rules that are over. What ended under them stays ended.
    pub fn add_past(&mut self, past: &Former) -> Result<()> {
        self.past.push((Self::new(&past.rules)?, past.until));
        Ok(())
    }

    /// Returns whether a whole document has ended. If a partial filter cannot be tested, its rule does not hold: the
    /// cluster could not index the document either.
    pub fn has_ended(&self, doc: Doc<'_>, now: Millis) -> bool {
        let (mut stamp, mut ttl) = (ValueRef::MISSING, ValueRef::MISSING);
        // One pass: a batch may have thousands of rows.
        for elem in doc {
            let place = match elem.name_bytes() {
                HIDDEN => &mut stamp,
                OWN_TTL => &mut ttl,
                _ => continue,
            };
            if place.is_missing() {
                *place = elem.value;
            }
        }
        self.ends(stamp, ttl, doc, now)
    }

    /// The same for a document whose stamp and `ttl` are already known.
    pub fn ends(&self, stamp: ValueRef<'_>, ttl: ValueRef<'_>, doc: Doc<'_>, now: Millis) -> bool {
        let mut past = self.past.iter();
        self.own_end(stamp, ttl).has_come(now)
            || self.dates.iter().any(|rule| rule.has_ended(doc, now))
            || past.any(|(past, until)| past.ends(stamp, ttl, doc, now.min(*until)))
    }

    fn own_end(&self, stamp: ValueRef<'_>, ttl: ValueRef<'_>) -> End {
        if self.default == DefaultTtl::Off {
            return End::NEVER;
        }
        let stamp = match stamp.ty() {
            Type::Date => stamp.as_date().map_or(self.since, Millis),
            _ => self.since,
        };
        self.default.end(OwnTtl::from_value(ttl), stamp)
    }
}

// === impl DateEnd ===

impl DateEnd {
    fn has_ended(&self, doc: Doc<'_>, now: Millis) -> bool {
        let end = date_end(&self.path, self.seconds, doc);
        end.is_some_and(|end| end.has_come(now)) && self.covers(doc, now)
    }

    fn covers(&self, doc: Doc<'_>, now: Millis) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| filter.matches(doc, &Vars::at(now)).unwrap_or(false))
    }
}

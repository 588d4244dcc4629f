//! `create`, with `defaultTtl` and `indexingPolicy`.

use bytes::Bytes;

use super::switch::{switch, with_default};
use super::{collection, database, is_ok, rewritten, validator};
use crate::args::Arg;
use crate::error::{Code, Error, Result};
use crate::ttl::{DefaultTtl, IndexingMode, check_mode, parse_default, parse_indexing_policy};
use crate::upstream::settings::RuleSettings;
use crate::upstream::settings::collection::NameKind;
use crate::upstream::settings::record::{SettingRecord, document};
use crate::upstream::{Ask, Lost};
use crate::value::{Doc, DocBuf};
use crate::wire::Request;

/// What the request says about settings.
#[derive(Default)]
struct CreateArgs {
    default: DefaultTtl,
    mode: Option<IndexingMode>,
    /// Documents of the new collection end by a date.
    expires: bool,
    /// It is a view that reads a collection with rules.
    ruled_view: bool,
    /// The validator that also accepts Sundown's fields.
    validator: Option<DocBuf>,
}

pub async fn create(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: &Request,
) -> Result<Bytes, Lost> {
    let (database, name) = (database(request)?, collection(request)?);
    let mut wanted = CreateArgs::parse(request)?;
    wanted.ruled_view = settings.0.reads_rules(database, request.body()).await?;
    let own = rewritten(request, |name, _, out| match name {
        "defaultTtl" | "indexingPolicy" => true,
        "validator" => {
            let wide = wanted.validator.as_ref();
            wide.is_some_and(|wide| {
                out.put_doc(name, wide.as_doc());
                true
            })
        }
        _ => false,
    });
    if wanted.is_nothing() {
        return ask.ask(own).await;
    }
    // Announced before it exists, because other Sundowns may still know that there is no such collection.
    let mut change = settings.0.begin(database, name).await?;
    let existed = change.found.shape != NameKind::Missing;
    let reply = ask.ask(own).await?;
    if !is_ok(&reply) || wanted.has_no_settings() {
        change.end().await?;
        return Ok(reply);
    }
    if existed {
        // The cluster says that the same collection exists. That holds only if the settings are the same, too.
        let there = change.setting();
        let same = there.default == wanted.default && there.mode == wanted.mode;
        change.end().await?;
        return match same {
            true => Ok(reply),
            false => Err(Lost::from(Error::new(
                Code::NamespaceExists,
                format!("Collection {database}.{name} already exists."),
            ))),
        };
    }
    change.adopt().await?;
    let new = SettingRecord {
        mode: wanted.mode,
        ..with_default(change.setting(), &change.found, wanted.default, None)
    };
    switch(settings, &mut change, new, Vec::new()).await?;
    change.close().await?;
    Ok(reply)
}

// === impl CreateArgs ===

impl CreateArgs {
    fn parse(request: &Request) -> Result<Self> {
        let mut wanted = Self::default();
        let body = request.body();
        for elem in body {
            let arg = Arg::new("create", elem);
            match arg.name() {
                "defaultTtl" => wanted.default = parse_default(arg.value())?,
                "indexingPolicy" => wanted.mode = parse_indexing_policy(arg)?,
                "expireAfterSeconds" => wanted.expires = true,
                _ => {}
            }
        }
        check_mode(wanted.mode, wanted.default, Code::BadValue)?;
        if wanted.default != DefaultTtl::Off {
            wanted.check_kind(body)?;
            let given = body.get("validator").as_doc();
            if let Some(given) = given.map(DocBuf::from).as_ref().and_then(document) {
                wanted.validator = Some(DocBuf::from(validator::widen(&given)?));
            }
        }
        Ok(wanted)
    }

    /// Refuses the kinds of collections that cannot have a default, before anything is created.
    fn check_kind(&self, body: Doc<'_>) -> Result<()> {
        let cannot = |what: &str| {
            Err(Error::new(
                Code::CannotCreateIndex,
                format!("Cannot set a default TTL on a {what}"),
            ))
        };
        if crate::value::is_true(body.get("capped")) {
            return cannot("capped collection");
        }
        if !body.get("timeseries").is_nullish() {
            return cannot("time-series collection");
        }
        match body.get("viewOn").is_nullish() {
            true => Ok(()),
            false => cannot("view"),
        }
    }

    fn is_nothing(&self) -> bool {
        self.has_no_settings() && !self.expires && !self.ruled_view
    }

    fn has_no_settings(&self) -> bool {
        self.default == DefaultTtl::Off && self.mode.is_none()
    }
}

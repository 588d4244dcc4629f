//! Helpers for the table tests of the operators. A row has a filter, and the documents that pass it or the error that refuses
//! it. Expectations come from MongoDB's documented behaviour.

use bson::{Bson, Document};

use super::Filter;
use crate::query::{Scope, Vars};
use crate::value::{DocBuf, Millis};

pub fn parse(filter: &Document) -> crate::error::Result<Filter> {
    Filter::parse(DocBuf::from(filter).as_doc(), &Scope::default())
}

pub fn vars() -> Vars {
    Vars::at(Millis(0))
}

pub fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().unwrap())
}

/// Checks rows of (filter, documents that pass, documents that do not).
pub fn passes(rows: &[(Document, Vec<Document>, Vec<Document>)]) {
    for (filter, yes, no) in rows {
        let parsed = parse(filter).unwrap_or_else(|error| panic!("{filter}: {error:?}"));
        for (docs, expected) in [(yes, true), (no, false)] {
            for doc in docs {
                let bytes = DocBuf::from(doc);
                assert_eq!(
                    parsed.matches(bytes.as_doc(), &vars()).unwrap(),
                    expected,
                    "{filter} on {doc}"
                );
            }
        }
    }
}

/// Checks rows of (filter, error code, part of the message).
pub fn refused(rows: &[(Document, i32, &str)]) {
    for (filter, code, words) in rows {
        let error = parse(filter).expect_err(&format!("{filter} should be refused"));
        assert_eq!(error.code().number(), *code, "{filter}: {error:?}");
        assert!(error.message().contains(words), "{filter}: {error:?}");
    }
}

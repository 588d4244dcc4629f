//! A complete message from a client, as the handler gets it.

use std::borrow::Cow;

use bytes::Bytes;

use crate::value::Doc;

use super::{Compressor, Form, ReplyTo};

/// One command. Its documents are validated.
#[derive(Debug, Clone)]
pub struct Request {
    /// The command document (for OP_QUERY: its query).
    pub body: Bytes,
    /// The kind-1 sections, in the order in which they arrived.
    pub sequences: Vec<Sequence>,
    /// The database of an OP_QUERY (`db.$cmd`); an OP_MSG names it in `$db`.
    pub query_database: Option<String>,
    /// The client wants no reply (`moreToCome`).
    pub unacknowledged: bool,
    /// The client accepts several replies to this request (`exhaustAllowed`).
    pub exhaust_allowed: bool,
    pub request_id: i32,
    /// The form of the reply.
    pub form: Form,
    /// The compressor of the request, to be used for the reply.
    pub compressor: Option<Compressor>,
}

/// Documents outside the command document: `documents` of an insert, `updates`, `deletes`, ...
#[derive(Debug, Clone)]
pub struct Sequence {
    pub name: Cow<'static, str>,
    /// Complete documents, one after the other.
    pub documents: Bytes,
}

// === impl Request ===

impl Request {
    /// Creates a plain request: one document, one reply, as OP_MSG and uncompressed.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self {
            body: body.into(),
            sequences: Vec::new(),
            query_database: None,
            unacknowledged: false,
            exhaust_allowed: false,
            request_id: 0,
            form: Form::Msg,
            compressor: None,
        }
    }

    pub fn body(&self) -> Doc<'_> {
        Doc::new(&self.body)
    }

    pub fn sequence(&self, name: &str) -> Option<&Sequence> {
        self.sequences.iter().find(|sequence| sequence.name == name)
    }

    /// Returns the number of bytes of all its documents.
    pub fn size(&self) -> usize {
        let outside = self.sequences.iter().map(|one| one.documents.len());
        self.body.len() + outside.sum::<usize>()
    }

    /// Returns everything that the reply needs, for when the request is gone.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo {
            request_id: self.request_id,
            form: self.form,
            wanted: !self.unacknowledged,
            compressor: self.compressor,
        }
    }
}

// === impl Sequence ===

impl Sequence {
    /// Iterates over the documents in their order.
    pub fn iter(&self) -> impl Iterator<Item = Doc<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let doc = self.document_at(at)?;
            at += doc.bytes().len();
            Some(doc)
        })
    }

    /// Returns the document that begins at this byte.
    #[inline]
    pub fn document_at(&self, at: usize) -> Option<Doc<'_>> {
        let rest = self.documents.get(at..)?;
        let length: [u8; 4] = rest.get(..4)?.try_into().ok()?;
        let length = usize::try_from(i32::from_le_bytes(length)).ok()?;
        Some(Doc::new(rest.get(..length.max(5))?))
    }
}

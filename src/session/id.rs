//! `lsid`: the id of a session.

use std::fmt;

use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf, Type, UUID_SUBTYPE, Value, ValueRef};

/// The id of a logical session: the client's UUID and the digest of its user (the digest of nothing if no user has logged in).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId {
    pub uuid: [u8; 16],
    user: [u8; 32],
}

/// SHA-256 of nothing: the user digest of a client that has not logged in.
pub const NOBODY: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

// === impl SessionId ===

impl SessionId {
    pub fn new(uuid: [u8; 16]) -> Self {
        Self { uuid, user: NOBODY }
    }

    /// Assigns the session to the user with this digest. Returns `None` if the client says that it belongs to another user.
    pub fn of(mut self, user: &[u8; 32]) -> Option<Self> {
        if self.user != NOBODY && self.user != *user {
            return None;
        }
        self.user = *user;
        Some(self)
    }

    pub fn is_of(&self, user: &[u8; 32]) -> bool {
        self.user == *user
    }

    /// Parses `{id: UUID, uid: digest?}`. Messages name the field by `path`.
    pub fn parse(value: ValueRef<'_>, path: &str) -> Result<Self> {
        let Some(doc) = value.as_doc() else {
            return Err(Error::wrong_type("", path, value.ty(), &[Type::Document]));
        };
        Self::read(doc, path)
    }

    fn read(doc: Doc<'_>, path: &str) -> Result<Self> {
        let mut id = None;
        let mut user = NOBODY;
        for elem in doc.iter().filter(|elem| !elem.value.is_nullish()) {
            match elem.name_bytes() {
                b"id" => {
                    id = Some(Self::bytes::<16>(elem.value, UUID_SUBTYPE, path, "id")?);
                }
                b"uid" => user = Self::parse_user(elem.value, path)?,
                // Routers send these for internal transactions. Sundown ignores them.
                b"txnNumber" | b"txnUUID" => {}
                _ => {
                    return Err(Error::unknown_field(path, elem.name()));
                }
            }
        }
        let uuid = id.ok_or_else(|| Error::missing_field(path, "id"))?;
        Ok(Self { uuid, user })
    }

    /// Parses the digest that identifies a user in the ids of its sessions.
    pub fn parse_user(value: ValueRef<'_>, path: &str) -> Result<[u8; 32]> {
        Self::bytes(value, 0, path, "uid")
    }

    fn bytes<const N: usize>(
        value: ValueRef<'_>,
        subtype: u8,
        path: &str,
        name: &str,
    ) -> Result<[u8; N]> {
        let Some((found, bytes)) = value.as_binary() else {
            return Err(Error::wrong_type(path, name, value.ty(), &[Type::Binary]));
        };
        if found != subtype {
            return Err(Error::wrong_subtype(path, name, found, subtype));
        }
        bytes.try_into().map_err(|_| {
            Error::new(
                Code::InvalidUUID,
                format!(
                    "'{path}.{name}' must be {N} bytes long, not {}",
                    bytes.len()
                ),
            )
        })
    }

    /// Returns the whole id: `{id: UUID, uid: digest}`.
    pub fn to_doc(self) -> DocBuf {
        DocBuf::build(|doc| {
            doc.put("id", Value::binary(UUID_SUBTYPE, &self.uuid).as_ref())
                .put("uid", Value::binary(0, &self.user).as_ref());
        })
    }

    /// Writes the id as a client sends it: `{id: UUID}`.
    pub fn put(&self, doc: &mut crate::value::DocBuilder<'_>, name: &str) {
        let mut nested = doc.doc(name);
        let mut data = [0u8; 21];
        data[0] = 16;
        data[4] = UUID_SUBTYPE;
        data[5..].copy_from_slice(&self.uuid);
        nested.put("id", ValueRef::new(Type::Binary, &data));
        nested.end();
    }
}

/// Formats the id as mongod does in its messages: the UUID, then the (constant) digest for no user.
impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", uuid::Uuid::from_bytes(self.uuid).hyphenated())?;
        if self.user == NOBODY {
            f.write_str(" - 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU= -  - ")?;
        }
        Ok(())
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{DocBuf, Value};

    #[test]
    fn wrong_lsids_have_the_errors_of_mongod() {
        let uuid = Value::binary(4, &[7; 16]);
        let cases: &[(DocBuf, Option<i32>)] = &[
            (
                DocBuf::build(|d| {
                    d.put("id", uuid.as_ref());
                }),
                None,
            ),
            (DocBuf::new(), Some(40414)),
            (
                DocBuf::build(|d| {
                    d.put_str("id", "x");
                }),
                Some(14),
            ),
            (
                DocBuf::build(|d| {
                    d.put("id", Value::binary(0, &[7; 16]).as_ref());
                }),
                Some(14),
            ),
            (
                DocBuf::build(|d| {
                    d.put("id", Value::binary(4, &[7; 3]).as_ref());
                }),
                Some(207),
            ),
            (
                DocBuf::build(|d| {
                    d.put("id", uuid.as_ref()).put_i32("x", 1);
                }),
                Some(40415),
            ),
        ];
        for (doc, code) in cases {
            let read = SessionId::parse(ValueRef::document(doc.as_doc()), "lsid");
            assert_eq!(
                read.as_ref().err().map(|e| e.code().number()),
                *code,
                "{doc:?}"
            );
        }
        assert!(SessionId::parse(Value::int32(1).as_ref(), "lsid").is_err());
    }
}

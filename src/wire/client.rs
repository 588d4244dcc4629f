//! The client's side of the protocol: writes a request, reads its reply.
//!
//! ```text
//! request  header · uint32 flags · 0x00 · command · (0x01 · int32 size · name · 0x00 · document*)*
//! reply    header · uint32 flags · 0x00 · document · [uint32 crc32c]
//! ```
//!
//! The document of a reply is not validated: the server is trusted to send BSON, and every reader of `value` stays within
//! the bounds of the bytes.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::Hangup;

use super::header::{Header, Opcode, int32};
use super::msg::{CHECKSUM_PRESENT, MORE_TO_COME};
use super::{Compressor, Compressors, MAX_MESSAGE, Request, compressed};

/// A reply of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReply {
    /// The id of the request that it answers.
    pub response_to: i32,
    pub document: Bytes,
    /// Another reply follows without a request.
    pub more_to_come: bool,
}

/// The offset of the first section.
const SECTIONS: usize = Header::SIZE + 4;

/// Appends the request as OP_MSG. It asks for exactly one reply, whatever the client asked for.
pub fn put_request(request: &Request, id: i32, compressor: Option<Compressor>, out: &mut Vec<u8>) {
    let start = out.len();
    let header = Header {
        length: 0,
        request_id: id,
        response_to: 0,
        opcode: Opcode::Msg,
    };
    let outside = |sequence: &super::Sequence| 6 + sequence.name.len() + sequence.documents.len();
    let size = request.sequences.iter().map(outside).sum::<usize>();
    out.reserve(SECTIONS + 1 + request.body.len() + size);
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&[0; 5]);
    out.extend_from_slice(&request.body);
    for sequence in &request.sequences {
        // Fits into an int32: a message is shorter than 48 million bytes.
        let size = (outside(sequence) - 1) as i32;
        out.push(1);
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(sequence.name.as_bytes());
        out.push(0);
        out.extend_from_slice(&sequence.documents);
    }
    let length = ((out.len() - start) as i32).to_le_bytes();
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length);
    }
    if let Some(compressor) = compressor {
        compressed::wrap(compressor, start, out);
    }
}

/// Splits a complete reply off the buffer. Returns `None` until it has arrived.
pub fn take_reply(src: &mut BytesMut) -> Result<Option<ServerReply>, Hangup> {
    let Some(header) = Header::peek(src)? else {
        return Ok(None);
    };
    if src.len() < header.length {
        // A server announces no length that it does not send. What is read next fits.
        src.reserve(header.length - src.len());
        return Ok(None);
    }
    let frame = src.split_to(header.length).freeze();
    let (header, frame) = match header.opcode {
        Opcode::Compressed => compressed::inflate(header, &frame, Compressors::ALL)?,
        _ => (header, frame),
    };
    match header.opcode {
        Opcode::Msg => parse(header, frame).map(Some),
        other => Err(Hangup::new(format!(
            "a reply of the form {other:?}, which was not asked for"
        ))),
    }
}

fn parse(header: Header, mut frame: Bytes) -> Result<ServerReply, Hangup> {
    let flags = int32(&frame, Header::SIZE)
        .map(i32::cast_unsigned)
        .ok_or_else(|| Hangup::new("a reply without flags"))?;
    if flags & CHECKSUM_PRESENT != 0 {
        frame.truncate(frame.len().saturating_sub(4));
    }
    let length = int32(&frame, SECTIONS + 1).and_then(|length| usize::try_from(length).ok());
    let end = length.and_then(|length| length.checked_add(SECTIONS + 1));
    let end = end.filter(|end| *end == frame.len() && *end <= MAX_MESSAGE);
    match (frame.get(SECTIONS), end) {
        (Some(0), Some(_)) => {
            frame.advance(SECTIONS + 1);
            Ok(ServerReply {
                response_to: header.response_to,
                document: frame,
                more_to_come: flags & MORE_TO_COME != 0,
            })
        }
        _ => Err(Hangup::new("a reply that is not one document")),
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use tokio_util::codec::Decoder;

    use super::*;
    use crate::wire::{Codec, Form, Incoming, ReplyTo, Sequence};

    fn insert() -> Request {
        let documents = [doc! {"_id": 1}, doc! {"_id": 2}];
        let documents: Vec<u8> = documents
            .iter()
            .flat_map(|document| document.to_vec().unwrap())
            .collect();
        Request {
            sequences: vec![Sequence {
                name: "documents".into(),
                documents: documents.into(),
            }],
            ..Request::new(doc! {"insert": "c", "$db": "d"}.to_vec().unwrap())
        }
    }

    #[test]
    fn a_server_reads_what_a_client_writes() {
        for compressor in [None, Some(Compressor::Zstd)] {
            let mut bytes = Vec::new();
            put_request(&insert(), 7, compressor, &mut bytes);
            let mut bytes = BytesMut::from(bytes.as_slice());
            let mut codec = Codec {
                compressors: Compressors::ALL,
            };
            let Some(Incoming::Request(read)) = codec.decode(&mut bytes).unwrap() else {
                panic!("{bytes:?}");
            };
            assert_eq!(read.request_id, 7);
            assert_eq!(read.body, insert().body);
            assert_eq!(read.sequences.len(), 1);
            assert_eq!(read.sequences[0].documents, insert().sequences[0].documents);
        }
    }

    #[test]
    fn a_client_reads_what_a_server_writes() {
        let document = doc! {"ok": 1.0, "text": "x".repeat(500)}.to_vec().unwrap();
        for form in [Form::Msg, Form::CheckedMsg] {
            for compressor in [None, Some(Compressor::Snappy)] {
                let to = ReplyTo {
                    request_id: 9,
                    form,
                    wanted: true,
                    compressor,
                };
                let mut bytes = Vec::new();
                let frame = to.begin(4, &mut bytes);
                bytes.extend_from_slice(&document);
                frame.finish(&mut bytes).unwrap();
                for cut in [3, 15, 17, bytes.len() - 1] {
                    let mut some = BytesMut::from(&bytes[..cut]);
                    assert_eq!(take_reply(&mut some), Ok(None), "{form:?} {cut}");
                }
                let mut all = BytesMut::from(bytes.as_slice());
                let reply = take_reply(&mut all).unwrap().unwrap();
                assert_eq!(reply.response_to, 9);
                assert_eq!(reply.document, document);
                assert!(!reply.more_to_come && all.is_empty());
            }
        }
    }

    #[test]
    fn what_is_no_reply_ends_the_connection() {
        let document = doc! {"ok": 1.0}.to_vec().unwrap();
        let message = |opcode: i32, sections: &[u8]| {
            let mut bytes = BytesMut::new();
            for word in [20 + sections.len() as i32, 1, 2, opcode, 0] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            bytes.extend_from_slice(sections);
            bytes
        };
        let body = [&[0], document.as_slice()].concat();
        assert!(take_reply(&mut message(2013, &body)).unwrap().is_some());
        for mut bad in [
            message(1, &body),
            message(2013, &[]),
            message(2013, &document),
            message(2013, &body[..body.len() - 1]),
            message(2013, &[body.as_slice(), &[0]].concat()),
        ] {
            assert!(take_reply(&mut bad).is_err(), "{bad:?}");
        }
    }
}

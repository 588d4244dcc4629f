//! Feeds arbitrary bytes to the codec, in pieces of any size. Every message that the codec accepts must be readable to its last
//! byte, and the size of the pieces must not change the results.

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use sundown::value::{Doc, Type};
use sundown::wire::{Codec, Compressors, Form, Incoming, Request};
use tokio_util::codec::Decoder;

fuzz_target!(|data: &[u8]| {
    let Some((&step, stream)) = data.split_first() else {
        return;
    };
    let at_once = outcomes(stream, stream.len().max(1));
    let in_pieces = outcomes(stream, usize::from(step).max(1));
    assert_eq!(at_once, in_pieces, "pieces of {step} bytes");
});

/// Decodes the stream and returns one line of text for each message.
fn outcomes(stream: &[u8], step: usize) -> Vec<String> {
    let mut codec = Codec {
        compressors: Compressors::ALL,
    };
    let mut seen = Vec::new();
    let mut buffer = BytesMut::new();
    for piece in stream.chunks(step) {
        buffer.extend_from_slice(piece);
        loop {
            match codec.decode(&mut buffer) {
                Ok(Some(Incoming::Request(request))) => {
                    walk(request.body());
                    let mut documents = 0;
                    for sequence in &request.sequences {
                        for document in sequence.iter() {
                            walk(document);
                            documents += 1;
                        }
                    }
                    answer(&request);
                    seen.push(format!("{} {documents}", request.body.len()));
                }
                Ok(Some(Incoming::Refused(_, error))) => {
                    let mut reply = Vec::new();
                    error.write_reply(&mut reply);
                    seen.push(format!("{error:?}"));
                }
                Ok(None) => break,
                Err(hangup) => {
                    seen.push(hangup.to_string());
                    return seen;
                }
            }
        }
        assert!(
            buffer.capacity() <= 4 * stream.len() + 64 * 1024,
            "a buffer of {} bytes for {} that came",
            buffer.capacity(),
            stream.len()
        );
    }
    seen
}

/// Checks that a compressed request gets a compressed reply, and that the reply decodes to the same body.
fn answer(request: &Request) {
    let to = request.reply_to();
    let mut reply = vec![0xEE];
    let frame = to.begin(7, &mut reply);
    reply.extend_from_slice(&request.body);
    let Ok(()) = frame.finish(&mut reply) else {
        return;
    };
    if to.form == Form::Reply {
        return;
    }
    let mut codec = Codec {
        compressors: Compressors::ALL,
    };
    let mut bytes = BytesMut::from(reply.get(1..).unwrap_or_default());
    match codec.decode(&mut bytes) {
        Ok(Some(Incoming::Request(read))) => assert_eq!(read.body, request.body),
        other => panic!("{other:?}"),
    }
}

/// Reads a validated document completely. It has at most 200 levels, so recursion is safe.
fn walk(doc: Doc<'_>) {
    let mut fields = doc.iter();
    for field in fields.by_ref() {
        assert!(std::str::from_utf8(field.name_bytes()).is_ok());
        match field.value.ty() {
            Type::Document | Type::Array => walk(Doc::new(field.value.data())),
            Type::String => assert!(field.value.as_str().is_some()),
            _ => {}
        }
    }
    assert!(
        fields.rest().is_empty(),
        "{} bytes unread",
        fields.rest().len()
    );
}

//! The reply document of an error.

use crate::value::{Doc, DocBuilder};

use super::Error;

impl Error {
    /// Appends `{errorLabels, ok: 0, errmsg, code, codeName, ...}` in mongod's order of fields. The details of the error come
    /// last.
    pub fn write_reply(&self, out: &mut Vec<u8>) {
        let mut reply = DocBuilder::begin(out);
        self.write_fields(&mut reply);
        reply.end();
    }

    /// Adds the same fields to a reply that has more fields of its own.
    pub fn write_fields(&self, reply: &mut DocBuilder<'_>) {
        if let Some(label) = self.label() {
            let mut labels = reply.array("errorLabels");
            labels.push_str(label);
            labels.end();
        }
        reply
            .put_f64("ok", 0.0)
            .put_str("errmsg", self.message())
            .put_i32("code", self.code().number())
            .put_str("codeName", &self.code().name());
        if let Some(details) = self.details() {
            reply.put_body(Doc::new(details).body());
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use crate::error::{Code, Error};
    use crate::value::DocBuf;

    #[test]
    fn the_reply_has_mongods_fields_in_its_order() {
        let details = DocBuf::from(doc! {"keyPattern": {"_id": 1}});
        let error = Error::new(Code::BadValue, "no").with_details(details.into_bytes());
        let mut out = Vec::new();
        error.with_label("Label").write_reply(&mut out);
        let expected = doc! {
            "errorLabels": ["Label"], "ok": 0.0, "errmsg": "no", "code": 2, "codeName": "BadValue",
            "keyPattern": {"_id": 1},
        };
        assert_eq!(out, expected.to_vec().unwrap());
    }
}

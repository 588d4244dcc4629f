//! Expressions that see whole documents where no stage can hide fields from them first: in filters and projections of a
//! find, and `$$new` in a `$merge`. The variable is replaced by an expression without the hidden fields.

use super::naming::{computes_name, contains};
use crate::error::{Error, Result};
use crate::value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Elem, Type, Value, ValueRef};

/// Replaces variables that hold a whole document, inside expressions.
pub struct WithoutHidden<'a> {
    /// With their `$$`.
    pub variables: &'a [&'a str],
    pub hidden: &'a [&'a str],
}

// === impl WithoutHidden ===

impl WithoutHidden<'_> {
    /// Returns a projection or a stage with its variables replaced, or `None` if it has none of them.
    pub fn apply(&self, spec: Doc<'_>) -> Result<Option<DocBuf>> {
        self.changed(spec, Self::document)
    }

    /// The same for a filter. Only its `$expr` holds an expression; everywhere else such a text is a value.
    pub fn apply_to_filter(&self, filter: Doc<'_>) -> Result<Option<DocBuf>> {
        self.changed(filter, Self::filter)
    }

    fn changed(
        &self,
        spec: Doc<'_>,
        write: impl Fn(&Self, Doc<'_>, &mut DocBuilder<'_>),
    ) -> Result<Option<DocBuf>> {
        let bytes = spec.bytes();
        // A name that is computed could be that of a hidden field.
        if contains(bytes, b"$getField") && contains_computed(ValueRef::document(spec)) {
            return Err(Error::not_implemented(
                "$getField with a computed name, outside of a pipeline and with a TTL,",
            ));
        }
        let uses = |variable: &&str| contains(bytes, variable.as_bytes());
        if self.hidden.is_empty() || !self.variables.iter().any(uses) {
            return Ok(None);
        }
        let mut out = Vec::with_capacity(bytes.len() + 128);
        let mut doc = DocBuilder::begin(&mut out);
        write(self, spec, &mut doc);
        doc.end();
        Ok(Some(DocBuf::from_bytes(out)))
    }

    fn filter(&self, filter: Doc<'_>, out: &mut DocBuilder<'_>) {
        for elem in filter {
            match (elem.name(), elem.value.as_array()) {
                ("$expr", _) => self.element(elem, out),
                (name @ ("$and" | "$or" | "$nor"), Some(parts)) => {
                    let mut nested = out.array(name);
                    for part in parts {
                        match part.value.as_doc() {
                            Some(part) => {
                                let mut filter = nested.doc();
                                self.filter(part, &mut filter);
                                filter.end();
                            }
                            None => {
                                nested.push(part.value);
                            }
                        }
                    }
                    nested.end();
                }
                (name, _) => {
                    out.put(name, elem.value);
                }
            }
        }
    }

    fn document(&self, doc: Doc<'_>, out: &mut DocBuilder<'_>) {
        for elem in doc {
            self.element(elem, out);
        }
    }

    fn element(&self, elem: Elem<'_>, out: &mut DocBuilder<'_>) {
        let name = elem.name();
        match elem.value.ty() {
            _ if name == "$literal" || name == "$elemMatch" => {
                out.put(name, elem.value);
            }
            Type::Document => {
                let mut nested = out.doc(name);
                self.document(Doc::new(elem.value.data()), &mut nested);
                nested.end();
            }
            Type::Array => {
                let mut nested = out.array(name);
                self.array(Doc::new(elem.value.data()), &mut nested);
                nested.end();
            }
            _ => {
                out.put(name, self.value(elem.value).as_ref());
            }
        }
    }

    /// Writes the elements of an array.
    pub fn array(&self, array: Doc<'_>, out: &mut ArrayBuilder<'_>) {
        for elem in array {
            match elem.value.ty() {
                Type::Document => {
                    let mut nested = out.doc();
                    self.document(Doc::new(elem.value.data()), &mut nested);
                    nested.end();
                }
                Type::Array => {
                    let mut nested = out.array();
                    self.array(Doc::new(elem.value.data()), &mut nested);
                    nested.end();
                }
                _ => {
                    out.push(self.value(elem.value).as_ref());
                }
            }
        }
    }

    fn value(&self, value: ValueRef<'_>) -> Value {
        match value.as_str() {
            Some(text) if self.variables.contains(&text) => self.cut(value),
            _ => value.to_value(),
        }
    }

    /// Returns `{$unsetField: {field, input}}` for each hidden field, one around the other.
    fn cut(&self, variable: ValueRef<'_>) -> Value {
        let mut input = variable.to_value();
        for field in self.hidden {
            let cut = DocBuf::build(|call| {
                let mut args = call.doc("$unsetField");
                args.put_str("field", field).put("input", input.as_ref());
                args.end();
            });
            input = Value::document(cut.into_bytes());
        }
        input
    }
}

/// Returns whether some `$getField` has a computed name.
fn contains_computed(value: ValueRef<'_>) -> bool {
    let doc = match value.ty() {
        Type::Document | Type::Array => Doc::new(value.data()),
        _ => return false,
    };
    doc.iter()
        .any(|elem| computes_name(elem.name(), elem.value) || contains_computed(elem.value))
}

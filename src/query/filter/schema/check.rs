//! Tests whether a value satisfies a [`Schema`].

use super::{Additional, Dependency, Items, Schema};
use crate::interrupt;
use crate::value::{Doc, Type, ValueRef, key};

// === impl Schema ===

impl Schema {
    /// Returns whether the value satisfies the schema. If the command is interrupted, the answer is arbitrary, because every
    /// part counts work and returns `false` from then on.
    pub(in crate::query::filter) fn matches(&self, value: ValueRef<'_>) -> bool {
        if interrupt::tick(1).is_err() {
            return false;
        }
        if self.types.is_some_and(|types| !types.has(value.ty())) {
            return false;
        }
        let own_type = match value.ty() {
            Type::Document => self.document(Doc::new(value.data())),
            Type::Array => self.array(Doc::new(value.data())),
            Type::String => self.string(value),
            ty if ty.is_number() => self.number(value),
            _ => true,
        };
        own_type && self.logic(value)
    }

    fn logic(&self, value: ValueRef<'_>) -> bool {
        self.all_of.iter().all(|schema| schema.matches(value))
            && (self.any_of.is_empty() || self.any_of.iter().any(|schema| schema.matches(value)))
            && (self.one_of.is_empty()
                || self
                    .one_of
                    .iter()
                    .filter(|schema| schema.matches(value))
                    .count()
                    == 1)
            && self
                .not
                .as_ref()
                .is_none_or(|schema| !schema.matches(value))
            && self
                .values
                .as_ref()
                .is_none_or(|values| values.contains(&canonical(value)))
    }

    fn number(&self, value: ValueRef<'_>) -> bool {
        self.maximum
            .as_ref()
            .is_none_or(|bound| bound.passes(value))
            && self
                .minimum
                .as_ref()
                .is_none_or(|bound| bound.passes(value))
            && self.multiple_of.is_none_or(|divisor| {
                value
                    .as_num()
                    .is_some_and(|num| num.is_finite() && num.to_decimal().rem(divisor).is_zero())
            })
    }

    fn string(&self, value: ValueRef<'_>) -> bool {
        let Some(text) = value.text_bytes() else {
            return true;
        };
        if self.max_length.is_some() || self.min_length.is_some() {
            // Counts code points: every byte that does not continue one.
            let length = text.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as i64;
            if !within(length, self.min_length, self.max_length) {
                return false;
            }
        }
        self.pattern
            .as_ref()
            .is_none_or(|pattern| pattern.is_found_in(text))
    }

    fn array(&self, array: Doc<'_>) -> bool {
        if (self.min_items.is_some() || self.max_items.is_some())
            && !within(array.count() as i64, self.min_items, self.max_items)
        {
            return false;
        }
        let named = match &self.items {
            None => return self.unique(array),
            Some(Items::Every(schema)) => {
                return array.iter().all(|elem| schema.matches(elem.value)) && self.unique(array);
            }
            Some(Items::ByIndex(schemas)) => schemas,
        };
        array
            .iter()
            .enumerate()
            .all(|(index, elem)| match named.get(index) {
                Some(schema) => schema.matches(elem.value),
                None => allows(self.additional_items.as_ref(), elem.value),
            })
            && self.unique(array)
    }

    fn unique(&self, array: Doc<'_>) -> bool {
        if !self.unique_items {
            return true;
        }
        let mut keys: Vec<Vec<u8>> = array
            .iter()
            .take_while(|_| interrupt::tick(1).is_ok())
            .map(|elem| canonical(elem.value))
            .collect();
        keys.sort_unstable();
        !keys.windows(2).any(|pair| pair[0] == pair[1])
    }

    fn document(&self, doc: Doc<'_>) -> bool {
        if (self.min_properties.is_some() || self.max_properties.is_some())
            && !within(doc.count() as i64, self.min_properties, self.max_properties)
        {
            return false;
        }
        // Each lookup of a name walks the document.
        let has = |name: &str| {
            interrupt::tick_read(doc.bytes().len()).is_ok() && doc.has(name.as_bytes())
        };
        self.required.iter().all(|name| has(name))
            && doc.iter().all(|elem| {
                self.property(elem.name_bytes())
                    .is_none_or(|schema| schema.matches(elem.value))
            })
            && self.others(doc)
            && self.dependencies.iter().all(|(name, dependency)| {
                !has(name)
                    || match dependency {
                        Dependency::Present(names) => names.iter().all(|name| has(name)),
                        Dependency::Schema(schema) => schema.matches(ValueRef::document(doc)),
                    }
            })
    }

    fn property(&self, name: &[u8]) -> Option<&Schema> {
        let at = self
            .properties
            .binary_search_by(|(known, _)| known.as_bytes().cmp(name))
            .ok()?;
        self.properties.get(at).map(|(_, schema)| schema)
    }

    /// Checks `patternProperties` and `additionalProperties`.
    fn others(&self, doc: Doc<'_>) -> bool {
        if self.pattern_properties.is_empty() && self.additional_properties.is_none() {
            return true;
        }
        doc.iter().all(|elem| {
            let mut named = self.property(elem.name_bytes()).is_some();
            for (pattern, schema) in &self.pattern_properties {
                if pattern.is_found_in(elem.name_bytes()) {
                    if !schema.matches(elem.value) {
                        return false;
                    }
                    named = true;
                }
            }
            named || allows(self.additional_properties.as_ref(), elem.value)
        })
    }
}

fn allows(additional: Option<&Additional>, value: ValueRef<'_>) -> bool {
    match additional {
        None => true,
        Some(Additional::Allowed(allowed)) => *allowed,
        Some(Additional::Schema(schema)) => schema.matches(value),
    }
}

fn within(number: i64, min: Option<i64>, max: Option<i64>) -> bool {
    min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)
}

/// Returns bytes that are equal exactly for values that schemas treat as equal: the order of a document's fields does not
/// matter.
pub(super) fn canonical(value: ValueRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

fn write(value: ValueRef<'_>, out: &mut Vec<u8>) {
    match value.ty() {
        Type::Document => {
            let mut fields: Vec<_> = Doc::new(value.data()).iter().collect();
            fields.sort_by_key(|elem| elem.name_bytes());
            out.push(Type::Document.tag());
            for elem in fields {
                out.extend_from_slice(elem.name_bytes());
                out.push(0);
                write(elem.value, out);
            }
            out.push(0);
        }
        Type::Array => {
            out.push(Type::Array.tag());
            for elem in Doc::new(value.data()) {
                write(elem.value, out);
            }
            out.push(0);
        }
        _ => key::encode(value, false, out),
    }
}

//! Whether a value satisfies a [`Schema`].

use super::{Additional, Dependency, Items, Schema};
use crate::value::{self, Doc, Type, ValueRef};

// === impl Schema ===

impl Schema {
    pub(in crate::query::filter) fn matches(&self, value: ValueRef<'_>) -> bool {
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
                .is_none_or(|values| values.iter().any(|known| same(known.as_ref(), value)))
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
            // Code points: every byte that does not continue one.
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
        // Sorting brings equals together, but only for values whose field order does not matter; documents are compared pairwise.
        let mut plain: Vec<ValueRef<'_>> = Vec::new();
        let mut nested: Vec<ValueRef<'_>> = Vec::new();
        for elem in array {
            match elem.value.ty() {
                Type::Document | Type::Array => nested.push(elem.value),
                _ => plain.push(elem.value),
            }
        }
        plain.sort_by(|a, b| value::compare(*a, *b));
        !plain.windows(2).any(|pair| value::equal(pair[0], pair[1]))
            && !nested
                .iter()
                .enumerate()
                .any(|(at, a)| nested.iter().skip(at + 1).any(|b| same(*a, *b)))
    }

    fn document(&self, doc: Doc<'_>) -> bool {
        if (self.min_properties.is_some() || self.max_properties.is_some())
            && !within(doc.count() as i64, self.min_properties, self.max_properties)
        {
            return false;
        }
        self.required.iter().all(|name| doc.has(name.as_bytes()))
            && self.properties.iter().all(|(name, schema)| {
                let value = doc.get(name.as_bytes());
                value.is_missing() || schema.matches(value)
            })
            && self.others(doc)
            && self.dependencies.iter().all(|(name, dependency)| {
                !doc.has(name.as_bytes())
                    || match dependency {
                        Dependency::Present(names) => {
                            names.iter().all(|name| doc.has(name.as_bytes()))
                        }
                        Dependency::Schema(schema) => schema.matches(ValueRef::document(doc)),
                    }
            })
    }

    /// `patternProperties` and `additionalProperties`.
    fn others(&self, doc: Doc<'_>) -> bool {
        if self.pattern_properties.is_empty() && self.additional_properties.is_none() {
            return true;
        }
        doc.iter().all(|elem| {
            let mut named = self
                .properties
                .iter()
                .any(|(name, _)| name.as_bytes() == elem.name_bytes());
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

/// Equality as schemas have it: the order of a document's fields does not matter.
pub(super) fn same(a: ValueRef<'_>, b: ValueRef<'_>) -> bool {
    match (a.ty(), b.ty()) {
        (Type::Document, Type::Document) => {
            let (a, b) = (Doc::new(a.data()), Doc::new(b.data()));
            a.count() == b.count()
                && a.iter()
                    .all(|elem| same(elem.value, b.get(elem.name_bytes())))
        }
        (Type::Array, Type::Array) => {
            let (a, b) = (Doc::new(a.data()), Doc::new(b.data()));
            a.count() == b.count() && a.iter().zip(b.iter()).all(|(x, y)| same(x.value, y.value))
        }
        (Type::Missing, _) | (_, Type::Missing) => false,
        _ => value::equal(a, b),
    }
}

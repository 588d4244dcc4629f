//! BSON: types, values, documents as bytes, order, numbers, paths and keys.
//!
//! A document is its BSON bytes ([`Doc`]). A value is a type and its bytes ([`ValueRef`] borrowed, [`Value`] owned, [`Val`]
//! either). Nothing is decoded before it is needed. [`validate()`] checks bytes once, when they arrive. After that, every
//! reader here still stays within bounds and stops at bytes that it cannot read, so no byte sequence can make it panic.
//! This module knows no query, no collection and no clock.

mod build;
mod compare;
mod decimal;
pub mod display;
mod doc;
pub mod key;
mod number;
mod owned;
mod patch;
pub mod path;
mod reference;
mod size;
mod time;
mod truth;
mod types;
mod validate;

pub use build::{ArrayBuilder, DocBuf, DocBuilder, put_index};
pub use compare::{compare, compare_docs, equal};
pub use decimal::{Decimal, DecimalError, Rounding};
pub use doc::{Doc, Elem, Iter};
pub use number::Num;
pub use owned::{Val, Value};
pub use patch::Patch;
pub use path::{ArrayLeaf, ArrayParts, Hit, Keys, MultikeyPaths, Path, keys};
pub use reference::ValueRef;
pub use size::{MAX_DOCUMENT, MAX_INTERNAL_DOCUMENT, check_computed, check_size, too_large};
pub use time::{ClusterTime, Millis, TS_FIELD};
pub use truth::is_true;
pub use types::{Type, UUID_SUBTYPE};
pub use validate::{Invalid, Limits, ValidationError, validate};

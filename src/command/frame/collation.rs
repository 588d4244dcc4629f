//! Checks a collation. Only the simple one, the order of bytes, is supported.

use crate::args::Arg;
use crate::error::{Error, Result};
use crate::value::{Doc, Type};

const OPTIONS: [&str; 10] = [
    "locale",
    "caseLevel",
    "caseFirst",
    "strength",
    "numericOrdering",
    "alternate",
    "maxVariable",
    "normalization",
    "backwards",
    "version",
];

/// The languages for which MongoDB has a collation, sorted. A region, a script or keywords may follow.
#[rustfmt::skip]
const LANGUAGES: &[&str] = &[
    "af", "am", "ar", "as", "az", "be", "bg", "bn", "bo", "bs", "ca", "chr", "cs", "cy", "da", "de", "dsb", "dz", "ee",
    "el", "en", "eo", "es", "et", "fa", "fi", "fil", "fo", "fr", "ga", "gl", "gu", "ha", "haw", "he", "hi", "hr", "hsb",
    "hu", "hy", "id", "ig", "is", "it", "ja", "ka", "kk", "kl", "km", "kn", "ko", "kok", "ky", "lb", "lkt", "ln", "lo",
    "lt", "lv", "mk", "ml", "mn", "mr", "ms", "mt", "my", "nb", "ne", "nl", "nn", "om", "or", "pa", "pl", "ps", "pt",
    "ro", "ru", "se", "si", "sk", "sl", "smn", "sq", "sr", "sv", "sw", "ta", "te", "th", "to", "tr", "ug", "uk", "ur",
    "vi", "wae", "yi", "yo", "zh", "zu",
];

/// Reads the option `collation` of a command.
pub fn read(arg: &Arg<'_>) -> Result<()> {
    match arg.doc()? {
        None => Ok(()),
        Some(spec) if spec.is_empty() || check(spec)? => Ok(()),
        Some(_) => Err(Error::not_implemented("collation")),
    }
}

/// Checks a collation. Returns `Ok(true)` for the simple collation, which is the same as no collation.
pub fn check(collation: Doc<'_>) -> Result<bool> {
    for option in crate::args::fields("collation", collation) {
        if !OPTIONS.contains(&option.name()) {
            return Err(option.unknown());
        }
    }
    let locale = collation.get("locale");
    if locale.is_nullish() {
        return Err(Error::missing_field("collation", "locale"));
    }
    let Some(name) = locale.as_str() else {
        return Err(Error::wrong_type(
            "collation",
            "locale",
            locale.ty(),
            &[Type::String],
        ));
    };
    if name == "simple" {
        return Ok(true);
    }
    let language = name.split(['_', '@']).next().unwrap_or_default();
    match LANGUAGES.binary_search(&language) {
        Ok(_) => Ok(false),
        Err(_) => Err(Error::bad_value(format!(
            "Field 'locale' is invalid in: {collation}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::LANGUAGES;

    #[test]
    fn sorted() {
        assert!(LANGUAGES.is_sorted());
    }
}

//! Dates as text, read as mongod reads them.
//!
//! mongod leaves this to timelib, the library of PHP's dates. It cuts a text into tokens ([`grammar`] is the table of their
//! forms), and each token sets some parts of a time ([`steps`], [`token`]). Weekdays, `+1 day` and the like move the date
//! that the other tokens give ([`relative`]). [`formatted`] reads a text by a format. Error texts are timelib's own.

mod abbreviations;
mod formatted;
mod grammar;
mod parsed_time;
mod relative;
mod steps;
mod token;

use super::zone::Zone;
use crate::error::{Code, Error, Result};

/// Reads a date in any form that the grammar knows.
pub fn date(text: &str) -> Result<i64> {
    read(text, None, &Zone::UTC)
}

/// Reads a date, in a format if there is one. A text that tells its own zone goes only with UTC.
pub fn read(text: &str, format: Option<&str>, zone: &Zone) -> Result<i64> {
    let parsed = match format {
        Some(format) => formatted::read(text, format),
        None => steps::read(text),
    };
    parsed.complete(text)?.moment(zone)
}

fn failure(message: impl Into<String>) -> Error {
    Error::new(Code::ConversionFailure, message)
}

#[cfg(test)]
mod tests {
    use super::super::civil::iso_string;
    use super::*;

    /// The answers of mongod 6.0.5, except where a comment says otherwise.
    #[test]
    fn texts() {
        for (text, expected) in [
            ("2017-02-08T12:10:40.787Z", "2017-02-08T12:10:40.787Z"),
            ("2017-02-08T12:10:40", "2017-02-08T12:10:40.000Z"),
            ("2017-02-08 12:10", "2017-02-08T12:10:00.000Z"),
            ("2017-02-08", "2017-02-08T00:00:00.000Z"),
            ("20170208", "2017-02-08T00:00:00.000Z"),
            ("20170208T121040Z", "2017-02-08T12:10:40.000Z"),
            ("2017-02-08T12:10:40+0530", "2017-02-08T06:40:40.000Z"),
            ("2017-W06-3", "2017-02-08T00:00:00.000Z"),
            ("2017W063", "2017-02-08T00:00:00.000Z"),
            ("8 February 2017", "2017-02-08T00:00:00.000Z"),
            ("Feb 8, 2017 5:10 pm", "2017-02-08T17:10:00.000Z"),
            ("Wed, 08 Feb 2017 12:10:40 GMT", "2017-02-08T12:10:40.000Z"),
            (
                "Wed Jan 01 2020 10:00:00 GMT+0200",
                "2020-01-01T08:00:00.000Z",
            ),
            ("01-02-2020", "2020-02-01T00:00:00.000Z"),
            ("01.02.2020", "2020-02-01T00:00:00.000Z"),
            ("12/31/99", "1999-12-31T00:00:00.000Z"),
            ("2020-Jan-01", "2020-01-01T00:00:00.000Z"),
            ("July 4th, 2017", "2017-07-04T00:00:00.000Z"),
            ("Feb 2020", "2020-02-01T00:00:00.000Z"),
            ("10:00 2020-01-01", "2020-01-01T10:00:00.000Z"),
            ("@1577836800", "2020-01-01T00:00:00.000Z"),
            ("@1577836800.5", "2020-01-01T00:00:00.500Z"),
            // 2020-01-01 was a Wednesday.
            ("Thu Jan 01 2020", "2020-01-02T00:00:00.000Z"),
            ("2020-01-01 +1 day", "2020-01-02T00:00:00.000Z"),
            ("2020-01-01 last friday of", "2020-01-31T00:00:00.000Z"),
            ("2020-01-01 10:00:00 cest", "2020-01-01T08:00:00.000Z"),
            ("2020-01-01 back of 7pm", "2020-01-01T19:15:00.000Z"),
            ("1969-12-31T23:59:59.9995Z", "1970-01-01T00:00:00.000Z"),
            // In 6.0.5 10:29:59.900: both take the mark of a missing fraction for a number, which is -9999999 in 8.2.
            ("2020-01-01 1030", "2020-01-01T10:29:50.000Z"),
            // Since timelib 2022.08, which is newer than 6.0.5.
            ("2020-01-01\u{a0}10:30", "2020-01-01T10:30:00.000Z"),
            ("2020-01-01 +-1 day", "2019-12-31T00:00:00.000Z"),
        ] {
            let found = date(text).map(iso_string);
            assert_eq!(found.as_deref().ok(), Some(expected), "{text}: {found:?}");
        }
    }

    #[test]
    fn refusals() {
        for (text, expected) in [
            ("", "Error parsing date string ''; 0: Empty string '\0'"),
            (
                "2017-039",
                "Error parsing date string '2017-039'; 9: The parsed date was invalid '\0'",
            ),
            (
                "2020-01-01T24:00:00Z",
                "Error parsing date string '2020-01-01T24:00:00Z'; 21: The parsed time was invalid '\0'",
            ),
            (
                "2020-01-01T10:00:00,1Z",
                "Error parsing date string '2020-01-01T10:00:00,1Z'; 20: Unexpected character '1'",
            ),
            (
                "2020-01-01T10:00:00 Europe/London",
                "Error parsing date string '2020-01-01T10:00:00 Europe/London'; 20: passing a time zone identifier as part of \
                 the string is not allowed 'E'",
            ),
            (
                "2020-01-01 10:00:00 CEST (x)",
                "Error parsing date string '2020-01-01 10:00:00 CEST (x)'; 25: Double timezone specification '('",
            ),
            (
                "2017",
                "an incomplete date/time string has been found, with elements missing: \"2017\"",
            ),
            (
                "yesterday",
                "an incomplete date/time string has been found, with elements missing: \"yesterday\"",
            ),
        ] {
            let error = date(text).expect_err(text);
            assert_eq!(error.message(), expected);
        }
        let overflow = date("+999999-01-01").expect_err("too late");
        assert_eq!(overflow.code(), Code::DurationOverflow);
    }
}

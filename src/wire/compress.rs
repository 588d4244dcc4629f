//! The three network compressors. An inflated message must have exactly the announced size, and the server allocates
//! nothing for a size that the compressed bytes cannot reach.

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// One of MongoDB's network compressors. The numbers are those of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressor {
    Snappy = 1,
    Zlib = 2,
    Zstd = 3,
}

/// The set of compressors that a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compressors(u8);

/// The compressors with their names, and the largest number of bytes that one compressed byte can become: in snappy three
/// bytes are a copy of 64, deflate reaches 1032, and in zstd four bytes are a whole block of one repeated byte.
const COMPRESSORS: &[(Compressor, &str, usize)] = &[
    (Compressor::Snappy, "snappy", 22),
    (Compressor::Zstd, "zstd", 32 * 1024),
    (Compressor::Zlib, "zlib", 1040),
];

/// MongoDB's compression levels.
const ZLIB_LEVEL: Compression = Compression::new(6);
const ZSTD_LEVEL: i32 = 3;

/// The state of the compression libraries. Each thread creates it at first use and keeps it for its next message, because
/// creating it costs more than inflating a small message.
#[derive(Default)]
struct Tools {
    snap: Option<snap::raw::Encoder>,
    deflate: Option<Compress>,
    inflate: Option<Decompress>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    unzstd: Option<zstd::bulk::Decompressor<'static>>,
}

thread_local! {
    static TOOLS: RefCell<Tools> = RefCell::default();
}

// === impl Compressor ===

impl Compressor {
    pub fn name(self) -> &'static str {
        self.row().1
    }

    pub(super) fn by_id(id: u8) -> Option<Self> {
        let row = COMPRESSORS.iter().find(|row| row.0 as u8 == id);
        row.map(|row| row.0)
    }

    fn row(self) -> &'static (Self, &'static str, usize) {
        COMPRESSORS
            .iter()
            .find(|row| row.0 == self)
            .expect("every compressor has its row")
    }

    /// Returns whether that many compressed bytes can become `size` bytes. The caller checks this before it allocates
    /// memory.
    pub(super) fn can_become(self, compressed: usize, size: usize) -> bool {
        size <= compressed.saturating_mul(self.row().2)
    }

    /// Inflates into the given room, which must be filled exactly. Returns `None` if the bytes are damaged, too many or too
    /// few.
    pub(super) fn inflate(self, bytes: &[u8], room: &mut [u8]) -> Option<()> {
        let size = room.len();
        let inflated = TOOLS.with_borrow_mut(|tools| match self {
            Self::Snappy => {
                if snap::raw::decompress_len(bytes).ok()? != size {
                    return None;
                }
                snap::raw::Decoder::new().decompress(bytes, room).ok()
            }
            Self::Zlib => {
                let inflate = tools.inflate.get_or_insert_with(|| Decompress::new(true));
                inflate.reset(true);
                let status = inflate.decompress(bytes, room, FlushDecompress::Finish);
                let whole = matches!(status, Ok(Status::StreamEnd))
                    && inflate.total_in() == bytes.len() as u64;
                whole.then(|| inflate.total_out() as usize)
            }
            Self::Zstd => {
                if tools.unzstd.is_none() {
                    tools.unzstd = Some(zstd::bulk::Decompressor::new().ok()?);
                }
                let unzstd = tools.unzstd.as_mut()?;
                unzstd.decompress_to_buffer(bytes, room).ok()
            }
        });
        inflated.filter(|inflated| *inflated == size).map(|_| ())
    }

    /// Compresses the bytes. Returns `None` if that does not make them fewer.
    pub(super) fn deflate(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let smaller = TOOLS.with_borrow_mut(|tools| match self {
            Self::Snappy => {
                let snap = tools.snap.get_or_insert_with(snap::raw::Encoder::new);
                snap.compress_vec(bytes).ok()
            }
            Self::Zlib => {
                let deflate = tools
                    .deflate
                    .get_or_insert_with(|| Compress::new(ZLIB_LEVEL, true));
                deflate.reset();
                let mut out = Vec::with_capacity(bytes.len());
                let status = deflate.compress_vec(bytes, &mut out, FlushCompress::Finish);
                matches!(status, Ok(Status::StreamEnd)).then_some(out)
            }
            Self::Zstd => {
                if tools.zstd.is_none() {
                    tools.zstd = Some(zstd::bulk::Compressor::new(ZSTD_LEVEL).ok()?);
                }
                let mut out = Vec::with_capacity(bytes.len());
                let zstd = tools.zstd.as_mut()?;
                zstd.compress_to_buffer(bytes, &mut out).ok()?;
                Some(out)
            }
        });
        smaller.filter(|smaller| smaller.len() < bytes.len())
    }
}

// === impl Compressors ===

impl Compressors {
    pub const NONE: Self = Self(0);
    /// MongoDB's default.
    pub const ALL: Self = Self(
        1 << Compressor::Snappy as u8 | 1 << Compressor::Zlib as u8 | 1 << Compressor::Zstd as u8,
    );

    pub fn has(self, compressor: Compressor) -> bool {
        self.0 & 1 << compressor as u8 != 0
    }

    /// Returns the compressor with this name, if it is offered.
    pub fn get(self, name: &str) -> Option<Compressor> {
        self.iter().find(|compressor| compressor.name() == name)
    }

    pub fn iter(self) -> impl Iterator<Item = Compressor> {
        let all = COMPRESSORS.iter().map(|row| row.0);
        all.filter(move |compressor| self.has(*compressor))
    }
}

impl FromStr for Compressors {
    type Err = String;

    /// Parses names separated by commas, or `disabled`. An empty text means the default: compose files pass unset variables
    /// as empty ones.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => return Ok(Self::ALL),
            "disabled" => return Ok(Self::NONE),
            _ => {}
        }
        text.split(',').try_fold(Self::NONE, |set, name| {
            let compressor = Self::ALL
                .get(name.trim())
                .ok_or_else(|| format!("{name:?} is none of {}, disabled", Self::ALL))?;
            Ok(Self(set.0 | 1 << compressor as u8))
        })
    }
}

impl fmt::Display for Compressors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return f.write_str("disabled");
        }
        let names: Vec<_> = self.iter().map(Compressor::name).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_small_becomes_what_it_was() {
        let text = b"sundown ".repeat(2_000);
        for compressor in Compressors::ALL.iter() {
            for length in [100, 1_000, 16_000] {
                let small = compressor.deflate(&text[..length]).unwrap();
                assert!(small.len() < length, "{compressor:?}");
                assert!(compressor.can_become(small.len(), length));
                let mut room = vec![0; length];
                assert_eq!(compressor.inflate(&small, &mut room), Some(()));
                assert_eq!(room, text[..length], "{compressor:?}");
            }
        }
    }

    #[test]
    fn what_is_not_exactly_as_announced_is_nothing() {
        let text = b"sundown ".repeat(100);
        for compressor in Compressors::ALL.iter() {
            let small = compressor.deflate(&text).unwrap();
            for size in [0, 1, 799, 801, 10_000] {
                let inflated = compressor.inflate(&small, &mut vec![0; size]);
                assert_eq!(inflated, None, "{compressor:?} {size}");
            }
            let mut longer = small.clone();
            longer.push(0);
            for damaged in [&small[..small.len() - 1], &small[1..], &longer, &[]] {
                let inflated = compressor.inflate(damaged, &mut [0; 800]);
                assert_eq!(inflated, None, "{compressor:?}");
            }
            // The libraries still work after an error.
            let mut room = [0; 800];
            assert_eq!(compressor.inflate(&small, &mut room), Some(()));
        }
    }

    #[test]
    fn the_most_that_a_byte_becomes_is_not_too_little() {
        for size in [1_000, 100_000, 10_000_000] {
            let zeros = vec![0; size];
            for compressor in Compressors::ALL.iter() {
                let small = compressor.deflate(&zeros).unwrap();
                assert!(compressor.can_become(small.len(), size), "{compressor:?}");
            }
        }
    }

    #[test]
    fn what_does_not_become_smaller_stays() {
        let noise: Vec<u8> = (0..64u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        for compressor in Compressors::ALL.iter() {
            assert_eq!(compressor.deflate(&noise), None, "{compressor:?}");
            assert_eq!(compressor.deflate(b""), None, "{compressor:?}");
        }
    }

    #[test]
    fn sets_are_written_as_names() {
        for (text, shown) in [
            ("", "snappy,zstd,zlib"),
            ("zlib,snappy", "snappy,zlib"),
            ("zstd, zstd", "zstd"),
            ("disabled", "disabled"),
        ] {
            let set: Compressors = text.parse().unwrap();
            assert_eq!(set.to_string(), shown);
            assert_eq!(shown.parse(), Ok(set));
        }
        for text in ["lz4", "snappy,", "disabled,zlib", "Snappy"] {
            assert!(text.parse::<Compressors>().is_err(), "{text}");
        }
    }
}

//! Columns of numbers as byte planes (all lowest bytes first, then the next, ...), compressed by deflate without a header: bytes of one
//! significance resemble each other, so that a span takes about four bytes.

use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde::Serialize;
use std::io::Write;

/// Level of compression; higher levels take longer and save little.
const LEVEL: u32 = 5;
/// Bytes given to the compressor at a time.
const PIECE: usize = 1 << 16;

/// A column, as the header lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Plane {
    /// Its name: `span.start`.
    name: &'static str,
    /// The type of its values, little endian.
    #[serde(rename = "type")]
    of: &'static str,
    /// Number of values.
    count: usize,
}

/// Columns being written, in the order of the header.
pub(super) struct Planes {
    listed: Vec<Plane>,
    encoder: DeflateEncoder<Vec<u8>>,
}

/// The type of values of `bytes` bytes.
const fn type_of(bytes: usize) -> &'static str {
    match bytes {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        _ => "f64",
    }
}

impl Planes {
    /// Returns no columns.
    pub(super) fn new() -> Planes {
        Planes { listed: Vec::new(), encoder: DeflateEncoder::new(Vec::new(), Compression::new(LEVEL)) }
    }

    /// Adds a column: the value of each row, as its bytes from the lowest to the highest.
    pub(super) fn add<R, const BYTES: usize>(&mut self, name: &'static str, rows: &[R], value: impl Fn(&R) -> [u8; BYTES]) {
        self.listed.push(Plane { name, of: type_of(BYTES), count: rows.len() });
        let values: Vec<[u8; BYTES]> = rows.iter().map(value).collect();
        let mut piece = Vec::with_capacity(PIECE.min(rows.len()));
        for byte in 0..BYTES {
            for values in values.chunks(PIECE) {
                piece.clear();
                piece.extend(values.iter().map(|value| value[byte]));
                self.encoder.write_all(&piece).expect("writing to memory");
            }
        }
    }

    /// Adds a column of bytes that are there already.
    pub(super) fn add_bytes<'a>(&mut self, name: &'static str, parts: impl Iterator<Item = &'a [u8]>) {
        let mut count = 0;
        for part in parts {
            count += part.len();
            self.encoder.write_all(part).expect("writing to memory");
        }
        self.listed.push(Plane { name, of: type_of(1), count });
    }

    /// Returns the list of the columns, and the compressed data.
    pub(super) fn finish(self) -> (Vec<Plane>, Vec<u8>) {
        (self.listed, self.encoder.finish().expect("writing to memory"))
    }
}

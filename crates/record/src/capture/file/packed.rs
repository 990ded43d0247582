//! Decompresses captures while reading, in bounded memory and with a bounded ratio.

use parking_lot::Mutex;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_base::numbers::size;

/// Output below which the ratio is not checked.
const ANY_RATIO_BYTES: u64 = 64 << 20;

/// Maximum ratio: each packet has its own header, so captures do not compress further. Beyond it the file was made to
/// waste the reader's time.
const MOST_RATIO: u64 = 250;

/// Absolute maximum of decompressed bytes.
const MOST_BYTES: u64 = 1 << 40;

/// Maximum zstd window kept in memory: 128 MiB.
const ZSTD_WINDOW_LOG: u32 = 27;

/// The compression format, from the file's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// Recognises the format of a file that begins with `head`.
    pub(super) fn of(head: &[u8]) -> Option<Packing> {
        match head {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
            _ => None,
        }
    }
}

/// Why decompression stopped early.
pub(super) type Failure = Arc<Mutex<Option<String>>>;

/// Counts bytes read from the compressed file.
struct Counted {
    from: Box<dyn Read + Send>,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(out)?;
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The decompressed file. It ends where decompression fails; the reason is kept separately, since the preceding data
/// is used.
struct Unpacked {
    from: Box<dyn Read + Send>,
    packed_bytes: Arc<AtomicU64>,
    bytes: u64,
    ended: Failure,
}

impl Unpacked {
    fn end(&mut self, why: String) -> io::Result<usize> {
        self.ended.lock().get_or_insert(format!("{why}; the packets before it are used"));
        Ok(0)
    }
}

impl Read for Unpacked {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.ended.lock().is_some() {
            return Ok(0);
        }
        let packed = self.packed_bytes.load(Ordering::Relaxed);
        if self.bytes >= MOST_BYTES || (self.bytes > ANY_RATIO_BYTES && self.bytes / MOST_RATIO > packed) {
            let (unpacked, packed) = (size(self.bytes), size(packed));
            return self.end(format!("unpacks to more than packets can: {unpacked} from {packed}"));
        }
        match self.from.read(out) {
            Ok(count) => {
                self.bytes += count as u64;
                Ok(count)
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Err(e),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => self.end("ends in the middle of its compressed data".to_owned()),
            Err(e) => self.end(format!("cannot be decompressed further ({e})")),
        }
    }
}

/// Returns the decompressed file, and why it ends early.
pub(super) fn unpacked(packing: Packing, from: Box<dyn Read + Send>) -> io::Result<(Box<dyn Read + Send>, Failure)> {
    let (packed_bytes, ended) = (Arc::new(AtomicU64::new(0)), Failure::default());
    let counted = Counted { from, bytes: Arc::clone(&packed_bytes) };
    let from: Box<dyn Read + Send> = match packing {
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(counted)),
        Packing::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(counted)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
    };
    Ok((Box::new(Unpacked { from, packed_bytes, bytes: 0, ended: Arc::clone(&ended) }), ended))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Decompresses a file; returns its size and why it ended.
    fn unpack(packing: Packing, packed: Vec<u8>) -> (u64, Option<String>) {
        let (mut from, ended) = unpacked(packing, Box::new(io::Cursor::new(packed))).expect("a reader");
        let bytes = io::copy(&mut from, &mut io::sink()).expect("bytes");
        let why = ended.lock().clone();
        (bytes, why)
    }

    fn gzip(parts: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        parts.for_each(|part| to.write_all(&part).expect("memory"));
        to.finish().expect("memory")
    }

    #[test]
    fn what_was_made_to_take_up_time_is_left_where_packets_would_be_packed_less() {
        let bomb = gzip((0..300).map(|_| vec![0; 1 << 20]));
        let (bytes, why) = unpack(Packing::Gzip, bomb);
        assert!(bytes < 80 << 20, "{bytes}");
        assert!(why.expect("a reason").contains("more than packets can"));
        let bomb = zstd::stream::encode_all(io::repeat(0).take(300 << 20), 1).expect("memory");
        let (bytes, why) = unpack(Packing::Zstd, bomb);
        assert!(bytes < 80 << 20 && why.is_some(), "{bytes}");
    }

    #[test]
    fn a_packed_file_that_was_cut_gives_what_stands_before() {
        let mut number = 1_u64;
        let mut noise = || -> Vec<u8> {
            let next = |n: &mut u64| {
                *n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (*n >> 56) as u8
            };
            (0..50_000).map(|_| next(&mut number)).collect()
        };
        let mut whole = gzip((0..4).map(|_| noise()));
        assert_eq!(unpack(Packing::Gzip, whole.clone()), (200_000, None));
        whole.truncate(whole.len() / 2);
        let (bytes, why) = unpack(Packing::Gzip, whole);
        assert!(bytes > 50_000 && why.expect("a reason").contains("in the middle of its compressed data"), "{bytes}");
    }
}

//! `varstrip_dist`: a list of strips, each with its own datafile and size, repeated indefinitely.
//!
//! The text is parsed once into a table of strips with prefix sums, within the cycle and on their datafile:
//!
//! ```text
//! 0:2K;1:1K;2:4K;0:1K      strip        0      1      2      3
//!                          start        0   2048   3072   7168      a cycle has 8192 bytes
//!                          rank         0      0      0   2048      datafile 0 has 3072 of them
//! ```
//!
//! An offset is divided by the cycle; the remainder selects the strip. A plain binary search over a thousand strips costs ten
//! unpredictable steps, so the cycle is also cut into equal *blocks*, about two per strip, each of which stores the strip in
//! which it begins: a search covers only the strips within one block. Strips of very different sizes crowd into few blocks; the
//! search within a block is binary, so that this is never worse than without blocks.
//!
//! The strips of each datafile are listed once more, in order, for the inverse mapping and for ranks.

use std::sync::Arc;

use crate::divisor::Divisor;
use crate::error::shortened;
use crate::limits::MAX_STRIPS;
use crate::spec::{Arguments, ParameterInfo, ParameterType};
use crate::{Distribution, Kind, LayoutError, MAX_OFFSET, Piece};

/// Description for the registry.
pub(super) const KIND: Kind = Kind {
    name: "varstrip_dist",
    summary: "a repeated list of strips, each with its own datafile and size",
    parameters: &[ParameterInfo {
        name: "strips",
        kind: ParameterType::String,
        default: None,
        summary: "datafile:size[k|m|g];... (powers of 1024; no suffix: bytes)",
    }],
};

/// A repeated list of strips, each with its own datafile and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VarstripDist {
    datafiles: u32,
    cycle: Divisor,
    /// log2 of the bytes of a block.
    block_shift: u32,
    tables: Arc<Tables>,
}

#[derive(Debug, PartialEq, Eq)]
struct Tables {
    /// The parameter in canonical form.
    text: String,
    /// In cycle order; neighbours on one datafile are merged. A sentinel that starts at the cycle's end follows the last strip.
    strips: Vec<Strip>,
    /// The strip that contains the first byte of each block; then the last strip, once more.
    blocks: Vec<u32>,
    /// The strips of datafile 0, then those of datafile 1, and so on.
    own: Vec<OwnStrip>,
    /// The start of each datafile's strips in `own`, and its bytes in a cycle; one sentinel at the end.
    datafiles: Vec<OwnRange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Strip {
    /// Offset in the cycle.
    start: u64,
    /// Bytes of its datafile before it in the cycle.
    rank: u64,
    datafile: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnStrip {
    start: u64,
    rank: u64,
    length: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnRange {
    first: u32,
    /// Bytes of a cycle on this datafile.
    bytes: Divisor,
}

pub(super) fn build(arguments: &Arguments<'_>) -> Result<VarstripDist, LayoutError> {
    let text = arguments.text("strips")?;
    let bad = |expected: String| arguments.bad("strips", text, expected);
    let strips = parse(text).map_err(bad)?;
    let highest = strips.iter().map(|&(datafile, _)| datafile).max().unwrap_or(0);
    let datafiles = highest.checked_add(1).ok_or_else(|| bad(format!("datafile {highest} is out of range")))?;
    arguments.datafiles_exactly(datafiles)?;

    let mut bytes = vec![0u64; datafiles as usize];
    let mut cycle_bytes = 0u64;
    for &(datafile, size) in &strips {
        cycle_bytes = cycle_bytes
            .checked_add(size)
            .filter(|&sum| sum <= MAX_OFFSET)
            .ok_or_else(|| arguments.overflow("the sum of all strips".into()))?;
        bytes[datafile as usize] += size;
    }
    if let Some(gap) = bytes.iter().position(|&bytes| bytes == 0) {
        return Err(bad(format!("datafile {gap} has no strip: expected every datafile from 0 to {highest}")));
    }
    let tables = Arc::new(Tables::new(&strips, &bytes, cycle_bytes));
    Ok(VarstripDist { datafiles, cycle: Divisor::new(cycle_bytes), block_shift: block_shift(cycle_bytes, strips.len()), tables })
}

/// Parses the list as (datafile, bytes); an error says what was expected and where.
fn parse(text: &str) -> Result<Vec<(u32, u64)>, String> {
    const GRAMMAR: &str = "expected datafile:size[k|m|g];...";
    let body = text.strip_suffix(';').unwrap_or(text);
    if body.is_empty() {
        return Err(format!("it is empty: {GRAMMAR}"));
    }
    let mut strips = Vec::new();
    for (index, item) in body.split(';').enumerate() {
        let at = |what: &str| format!("strip {} `{}`: {what}: {GRAMMAR}", index + 1, shortened(item));
        if index == MAX_STRIPS {
            return Err(format!("more than {MAX_STRIPS} strips"));
        }
        let (datafile, size) = item.split_once(':').ok_or_else(|| at("no size"))?;
        let datafile = number(datafile).map_err(|what| at(&format!("datafile {what}")))?;
        let datafile = u32::try_from(datafile).map_err(|_| at("datafile out of range"))?;
        strips.push((datafile, strip_bytes(size).map_err(|what| at(&format!("size {what}")))?));
    }
    Ok(strips)
}

fn strip_bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    match number(digits)? {
        0 => Err("is zero".into()),
        count => count.checked_mul(1 << shift).filter(|&bytes| bytes <= MAX_OFFSET).ok_or_else(|| "does not fit in 63 bits".into()),
    }
}

/// Parses decimal digits only: no sign, no space.
fn number(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Err("is missing".into());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("is not a decimal number".into());
    }
    text.parse().ok().filter(|&value| value <= MAX_OFFSET).ok_or_else(|| "does not fit in 63 bits".into())
}

/// Formats sizes with the largest exact suffix, without a trailing `;`.
fn canonical(strips: &[(u32, u64)]) -> String {
    let mut text = String::new();
    for &(datafile, bytes) in strips {
        let separator = if text.is_empty() { "" } else { ";" };
        let (count, suffix) = match bytes.trailing_zeros() {
            30.. => (bytes >> 30, "G"),
            20.. => (bytes >> 20, "M"),
            10.. => (bytes >> 10, "K"),
            _ => (bytes, ""),
        };
        text += &format!("{separator}{datafile}:{count}{suffix}");
    }
    text
}

/// Returns the log2 block size that gives two to four blocks per strip, or single bytes if the cycle is too short.
fn block_shift(cycle_bytes: u64, strips: usize) -> u32 {
    (cycle_bytes / (2 * strips as u64)).max(1).ilog2()
}

impl Tables {
    fn new(list: &[(u32, u64)], bytes: &[u64], cycle_bytes: u64) -> Tables {
        let mut ranks = vec![0u64; bytes.len()];
        let mut own_of: Vec<Vec<OwnStrip>> = vec![Vec::new(); bytes.len()];
        let mut strips: Vec<Strip> = Vec::with_capacity(list.len() + 1);
        let mut start = 0;
        for &(datafile, length) in list {
            let rank = ranks[datafile as usize];
            let own = &mut own_of[datafile as usize];
            match (strips.last(), own.last_mut()) {
                (Some(last), Some(own)) if last.datafile == datafile => own.length += length,
                _ => {
                    strips.push(Strip { start, rank, datafile });
                    own.push(OwnStrip { start, rank, length });
                }
            }
            ranks[datafile as usize] += length;
            start += length;
        }

        let shift = block_shift(cycle_bytes, list.len());
        let last = strips.len() as u32 - 1;
        let mut blocks = Vec::with_capacity((cycle_bytes >> shift) as usize + 2);
        let mut strip = 0;
        for block in 0..=(cycle_bytes - 1) >> shift {
            while strip < last && strips[strip as usize + 1].start <= block << shift {
                strip += 1;
            }
            blocks.push(strip);
        }
        blocks.push(last);
        strips.push(Strip { start: cycle_bytes, rank: 0, datafile: u32::MAX });

        let mut own = Vec::with_capacity(strips.len());
        let mut datafiles = Vec::with_capacity(bytes.len() + 1);
        for (strips, &bytes) in own_of.iter().zip(bytes) {
            datafiles.push(OwnRange { first: own.len() as u32, bytes: Divisor::new(bytes) });
            own.extend_from_slice(strips);
        }
        datafiles.push(OwnRange { first: own.len() as u32, bytes: Divisor::new(1) });
        Tables { text: canonical(list), strips, blocks, own, datafiles }
    }

    /// Returns the strips of an existing datafile (at least one), and its bytes in a cycle.
    #[inline]
    fn own(&self, datafile: u32) -> (&[OwnStrip], Divisor) {
        let range = self.datafiles[datafile as usize];
        (&self.own[range.first as usize..self.datafiles[datafile as usize + 1].first as usize], range.bytes)
    }
}

impl Distribution for VarstripDist {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![("strips", self.tables.text.clone())]
    }

    #[inline]
    fn num_datafiles(&self) -> u32 {
        self.datafiles
    }

    #[inline]
    fn piece_at(&self, logical: u64) -> Piece {
        let tables = &*self.tables;
        let (cycle, in_cycle) = self.cycle.divide(logical);
        let block = (in_cycle >> self.block_shift) as usize;
        let (from, to) = (tables.blocks[block] as usize, tables.blocks[block + 1] as usize);
        // The strip at `from` starts at or before the block, so the first one past the offset comes after it.
        let index = from + tables.strips[from + 1..=to].partition_point(|strip| strip.start <= in_cycle);
        let strip = tables.strips[index];
        let (_, bytes) = tables.own(strip.datafile);
        let contiguous = if self.datafiles == 1 { MAX_OFFSET } else { tables.strips[index + 1].start - in_cycle };
        Piece {
            datafile: strip.datafile,
            logical_offset: logical,
            physical_offset: cycle * bytes.value() + strip.rank + (in_cycle - strip.start),
            length: contiguous.min(MAX_OFFSET - logical),
        }
    }

    #[inline]
    fn logical_to_physical(&self, datafile: u32, logical: u64) -> u64 {
        if datafile >= self.datafiles {
            return 0;
        }
        let (own, bytes) = self.tables.own(datafile);
        let (cycle, in_cycle) = self.cycle.divide(logical);
        let in_share = match own.partition_point(|strip| strip.start <= in_cycle).checked_sub(1) {
            None => 0,
            Some(index) => own[index].rank + (in_cycle - own[index].start).min(own[index].length),
        };
        cycle * bytes.value() + in_share
    }

    #[inline]
    fn physical_to_logical(&self, datafile: u32, physical: u64) -> Option<u64> {
        if datafile >= self.datafiles {
            return None;
        }
        let (own, bytes) = self.tables.own(datafile);
        let (cycle, in_share) = bytes.divide(physical);
        // The first strip's rank is 0, so the index is at least 1.
        let strip = own[own.partition_point(|strip| strip.rank <= in_share) - 1];
        let in_cycle = strip.start + (in_share - strip.rank);
        let logical = cycle.checked_mul(self.cycle.value())?.checked_add(in_cycle)?;
        (logical < MAX_OFFSET).then_some(logical)
    }
}

//! Verifying a datafile from beginning to end, for a scrub: what is wrong is returned, not an error, and the rest is verified too.

use super::block::{BLOCK, Blocks, count, stored};
use super::kept::{Locked, NOT_CLEAN, Trust};
use super::place::read_to;
use super::read::Source;
use thalweg_bulk::crc32c;
use thalweg_wire::protocol::scrub::SumsState;
use thalweg_wire::{Error, Result};

/// What was found in a piece of a datafile.
pub(crate) struct Scanned {
    /// Where the next piece begins; `None`: this was the last one.
    pub(crate) next: Option<u64>,
    /// Bytes read.
    pub(crate) read_bytes: u64,
    /// Ranges that do not match their checksums.
    pub(crate) damaged: Vec<(u64, u64)>,
    /// Blocks that differed, of those whose checksums were recomputed.
    pub(crate) differed: u64,
    pub(crate) state: SumsState,
    /// The datafile has not the size it had.
    pub(crate) problem: Option<String>,
}

/// Blocks of a hole whose checksums are verified at a time.
const HOLE_BLOCKS: u64 = 1 << 18;

impl Scanned {
    fn of(state: SumsState, next: Option<u64>, read_bytes: u64) -> Scanned {
        Scanned { next, read_bytes, damaged: Vec::new(), differed: 0, state, problem: None }
    }
}

impl Source<'_> {
    /// Verifies the piece at `offset`, a multiple of a block, with `buffer` for what is read: a multiple of a block, too. Checksums that
    /// are not believed are recomputed instead.
    pub(crate) fn scan(&self, buffer: &mut [u8], offset: u64) -> Result<Scanned> {
        if self.kept.trust() == Trust::Unknown {
            drop(self.kept.lock(self.of)?);
        }
        let size = self.size()?;
        match self.kept.trust() {
            Trust::Verified => {}
            Trust::Unverified => return self.recompute(buffer.len() as u64 / BLOCK, offset),
            Trust::Off | Trust::Unknown => {
                let have = read_to(self.of.file(), buffer, offset).map_err(self.failed(offset))? as u64;
                let next = Some(offset + have).filter(|next| have > 0 && *next < size);
                return Ok(Scanned::of(SumsState::Off, next, have));
            }
        }
        let hole_end = self.hole_end(offset, size);
        if hole_end > offset {
            return self.scan_hole(offset, hole_end, size);
        }
        let fetched = self.fetch(buffer, offset)?;
        let next = Some(offset + fetched.have as u64).filter(|next| fetched.have == buffer.len() && *next < size);
        let read_bytes = fetched.have as u64;
        if fetched.is_intact(buffer) {
            return Ok(Scanned::of(SumsState::Verified, next, read_bytes));
        }
        // A writer may have come between the bytes and their sums: none does now.
        let locked = self.kept.lock(self.of)?;
        if locked.trust() != Trust::Verified {
            return Ok(Scanned::of(SumsState::Verified, Some(offset), 0));
        }
        let have = read_to(self.of.file(), buffer, offset).map_err(self.failed(offset))?;
        let damaged = wrong(&locked, &mut buffer[..], have, offset).map_err(self.failed(offset))?;
        let problem = self.other_size(&locked)?;
        Ok(Scanned { damaged, problem, ..Scanned::of(SumsState::Verified, next, read_bytes) })
    }

    fn size(&self) -> Result<u64> {
        Ok(self.of.file().metadata().map_err(self.failed(0))?.len())
    }

    /// Returns the end of the hole at `offset`, or `offset` where there is none: a multiple of a block.
    fn hole_end(&self, offset: u64, size: u64) -> u64 {
        match rustix::fs::seek(self.of.file(), rustix::fs::SeekFrom::Data(offset)) {
            Ok(data) => data / BLOCK * BLOCK,
            Err(rustix::io::Errno::NXIO) => size.max(offset),
            Err(_) => offset,
        }
        .min(offset + HOLE_BLOCKS * BLOCK)
    }

    /// Verifies that the checksums of a hole are those of a hole, without reading it.
    fn scan_hole(&self, offset: u64, end: u64, size: u64) -> Result<Scanned> {
        let next = Some(end).filter(|end| *end < size);
        let blocks = Blocks::of(offset, end - offset).touched();
        let sums = self.kept.sums(blocks.clone()).map_err(self.failed(offset))?;
        let is_hole = |sums: &[u32]| sums.iter().all(|sum| *sum == 0);
        if sums.is_none_or(|sums| is_hole(&sums)) && next.is_some() {
            return Ok(Scanned::of(SumsState::Verified, next, 0));
        }
        let locked = self.kept.lock(self.of)?;
        if locked.trust() != Trust::Verified {
            return Ok(Scanned::of(SumsState::Verified, Some(offset), 0));
        }
        // It may be a hole no longer.
        if self.hole_end(offset, size) < end {
            return Ok(Scanned::of(SumsState::Verified, Some(offset), 0));
        }
        let sums = locked.get(blocks.clone()).map_err(self.failed(offset))?;
        let wrong = blocks.zip(&sums).filter(|(_, sum)| **sum != 0);
        let damaged = wrong.map(|(block, _)| (block * BLOCK, ((block + 1) * BLOCK).min(size))).collect();
        let problem = if next.is_none() { self.other_size(&locked)? } else { None };
        Ok(Scanned { damaged, problem, ..Scanned::of(SumsState::Verified, next, 0) })
    }

    fn other_size(&self, locked: &Locked<'_>) -> Result<Option<String>> {
        let (clean, size) = (locked.kept.clean(), self.size()?);
        Ok((clean != NOT_CLEAN && clean != size).then(|| format!("it has {size} bytes, expected {clean}")))
    }

    /// Recomputes checksums that are not believed, a step at a time.
    fn recompute(&self, blocks: u64, offset: u64) -> Result<Scanned> {
        let mut locked = self.kept.lock(self.of)?;
        if locked.trust() != Trust::Unverified {
            return Ok(Scanned::of(SumsState::Unverified, Some(offset), 0));
        }
        let failed = |e| Error::system(format!("{}: recomputing its checksums", self.of.path().display()), e);
        let first = offset / BLOCK;
        if first == 0 {
            let size = self.size()?;
            locked.prepare(size).map_err(failed)?;
        }
        let (next, differed) = locked.recompute_some(first, blocks)?;
        self.of.ledger().are_recomputed(differed);
        let read_bytes = next.map_or(0, |next| (next - first).min(blocks) * BLOCK);
        if next.is_none() {
            locked.trim()?;
            locked.believe().map_err(failed)?;
        }
        Ok(Scanned { differed, ..Scanned::of(SumsState::Unverified, next.map(|next| next * BLOCK), read_bytes) })
    }
}

/// Returns the ranges of blocks that do not match; the bytes after the end of the datafile become zeros.
fn wrong(locked: &Locked<'_>, buffer: &mut [u8], have: usize, offset: u64) -> std::io::Result<Vec<(u64, u64)>> {
    let end = (have as u64).next_multiple_of(BLOCK).min(buffer.len() as u64) as usize;
    buffer[have..end].fill(0);
    let first = offset / BLOCK;
    let sums = locked.get(first..first + count(have as u64))?;
    let found = buffer[..end].chunks_exact(BLOCK as usize).map(|block| stored(crc32c(block)));
    let wrong = (first..).zip(sums.iter().zip(found)).filter(|(_, (known, found))| **known != *found);
    Ok(wrong.map(|(block, _)| (block * BLOCK, ((block + 1) * BLOCK).min(offset + have as u64))).collect())
}

//! Reading a datafile so that no byte leaves that does not match its sum.

use super::block::{BLOCK, Block, BlockSums, Blocks, stored, sum_of};
use super::kept::{Beside, Locked, NOT_CLEAN, SumState, Trust};
use super::place::read_to;
use rustix::io::Errno;
use std::fs::File;
use std::io::IoSliceMut;
use std::sync::Arc;
use thalweg_bulk::{BLOCK_BYTES, crc32c};
use thalweg_wire::{Error, Result};

/// The rest of the first and of the last block of a read.
struct Edges {
    head: Block,
    tail: Block,
    /// Bytes of `tail` that the datafile has.
    has: usize,
}

/// What was read, not verified yet.
pub(crate) struct Fetched {
    /// Bytes there were before the end of the datafile.
    pub(crate) have: usize,
    offset: u64,
    edges: Option<Box<Edges>>,
    /// The stored sums of the blocks touched; `None`: unverified.
    sums: Option<Vec<u32>>,
    /// The size it must have.
    clean: u64,
}

/// An open datafile, to be read.
pub(crate) struct Source<'a> {
    pub(crate) kept: &'a Arc<SumState>,
    pub(crate) of: &'a dyn Beside,
}

impl Source<'_> {
    pub(super) fn failed(&self, offset: u64) -> impl Fn(std::io::Error) -> Error {
        let path = self.of.path();
        move |e| Error::system(format!("{}: reading at {offset}", path.display()), e)
    }

    /// Reads into `buffer` from `offset` on, and the sums of what was read.
    pub(crate) fn fetch(&self, buffer: &mut [u8], offset: u64) -> Result<Fetched> {
        if self.kept.trust() == Trust::Unknown {
            drop(self.kept.lock(self.of)?);
        }
        if self.kept.trust() != Trust::Verified {
            return self.unverified(buffer, offset);
        }
        let clean = self.kept.clean();
        let (have, edges) = widened(self.of.file(), buffer, offset).map_err(|e| self.failed(offset)(e.into()))?;
        let touched = Blocks::of(offset, have as u64).touched();
        let sums = self.kept.sums(touched).map_err(self.failed(offset))?;
        Ok(Fetched { have, offset, edges, sums, clean })
    }

    fn unverified(&self, buffer: &mut [u8], offset: u64) -> Result<Fetched> {
        let have = read_to(self.of.file(), buffer, offset).map_err(self.failed(offset))?;
        Ok(Fetched { have, offset, edges: None, sums: None, clean: NOT_CLEAN })
    }

    /// Verifies what was fetched; returns how many bytes there are and their CRC-32C.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::Damaged`] when a block does not match its sum, or the datafile has not the size it had.
    pub(crate) fn verify(&self, fetched: &Fetched, buffer: &mut [u8]) -> Result<(usize, u32)> {
        let (crc, wrong) = fetched.check(buffer);
        if wrong.is_none() && fetched.has_its_size(buffer.len()) {
            return Ok((fetched.have, crc));
        }
        // A writer may have come between the bytes and their sums: none does now.
        let locked = self.kept.lock(self.of)?;
        if locked.trust() != Trust::Verified {
            let fetched = self.unverified(buffer, fetched.offset)?;
            return Ok((fetched.have, crc32c(&buffer[..fetched.have])));
        }
        self.verify_again(&locked, buffer, fetched.offset)
    }

    fn verify_again(&self, locked: &Locked<'_>, buffer: &mut [u8], offset: u64) -> Result<(usize, u32)> {
        let (have, edges) = widened(self.of.file(), buffer, offset).map_err(|e| self.failed(offset)(e.into()))?;
        let sums = Some(locked.get(Blocks::of(offset, have as u64).touched()).map_err(self.failed(offset))?);
        let again = Fetched { have, offset, edges, sums, clean: self.kept.clean() };
        let (crc, wrong) = again.check(buffer);
        match wrong {
            Some(block) => Err(locked.mismatch(block)),
            None if !again.has_its_size(buffer.len()) => {
                let size = self.of.file().metadata().map_err(self.failed(offset))?.len();
                Err(locked.damaged(&format!("it has {size} bytes, expected {}", again.clean)))
            }
            None => Ok((have, crc)),
        }
    }
}

/// Reads a range, and the rest of its first and last block.
fn widened(file: &File, buffer: &mut [u8], offset: u64) -> rustix::io::Result<(usize, Option<Box<Edges>>)> {
    let end = offset + buffer.len() as u64;
    let (before, after) = ((offset % BLOCK) as usize, (end.next_multiple_of(BLOCK) - end) as usize);
    if before == 0 && after == 0 || buffer.is_empty() {
        let have = read_to(file, buffer, offset).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        return Ok((have, None));
    }
    let mut edges = Box::new(Edges { head: [0; BLOCK_BYTES], tail: [0; BLOCK_BYTES], has: 0 });
    let mut pieces = [IoSliceMut::new(&mut edges.head[..before]), IoSliceMut::new(buffer), IoSliceMut::new(&mut edges.tail[..after])];
    let mut left = &mut pieces[..];
    let mut have = 0;
    let whole = before + (end - offset) as usize + after;
    while have < whole {
        match rustix::io::preadv(file, left, offset - before as u64 + have as u64) {
            Ok(0) => break,
            Ok(n) => {
                have += n;
                IoSliceMut::advance_slices(&mut left, n);
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    let wanted = (end - offset) as usize;
    let of_buffer = have.saturating_sub(before).min(wanted);
    edges.has = have.saturating_sub(before + wanted);
    Ok((of_buffer, Some(edges)))
}

impl Fetched {
    /// Whether all of it matches its sums, and is as long as it must be.
    pub(super) fn is_intact(&self, buffer: &[u8]) -> bool {
        self.check(buffer).1.is_none() && self.has_its_size(buffer.len())
    }

    /// Whether as much was there as the recorded size says.
    fn has_its_size(&self, wanted: usize) -> bool {
        self.clean == NOT_CLEAN || self.have as u64 == self.clean.saturating_sub(self.offset).min(wanted as u64)
    }

    /// Returns the CRC-32C of the bytes, and the first block that does not match its sum.
    fn check(&self, buffer: &[u8]) -> (u32, Option<u64>) {
        let bytes = &buffer[..self.have];
        let Some(sums) = &self.sums else { return (crc32c(bytes), None) };
        let mut found = BlockSums::default();
        found.compute(bytes, self.offset);
        let blocks = Blocks::of(self.offset, self.have as u64);
        let first = blocks.touched().start;
        let matches = |block: u64, sum: u32| sums.get((block - first) as usize) == Some(&sum);
        let wrong_edge = blocks.edges().filter(|block| !matches(*block, sum_of(&self.edge(*block, buffer))));
        let wrong = blocks.whole().zip(&found.blocks).filter(|(block, crc)| !matches(*block, stored(**crc))).map(|(block, _)| block);
        (found.whole, wrong_edge.chain(wrong).min())
    }

    /// Returns a block of which only a part was asked for.
    fn edge(&self, block: u64, buffer: &[u8]) -> Block {
        let blocks = Blocks::of(self.offset, self.have as u64);
        let mut bytes = [0; BLOCK_BYTES];
        let (within, of_bytes) = blocks.overlap(block);
        if let Some(edges) = &self.edges {
            bytes[..within.start].copy_from_slice(&edges.head[..within.start]);
            if block + 1 == blocks.touched().end {
                bytes[within.end..][..edges.has].copy_from_slice(&edges.tail[..edges.has]);
            }
        }
        bytes[within].copy_from_slice(&buffer[of_bytes]);
        bytes
    }
}

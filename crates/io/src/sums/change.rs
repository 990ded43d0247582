//! Changes of a datafile, each with the change of its sums.

use super::block::{BLOCK, BlockSums, Blocks, count, still_damaged, stored, sum_of};
use super::kept::{Locked, Trust};
use std::io;
use thalweg_bulk::crc32c;
use thalweg_wire::{Error, Result};

impl Locked<'_> {
    /// Writes bytes with `work`. `sums`: those of whole blocks, as [`BlockSums::compute`] makes them.
    ///
    /// # Errors
    /// As `work`; [`thalweg_wire::ErrorKind::Damaged`] when the rest of a block that is written in part does not match its sum: it
    /// would be believed from then on.
    pub(crate) fn write(
        &mut self,
        bytes: &[u8],
        offset: u64,
        sums: &BlockSums,
        work: impl FnOnce() -> io::Result<()>,
    ) -> Result<io::Result<()>> {
        if self.trust() == Trust::Off || bytes.is_empty() {
            return Ok(work());
        }
        self.begin(None)?;
        let blocks = Blocks::of(offset, bytes.len() as u64);
        let touched = blocks.touched();
        let mut new = vec![0; (touched.end - touched.start) as usize];
        for (block, crc) in blocks.whole().zip(&sums.blocks) {
            new[(block - touched.start) as usize] = stored(*crc);
        }
        for block in blocks.edges() {
            let mut there = self.verified(block)?;
            let (within, of_bytes) = blocks.overlap(block);
            there[within].copy_from_slice(&bytes[of_bytes]);
            new[(block - touched.start) as usize] = sum_of(&there);
        }
        self.inner.unfinished = true;
        let written = work();
        match &written {
            Ok(()) => self.put(touched.start, &new),
            Err(_) => self.recompute(touched.start, &new),
        }
        Ok(written)
    }

    /// Reads a block that is to be changed in part.
    fn verified(&self, block: u64) -> Result<super::block::Block> {
        let there = self.block(block)?;
        if self.trust() == Trust::Verified && sum_of(&there) != self.sum(block)? {
            return Err(self.mismatch(block));
        }
        Ok(there)
    }

    /// Returns the stored sum of a block.
    fn sum(&self, block: u64) -> Result<u32> {
        let sums = self.get(block..block + 1);
        Ok(sums.map_err(|e| Error::system(format!("{}: reading its checksums", self.of.path().display()), e))?[0])
    }

    /// Stores the sums of blocks of which any part may have been written.
    fn recompute(&mut self, first: u64, new: &[u32]) {
        let is_there: Result<Vec<u32>> = (first..).zip(new).map(|(block, _)| Ok(sum_of(&self.block(block)?))).collect();
        match is_there {
            Ok(sums) => self.put(first, &sums),
            Err(_) => self.distrust(),
        }
    }

    /// Returns the sum of a block of which a part becomes zeros. A damaged block stays damaged.
    fn with_zeros(&self, block: u64, zeros: std::ops::Range<usize>) -> Result<u32> {
        let mut there = self.block(block)?;
        let is_damaged = self.trust() == Trust::Verified && sum_of(&there) != self.sum(block)?;
        there[zeros].fill(0);
        let sum = sum_of(&there);
        Ok(if is_damaged { still_damaged(sum) } else { sum })
    }

    /// Truncates or extends the datafile with `work`.
    pub(crate) fn resize(&mut self, size_bytes: u64, work: impl FnOnce() -> io::Result<()>) -> Result<io::Result<()>> {
        if self.trust() == Trust::Off {
            return Ok(work());
        }
        self.begin(Some(size_bytes))?;
        let before = self.size()?;
        let within = (size_bytes % BLOCK) as usize;
        let last = match size_bytes < before && within > 0 {
            true => Some((size_bytes / BLOCK, self.with_zeros(size_bytes / BLOCK, within..BLOCK as usize)?)),
            false => None,
        };
        self.inner.unfinished = true;
        let done = work();
        if done.is_ok() {
            let cut = if size_bytes < before { self.cut(count(size_bytes)) } else { self.grown(size_bytes) };
            match last {
                Some((block, sum)) if cut.is_ok() => self.put(block, &[sum]),
                _ => self.stored(cut),
            }
        }
        self.inner.unfinished = false;
        Ok(done)
    }

    /// Makes a range zeros with `work`, which may extend the datafile.
    pub(crate) fn make_zeros(&mut self, offset: u64, length: u64, work: impl FnOnce() -> io::Result<()>) -> Result<io::Result<()>> {
        if self.trust() == Trust::Off {
            return Ok(work());
        }
        self.begin(None)?;
        let range = Blocks::of(offset, length.min(u64::MAX - offset));
        let end = count(self.size()?);
        let edges = range.edges().filter(|block| *block < end);
        let edges: Vec<(u64, u32)> =
            edges.map(|block| Ok((block, self.with_zeros(block, range.overlap(block).0)?))).collect::<Result<_>>()?;
        self.inner.unfinished = true;
        let done = work();
        match &done {
            Ok(()) => {
                let whole = range.whole();
                let zeroed = self.zero(whole.start.min(end)..whole.end.min(end));
                let grown = zeroed.and_then(|()| self.of.file().metadata()).and_then(|about| self.grown(about.len()));
                self.stored(grown);
                for (block, sum) in edges {
                    self.put(block, &[sum]);
                }
            }
            // Refused before anything was done.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL)) => self.inner.unfinished = false,
            Err(_) => self.distrust(),
        }
        Ok(done)
    }

    /// Allocates space with `work`, which may extend the datafile with zeros.
    pub(crate) fn allocate(&mut self, work: impl FnOnce() -> io::Result<()>) -> Result<io::Result<()>> {
        if self.trust() == Trust::Off {
            return Ok(work());
        }
        self.begin(None)?;
        let done = work();
        let size = self.size()?;
        let grown = self.grown(size);
        self.stored(grown);
        Ok(done)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.of.file().metadata().map_err(|e| Error::system(self.of.path().display(), e))?.len())
    }

    /// Recomputes the sums of blocks from `first` on, at most `most`. Returns the block to go on with, or `None` at the end, and how
    /// many sums differed.
    pub(super) fn recompute_some(&mut self, first: u64, most: u64) -> Result<(Option<u64>, u64)> {
        let failed = |e: io::Error| Error::system(format!("{}: recomputing its checksums", self.of.path().display()), e);
        let size = self.size()?;
        if first >= count(size) {
            return Ok((None, 0));
        }
        let begin = first * BLOCK;
        // A hole is not read: its sums are 0.
        let data = match rustix::fs::seek(self.of.file(), rustix::fs::SeekFrom::Data(begin)) {
            Ok(at) => at / BLOCK,
            Err(rustix::io::Errno::NXIO) => count(size),
            Err(_) => first,
        };
        let (end, new) = match data > first {
            true => (data.min(first + (most << 10)), None),
            false => {
                let mut bytes = vec![0; (most * BLOCK) as usize];
                let have = super::place::read_to(self.of.file(), &mut bytes, begin).map_err(failed)?;
                let blocks = count(have as u64);
                let sums = bytes.chunks_exact(BLOCK as usize).take(blocks as usize).map(|block| stored(crc32c(block)));
                (first + blocks, Some(sums.collect::<Vec<u32>>()))
            }
        };
        let failed = |e: io::Error| Error::system(format!("{}: recomputing its checksums", self.of.path().display()), e);
        let mut differed = 0;
        match new {
            Some(new) => {
                let known = self.get(first..end).map_err(failed)?;
                differed = known.iter().zip(&new).filter(|(known, new)| known != new).count() as u64;
                if differed > 0 {
                    self.put(first, &new);
                }
            }
            None => self.zero(first..end).map_err(failed)?,
        }
        Ok((Some(end).filter(|end| *end > first), differed))
    }

    /// Removes sums of blocks that the datafile does not have.
    pub(super) fn trim(&mut self) -> Result<()> {
        let size = self.size()?;
        self.cut(count(size)).map_err(|e| Error::system(format!("{}: recomputing its checksums", self.of.path().display()), e))
    }
}

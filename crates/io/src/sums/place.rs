//! Where sums are: in an extended attribute of a small datafile, or in a file beside a larger one.
//!
//! A file beside a datafile has its name with `.crc` at the end, a header, and a sum for each block; those of holes are holes too.

use super::block::count;
use super::mark::{ATTRIBUTE_BYTES, FILE_HEADER, Mark, bytes, header, read_header, sums};
use rustix::fs::{FallocateFlags, XattrFlags, fallocate, fgetxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use std::fs::File;
use std::io::Result;
use std::ops::Range;
use std::os::unix::fs::FileExt;

const ATTRIBUTE: &str = "user.thalweg.crc";
/// Sums written at a time where a file system cannot free a range.
const ZEROS: usize = 1 << 14;

/// Where a datafile's sums are.
#[derive(Debug)]
pub(super) enum Place {
    /// Nowhere: it is new, or none were stored.
    Nowhere,
    /// In the attribute, and here.
    Attribute(Vec<u32>),
    /// In the file beside it.
    Beside,
}

/// Reads the attribute; `None`: there is none. One that is too long is cut, and therefore damaged.
pub(super) fn attribute(file: &File) -> Result<Option<Vec<u8>>> {
    let mut value = [0; ATTRIBUTE_BYTES + 1];
    match fgetxattr(file, ATTRIBUTE, &mut value) {
        Ok(length) => Ok(Some(value[..length].to_vec())),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(Errno::RANGE) => Ok(Some(value.to_vec())),
        Err(e) => Err(e.into()),
    }
}

pub(super) fn set_attribute(file: &File, value: &[u8]) -> Result<()> {
    Ok(fsetxattr(file, ATTRIBUTE, value, XattrFlags::empty())?)
}

pub(super) fn remove_attribute(file: &File) -> Result<()> {
    match fremovexattr(file, ATTRIBUTE) {
        Err(e) if !matches!(e, Errno::NODATA | Errno::OPNOTSUPP) => Err(e.into()),
        _ => Ok(()),
    }
}

fn place_of(block: u64) -> u64 {
    FILE_HEADER as u64 + 4 * block
}

/// Reads the mark of a file of sums; `None`: it is damaged, or the file is too short or too long for a clean one.
pub(super) fn mark(beside: &File) -> Result<Option<Mark>> {
    let mut bytes = [0; FILE_HEADER];
    if read_to(beside, &mut bytes, 0)? < FILE_HEADER {
        return Ok(None);
    }
    Ok(match read_header(&bytes) {
        Some(Mark::Clean(size)) if beside.metadata()?.len() != place_of(count(size)) => None,
        other => other,
    })
}

pub(super) fn set_mark(beside: &File, mark: Mark) -> Result<()> {
    if let Mark::Clean(size) = mark {
        // Its length shows later whether all of it is there.
        beside.set_len(place_of(count(size)))?;
    }
    beside.write_all_at(&header(mark), 0)
}

/// Reads sums; those after the end are 0.
pub(super) fn read(beside: &File, blocks: Range<u64>) -> Result<Vec<u32>> {
    let mut bytes = vec![0; 4 * (blocks.end - blocks.start) as usize];
    read_to(beside, &mut bytes, place_of(blocks.start))?;
    Ok(sums(&bytes))
}

pub(super) fn write(beside: &File, first: u64, sums: &[u32]) -> Result<()> {
    beside.write_all_at(&bytes(sums), place_of(first))
}

/// Removes the sums of all blocks from this one on.
pub(super) fn cut(beside: &File, blocks: u64) -> Result<()> {
    if beside.metadata()?.len() > place_of(blocks) {
        beside.set_len(place_of(blocks))?;
    }
    Ok(())
}

/// Makes sums 0, as those of holes.
pub(super) fn zero(beside: &File, blocks: Range<u64>) -> Result<()> {
    if blocks.is_empty() {
        return Ok(());
    }
    let (from, to) = (place_of(blocks.start), place_of(blocks.end).min(beside.metadata()?.len()));
    if from >= to {
        return Ok(());
    }
    if fallocate(beside, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, to - from).is_ok() {
        return Ok(());
    }
    let zeros = [0; 4 * ZEROS];
    let mut at = from;
    while at < to {
        let length = (to - at).min(zeros.len() as u64);
        beside.write_all_at(&zeros[..length as usize], at)?;
        at += length;
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends; the rest stays as it is.
pub(super) fn read_to(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match file.read_at(&mut buffer[have..], offset + have as u64) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(have)
}

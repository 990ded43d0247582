//! Computes how much a write really adds to a file: the blocks of its range that the file lacks.
//!
//! Only the file system knows. FIEMAP gives the kernel's map of a file, including preallocated and delayed blocks; a file system
//! without it (tmpfs) is asked for holes, where preallocated but unwritten space counts as missing.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use thalweg_base::sparse;

/// The unit of charging in advance: the allocation unit of most file systems.
pub(super) const BLOCK_BYTES: u64 = sparse::BLOCK_BYTES as u64;

/// Widens a range to whole blocks.
pub(super) fn blocks(offset: u64, length: u64) -> Range<u64> {
    if length == 0 {
        return offset..offset;
    }
    offset - offset % BLOCK_BYTES..offset.saturating_add(length).checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX)
}

/// Returns the bytes of a range, in whole blocks, for which the file has no space. If the file cannot be queried, all of them.
pub(super) fn missing(file: &File, offset: u64, length: u64) -> u64 {
    let range = blocks(offset, length);
    let mapped = mapped(file, &range).or_else(|_| {
        let size_bytes = file.metadata()?.len().checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX);
        let (data, _) = sparse::data_of(file, range.start..range.end.min(size_bytes).max(range.start), usize::MAX)?;
        Ok::<_, std::io::Error>(data.iter().map(|part| blocks(part.start, part.end - part.start)).map(|part| part.end - part.start).sum())
    });
    (range.end - range.start).saturating_sub(mapped.unwrap_or(0))
}

/// Extents per system call.
const EXTENTS: usize = 32;

/// `struct fiemap_extent` of linux/fiemap.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` of linux/fiemap.h, with its extents.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

const _: () = assert!(size_of::<Extent>() == 56 && size_of::<Map>() == 32 + EXTENTS * 56);

/// `_IOWR('f', 11, struct fiemap)`, with the size without extents.
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;
/// No extent follows this one.
const LAST: u32 = 1;

/// Returns the bytes of a range for which the file has blocks.
fn mapped(file: &File, range: &Range<u64>) -> std::io::Result<u64> {
    let (mut at, mut sum) = (range.start, 0);
    while at < range.end {
        let mut map = Map {
            start: at,
            length: range.end - at,
            flags: 0,
            mapped_extents: 0,
            extent_count: EXTENTS as u32,
            reserved: 0,
            extents: [Extent::default(); EXTENTS],
        };
        // SAFETY: the descriptor is open, and the kernel writes into `map` no more extents than `extent_count` says there is room for.
        if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let found = &map.extents[..(map.mapped_extents as usize).min(EXTENTS)];
        for extent in found {
            let end = extent.logical.saturating_add(extent.length).min(range.end);
            sum += end.saturating_sub(extent.logical.max(at));
            at = at.max(end);
        }
        if found.len() < EXTENTS || found.iter().any(|extent| extent.flags & LAST != 0) {
            break;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// Returns a file on a file system with FIEMAP, if there is one, and one on a file system without.
    fn files() -> Vec<File> {
        let directories = [std::env::temp_dir(), "/dev/shm".into(), env!("CARGO_MANIFEST_DIR").into()];
        directories.iter().filter_map(|directory| tempfile::tempfile_in(directory).ok()).collect()
    }

    #[test]
    fn what_a_write_adds_is_what_the_file_has_no_blocks_for() {
        for file in files() {
            assert_eq!(missing(&file, 0, 1 << 20), 1 << 20);
            assert_eq!(missing(&file, 4000, 200), 8192);
            for at in [0, 8, 9, 10, 200] {
                file.write_all_at(&[7; 4096], at * 4096).unwrap();
            }
            assert_eq!(missing(&file, 0, 4096), 0);
            assert_eq!(missing(&file, 0, 16 * 4096), 12 * 4096);
            assert_eq!(missing(&file, 9 * 4096 + 5, 10), 0);
            assert_eq!(missing(&file, 201 * 4096, 1), 4096);
            assert_eq!(missing(&file, 0, 0), 0);
            // More extents than fit into one call.
            for at in 0..100 {
                file.write_all_at(&[7], (1000 + 2 * at) * 4096).unwrap();
            }
            assert_eq!(missing(&file, 1000 * 4096, 200 * 4096), 100 * 4096);
            file.sync_data().unwrap();
            assert_eq!(missing(&file, 1000 * 4096, 200 * 4096), 100 * 4096);
        }
    }
}

//! Names from the symbol tables of ELF files.

use blazesym::symbolize::{Input, Symbolized, Symbolizer, source};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// A function, and the offset in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub symbol: String,
    pub offset: u64,
}

/// Opens a regular file; anything else (such as a FIFO without a writer) is rejected without blocking.
pub(crate) fn open_file(path: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    file.metadata().is_ok_and(|about| about.is_file()).then_some(file)
}

/// Maximum files mapped together; beyond it the symbolizer starts anew.
const MOST_FILES: usize = 64;

/// Larger than any linker's program headers.
const MOST_HEADERS: usize = 256;

const LOAD: u32 = 1;
const UNWIND_HEADER: u32 = 0x6474_e550;
const EXECUTABLE: u32 = 1;

/// Reads ELF files, and caches the last ones.
pub(crate) struct Files {
    symbolizer: Symbolizer,
    read: usize,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("read", &self.read).finish_non_exhaustive()
    }
}

fn symbolizer() -> Symbolizer {
    Symbolizer::builder().enable_auto_reload(false).enable_code_info(false).enable_inlined_fns(false).build()
}

impl Files {
    pub(crate) fn new() -> Files {
        Files { symbolizer: symbolizer(), read: 0 }
    }

    /// Returns the names at these offsets of a file; none for unknown offsets or a file that is not ELF.
    pub(crate) fn names(&mut self, path: &Path, offsets: &[u64]) -> HashMap<u64, Named> {
        let Some(segments) = Segments::of(path) else { return HashMap::new() };
        self.read += 1;
        if self.read.is_multiple_of(MOST_FILES) {
            self.symbolizer = symbolizer();
        }
        let (offsets, addresses): (Vec<u64>, Vec<u64>) =
            offsets.iter().filter_map(|offset| Some((*offset, segments.address(*offset)?))).unzip();
        let mut elf = source::Elf::new(path);
        elf.debug_syms = false;
        let found = self.symbolizer.symbolize(&source::Source::Elf(elf), Input::VirtOffset(&addresses)).unwrap_or_default();
        let named = |(offset, found): (u64, Symbolized<'_>)| match found {
            Symbolized::Sym(symbol) => {
                Some((offset, Named { symbol: without_version(&symbol.name).to_owned(), offset: symbol.offset as u64 }))
            }
            Symbolized::Unknown(_) => None,
        };
        offsets.into_iter().zip(found).filter_map(named).collect()
    }
}

/// Strips the version from `memcpy@@GLIBC_2.14`.
fn without_version(name: &str) -> &str {
    name.split_once("@@").map_or(name, |(name, _)| name)
}

/// A mapped piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub offset: u64,
    pub address: u64,
    pub file_bytes: u64,
    pub memory_bytes: u64,
    flags: u32,
}

/// Converts a file's offsets to addresses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segments(Vec<Segment>);

impl Segments {
    fn of(path: &Path) -> Option<Segments> {
        Segments::of_kind(&open_file(path)?, LOAD).map(|(segments, _)| segments)
    }

    fn of_kind(file: &File, kind: u32) -> Option<(Segments, bool)> {
        let mut header = [0; 64];
        file.read_exact_at(&mut header[..52], 0).ok()?;
        let _ = file.read_exact_at(&mut header[52..], 52);
        let (at, size, count, wide) = Segments::table(&header)?;
        let mut table = vec![0; size * count];
        file.read_exact_at(&mut table, at).ok()?;
        Some((Segments(table.chunks_exact(size).filter_map(|entry| segment(entry, kind, wide)).collect()), wide))
    }

    /// Returns what is mapped of a 64-bit file, and the location of its unwind index (`.eh_frame_hdr`), if it has
    /// one.
    pub(crate) fn with_unwind_header(file: &File) -> Option<(Segments, Option<Segment>)> {
        let (headers, wide) = Segments::of_kind(file, UNWIND_HEADER)?;
        let loaded = Segments::of_kind(file, LOAD).filter(|_| wide)?.0;
        Some((loaded, headers.0.first().copied()))
    }

    /// Returns the location of a section in a 64-bit file.
    pub(crate) fn section(file: &File, name: &[u8]) -> Option<Segment> {
        let mut header = [0; 64];
        file.read_exact_at(&mut header, 0).ok()?;
        let half = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let (at, size, count, of_names) = (u64_at(&header, 40)?, half(58), half(60), half(62));
        let mut table = vec![0; if size == 64 { size * count } else { return None }];
        file.read_exact_at(&mut table, at).ok()?;
        let place = |entry: &[u8]| {
            let (offset, address, bytes) = (u64_at(entry, 24)?, u64_at(entry, 16)?, u64_at(entry, 32)?);
            Some(Segment { offset, address, file_bytes: bytes, memory_bytes: bytes, flags: 0 })
        };
        let names = place(table.chunks_exact(size).nth(of_names)?)?;
        let is_named = |entry: &&[u8]| {
            let mut found = vec![0; name.len() + 1];
            let at = u32_at(entry, 0).and_then(|at| names.offset.checked_add(at.into()));
            at.is_some_and(|at| file.read_exact_at(&mut found, at).is_ok()) && found.split_last() == Some((&0, name))
        };
        place(table.chunks_exact(size).find(is_named)?)
    }

    /// Returns the range from the lowest to the highest address.
    pub(crate) fn range(&self) -> Option<std::ops::Range<u64>> {
        let ends = self.0.iter().filter_map(|s| s.address.checked_add(s.memory_bytes));
        Some(self.0.iter().map(|s| s.address).min()?..ends.max()?)
    }

    /// Returns the segment that contains the byte at an address.
    pub(crate) fn at(&self, address: u64) -> Option<Segment> {
        self.0.iter().copied().find(|s| address.checked_sub(s.address).is_some_and(|into| into < s.file_bytes))
    }

    /// Returns the program headers' offset, size and number, and whether the file is 64-bit.
    fn table(header: &[u8; 64]) -> Option<(u64, usize, usize, bool)> {
        if !header.starts_with(b"\x7fELF") || header[5] != 1 {
            return None;
        }
        let half = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let (at, size, count, wide, least) = match header[4] {
            1 => (u64::from(u32_at(header, 28)?), half(42), half(44), false, 32),
            2 => (u64_at(header, 32)?, half(54), half(56), true, 56),
            _ => return None,
        };
        (size >= least && size <= 256 && count <= MOST_HEADERS).then_some((at, size, count, wide))
    }

    /// Returns the link-time address of an offset of the mapped file. A file with only debugging symbols no longer
    /// has the mapped content, and may have lost the offsets: they are then assumed as GNU's linker lays them out, as
    /// far apart as the addresses.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        let within = |s: &&Segment| offset.checked_sub(s.offset).is_some_and(|into| into < s.file_bytes);
        if let Some(segment) = self.0.iter().find(within) {
            return Some(segment.address + (offset - segment.offset));
        }
        if self.0.iter().any(|s| s.flags & EXECUTABLE != 0 && s.file_bytes > 0) {
            return None;
        }
        let base = self.0.iter().map(|s| s.address).min()? & !0xfff;
        let address = base.checked_add(offset)?;
        let holds = |s: &Segment| address.checked_sub(s.address).is_some_and(|into| into < s.memory_bytes);
        self.0.iter().any(holds).then_some(address)
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn segment(entry: &[u8], kind: u32, wide: bool) -> Option<Segment> {
    if u32_at(entry, 0)? != kind {
        return None;
    }
    let narrow = |at| u32_at(entry, at).map(u64::from);
    Some(match wide {
        true => Segment {
            flags: u32_at(entry, 4)?,
            offset: u64_at(entry, 8)?,
            address: u64_at(entry, 16)?,
            file_bytes: u64_at(entry, 32)?,
            memory_bytes: u64_at(entry, 40)?,
        },
        false => Segment {
            offset: narrow(4)?,
            address: narrow(8)?,
            file_bytes: narrow(16)?,
            memory_bytes: narrow(20)?,
            flags: u32_at(entry, 24)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(offset: u64, address: u64, file_bytes: u64, memory_bytes: u64, flags: u32) -> Segment {
        Segment { offset, address, file_bytes, memory_bytes, flags }
    }

    #[test]
    fn offsets_become_addresses_also_where_only_debugging_symbols_are_left() {
        let whole = Segments(vec![segment(0, 0x40_0000, 0x500, 0x500, 4), segment(0x1000, 0x40_2000, 0x800, 0x800, 5)]);
        assert_eq!((whole.address(0x1010), whole.address(0x1800), whole.address(0x10)), (Some(0x40_2010), None, Some(0x40_0010)));
        let symbols_only = Segments(vec![segment(0, 0x40_0000, 0x500, 0x500, 4), segment(0x1000, 0x40_1000, 0, 0x800, 5)]);
        assert_eq!((symbols_only.address(0x1010), symbols_only.address(0x1800)), (Some(0x40_1010), None));
    }

    #[test]
    fn this_program_names_its_own_functions() {
        let path = std::env::current_exe().expect("a file");
        let segments = Segments::of(&path).expect("an ELF file");
        let text = segments.0.iter().find(|s| s.flags & EXECUTABLE != 0).expect("code");
        let middle = text.offset + text.file_bytes / 2;
        assert!(segments.address(middle).is_some());
        assert!(Files::new().names(Path::new("/proc/self/status"), &[1, 2]).is_empty());
        assert!(Files::new().names(Path::new("/no/such/file"), &[1, 2]).is_empty());
    }

    #[test]
    fn a_version_is_no_part_of_a_name() {
        assert_eq!(without_version("memcpy@@GLIBC_2.14"), "memcpy");
        assert_eq!(without_version("main"), "main");
    }
}

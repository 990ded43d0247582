//! Reads the build identifier in an ELF file: a note of the owner `GNU`.
//!
//! Note types are private to each owner: type 3 of `stapsdt` is a probe, and a library with probes may have those
//! before its identifier. So the owner is compared, and no fixed length is assumed for its name or the note's
//! content.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Type of this owner's note with an identifier.
const BUILD_ID: u32 = 3;
const OWNER: &[u8] = b"GNU";

/// Types of entries for notes, in the segment and section tables.
const SEGMENT_OF_NOTES: u32 = 4;
const SECTION_OF_NOTES: u32 = 7;

/// More entries, and more bytes of notes, than any linker makes.
const MOST_ENTRIES: usize = 65_536;
const MOST_BYTES: u64 = 1 << 20;

/// Returns the identifier in hexadecimal.
pub(crate) fn build_id_of(path: &Path) -> Option<String> {
    let file = super::elf::open_file(path)?;
    let id = Layout::of(&file)?.notes(&file).iter().find_map(|(bytes, align)| identifier(bytes, *align))?;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the first identifier among notes aligned to `align`.
fn identifier(mut notes: &[u8], align: usize) -> Option<Vec<u8>> {
    let padded = |length: usize| length.checked_next_multiple_of(align);
    loop {
        let [owner, length, kind] = [0, 4, 8].map(|at| u32_at(notes, at));
        let (owner, length, kind) = (owner? as usize, length? as usize, kind?);
        // The alignment applies to the header plus the owner's name.
        let begin = padded(12_usize.checked_add(owner)?)?;
        let end = begin.checked_add(length)?;
        let (name, held) = (notes.get(12..12 + owner)?, notes.get(begin..end)?);
        let name = name.strip_suffix(b"\0").unwrap_or(name);
        if kind == BUILD_ID && name == OWNER && !held.is_empty() {
            return Some(held.to_vec());
        }
        notes = notes.get(padded(end)?..)?;
    }
}

/// The location of a file's tables.
struct Layout {
    wide: bool,
    segments: Entries,
    sections: Entries,
}

#[derive(Clone, Copy)]
struct Entries {
    at: u64,
    size: usize,
    count: usize,
}

impl Layout {
    fn of(file: &File) -> Option<Layout> {
        let mut header = [0; 64];
        file.read_exact_at(&mut header[..52], 0).ok()?;
        let _ = file.read_exact_at(&mut header[52..], 52);
        // Only this machine's byte order: programs of the other do not run here, and recordings do not come from such
        // machines.
        if !header.starts_with(b"\x7fELF") || header[5] != 1 {
            return None;
        }
        let half = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let entries = |at: Option<u64>, size: usize, count: usize| Some(Entries { at: at?, size, count: count.min(MOST_ENTRIES) });
        match header[4] {
            1 => Some(Layout {
                wide: false,
                segments: entries(u32_at(&header, 28).map(u64::from), half(42), half(44))?,
                sections: entries(u32_at(&header, 32).map(u64::from), half(46), half(48))?,
            }),
            2 => Some(Layout {
                wide: true,
                segments: entries(u64_at(&header, 32), half(54), half(56))?,
                sections: entries(u64_at(&header, 40), half(58), half(60))?,
            }),
            _ => None,
        }
    }

    /// Returns the parts of the file that hold notes, with their alignment: segments first, which stripped files
    /// keep; a file with only debugging symbols lacks their content but has sections.
    fn notes(&self, file: &File) -> Vec<(Vec<u8>, usize)> {
        // (type, offset, size, alignment) of an entry, by word size.
        let (segment, section) = match self.wide {
            true => ([0, 8, 32, 48], [4, 24, 32, 48]),
            false => ([0, 4, 16, 28], [4, 16, 20, 32]),
        };
        let mut pieces = self.pieces(file, self.segments, SEGMENT_OF_NOTES, segment);
        pieces.extend(self.pieces(file, self.sections, SECTION_OF_NOTES, section));
        pieces
    }

    fn pieces(&self, file: &File, entries: Entries, wanted: u32, fields: [usize; 4]) -> Vec<(Vec<u8>, usize)> {
        let mut table = vec![0; entries.size.saturating_mul(entries.count)];
        if entries.size == 0 || file.read_exact_at(&mut table, entries.at).is_err() {
            return Vec::new();
        }
        let word = |entry: &[u8], at: usize| if self.wide { u64_at(entry, at) } else { u32_at(entry, at).map(u64::from) };
        let piece = |entry: &[u8]| {
            if u32_at(entry, fields[0])? != wanted {
                return None;
            }
            let (at, size, align) = (word(entry, fields[1])?, word(entry, fields[2])?, word(entry, fields[3])?);
            let mut bytes = vec![0; usize::try_from(size).ok().filter(|_| size <= MOST_BYTES)?];
            file.read_exact_at(&mut bytes, at).ok()?;
            Some((bytes, if align == 8 { 8 } else { 4 }))
        };
        table.chunks_exact(entries.size).filter_map(piece).collect()
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, held: &[u8], align: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = [owner.len() as u32, held.len() as u32, kind].iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(owner);
        bytes.resize(bytes.len().next_multiple_of(align), 0);
        bytes.extend(held);
        bytes.resize(bytes.len().next_multiple_of(align), 0);
        bytes
    }

    /// Makes a 64-bit file with one segment of these notes.
    fn elf(notes: &[u8], align: u64) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64, 0);
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..58].copy_from_slice(&[56, 0, 1, 0]);
        bytes.extend([SEGMENT_OF_NOTES, 4].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend([120, 0, 0, notes.len() as u64, notes.len() as u64, align].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(notes);
        bytes
    }

    fn id_in(bytes: &[u8]) -> Option<String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        build_id_of(file.path())
    }

    #[test]
    fn a_probe_before_the_identifier_is_not_taken_for_it() {
        // A systemtap probe of the same type: three addresses and three texts, 57 bytes.
        let probe = note(b"stapsdt\0", BUILD_ID, &[b'x'; 57], 4);
        let notes = [probe.clone(), note(b"GNU\0", 5, &[1; 16], 4), note(b"GNU\0", BUILD_ID, &[0xab; 20], 4)].concat();
        assert_eq!(id_in(&elf(&notes, 4)).as_deref(), Some("ab".repeat(20).as_str()));
        assert_eq!(id_in(&elf(&probe, 4)), None);
    }

    #[test]
    fn an_identifier_of_any_length_is_whole() {
        for length in [1, 8, 16, 20, 32, 57] {
            for align in [4, 8] {
                let notes = [note(b"GNU\0", 1, &[9; 5], align), note(b"GNU\0", BUILD_ID, &vec![0x5a; length], align)].concat();
                assert_eq!(id_in(&elf(&notes, align as u64)), Some("5a".repeat(length)), "{length} bytes, aligned to {align}");
            }
        }
    }

    #[test]
    fn this_program_has_the_identifier_that_its_own_tools_read_and_cut_files_have_none() {
        let own = std::env::current_exe().expect("a file");
        assert_eq!(build_id_of(Path::new("/proc/self/status")), None);
        let said = std::process::Command::new("readelf").arg("-n").arg(&own).output();
        let Ok(said) = said else { return println!("SKIPPED: no readelf") };
        let text = String::from_utf8_lossy(&said.stdout);
        let expected = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).map(str::to_owned);
        assert_eq!(build_id_of(&own), expected);
        let whole = elf(&note(b"GNU\0", BUILD_ID, &[7; 20], 4), 4);
        assert!((0..whole.len()).all(|length| id_in(&whole[..length]).is_none()));
    }
}

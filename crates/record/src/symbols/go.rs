//! Functions of Go programs, from the table that Go's runtime reads (`.gopclntab`), which stripped programs keep.
//!
//! The layout is that of Go 1.18 and later (`runtime.pcHeader` in `runtime/symtab.go` of Go's source).

use super::elf::{Segments, u32_at, u64_at};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Sections that hold the table, of ordinary and of position-independent programs.
const TABLES: [&[u8]; 2] = [b".gopclntab", b".data.rel.ro.gopclntab"];

/// First words of the table: Go 1.18 and 1.19, Go 1.20 and later.
const MAGIC: [u32; 2] = [0xffff_fff0, 0xffff_fff1];

/// Bound: maximum size of a table that is read. A 300 MB program has a table of about 80 MB.
const MOST_TABLE_BYTES: u64 = 256 << 20;

/// First bytes of a function that may grow its stack: it compares the stack pointer with the goroutine's limit.
#[cfg(target_arch = "x86_64")]
const BEGINS: &[&[u8]] = &[&[0x49, 0x3b, 0x66, 0x10], &[0x4c, 0x8d]];
#[cfg(target_arch = "aarch64")]
const BEGINS: &[&[u8]] = &[&[0x90, 0x0b, 0x40, 0xf9]];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const BEGINS: &[&[u8]] = &[];

/// Returns the file offsets of the functions with these names; `None` if the file is not a Go program, lacks one of the functions, or does not begin its code
/// section with Go code (some programs with cgo).
pub(crate) fn functions<const N: usize>(file: &File, names: [&str; N]) -> Option<[u64; N]> {
    let section = TABLES.iter().find_map(|name| Segments::section(file, name)).filter(|table| table.file_bytes <= MOST_TABLE_BYTES)?;
    let mut table = vec![0; usize::try_from(section.file_bytes).ok()?];
    file.read_exact_at(&mut table, section.offset).ok()?;
    let code = Segments::section(file, b".text")?;
    let (loaded, _) = Segments::with_unwind_header(file)?;
    let is_function = |offset: u64| {
        let mut begin = [0; 4];
        file.read_exact_at(&mut begin, offset).is_ok() && BEGINS.iter().any(|bytes| begin.starts_with(bytes))
    };
    let from = entries(&table, names)?;
    // Go 1.25 and earlier store the start of the code in the table, unless the loader has to relocate the code.
    [u64_at(&table, 24), Some(code.address)].into_iter().flatten().find_map(|begin| {
        let offset = |entry: u32| {
            let address = begin.checked_add(entry.into())?;
            let segment = loaded.at(address)?;
            Some(segment.offset + (address - segment.address)).filter(|offset| is_function(*offset))
        };
        let mut found = [0; N];
        for (place, entry) in found.iter_mut().zip(from) {
            *place = offset(entry)?;
        }
        Some(found)
    })
}

/// Returns the offsets of the functions from the start of the code.
fn entries<const N: usize>(table: &[u8], names: [&str; N]) -> Option<[u32; N]> {
    const POINTER_BYTES: u8 = 8;
    if !MAGIC.contains(&u32_at(table, 0)?) || *table.get(7)? != POINTER_BYTES {
        return None;
    }
    let word = |n: usize| usize::try_from(u64_at(table, 8 + n * 8)?).ok();
    let (count, all_names, functions) = (word(0)?, table.get(word(3)?..)?, table.get(word(7)?..)?);
    let mut found = [None; N];
    let at: Vec<u32> = names.iter().map(|name| place_of(all_names, name)).collect::<Option<_>>()?;
    for n in 0..count {
        let (entry, function) = (u32_at(functions, n * 8)?, u32_at(functions, n * 8 + 4)?);
        let name = u32_at(functions, usize::try_from(function).ok()? + 4)?;
        if let Some(which) = at.iter().position(|wanted| *wanted == name) {
            found[which] = Some(entry);
            if found.iter().all(Option::is_some) {
                break;
            }
        }
    }
    let mut all = [0; N];
    for (place, entry) in all.iter_mut().zip(found) {
        *place = entry?;
    }
    Some(all)
}

/// Returns the offset of a name in a table of zero-terminated names.
fn place_of(names: &[u8], name: &str) -> Option<u32> {
    let mut from = 0;
    while let Some(length) = names[from..].iter().position(|byte| *byte == 0) {
        if &names[from..from + length] == name.as_bytes() {
            return u32::try_from(from).ok();
        }
        from += length + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_another_language_has_none() {
        let own = File::open("/proc/self/exe").expect("this program");
        assert_eq!(functions(&own, ["runtime.semacquire1"]), None);
    }

    #[test]
    fn functions_are_found_by_their_names() {
        // The header (eight words after the first), two names, and two functions after the list of entries and places.
        let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        for word in [2_u64, 0, 0, 72, 0, 0, 0, 88] {
            table.extend_from_slice(&word.to_le_bytes());
        }
        table.extend_from_slice(b"main.b\0main.a\0\0\0");
        for half in [0x40_u32, 16, 0x80, 24, 0x40, 7, 0x80, 0] {
            table.extend_from_slice(&half.to_le_bytes());
        }
        assert_eq!(entries(&table, ["main.a", "main.b"]), Some([0x40, 0x80]));
        assert_eq!(entries(&table, ["main.a", "main.c"]), None);
    }

    #[test]
    fn what_is_cut_off_has_no_functions() {
        let mut table = vec![0; 72];
        table[..8].copy_from_slice(&[0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8]);
        assert_eq!(entries(&table, ["main.main"]), None);
        table[8] = 0xff;
        table[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(entries(&table, ["main.main"]), None);
        assert_eq!(entries(&table[..6], ["main.main"]), None);
    }
}

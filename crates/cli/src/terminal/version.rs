//! `thalweg -V` and `thalweg --version`: what this program is, and what was built into it.
//!
//! They are answered before the command line is parsed: programs that check what is installed ask often, and the definition of all verbs is
//! the larger part of such a start.

use crate::failure::Failure;
use crate::output;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The release.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Prints the version if the command line asks for it; returns whether it does.
pub(crate) fn asked(words: &[OsString]) -> Option<Result<(), Failure>> {
    match words.get(1)?.to_str()? {
        "-V" => Some(output::line(&line())),
        "--version" => Some(output::result(&all())),
        _ => None,
    }
}

/// Returns the release and what it was built from, on one line.
fn line() -> String {
    let second = env!("THALWEG_BUILT_FROM_S").parse().ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    let date = second.map_or_else(String::new, |second| second.strftime(" %Y-%m-%d").to_string());
    format!("thalweg {RELEASE} ({}{date})", env!("THALWEG_BUILT_FROM"))
}

/// Returns the line, and below it what is built in and which formats are written.
fn all() -> String {
    let yes = |is_built: bool| if is_built { "yes" } else { "no" };
    let needs = match glibc() {
        Some(Some((major, minor))) => format!(", glibc {major}.{minor} or newer"),
        Some(None) => ", no shared C library".to_owned(),
        None => String::new(),
    };
    format!(
        "{}\n\
         kernel recorder  {}\n\
         PostgreSQL       {}\n\
         PNG              {}\n\
         target           {}{needs}\n\
         formats          recording {}, wire protocol {}, store {}, explanation {}\n",
        line(),
        yes(cfg!(feature = "bpf")),
        yes(cfg!(feature = "postgresql")),
        yes(cfg!(feature = "png")),
        env!("THALWEG_BUILT_FOR"),
        thalweg_trace::FORMAT_VERSION,
        thalweg_wire::VERSION,
        thalweg_store::TARGET_FORMAT,
        thalweg_explain::SCHEMA.trim_start_matches("thalweg.explain/"),
    )
}

/// Returns the newest version of glibc whose functions this program uses, from its own file: what its loader will ask for. `Some(None)`: it
/// uses none; `None`: the file cannot be read.
fn glibc() -> Option<Option<(u32, u32)>> {
    let program = Elf(File::open("/proc/self/exe").ok()?);
    let needed = program.versions_needed()?;
    let number = |name: &String| {
        let (major, minor) = name.strip_prefix("GLIBC_")?.split_once('.')?;
        Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    };
    Some(needed.iter().filter_map(number).max())
}

/// A program's file: 64 bits, little endian, as every machine this is built for has them.
struct Elf(File);

/// Bound: entries of each table, names and their bytes that are read.
const MOST: usize = 4096;

impl Elf {
    fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    }
    fn u16(&self, at: u64) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }
    fn u32(&self, at: u64) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }
    fn u64(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// Returns the versions of libraries' functions that the file asks for; empty for a static program.
    fn versions_needed(&self) -> Option<Vec<String>> {
        const LOAD: u32 = 1;
        const DYNAMIC: u32 = 2;
        let (table, size, count) = (self.u64(32)?, u64::from(self.u16(54)?), u64::from(self.u16(56)?));
        let headers: Vec<u64> = (0..count).map(|i| table + i * size).collect();
        // An address, as an offset in the file.
        let offset = |address: u64| {
            headers.iter().filter(|at| self.u32(**at) == Some(LOAD)).find_map(|at| {
                let (begin, bytes) = (self.u64(at + 16)?, self.u64(at + 32)?);
                (begin..begin + bytes).contains(&address).then_some(self.u64(at + 8)? + address - begin)
            })
        };
        let Some(dynamic) = headers.iter().find(|at| self.u32(**at) == Some(DYNAMIC)) else { return Some(Vec::new()) };
        let dynamic = self.u64(dynamic + 8)?;
        let entry = |tag: u64| {
            let entries =
                (0..MOST as u64).map(|i| dynamic + 16 * i).map_while(|at| self.u64(at).filter(|tag| *tag != 0).map(|tag| (tag, at)));
            entries.into_iter().find(|(found, _)| *found == tag).and_then(|(_, at)| self.u64(at + 8))
        };
        let (Some(needs), Some(names)) = (entry(0x6fff_fffe), entry(5)) else { return Some(Vec::new()) };
        let (mut library, names) = (offset(needs)?, offset(names)?);
        let mut found = Vec::new();
        while found.len() < MOST {
            let mut version = library + u64::from(self.u32(library + 8)?);
            for _ in 0..self.u16(library + 2)? {
                found.push(self.text(names + u64::from(self.u32(version + 8)?))?);
                version += u64::from(self.u32(version + 12)?);
            }
            match self.u32(library + 12)? {
                0 => break,
                next => library += u64::from(next),
            }
        }
        Some(found)
    }

    /// Returns the text at an offset, up to its 0.
    fn text(&self, at: u64) -> Option<String> {
        let mut bytes = [0; 64];
        let length = self.0.read_at(&mut bytes, at).ok()?;
        let text = bytes[..length].split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_says_which_glibc_it_needs_and_a_file_that_is_no_program_says_nothing() {
        let (major, minor) = glibc().unwrap().expect("tests are linked with glibc");
        assert!(major == 2 && minor >= 17, "{major}.{minor}");
        let here = tempfile::tempdir().unwrap();
        for (name, bytes) in [("empty", &b""[..]), ("short", b"\x7fELF"), ("text", &[b'x'; 4096])] {
            let path = here.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            assert!(Elf(File::open(&path).unwrap()).versions_needed().unwrap_or_default().is_empty(), "{name}");
        }
    }

    #[test]
    fn the_short_version_is_the_first_line_of_the_long_one() {
        assert_eq!(all().lines().next(), Some(line().as_str()));
        assert!(line().starts_with(&format!("thalweg {RELEASE} (")) && line().ends_with(')'), "{}", line());
    }
}

//! Memory mappings of a process: the lines of `/proc/PID/maps`.

use std::ffi::OsStr;
use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The text of a `maps` file.
#[derive(Clone, Debug, Default)]
pub struct Maps(Vec<u8>);

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'m> {
    /// The first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// The mapping is executable.
    pub is_executable: bool,
    /// Its offset in the file.
    pub offset: u64,
    /// The file's inode.
    pub inode: u64,
    /// The file, or a kernel name like `[vdso]`; empty for anonymous memory.
    pub path: &'m Path,
    /// The file has been unlinked; `path` is its last name.
    pub is_deleted: bool,
}

/// Reads the mappings of a process.
///
/// # Errors
/// The process has ended, or permission is denied.
pub fn of(pid: u32) -> Result<Maps> {
    Ok(Maps(std::fs::read(format!("/proc/{pid}/maps"))?))
}

impl Maps {
    /// Wraps a text that was read elsewhere.
    pub fn parse(text: &[u8]) -> Maps {
        Maps(text.to_owned())
    }

    /// Returns whether there are no mappings, as for kernel threads and zombies.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the mappings in order of address.
    pub fn iter(&self) -> impl Iterator<Item = Mapping<'_>> {
        self.0.split(|byte| *byte == b'\n').filter_map(mapping)
    }
}

/// Parses `55d000-55e000 r-xp 00001000 fe:00 12    /usr/bin/a b (deleted)`.
fn mapping(line: &[u8]) -> Option<Mapping<'_>> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut text = || std::str::from_utf8(fields.next()?).ok();
    let (range, rights, offset, _device, inode) = (text()?, text()?, text()?, text()?, text()?);
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    let (path, is_deleted) = path.strip_suffix(b" (deleted)").map_or((path, false), |path| (path, true));
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        is_executable: rights.contains('x'),
        offset: number(offset)?,
        inode: inode.parse().ok()?,
        path: Path::new(OsStr::from_bytes(path)),
        is_deleted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_whole_whatever_is_in_them() {
        let text = b"55d000-55e000 r-xp 00001000 fe:00 12                 /usr/bin/a b (deleted)\n\
                     7f0000-7f1000 rw-p 00000000 00:00 0 \n7ff000-7ff200 r-xp 00000000 00:00 0                          [vdso]\n\
                     800000-801000 r--s 00000000 fe:00 13 /data/\xff  two\nrubbish\n";
        let maps = Maps::parse(text);
        let all: Vec<Mapping<'_>> = maps.iter().collect();
        let paths: Vec<&[u8]> = all.iter().map(|mapping| mapping.path.as_os_str().as_bytes()).collect();
        assert_eq!(paths, [&b"/usr/bin/a b"[..], b"", b"[vdso]", b"/data/\xff  two"]);
        assert_eq!((all[0].start, all[0].end, all[0].offset, all[0].inode), (0x55d000, 0x55e000, 0x1000, 12));
        assert_eq!(all.iter().map(|mapping| mapping.is_executable).collect::<Vec<_>>(), [true, false, true, false]);
        assert_eq!(all.iter().map(|mapping| mapping.is_deleted).collect::<Vec<_>>(), [true, false, false, false]);
    }

    #[test]
    fn our_own_are_read() {
        let maps = of(std::process::id()).expect("it is there");
        let here = our_own_are_read as *const () as u64;
        assert!(maps.iter().any(|mapping| mapping.is_executable && (mapping.start..mapping.end).contains(&here)));
        assert!(!maps.is_empty() && of(u32::MAX).is_err());
    }
}

//! The table of mounts, `/proc/PID/mountinfo`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The device number that its files carry.
    pub device: (u32, u32),
    /// Which directory of the file system is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// The file system's type.
    pub kind: String,
    /// What is mounted: a device, a server's export.
    pub source: String,
    /// The file system's own options.
    pub options: String,
}

/// The mounts of this process' namespace.
pub(crate) fn here() -> Vec<Mount> {
    parse(&fs::read("/proc/self/mountinfo").unwrap_or_default())
}

/// The mounts of a process' namespace; none where it is gone or may not be read.
#[cfg(feature = "bpf")]
pub(crate) fn of(pid: u32) -> Vec<Mount> {
    parse(&fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default())
}

/// Parses the table; lines that are none are left out.
pub(crate) fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// `36 35 98:0 /root /point options optional-fields... - type source super-options`.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescaped(field)));
    let text = |field: &[u8]| String::from_utf8_lossy(&unescaped(field)).into_owned();
    let (major, minor) = std::str::from_utf8(fields.nth(2)?).ok()?.split_once(':')?;
    let (root, point) = (path(fields.next()?), path(fields.next()?));
    fields.find(|field| *field == b"-")?;
    let (kind, source) = (text(fields.next()?), text(fields.next()?));
    let options = fields.next().map(text).unwrap_or_default();
    Some(Mount { device: (major.parse().ok()?, minor.parse().ok()?), root, point, kind, source, options })
}

/// A field, in which blanks and the like are `\` and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| byte == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match digits {
            Some(digits) => {
                text.push(digits.iter().fold(0, |value: u8, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')));
                rest = &after[3..];
            }
            None => {
                text.push(byte);
                rest = after;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_their_optional_fields_and_escapes() {
        let text = b"36 35 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro\n\
            90 21 0:55 /sub /mnt/my\\040store rw,nosuid - fuse.thalweg thal://127.0.0.1:7000/ rw,user_id=0\nrubbish\n91 21 0:56 / /x rw shared:3\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!((mounts[0].device, mounts[0].kind.as_str(), mounts[0].options.as_str()), ((254, 0), "ext4", "rw,errors=remount-ro"));
        assert_eq!((mounts[1].root.clone(), mounts[1].point.clone()), (PathBuf::from("/sub"), PathBuf::from("/mnt/my store")));
        assert_eq!(mounts[1].source, "thal://127.0.0.1:7000/");
        assert_eq!(unescaped(b"a\\040b\\134c\\9"), b"a b\\c\\9");
        assert!(here().iter().any(|mount| mount.point.as_os_str() == "/proc" && mount.kind == "proc"));
    }
}

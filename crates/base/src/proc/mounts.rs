//! The mount table, `/proc/PID/mountinfo`.

use std::ffi::OsString;
use std::io::Result;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The device number of its files.
    pub device: (u32, u32),
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// The mount point.
    pub point: PathBuf,
    /// The options of this mount, such as `rw,nosuid`.
    pub mount_options: String,
    /// The file system's type.
    pub kind: String,
    /// The mounted device or server export.
    pub source: String,
    /// The file system's own options.
    pub options: String,
}

/// Returns the mounts that this thread sees, oldest first.
///
/// # Errors
/// The table cannot be read.
pub fn here() -> Result<Vec<Mount>> {
    Ok(parse(&std::fs::read("/proc/thread-self/mountinfo")?))
}

/// Returns the mounts that a process sees, oldest first.
///
/// # Errors
/// The process has ended, or permission is denied.
pub fn of(pid: u32) -> Result<Vec<Mount>> {
    Ok(parse(&std::fs::read(format!("/proc/{pid}/mountinfo"))?))
}

/// Returns the mount that holds a path (absolute, without symbolic links): the innermost, and among several on one mount point the last,
/// which covers the others.
pub fn holding<'m>(mounts: impl IntoIterator<Item = &'m Mount>, path: &Path) -> Option<&'m Mount> {
    mounts.into_iter().filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| mount.point.as_os_str().len())
}

/// Parses the table; skips malformed lines.
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// Parses `36 35 98:0 /root /point options optional-fields... - type source super-options`.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescaped(field)));
    let text = |field: &[u8]| String::from_utf8_lossy(&unescaped(field)).into_owned();
    let (major, minor) = std::str::from_utf8(fields.nth(2)?).ok()?.split_once(':')?;
    let (root, point, mount_options) = (path(fields.next()?), path(fields.next()?), text(fields.next()?));
    fields.find(|field| *field == b"-")?;
    let (kind, source) = (text(fields.next()?), text(fields.next()?));
    let options = fields.next().map(text).unwrap_or_default();
    Some(Mount { device: (major.parse().ok()?, minor.parse().ok()?), root, point, mount_options, kind, source, options })
}

/// Decodes a field, in which blanks and special characters are `\` and three octal digits.
pub(super) fn unescaped(field: &[u8]) -> Vec<u8> {
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
    fn lines_are_read_with_their_optional_fields() {
        let text = b"36 35 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro\n\
            90 21 0:55 /sub /mnt/my\\040store rw,nosuid - fuse.thalweg thal://127.0.0.1:7000/ rw,user_id=0\nrubbish\n91 21 0:56 / /x rw shared:3\n\
            36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 propagate_from:2 - ext4 /dev/root rw,errors=continue\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 3);
        assert_eq!((mounts[0].device, mounts[0].kind.as_str(), mounts[0].options.as_str()), ((254, 0), "ext4", "rw,errors=remount-ro"));
        assert_eq!((mounts[1].root.as_path(), mounts[1].mount_options.as_str()), (Path::new("/sub"), "rw,nosuid"));
        assert_eq!(mounts[1].source, "thal://127.0.0.1:7000/");
        assert_eq!((mounts[2].root.to_str(), mounts[2].source.as_str()), (Some("/mnt1"), "/dev/root"));
    }

    fn point(escaped: &str) -> PathBuf {
        parse(format!("36 35 0:52 / {escaped} rw - tmpfs some\\040where rw").as_bytes()).remove(0).point
    }

    #[test]
    fn a_mount_point_with_a_space_is_read() {
        assert_eq!(point("/mnt/my\\040store"), Path::new("/mnt/my store"));
    }

    #[test]
    fn a_mount_point_with_a_tab_is_read() {
        assert_eq!(point("/mnt/a\\011b"), Path::new("/mnt/a\tb"));
    }

    #[test]
    fn a_mount_point_with_a_newline_is_read() {
        assert_eq!(point("/mnt/a\\012b"), Path::new("/mnt/a\nb"));
    }

    #[test]
    fn a_mount_point_with_a_backslash_is_read_and_its_digits_are_not_an_escape() {
        assert_eq!(point("/mnt/a\\134b"), Path::new("/mnt/a\\b"));
        assert_eq!(point("/mnt/a\\134040b"), Path::new("/mnt/a\\040b"));
    }

    #[test]
    fn what_is_no_escape_stands_for_itself() {
        assert_eq!(unescaped(b"a\\040b\\134c\\9"), b"a b\\c\\9");
        assert_eq!(unescaped(b"\\777\\+12\\04"), b"\xff\\+12\\04");
    }

    #[test]
    fn a_path_lies_in_the_innermost_mount_and_of_two_at_one_place_in_the_last() {
        let mounts = parse(
            b"22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n30 22 0:25 / /data rw - xfs /dev/vdb rw\n\
              31 22 0:26 / /data/with\\040space rw - tmpfs tmpfs rw\n32 22 0:27 / /data rw master:3 - nfs4 server:/x rw\n",
        );
        let kind = |path: &str| holding(&mounts, Path::new(path)).map(|mount| mount.kind.as_str());
        assert_eq!(kind("/etc/passwd"), Some("ext4"));
        assert_eq!(kind("/data/file"), Some("nfs4"));
        assert_eq!(kind("/database"), Some("ext4"));
        assert_eq!(kind("/data/with space/f"), Some("tmpfs"));
        assert_eq!(holding(&[], Path::new("/x")), None);
    }

    #[test]
    fn our_own_table_is_read() {
        let is_proc = |mount: &Mount| mount.point.as_os_str() == "/proc" && mount.kind == "proc";
        assert!(here().expect("the table").iter().any(is_proc));
        assert!(of(std::process::id()).expect("the table").iter().any(is_proc));
    }
}

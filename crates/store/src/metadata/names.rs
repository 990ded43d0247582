//! Names and paths: bytes, bounded, and none of them means anything but itself.

use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::protocol::checked::check;

/// The names of a path, in order. Leading, trailing and doubled slashes mean nothing.
///
/// # Errors
/// When the path is too long, or a name of it is not one.
pub fn split(path: &[u8]) -> Result<Vec<&[u8]>> {
    if path.len() > limits::PATH_BYTES {
        return Err(Error::new(
            ErrorKind::NameTooLong,
            format!("a path of {} bytes: at most {} are allowed", path.len(), limits::PATH_BYTES),
        ));
    }
    path.split(|b| *b == b'/').filter(|name| !name.is_empty()).map(|name| check(name).map(|()| name)).collect()
}

/// A name or path for a person: bytes that are not UTF-8 are replaced.
pub fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_only_separate() {
        assert_eq!(split(b"//a/b//c/").unwrap(), [&b"a"[..], b"b", b"c"]);
        assert!(split(b"/").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let kind = |path: &[u8]| split(path).unwrap_err().kind();
        assert_eq!(kind(b"a/../b"), ErrorKind::Invalid);
        assert_eq!(kind(b"./b"), ErrorKind::Invalid);
        assert_eq!(kind(b"a\0b"), ErrorKind::Invalid);
        assert_eq!(kind(&[b'x'; 256]), ErrorKind::NameTooLong);
        assert_eq!(kind(&b"x/".repeat(2049)), ErrorKind::NameTooLong);
        assert!(split(&[b'x'; 255]).is_ok());
        assert!(split(b"...").is_ok());
    }
}

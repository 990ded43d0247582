//! Names and paths: bounded byte strings without special names.

use super::checked::refuse;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;

/// Splits a path into its names. Leading, trailing and doubled slashes are ignored.
///
/// # Errors
/// When the path is too long or contains an invalid name.
pub fn split(path: &[u8]) -> Result<Vec<&[u8]>> {
    if path.len() > limits::PATH_BYTES {
        return Err(Error::new(ErrorKind::NameTooLong, format!("a path of {} bytes: the maximum is {}", path.len(), limits::PATH_BYTES)));
    }
    path.split(|b| *b == b'/').filter(|name| !name.is_empty()).map(|name| check(name).map(|()| name)).collect()
}

/// Whether this is a label (the name of a server, node, owner or lot): 1 to `most` letters, digits, `.`, `_` and `-`.
pub fn is_label(name: &str, most: usize) -> bool {
    (1..=most).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Converts a name or path for display, replacing bytes that are not UTF-8.
pub fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// A name in a directory: 1 to 255 bytes without `/` or NUL, neither `.` nor `..`. It therefore names an entry of that directory
/// and nothing else, in any path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    /// Makes a name, if these bytes are one.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], [`ErrorKind::NameTooLong`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Name> {
        let bytes = bytes.into();
        check(&bytes).map(|()| Name(bytes))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl std::ops::Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Name {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Name;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a name")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Name, E> {
                Name::new(bytes).map_err(|e| refuse(format_args!("invalid name of a directory entry: {}", e.message())))
            }
        }
        from.deserialize_bytes(Bytes)
    }
}

/// Checks that these bytes are a name.
///
/// # Errors
/// See [`Name::new`].
pub(crate) fn check(name: &[u8]) -> Result<()> {
    if name.len() > limits::NAME_BYTES {
        let problem = format!("a name of {} bytes: the maximum is {}", name.len(), limits::NAME_BYTES);
        return Err(Error::new(ErrorKind::NameTooLong, problem));
    }
    let problem = if name.is_empty() {
        "an empty name".to_owned()
    } else if name == b"." || name == b".." {
        format!("`{}` is not supported in paths of a store: give the path from the root without it", shown(name))
    } else if name.contains(&0) {
        "a name with a NUL byte in it".to_owned()
    } else if name.contains(&b'/') {
        format!("a name with a slash in it: `{}`", name.escape_ascii())
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Invalid, problem))
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

    #[test]
    fn what_could_lead_out_of_its_directory_is_no_name_however_it_comes() {
        let long = [b'x'; 256];
        for bytes in [&b""[..], b".", b"..", b"a/b", b"/abs", b"../../x", b"a\0b", b"/", b"\0", &long] {
            assert!(Name::new(bytes).is_err(), "{bytes:?}");
            let message = postcard::to_stdvec(&serde_bytes(bytes)).unwrap();
            assert!(postcard::from_bytes::<Name>(&message).is_err(), "{bytes:?}");
            assert!(super::super::checked::why().is_some_and(|why| why.contains("name")), "{bytes:?}");
        }
        for bytes in [&b"a"[..], b"...", b".a", b"\xff\x1b[2J\n", &long[1..]] {
            let message = postcard::to_stdvec(&Name::new(bytes).unwrap()).unwrap();
            assert_eq!(&*postcard::from_bytes::<Name>(&message).unwrap(), bytes);
        }
    }

    /// Encodes a name as on the wire.
    fn serde_bytes(bytes: &[u8]) -> impl Serialize + '_ {
        struct Raw<'a>(&'a [u8]);
        impl Serialize for Raw<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_bytes(self.0)
            }
        }
        Raw(bytes)
    }
}

//! What a peer tells is checked where it is decoded, so that no later code can forget to: whoever has a value has one that may be used.
//!
//! A serialiser keeps no text of an error. What was wrong is left with the thread that decodes, and whoever gives the error on asks for it
//! ([`why`]).

use super::metadata::StoreMap;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::metadata::names::shown;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use std::cell::RefCell;
use std::fmt;

thread_local! {
    static WHY: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// An error of a value that cannot be, with its text left for [`why`].
pub(crate) fn refuse<E: de::Error>(why: impl fmt::Display) -> E {
    let text = why.to_string();
    let error = E::custom(&text);
    WHY.set(Some(text));
    error
}

/// What was wrong with the value that this thread refused last; it is told once.
pub(crate) fn why() -> Option<String> {
    WHY.take()
}

/// A name in a directory: 1 to 255 bytes, none of them `/` or zero, neither `.` nor `..`. So it names something in that directory and
/// nothing else, wherever it is put into a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    /// These bytes, if they are a name.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], [`ErrorKind::NameTooLong`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Name> {
        let bytes = bytes.into();
        check(&bytes).map(|()| Name(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes.
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
                Name::new(bytes).map_err(|e| refuse(format_args!("a directory entry whose name is none: {}", e.message())))
            }
        }
        from.deserialize_bytes(Bytes)
    }
}

/// Whether these bytes are a name.
///
/// # Errors
/// As [`Name::new`].
pub(crate) fn check(name: &[u8]) -> Result<()> {
    if name.len() > limits::NAME_BYTES {
        let problem = format!("a name of {} bytes: at most {} are allowed", name.len(), limits::NAME_BYTES);
        return Err(Error::new(ErrorKind::NameTooLong, problem));
    }
    let problem = if name.is_empty() {
        "an empty name".to_owned()
    } else if name == b"." || name == b".." {
        format!("`{}` is no name in a store: give the path from the root without it", shown(name))
    } else if name.contains(&0) {
        "a name with a zero byte in it".to_owned()
    } else if name.contains(&b'/') {
        format!("a name with a slash in it: `{}`", name.escape_ascii())
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Invalid, problem))
}

/// A size that a file can have.
pub(crate) fn size<E: de::Error>(size_bytes: u64) -> Result<u64, E> {
    if size_bytes > limits::FILE_BYTES {
        return Err(refuse(format_args!("a file of {size_bytes} bytes: at most {} are possible", limits::FILE_BYTES)));
    }
    Ok(size_bytes)
}

/// The same, where there may be none; for `#[serde(deserialize_with)]`.
pub(crate) fn known_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Option::<u64>::deserialize(from)?.map(size).transpose()
}

/// A size that a file can have; for `#[serde(deserialize_with)]`.
pub(crate) fn told_size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    u64::deserialize(from).and_then(size)
}

/// The targets of a file's datafiles, for `#[serde(deserialize_with)]`.
pub(crate) fn targets<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::<T>::deserialize(from)?;
    if list.len() > limits::DATAFILES {
        return Err(refuse(format_args!("a file of {} datafiles: at most {} are possible", list.len(), limits::DATAFILES)));
    }
    Ok(list)
}

/// Whether a store's map can be: targets in order, each at a server that is in it, and names that can be shown and compared.
///
/// # Errors
/// [`ErrorKind::Protocol`].
pub(crate) fn map(map: &StoreMap) -> Result<()> {
    let refused = |problem: String| Err(Error::new(ErrorKind::Protocol, format!("a map of the store that cannot be: {problem}")));
    for server in &map.servers {
        for (what, text) in [("name", &server.name), ("node", &server.node), ("address", &server.address)] {
            if text.len() > limits::NAME_BYTES || text.chars().any(char::is_control) {
                return refused(format!("a server's {what} is `{}`", text.escape_debug().take(64).collect::<String>()));
            }
        }
    }
    for (at, target) in map.targets.iter().enumerate() {
        if at > 0 && map.targets[at - 1].target >= target.target {
            return refused(format!("target {} is not in order", target.target));
        }
        if target.server as usize >= map.servers.len() {
            return refused(format!("target {} is at server number {} of {}", target.target, target.server, map.servers.len()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_lead_out_of_its_directory_is_no_name_however_it_comes() {
        let long = [b'x'; 256];
        for bytes in [&b""[..], b".", b"..", b"a/b", b"/abs", b"../../x", b"a\0b", b"/", b"\0", &long] {
            assert!(Name::new(bytes).is_err(), "{bytes:?}");
            let message = postcard::to_stdvec(&serde_bytes(bytes)).unwrap();
            assert!(postcard::from_bytes::<Name>(&message).is_err(), "{bytes:?}");
            assert!(why().is_some_and(|why| why.contains("name")), "{bytes:?}");
        }
        for bytes in [&b"a"[..], b"...", b".a", b"\xff\x1b[2J\n", &long[1..]] {
            let message = postcard::to_stdvec(&Name::new(bytes).unwrap()).unwrap();
            assert_eq!(&*postcard::from_bytes::<Name>(&message).unwrap(), bytes);
        }
    }

    /// Bytes as a name is told.
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

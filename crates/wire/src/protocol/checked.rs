//! What a peer sends is checked where it is decoded, so that no later code can forget to: a value that exists may be used.
//!
//! A serialiser keeps no text of an error. What was wrong is left with the thread that decodes, and the code that passes the error on asks for it
//! ([`why`]).

use crate::limits;
use serde::de::{self, Deserialize, Deserializer};
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

/// What was wrong with the value that this thread refused last; it is given once.
pub(crate) fn why() -> Option<String> {
    WHY.take()
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
pub(crate) fn bounded_size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
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

//! Validation while decoding, so that no later code can forget it: a decoded value is valid.
//!
//! The serialiser drops the text of errors, so a refusal leaves its text in a thread-local, from which the code that reports the
//! error takes it ([`why`]).

use crate::limits;
use serde::de::{self, Deserialize, Deserializer};
use std::cell::RefCell;
use std::fmt;

thread_local! {
    static WHY: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes the error for an invalid value, and leaves its text for [`why`].
pub(crate) fn refuse<E: de::Error>(why: impl fmt::Display) -> E {
    let text = why.to_string();
    let error = E::custom(&text);
    WHY.set(Some(text));
    error
}

/// Takes the text of this thread's last refusal; returns it once.
pub(crate) fn why() -> Option<String> {
    WHY.take()
}

/// Checks that a file can have this size.
pub(crate) fn size<E: de::Error>(size_bytes: u64) -> Result<u64, E> {
    if size_bytes > limits::FILE_BYTES {
        return Err(refuse(format_args!("a file of {size_bytes} bytes: the maximum is {}", limits::FILE_BYTES)));
    }
    Ok(size_bytes)
}

/// Decodes an optional file size; for `#[serde(deserialize_with)]`.
pub(crate) fn known_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Option::<u64>::deserialize(from)?.map(size).transpose()
}

/// Decodes a file size; for `#[serde(deserialize_with)]`.
pub(crate) fn bounded_size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    u64::deserialize(from).and_then(size)
}

/// Decodes the targets of a file's datafiles; for `#[serde(deserialize_with)]`.
pub(crate) fn targets<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::<T>::deserialize(from)?;
    if list.len() > limits::DATAFILES {
        return Err(refuse(format_args!("a file of {} datafiles: the maximum is {}", list.len(), limits::DATAFILES)));
    }
    Ok(list)
}

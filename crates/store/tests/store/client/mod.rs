//! The data path, over I/O servers alone.

mod appends;
mod buffered;
mod many;
mod model;

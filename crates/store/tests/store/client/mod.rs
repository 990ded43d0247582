//! The data path, over I/O servers alone.

mod buffered;
mod many;
mod model;

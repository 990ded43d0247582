//! The data path over I/O servers only.

mod appends;
mod buffered;
mod many;
mod model;

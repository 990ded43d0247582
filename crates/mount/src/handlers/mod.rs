//! .
pub mod attributes;
pub mod extended_attributes;
pub mod io;
pub mod locks;
pub mod names;
pub mod readdir;

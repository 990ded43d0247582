//! The whole database as a stream of rows.
//!
//! A *part* is a run of rows in order of table and key: table u8, length of the key u16, length of the value u32, key, value; numbers are
//! little endian. The service sends parts ([`Parts`]), a backup file keeps them, and a database is made from them ([`restore`]). Rows that
//! describe a database's own file are left out, so that a backup does not depend on what the database is.

mod check;
mod parts;
mod restore;
#[cfg(test)]
mod tests;

pub use self::check::{Check, Checked, Finding};
pub(crate) use self::parts::Parts;
pub use self::parts::{Order, each_row};
pub use self::restore::{Created, Restored, Restoring};

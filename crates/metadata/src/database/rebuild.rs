//! A database made from rows, as from a backup. It takes the place of the present one, which is kept under another name, and only when it
//! is complete and on stable storage.

use super::{DatabaseError, Table};

/// A database being made.
pub trait Rebuild {
    /// Sets a row, or removes one that was set; the last call for a key counts.
    ///
    /// # Errors
    /// The row cannot be stored; the present database is unchanged.
    fn put(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<(), DatabaseError>;

    /// Completes it as of this change, durably, and puts it in the place of the present one. Returns where that is kept; `None` if there was
    /// none.
    ///
    /// # Errors
    /// It cannot be completed; the error says if the present database was moved already.
    fn finish(self: Box<Self>, change: u64) -> Result<Option<String>, DatabaseError>;
}

//! .
pub mod deferred_release;
pub mod readdir_cursor;

//! Open files and directories.

pub(crate) mod deferred_release;
pub(crate) mod directories;
pub(crate) mod files;
pub(crate) mod losses;
pub(crate) mod readdir_cursor;

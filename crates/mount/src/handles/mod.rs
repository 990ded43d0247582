//! Open files and directories, each as one program has it open.

pub(crate) mod deferred_release;
pub(crate) mod directories;
pub(crate) mod files;
pub(crate) mod losses;
pub(crate) mod readdir_cursor;

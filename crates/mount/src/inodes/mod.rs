//! The inodes the kernel knows, and their state for answering without a server.

pub(crate) mod absence;
pub(crate) mod attributes;
pub(crate) mod dentries;
pub(crate) mod far_writes;
pub(crate) mod inode;
pub(crate) mod local_changes;
pub(crate) mod lock_owners;
pub(crate) mod lookup_ahead;
pub(crate) mod revalidation;
pub(crate) mod shared_file;
pub(crate) mod shrinker;
pub(crate) mod spaces;
pub(crate) mod table;
pub(crate) mod unreported_writes;

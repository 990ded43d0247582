//! .
pub mod local_changes;
pub mod lookup_ahead;
pub mod revalidation;
pub mod shared_file;
pub mod shrinker;
pub mod table;

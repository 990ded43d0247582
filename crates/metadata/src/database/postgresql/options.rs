//! How the database is set up.

/// What is known here of the tables takes at most so much, unless somebody says otherwise.
pub const CACHE_BYTES: usize = 256 << 20;

/// The log is put into the tables when it is so long, unless somebody says otherwise.
pub const SEGMENT_BYTES: u64 = 4 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store that it is to belong to.
    pub store: u64,
    /// Whether a database in which there is nothing is given to the store.
    pub initialise: bool,
    /// Whether to take over from a service that is in this epoch, though it has its lock still.
    pub take_over: Option<i64>,
    /// What is known here of the tables takes about this many bytes at most.
    pub cache_bytes: usize,
    /// The log is put into the tables when it is so long.
    pub segment_bytes: u64,
    /// Who opens it, for messages of others.
    pub holder: String,
}

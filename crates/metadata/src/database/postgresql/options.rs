//! Options of the database on PostgreSQL.

/// Default size of the cache of the tables.
pub const CACHE_BYTES: usize = 256 << 20;

/// Default log length that triggers a checkpoint.
pub const SEGMENT_BYTES: u64 = 4 << 20;

/// Options of the database on PostgreSQL.
#[derive(Clone, Debug)]
pub struct Options {
    /// The identifier of the store.
    pub store: u64,
    /// Whether an empty database is initialised for the store.
    pub initialise: bool,
    /// The epoch of a service to take over from although it still holds its lock.
    pub take_over: Option<i64>,
    /// Size of the cache of the tables, approximately.
    pub cache_bytes: usize,
    /// Log length that triggers a checkpoint.
    pub segment_bytes: u64,
    /// Identifies this service in other services' messages.
    pub holder: String,
}

//! Files as bytes: connections to I/O servers, and the flows that move bytes over them.
//!
//! | room | what is in it |
//! |---|---|
//! | `buffered` | files with local-file semantics: read-ahead and write-behind |
//! | `budget` | the memory of all read-ahead and write-behind |
//! | `data` | all I/O servers of a store; parallel calls to several |
//! | `handle`, `expected` | the location of a file's bytes, and the sizes the metadata service expects |
//! | `lengths` | comparing expected with actual sizes |
//! | `request`, `payload` | one request on the caller's thread; a flow buffer's bytes |
//! | `file` | one file: read, write, size, sync, allocate, seek |
//! | `live`, `tuned` | live parameters and counters |
//! | `link` | one server and its idle connections |
//! | `engine` | threads, one per connection, that move flow buffers |
//! | `names` | the names of a store, as the data path needs them |

mod budget;
mod buffered;
mod data;
mod data_map;
pub(crate) mod engine;
mod expected;
mod file;
mod handle;
mod lengths;
mod link;
mod live;
mod losses;
mod names;
mod payload;
mod request;
mod store;
mod tuned;
pub(crate) mod verifiers;

pub use budget::Budget;
pub use buffered::{AheadCounters, AheadOptions, BehindOptions, BufferedFile, BufferedOptions, ReadAhead, Reader, View, WriteBehind};
pub use data::{DataClient, Outgoing};
pub use engine::memory::RequestMemory;
pub(crate) use expected::is_as_expected;
pub use file::StoreFile;
pub use handle::FileHandle;
pub use link::{Link, SessionOf};
pub(crate) use live::{FAR_DEPTH, NEAR_DEPTH};
pub use losses::Unreported;
pub use names::Names;
pub use store::Store;

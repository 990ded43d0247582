//! The interface of the metadata service's database: ordered keys in a few tables, snapshots for reads, transactions for writes, and two
//! levels of durability. It has no indices, types or queries.
//!
//! Keys and values are bytes; keys sort as bytes. [`embedded`] is the default implementation, [`postgresql`] the one for more than one
//! machine; tests compare both with an ordered map in memory.

pub mod embedded;
mod group;
pub mod in_memory;
mod layers;
mod log;
#[cfg(feature = "postgresql")]
pub mod postgresql;
#[cfg(not(feature = "postgresql"))]
#[path = "no_postgresql.rs"]
pub mod postgresql;
mod rebuild;
mod redb_file;
mod replay;
mod reserve;
#[cfg(test)]
pub(crate) mod tests;

pub use rebuild::Rebuild;
pub(crate) use redb_file::is_of_file;
use std::sync::{Arc, OnceLock};
use thalweg_trace::TrackId;

/// Advice for a damaged database.
pub(crate) const PUT_BACK: &str = "put back a copy of the whole database";

/// The tables. The number is stored on disk: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// The store's own state, such as its identity and epoch.
    State = 0,
    /// `id u64 BE` → inode.
    Inodes = 1,
    /// `parent id u64 BE, name` → directory entry.
    Entries = 2,
    /// `id u64 BE` → an operation promised but not yet completed at the I/O servers.
    Intents = 3,
    /// `number u32 BE` → target.
    Targets = 4,
    /// `id u64 BE, name` → extended attribute.
    Extended = 5,
    /// `id u64 BE` → the place of a file that a copy has not finished, and since when it has no writer.
    Drafts = 6,
    /// `number u32 BE` → lot.
    Lots = 7,
    /// `number, 16 bytes` → credential.
    Credentials = 8,
    /// `client u64 BE, line u8, run u8` → the number of the line's last request, and its outcome.
    Answers = 9,
}

impl Table {
    /// All tables, by number.
    pub const ALL: [Table; 10] = [
        Table::State,
        Table::Inodes,
        Table::Entries,
        Table::Intents,
        Table::Targets,
        Table::Extended,
        Table::Drafts,
        Table::Lots,
        Table::Credentials,
        Table::Answers,
    ];

    /// Returns the table with this number.
    pub(crate) fn from_number(number: u8) -> Option<Table> {
        Table::ALL.get(usize::from(number)).copied()
    }

    /// Returns its name on disk.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Table::State => "state",
            Table::Inodes => "inodes",
            Table::Entries => "entries",
            Table::Intents => "intents",
            Table::Targets => "targets",
            Table::Extended => "extended",
            Table::Drafts => "drafts",
            Table::Lots => "lots",
            Table::Credentials => "credentials",
            Table::Answers => "answers",
        }
    }
}

/// A failure of the database: the disk, the file, or another process that has it open.
#[derive(Clone, Debug, thiserror::Error)]
#[error("metadata database {path}: {problem}")]
pub struct DatabaseError {
    /// The file or directory.
    pub path: std::path::PathBuf,
    /// The problem and the remedy.
    pub problem: String,
    /// Whether the only problem is a full device.
    pub full: bool,
    /// Whether another active service has it.
    pub held: bool,
}

impl DatabaseError {
    /// Creates an error at `path`.
    pub fn new(path: &std::path::Path, problem: impl Into<String>) -> DatabaseError {
        DatabaseError { path: path.to_owned(), problem: problem.into(), full: false, held: false }
    }

    /// Creates an I/O error at `path`, that occurred while doing `what`.
    pub fn io(path: &std::path::Path, what: &str, error: &std::io::Error) -> DatabaseError {
        DatabaseError {
            path: path.to_owned(),
            problem: format!("{what}: {error}"),
            full: matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded),
            held: false,
        }
    }
}

/// A consistent snapshot.
pub trait View {
    /// Reads the value at `key`.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError>;

    /// Calls `each` with the pairs whose key begins with `prefix` and is greater than `after`, in order of key, until it returns `false`.
    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), DatabaseError>;
}

/// A transaction: reads and changes a snapshot, and sees its own changes.
pub trait Transaction: View {
    /// Sets `key`.
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>);
    /// Removes `key`, if present.
    fn delete(&mut self, table: Table, key: &[u8]);
    /// Sets a savepoint: earlier changes stay whatever is undone later.
    fn save(&mut self);
    /// Undoes the changes since the last [`Transaction::save`], which must exist.
    fn undo(&mut self);
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of its changes take effect.
    Commit,
    /// None of its changes take effect.
    Abandon,
}

/// A stage of a database call, for the caller's trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for another call; holds that call's track.
    Wait(Option<TrackId>),
    /// Writing the log; holds the number of bytes.
    LogWrite(u64),
    /// Syncing the log.
    LogSync,
}

/// Observes the stages, which never nest: `begin`, then `end` with the stage.
pub trait Watch {
    /// Returns the caller's track, so that others can wait on it.
    fn track(&self) -> Option<TrackId>;
    /// Called when a stage begins.
    fn begin(&mut self);
    /// Called when the stage ends.
    fn end(&mut self, stage: Stage);
}

/// An observer that ignores the stages.
#[derive(Debug, Default, Clone, Copy)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn track(&self) -> Option<TrackId> {
        None
    }
    fn begin(&mut self) {}
    fn end(&mut self, _: Stage) {}
}

/// Transactions that are written together, and their outcome.
#[derive(Debug, Default)]
pub struct Batch {
    outcome: OnceLock<(Result<(), DatabaseError>, Option<TrackId>)>,
}

impl Batch {
    /// Records the outcome of a write by this leader.
    fn ends(&self, outcome: Result<(), DatabaseError>, leader: Option<TrackId>) {
        let _ = self.outcome.set((outcome, leader));
    }
}

/// A transaction with a position in the order, whose write may be pending. `None`: it is written.
#[derive(Clone, Debug, Default)]
pub struct Ordered(Option<Arc<Batch>>);

impl Ordered {
    /// Returns whether both are written together.
    pub(crate) fn is_with(&self, other: &Ordered) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

/// The whole database at one moment, which later changes do not affect.
pub struct Moment {
    /// Its rows.
    pub view: Box<dyn View + Send>,
    /// The number of the last change in it, which is on stable storage; 0: changes are not numbered.
    pub change: u64,
}

/// The database. All methods are thread-safe.
///
/// Transactions are serialisable. When `settle` returns, a transaction's changes are *Returned*: they survive the death of the process that
/// made them, and every later `read` sees them; no `read` sees a change that a killed process could lose. When `sync` returns, everything
/// returned before the call is *Synced*: it survives power loss. Power loss may take unsynced changes, newest first, so that the result is
/// an earlier state.
pub trait Database: Send + Sync {
    /// Shows `work` a consistent snapshot.
    fn read(&self, work: &mut dyn FnMut(&dyn View) -> Result<(), DatabaseError>) -> Result<(), DatabaseError>;

    /// Runs `work` as a transaction and fixes its position in the order: later ones see its changes. Callers must not be answered before
    /// [`Database::settle`]. Transactions ordered before the first is settled are written together. `work` may be run again from the start,
    /// so it must have no effect besides its last run's result.
    fn order(&self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<Verdict, DatabaseError>) -> Result<Ordered, DatabaseError>;

    /// Completes a transaction: its changes are *Returned*, or fail together with those of all transactions ordered after it.
    fn settle(&self, ordered: &Ordered, watch: &mut dyn Watch) -> Result<(), DatabaseError>;

    /// Puts everything returned so far on stable storage.
    fn sync(&self, watch: &mut dyn Watch) -> Result<(), DatabaseError>;

    /// Returns the number of the last change on stable storage. Numbers grow across starts; 0: changes are not numbered.
    fn synced(&self) -> u64 {
        0
    }

    /// Returns everything returned so far, put on stable storage, as of one moment. Holding it delays no transaction.
    fn moment(&self) -> Result<Moment, DatabaseError>;

    /// Checks that answers are valid at this moment; they are not if another service may have taken over.
    fn is_usable(&self) -> Result<(), DatabaseError> {
        Ok(())
    }

    /// Returns the error after which it no longer answers, if any.
    fn ended(&self) -> Option<DatabaseError> {
        None
    }

    /// Calls `notify` when it stops answering.
    fn on_end(&self, _notify: Box<dyn FnOnce() + Send>) {}

    /// Returns an identity that changes when returned changes may have been lost. `None`: the machine's boot is the identity.
    fn boot_id(&self) -> Option<String> {
        None
    }

    /// Prepares for a quick next start; called once, when the service stops in an orderly way.
    fn close(&self) -> Result<(), DatabaseError> {
        self.sync(&mut Unwatched)
    }
}

/// Calls [`Database::read`] with a result and the caller's error type.
pub(crate) fn read<T, E: From<DatabaseError>>(database: &dyn Database, mut work: impl FnMut(&dyn View) -> Result<T, E>) -> Result<T, E> {
    let mut answer = None;
    database.read(&mut |view| {
        answer = Some(work(view));
        Ok(())
    })?;
    answer.expect("read runs its work")
}

/// Runs a transaction to its end, with a result and the caller's error type. An error abandons it.
pub(crate) fn write<T, E: From<DatabaseError>>(
    database: &dyn Database,
    watch: &mut dyn Watch,
    work: impl FnMut(&mut dyn Transaction) -> Result<T, E>,
) -> Result<T, E> {
    let (answer, ordered) = order(database, work)?;
    database.settle(&ordered, watch)?;
    answer
}

/// Calls [`Database::order`] likewise. An error may be based on reads of unsettled changes too.
pub(crate) fn order<T, E>(
    database: &dyn Database,
    mut work: impl FnMut(&mut dyn Transaction) -> Result<T, E>,
) -> Result<(Result<T, E>, Ordered), DatabaseError> {
    let mut answer = None;
    let ordered = database.order(&mut |transaction| {
        let done = work(transaction);
        let verdict = if done.is_ok() { Verdict::Commit } else { Verdict::Abandon };
        answer = Some(done);
        Ok(verdict)
    })?;
    Ok((answer.expect("order runs its work"), ordered))
}

//! What the metadata service asks of its database: ordered keys in a few tables, snapshots to read,
//! transactions to write, and two grades of durability. There are no indices, no types and no queries here.
//!
//! Keys are bytes and sort as bytes; values are bytes. [`embedded`] is the default implementation, [`postgresql`] is the one for more than
//! one machine; tests compare both with an ordered map in memory.

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
mod redb_file;
mod replay;
mod reserve;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::{Arc, OnceLock};
use thalweg_trace::TrackId;

/// What to do about a database that is damaged.
pub(crate) const PUT_BACK: &str = "put back a copy of the whole database";

/// The tables. The number is the one on disk: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// What the store knows of itself: its identity, its epoch.
    State = 0,
    /// `id u64 BE` → inode.
    Inodes = 1,
    /// `parent id u64 BE, name` → directory entry.
    Entries = 2,
    /// `id u64 BE` → what has been promised and not yet been done at the I/O servers.
    Intents = 3,
    /// `number u32 BE` → target.
    Targets = 4,
    /// `id u64 BE, name` → extended attribute.
    Extended = 5,
    /// `id u64 BE` → where a file is that a copy has not finished, and since when nobody writes it.
    Drafts = 6,
    /// `number u32 BE` → lot.
    Lots = 7,
    /// `number, 16 bytes` → credential.
    Credentials = 8,
    /// `client u64 BE, line u8, run u8` → the number of the line's last request, and what became of it.
    Answers = 9,
}

impl Table {
    /// Every table, in the order of its number.
    pub(crate) const ALL: [Table; 10] = [
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

    /// The table with this number.
    pub(crate) fn from_number(number: u8) -> Option<Table> {
        Table::ALL.get(usize::from(number)).copied()
    }

    /// The name that stands on disk.
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

/// The database could not do it: the disk, the file, the other process that has it open.
#[derive(Clone, Debug, thiserror::Error)]
#[error("metadata database {path}: {problem}")]
pub struct DatabaseError {
    /// The file or directory.
    pub path: std::path::PathBuf,
    /// What happened and what to do.
    pub problem: String,
    /// Whether the device is full: then nothing is wrong that space does not mend.
    pub full: bool,
    /// Whether another service has it, which is active.
    pub held: bool,
}

impl DatabaseError {
    /// An error at `path`.
    pub fn new(path: &std::path::Path, problem: impl Into<String>) -> DatabaseError {
        DatabaseError { path: path.to_owned(), problem: problem.into(), full: false, held: false }
    }

    /// An input or output error at `path`, while doing `what`.
    pub fn io(path: &std::path::Path, what: &str, error: &std::io::Error) -> DatabaseError {
        DatabaseError {
            path: path.to_owned(),
            problem: format!("{what}: {error}"),
            full: matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded),
            held: false,
        }
    }
}

/// Reads one consistent state.
pub trait View {
    /// The value at `key`.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError>;

    /// Calls `each` with the pairs whose key begins with `prefix` and is greater than `after`, in
    /// order of key, until it answers `false`.
    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), DatabaseError>;
}

/// Reads and changes one state; sees its own changes.
pub trait Transaction: View {
    /// Sets `key`.
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>);
    /// Removes `key`, if it is there.
    fn delete(&mut self, table: Table, key: &[u8]);
    /// Everything changed so far stays, whatever is undone later.
    fn save(&mut self);
    /// Undoes what was changed since the last [`Transaction::save`]; only after one.
    fn undo(&mut self);
}

/// What a transaction does when its work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its changes are made, all of them.
    Commit,
    /// Nothing has happened.
    Abandon,
}

/// Where a call spends its time inside the database, for its caller's trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for another call's work, and whose.
    Wait(Option<TrackId>),
    /// Writing the log: how many bytes.
    LogWrite(u64),
    /// Putting the log on stable storage.
    LogSync,
}

/// Is notified of the stages, which never nest: `begin`, then `end` with what it was.
pub trait Watch {
    /// The caller's track, for those who wait for it.
    fn track(&self) -> Option<TrackId>;
    /// A stage begins.
    fn begin(&mut self);
    /// The stage ends.
    fn end(&mut self, stage: Stage);
}

/// Nobody watches.
#[derive(Debug, Default, Clone, Copy)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn track(&self) -> Option<TrackId> {
        None
    }
    fn begin(&mut self) {}
    fn end(&mut self, _: Stage) {}
}

/// Transactions that are written together, and what became of them.
#[derive(Debug, Default)]
pub struct Batch {
    outcome: OnceLock<(Result<(), DatabaseError>, Option<TrackId>)>,
}

impl Batch {
    /// It is written, or not, by this leader.
    fn ends(&self, outcome: Result<(), DatabaseError>, leader: Option<TrackId>) {
        let _ = self.outcome.set((outcome, leader));
    }
}

/// A transaction that has its place among all others, and of which it is not known yet whether it is written. `None`: it is.
#[derive(Clone, Debug, Default)]
pub struct Ordered(Option<Arc<Batch>>);

impl Ordered {
    /// Whether both are written together.
    pub(crate) fn is_with(&self, other: &Ordered) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

/// The database. Every method may be called from any thread at any time.
///
/// Transactions are serialisable. When `settle` returns, a transaction's changes are *Returned*: they survive the
/// death of the process that made them, and every later `read` sees them; no `read` sees a change that
/// a killed process could lose. When `sync` returns, everything that had been returned before it was
/// called is *Synced*: it survives power loss. Power loss may take what was not synced, newest first:
/// what is left is a state that once was.
pub trait Database: Send + Sync {
    /// Shows `work` one consistent state.
    fn read(&self, work: &mut dyn FnMut(&dyn View) -> Result<(), DatabaseError>) -> Result<(), DatabaseError>;

    /// Runs `work` as a transaction, which gets its place among all others: later ones see its changes. Nobody may be answered before
    /// [`Database::settle`]; several that are ordered before the first is settled are written together. An implementation may run it again from the
    /// start, so it must leave nothing behind but its last run's answer.
    fn order(&self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<Verdict, DatabaseError>) -> Result<Ordered, DatabaseError>;

    /// Ends a transaction: its changes are *Returned*, or are not made, and nor are those then of what was ordered after it.
    fn settle(&self, ordered: &Ordered, watch: &mut dyn Watch) -> Result<(), DatabaseError>;

    /// Puts everything returned so far on stable storage.
    fn sync(&self, watch: &mut dyn Watch) -> Result<(), DatabaseError>;

    /// The number of the last change that is on stable storage. Numbers grow, over starts too; 0: changes are not numbered.
    fn synced(&self) -> u64 {
        0
    }

    /// Whether what it answers can be relied on at this moment: it is not, where another service may have taken over.
    fn is_usable(&self) -> Result<(), DatabaseError> {
        Ok(())
    }

    /// Why it answers nothing any more, if that is so.
    fn ended(&self) -> Option<DatabaseError> {
        None
    }

    /// Calls `notify` when it answers nothing any more.
    fn on_end(&self, _notify: Box<dyn FnOnce() + Send>) {}

    /// Identifies what returned changes may have been lost with: another one says that some may. `None`: this machine's start.
    fn boot_id(&self) -> Option<String> {
        None
    }

    /// Prepares for a quick next start; called once, when the service stops in an orderly way.
    fn close(&self) -> Result<(), DatabaseError> {
        self.sync(&mut Unwatched)
    }
}

/// [`Database::read`] with an answer and the caller's own error.
pub(crate) fn read<T, E: From<DatabaseError>>(database: &dyn Database, mut work: impl FnMut(&dyn View) -> Result<T, E>) -> Result<T, E> {
    let mut answer = None;
    database.read(&mut |view| {
        answer = Some(work(view));
        Ok(())
    })?;
    answer.expect("read runs its work")
}

/// A transaction from its order to its end, with an answer and the caller's own error, which abandons it.
pub(crate) fn write<T, E: From<DatabaseError>>(
    database: &dyn Database,
    watch: &mut dyn Watch,
    work: impl FnMut(&mut dyn Transaction) -> Result<T, E>,
) -> Result<T, E> {
    let (answer, ordered) = order(database, work)?;
    database.settle(&ordered, watch)?;
    answer
}

/// [`Database::order`] likewise: the caller's own error may have seen what is not settled either.
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

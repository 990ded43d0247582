//! Reads: from the cache, otherwise a range of pairs from the server. A reader that continues at the end of a range gets longer ranges,
//! with the next one read ahead ([`super::ahead`]).
//!
//! The server's answer is cached only if no checkpoint has changed its tables since the request ([`Rows::tables_changed`]).

use super::ahead::Ahead;
use super::cache::{Cache, Chunk, Pair};
use super::lease::Lease;
use super::link::{Link, PAUSE, lost};
use super::server::{Server, Trouble};
use crate::database::layers::{Base, Layer, Pairs};
use crate::database::{DatabaseError, Table};
use postgres::{Client, Statement};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;

/// Pairs fetched with a single one: its neighbours are often read next.
const BESIDE: i64 = 32;
/// Pairs that a scan fetches first, and when it continues.
const FIRST: i64 = 192;
const FURTHER: i64 = 1024;
/// Bound: idle read sessions that are kept.
const SESSIONS: usize = 8;

/// A read session.
pub(super) struct Reader {
    client: Client,
    fetch: [Option<Statement>; Table::ALL.len()],
}

/// The tables at the server, through the cache.
pub(super) struct Rows {
    pub server: Arc<Server>,
    pub epoch: i64,
    pub lease: Arc<Lease>,
    /// Sends changes again that the server has lost.
    pub link: Arc<Mutex<Link>>,
    pub cache: Cache,
    pub readers: Mutex<Vec<Reader>>,
    pub ahead: Ahead,
    /// Number of checkpoints that have changed the tables.
    pub changes: Mutex<u64>,
    /// The last change of the database.
    pub committed: AtomicU64,
}

impl Rows {
    /// Returns the chunk that contains `from`, fetching it if needed.
    fn chunk_at(&self, table: Table, from: &[u8], most: i64) -> Result<Arc<Chunk>, DatabaseError> {
        let mut known = self.cache.chunk(table, from);
        if known.is_none() && self.ahead.wait_for(table, from) {
            known = self.cache.chunk(table, from);
        }
        if let Some(chunk) = known {
            if chunk.was_early() {
                self.ahead.ask(table, chunk.end.as_ref());
            }
            return Ok(chunk);
        }
        let goes_on = self.cache.pairs_before(table, from);
        let most = if goes_on.is_some() { FURTHER } else { most };
        let chunk = loop {
            if let Some(chunk) = self.learn(table, from, most, self.server.patience)? {
                break chunk;
            }
        };
        if goes_on.is_some() {
            self.ahead.ask(table, chunk.end.as_ref());
        }
        Ok(chunk)
    }

    /// Reads a chunk ahead if it is not cached.
    pub(super) fn fetch_early(&self, table: Table, from: &[u8]) {
        if self.cache.chunk(table, from).is_none()
            && let Ok(Some(chunk)) = self.learn(table, from, FURTHER, Duration::ZERO)
        {
            chunk.is_early();
        }
    }

    /// Fetches and caches pairs starting at `from`; `None` if the tables have changed meanwhile.
    fn learn(&self, table: Table, from: &[u8], most: i64, patience: Duration) -> Result<Option<Arc<Chunk>>, DatabaseError> {
        let before = *self.changes.lock();
        let pairs = self.fetch(table, from, most, patience)?;
        let is_all = i64::try_from(pairs.len()).is_ok_and(|found| found < most);
        let end = pairs.last().filter(|_| !is_all).map(|(key, _)| [key, &[0][..]].concat());
        let changes = self.changes.lock();
        let chunk = (*changes == before).then(|| self.cache.learn(table, from, pairs, end));
        drop(changes);
        self.cache.shrink();
        Ok(chunk)
    }

    /// Records that a checkpoint has changed the tables: answers to earlier requests are not cached.
    pub(super) fn tables_changed(&self, layer: &Layer) {
        *self.changes.lock() += 1;
        self.cache.apply(layer);
    }

    /// Fetches pairs from the server, starting at `from`. Waits up to `patience` for an unreachable server.
    fn fetch(&self, table: Table, from: &[u8], most: i64, patience: Duration) -> Result<Vec<Pair>, DatabaseError> {
        let began = Instant::now();
        loop {
            let idle = self.readers.lock().pop();
            let reader = idle.map_or_else(|| self.reader(), Ok);
            let trouble = match reader.and_then(|mut reader| Ok((reader.fetch(self, table, from, most)?, reader))) {
                Ok((pairs, reader)) => {
                    let mut readers = self.readers.lock();
                    if readers.len() < SESSIONS {
                        readers.push(reader);
                    }
                    return Ok(pairs);
                }
                Err(trouble) => trouble,
            };
            let said = match trouble {
                Trouble::Refused(error) => return Err(error),
                Trouble::Fenced => return Err(self.lease.taken_over()),
                Trouble::Again => continue,
                Trouble::ReadOnly => "it has become read-only".to_owned(),
                Trouble::Lost(said) => said,
            };
            self.readers.lock().clear();
            if began.elapsed() >= patience {
                return Err(lost(&self.server, began.elapsed(), &said));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns a read session on a database that has all returned changes.
    fn reader(&self) -> Result<Reader, Trouble> {
        Ok(Reader { client: self.session()?, fetch: [const { None }; Table::ALL.len()] })
    }

    /// Opens a session on a database that has all returned changes.
    pub(super) fn session(&self) -> Result<Client, Trouble> {
        let mut client = self.server.connect()?;
        loop {
            let has = self.link.lock().check(&mut client)?;
            if has >= self.committed.load(Ordering::Acquire) {
                return Ok(client);
            }
            // PostgreSQL crashed and lost changes that are kept here.
            self.link.lock().repair().map_err(|failed| Trouble::Refused(failed.error))?;
        }
    }
}

impl Reader {
    fn fetch(&mut self, rows: &Rows, table: Table, from: &[u8], most: i64) -> Result<Vec<Pair>, Trouble> {
        let trouble = |error: postgres::Error| rows.server.trouble(&error);
        let statement = match &self.fetch[table as usize] {
            Some(statement) => statement,
            None => {
                let sql = format!("SELECT key, value FROM thalweg.{} WHERE key >= $1 ORDER BY key LIMIT $2", table.name());
                self.fetch[table as usize].insert(self.client.prepare(&sql).map_err(trouble)?)
            }
        };
        rows.server.asks();
        let found = self.client.query(statement, &[&from, &most]).map_err(trouble)?;
        Ok(found.iter().map(|row| (row.get::<_, &[u8]>(0).into(), row.get::<_, &[u8]>(1).into())).collect())
    }
}

impl Base for Rows {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        let chunk = self.chunk_at(table, key, BESIDE)?;
        Ok(chunk.find(key).ok().map(|at| chunk.pairs[at].1.to_vec()))
    }

    fn range(&self, table: Table, from: Bound<&[u8]>) -> Result<Box<dyn Pairs + '_>, DatabaseError> {
        let from = match from {
            Bound::Included(from) => from.to_vec(),
            Bound::Excluded(from) => [from, &[0]].concat(),
            Bound::Unbounded => Vec::new(),
        };
        Ok(Box::new(Range { rows: self, table, next: Some(from), chunk: None, at: 0 }))
    }
}

/// An iterator over pairs in order, chunk by chunk.
struct Range<'a> {
    rows: &'a Rows,
    table: Table,
    /// Where the next chunk starts; `None` at the end.
    next: Option<Vec<u8>>,
    chunk: Option<Arc<Chunk>>,
    at: usize,
}

impl Pairs for Range<'_> {
    fn next(&mut self) -> Result<Option<()>, DatabaseError> {
        self.at += 1;
        while self.pair().is_none() {
            let Some(from) = self.next.take() else { return Ok(None) };
            let most = if self.chunk.is_some() { FURTHER } else { FIRST };
            let chunk = self.rows.chunk_at(self.table, &from, most)?;
            self.at = chunk.find(&from).unwrap_or_else(|at| at);
            self.next.clone_from(&chunk.end);
            self.chunk = Some(chunk);
        }
        Ok(Some(()))
    }

    fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.chunk.as_ref()?.pairs.get(self.at).map(|(key, value)| (&**key, &**value))
    }
}

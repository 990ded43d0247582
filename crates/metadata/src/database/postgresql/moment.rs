//! The database at one moment: the snapshot of one transaction at the server, which sees the tables and the log as of one change.

use super::rows::Rows;
use super::schema::{LOCK, check_whole, owner};
use super::server::{Server, Trouble};
use super::tail;
use crate::database::layers::{Base, Held, Pairs};
use crate::database::{DatabaseError, Moment, Table};
use postgres::Client;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_base::sync::Mutex;

/// Rows fetched in one round trip.
const PAGE: i64 = 4096;
/// Begins the transaction whose snapshot is the moment.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Takes a moment of the running service's database, with everything returned so far.
pub(super) fn take(rows: &Rows) -> Result<Moment, DatabaseError> {
    let server = &rows.server;
    let store = rows.link.lock().store();
    let taken = rows.session().and_then(|client| at(server, client, store)).map_err(|trouble| server.at_start(trouble))?;
    taken.ok_or_else(|| server.error("its schema was removed while the service runs"))
}

/// Reads the database of a store of which no service is active; `None` if it holds none.
///
/// # Errors
/// [`DatabaseError::held`] if a service is active; otherwise it cannot be reached, or is damaged.
pub fn stopped(server: &Server, store: u64) -> Result<Option<Moment>, DatabaseError> {
    let at_start = |trouble| server.at_start(trouble);
    let mut client = server.connect().map_err(at_start)?;
    super::lease::prepare(server, &mut client).map_err(at_start)?;
    if !super::lease::try_lock(server, &mut client).map_err(at_start)? {
        return Err(DatabaseError { held: true, ..server.error("in use by a running metadata service: stop the store first") });
    }
    // What is read is one moment in any case, and whoever replaces the database takes the lock itself.
    client.query_one("SELECT pg_advisory_unlock($1)", &[&LOCK]).map_err(|e| at_start(server.trouble(&e)))?;
    at(server, client, store).map_err(at_start)
}

/// Takes a moment over this session, which it keeps.
fn at(server: &Server, mut client: Client, store: u64) -> Result<Option<Moment>, Trouble> {
    client.batch_execute(BEGIN).map_err(|e| server.trouble(&e))?;
    let Some(found) = owner(server, &mut client, store)? else { return Ok(None) };
    check_whole(server, &mut client)?;
    let tail = tail::read(server, &mut client, &found)?;
    let base = Tables { shown: server.shown().to_owned(), client: Mutex::new(client) };
    let change = u64::try_from(found.last).unwrap_or(0);
    Ok(Some(Moment { view: Box::new(Held { layers: vec![Arc::new(tail.layer)], base }), change }))
}

/// The tables in the snapshot of a transaction.
struct Tables {
    shown: PathBuf,
    client: Mutex<Client>,
}

type Pair = (Vec<u8>, Vec<u8>);

impl Tables {
    fn query(&self, sql: &str, values: &[&(dyn postgres::types::ToSql + Sync)]) -> Result<Vec<postgres::Row>, DatabaseError> {
        let lost =
            |e: postgres::Error| DatabaseError::new(&self.shown, format!("its snapshot was lost while it was read ({e}): try again"));
        self.client.lock().query(sql, values).map_err(lost)
    }

    fn page(&self, table: Table, from: &[u8]) -> Result<Vec<Pair>, DatabaseError> {
        let sql = format!("SELECT key, value FROM thalweg.{} WHERE key >= $1 ORDER BY key LIMIT {PAGE}", table.name());
        Ok(self.query(&sql, &[&from])?.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}

impl Base for Tables {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        let sql = format!("SELECT value FROM thalweg.{} WHERE key = $1", table.name());
        Ok(self.query(&sql, &[&key])?.first().map(|row| row.get(0)))
    }

    fn range(&self, table: Table, from: Bound<&[u8]>) -> Result<Box<dyn Pairs + '_>, DatabaseError> {
        let from = match from {
            Bound::Included(from) => from.to_vec(),
            Bound::Excluded(from) => [from, &[0]].concat(),
            Bound::Unbounded => Vec::new(),
        };
        Ok(Box::new(Range { tables: self, table, next: Some(from), page: Vec::new(), at: 0 }))
    }
}

/// An iterator over pairs in order, page by page.
struct Range<'a> {
    tables: &'a Tables,
    table: Table,
    /// Where the next page starts; `None` at the end.
    next: Option<Vec<u8>>,
    page: Vec<Pair>,
    at: usize,
}

impl Pairs for Range<'_> {
    fn next(&mut self) -> Result<Option<()>, DatabaseError> {
        self.at += 1;
        if self.at < self.page.len() {
            return Ok(Some(()));
        }
        let Some(from) = self.next.take() else {
            self.page.clear();
            return Ok(None);
        };
        (self.page, self.at) = (self.tables.page(self.table, &from)?, 0);
        let is_full = self.page.len() as i64 == PAGE;
        self.next = self.page.last().filter(|_| is_full).map(|(last, _)| [&last[..], &[0]].concat());
        Ok((!self.page.is_empty()).then_some(()))
    }

    fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.page.get(self.at).map(|(key, value)| (&key[..], &value[..]))
    }
}

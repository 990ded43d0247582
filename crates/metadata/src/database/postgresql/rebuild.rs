//! A schema made from rows, in one transaction that also renames the present one: both happen or neither.

use super::lease::{prepare, try_lock};
use super::schema::{owner, statements};
use super::server::{Server, Trouble};
use crate::database::{DatabaseError, Rebuild, Table};
use postgres::Client;
use std::path::PathBuf;

/// Bound: bytes of rows sent in one statement.
const RUN_BYTES: usize = 1 << 20;

struct Making {
    shown: PathBuf,
    client: Client,
    /// The epoch and the incarnation of the present schema; `None`: there is none.
    present: Option<(i64, i64)>,
    /// The name under which the present schema is kept.
    before: String,
    table: Table,
    keys: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
    bytes: usize,
}

/// Begins a schema that is to take the place of the one in a database.
///
/// # Errors
/// [`DatabaseError::held`] if a service is active there; or it belongs to another store, or cannot be reached.
pub fn rebuild(server: &Server, store: u64) -> Result<Box<dyn Rebuild>, DatabaseError> {
    let at_start = |trouble| server.at_start(trouble);
    let mut client = server.connect().map_err(at_start)?;
    prepare(server, &mut client).map_err(at_start)?;
    // Held until the session ends: no service can start meanwhile.
    if !try_lock(server, &mut client).map_err(at_start)? {
        return Err(DatabaseError { held: true, ..server.error("in use by a running metadata service: stop the store first") });
    }
    begin(server, client, store).map(|making| Box::new(making) as Box<dyn Rebuild>).map_err(at_start)
}

fn begin(server: &Server, mut client: Client, store: u64) -> Result<Making, Trouble> {
    let there = "SELECT nspname::text FROM pg_namespace WHERE starts_with(nspname::text, 'thalweg')";
    let names: Vec<String> = client.query(there, &[]).map_err(|e| server.trouble(&e))?.iter().map(|row| row.get(0)).collect();
    let before = (1..).map(|n: u32| format!("thalweg_before_restore_{n}")).find(|name| !names.contains(name));
    let before = before.expect("one of so many names is free");
    let mut sql = String::from("BEGIN; SET LOCAL synchronous_commit = on;");
    let mut present = None;
    if names.iter().any(|name| name == "thalweg") {
        // A schema that is not whole has no owner that could be read; its service has been fenced by its last epoch in any case.
        let epoch = owner(server, &mut client, store).map(|found| found.map_or(0, |found| found.epoch));
        let epoch = epoch.or_else(|trouble| match trouble {
            Trouble::Refused(error) if !error.problem.contains("belongs to the store") => Ok(0),
            other => Err(other),
        })?;
        let counted = client.query_opt("SELECT incarnation FROM thalweg.owner", &[]).ok().flatten().map_or(0, |row| row.get(0));
        present = Some((epoch, counted));
        sql.push_str(&format!("ALTER SCHEMA thalweg RENAME TO {before};"));
    }
    sql.push_str(&statements(store));
    client.batch_execute(&sql).map_err(|e| server.trouble(&e))?;
    let shown = server.shown().to_owned();
    Ok(Making { shown, client, present, before, table: Table::State, keys: Vec::new(), values: Vec::new(), bytes: 0 })
}

impl Making {
    fn error(&self, error: &postgres::Error) -> DatabaseError {
        let said = error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
        DatabaseError::new(&self.shown, format!("nothing was changed there: PostgreSQL says: {said}"))
    }

    /// Sends the rows set since the last time.
    fn send(&mut self) -> Result<(), DatabaseError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let name = self.table.name();
        let sql = format!(
            "INSERT INTO thalweg.{name} SELECT k, v FROM unnest($1::bytea[], $2::bytea[]) AS r(k, v) \
             ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        );
        let (keys, values) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.values));
        self.bytes = 0;
        self.client.execute(&sql, &[&keys, &values]).map(drop).map_err(|e| self.error(&e))
    }
}

impl Rebuild for Making {
    fn put(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<(), DatabaseError> {
        let is_again = self.keys.last().is_some_and(|last| last == key);
        if table != self.table || self.bytes >= RUN_BYTES || value.is_none() || is_again {
            self.send()?;
            self.table = table;
        }
        let Some(value) = value else {
            let sql = format!("DELETE FROM thalweg.{} WHERE key = $1", table.name());
            return self.client.execute(&sql, &[&key]).map(drop).map_err(|e| self.error(&e));
        };
        self.bytes += key.len() + value.len();
        self.keys.push(key.to_vec());
        self.values.push(value.to_vec());
        Ok(())
    }

    fn finish(mut self: Box<Self>, change: u64) -> Result<Option<String>, DatabaseError> {
        self.send()?;
        let change = i64::try_from(change).unwrap_or(i64::MAX - 1);
        // The epoch grows, so that a service of the earlier schema is fenced; the change that begins an epoch stays in the log.
        let (epoch, incarnation) = self.present.map_or((0, 0), |(epoch, incarnation)| (epoch + 1, incarnation + 1));
        let mut sql = format!(
            "UPDATE thalweg.owner SET epoch = {epoch}, change = {change}, incarnation = {incarnation}; UPDATE thalweg.lease SET epoch = {epoch};"
        );
        if epoch > 0 {
            sql.push_str(&format!("INSERT INTO thalweg.log (number, epoch, records) VALUES ({} + 1, {epoch}, '');", change));
        }
        sql.push_str("COMMIT");
        self.client.batch_execute(&sql).map_err(|e| self.error(&e))?;
        Ok(self.present.map(|_| format!("the schema {} of {}", self.before, self.shown.display())))
    }
}

//! The schema `thalweg` in the database: a table of keys and values for each [`Table`], the owner, the lease and the log.
//!
//! | table | content |
//! |---|---|
//! | `owner` | one row: the store, the format version, the epoch of the active service, the number of the last change in the tables, the
//! boot of PostgreSQL when that was written |
//! | `lease` | one row: the epoch, and a counter that the active service increments while it lives |
//! | `log` | changes by number, without gaps: the records ([`crate::database::log`]) of each one's transactions |
//! | each [`Table`] | `key bytea primary key, value bytea`: as of the change in `owner`; later changes are in the log |
//!
//! A service that takes over appends a change without records in the transaction that raises the epoch; this change stays in the log
//! permanently. Its number is the next one of the previous service, so that anything that service still sends has a number in use and
//! fails. So appending needs no check of the epoch, and is one row.
//!
//! The function `apply` writes changes into the tables in one transaction. It first checks the owner's epoch, and the number of the last
//! change, so that a change sent again after its answer was lost is applied once.

use super::server::{FENCED, Server, Trouble};
use crate::database::{DatabaseError, PUT_BACK, Table};
use postgres::Client;
use thalweg_base::release;

/// The format version.
const VERSION: i32 = 1;
/// The advisory lock of the active service in its database.
pub(super) const LOCK: i64 = i64::from_be_bytes(*b"thalweg\0");

/// Returns a query for the rows of `pg_locks` that show the holder of [`LOCK`].
pub(super) fn holders() -> String {
    let (high, low) = (LOCK >> 32, LOCK & 0xffff_ffff);
    format!(
        "pg_locks WHERE locktype = 'advisory' AND granted AND classid = {high}::bigint::oid AND objid = {low}::bigint::oid AND objsubid = 1 \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
}

/// The owner's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub epoch: i64,
    /// The number of the last change in the tables.
    pub change: i64,
    /// The number of the last change.
    pub last: i64,
    /// Identifies the last active service.
    pub holder: String,
}

const OWNER: &str =
    "SELECT store, version, epoch, change, holder, greatest(change, (SELECT max(number) FROM thalweg.log)) FROM thalweg.owner";

/// The statement that appends a change: number, epoch, records.
pub(super) const APPEND: &str = "INSERT INTO thalweg.log (number, epoch, records) VALUES ($1, $2, $3)";

/// Reads the owner of the database; `None` if there is none yet.
pub(super) fn owner(server: &Server, client: &mut Client, store: u64) -> Result<Option<Owner>, Trouble> {
    let is_there = client.query_opt("SELECT 1 FROM pg_namespace WHERE nspname = 'thalweg'", &[]).map_err(|e| server.trouble(&e))?;
    if is_there.is_none() {
        return Ok(None);
    }
    let row = client.query_opt(OWNER, &[]).map_err(|e| server.trouble(&e))?;
    let refused = |problem: String| Err(Trouble::Refused(server.error(problem)));
    let Some(row) = row else { return refused(format!("its table `owner` is empty: {PUT_BACK}")) };
    let (found, version): (String, i32) = (row.get(0), row.get(1));
    let own = format!("{store:016x}");
    if version > VERSION {
        return refused(release::other_format("a store's names", version, VERSION, None));
    }
    if found != own {
        return refused(format!("it belongs to the store {found}, not to {own}: give another database, each store needs its own"));
    }
    Ok(Some(Owner { epoch: row.get(2), change: row.get(3), holder: row.get(4), last: row.get(5) }))
}

/// Creates the schema in one transaction.
pub(super) fn create(server: &Server, client: &mut Client, store: u64) -> Result<(), Trouble> {
    let sql = format!("BEGIN; SET LOCAL synchronous_commit = on; {} COMMIT", statements(store));
    client.batch_execute(&sql).map_err(|e| {
        let _ = client.batch_execute("ROLLBACK");
        server.trouble(&e)
    })
}

/// Returns the statements that create the schema, for use in a transaction.
pub(super) fn statements(store: u64) -> String {
    let mut sql = String::from("CREATE SCHEMA thalweg;");
    let row = "one boolean PRIMARY KEY DEFAULT true CHECK (one)";
    sql.push_str(&format!(
        "CREATE TABLE thalweg.owner ({row}, store text NOT NULL, version integer NOT NULL, epoch bigint NOT NULL, change bigint NOT NULL, \
         holder text NOT NULL, started text NOT NULL DEFAULT '', incarnation bigint NOT NULL DEFAULT 0); CREATE TABLE thalweg.lease ({row}, epoch bigint NOT NULL, beat bigint NOT NULL);"
    ));
    for table in Table::ALL {
        sql.push_str(&format!("CREATE TABLE thalweg.{} (key bytea PRIMARY KEY, value bytea NOT NULL);", table.name()));
    }
    // (Compression would cost more than it saves.)
    sql.push_str(
        "CREATE TABLE thalweg.log (number bigint PRIMARY KEY, epoch bigint NOT NULL, records bytea NOT NULL); \
         ALTER TABLE thalweg.log ALTER records SET STORAGE EXTERNAL;",
    );
    sql.push_str(&apply_function());
    sql.push_str(&format!(
        "INSERT INTO thalweg.owner (store, version, epoch, change, holder) VALUES ('{store:016x}', {VERSION}, 0, 0, ''); \
         INSERT INTO thalweg.lease (epoch, beat) VALUES (0, 0);"
    ));
    sql
}

/// Checks that all tables and the function exist, and that the lease's row matches the owner's.
pub(super) fn check_whole(server: &Server, client: &mut Client) -> Result<(), Trouble> {
    let rows = client.query("SELECT tablename FROM pg_tables WHERE schemaname = 'thalweg'", &[]).map_err(|e| server.trouble(&e))?;
    let there: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let expected = Table::ALL.iter().map(|table| table.name()).chain(["log", "lease"]);
    match expected.into_iter().find(|name| !there.iter().any(|found| found == name)) {
        None => {}
        Some(lost) => return Err(Trouble::Refused(server.error(format!("its table `{lost}` is gone: {PUT_BACK}")))),
    }
    let sql = "SELECT to_regproc('thalweg.apply') IS NOT NULL, (SELECT epoch FROM thalweg.lease), (SELECT epoch FROM thalweg.owner)";
    let row = client.query_one(sql, &[]).map_err(|e| server.trouble(&e))?;
    let (has_function, leased, owned): (bool, Option<i64>, Option<i64>) = (row.get(0), row.get(1), row.get(2));
    let refused = |problem: String| Err(Trouble::Refused(server.error(format!("{problem}: {PUT_BACK}"))));
    match (leased, owned) {
        _ if !has_function => refused("its function `apply` is gone".into()),
        (None, _) => Err(no_lease(server)),
        (Some(leased), Some(owned)) if leased != owned => {
            refused(format!("its table `lease` has the epoch {leased} and its table `owner` {owned}: expected the same epoch"))
        }
        _ => Ok(()),
    }
}

/// Returns the error of a missing lease row.
pub(super) fn no_lease(server: &Server) -> Trouble {
    Trouble::Refused(server.error(format!("its table `lease` is empty, it has one row: {PUT_BACK}")))
}

/// Checks that this user has the privileges of a service, including creating the tables unless `is_made`.
pub(super) fn check_rights(server: &Server, client: &mut Client, is_made: bool) -> Result<(), DatabaseError> {
    let lacking = if is_made {
        "SELECT string_agg(format('%s on %s', r, tablename), ', ') FROM pg_tables, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) r \
         WHERE schemaname = 'thalweg' AND NOT has_table_privilege(format('thalweg.%I', tablename), r)"
    } else {
        "SELECT 'CREATE on the database' WHERE NOT has_database_privilege(current_database(), 'CREATE')"
    };
    let row = client
        .query_one(&format!("SELECT current_setting('transaction_read_only'), ({lacking}), current_user::text"), &[])
        .map_err(|e| server.at_start(server.trouble(&e)))?;
    let (read_only, lacks, user): (String, Option<String>, String) = (row.get(0), row.get(1), row.get(2));
    if read_only == "on" {
        return Err(server.at_start(Trouble::ReadOnly));
    }
    match lacks {
        None => Ok(()),
        Some(lacks) => Err(server.error(format!("the user {user} lacks rights there ({lacks}): grant these"))),
    }
}

/// Returns the statement that applies a change: epoch, number, then the keys and values of each table; NULL deletes.
pub(super) fn apply_statement() -> String {
    let parameters: Vec<String> = (1..=2 + 2 * Table::ALL.len()).map(|n| format!("${n}")).collect();
    format!("SELECT thalweg.apply({})", parameters.join(", "))
}

fn apply_function() -> String {
    let parameters: Vec<String> = Table::ALL.iter().map(|t| format!("{0}_keys bytea[], {0}_values bytea[]", t.name())).collect();
    let change = |table: &Table| {
        let name = table.name();
        format!(
            "IF cardinality({name}_keys) > 0 THEN \
             INSERT INTO thalweg.{name} AS old SELECT k, v FROM unnest({name}_keys, {name}_values) AS changed(k, v) WHERE v IS NOT NULL \
             ON CONFLICT (key) DO UPDATE SET value = excluded.value; \
             IF array_position({name}_values, NULL) IS NOT NULL THEN \
             DELETE FROM thalweg.{name} WHERE key IN (SELECT k FROM unnest({name}_keys, {name}_values) AS changed(k, v) WHERE v IS NULL); \
             END IF; END IF;"
        )
    };
    let changes: Vec<String> = Table::ALL.iter().map(change).collect();
    format!(
        "CREATE FUNCTION thalweg.apply(ours bigint, number bigint, {}) RETURNS void LANGUAGE plpgsql AS $apply$ BEGIN \
         UPDATE thalweg.owner SET change = number WHERE epoch = ours AND change < number; \
         IF NOT FOUND THEN \
         IF EXISTS (SELECT FROM thalweg.owner WHERE epoch = ours) THEN RETURN; END IF; \
         RAISE EXCEPTION 'another metadata service has taken over' USING ERRCODE = '{FENCED}'; END IF; \
         {} END $apply$;",
        parameters.join(", "),
        changes.join(" ")
    )
}

/// Deletes changes from the log that are in the tables, except those with which services started.
pub(super) fn trim(client: &mut Client, last: u64) -> Result<(), postgres::Error> {
    let last = i64::try_from(last).unwrap_or(i64::MAX);
    client.execute("DELETE FROM thalweg.log WHERE number <= $1 AND octet_length(records) > 0", &[&last])?;
    // So many rows are written and deleted that autovacuum runs too late. (Only a warning if the user lacks the privilege.)
    client.batch_execute("VACUUM (INDEX_CLEANUP on, TRUNCATE off) thalweg.log")
}

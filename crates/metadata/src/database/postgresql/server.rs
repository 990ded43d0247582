//! The PostgreSQL server: its address, sessions, and the meaning of its errors.

use super::password;
use crate::database::{DatabaseError, PUT_BACK};
use postgres::config::{Host, TargetSessionAttrs};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The error code by which the database's own function reports that another service has taken over.
pub(super) const FENCED: &str = "TH001";
/// Timeout of one attempt to connect.
const CONNECT: Duration = Duration::from_secs(3);
/// Timeout of operations: slightly shorter than clients' for a silent service.
const PATIENCE: Duration = Duration::from_secs(25);
/// Timeout for the acknowledgement of sent data, after which a connection is abandoned.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);
/// Initial settings of every session. The primary key is the only index and must be used even when the planner's statistics are old. That
/// makes plans look expensive, and JIT-compiling each would take a millisecond.
const SETTINGS: &str = "SET default_transaction_isolation = 'serializable'; SET synchronous_commit = off; SET client_min_messages = warning; \
    SET jit = off; SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
    SET plan_cache_mode = force_generic_plan; SET search_path = thalweg, pg_catalog; SET bytea_output = 'hex'; SET lock_timeout = 0; \
    SET statement_timeout = 0; SET idle_session_timeout = 0; SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; \
    SET tcp_keepalives_count = 4";

/// A database on a PostgreSQL server.
#[derive(Debug)]
pub struct Server {
    config: Config,
    shown: PathBuf,
    /// Timeout of operations while PostgreSQL is unreachable, such as during a restart or the promotion of a standby.
    pub(super) patience: Duration,
    /// Number of requests for rows and of changes sent.
    round_trips: AtomicU64,
}

/// The outcome of a failed statement.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The connection or the server failed: whether the statement was executed is unknown.
    Lost(String),
    /// Another transaction conflicted; the statement had no effect.
    Again,
    /// Another service has taken over; the statement had no effect.
    Fenced,
    /// The server is read-only; the statement had no effect.
    ReadOnly,
    /// The statement had no effect, and repeating it is useless.
    Refused(DatabaseError),
}

impl Server {
    /// Returns the server of a store: at this address, with its password or one found elsewhere ([`password`]).
    ///
    /// # Errors
    /// Those of [`Server::parse`]; or others can read a password file.
    pub fn of_store(address: &str, store_toml: &Path) -> thalweg_wire::Result<Server> {
        let mut server = Server::parse(address)?;
        password::find(&mut server.config, Some(store_toml))?;
        Ok(server)
    }

    /// Parses `postgresql://…`.
    ///
    /// # Errors
    /// One sentence on what is wrong with the address.
    pub fn parse(address: &str) -> Result<Server, DatabaseError> {
        let is_address = ["postgresql://", "postgres://"].iter().any(|scheme| address.starts_with(scheme));
        let parsed = if is_address { address.parse::<Config>().map_err(|e| reason(&e)) } else { Err("another scheme".to_owned()) };
        let mut config = parsed.map_err(|problem| {
            let expected = "expected postgresql://USER@HOST:PORT/DATABASE, or postgresql:///DATABASE?host=/DIRECTORY for a socket";
            DatabaseError::new(Path::new(presentable(address)), format!("not a valid address ({problem}): {expected}"))
        })?;
        if config.get_user().is_some_and(|user| user.contains(['/', '?'])) {
            let problem = "an `@` after the host makes the text before it the user: write it as %40";
            return Err(DatabaseError::new(Path::new(presentable(address)), problem));
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host_path("/var/run/postgresql");
        }
        if config.get_hosts().len() > 1 && config.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        config.keepalives_idle(Duration::from_secs(2)).keepalives_interval(Duration::from_secs(1)).keepalives_retries(4);
        config.tcp_user_timeout(UNACKNOWLEDGED);
        if config.get_application_name().is_none() {
            config.application_name("thalweg metadata");
        }
        let shown = PathBuf::from(shown(&config));
        Ok(Server { config, shown, patience: PATIENCE, round_trips: AtomicU64::new(0) })
    }

    /// Returns its name for messages, without its password.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    /// Shortens its timeout.
    #[cfg(test)]
    pub(crate) fn with_patience(self, patience: Duration) -> Server {
        Server { patience, ..self }
    }

    /// Counts a request for rows or a change.
    pub(super) fn asks(&self) {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of these.
    #[cfg(test)]
    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// Creates an error of this database.
    pub(super) fn error(&self, problem: impl Into<String>) -> DatabaseError {
        DatabaseError::new(&self.shown, problem)
    }

    /// Opens a session.
    pub(super) fn connect(&self) -> Result<Client, Trouble> {
        let mut client = self.config.connect(NoTls).map_err(|e| self.trouble(&e))?;
        client.batch_execute(SETTINGS).map_err(|e| self.trouble(&e))?;
        Ok(client)
    }

    /// Classifies an error.
    pub(super) fn trouble(&self, error: &postgres::Error) -> Trouble {
        let text = reason(error);
        let Some(code) = error.code() else { return Trouble::Lost(text) };
        let refused = |advice: &str| Trouble::Refused(self.error(format!("PostgreSQL says: {text}: {advice}")));
        match code {
            code if code.code() == FENCED => Trouble::Fenced,
            code if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED => Trouble::Again,
            // A log number in use: by a change sent twice over two sessions, or by another service. Reading the row decides which.
            code if *code == SqlState::UNIQUE_VIOLATION => Trouble::Lost(text),
            code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Trouble::ReadOnly,
            code if *code == SqlState::TOO_MANY_CONNECTIONS => Trouble::Lost(text),
            // Shut down, crashed, starting up, or a connection error.
            code if code.code().starts_with("57P") || code.code().starts_with("08") => Trouble::Lost(text),
            code if *code == SqlState::DISK_FULL => {
                let full = format!("its disk is full ({text}): free space there");
                Trouble::Refused(DatabaseError { full: true, ..self.error(full) })
            }
            code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                refused("grant the user all rights on the schema thalweg, and CREATE on the database to create it")
            }
            code if code.code().starts_with("28") => refused("check the user, the password and pg_hba.conf"),
            code if *code == SqlState::INVALID_CATALOG_NAME => refused("create it with createdb"),
            // PostgreSQL's own checks of its files.
            code if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED, SqlState::UNDEFINED_FILE].contains(code) => {
                refused(&format!("its files are damaged: {PUT_BACK}"))
            }
            code if code.code().starts_with("42") || code.code().starts_with("3F") => {
                refused(&format!("the schema thalweg is not whole: {PUT_BACK}"))
            }
            _ => refused("its log says more"),
        }
    }

    /// Returns the error of a start, when no client has been answered yet.
    pub(super) fn at_start(&self, trouble: Trouble) -> DatabaseError {
        match trouble {
            Trouble::Lost(text) => self.error(format!("cannot be reached ({text}): start PostgreSQL, or correct the address")),
            Trouble::ReadOnly => self.error("is read-only, as a standby is: give the address of the primary, or several hosts"),
            Trouble::Again => self.error("another service is starting simultaneously: start this one again"),
            Trouble::Fenced => self.error("another metadata service took over while this one started"),
            Trouble::Refused(error) => error,
        }
    }
}

/// Returns an error's text with its source's.
fn reason(error: &postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        return db.message().to_owned();
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

/// Returns the part of an invalid address that may be shown: it may contain a password anywhere.
fn presentable(address: &str) -> &'static str {
    if address.starts_with("postgres") { "postgresql://..." } else { "the database's address" }
}

fn shown(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or(ports.first()).map_or_else(String::new, |port| format!(":{port}"));
    let host = |(at, host): (usize, &Host)| match host {
        Host::Tcp(name) => format!("{name}{}", port(at)),
        Host::Unix(path) => format!("{}{}", path.display(), port(at)),
    };
    let mut hosts: Vec<String> = config.get_hosts().iter().enumerate().map(host).collect();
    if hosts.is_empty() {
        hosts = config.get_hostaddrs().iter().enumerate().map(|(at, address)| format!("{address}{}", port(at))).collect();
    }
    let user = config.get_user().map_or_else(String::new, |user| format!("{user}@"));
    format!("postgresql://{user}{}/{}", hosts.join(","), config.get_dbname().unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let server = Server::parse("postgresql://me:secret@one:5433,two:5434/names").unwrap();
        assert_eq!(server.shown(), Path::new("postgresql://me@one:5433,two:5434/names"));
        assert_eq!(server.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite, "of several, the one that takes changes");
        let socket = Server::parse("postgresql:///names?host=/run/pg&user=me").unwrap();
        assert_eq!(socket.shown(), Path::new("postgresql://me@/run/pg/names"));
        for wrong in [
            "mysql://me:secret@host/names",
            "names",
            "postgresql://me:secret@host:port/names",
            "postgresql://host:port/names?password=secret",
            "postgresql://me:secret/names",
            "postgresql://me@host/names?passwd=secret",
            "host=db user=me password=secret",
        ] {
            let error = Server::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("expected postgresql://") && !error.contains("secret"), "{error}");
        }
        let error = Server::parse("postgresql://host/names?password=secret@x").unwrap_err().to_string();
        assert!(error.contains("%40") && !error.contains("secret"), "{error}");
    }
}

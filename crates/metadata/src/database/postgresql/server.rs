//! Where the PostgreSQL server is, sessions on it, and what its errors mean here.

use super::password;
use crate::database::{DatabaseError, PUT_BACK};
use postgres::config::{Host, TargetSessionAttrs};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The code with which the database's own function says that another service has taken over.
pub(super) const FENCED: &str = "TH001";
/// How long one attempt to connect takes at most.
const CONNECT: Duration = Duration::from_secs(3);
/// How long operations wait: a little less than clients wait for a silent service.
const PATIENCE: Duration = Duration::from_secs(25);
/// A link is given up when what was sent on it is not acknowledged for so long.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);
/// What every session begins with. Keys are the only index, and what the planner knows of the tables is often old: it is to use it. That makes
/// plans look expensive, and compiling each would take a millisecond.
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
    /// How long operations wait for a PostgreSQL that is away: it starts again, or a standby is promoted.
    pub(super) patience: Duration,
    /// Questions for rows, and changes, that were sent.
    round_trips: AtomicU64,
}

/// What went wrong with a statement.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The connection, or the server: whether the statement was carried out is not known.
    Lost(String),
    /// Another transaction came between; nothing was done.
    Again,
    /// Another service has taken over; nothing was done.
    Fenced,
    /// The server takes no changes; nothing was done.
    ReadOnly,
    /// Nothing was done, and nothing would be the next time.
    Refused(DatabaseError),
}

impl Server {
    /// The server of a store: at this address, with the password that it has or that is found elsewhere ([`password`]).
    ///
    /// # Errors
    /// As [`Server::parse`]; where a file with passwords can be read by others.
    pub fn of_store(address: &str, store_toml: &Path) -> thalweg_wire::Result<Server> {
        let mut server = Server::parse(address)?;
        password::find(&mut server.config, Some(store_toml))?;
        Ok(server)
    }

    /// What `postgresql://…` means.
    ///
    /// # Errors
    /// One sentence, when it means nothing.
    pub fn parse(address: &str) -> Result<Server, DatabaseError> {
        let is_address = ["postgresql://", "postgres://"].iter().any(|scheme| address.starts_with(scheme));
        let parsed = if is_address { address.parse::<Config>().map_err(|e| reason(&e)) } else { Err("another scheme".to_owned()) };
        let mut config = parsed.map_err(|problem| {
            let expected = "expected postgresql://USER@HOST:PORT/DATABASE, or postgresql:///DATABASE?host=/DIRECTORY for a socket";
            DatabaseError::new(Path::new(presentable(address)), format!("this is no address of one ({problem}): {expected}"))
        })?;
        if config.get_user().is_some_and(|user| user.contains(['/', '?'])) {
            let problem = "an `@` after the host is not written %40, so that what is before it would be the user: write it so";
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

    /// How it is named to people: without its password.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    /// One that gives up earlier.
    #[cfg(test)]
    pub(crate) fn with_patience(self, patience: Duration) -> Server {
        Server { patience, ..self }
    }

    /// A question for rows, or a change, is sent.
    pub(super) fn asks(&self) {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were sent.
    #[cfg(test)]
    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// An error of this database.
    pub(super) fn error(&self, problem: impl Into<String>) -> DatabaseError {
        DatabaseError::new(&self.shown, problem)
    }

    /// A new session.
    pub(super) fn connect(&self) -> Result<Client, Trouble> {
        let mut client = self.config.connect(NoTls).map_err(|e| self.trouble(&e))?;
        client.batch_execute(SETTINGS).map_err(|e| self.trouble(&e))?;
        Ok(client)
    }

    /// What an error means.
    pub(super) fn trouble(&self, error: &postgres::Error) -> Trouble {
        let text = reason(error);
        let Some(code) = error.code() else { return Trouble::Lost(text) };
        let refused = |advice: &str| Trouble::Refused(self.error(format!("PostgreSQL says: {text}: {advice}")));
        match code {
            code if code.code() == FENCED => Trouble::Fenced,
            code if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED => Trouble::Again,
            // Of the log's numbers: a change that was sent twice over two sessions, or another service's. What is there now says which.
            code if *code == SqlState::UNIQUE_VIOLATION => Trouble::Lost(text),
            code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Trouble::ReadOnly,
            code if *code == SqlState::TOO_MANY_CONNECTIONS => Trouble::Lost(text),
            // Shut down, crashed, starting up, or the connection.
            code if code.code().starts_with("57P") || code.code().starts_with("08") => Trouble::Lost(text),
            code if *code == SqlState::DISK_FULL => {
                let full = format!("its disk is full ({text}): free space there");
                Trouble::Refused(DatabaseError { full: true, ..self.error(full) })
            }
            code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                refused("the user needs all rights on the schema thalweg, and CREATE on the database to make it")
            }
            code if code.code().starts_with("28") => refused("check the user, the password and pg_hba.conf"),
            code if *code == SqlState::INVALID_CATALOG_NAME => refused("make it with createdb"),
            // Its own checks of what is on its disk.
            code if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED, SqlState::UNDEFINED_FILE].contains(code) => {
                refused(&format!("its files are damaged: {PUT_BACK}"))
            }
            code if code.code().starts_with("42") || code.code().starts_with("3F") => {
                refused(&format!("the schema thalweg is not whole: {PUT_BACK}"))
            }
            _ => refused("its log says more"),
        }
    }

    /// An error at a start, when nothing was answered to anybody yet.
    pub(super) fn at_start(&self, trouble: Trouble) -> DatabaseError {
        match trouble {
            Trouble::Lost(text) => self.error(format!("cannot be reached ({text}): start PostgreSQL, or correct the address")),
            Trouble::ReadOnly => self.error("is read-only, as a standby is: give the address of the primary, or several hosts"),
            Trouble::Again => self.error("another service starts at the same time: start this one again"),
            Trouble::Fenced => self.error("another metadata service took over while this one started"),
            Trouble::Refused(error) => error,
        }
    }
}

/// What an error says, with what its source says.
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

/// What may be shown of an address that is none: where its password is, or whether it has one, is not known.
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

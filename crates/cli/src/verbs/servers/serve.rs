//! `thalweg serve --store store.toml --name io0`: runs one server of a store until SIGINT or SIGTERM.
//!
//! It prints `NAME HOST:PORT` as the first line on standard output when it serves.

use super::starting::{self, StartFlags, until_stopped};
use crate::{failure::Failure, interrupt::Interrupt, output};
use std::path::PathBuf;
use thalweg_store::config::StoreConfig;
use thalweg_store::start::{self, RunningStore};
use thalweg_wire::ErrorKind;

/// Arguments of `thalweg serve`.
#[derive(clap::Args)]
#[command(after_help = starting::TRUST)]
pub(crate) struct Arguments {
    /// The store.toml that describes the store
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// The server to run: `metadata`, `standby1` for the first address below `standby`, or the name of an I/O server
    #[arg(long)]
    name: String,
    /// The metadata service's PostgreSQL database, overriding store.toml. Its password comes from PGPASSWORD, database.password beside
    /// store.toml (mode 600), or ~/.pgpass
    #[arg(long, value_name = "postgresql://...")]
    metadata_database: Option<String>,
    #[command(flatten)]
    start: StartFlags,
}

/// Starts the server, reports that it serves, and stops it on a signal.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    starting::close_to_others();
    let interrupt = Interrupt::listen()?;
    let mut config = StoreConfig::read(&arguments.store).map_err(Failure::failed)?;
    if arguments.metadata_database.is_some() {
        config.metadata.database.clone_from(&arguments.metadata_database);
    }
    let Some(store) = active(&config, arguments, &interrupt)? else { return Ok(()) };
    arguments.start.warn(&store);
    let listens = store.names().next().and_then(|name| store.listens(name)).map_or_else(String::new, |a| a.to_string());
    output::line(&format!("{} {listens}", arguments.name))?;
    until_stopped(store, &interrupt)
}

/// Returns the server once it serves. One of several metadata services is active, and the others stand by; `None` if a signal ended the
/// wait.
fn active(config: &StoreConfig, arguments: &Arguments, interrupt: &Interrupt) -> Result<Option<RunningStore>, Failure> {
    let mut options = arguments.start.options();
    loop {
        match start::serve(config, &arguments.name, options) {
            Err(error) if error.kind() == ErrorKind::Busy && config.has_standbys() => output::note(&format!("standing by: {error}")),
            other => return other.map(Some).map_err(Failure::failed),
        }
        options.take_over = start::stand_by(config, &|| interrupt.is_raised()).map_err(Failure::failed)?;
        if options.take_over.is_none() {
            return Ok(None);
        }
    }
}

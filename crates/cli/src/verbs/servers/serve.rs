//! `thalweg serve --store store.toml --name io0`: one server of a store, until SIGINT or SIGTERM.
//!
//! The first line on standard output is `NAME HOST:PORT`, when it serves.

use super::starting::{self, StartFlags, until_stopped};
use crate::{failure::Failure, interrupt::Interrupt, output};
use std::path::PathBuf;
use thalweg_store::{config::StoreConfig, start};

/// Arguments of `thalweg serve`.
#[derive(clap::Args)]
#[command(after_help = starting::TRUST)]
pub(crate) struct Arguments {
    /// The store.toml that describes the store
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// The server to run: `metadata`, or the name of an I/O server
    #[arg(long)]
    name: String,
    /// The metadata service's database on a PostgreSQL server, instead of what store.toml says
    #[arg(long, value_name = "postgresql://...")]
    metadata_database: Option<String>,
    #[command(flatten)]
    start: StartFlags,
}

/// Starts the server, says that it serves, and stops it when asked to.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let mut config = StoreConfig::read(&arguments.store).map_err(Failure::failed)?;
    if arguments.metadata_database.is_some() {
        config.metadata.database.clone_from(&arguments.metadata_database);
    }
    let store = start::serve(&config, &arguments.name, arguments.start.options()).map_err(Failure::failed)?;
    arguments.start.warn(&store);
    let listens = store.listens(&arguments.name).map_or_else(String::new, |a| a.to_string());
    output::line(&format!("{} {listens}", arguments.name))?;
    until_stopped(store, &interrupt)
}

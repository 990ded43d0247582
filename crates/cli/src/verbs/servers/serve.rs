//! `thalweg serve --store store.toml --name io0`: one server of a store, until SIGINT or SIGTERM.
//!
//! The first line on standard output is `NAME HOST:PORT`, when it serves.

use super::up::{Missing, until_stopped};
use crate::{failure::Failure, interrupt::Interrupt, output};
use std::path::PathBuf;
use thalweg_store::{config::StoreConfig, start};

/// Arguments of `thalweg serve`.
#[derive(clap::Args)]
#[command(after_help = crate::output::NO_CREDENTIALS)]
pub struct Arguments {
    /// The store.toml that describes the store
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// Which of its servers this is: `metadata`, or the name of an I/O server
    #[arg(long)]
    name: String,
    /// Listen on an address that others than this machine can reach: whoever reaches a port can do everything there
    #[arg(long)]
    beyond_loopback: bool,
    #[command(flatten)]
    missing: Missing,
}

/// Starts the server, says that it serves, and stops it when asked to.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let config = StoreConfig::read(&arguments.store).map_err(Failure::failed)?;
    let store = start::serve(&config, &arguments.name, arguments.missing.options(arguments.beyond_loopback)).map_err(Failure::failed)?;
    if arguments.beyond_loopback {
        output::note(output::NO_CREDENTIALS);
    }
    let listens = store.listens(&arguments.name).map_or_else(String::new, |a| a.to_string());
    output::line(&format!("{} {listens}", arguments.name))?;
    until_stopped(store, &interrupt)
}

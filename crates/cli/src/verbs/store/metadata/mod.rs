//! `thalweg metadata`: backups of a store's names while it runs, restoring one, and checking the metadata.

mod check;
mod reach;
mod restore;

use self::reach::{connect, time_text};
use crate::operand::StoreFlags;
use crate::terminal::progress::Progress;
use crate::{failure::Failure, lots, output};
use serde::Serialize;
use std::path::PathBuf;
use thalweg_base::numbers;
use thalweg_store::backup;

/// Arguments of `thalweg metadata`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Back up the names of a running store into a new file: everything as of one moment
    Backup(Backup),
    /// Make the metadata of a stopped store anew from a backup; what is there now is kept, and what was made since is listed
    Restore(restore::Restore),
    /// Check the metadata of a running or a stopped store, or a backup; exits with 3 when something is found
    Check(check::Check),
}

#[derive(clap::Args)]
#[command(
    after_help = "Needs the store's own credential. The file has names, attributes, layouts, lots and the list of credentials, but no bytes \
of files and no secrets, and only you can read it. It is on stable storage when the command ends. docs/STORE.md says how to restore it."
)]
struct Backup {
    /// The file to write; it must not exist
    file: PathBuf,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// The document of `backup --json`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    file: String,
    store: String,
    /// The service's start, and the last change in the backup.
    epoch: u64,
    change: u64,
    taken: String,
    names: u64,
    rows: u64,
    bytes: u64,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Backup(backup) => take(backup),
        What::Restore(restore) => restore::run(restore),
        What::Check(check) => check::run(check),
    }
}

fn take(arguments: &Backup) -> Result<(), Failure> {
    if arguments.file.as_os_str() == "-" {
        return Err(Failure::usage("-: a backup is a file, since it gets its name once it is complete: give one"));
    }
    let store = arguments.store.path("/")?.store;
    let options = connect(&arguments.store, &store).map_err(Failure::failed)?;
    let address = store.service().map_err(Failure::failed)?;
    let progress = Progress::new(&arguments.file.display().to_string(), None, arguments.quiet || arguments.json);
    let now_s = u64::try_from(lots::now_ns() / 1_000_000_000).unwrap_or(0);
    let taken = backup::take(&address, &options, &arguments.file, now_s, &|bytes| progress.advance(bytes)).map_err(Failure::failed)?;
    drop(progress);
    let (header, file) = (taken.header, arguments.file.display().to_string());
    if arguments.json {
        return output::json(&Document {
            schema: "thalweg.metadata-backup/1",
            file,
            store: header.store,
            epoch: header.epoch,
            change: header.change,
            taken: time_text(header.taken_s),
            names: taken.names,
            rows: taken.rows,
            bytes: taken.size_bytes,
        });
    }
    let (names, size) = (numbers::count(taken.names), numbers::size(taken.size_bytes));
    output::line(&format!(
        "{file}: {names} names of store {}, {size}, as of change {} in start {}",
        header.store, header.change, header.epoch
    ))
}

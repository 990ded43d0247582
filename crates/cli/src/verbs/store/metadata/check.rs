//! `thalweg metadata check`.

use super::reach::connect;
use crate::operand::StoreFlags;
use crate::{failure::Failure, output};
use serde::Serialize;
use std::path::PathBuf;
use thalweg_base::numbers;
use thalweg_store::backup::{self, Source};
use thalweg_store::config::{StoreAddress, StoreConfig};
use thalweg_wire::ErrorKind;

#[derive(clap::Args)]
#[command(
    after_help = "Checks that every row can be read, that names and files refer to each other, link counts, attributes, targets, lots' accounts, \
drafts and credentials. Given a store.toml whose store does not run, it also verifies each page of the database and each record of the log. Of \
a running store it checks what the service serves, as of one moment, with the store's own credential. It changes nothing."
)]
pub(super) struct Check {
    /// A backup to check, instead of a store
    file: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// The document of `check --json`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    /// `backup`, `running` or `stopped`.
    of: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    /// Rows by table.
    rows: Vec<Rows>,
    findings: Vec<Finding>,
    /// Findings beyond those listed.
    more: u64,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Rows {
    table: &'static str,
    rows: u64,
}

#[derive(Serialize)]
struct Finding {
    table: &'static str,
    key: String,
    problem: String,
}

pub(super) fn run(arguments: &Check) -> Result<(), Failure> {
    let (of, (checked, notes)) = match &arguments.file {
        Some(file) => ("backup", backup::check(&Source::File(file)).map_err(Failure::failed)?),
        None => of_store(arguments)?,
    };
    let found = checked.findings.len() as u64 + checked.more;
    if arguments.json {
        let finding = |f: &backup::Finding| Finding { table: f.table, key: f.key.clone(), problem: f.problem.clone() };
        output::json(&Document {
            schema: "thalweg.metadata-check/1",
            of,
            store: checked.store.map(|store| format!("{store:016x}")),
            rows: checked.rows.iter().map(|(table, rows)| Rows { table, rows: *rows }).collect(),
            findings: checked.findings.iter().map(finding).collect(),
            more: checked.more,
            notes,
        })?;
    } else {
        for finding in &checked.findings {
            output::line(&format!("{} {}: {}", finding.table, finding.key, finding.problem))?;
        }
        if checked.more > 0 {
            output::line(&format!("and {} more", numbers::count(checked.more)))?;
        }
        let rows = |table: &str| checked.rows.iter().find(|(name, _)| *name == table).map_or(0, |(_, rows)| *rows);
        let (names, inodes) = (numbers::count(rows("entries")), numbers::count(rows("inodes")));
        let found = if found == 0 { "nothing found".to_owned() } else { format!("{} found", numbers::count(found)) };
        output::line(&format!("{names} names, {inodes} files and directories: {found}"))?;
        notes.iter().for_each(|note| output::note(note));
    }
    if found == 0 { Ok(()) } else { Err(Failure::Verdict(3)) }
}

type Outcome = (backup::Checked, Vec<String>);

/// Checks a store: a running one through its service, and one that does not run, and is described by a `store.toml`, in its files.
fn of_store(arguments: &Check) -> Result<(&'static str, Outcome), Failure> {
    let store = arguments.store.path("/")?.store;
    let options = connect(&arguments.store, &store).map_err(Failure::failed)?;
    let address = store.service().map_err(Failure::failed)?;
    match (backup::check(&Source::Running(&address, &options)), &store) {
        (Ok(found), _) => Ok(("running", found)),
        (Err(error), StoreAddress::File(path)) if error.kind() == ErrorKind::Refused => {
            let config = StoreConfig::read(path).map_err(Failure::failed)?;
            Ok(("stopped", backup::check(&Source::Stopped(&config)).map_err(Failure::failed)?))
        }
        (Err(error), StoreAddress::Service(_)) if error.kind() == ErrorKind::Refused => {
            Err(Failure::failed(format!("{error}; to check a store that does not run, give its store.toml with --store")))
        }
        (Err(error), _) => Err(Failure::failed(error)),
    }
}

//! Checking the metadata: of a running service, of a stopped store, or in a backup.

use super::file::Backup;
use super::restore::AtRest;
use super::take::Parts;
use crate::config::StoreConfig;
use std::path::Path;
use thalweg_metadata::backup::{Check, Checked, Finding, Order, each_row};
use thalweg_metadata::database::Table;
use thalweg_wire::{Connect, Result};

/// What to check.
#[derive(Clone, Debug)]
pub enum Source<'a> {
    /// The running service at this address: its rows as of one moment.
    Running(&'a str, &'a Connect),
    /// A stopped store: its rows, and the files that they are in.
    Stopped(&'a StoreConfig),
    /// A backup.
    File(&'a Path),
}

/// Checks the metadata; also returns notes, a sentence each.
///
/// # Errors
/// It cannot be read at all, or, of a stopped store, is in use.
pub fn check(source: &Source<'_>) -> Result<(Checked, Vec<String>)> {
    let (mut check, mut order, mut notes) = (Check::default(), Order::default(), Vec::new());
    let mut take = |part: &[u8]| {
        each_row(part, &mut order, |table, key, value| {
            check.row(table, key, value);
            Ok(())
        })
    };
    match source {
        Source::Running(address, options) => {
            let mut parts = Parts::of(address, options)?;
            while let Some((_, part)) = parts.next()? {
                take(&part)?;
            }
        }
        Source::File(path) => {
            let mut backup = Backup::open(path)?;
            while let Some(part) = backup.part()? {
                take(&part)?;
            }
        }
        Source::Stopped(config) => return stopped(config),
    }
    if let Source::Running(..) = source {
        notes.push(
            "the service runs: its files were not read, only what it serves; `metadata check` of a stopped store verifies them too".into(),
        );
    }
    Ok((check.finish(), notes))
}

/// Checks a stopped store. A database that cannot be opened is a finding.
fn stopped(config: &StoreConfig) -> Result<(Checked, Vec<String>)> {
    let whole = |at: &Path, problem: String| Finding { table: "database", key: at.display().to_string(), problem };
    let (moment, torn) = match AtRest::of(config)?.read(config) {
        Ok(Some(found)) => found,
        Ok(None) => {
            let findings = vec![whole(&config.metadata.directory, "it holds no metadata: check that its file system is mounted".into())];
            return Ok((Checked { findings, ..Checked::default() }, Vec::new()));
        }
        Err(error) if error.held => return Err(error.into()),
        Err(error) => return Ok((Checked { findings: vec![whole(&error.path, error.problem)], ..Checked::default() }, Vec::new())),
    };
    let mut check = Check::default();
    for table in Table::ALL {
        let scanned = moment.view.scan(table, &[], None, &mut |key, value| {
            check.row(table, key, value);
            true
        });
        scanned?;
    }
    Ok((check.finish(), torn.into_iter().collect()))
}

//! What was made after a backup, and where its datafiles are: from the database that a restore replaces, if it can be read, and from the
//! directories of the targets on this machine.

use crate::config::StoreConfig;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use thalweg_io::look;
use thalweg_metadata::backup::{Created, Restoring};
use thalweg_wire::protocol::common::Witnessed;
use thalweg_wire::protocol::metadata::{FileId, FileKind, TargetId};
use thalweg_wire::{Connect, Connection, Result};

/// Clocks of machines differ by less, mostly: files written this long before a backup count as written since.
const CLOCKS: Duration = Duration::from_secs(60);
/// How long an I/O server may take to say what it has witnessed.
const PATIENCE: Duration = Duration::from_secs(2);

/// A file or directory that was made after the backup. Its names are not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its number.
    pub id: FileId,
    /// What it is; `None`: only its datafiles are known.
    pub kind: Option<FileKind>,
    /// Its paths.
    pub paths: Vec<Vec<u8>>,
    /// Its datafiles: where they are, and their lengths.
    pub datafiles: Vec<(PathBuf, u64)>,
}

/// What was made after a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// Files and directories, by number.
    pub made: Vec<Made>,
    /// How many files and directories of the backup had been removed since, and have names again; `None`: unknown.
    pub removed: Option<u64>,
    /// Targets whose directories are not on this machine, and why nothing is known of them, a sentence each.
    pub unseen: Vec<String>,
}

/// What targets have.
pub(super) struct Targets {
    /// What they have witnessed.
    pub seen: Vec<Witnessed>,
    /// The datafiles by file, and when the last of them was written.
    datafiles: BTreeMap<FileId, (SystemTime, Vec<(PathBuf, u64)>)>,
    unseen: Vec<String>,
}

impl Targets {
    /// Looks at all targets of a store: in their directories on this machine, and through their servers where these answer.
    pub(super) fn look(config: &StoreConfig, peers: &Connect) -> Result<Targets> {
        let mut found = Targets { seen: Vec::new(), datafiles: BTreeMap::new(), unseen: Vec::new() };
        for server in &config.servers {
            let mut away = Vec::new();
            for (number, directory) in &server.targets {
                let datafiles = &mut found.datafiles;
                let seen = look(directory, config.store, *number, &mut |one| {
                    let (modified, of_file) = datafiles.entry(one.file).or_insert((SystemTime::UNIX_EPOCH, Vec::new()));
                    *modified = (*modified).max(one.modified);
                    of_file.push((one.path, one.size_bytes));
                })?;
                match seen {
                    Some(seen) => found.seen.push(seen),
                    None => away.push(*number),
                }
            }
            if !away.is_empty() {
                found.ask(&server.name, &server.address, &away, peers);
            }
        }
        Ok(found)
    }

    fn ask(&mut self, server: &str, address: &str, targets: &[TargetId], peers: &Connect) {
        let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
        let targets = format!("{server}, target {}: not on this machine, so its datafiles made since are not listed", targets.join(", "));
        let options = Connect { timeout: PATIENCE, ..peers.clone() };
        self.unseen.push(match Connection::connect(address, &options) {
            Ok(connection) => {
                let hello = connection.hello();
                self.seen.push(Witnessed { start: hello.service_start, change: hello.change });
                targets
            }
            Err(error) => format!(
                "{targets}; the server did not answer ({}). If it has seen a later start than all others, the metadata service will refuse it, and \
                 say so: start that with --accept-older-metadata then",
                error.message()
            ),
        });
    }

    /// Returns whether any datafile of a file was written after this time.
    pub(super) fn was_written(&self, id: FileId, taken_s: u64) -> bool {
        let taken = SystemTime::UNIX_EPOCH + Duration::from_secs(taken_s).saturating_sub(CLOCKS);
        self.datafiles.get(&id).is_some_and(|(modified, _)| *modified >= taken)
    }

    /// Lists what the backup does not know: the files that the present database has beyond it, and datafiles of unknown files.
    pub(super) fn since(self, restoring: &Restoring, present: Option<(Vec<Created>, u64)>) -> Since {
        let mut made: BTreeMap<FileId, Made> = BTreeMap::new();
        let removed = present.as_ref().map(|(_, removed)| *removed);
        for Created { id, kind, paths } in present.map(|(created, _)| created).unwrap_or_default() {
            made.insert(id, Made { id, kind: Some(kind), paths, datafiles: Vec::new() });
        }
        for (id, (_, datafiles)) in self.datafiles {
            if !restoring.has(id) {
                made.entry(id).or_insert_with(|| Made { id, kind: None, paths: Vec::new(), datafiles: Vec::new() }).datafiles = datafiles;
            }
        }
        made.values_mut().for_each(|made| made.datafiles.sort());
        Since { made: made.into_values().collect(), removed, unseen: self.unseen }
    }
}

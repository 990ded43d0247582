//! The revoked credentials known to an I/O server: reported by the metadata service, and stored in each target's directory for a
//! start while the service is away.

use super::target::Target;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_base::durable;
use thalweg_wire::protocol::credentials::Revoked;
use thalweg_wire::trust::{CredentialId, Gate};
use thalweg_wire::{Error, ErrorKind, Result};

const NAME: &str = "thalweg-revoked.toml";

/// The contents of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokedList {
    revision: u64,
    /// Numbers of credentials, 32 hexadecimal digits each.
    revoked: Vec<String>,
}

/// The revoked credentials known here.
pub(super) struct KnownRevoked {
    gate: Arc<Gate>,
    revision: AtomicU64,
}

impl KnownRevoked {
    pub(super) fn new(gate: &Arc<Gate>) -> KnownRevoked {
        KnownRevoked { gate: Arc::clone(gate), revision: AtomicU64::new(0) }
    }

    /// Returns the last revocation known here.
    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Refuses the credentials that were revoked when a server of these targets last ran.
    ///
    /// # Errors
    /// When a target's file cannot be read: a revoked credential might be accepted.
    pub(super) fn load<'a>(&self, targets: impl Iterator<Item = &'a Target>) -> Result<()> {
        for target in targets {
            let path = target.directory().join(NAME);
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(Error::system(path.display(), e)),
            };
            self.gate.revoke(&read(&text).map_err(|problem| {
                let what = "it lists the revoked credentials. Remove it once the metadata service is running, which sends the list again";
                Error::new(ErrorKind::Invalid, format!("{}: {problem}: {what}", path.display()))
            })?);
        }
        Ok(())
    }

    /// Refuses the credentials that the service reports as revoked, and stores the list.
    ///
    /// # Errors
    /// When the list cannot be stored; the credentials are refused nevertheless.
    pub(super) fn learn<'a>(&self, revoked: &Revoked, targets: impl Iterator<Item = &'a Target>) -> Result<()> {
        self.gate.revoke(&revoked.ids);
        let list = RevokedList { revision: revoked.revision, revoked: revoked.ids.iter().map(ToString::to_string).collect() };
        let text = toml::to_string(&list).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
        for target in targets {
            keep(target.directory(), &text)?;
        }
        self.revision.store(revoked.revision, Ordering::Release);
        Ok(())
    }
}

fn keep(directory: &Path, text: &str) -> Result<()> {
    let path = directory.join(NAME);
    if durable::is_there(text, &path) {
        return Ok(());
    }
    durable::replace(text, &path).map_err(|e| Error::system(path.display(), e))
}

fn read(text: &str) -> std::result::Result<Vec<CredentialId>, String> {
    let list: RevokedList = toml::from_str(text).map_err(|e| e.message().to_owned())?;
    let id = |digits: &String| digits.parse().map_err(|()| format!("`{}` is not a credential's number", digits.escape_debug()));
    list.revoked.iter().map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::protocol::io::TargetId;
    use thalweg_wire::trust::{Credential, Rights};

    #[test]
    fn what_was_revoked_is_refused_after_a_start_without_the_service_and_a_damaged_list_refuses_to_start() {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::initialise(directory.path(), 7, TargetId(0)).unwrap();
        let store = Credential::new_store(7);
        let ana = store.derive("ana", Rights::Write, None).unwrap().identity;
        let gate = || Arc::new(Gate::new(&store).unwrap());
        let (before, after) = (gate(), gate());
        KnownRevoked::new(&before).learn(&Revoked { revision: 3, ids: vec![ana.id] }, std::iter::once(&target)).unwrap();
        assert!(before.still(&ana).is_err() && after.still(&ana).is_ok());
        let known = KnownRevoked::new(&after);
        known.load(std::iter::once(&target)).unwrap();
        assert!(after.still(&ana).is_err());
        assert_eq!(known.revision(), 0, "the service is asked all the same");
        std::fs::write(directory.path().join(NAME), "revision = 3\nrevoked = [\"7\"]\n").unwrap();
        let error = known.load(std::iter::once(&target)).unwrap_err();
        assert!(error.message().contains(NAME), "{error}");
    }
}

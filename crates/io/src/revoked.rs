//! What an I/O server knows of revoked credentials: what the metadata service says, and what it said last, in each target's directory, for a
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

/// What the file says.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    revision: u64,
    /// Numbers of credentials, 32 hexadecimal digits each.
    revoked: Vec<String>,
}

/// See the module.
pub(super) struct KnownRevoked {
    gate: Arc<Gate>,
    revision: AtomicU64,
}

impl KnownRevoked {
    pub(super) fn new(gate: &Arc<Gate>) -> KnownRevoked {
        KnownRevoked { gate: Arc::clone(gate), revision: AtomicU64::new(0) }
    }

    /// The last revocation that is known here.
    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Refuses from now on what was revoked when a server of these targets ran last.
    ///
    /// # Errors
    /// When a target's file cannot be read: who was revoked might come in again.
    pub(super) fn load<'a>(&self, targets: impl Iterator<Item = &'a Target>) -> Result<()> {
        for target in targets {
            let path = target.directory().join(NAME);
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(Error::system(path.display(), e)),
            };
            self.gate.revoke(&read(&text).map_err(|problem| {
                let what = "it says which credentials are revoked. Remove it when the metadata service runs, which says so again";
                Error::new(ErrorKind::Invalid, format!("{}: {problem}: {what}", path.display()))
            })?);
        }
        Ok(())
    }

    /// The service says what is revoked.
    ///
    /// # Errors
    /// When it cannot be kept; it is refused all the same.
    pub(super) fn learn<'a>(&self, revoked: &Revoked, targets: impl Iterator<Item = &'a Target>) -> Result<()> {
        self.gate.revoke(&revoked.ids);
        let kept = Kept { revision: revoked.revision, revoked: revoked.ids.iter().map(ToString::to_string).collect() };
        let text = toml::to_string(&kept).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
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
    let kept: Kept = toml::from_str(text).map_err(|e| e.message().to_owned())?;
    let id = |digits: &String| digits.parse().map_err(|()| format!("`{}` is no credential's number", digits.escape_debug()));
    kept.revoked.iter().map(id).collect()
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

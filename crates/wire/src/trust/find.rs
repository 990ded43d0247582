//! Finds the credential for a store.
//!
//! Search order: the one given (`--credential`, or the file named by `THALWEG_CREDENTIAL`), the file named in `store.toml`, then
//! `thalweg/STORE.credential` in `$XDG_RUNTIME_DIR` and in `$XDG_STATE_HOME` (default `~/.local/state`), where a starting store
//! publishes its own for the user who starts it.

use super::credential::Credential;
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, flock};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_base::machine;
use thalweg_base::private;
use thalweg_base::sync::Mutex;

/// The environment variable that names a credential file.
pub const CREDENTIAL_VARIABLE: &str = "THALWEG_CREDENTIAL";

/// The source of a client's credentials. Clones share a cache.
#[derive(Clone, Debug)]
pub struct Credentials {
    source: Source,
    found: Arc<Mutex<HashMap<u64, Arc<Credential>>>>,
}

#[derive(Clone, Debug)]
enum Source {
    Given(Arc<Credential>),
    File(PathBuf),
    /// The file named in `store.toml`, if there is one.
    Search(Option<PathBuf>),
}

impl Default for Credentials {
    /// Uses the file named by the environment; otherwise searches.
    fn default() -> Credentials {
        match std::env::var_os(CREDENTIAL_VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Credentials::of(Source::File(path.into())),
            None => Credentials::of(Source::Search(None)),
        }
    }
}

impl Credentials {
    fn of(source: Source) -> Credentials {
        Credentials { source, found: Arc::default() }
    }

    /// Searches, ignoring the environment.
    #[cfg(test)]
    pub(crate) fn searched() -> Credentials {
        Credentials::of(Source::Search(None))
    }

    /// Uses this credential for every store.
    pub fn given(credential: Credential) -> Credentials {
        Credentials::of(Source::Given(Arc::new(credential)))
    }

    /// Uses the credential in this file.
    pub fn file(path: impl Into<PathBuf>) -> Credentials {
        Credentials::of(Source::File(path.into()))
    }

    /// If credentials are searched for, tries this file (named in `store.toml`) first.
    #[must_use]
    pub fn near(self, path: &Path) -> Credentials {
        match self.source {
            Source::Search(_) => Credentials::of(Source::Search(Some(path.to_owned()))),
            _ => self,
        }
    }

    /// Returns the store of a given credential, which saves asking a server for it.
    pub(crate) fn store(&self) -> Result<Option<u64>> {
        match &self.source {
            Source::Given(credential) => Ok(Some(credential.store)),
            Source::File(path) => Ok(Some(self.keep(Credential::read(path)?).store)),
            Source::Search(_) => Ok(None),
        }
    }

    /// Returns the credential for this store.
    ///
    /// # Errors
    /// [`ErrorKind::Access`] with the places searched when there is none; otherwise the error of the first one found.
    pub fn for_store(&self, store: u64) -> Result<Arc<Credential>> {
        if let Some(found) = self.found.lock().get(&store) {
            return Ok(Arc::clone(found));
        }
        let places = match &self.source {
            Source::Given(credential) => return Ok(Arc::clone(credential)),
            Source::File(path) => vec![path.clone()],
            Source::Search(near) => near.iter().cloned().chain(user_directories().into_iter().map(|d| d.join(file_name(store)))).collect(),
        };
        let mut looked_for = Vec::new();
        for place in &places {
            let is_left = is_left_behind(place);
            if is_left {
                place.parent().into_iter().for_each(remove_left_behind);
            }
            // A file that was being published while it was probed still exists.
            if is_left && !place.exists() {
                looked_for.push(format!("{} (removed: left behind by a killed store)", place.display()));
                continue;
            }
            match Credential::read(place) {
                Ok(credential) => return Ok(self.keep(credential)),
                Err(error) if error.kind() == ErrorKind::NotFound => looked_for.push(place.display().to_string()),
                // When several places are searched, an unreadable one is skipped: a readable store.toml may stand beside another
                // user's credential.
                Err(_) if places.len() > 1 && is_out_of_reach(place) => {
                    looked_for.push(format!("{} (not readable by you)", place.display()))
                }
                Err(error) => return Err(error),
            }
        }
        let problem = format!(
            "no credential for store {store:016x} (looked for {}): the store's administrator makes one with \
             `thalweg credential create NAME`; give it with --credential FILE or {CREDENTIAL_VARIABLE}",
            looked_for.join("; ")
        );
        Err(Error::new(ErrorKind::Access, problem))
    }

    fn keep(&self, credential: Credential) -> Arc<Credential> {
        let credential = Arc::new(credential);
        self.found.lock().insert(credential.store, Arc::clone(&credential));
        credential
    }
}

/// Whether this process may not read the file or its directory.
fn is_out_of_reach(path: &Path) -> bool {
    std::fs::File::open(path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Returns the file name of a store's credential in a user's directory.
fn file_name(store: u64) -> String {
    format!("{store:016x}.credential")
}

/// Returns the directories searched for a user's credentials; new ones go to the first that is usable.
fn user_directories() -> Vec<PathBuf> {
    let runtime = directory_of("XDG_RUNTIME_DIR").map(|directory| directory.join("thalweg"));
    [runtime, state_directory()].into_iter().flatten().collect()
}

/// Returns this user's state directory: `thalweg` in `$XDG_STATE_HOME` or `~/.local/state`. `None`: neither variable is set.
pub fn state_directory() -> Option<PathBuf> {
    let state = directory_of("XDG_STATE_HOME").or_else(|| directory_of("HOME").map(|home| home.join(".local/state")));
    state.map(|directory| directory.join("thalweg"))
}

fn directory_of(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// A store's own credential, published for the user who runs it and removed on drop.
///
/// The file stays locked while this is held, so that one left behind by a killed process is recognised: no process on the machine
/// named in it has it locked. (Rejected: the process id, which may be reused and means nothing in another container.)
#[derive(Debug)]
pub struct Published {
    path: PathBuf,
    credential: Credential,
    _locked: File,
}

/// Precedes the machine's name in a published file.
const PUBLISHED: &str = "Published by a running store on ";

impl Published {
    /// Publishes the credential, and removes those left behind by killed stores.
    ///
    /// # Errors
    /// When the user has no writable directory for it.
    pub fn publish(credential: &Credential) -> Result<Published> {
        let mut failure = Error::new(ErrorKind::NotFound, "neither XDG_RUNTIME_DIR, XDG_STATE_HOME nor HOME is set");
        let directories = user_directories();
        directories.iter().for_each(|directory| remove_left_behind(directory));
        for directory in directories {
            let path = directory.join(file_name(credential.store));
            let made = private::make_directory(&directory).map_err(|e| Error::system(directory.display(), e));
            match made.and_then(|()| Published::write(credential, &directory, &path)) {
                Ok(locked) => return Ok(Published { path, credential: credential.clone(), _locked: locked }),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Writes and locks the file before others can probe its lock.
    fn write(credential: &Credential, directory: &Path, path: &Path) -> Result<File> {
        let _directory = lock_directory(directory)?;
        credential.write_with(&format!("{PUBLISHED}{}", machine::host_name()), path)?;
        let file = File::open(path).map_err(|e| Error::system(path.display(), e))?;
        // A probe locks the file for a moment. On a file system without locks, no file counts as left behind.
        let _ = flock(&file, FlockOperation::LockShared);
        Ok(file)
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // Only the file this process wrote: a store recreated meanwhile has another.
        if Credential::read(&self.path).is_ok_and(|there| there == self.credential) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Excludes others that publish or clean up in the directory.
fn lock_directory(directory: &Path) -> Result<File> {
    let opened = File::open(directory).map_err(|e| Error::system(directory.display(), e))?;
    let _ = flock(&opened, FlockOperation::LockExclusive);
    Ok(opened)
}

/// Whether a killed process left the file behind on this machine: it is not locked. Files of other machines (a shared home
/// directory) are never judged.
fn is_left_behind(path: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(path) else { return false };
    let host = text.lines().next().and_then(|line| line.strip_prefix("# ")?.strip_prefix(PUBLISHED));
    let is_free = || File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok());
    host.is_some_and(|host| host == machine::host_name()) && is_free()
}

/// Removes credentials left behind by killed stores in a user's directory.
fn remove_left_behind(directory: &Path) {
    let Ok(_locked) = lock_directory(directory) else { return };
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "credential") && is_left_behind(&path) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_that_is_missing_is_named_with_where_it_was_looked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none");
        let error = Credentials::file(&path).for_store(0xabc).unwrap_err();
        assert!(error.message().contains(&path.display().to_string()) && error.message().contains("credential create"), "{error}");
        let one = Credential::new_store(0xabc);
        one.write(&path).unwrap();
        let found = Credentials::of(Source::Search(None)).near(&path).for_store(0xabc).unwrap();
        assert_eq!(*found, one);
        assert_eq!(Credentials::file(&path).store().unwrap(), Some(0xabc));
    }

    #[test]
    fn what_a_killed_store_published_is_known_and_what_a_running_one_has_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let [held, left, plain, elsewhere] =
            ["held", "left", "plain", "elsewhere"].map(|name| directory.path().join(format!("{name}.credential")));
        let credential = Credential::new_store(0xabc);
        let locked = Published::write(&credential, directory.path(), &held).unwrap();
        drop(Published::write(&credential, directory.path(), &left).unwrap());
        credential.write(&plain).unwrap();
        credential.write_with(&format!("{PUBLISHED}another-host"), &elsewhere).unwrap();
        assert_eq!([&held, &left, &plain, &elsewhere].map(|path| is_left_behind(path)), [false, true, false, false]);
        remove_left_behind(directory.path());
        assert_eq!([&held, &left, &plain, &elsewhere].map(|path| path.exists()), [true, false, true, true]);
        drop(locked);
        credential.write_with(&format!("{PUBLISHED}{}", machine::host_name()), &elsewhere).unwrap();
        remove_left_behind(directory.path());
        assert_eq!([&held, &elsewhere].map(|path| path.exists()), [false, false]);
        assert_eq!(*Credentials::file(&plain).for_store(0xabc).unwrap(), credential);
    }
}

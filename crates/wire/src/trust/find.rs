//! Finding the credential for a store without being asked for one.
//!
//! In this order: what was given (`--credential`, or the file that `THALWEG_CREDENTIAL` names), the file that `store.toml` names, and
//! `thalweg/STORE.credential` in `$XDG_RUNTIME_DIR` and in `$XDG_STATE_HOME` (by default `~/.local/state`), where a store that is started
//! puts its own for the user who starts it.

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

/// Names a file with a credential.
pub const CREDENTIAL_VARIABLE: &str = "THALWEG_CREDENTIAL";

/// Where a client's credentials come from. Clones share what was found.
#[derive(Clone, Debug)]
pub struct Credentials {
    source: Source,
    found: Arc<Mutex<HashMap<u64, Arc<Credential>>>>,
}

#[derive(Clone, Debug)]
enum Source {
    Given(Arc<Credential>),
    File(PathBuf),
    /// The file that `store.toml` names, if there is one.
    Search(Option<PathBuf>),
}

impl Default for Credentials {
    /// The file that the environment names; otherwise they are searched for.
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

    /// Not what the environment names, but searched for.
    #[cfg(test)]
    pub(crate) fn searched() -> Credentials {
        Credentials::of(Source::Search(None))
    }

    /// This one, whatever the store.
    pub fn given(credential: Credential) -> Credentials {
        Credentials::of(Source::Given(Arc::new(credential)))
    }

    /// The one in this file.
    pub fn file(path: impl Into<PathBuf>) -> Credentials {
        Credentials::of(Source::File(path.into()))
    }

    /// The same; where they are searched for, this file, which a `store.toml` names, comes first.
    #[must_use]
    pub fn near(self, path: &Path) -> Credentials {
        match self.source {
            Source::Search(_) => Credentials::of(Source::Search(Some(path.to_owned()))),
            _ => self,
        }
    }

    /// The store of the one that was given, so that a server need not be asked for its own.
    pub(crate) fn store(&self) -> Result<Option<u64>> {
        match &self.source {
            Source::Given(credential) => Ok(Some(credential.store)),
            Source::File(path) => Ok(Some(self.keep(Credential::read(path)?).store)),
            Source::Search(_) => Ok(None),
        }
    }

    /// The one for this store.
    ///
    /// # Errors
    /// [`ErrorKind::Access`] when there is none, with where it was looked for; what is wrong with the first that is there.
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
            // (One that was just being published when it was probed is still there.)
            if is_left && !place.exists() {
                looked_for.push(format!("{}, which a store that was killed had left there: removed", place.display()));
                continue;
            }
            match Credential::read(place) {
                Ok(credential) => return Ok(self.keep(credential)),
                Err(error) if error.kind() == ErrorKind::NotFound => looked_for.push(place.display().to_string()),
                // Where several places are searched, one that is somebody else's is no hindrance: beside a store.toml that one may read
                // stands a credential that one may not.
                Err(_) if places.len() > 1 && is_out_of_reach(place) => {
                    looked_for.push(format!("{}, which you may not read", place.display()))
                }
                Err(error) => return Err(error),
            }
        }
        let problem = format!(
            "no credential for store {store:016x} (looked for {}): who runs the store makes one with `thalweg credential create NAME`; give it with \
             --credential FILE or {CREDENTIAL_VARIABLE}",
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

/// Whether a file, or its directory, may not be read by this process.
fn is_out_of_reach(path: &Path) -> bool {
    std::fs::File::open(path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// The name of a store's credential in a user's directory.
fn file_name(store: u64) -> String {
    format!("{store:016x}.credential")
}

/// Where a user's credentials are looked for, and the first that there is written to.
fn user_directories() -> Vec<PathBuf> {
    let runtime = directory_of("XDG_RUNTIME_DIR").map(|directory| directory.join("thalweg"));
    [runtime, state_directory()].into_iter().flatten().collect()
}

/// Where what is kept for this user is: `thalweg` in `$XDG_STATE_HOME`, or in `~/.local/state`. `None`: neither is set.
pub fn state_directory() -> Option<PathBuf> {
    let state = directory_of("XDG_STATE_HOME").or_else(|| directory_of("HOME").map(|home| home.join(".local/state")));
    state.map(|directory| directory.join("thalweg"))
}

fn directory_of(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// A store's own credential among those of the user who runs it; taken away again when this is dropped.
///
/// The file is locked as long as it is held, so that one that a killed process left behind is known: on the machine that it names, no process has it
/// locked. (Rejected: the process's number, which another may have by now, and which means nothing in another container.)
#[derive(Debug)]
pub struct Published {
    path: PathBuf,
    credential: Credential,
    _locked: File,
}

/// In front of the name of a published file's machine.
const PUBLISHED: &str = "Published by a running store on ";

impl Published {
    /// Puts it there, and takes away what stores that were killed left there.
    ///
    /// # Errors
    /// When the user has no directory that it can be written to.
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

    /// Writes the file, and locks it before anybody can look whether it is.
    fn write(credential: &Credential, directory: &Path, path: &Path) -> Result<File> {
        let _directory = lock_directory(directory)?;
        credential.write_with(&format!("{PUBLISHED}{}", machine::host_name()), path)?;
        let file = File::open(path).map_err(|e| Error::system(path.display(), e))?;
        // Who probes a file has it locked for a moment. Where a file system has no locks, no file is taken for one that was left behind.
        let _ = flock(&file, FlockOperation::LockShared);
        Ok(file)
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // Only what this wrote: a store that was made anew in the meantime has another.
        if Credential::read(&self.path).is_ok_and(|there| there == self.credential) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Holds off others who publish, or look for what was left behind, in a directory.
fn lock_directory(directory: &Path) -> Result<File> {
    let opened = File::open(directory).map_err(|e| Error::system(directory.display(), e))?;
    let _ = flock(&opened, FlockOperation::LockExclusive);
    Ok(opened)
}

/// Whether a file is one that a killed process published on this machine: nobody has it locked. Of another machine's, as in a home directory that several
/// have, nothing is known.
fn is_left_behind(path: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(path) else { return false };
    let host = text.lines().next().and_then(|line| line.strip_prefix("# ")?.strip_prefix(PUBLISHED));
    let is_free = || File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok());
    host.is_some_and(|host| host == machine::host_name()) && is_free()
}

/// Takes away what stores that were killed left in a user's directory.
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

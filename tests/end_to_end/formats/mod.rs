//! The formats of 0.1: what an earlier release wrote is read (`tests/formats/` holds one of each), and what another release wrote is refused in
//! one sentence.

mod meeting;
mod read_again;

use crate::bounded::Bounded;
use crate::common::{CREDENTIAL, CommandOutput, Running, Up, scratch, text, thalweg};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a fixture's path.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats").join(name)
}

/// Copies a directory of a fixture, to change it.
fn copy_of(name: &str, to: &Path) {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).expect("a directory can be made");
        for entry in std::fs::read_dir(from).expect("the fixture is there").flatten() {
            let (path, to) = (entry.path(), to.join(entry.file_name()));
            match path.is_dir() {
                true => copy(&path, &to),
                false => assert!(std::fs::copy(&path, &to).is_ok(), "{} can be copied", path.display()),
            }
        }
    }
    copy(&fixture(name), to);
}

/// Replaces a text in a file, which must have it once.
#[track_caller]
fn replace(path: &Path, from: &str, to: &str) {
    let old = std::fs::read_to_string(path).expect("a text file");
    assert_eq!(old.matches(from).count(), 1, "`{from}` in {}: {old}", path.display());
    std::fs::write(path, old.replace(from, to)).expect("it can be written");
}

/// Unpacks the store of the first release into a directory of its own.
fn unpacked_store() -> tempfile::TempDir {
    unpacked("store-1")
}

/// Unpacks the store of a fixture into a directory of its own.
fn unpacked(store: &str) -> tempfile::TempDir {
    let here = scratch();
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(here.path()).args(["--xattrs", "--strip-components=1", "-xzf"]).arg(fixture(&format!("{store}.tar.gz")));
    assert!(tar.status_in_time().expect("tar starts").success());
    here
}

/// Returns the command that starts such a store.
fn up(directory: &Path) -> Command {
    thalweg(["up", "--print-address", "--servers", "2", text(directory)])
}

/// Runs a command with the store's own credential. (The one that `up` gives its user's commands goes with the first of these stores that ends:
/// they are all one.)
fn with_own(store: &Up, arguments: &[&str]) -> CommandOutput {
    let mut command = thalweg(arguments);
    command.env(CREDENTIAL, store.credential()).output_in_time().expect("the command starts").into()
}

/// Starts such a store, and waits until it serves.
fn started(directory: tempfile::TempDir) -> Up {
    let mut process = Running::start(up(directory.path()));
    let address = process.line();
    assert!(address.starts_with("thal://"), "it comes up: `{address}`");
    Up { process, address, directory }
}

//! Lots on the command line and on mounts: creation, use, end, and ownership.

mod copies;
mod endings;
mod full;
mod mounted;
mod owners;
mod shown;

use crate::common::{CommandOutput, Up, run, text};
use std::path::PathBuf;

/// Runs `thalweg lot ...` on a store.
fn lot(store: &Up, arguments: &[&str]) -> CommandOutput {
    run([&["lot"], arguments, &["--store", &store.address]].concat())
}

/// Creates a lot that lasts two hours.
#[track_caller]
fn make(store: &Up, name: &str, size: &str) {
    lot(store, &["create", name, "--size", size, "--for", "2h"]).done();
}

/// Returns `lot show --json`, whatever its exit code.
#[track_caller]
fn show(store: &Up, name: &str) -> serde_json::Value {
    lot(store, &["show", name, "--json"]).json()
}

/// Returns the used bytes of a lot.
#[track_caller]
fn used(store: &Up, name: &str) -> u64 {
    show(store, name)["used_bytes"].as_u64().expect("what is used")
}

/// Creates a credential of another owner, in a file beside the store's own.
fn credential_of(store: &Up, owner: &str) -> PathBuf {
    use thalweg_wire::trust::{Credential, Rights};
    let of_store = Credential::read(&store.directory.path().join("store.credential")).expect("the store's credential");
    let path = store.directory.path().join(format!("{owner}.credential"));
    of_store.derive(owner, Rights::Write, None).and_then(|derived| derived.write(&path)).expect("a credential");
    path
}

/// Runs `thalweg ARGUMENTS` with a credential.
fn run_as(store: &Up, credential: &std::path::Path, arguments: &[&str]) -> CommandOutput {
    run([arguments, &["--store", &store.address, "--credential", text(credential)]].concat())
}

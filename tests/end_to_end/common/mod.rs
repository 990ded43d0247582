//! Shared by the tests: running the command, stores in one process or several, files to copy, waiting for conditions.
//!
//! Everything started here is ended by its own process ID when its owner is dropped.

mod disk;
mod mounts;
mod network;
mod process;
mod servers;

pub use crate::content::content;
pub use disk::SmallDisk;
pub use mounts::{Mounted, can_mount, listed};
pub use network::{Network, description};
pub use process::{CommandOutput, Running, THALWEG, run, thalweg};
pub use servers::{Servers, Up};

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Creates a directory that is removed when dropped.
pub fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("thalweg-test-").tempdir().expect("a temporary directory")
}

/// Creates a directory on ext4, beside cargo's output; `Err` holds the reason if there is none.
pub fn on_ext4() -> Result<tempfile::TempDir, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let of = std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(target).output().expect("stat");
    match String::from_utf8_lossy(&of.stdout).trim() {
        "ext2/ext3" => Ok(tempfile::Builder::new().prefix("thalweg-test-").tempdir_in(target).expect("a temporary directory")),
        other => Err(format!("{} is not on ext4, but on {other}", target.display())),
    }
}

/// Creates a file with these bytes.
pub fn file(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, bytes).expect("a file can be written");
    path
}

/// Returns a path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// Returns the part of a page for readers without scripts.
pub fn static_part(page: &str) -> &str {
    page.split_once("<main id=\"static\">").expect("a page of ours").1.split_once("</main>").expect("its end").0
}

/// The environment variable for a credential file.
pub const CREDENTIAL: &str = "THALWEG_CREDENTIAL";

/// Copies a credential into this directory, owned by this user.
pub fn credential_of(credential: &Path, user: u32, directory: &Path) -> PathBuf {
    let copy = directory.join(format!("credential-of-{user}"));
    std::fs::copy(credential, &copy).expect("a credential can be copied");
    std::os::unix::fs::chown(&copy, Some(user), Some(user)).expect("root gives files away");
    std::fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its mode can be set");
    copy
}

/// Waits until a condition holds. The limit is not a promise of the product: it only ends tests that hang.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the allocated size of the datafiles below a directory, without holes and checksums.
pub fn stored_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(m) if m.is_dir() => stored_bytes(&entry.path()),
            Ok(_) if entry.file_name().to_string_lossy().ends_with(".crc") => 0,
            Ok(m) if entry.path().components().any(|c| c.as_os_str() == "datafiles") => m.blocks() * 512,
            _ => 0,
        })
        .sum()
}

/// Prints why a test cannot run here; `make test` counts it as skipped.
pub fn skipped(why: &str) {
    println!("SKIPPED: {why}");
}

/// Returns whether this process has root privileges.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Returns why this machine does not allow the kernel recorder, according to `doctor`; `None` if it does, so that a failing recording is a
/// failure.
pub fn no_bpf() -> Option<String> {
    let document = run(["doctor", "--json"]).json();
    let findings = document["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["name"] == "recorder bpf").expect("what is said of the kernel recorder");
    (found["state"] != "good").then(|| format!("no recording with BPF: {}", found["found"]))
}

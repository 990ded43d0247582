//! The laboratory's C programs keep their promises: builds them and runs their own tests.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

fn lab() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Builds the programs once for all tests here. False: this machine cannot, and the reason has been printed.
fn built() -> bool {
    static BUILT: OnceLock<bool> = OnceLock::new();
    *BUILT.get_or_init(|| {
        let Ok(made) = Command::new("make").arg("-C").arg(lab()).output() else {
            println!("SKIPPED: there is no make to build the laboratory's programs with");
            return false;
        };
        assert!(made.status.success(), "make -C lab: {}", String::from_utf8_lossy(&made.stderr));
        true
    })
}

/// Runs a directory's `test`; what it skipped is printed and so counted as skipped.
fn passes(directory: &str) {
    if !built() {
        println!("SKIPPED: the laboratory's programs are not built");
        return;
    }
    let Ok(ran) = Command::new("python3").arg(lab().join(directory).join("test")).output() else {
        println!("SKIPPED: there is no python3 to test the laboratory's programs with");
        return;
    };
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    print!("{out}");
    assert!(ran.status.success(), "{out}{err}");
}

#[test]
fn patients_have_the_diseases_they_name() {
    passes("patients");
}

#[test]
fn the_nfs_client_counts_what_it_does() {
    passes("nfs-client");
}

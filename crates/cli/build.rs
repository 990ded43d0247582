//! Notes what is built, for `thalweg --version`: the commit, its date, the target.
//!
//! Packages say both (`THALWEG_COMMIT`, `SOURCE_DATE_EPOCH`), so that the same sources make the same bytes wherever they are. Other optimised
//! builds ask git. A development build does not: each commit would compile this crate and its tests again. A source archive has no commit, also if it is unpacked inside another project's repository.

use std::env::var;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for variable in ["THALWEG_COMMIT", "SOURCE_DATE_EPOCH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let said = |variable: &str| var(variable).ok().filter(|value| !value.trim().is_empty());
    let (commit, date_s) = match said("THALWEG_COMMIT") {
        Some(commit) => (commit, None),
        None if var("PROFILE").is_ok_and(|profile| profile == "debug") => ("development build".to_owned(), None),
        None => of_repository().unwrap_or_else(|| ("source archive, no commit".to_owned(), None)),
    };
    println!("cargo:rustc-env=THALWEG_BUILT_FROM={}", commit.trim());
    println!("cargo:rustc-env=THALWEG_BUILT_FROM_S={}", said("SOURCE_DATE_EPOCH").or(date_s).unwrap_or_default().trim());
    println!("cargo:rustc-env=THALWEG_BUILT_FOR={}", var("TARGET").unwrap_or_default());
}

/// Returns the commit of this project's own repository and the second of that commit; `None` if these sources are in none.
fn of_repository() -> Option<(String, Option<String>)> {
    let root = Path::new(&var("CARGO_MANIFEST_DIR").ok()?).join("../..").canonicalize().ok()?;
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&root).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    // Only what is there: cargo runs a script again each time if it names a file that is missing.
    let watch = |path: PathBuf| path.exists().then(|| println!("cargo:rerun-if-changed={}", path.display())).is_some();
    let below_git = |name: &str| Some(root.join(git(&["rev-parse", "--git-path", name])?));
    watch(below_git("HEAD")?);
    if let Some(branch) = git(&["symbolic-ref", "--quiet", "HEAD"]) {
        // A packed branch becomes a file of its own with the next commit, beside the others.
        let _ = watch(below_git(&branch)?) || watch(below_git("refs/heads")?);
    }
    // Whatever changes here is compiled again anyhow.
    for sources in ["crates", "recipes", "Cargo.lock", "Cargo.toml"] {
        watch(root.join(sources));
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_modified = git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|lines| !lines.is_empty());
    let date_s = git(&["show", "--no-patch", "--format=%ct", "HEAD"]);
    Some((if is_modified { format!("{commit}, modified") } else { commit }, date_s))
}

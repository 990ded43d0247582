//! The place of the library: a directory that can be written, and from which programs may map code.
//!
//! Memory first, since the rings are beside the library. A machine may have made any of these read-only, full or
//! `noexec`, so each is tried by mapping the library. Root's command may become another user, whose loader complains on
//! the command's standard error about a library that it cannot open: root uses only directories that everyone reaches.

use super::directory::{self, RecorderDirectory};
use super::{library, shared};
use crate::RecordError;
use crate::refusal::Guards;
use rustix::fs::StatVfsMountFlags;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use thalweg_base::temporary;

/// Creates the recorder's directory, with the library, in the first place that allows it. `recording` is the path of the
/// recording, if there is one.
///
/// # Errors
/// There is no such place; the text names each that was tried, with the reason.
pub(super) fn made(recording: Option<&Path>) -> Result<RecorderDirectory, RecordError> {
    let mut problems = Vec::new();
    for base in places(recording) {
        directory::remove_abandoned(&base);
        match with_library(&base) {
            Ok(directory) => return Ok(directory),
            Err(problem) => problems.push(format!("{}: {problem}", base.display())),
        }
    }
    Err(RecordError::NotAllowed(format!(
        "there is no directory from which programs can load the library ({}): set TMPDIR to one that can be written and is not mounted noexec",
        problems.join("; ")
    )))
}

/// Returns the places to try, best first, each once.
fn places(recording: Option<&Path>) -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let caches = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let beside = recording.and_then(|path| std::path::absolute(path).ok()?.parent().map(Path::to_owned));
    let program = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
    let likely = [caches, beside, program].into_iter().flatten().filter(|path| path.is_absolute() && path.is_dir());
    let is_root = rustix::process::geteuid().is_root();
    let mut places: Vec<PathBuf> = Vec::new();
    for place in std::iter::once("/dev/shm".into()).chain(temporary::directories()).chain(likely) {
        if !places.contains(&place) && (!is_root || is_open_to_all(&place)) {
            places.push(place);
        }
    }
    places
}

/// Whether every user reaches files in a directory. One that does not exist is left to the attempt, which says so.
fn is_open_to_all(directory: &Path) -> bool {
    directory.ancestors().all(|above| above.metadata().map_or(true, |metadata| metadata.permissions().mode() & 0o001 != 0))
}

/// Creates a directory in `base` with the library in it, if code may be executed from there.
fn with_library(base: &Path) -> Result<RecorderDirectory, String> {
    let text = |error: std::io::Error| error.to_string();
    let plain = base.to_str().is_some_and(|path| !path.contains([':', ' ', '|']));
    if !plain {
        return Err("its name has a character that LD_PRELOAD does not allow".to_owned());
    }
    let directory = RecorderDirectory::make(base).map_err(text)?;
    directory.write_library(&library::with_settings(&directory)?).map_err(text)?;
    shared::map_as_code(&directory.library()).map_err(|error| refusal(base, &error))?;
    Ok(directory)
}

/// Says why code may not be mapped from files in a directory.
fn refusal(directory: &Path, error: &std::io::Error) -> String {
    let is_noexec = rustix::fs::statvfs(directory).is_ok_and(|status| status.f_flag.contains(StatVfsMountFlags::NOEXEC));
    match is_noexec {
        true => "its file system is mounted noexec".to_owned(),
        false => format!("mapping code from it is refused ({error}), {}", Guards::here().suspects()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_absolute_and_named_once_and_the_recordings_is_among_them() {
        let here = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(here.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let places = places(Some(&here.path().join("a.thw")));
        assert_eq!(places[0], Path::new("/dev/shm"));
        assert!(places.iter().enumerate().all(|(at, path)| path.is_absolute() && !places[..at].contains(path)), "{places:?}");
        assert!(places.contains(&here.path().to_owned()), "{places:?}");
    }

    #[test]
    fn a_directory_below_a_closed_one_is_not_open_to_all() {
        let here = tempfile::tempdir().unwrap();
        std::fs::create_dir(here.path().join("in")).unwrap();
        std::fs::set_permissions(here.path(), PermissionsExt::from_mode(0o700)).unwrap();
        assert!(!is_open_to_all(&here.path().join("in")) && is_open_to_all(Path::new("/dev")));
    }
}

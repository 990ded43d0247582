//! Determines which MPI a command uses, and where our library for it is.

use crate::RecordError;
use crate::command::find;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An MPI implementation with a library of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// MPICH and binary-compatible implementations.
    Mpich,
    /// Open MPI.
    OpenMpi,
}

impl Implementation {
    /// Returns its name in the library's file name.
    pub fn name(self) -> &'static str {
        match self {
            Implementation::Mpich => "mpich",
            Implementation::OpenMpi => "openmpi",
        }
    }
}

impl std::str::FromStr for Implementation {
    type Err = String;

    fn from_str(text: &str) -> Result<Implementation, String> {
        [Implementation::Mpich, Implementation::OpenMpi]
            .into_iter()
            .find(|implementation| implementation.name() == text)
            .ok_or_else(|| format!("`{text}` is not a known MPI implementation: expected mpich or openmpi"))
    }
}

/// Determines the implementation from a command: a launcher is asked for its version, a rank is recognised by its
/// environment, a program by its libraries.
pub(super) fn of_command(command: &[OsString]) -> Result<Implementation, RecordError> {
    if let Some(implementation) = of_environment(|name| std::env::var_os(name).is_some()) {
        return Ok(implementation);
    }
    let words = command.iter().filter_map(|word| find(word).ok());
    let known = words.take(64).find_map(|found| if is_launcher(&found.path) { of_launcher(&found.path) } else { of_program(&found.path) });
    known.ok_or_else(|| {
        let what = "the MPI that the command uses is unknown: pass --mpi=mpich or --mpi=openmpi";
        RecordError::Usage(what.to_owned())
    })
}

/// Recognises the environment that launchers give their ranks.
fn of_environment(is_set: impl Fn(&str) -> bool) -> Option<Implementation> {
    match () {
        () if is_set("OMPI_COMM_WORLD_RANK") => Some(Implementation::OpenMpi),
        () if is_set("PMI_RANK") => Some(Implementation::Mpich),
        () => None,
    }
}

/// Returns the rank that a launcher started this process as, if any.
pub fn rank_here() -> Option<u32> {
    let rank = |name: &str| std::env::var(name).ok()?.parse().ok();
    rank("OMPI_COMM_WORLD_RANK").or_else(|| rank("PMI_RANK")).or_else(|| rank("PMIX_RANK"))
}

fn is_launcher(path: &Path) -> bool {
    let real = std::fs::canonicalize(path);
    let names = [Some(path), real.as_deref().ok()];
    names.into_iter().flatten().filter_map(Path::file_name).filter_map(OsStr::to_str).any(|name| {
        let stem = name.split('.').next().unwrap_or(name);
        matches!(stem, "mpirun" | "mpiexec" | "orterun" | "prterun" | "hydra")
    })
}

fn of_launcher(path: &Path) -> Option<Implementation> {
    let answer = Command::new(path).arg("--version").stdin(Stdio::null()).output().ok()?;
    of_version(&String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()))
}

fn of_version(text: &str) -> Option<Implementation> {
    let text = text.to_ascii_lowercase();
    match () {
        () if text.contains("open mpi") || text.contains("openrte") || text.contains("prrte") => Some(Implementation::OpenMpi),
        () if text.contains("hydra") || text.contains("mpich") => Some(Implementation::Mpich),
        () => None,
    }
}

/// Recognises a program by the names of its libraries, which its file contains as text.
fn of_program(path: &Path) -> Option<Implementation> {
    let bytes = std::fs::read(path).ok().filter(|bytes| bytes.starts_with(b"\x7fELF"))?;
    let has = |name: &[u8]| bytes.windows(name.len()).any(|window| window == name);
    match () {
        () if has(b"libmpich.so") => Some(Implementation::Mpich),
        () if has(b"libmpi.so") => Some(Implementation::OpenMpi),
        () => None,
    }
}

/// Returns the path of our library: `THALWEG_MPI_LIBRARY` (the file or its directory), beside the command, or where
/// `make -C mpi` puts it.
pub(crate) fn library(implementation: Implementation) -> Result<PathBuf, RecordError> {
    let name = format!("libthalweg-{}.so", implementation.name());
    let mut places = Vec::new();
    if let Some(given) = std::env::var_os("THALWEG_MPI_LIBRARY").map(PathBuf::from) {
        places.push(if given.is_dir() { given.join(&name) } else { given });
    }
    if let Some(beside) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
        places.push(beside.join(&name));
        places.push(beside.join("../lib/thalweg").join(&name));
        places.extend(beside.ancestors().skip(1).take(3).map(|above| above.join("mpi/build").join(&name)));
    }
    let found = places.iter().find(|place| place.is_file()).cloned();
    let found = found.and_then(|place| std::fs::canonicalize(place).ok());
    let plain = found.filter(|place| place.to_str().is_some_and(|text| !text.contains([':', ' '])));
    plain.ok_or_else(|| {
        RecordError::NotAllowed(format!(
            "{name} was not found (or its path has a space or colon, which LD_PRELOAD cannot have): build it with `make -C mpi`, or name it in \
             THALWEG_MPI_LIBRARY"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implementations_are_known_by_what_their_launchers_say() {
        assert_eq!(of_version("HYDRA build details:\n    Version: 4.0.2"), Some(Implementation::Mpich));
        assert_eq!(of_version("mpirun (Open MPI) 4.1.4\n"), Some(Implementation::OpenMpi));
        assert_eq!(of_version("GNU bash, version 5.2"), None);
        assert_eq!(of_environment(|name| name == "PMI_RANK"), Some(Implementation::Mpich));
        assert_eq!("openmpi".parse(), Ok(Implementation::OpenMpi));
        assert!("lam".parse::<Implementation>().is_err());
        assert!(is_launcher(Path::new("/usr/bin/mpiexec.hydra")) && !is_launcher(Path::new("/bin/sh")));
    }
}

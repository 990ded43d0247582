//! Finds a file by its path and build identifier.

use super::notes::build_id_of;
use std::path::{Path, PathBuf};

/// Where this machine keeps debugging symbols.
const DEBUG_DIR: &str = "/usr/lib/debug";

/// Searches for files.
#[derive(Debug)]
pub(crate) struct Search {
    dirs: Vec<PathBuf>,
}

impl Search {
    /// Creates a search that starts in these directories.
    pub(crate) fn new(dirs: &[PathBuf]) -> Search {
        Search { dirs: dirs.to_vec() }
    }

    /// Returns existing files, best first: each has the identifier, if one is known. Without one, only a file in the
    /// given directories is accepted, by its name: the user who gives the directory vouches for it.
    pub(crate) fn candidates(&self, module: &str, build_id: Option<&str>) -> Vec<PathBuf> {
        let name = Path::new(module.trim_start_matches('/'));
        let mut found = Vec::new();
        let debug = PathBuf::from(DEBUG_DIR);
        for dir in self.dirs.iter().chain(build_id.is_some().then_some(&debug)) {
            if let Some((first, rest)) = build_id.and_then(|id| id.split_at_checked(2)) {
                let beside = dir.join(".build-id").join(first);
                found.extend([beside.join(format!("{rest}.debug")), beside.join(rest)]);
            }
            found.push(dir.join(name));
            found.extend(name.file_name().map(|file| dir.join(file)));
            found.extend(name.file_name().map(|file| dir.join(format!("{}.debug", file.to_string_lossy()))));
        }
        if build_id.is_some() {
            found.push(PathBuf::from(module));
        }
        found.retain(|path| path.is_file() && build_id.is_none_or(|id| build_id_of(path).as_deref() == Some(id)));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_name_with_another_identifier_is_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let own = std::env::current_exe().expect("a file");
        let id = build_id_of(&own);
        std::fs::copy(&own, directory.path().join("program")).expect("copied");
        let search = Search::new(&[directory.path().to_owned()]);
        assert_eq!(search.candidates("/opt/program", Some("00112233")), Vec::<PathBuf>::new());
        assert_eq!(search.candidates("/opt/program", None), [directory.path().join("program")]);
        if let Some(id) = id {
            assert_eq!(search.candidates("/opt/program", Some(&id)), [directory.path().join("program")]);
            assert_eq!(search.candidates(own.to_str().expect("text"), Some(&id)), [own]);
        }
    }
}

//! Files mapped executable: each once, with its build identifier, kept open from its first appearance in a stack,
//! because by the time it is examined it may be deleted, or its process, and with it the path through its root, may
//! be gone.

use crate::symbols::{build_id_of, open_file};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Maximum files kept open; for the rest the path must do.
const MOST_OPEN: usize = 256;

/// Maximum distinct files.
const MOST_MODULES: usize = 65_536;

/// Number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ModuleId(pub u32);

/// A file with code.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Its path as seen by the process that mapped it.
    pub path: String,
    pub build_id: Option<String>,
    file: Option<File>,
    met: bool,
    /// The file now readable under its name is another one.
    is_other: bool,
}

/// All files.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    all: Vec<Module>,
    numbers: HashMap<(String, Option<String>), ModuleId>,
    open: usize,
}

const DELETED: &str = " (deleted)";

impl Modules {
    /// Returns the number of the file with this path (as /proc or perf write it) and build identifier; `None` if
    /// there are too many.
    pub(crate) fn number(&mut self, path: &str, build_id: Option<String>) -> Option<ModuleId> {
        let key = (path.strip_suffix(DELETED).unwrap_or(path).to_owned(), build_id);
        if let Some(known) = self.numbers.get(&key) {
            return Some(*known);
        }
        let id = ModuleId(u32::try_from(self.all.len()).ok().filter(|_| self.all.len() < MOST_MODULES)?);
        self.all.push(Module { path: key.0.clone(), build_id: key.1.clone(), ..Module::default() });
        self.numbers.insert(key, id);
        Some(id)
    }

    /// Opens a file found in a stack of this process, mapped at these addresses, while the process exists.
    pub(crate) fn meet(&mut self, id: ModuleId, pid: u32, mapped: Range<u64>) {
        let Some(module) = self.all.get_mut(id.0 as usize).filter(|module| !module.met) else { return };
        module.met = true;
        if self.open >= MOST_OPEN {
            return;
        }
        let mapped = format!("/proc/{pid}/map_files/{:x}-{:x}", mapped.start, mapped.end);
        let in_its_root = format!("/proc/{pid}/root{}", module.path);
        module.file = [mapped.as_str(), &in_its_root, &module.path].into_iter().find_map(|path| open_file(Path::new(path)));
        self.open += usize::from(module.file.is_some());
    }

    /// Reads missing build identifiers; not to be called while recording. A file with a different identifier from the
    /// recorded one is another file that has taken over the name.
    pub(crate) fn identify(&mut self) {
        for module in self.all.iter_mut().filter(|module| module.met) {
            let path = module.readable();
            let found = build_id_of(&path);
            match &module.build_id {
                None => module.build_id = found,
                Some(known) => module.is_other = found.as_ref() != Some(known),
            }
        }
    }

    pub(crate) fn get(&self, id: ModuleId) -> Option<&Module> {
        self.all.get(id.0 as usize)
    }
}

fn opened(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

impl Module {
    fn readable(&self) -> PathBuf {
        self.file.as_ref().map_or_else(|| PathBuf::from(&self.path), opened)
    }

    /// Opens the file while recording; `None` if another file now has its name.
    pub(crate) fn opened(&self) -> Option<File> {
        let path = self.readable();
        let is_this = self.build_id.is_none() || self.build_id == build_id_of(&path);
        is_this.then(|| open_file(&path)).flatten()
    }

    /// Returns where it can be read, if it can.
    pub(crate) fn found(&self) -> Option<PathBuf> {
        (!self.is_other).then(|| self.readable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_one_module_also_after_it_was_deleted_and_another_build_is_another() {
        let mut modules = Modules::default();
        let one = modules.number("/bin/x", Some("aa".into()));
        assert_eq!(modules.number("/bin/x (deleted)", Some("aa".into())), one);
        assert_ne!(modules.number("/bin/x", Some("bb".into())), one);
        assert_eq!(modules.get(one.expect("a number")).map(|module| module.path.as_str()), Some("/bin/x"));
    }
}

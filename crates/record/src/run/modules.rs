//! Finds the modules that a script imports. What a script does with remote data is often a library's doing, and a run
//! whose modules were cached leaves no trace of their files; the script's text names them.
//!
//! The text is scanned by lines, not parsed: an import inside a string is found, a computed one is not. Modules
//! beside the script are scanned too. Rejected: following file opens in the kernel, which costs a path lookup for
//! each.

use crate::command;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum bytes read of a file.
const LONGEST: u64 = 256 << 10;
/// Maximum files read.
const MOST_FILES: usize = 64;
/// Maximum modules kept.
const MOST_MODULES: usize = 256;
/// Flags whose value is a script.
const TEXTS: &[&str] = &["-c", "-e", "--eval", "-p", "--print"];
const INTERPRETERS: &[&str] = &["python", "node"];
const ENDINGS: &[&str] = &["py", "js", "mjs", "cjs"];

/// Returns the modules imported by the command's script, and by the modules beside it; empty if it is not a script.
pub(super) fn of_command(command: &[OsString]) -> BTreeSet<String> {
    let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut found = BTreeSet::new();
    for (flag, text) in words.iter().zip(words.iter().skip(1)) {
        if TEXTS.contains(&flag.as_str()) {
            found.extend(imports(text));
        }
    }
    let program = command.first().and_then(|word| command::find(word).ok()).map(|program| program.path);
    let mut paths: VecDeque<PathBuf> = program.into_iter().chain(words.iter().skip(1).map(PathBuf::from)).collect();
    let (mut files, mut is_first) = (0, true);
    while let Some(path) = paths.pop_front().filter(|_| files < MOST_FILES) {
        let Some(text) = script(&path) else { continue };
        files += 1;
        let modules = imports(&text);
        // Operands after the script belong to the script.
        if std::mem::take(&mut is_first) {
            paths.clear();
        }
        let beside = path.parent().unwrap_or(Path::new(""));
        paths.extend(modules.iter().filter(|name| !found.contains(*name)).map(|name| beside.join(format!("{name}.py"))));
        found.extend(modules);
    }
    found.into_iter().take(MOST_MODULES).collect()
}

/// Returns a script's text, for a file with an interpreter's extension, or with an interpreter in its first line.
fn script(path: &Path) -> Option<String> {
    let ends = path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
    // (Opening a FIFO would block.)
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let mut file = std::fs::File::open(path).ok()?;
    file.by_ref().take(128).read_to_end(&mut bytes).ok()?;
    let first = String::from_utf8_lossy(bytes.split(|byte| *byte == b'\n').next()?).into_owned();
    let is_named = first.starts_with("#!") && INTERPRETERS.iter().any(|name| first.contains(name));
    if !ends && !is_named {
        return None;
    }
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the modules that a text imports, by package name.
fn imports(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for statement in text.split(['\n', ';']).map(str::trim) {
        if let Some(names) = statement.strip_prefix("import ") {
            found.extend(names.split(',').filter_map(package));
        }
        if let Some((name, _)) = statement.strip_prefix("from ").and_then(|rest| rest.split_once(" import")) {
            found.extend(package(name));
        }
        let quoted = ["require(", " from ", "import "].iter().flat_map(|before| statement.split(before).skip(1));
        found.extend(quoted.filter_map(|rest| {
            let quote = rest.chars().next().filter(|sign| matches!(sign, '\'' | '"'))?;
            package_of_node(rest[1..].split(quote).next()?)
        }));
    }
    found
}

/// Returns `paramiko` for `paramiko.client as ssh`; `None` for an invalid name.
fn package(name: &str) -> Option<String> {
    let name = name.split_whitespace().next()?.split('.').next()?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then(|| name.to_owned())
}

/// Returns `@aws-sdk/client-s3` or `axios` for imports from these packages; `None` for a file beside the script.
fn package_of_node(name: &str) -> Option<String> {
    let name = name.strip_prefix("node:").unwrap_or(name);
    let parts = if name.starts_with('@') { 2 } else { 1 };
    let name: Vec<&str> = name.split('/').take(parts).collect();
    let name = name.join("/");
    let is_name = name.starts_with(|c: char| c.is_alphanumeric() || c == '@') && !name.contains(char::is_whitespace);
    is_name.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Vec<String> {
        of_command(&words.iter().map(OsString::from).collect::<Vec<_>>()).into_iter().collect()
    }

    #[test]
    fn modules_are_known_by_what_a_script_and_those_beside_it_import() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).unwrap();
            directory.path().join(name).to_string_lossy().into_owned()
        };
        let job = put(
            "job.py",
            "import os, paramiko.client as ssh\n    from requests.adapters import HTTPAdapter\nimport helper\nx = 'import this'\n",
        );
        put("helper.py", "import h5py; import job\n");
        let other = put("other.py", "import never\n");
        assert_eq!(of(&["python3", "-u", &job, &other]), ["h5py", "helper", "job", "os", "paramiko", "requests"]);
        let named = put("named", "#!/usr/bin/env python3\nimport fsspec\n");
        assert_eq!(of(&["sh", &named]), ["fsspec"]);
        let node = put(
            "a.mjs",
            "import axios from 'axios';\nconst x = require(\"node:fs/promises\"), y = require('./near');\nimport { S3 } from '@aws-sdk/client-s3/lib'\n",
        );
        assert_eq!(of(&["node", &node]), ["@aws-sdk/client-s3", "axios", "fs"]);
    }

    #[test]
    fn what_is_no_script_imports_nothing() {
        assert_eq!(of(&["python3", "-c", "import psycopg; psycopg.connect()"]), ["psycopg"]);
        let directory = tempfile::tempdir().unwrap();
        let text = directory.path().join("text");
        std::fs::write(&text, "import nothing\n").unwrap();
        assert!(of(&["cat", &text.to_string_lossy()]).is_empty() && of(&["/none/such"]).is_empty() && of(&[]).is_empty());
    }
}

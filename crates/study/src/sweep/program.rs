//! Identifies the program that was run, by path and file contents. Another build counts as another program.

use crate::{Error, Result};
use serde::Serialize;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A program's file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Program {
    path: PathBuf,
    size_bytes: u64,
    modified_unix_ns: u64,
    hash: String,
}

impl Program {
    /// Returns the program that a command's first word names.
    pub(super) fn of(word: &str) -> Result<Program> {
        let path = find(word).ok_or_else(|| Error::Choice(format!("{word}: not found: give its path, or install it")))?;
        let metadata = path.metadata().map_err(Error::file(&path, "asking for its size"))?;
        let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Ok(Program {
            size_bytes: metadata.len(),
            modified_unix_ns: modified.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)),
            hash: format!("{:016x}", hash(&path).map_err(Error::file(&path, "reading it"))?),
            path,
        })
    }
}

/// Finds the file of a command, as a shell does.
fn find(word: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let can_run = |path: &PathBuf| path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if word.contains('/') {
        return Some(PathBuf::from(word)).filter(can_run);
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|directory| directory.join(word)).find(can_run)
}

/// Returns a hash of the file's bytes, the same on every machine: eight bytes at a time, multiplied and folded. It detects a rebuilt
/// program, and does not resist deliberate forgery.
fn hash(path: &Path) -> std::io::Result<u64> {
    let mut file = std::fs::File::open(path)?;
    let (mut block, mut hash) = (vec![0; 1 << 18], 0xcbf2_9ce4_8422_2325_u64);
    loop {
        let mut filled = 0;
        while filled < block.len() {
            match file.read(&mut block[filled..])? {
                0 => break,
                bytes => filled += bytes,
            }
        }
        if filled == 0 {
            return Ok(hash);
        }
        block[filled..].fill(0);
        for eight in block[..filled.next_multiple_of(8)].chunks_exact(8) {
            hash = (hash ^ u64::from_le_bytes(eight.try_into().expect("eight bytes"))).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_byte_is_another_program_and_what_is_not_there_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        let of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            hash(&path).unwrap()
        };
        let long = vec![7; (1 << 18) + 3];
        let mut other = long.clone();
        other[1 << 18] = 8;
        assert_eq!(of(&long), of(&long));
        assert_ne!(of(&long), of(&other));
        assert!(Program::of("sh").unwrap().path.is_absolute());
        assert!(Program::of("no-such-program-here").unwrap_err().to_string().contains("not found"));
    }
}

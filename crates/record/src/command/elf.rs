//! Determines what kind of file a command is, and so whether a library can be preloaded into it.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How an executable file is linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Linkage {
    /// By the C library's loader, which honours `LD_PRELOAD`.
    Dynamic,
    /// Statically: `LD_PRELOAD` is ignored.
    Static,
    /// By a loader our library was not built for (another C library, word size or architecture).
    Foreign(String),
    /// Neither ELF nor a script.
    Unknown,
}

/// The file that the kernel would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    /// The program itself or, for a script, its interpreter.
    pub path: PathBuf,
    /// How it is linked.
    pub linkage: Linkage,
    /// Whether it gains another user's or group's rights, or capabilities: the loader ignores `LD_PRELOAD`, and /proc
    /// hides it.
    pub raises_rights: bool,
}

/// Maximum depth of scripts naming scripts as interpreters.
const INTERPRETERS: usize = 4;

/// Whether this is the loader of the C library that our library is linked with, on this architecture.
fn is_our_loader(interpreter: &str) -> bool {
    let name = interpreter.rsplit('/').next().unwrap_or_default();
    name.starts_with("ld-linux") || name.starts_with("ld64.so") || name.starts_with("ld.so")
}

impl Executable {
    /// Examines a file and, through `#!`, its interpreter.
    pub(crate) fn look(path: &Path) -> Executable {
        let mut path = path.to_owned();
        for _ in 0..INTERPRETERS {
            let Some(next) = script_interpreter(&path) else { break };
            path = next;
        }
        let linkage = linkage(&path).unwrap_or(Linkage::Unknown);
        Executable { raises_rights: raises_rights(&path), path, linkage }
    }
}

fn script_interpreter(path: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(256).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let interpreter = words.next()?;
    if interpreter.ends_with("/env") {
        // `env -S name`, `env name`: runs what is found in PATH.
        let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
        return super::find(name.as_ref()).ok().map(|found| found.path);
    }
    Some(PathBuf::from(interpreter))
}

/// Whether a file has set-user-ID, set-group-ID or capabilities that give more than the caller has.
fn raises_rights(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    let user = rustix::process::geteuid().as_raw();
    let set_user = metadata.mode() & 0o4000 != 0 && metadata.uid() != user;
    let set_group = metadata.mode() & 0o2010 == 0o2010 && metadata.gid() != rustix::process::getegid().as_raw();
    let mut value = [0_u8; 64];
    let capabilities = rustix::fs::getxattr(path, c"security.capability", &mut value).is_ok();
    set_user || set_group || (capabilities && user != 0)
}

/// Reads the ELF header and program headers; `None` if the file is not ELF.
fn linkage(path: &Path) -> Option<Linkage> {
    let file = File::open(path).ok()?;
    let mut header = [0_u8; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    if header[..4] != *b"\x7fELF" {
        return None;
    }
    let ours = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    let machine = u16::from_le_bytes([header[18], header[19]]);
    if header[4] != 2 || header[5] != 1 || machine != ours {
        return Some(Linkage::Foreign("it was built for another architecture or word size".to_owned()));
    }
    let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap_or_default());
    let (table, entry_bytes) = (word(32), u64::from(u16::from_le_bytes([header[54], header[55]])));
    let entries = u64::from(u16::from_le_bytes([header[56], header[57]])).min(512);
    for index in 0..entries {
        let mut entry = [0_u8; 56];
        file.read_exact_at(&mut entry, table.checked_add(index * entry_bytes)?).ok()?;
        if u32::from_le_bytes(entry[..4].try_into().ok()?) != 3 {
            continue;
        }
        let at = u64::from_le_bytes(entry[8..16].try_into().ok()?);
        let length = u64::from_le_bytes(entry[32..40].try_into().ok()?).min(4096);
        let mut name = vec![0; length as usize];
        file.read_exact_at(&mut name, at).ok()?;
        let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
        return Some(if is_our_loader(&name) { Linkage::Dynamic } else { Linkage::Foreign(format!("its loader is {name}")) });
    }
    Some(Linkage::Static)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_this_machine_is_dynamic_and_a_script_is_its_interpreter() {
        let shell = Executable::look(Path::new("/bin/sh"));
        assert_eq!((shell.linkage, shell.raises_rights), (Linkage::Dynamic, false));
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().join("script");
        std::fs::write(&script, "#!/usr/bin/env -S sh -e\ntrue\n").expect("written");
        let looked = Executable::look(&script);
        assert!(looked.path.ends_with("sh"), "{looked:?}");
        assert_eq!(looked.linkage, Linkage::Dynamic);
    }

    #[test]
    fn what_is_not_a_program_is_said_to_be_unknown() {
        assert_eq!(Executable::look(Path::new("/etc/passwd")).linkage, Linkage::Unknown);
        assert_eq!(Executable::look(Path::new("/nowhere")).linkage, Linkage::Unknown);
    }
}

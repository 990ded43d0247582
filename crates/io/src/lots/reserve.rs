//! ext4's reserved blocks: space that only privileged programs may take. `tune2fs` adds the promised space to the existing
//! reserve, and removes it with the last promise held this way.
//!
//! This changes the file system, and is therefore done only on request for this level. A privileged server uses the reserve like
//! free space: the reserve need not shrink ahead of each write, only in steps of [`limits::RESERVE_STEP_BYTES`].

use super::level;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use thalweg_base::sync::Mutex;
use thalweg_wire::limits;
use thalweg_wire::{Error, ErrorKind, Result};

/// Where tune2fs may be: `sbin` is not in every user's path.
const PROGRAMS: [&str; 3] = ["tune2fs", "/usr/sbin/tune2fs", "/sbin/tune2fs"];

/// The reserve of one file system.
#[derive(Default)]
pub(super) struct Reserve {
    /// Bytes reserved for promises.
    bytes: AtomicU64,
    /// Blocks reserved before.
    before: Mutex<Option<u64>>,
}

/// The reserve according to tune2fs.
#[derive(Debug, PartialEq, Eq)]
struct Reserved {
    blocks: u64,
    block_bytes: u64,
}

impl Reserve {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }

    /// Checks that reserving is possible; returns the previously reserved blocks, to be stored before [`Reserve::fit`].
    ///
    /// # Errors
    /// Why reserving is impossible.
    pub(super) fn prepare(&self, directory: &Path, device: u64) -> Result<u64> {
        let refused = |problem: &str| Error::new(ErrorKind::Unsupported, format!("no level `kernel` here: {problem}"));
        if !level::is_ext4(directory, device) {
            return Err(refused("the file system is not ext4"));
        }
        if !rustix::process::geteuid().is_root() {
            return Err(refused("only root may change ext4's reserved blocks: run this I/O server as root"));
        }
        let mut before = self.before.lock();
        match *before {
            Some(known) => Ok(known),
            None => Ok(*before.insert(reserved(directory, device)?.blocks)),
        }
    }

    /// Takes over an earlier server's reserve.
    pub(super) fn resume(&self, directory: &Path, device: u64, before_blocks: u64) {
        let mut before = self.before.lock();
        if before.is_none()
            && let Ok(now) = reserved(directory, device)
        {
            *before = Some(before_blocks);
            self.bytes.store(now.blocks.saturating_sub(before_blocks).saturating_mul(now.block_bytes), SeqCst);
        }
    }

    pub(super) fn before(&self) -> Option<u64> {
        *self.before.lock()
    }

    /// Reserves `promised` bytes; `at_once`: even for a small change. 0 restores the previous reserve.
    pub(super) fn fit(&self, directory: &Path, device: u64, promised: u64, at_once: bool) -> Result<()> {
        let mut before = self.before.lock();
        let Some(before_blocks) = *before else { return Ok(()) };
        let now = self.bytes();
        if promised == now || (!at_once && promised.abs_diff(now) < limits::RESERVE_STEP_BYTES) {
            return Ok(());
        }
        let Reserved { block_bytes, .. } = reserved(directory, device)?;
        let blocks = promised.div_ceil(block_bytes);
        tune(directory, device, &["-r", &(before_blocks.saturating_add(blocks)).to_string()])?;
        self.bytes.store(blocks * block_bytes, SeqCst);
        if promised == 0 {
            *before = None;
        }
        Ok(())
    }
}

fn reserved(directory: &Path, device: u64) -> Result<Reserved> {
    let said = tune(directory, device, &["-l"])?;
    parse(&said).ok_or_else(|| Error::new(ErrorKind::Io, "tune2fs -l did not report the reserved blocks"))
}

fn parse(said: &str) -> Option<Reserved> {
    let number = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let (blocks, block_bytes) = (number("Reserved block count:")?, number("Block size:")?);
    (block_bytes > 0).then_some(Reserved { blocks, block_bytes })
}

/// Runs tune2fs on the directory's device.
fn tune(directory: &Path, device: u64, arguments: &[&str]) -> Result<String> {
    let mount = level::mount_of(directory, device).ok_or_else(|| Error::new(ErrorKind::Unsupported, "its device is not known"))?;
    let source = PathBuf::from(mount.source);
    let run = |program: &&str| Command::new(program).args(arguments).arg(&source).env("LC_ALL", "C").stdin(Stdio::null()).output();
    let absent = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
    let done = PROGRAMS.iter().map(run).find(|done| !done.as_ref().is_err_and(absent));
    let done = done.ok_or_else(|| Error::new(ErrorKind::Unsupported, "tune2fs is not installed (package e2fsprogs)"))?;
    let done = done.map_err(|e| Error::system("running tune2fs", e))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(Error::new(ErrorKind::Unsupported, format!("tune2fs {} {}: {}", arguments.join(" "), source.display(), said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tune2fs_says_is_understood() {
        let said = "Block count:              65536\nReserved block count:     3276\nBlock size:               1024\n";
        assert_eq!(parse(said), Some(Reserved { blocks: 3276, block_bytes: 1024 }));
        assert_eq!(parse("Reserved block count:     3276\n"), None);
    }
}

//! Measures the maximum throughput of devices and the loopback, to compare runs with.
//!
//! A device is measured through a scratch file in a directory on it: sequential blocks of 1 MiB that bypass the page cache (`O_DIRECT`),
//! four in flight, so that neither a queue depth of one nor the cache limits. The file is written once first, so that block allocation is
//! not measured; then it is written and read alternately, three times each, with a time limit per pass; the median counts. The loopback is
//! measured with one TCP stream between two threads.
//!
//! On a busy machine the figures are too low; the recorded load shows it.

use crate::{Error, Result, median};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Size of the scratch file, if there is space for it.
const FILE_BYTES: u64 = 256 << 20;
/// Minimum size of the scratch file.
const LEAST_BYTES: u64 = 8 << 20;
const BLOCK_BYTES: usize = 1 << 20;
/// Blocks in flight.
const IN_FLIGHT: usize = 4;
/// Buffer alignment that direct I/O requires on any device.
const ALIGNMENT: usize = 4096;
const PASSES: usize = 3;
/// Time limit of a pass, once it has moved something.
const LONGEST_PASS: Duration = Duration::from_secs(3);

/// Ceilings by name, in bytes per second: `device.NAME.read`, `device.NAME.write`, `path.A>B`.
pub type Ceilings = BTreeMap<String, f64>;

fn nothing(path: &Path, problem: &'static str) -> Error {
    Error::Ceiling { path: path.to_owned(), problem }
}

/// Measures the device that a directory is on.
///
/// # Errors
/// The directory is not on a block device (tmpfs, a network file system); direct I/O is refused; less than 16 MiB are free.
pub fn device(directory: &Path) -> Result<Ceilings> {
    let name = device_name(directory)?;
    let file = Scratch::create(directory)?;
    file.pass(Direction::Write, Duration::from_secs(60))?;
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for _ in 0..PASSES {
        writes.push(file.pass(Direction::Write, LONGEST_PASS)?);
        reads.push(file.pass(Direction::Read, LONGEST_PASS)?);
    }
    let middle = |rates: &[f64]| median(rates).unwrap_or(0.0);
    Ok(Ceilings::from([(format!("device.{name}.read"), middle(&reads)), (format!("device.{name}.write"), middle(&writes))]))
}

/// Returns the block device that a path is on, as named in /sys/block: for a partition, the whole disk.
///
/// # Errors
/// The path does not exist, or its file system is not on a block device.
pub fn device_name(path: &Path) -> Result<String> {
    let about = path.metadata().map_err(Error::file(path, "getting its attributes"))?;
    let (major, minor) = (rustix::fs::major(about.dev()), rustix::fs::minor(about.dev()));
    let entry = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let none = || nothing(path, "is on no block device (its file system is in memory or on the network): nothing to measure");
    let real = std::fs::canonicalize(&entry).map_err(|_| none())?;
    let whole = if real.join("partition").exists() { real.parent().map(Path::to_owned) } else { Some(real) };
    let name = whole.as_deref().and_then(Path::file_name).ok_or_else(none)?;
    Ok(name.to_string_lossy().into_owned())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// The scratch file, removed on drop.
struct Scratch {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Scratch {
    fn create(directory: &Path) -> Result<Scratch> {
        let path = directory.join(format!(".thalweg-ceiling-{}", std::process::id()));
        let space = rustix::fs::statvfs(directory).map_err(|e| Error::file(directory, "getting its free space")(e.into()))?;
        let length = FILE_BYTES.min(space.f_bavail.saturating_mul(space.f_frsize) / 2) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        if length < LEAST_BYTES {
            return Err(nothing(directory, "has less than 16 MiB free: too little for a measurement"));
        }
        let direct = OFlags::DIRECT.bits() as i32;
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).custom_flags(direct).open(&path).map_err(|e| {
            // The file may have been created although direct I/O is not supported. An existing one is not removed.
            if e.kind() != std::io::ErrorKind::AlreadyExists {
                let _ = std::fs::remove_file(&path);
            }
            Error::file(&path, "creating a file with direct I/O")(e)
        })?;
        Ok(Scratch { path, file, length })
    }

    /// Writes or reads the file once, or as much as the time allows; returns bytes per second.
    fn pass(&self, direction: Direction, longest: Duration) -> Result<f64> {
        let (next, moved) = (AtomicU64::new(0), AtomicU64::new(0));
        let begun = Instant::now();
        let work = || -> std::io::Result<()> {
            let mut memory = vec![0x5a_u8; BLOCK_BYTES + ALIGNMENT];
            let from = memory.as_ptr().align_offset(ALIGNMENT);
            let block = &mut memory[from..from + BLOCK_BYTES];
            loop {
                let at = next.fetch_add(BLOCK_BYTES as u64, Ordering::Relaxed);
                if at >= self.length || begun.elapsed() > longest {
                    return Ok(());
                }
                let done = match direction {
                    Direction::Write => rustix::io::pwrite(&self.file, block, at)?,
                    Direction::Read => rustix::io::pread(&self.file, &mut *block, at)?,
                };
                moved.fetch_add(done as u64, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..IN_FLIGHT).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread failed"))))
        })
        .and_then(|()| if direction == Direction::Write { self.file.sync_data() } else { Ok(()) })
        .map_err(Error::file(&self.path, "direct I/O"))?;
        Ok(moved.into_inner() as f64 / begun.elapsed().as_secs_f64())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Measures one TCP stream over the loopback.
///
/// # Errors
/// The loopback cannot be used.
pub fn loopback() -> Result<Ceilings> {
    let mut rates = Vec::new();
    for _ in 0..PASSES {
        rates.push(stream(Duration::from_millis(400)).map_err(Error::file(Path::new("127.0.0.1"), "streaming over the loopback"))?);
    }
    Ok(Ceilings::from([("path.127.0.0.1>127.0.0.1".to_owned(), median(&rates).unwrap_or(0.0))]))
}

fn stream(length: Duration) -> std::io::Result<f64> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let mut out = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (mut input, _) = listener.accept()?;
    let receiver = std::thread::spawn(move || -> std::io::Result<u64> {
        let (mut buffer, mut total) = (vec![0; 1 << 18], 0);
        loop {
            match input.read(&mut buffer)? {
                0 => return Ok(total),
                n => total += n as u64,
            }
        }
    });
    let (begun, buffer) = (Instant::now(), vec![0x5a; 1 << 18]);
    while begun.elapsed() < length {
        out.write_all(&buffer)?;
    }
    drop(out);
    let total = receiver.join().unwrap_or_else(|_| Err(std::io::Error::other("the receiving thread failed")))?;
    Ok(total as f64 / begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_measured_and_nothing_is_left_behind() {
        let here = tempfile::tempdir_in("/var/tmp").unwrap();
        match device(here.path()) {
            Ok(ceilings) => {
                assert_eq!(ceilings.len(), 2, "{ceilings:?}");
                assert!(ceilings.values().all(|rate| *rate > 1e5), "{ceilings:?}");
            }
            Err(error) => println!("SKIPPED: no device under /var/tmp that takes direct I/O: {error}"),
        }
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
    }

    #[test]
    fn memory_is_no_device() {
        if let Ok(here) = tempfile::tempdir_in("/dev/shm") {
            assert!(device(here.path()).unwrap_err().to_string().contains("no block device"));
        }
    }

    #[test]
    fn the_loopback_has_a_ceiling() {
        assert!(loopback().unwrap().values().all(|rate| *rate > 1e6));
    }
}

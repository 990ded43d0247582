//! The store of a batch: started for it, in a separate process whose CPU time can be read, and removed after it.

use super::choice::Choice;
use crate::{Error, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use thalweg_measure::cpu_time_of;

/// Timeout for a store to print its address, and to end.
const WITHIN: Duration = Duration::from_secs(60);
/// Timeout for a store to become idle.
const QUIET_WITHIN: Duration = Duration::from_secs(30);
/// Pause after the last change: a walk asks again for sizes that changed within the last second.
const STILL: Duration = Duration::from_millis(1_200);
/// Interval over which its CPU time is measured.
const QUIET_LOOK: Duration = Duration::from_millis(250);
/// A store is idle if it used less than this part of the interval.
const QUIET_SHARE: f64 = 0.05;
/// Number of directories removed concurrently.
const REMOVERS: usize = 2;

/// A running store.
pub(super) struct Serving {
    child: Child,
    /// `thal://HOST:PORT`.
    pub address: String,
    directory: PathBuf,
}

impl Serving {
    /// Starts a store with `servers` servers and `targets` targets each, below the study's directory.
    ///
    /// # Errors
    /// It does not start, or does not print its address.
    pub(super) fn start(choice: &Choice, servers: u32, targets: u32) -> Result<Serving> {
        let directory = choice.directory.join(format!("thalweg-ls-{}", std::process::id()));
        std::fs::create_dir_all(&directory).map_err(Error::file(&directory, "making the store's directory"))?;
        let mut words: Vec<String> = choice.stage.serve_on.iter().flat_map(|on| on.split_whitespace()).map(String::from).collect();
        words.push(choice.program.to_string_lossy().into_owned());
        words.extend(["up", "--port", "0", "--print-address", "--host", &choice.stage.host].map(String::from));
        if !choice.stage.host.starts_with("127.") {
            words.push("--beyond-loopback".into());
        }
        words.extend(["--servers".into(), servers.to_string(), "--targets".into(), targets.to_string()]);
        words.push(directory.display().to_string());
        let line = words.join(" ");
        let mut command = Command::new(&words[0]);
        // In its own process group: Ctrl-C is for the study, which stops the store once it is unused.
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(Error::file(Path::new(&line), "starting it"))?;
        let output = child.stdout.take();
        let mut serving = Serving { child, address: String::new(), directory };
        let (sender, heard) = channel();
        let listen =
            move || output.map(|output| BufReader::new(output).lines().map_while(std::io::Result::ok).try_for_each(|l| sender.send(l)));
        let thread = std::thread::Builder::new().name("the store's words".into()).spawn(listen);
        thread.map_err(Error::file(Path::new("a thread for a store"), "starting it"))?;
        serving.address = heard.recv_timeout(WITHIN).map_err(|_| Error::Choice(format!("`{line}` did not print its store's address")))?;
        Ok(serving)
    }

    /// Returns its `HOST:PORT`.
    pub(super) fn service(&self) -> &str {
        self.address.trim_start_matches("thal://")
    }

    /// Returns the CPU time of all its servers so far.
    pub(super) fn cpu_s(&self) -> Option<f64> {
        cpu_time_of(self.child.id()).map(|time| time.as_secs_f64())
    }

    /// Waits until it is idle, and its file system is synced.
    ///
    /// # Errors
    /// The file system cannot be synced.
    pub(super) fn settle(&self) -> Result<()> {
        let open = std::fs::File::open(&self.directory).map_err(Error::file(&self.directory, "opening it"))?;
        rustix::fs::syncfs(&open).map_err(|e| Error::file(&self.directory, "making its file system durable")(e.into()))?;
        let begun = Instant::now();
        while let (true, Some(before)) = (begun.elapsed() < QUIET_WITHIN, self.cpu_s()) {
            std::thread::sleep(QUIET_LOOK);
            let is_quiet = self.cpu_s().is_none_or(|now| now - before < QUIET_LOOK.as_secs_f64() * QUIET_SHARE);
            if is_quiet && begun.elapsed() > STILL {
                break;
            }
        }
        Ok(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let begun = Instant::now();
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if begun.elapsed() > WITHIN {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        remove(&self.directory);
    }
}

/// Removes a directory with millions of files, its subdirectories concurrently.
pub(super) fn remove(directory: &Path) {
    let mut below = vec![directory.to_owned()];
    // Deep enough for many directories of similar size: server, target, datafiles, and their directories.
    for _ in 0..4 {
        let deeper = below.iter().flat_map(|at| std::fs::read_dir(at).into_iter().flatten().flatten());
        // Symbolic links are not followed.
        let deeper: Vec<PathBuf> = deeper.filter(|entry| entry.file_type().is_ok_and(|of| of.is_dir())).map(|entry| entry.path()).collect();
        if deeper.is_empty() {
            break;
        }
        below = deeper;
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..REMOVERS {
            scope.spawn(|| {
                while let Some(path) = below.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let _ = std::fs::remove_dir_all(path);
                }
            });
        }
    });
    let _ = std::fs::remove_dir_all(directory);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_its_shape_a_directory_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        for path in ["a", "a/b/c/d/e/f", "x/y", "x/z/1/2/3"] {
            std::fs::create_dir_all(directory.path().join("all").join(path)).unwrap();
            std::fs::write(directory.path().join("all").join(path).join("file"), "x").unwrap();
        }
        remove(&directory.path().join("all"));
        assert!(!directory.path().join("all").exists());
        remove(&directory.path().join("never"));
    }
}

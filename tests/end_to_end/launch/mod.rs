//! `thalweg launch`: a store for each job, with each available starter, and everything that can end a job early.
//!
//! Every process that a job starts has a mark in its environment, so that a test can check that none is left.

mod kubernetes;
mod local;
mod mpi;
mod refused;
mod slurm;
mod ssh;
mod unlucky;

use crate::bounded::Bounded;
use crate::common::{CREDENTIAL, CommandOutput, Running, THALWEG, scratch, text, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The variable that marks a job's processes.
const MARK: &str = "THALWEG_TEST_JOB";

/// The directories of a test's jobs: for targets, for the user's state, and for local files.
struct Sandbox {
    directory: tempfile::TempDir,
    mark: String,
}

impl Sandbox {
    fn new() -> Sandbox {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let sandbox = Sandbox { directory: scratch(), mark: format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)) };
        for name in ["targets", "state", "here"] {
            fs::create_dir(sandbox.directory.path().join(name)).unwrap();
        }
        sandbox
    }

    fn targets(&self) -> PathBuf {
        self.directory.path().join("targets")
    }

    /// Returns a path among the local files.
    fn here(&self, name: &str) -> PathBuf {
        self.directory.path().join("here").join(name)
    }

    /// Adds to a command the environment of this test: its state directory, the mark, and `$THALWEG`.
    fn within(&self, mut command: Command) -> Command {
        command.env_remove("THALWEG_STORE").env_remove(CREDENTIAL).env_remove("XDG_RUNTIME_DIR").env("NO_COLOR", "1");
        command.env("XDG_STATE_HOME", self.directory.path().join("state")).env(MARK, &self.mark).env("THALWEG", THALWEG);
        command.current_dir(self.directory.path().join("here")).stdin(std::process::Stdio::null());
        command
    }

    /// Returns `thalweg launch` with its data in these directories.
    fn launch(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(THALWEG);
        command.arg("launch");
        if !arguments.contains(&"--again") {
            command.args(["--targets", text(&self.targets())]);
        }
        command.args(arguments);
        self.within(command)
    }

    /// Runs it to its end.
    fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.launch(arguments).output_in_time().expect("the command starts").into()
    }

    /// Starts it in the background.
    fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.launch(arguments))
    }

    /// Returns the marked processes: process ID and command line.
    fn processes(&self) -> Vec<(i32, String)> {
        let mark = format!("{MARK}={}", self.mark);
        let of = |entry: fs::DirEntry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let environment = fs::read(entry.path().join("environ")).ok()?;
            environment.split(|byte| *byte == 0).find(|variable| *variable == mark.as_bytes())?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
        };
        fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
    }

    /// Returns the process IDs of parts.
    fn parts(&self) -> Vec<i32> {
        self.processes()
            .into_iter()
            .filter(|(_, line)| line.contains("launch --part") && line.starts_with(THALWEG))
            .map(|(pid, _)| pid)
            .collect()
    }

    /// Checks that soon no process is left.
    #[track_caller]
    fn nobody_is_left(&self) {
        wait_until("no process of the job is left", || self.processes().is_empty());
    }

    /// Checks that no process, data or credential is left.
    #[track_caller]
    fn nothing_is_left(&self) {
        self.nobody_is_left();
        assert_eq!(below(&self.targets()), Vec::<PathBuf>::new(), "data is left");
        assert_eq!(files_below(&self.directory.path().join("state")), Vec::<PathBuf>::new(), "credentials are left");
    }
}

/// Lists a directory.
fn below(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

/// Lists all files in a tree.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    below(directory).into_iter().flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Returns whether a program is installed; otherwise prints that the test is skipped.
fn has(program: &str, without: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).chain(["/usr/sbin".into()]).any(|directory| directory.join(program).is_file());
    if !found {
        crate::common::skipped(&format!("{program} is not here: {without}"));
    }
    found
}

/// A script that copies through a store and back.
const THROUGH: &str = "$THALWEG cp --quiet thal:/in/a thal:/out && $THALWEG df >&2 && echo done";

/// Runs a job that copies a file in, through and out, and checks every byte.
#[track_caller]
fn copies_through(sandbox: &Sandbox, arguments: &[&str]) -> CommandOutput {
    let bytes = crate::common::content(36, 3 << 20);
    fs::create_dir_all(sandbox.here("data")).unwrap();
    fs::write(sandbox.here("data/a"), &bytes).unwrap();
    let said = sandbox
        .run(&[arguments, &["--stage-in", "data:/in", "--stage-out", "/out:results/out", "--", "sh", "-c", THROUGH]].concat())
        .done();
    assert_eq!(said.out, "done\n");
    assert!(fs::read(sandbox.here("results/out")).unwrap() == bytes, "the bytes that came out");
    said
}

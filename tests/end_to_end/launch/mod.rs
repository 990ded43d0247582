//! `thalweg launch`: a store for each job, through each way of starting servers that can be had here, and whatever ends a job early.
//!
//! Every process that a job starts carries a mark in its environment, so that a test can say that none is left.

mod kubernetes;
mod local;
mod mpi;
mod refused;
mod slurm;
mod ssh;
mod unlucky;

use crate::bounded::Bounded;
use crate::common::{CREDENTIAL, Running, Said, THALWEG, scratch, text, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The variable that marks what a job has started.
const MARK: &str = "THALWEG_TEST_JOB";

/// Where jobs of a test run: a directory for targets, one for the state of the user, and what is local.
struct Place {
    directory: tempfile::TempDir,
    mark: String,
}

impl Place {
    fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let place = Place { directory: scratch(), mark: format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)) };
        for name in ["targets", "state", "here"] {
            fs::create_dir(place.directory.path().join(name)).unwrap();
        }
        place
    }

    fn targets(&self) -> PathBuf {
        self.directory.path().join("targets")
    }

    /// A path among what is local.
    fn here(&self, name: &str) -> PathBuf {
        self.directory.path().join("here").join(name)
    }

    /// Gives a command what all commands of this place have: a state of their own, the mark, and `$THALWEG`.
    fn within(&self, mut command: Command) -> Command {
        command.env_remove("THALWEG_STORE").env_remove(CREDENTIAL).env_remove("XDG_RUNTIME_DIR").env("NO_COLOR", "1");
        command.env("XDG_STATE_HOME", self.directory.path().join("state")).env(MARK, &self.mark).env("THALWEG", THALWEG);
        command.current_dir(self.directory.path().join("here")).stdin(std::process::Stdio::null());
        command
    }

    /// `thalweg launch`, its data in this place.
    fn launch(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(THALWEG);
        command.arg("launch");
        if !arguments.contains(&"--again") {
            command.args(["--targets", text(&self.targets())]);
        }
        command.args(arguments);
        self.within(command)
    }

    /// The same, to its end.
    fn run(&self, arguments: &[&str]) -> Said {
        self.launch(arguments).output_in_time().expect("the command starts").into()
    }

    /// The same, beside the test.
    fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.launch(arguments))
    }

    /// The processes with the mark: number and command line.
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

    /// The parts that serve.
    fn parts(&self) -> Vec<i32> {
        self.processes()
            .into_iter()
            .filter(|(_, line)| line.contains("launch --part") && line.starts_with(THALWEG))
            .map(|(pid, _)| pid)
            .collect()
    }

    /// No process is left, soon.
    #[track_caller]
    fn nobody_is_left(&self) {
        wait_until("no process of the job is left", || self.processes().is_empty());
    }

    /// No process, no data, no credential is left.
    #[track_caller]
    fn nothing_is_left(&self) {
        self.nobody_is_left();
        assert_eq!(below(&self.targets()), Vec::<PathBuf>::new(), "data is left");
        assert_eq!(files_below(&self.directory.path().join("state")), Vec::<PathBuf>::new(), "credentials are left");
    }
}

/// Everything in a directory.
fn below(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

/// All files in a tree.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    below(directory).into_iter().flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Whether a program is there; otherwise says that a test is skipped without it.
fn has(program: &str, without: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).chain(["/usr/sbin".into()]).any(|directory| directory.join(program).is_file());
    if !found {
        crate::common::skipped(&format!("{program} is not here: {without}"));
    }
    found
}

/// What a test copies through a store and back.
const THROUGH: &str = "$THALWEG cp --quiet thal:/in/a thal:/out && $THALWEG df >&2 && echo done";

/// Runs a job that copies a file in, through and out, and checks every byte.
#[track_caller]
fn copies_through(place: &Place, arguments: &[&str]) -> Said {
    let bytes = crate::common::content(36, 3 << 20);
    fs::create_dir_all(place.here("data")).unwrap();
    fs::write(place.here("data/a"), &bytes).unwrap();
    let said =
        place.run(&[arguments, &["--stage-in", "data:/in", "--stage-out", "/out:results/out", "--", "sh", "-c", THROUGH]].concat()).done();
    assert_eq!(said.out, "done\n");
    assert!(fs::read(place.here("results/out")).unwrap() == bytes, "the bytes that came out");
    said
}

//! A real PostgreSQL server for a test: unprivileged, on a socket in a temporary directory, with default settings where they affect what
//! survives a sync. Unsynced data stays in memory for as long as can be configured, so that a crash loses it. The server ends with the
//! test.
//!
//! The test programs that need one share this file.

#![allow(dead_code, unreachable_pub)] // each test program uses a part of it, in a module of its own

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far longer than a start takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The owner of the server's files and databases.
const USER: &str = "thalweg";

/// A PostgreSQL server.
pub struct Server {
    programs: PathBuf,
    settings: Vec<String>,
    directory: tempfile::TempDir,
    process: Option<Child>,
}

impl Server {
    /// Starts a server with an empty database `names`; `None`, with the reason printed, without PostgreSQL.
    pub fn start() -> Option<Server> {
        let memory = Path::new("/dev/shm");
        let lazy = ["max_connections=60", "wal_writer_delay=10s"];
        Server::start_in(if memory.is_dir() { memory } else { Path::new("/tmp") }, &lazy)
    }

    /// Starts a server with its files in a directory of `scratch`, and with these settings.
    pub fn start_in(scratch: &Path, settings: &[&str]) -> Option<Server> {
        let Some(programs) = programs() else {
            println!("SKIPPED: PostgreSQL is not installed (postgres, initdb)");
            return None;
        };
        let mut server = Server::without_data(programs, scratch, settings.iter().map(|each| (*each).to_owned()).collect());
        // (A new cluster's files need not survive a power loss during their creation.)
        let data = server.data();
        server.run("initdb", &["-D", &data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]);
        server.begin();
        server.create("names");
        Some(server)
    }

    fn without_data(programs: PathBuf, scratch: &Path, settings: Vec<String>) -> Server {
        let server = Server { programs, settings, directory: tempfile::tempdir_in(scratch).unwrap(), process: None };
        if rustix::process::geteuid().is_root() {
            let unprivileged = (rustix::process::Uid::from_raw(65534), rustix::process::Gid::from_raw(65534));
            rustix::fs::chown(server.directory.path(), Some(unprivileged.0), Some(unprivileged.1)).unwrap();
        }
        server
    }

    /// Starts a standby that follows this server.
    pub fn standby(&self) -> Server {
        let scratch = self.directory.path().parent().unwrap();
        let mut standby = Server::without_data(self.programs.clone(), scratch, self.settings.clone());
        let (host, data) = (self.socket().display().to_string(), standby.data());
        standby.run("pg_basebackup", &["-h", &host, "-U", USER, "-D", &data, "-R", "-X", "stream", "-c", "fast"]);
        standby.begin();
        let begun = Instant::now();
        while self.sql("postgres", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "0" {
            assert!(begun.elapsed() < LIMIT, "the standby does not follow: {}", standby.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        standby
    }

    /// Promotes it to primary.
    pub fn promote(&self) {
        self.run("pg_ctl", &["promote", "-w", "-D", &self.data()]);
    }

    /// Returns the address of a database on whichever of the two accepts changes.
    pub fn address_of_both(&self, other: &Server, database: &str) -> String {
        format!("postgresql:///{database}?host={}&host={}&user={USER}", self.socket().display(), other.socket().display())
    }

    fn data(&self) -> String {
        self.directory.path().join("data").display().to_string()
    }

    /// Returns the directory of its socket.
    pub fn socket(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the address of a database.
    pub fn address(&self, database: &str) -> String {
        self.address_of(USER, database)
    }

    /// Returns the address of a database for another user.
    pub fn address_of(&self, user: &str, database: &str) -> String {
        format!("postgresql:///{database}?host={}&user={user}", self.socket().display())
    }

    /// Creates a database.
    pub fn create(&self, database: &str) {
        self.sql("postgres", &format!("CREATE DATABASE {database}"));
    }

    /// Runs SQL; returns its output without column names.
    #[track_caller]
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let host = self.socket().display().to_string();
        self.run("psql", &["-X", "-h", &host, "-U", USER, "-d", database, "-v", "ON_ERROR_STOP=1", "-Atc", sql])
    }

    /// Starts it after a kill.
    pub fn begin(&mut self) {
        let log = std::fs::File::options().create(true).append(true).open(self.directory.path().join("log")).unwrap();
        let socket = format!("unix_socket_directories={}", self.socket().display());
        let data = self.data();
        let mut arguments = vec!["-D", &data, "-c", "listen_addresses=", "-c", &socket];
        arguments.extend(self.settings.iter().flat_map(|each| ["-c", each.as_str()]));
        let mut command = self.command("postgres", &arguments);
        self.process = Some(command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        let begun = Instant::now();
        let host = self.socket().display().to_string();
        while !self.command("pg_isready", &["-q", "-h", &host]).status().is_ok_and(|status| status.success()) {
            assert!(begun.elapsed() < LIMIT, "PostgreSQL did not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills it with all its processes, like a crash: changes that its log does not have on stable storage are lost.
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let pid = process.id();
        let children = || -> Vec<u32> {
            let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            listed.split_whitespace().filter_map(|child| child.parse().ok()).collect()
        };
        let signal = |pid: u32, signal| {
            if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        };
        // None of them may write anything after the first has ended.
        let mut killed = children();
        signal(pid, rustix::process::Signal::STOP);
        killed.iter().for_each(|child| signal(*child, rustix::process::Signal::KILL));
        // A child that was forked meanwhile would keep the shared memory, and the next start would be refused.
        let stopped = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "));
        let asked = Instant::now();
        while !stopped() && asked.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(1));
        }
        killed.extend(children());
        killed.iter().for_each(|child| signal(*child, rustix::process::Signal::KILL));
        signal(pid, rustix::process::Signal::KILL);
        process.wait().unwrap();
        let begun = Instant::now();
        while killed.iter().any(|child| Path::new(&format!("/proc/{child}/exe")).read_link().is_ok()) {
            assert!(begun.elapsed() < LIMIT, "PostgreSQL's processes do not end");
            std::thread::sleep(Duration::from_millis(2));
        }
        // The lock file names a process that has ended.
        let _ = std::fs::remove_file(Path::new(&self.data()).join("postmaster.pid"));
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let program = self.programs.join(program);
        let mut command = Command::new("setpriv");
        // Ends with the test, however that ends.
        command.args(["--pdeathsig", "QUIT"]);
        if rustix::process::geteuid().is_root() {
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        }
        command.arg("--").arg(program).args(arguments).current_dir(self.directory.path());
        command.env("LC_ALL", "C").env_remove("PGPASSWORD");
        command
    }

    #[track_caller]
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program, arguments).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program} {arguments:?}: {said}{}", self.log());
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the directory of the server's programs: in PATH, or where Debian installs each version.
fn programs() -> Option<PathBuf> {
    let mut places: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        let mut versions: Vec<PathBuf> = versions.flatten().map(|version| version.path().join("bin")).collect();
        versions.sort();
        places.extend(versions.into_iter().rev());
    }
    let needed = ["postgres", "initdb", "pg_isready", "psql", "pg_basebackup", "pg_ctl"];
    places.into_iter().find(|place| needed.iter().all(|program| place.join(program).is_file()))
}

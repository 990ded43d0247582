//! One run: both ends, all connections, the clock.
//!
//! The receivers are a forked process unless asked otherwise, so that the two ends share no address space: mapping and
//! unmapping take a lock of the whole address space, and a real copy's ends do not share it either. The fork happens while this process has a
//! single thread; the child tells the outcome through a pipe and exits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use serde_json::json;

use crate::receive::receive;
use crate::send::send;
use crate::unit::{Method, Unit};

/// What to stream, and how.
pub struct Stream {
    pub source: PathBuf,
    pub directory: PathBuf,
    pub method: Method,
    pub connections: u32,
    pub unit_bytes: u64,
    pub sync: bool,
    /// The target files stay.
    pub keep: bool,
    pub one_process: bool,
}

/// What a run came to.
pub struct Outcome {
    size_bytes: u64,
    seconds: f64,
    /// CPU time of both ends, user and system. On a busy machine it says more than the wall time.
    cpu_seconds: f64,
}

impl Outcome {
    pub fn gib_per_s(&self) -> f64 {
        self.size_bytes as f64 / self.seconds / (1u64 << 30) as f64
    }
}

impl Stream {
    pub fn name(&self) -> String {
        let Stream { method: Method { variant, part_bytes }, connections, unit_bytes, .. } = self;
        format!("{variant}, {connections} connections, units of {} KiB, parts of {} KiB", unit_bytes >> 10, part_bytes >> 10)
    }

    pub fn json(&self, outcome: &Outcome) -> serde_json::Value {
        json!({
            "variant": self.method.variant.to_string(),
            "checksum": self.method.variant.checksum.is_some(),
            "connections": self.connections,
            "unit_bytes": self.unit_bytes,
            "part_bytes": self.method.part_bytes,
            "sync": self.sync,
            "processes": if self.one_process { 1 } else { 2 },
            "size_bytes": outcome.size_bytes,
            "seconds": outcome.seconds,
            "cpu_seconds": outcome.cpu_seconds,
            "gib_per_s": outcome.gib_per_s(),
        })
    }

    pub fn run(&self) -> io::Result<Outcome> {
        let source = File::open(&self.source).map_err(|error| named(&self.source, error))?;
        let size_bytes = source.metadata()?.len();
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let mut targets = Targets::create(&self.directory, self.connections, self.keep)?;
        let cpu_before = cpu_seconds();
        let (seconds, sent, received) = if self.one_process {
            self.in_threads(&source, size_bytes, &listener, &targets)
        } else {
            self.in_two(&source, size_bytes, &listener, &targets)
        }?;
        let cpu_seconds = cpu_seconds() - cpu_before;
        if sent != received {
            return Err(io::Error::other(format!("{}: checksums differ: sent {sent:x?}, received {received:x?}", self.name())));
        }
        targets.check_size(size_bytes)?;
        Ok(Outcome { size_bytes, seconds, cpu_seconds })
    }

    fn in_threads(&self, source: &File, size_bytes: u64, listener: &TcpListener, targets: &Targets) -> io::Result<(f64, Sums, Sums)> {
        let start = Instant::now();
        thread::scope(|scope| {
            let receiver = scope.spawn(|| self.receive_all(size_bytes, listener, targets));
            let sent = self.send_all(source, size_bytes, listener)?;
            let received = receiver.join().expect("a receiver panicked")?;
            Ok((start.elapsed().as_secs_f64(), sent, received))
        })
    }

    fn in_two(&self, source: &File, size_bytes: u64, listener: &TcpListener, targets: &Targets) -> io::Result<(f64, Sums, Sums)> {
        let (mut outcome, mut report) = io::pipe()?;
        // SAFETY: this process has one thread here, so the child inherits no lock that somebody else holds.
        let child = unsafe { libc::fork() };
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        if child == 0 {
            drop(outcome);
            let text = match self.receive_all(size_bytes, listener, targets) {
                Ok(sums) => sums.iter().map(|sum| format!("{}\n", sum.map_or("-".into(), |sum| sum.to_string()))).collect(),
                Err(error) => format!("error: {error}\n"),
            };
            let failed = report.write_all(text.as_bytes()).is_err();
            // SAFETY: ends the child without running the parent's destructors, which would remove the targets.
            unsafe { libc::_exit(failed.into()) };
        }
        drop(report);
        let start = Instant::now();
        let sent = self.send_all(source, size_bytes, listener);
        let mut text = String::new();
        let read = outcome.read_to_string(&mut text);
        let seconds = start.elapsed().as_secs_f64();
        // SAFETY: our own child, whose status nobody else waits for.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        read?;
        if let Some(error) = text.strip_prefix("error: ") {
            return Err(io::Error::other(format!("receiver: {}", error.trim_end())));
        }
        let received = text.lines().map(|line| line.parse().ok()).collect();
        Ok((seconds, sent?, received))
    }

    /// The connections in order, one thread each.
    fn send_all(&self, source: &File, size_bytes: u64, listener: &TcpListener) -> io::Result<Sums> {
        let address = listener.local_addr()?;
        let sockets = (0..self.connections).map(|_| TcpStream::connect(address)).collect::<io::Result<Vec<_>>>()?;
        thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(&sockets)
                .map(|(index, socket)| scope.spawn(move || send(source, socket, self.units(index, size_bytes), self.method)))
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a sender panicked")).collect()
        })
    }

    /// The connections in the order of their arrival, which over loopback is that of their making.
    fn receive_all(&self, size_bytes: u64, listener: &TcpListener, targets: &Targets) -> io::Result<Sums> {
        let sockets = (0..self.connections).map(|_| Ok(listener.accept()?.0)).collect::<io::Result<Vec<_>>>()?;
        thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(sockets.iter().zip(&targets.files))
                .map(|(index, (socket, file))| {
                    scope.spawn(move || {
                        let sum = receive(socket, file, self.units(index, size_bytes).map(|unit| unit.length), self.method)?;
                        if self.sync {
                            file.sync_data()?;
                        }
                        Ok(sum)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a receiver panicked")).collect()
        })
    }

    /// The units of one connection.
    fn units(&self, connection: u32, size_bytes: u64) -> impl Iterator<Item = Unit> + use<> {
        let (unit_bytes, connections) = (self.unit_bytes, u64::from(self.connections));
        (u64::from(connection)..size_bytes.div_ceil(unit_bytes)).step_by(connections as usize).map(move |index| {
            let offset = index * unit_bytes;
            Unit { offset, length: unit_bytes.min(size_bytes - offset) as usize }
        })
    }
}

/// One checksum for each connection, where they are made.
type Sums = Vec<Option<u64>>;

/// The files of one run, removed when it is over unless they are to be kept.
struct Targets {
    paths: Vec<PathBuf>,
    files: Vec<File>,
    keep: bool,
}

impl Targets {
    fn create(directory: &Path, count: u32, keep: bool) -> io::Result<Targets> {
        let mut targets = Targets { paths: Vec::new(), files: Vec::new(), keep };
        for index in 0..count {
            let path = directory.join(format!("thalweg-raw.{}.{index}", std::process::id()));
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(|error| named(&path, error))?;
            targets.paths.push(path);
            targets.files.push(file);
        }
        Ok(targets)
    }

    fn check_size(&mut self, expected: u64) -> io::Result<()> {
        let sizes = self.files.iter().map(|file| Ok(file.metadata()?.len())).collect::<io::Result<Vec<_>>>()?;
        match sizes.iter().sum::<u64>() {
            size if size == expected => Ok(()),
            size => Err(io::Error::other(format!("the targets have {size} bytes: expected {expected}"))),
        }
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        self.paths.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

/// CPU time of this process and of the receivers that have ended.
fn cpu_seconds() -> f64 {
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .iter()
        .map(|&who| {
            // SAFETY: `rusage` is plain numbers, for which zero is a value, and the call only writes into it.
            let usage = unsafe {
                let mut usage = std::mem::zeroed::<libc::rusage>();
                libc::getrusage(who, &mut usage);
                usage
            };
            seconds(usage.ru_utime) + seconds(usage.ru_stime)
        })
        .sum()
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

//! Processes, threads and peers of tests, each waited for with a limit: a process that does not end is killed, and the test fails with its
//! output.
//!
//! The test programs of all crates share this file. The limit is no promise of the product: it only ends a test that hangs.

#![allow(dead_code)] // each test program uses a part of it

use std::io::{self, ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Far more than any process of a test takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A process' output may be open in a child of its own that outlives it, but not for long.
const OUTPUT_LIMIT: Duration = Duration::from_secs(20);

/// [`std::process`]'s waits, with a limit.
pub trait Bounded {
    /// Runs to its end with no input, as [`Command::output`] does.
    #[track_caller]
    fn output_in_time(&mut self) -> io::Result<Output>;
    /// Runs to its end, as [`Command::status`] does.
    #[track_caller]
    fn status_in_time(&mut self) -> io::Result<ExitStatus>;
}

impl Bounded for Command {
    fn output_in_time(&mut self) -> io::Result<Output> {
        self.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?.output_in_time()
    }

    fn status_in_time(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait_in_time(LIMIT)
    }
}

/// The same of a process that runs already.
pub trait BoundedChild {
    /// Waits for its end, as [`Child::wait`] does.
    #[track_caller]
    fn wait_in_time(&mut self, limit: Duration) -> io::Result<ExitStatus>;
    /// Reads its output and waits for its end, as [`Child::wait_with_output`] does.
    #[track_caller]
    fn output_in_time(self) -> io::Result<Output>;
}

impl BoundedChild for Child {
    fn wait_in_time(&mut self, limit: Duration) -> io::Result<ExitStatus> {
        match ended(self, limit)? {
            Some(status) => Ok(status),
            None => panic!("process {} did not end within {limit:?}, and was killed", self.id()),
        }
    }

    fn output_in_time(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (out, err) = (self.stdout.take().map(pieces), self.stderr.take().map(pieces));
        let pid = self.id();
        let status = ended(&mut self, LIMIT)?;
        let ((stdout, out_ended), (stderr, err_ended)) = (collected(out, OUTPUT_LIMIT), collected(err, OUTPUT_LIMIT));
        let said = || format!("it said:\n{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        let Some(status) = status else { panic!("process {pid} did not end within {LIMIT:?}, and was killed; {}", said()) };
        assert!(out_ended && err_ended, "process {pid} ended, and something that it started keeps its output open; {}", said());
        Ok(Output { status, stdout, stderr })
    }
}

/// How it ended; `None`: it did not, and was killed.
fn ended(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let (begun, mut pause) = (Instant::now(), Duration::from_micros(100));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > limit {
            child.kill()?;
            // A process in the kernel's hands may not end even then, and is not waited for.
            std::thread::sleep(Duration::from_millis(100));
            child.try_wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// What comes through a pipe, piece by piece, read by a thread of its own: who waits for a piece can give up.
pub fn pieces(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (give, take) = channel();
    std::thread::spawn(move || {
        let mut piece = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            if give.send(piece[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    take
}

/// Everything that comes through a pipe until it is closed, as [`Read::read_to_string`] has it.
#[track_caller]
pub fn rest(from: impl Read + Send + 'static) -> String {
    let (said, ended) = collected(Some(pieces(from)), LIMIT);
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(ended, "a pipe was not closed within {LIMIT:?}; it brought: {said}");
    said
}

/// All that came, and whether that was all.
fn collected(pieces: Option<Receiver<Vec<u8>>>, limit: Duration) -> (Vec<u8>, bool) {
    let Some(pieces) = pieces else { return (Vec::new(), true) };
    let (begun, mut all) = (Instant::now(), Vec::new());
    loop {
        match pieces.recv_timeout(limit.saturating_sub(begun.elapsed())) {
            Ok(mut piece) => all.append(&mut piece),
            Err(RecvTimeoutError::Disconnected) => return (all, true),
            Err(RecvTimeoutError::Timeout) => return (all, false),
        }
    }
}

/// What a thread came to, as [`JoinHandle::join`] has it: its panic is the test's.
#[track_caller]
pub fn joined<T>(thread: JoinHandle<T>) -> T {
    let (begun, mut pause) = (Instant::now(), Duration::from_micros(100));
    while !thread.is_finished() {
        assert!(begun.elapsed() < LIMIT, "a thread did not end within {LIMIT:?}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The next peer that connects, as [`TcpListener::accept`] has it; reads from it have a limit too.
#[track_caller]
pub fn accepted(listener: &TcpListener) -> TcpStream {
    let begun = Instant::now();
    listener.set_nonblocking(true).expect("a socket of our own");
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock && begun.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("nobody has connected within {LIMIT:?}: {error}"),
        }
    };
    stream.set_nonblocking(false).expect("a socket of our own");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit that is not zero");
    stream
}

/// Everything that a peer says until it closes the connection, in whatever way.
#[track_caller]
pub fn heard(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(LIMIT)).expect("a limit that is not zero");
    let mut all = Vec::new();
    if let Err(error) = stream.read_to_end(&mut all) {
        assert!(
            error.kind() != ErrorKind::WouldBlock,
            "a peer has not closed its connection within {LIMIT:?}; it said {} bytes",
            all.len()
        );
    }
    all
}

/// A process' output, read with a limit.
pub struct Lines {
    pieces: Receiver<Vec<u8>>,
    /// What came and was not taken yet.
    held: Vec<u8>,
}

impl Lines {
    pub fn new(from: impl Read + Send + 'static) -> Lines {
        Lines { pieces: pieces(from), held: Vec::new() }
    }

    /// The next line without its end; empty where there is no more. `Err`: none came in time.
    pub fn next(&mut self, limit: Duration) -> Result<String, String> {
        let begun = Instant::now();
        loop {
            if let Some(end) = self.held.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.held.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            match self.pieces.recv_timeout(limit.saturating_sub(begun.elapsed())) {
                Ok(mut piece) => self.held.append(&mut piece),
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(String::from_utf8_lossy(&std::mem::take(&mut self.held)).trim_end().to_owned());
                }
                Err(RecvTimeoutError::Timeout) => return Err(String::from_utf8_lossy(&self.held).into_owned()),
            }
        }
    }
}

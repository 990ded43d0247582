//! Bounded waits for processes, threads and peers of tests: a process that does not end is killed, and the test fails with its output.
//!
//! The test programs of all crates share this file. The limits are not promises of the product: they only end tests that hang.

#![allow(dead_code)] // each test program uses a part of it

use std::io::{self, ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Far longer than any process of a test takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Timeout for output that a child of an ended process holds open.
const OUTPUT_LIMIT: Duration = Duration::from_secs(20);

/// The waits of [`std::process`], with a limit.
pub trait Bounded {
    /// Runs to its end without input, like [`Command::output`].
    #[track_caller]
    fn output_in_time(&mut self) -> io::Result<Output>;
    /// Runs to its end, like [`Command::status`].
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

/// The waits of a running process, with a limit.
pub trait BoundedChild {
    /// Waits for its end, like [`Child::wait`].
    #[track_caller]
    fn wait_in_time(&mut self, limit: Duration) -> io::Result<ExitStatus>;
    /// Reads its output and waits for its end, like [`Child::wait_with_output`].
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

/// Waits for its exit status; `None` if it did not end and was killed.
fn ended(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let (begun, mut pause) = (Instant::now(), Duration::from_micros(100));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > limit {
            child.kill()?;
            // A process blocked in the kernel may not end even then, and is not waited for.
            std::thread::sleep(Duration::from_millis(100));
            child.try_wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Reads a pipe piece by piece in a separate thread, so that waiting for a piece can time out.
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

/// Reads a pipe until it is closed, like [`Read::read_to_string`].
#[track_caller]
pub fn rest(from: impl Read + Send + 'static) -> String {
    let (said, ended) = collected(Some(pieces(from)), LIMIT);
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(ended, "a pipe was not closed within {LIMIT:?}; it brought: {said}");
    said
}

/// Returns everything read, and whether it is complete.
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

/// Joins a thread, like [`JoinHandle::join`]; its panic becomes the test's.
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

/// Accepts the next connection, like [`TcpListener::accept`]; reads from it have a limit too.
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

/// Reads everything that a peer sends until it closes the connection in any way.
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

/// Lines of a process's output, read with a limit.
pub struct Lines {
    pieces: Receiver<Vec<u8>>,
    /// Bytes read but not returned yet.
    held: Vec<u8>,
}

impl Lines {
    pub fn new(from: impl Read + Send + 'static) -> Lines {
        Lines { pieces: pieces(from), held: Vec::new() }
    }

    /// Returns the next line without its end; empty at the end of output. `Err` at the timeout.
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

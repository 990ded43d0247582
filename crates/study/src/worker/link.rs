//! How much the link between two nodes carries: one TCP stream, for as long as it is asked to.

use super::protocol::Answer;
use crate::{Error, Result};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// The pieces in which bytes are handed over.
const PIECE_BYTES: usize = 256 << 10;
/// What is in the queues at first says nothing of the link: it is not counted.
const RUN_UP: f64 = 0.2;

fn failed(address: &str, doing: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    Error::file(Path::new(address), doing)
}

/// Listens, and takes one stream to nowhere on a thread of its own. Its last word is the rate at which bytes arrived.
pub(super) fn listen(address: &str) -> Result<Answer> {
    let listener = TcpListener::bind(address).map_err(failed(address, "listening"))?;
    let bound = listener.local_addr().map_err(failed(address, "listening"))?;
    std::thread::Builder::new()
        .name("link".to_owned())
        .spawn(move || listener.accept().map(|(stream, _)| take(stream)))
        .map_err(failed(address, "starting a thread"))?;
    Ok(Answer::Listening(bound.to_string()))
}

/// Takes bytes until there are no more, and says how fast they came.
fn take(mut stream: TcpStream) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let begun = Instant::now();
    // When counting began, and what has come since, and when the last of it did.
    let mut counted: Option<(f64, u64, f64)> = None;
    loop {
        let got = stream.read(&mut piece)? as u64;
        let at = begun.elapsed().as_secs_f64();
        counted = match counted {
            _ if got == 0 => break,
            Some((from, bytes, _)) => Some((from, bytes + got, at)),
            None if at >= RUN_UP => Some((at, 0, at)),
            None => None,
        };
    }
    let rate = counted.filter(|(from, _, to)| to > from).map_or(0.0, |(from, bytes, to)| bytes as f64 / (to - from));
    stream.write_all(&rate.to_le_bytes())
}

/// Sends for so long, and asks how fast it arrived.
pub(super) fn stream(to: &str, long: Duration) -> Result<Answer> {
    let mut stream = TcpStream::connect(to).map_err(failed(to, "connecting"))?;
    let piece = vec![0_u8; PIECE_BYTES];
    let begun = Instant::now();
    while begun.elapsed() < long {
        stream.write_all(&piece).map_err(failed(to, "sending"))?;
    }
    stream.shutdown(Shutdown::Write).map_err(failed(to, "sending"))?;
    let mut rate = [0; 8];
    stream.read_exact(&mut rate).map_err(failed(to, "asking how much arrived"))?;
    Ok(Answer::Streamed(f64::from_le_bytes(rate)))
}

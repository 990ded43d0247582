//! Measures the link between two nodes with one TCP stream, for a given time.

use super::protocol::Answer;
use crate::{Error, Result};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes per write to the socket.
const PIECE_BYTES: usize = 256 << 10;
/// Part of the time not counted at the start, while queues fill.
const RUN_UP: f64 = 0.2;

fn failed(address: &str, doing: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    Error::file(Path::new(address), doing)
}

/// Listens, and discards one stream on a separate thread, which replies with the rate at which bytes arrived.
pub(super) fn listen(address: &str) -> Result<Answer> {
    let listener = TcpListener::bind(address).map_err(failed(address, "listening"))?;
    let bound = listener.local_addr().map_err(failed(address, "listening"))?;
    std::thread::Builder::new()
        .name("link".to_owned())
        .spawn(move || listener.accept().map(|(stream, _)| take(stream)))
        .map_err(failed(address, "starting a thread"))?;
    Ok(Answer::Listening(bound.to_string()))
}

/// Reads bytes until the end, and replies with their rate.
fn take(mut stream: TcpStream) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let begun = Instant::now();
    // Start of counting, bytes since then, and time of the last of them.
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

/// Sends for a given time, and reads the rate at which the bytes arrived.
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

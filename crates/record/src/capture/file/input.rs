//! A capture file as a byte stream with a window of bounded size, so that a file of any length, or a pipe, is read in
//! bounded memory, and records are parsed in place, without another copy.

use std::io::{self, Read};

/// Size of one read: large enough to be cheap, small enough for the CPU's cache.
const READ_BYTES: usize = 256 << 10;

/// A window over a stream.
pub(crate) struct Input {
    from: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes consumed before `start`.
    position: u64,
}

impl Input {
    pub(crate) fn new(from: Box<dyn Read + Send>) -> Input {
        Input { from, buffer: vec![0; READ_BYTES * 2], start: 0, end: 0, position: 0 }
    }

    /// Returns the rest of the file as a stream.
    pub(crate) fn into_reader(self) -> Box<dyn Read + Send> {
        let there = self.buffer[self.start..self.end].to_vec();
        Box::new(io::Cursor::new(there).chain(self.from))
    }

    /// Returns the window's position in the file.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next `count` bytes without consuming them; fewer at the end of the file. The caller bounds
    /// `count`.
    pub(crate) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.end - self.start < count {
            self.fill(count)?;
        }
        Ok(&self.buffer[self.start..self.end.min(self.start + count)])
    }

    /// Returns bytes that `peek` has loaded, again.
    pub(crate) fn seen(&self, from: usize, to: usize) -> &[u8] {
        &self.buffer[self.start + from..self.start + to]
    }

    /// Consumes `count` bytes that `peek` has loaded.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        self.position += count as u64;
        debug_assert!(self.start <= self.end);
    }

    /// Skips `count` bytes, loaded or not; `false` if the file ends first.
    pub(crate) fn skip(&mut self, mut count: u64) -> io::Result<bool> {
        while count > 0 {
            let there = self.peek(1)?.len();
            if there == 0 {
                return Ok(false);
            }
            let step = count.min((self.end - self.start) as u64);
            self.consume(step as usize);
            count -= step;
        }
        Ok(true)
    }

    fn fill(&mut self, count: usize) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < count + READ_BYTES {
            self.buffer.resize(count + READ_BYTES, 0);
        }
        while self.end < count {
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(()),
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields a few bytes at a time, as a pipe does.
    struct Drip(Vec<u8>, usize);
    impl Read for Drip {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = out.len().min(3).min(self.0.len() - self.1);
            out[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
            self.1 += n;
            Ok(n)
        }
    }

    #[test]
    fn a_pipe_that_gives_little_at_a_time_is_read_whole() {
        let bytes: Vec<u8> = (0..200_u8).collect();
        let mut input = Input::new(Box::new(Drip(bytes.clone(), 0)));
        let mut seen = Vec::new();
        for count in [7, 50, 1, 100] {
            seen.extend_from_slice(input.peek(count).unwrap());
            input.consume(count);
        }
        assert!(input.skip(2).unwrap());
        assert_eq!(input.position(), 160);
        seen.extend_from_slice(&[158, 159]);
        seen.extend_from_slice(input.peek(1000).unwrap());
        assert_eq!(seen, bytes);
        assert!(!input.skip(1000).unwrap());
    }
}

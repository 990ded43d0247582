//! Reads packets from a capture file: pcap (micro- and nanoseconds, both byte orders) and pcapng (sections, several
//! interfaces, any resolution, unknown blocks), optionally compressed with gzip or zstd.
//!
//! A file that is truncated or damaged yields the packets before that point; the problem is kept as a sentence. Only
//! a file that is not a capture at all is an error.

mod input;
mod packed;
mod packet;
mod pcapng;

use input::Input;
use packed::{Failure, Packing, unpacked};
use packet::{MOST_PACKET_BYTES, Next, Order, PacketRange, cut_short, instant};
use pcapng::Sections;
use std::io;

/// A packet in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    /// Capture time: nanoseconds on the file's clock.
    pub at_ns: i64,
    /// Its link type, numbered as in capture files.
    pub link: u32,
    /// Its captured bytes.
    pub data: &'a [u8],
    /// Its length on the wire.
    pub wire_bytes: u32,
}

enum Format {
    Pcap { order: Order, nanoseconds: bool, link: u32 },
    Pcapng(Sections),
}

/// The packets of a file.
pub(crate) struct Packets {
    input: Input,
    format: Format,
    /// Length of the last returned packet, consumed on the next call.
    pending: usize,
    /// The first packet, read ahead.
    first: Option<PacketRange>,
    /// Why reading stopped before the end.
    pub problem: Option<String>,
    /// Why decompression stopped before the end.
    unpacking: Option<Failure>,
    ended: bool,
}

/// Why a file is not a capture.
pub(crate) enum NotACapture {
    Io(io::Error),
    Problem(String),
}

impl From<io::Error> for NotACapture {
    fn from(error: io::Error) -> NotACapture {
        NotACapture::Io(error)
    }
}

impl Packets {
    /// Reads the file's header.
    pub(crate) fn open(from: Box<dyn io::Read + Send>) -> Result<Packets, NotACapture> {
        let mut input = Input::new(from);
        let Some(packing) = Packing::of(input.peek(4)?) else { return Packets::unpacked(input, None) };
        let (from, ended) = unpacked(packing, input.into_reader())?;
        let mut input = Input::new(from);
        if Packing::of(input.peek(4)?).is_some() {
            return Err(NotACapture::Problem("is compressed twice; decompress it once first (gunzip, zstd -d)".to_owned()));
        }
        Packets::unpacked(input, Some(ended))
    }

    fn unpacked(mut input: Input, unpacking: Option<Failure>) -> Result<Packets, NotACapture> {
        let head = input.peek(24)?.to_vec();
        let why = unpacking.as_ref().and_then(|ended| ended.lock().clone());
        let problem = |text: &str| Err(NotACapture::Problem(why.clone().unwrap_or_else(|| text.to_owned())));
        if head.is_empty() {
            return problem("is empty; expected a capture (pcap or pcapng)");
        }
        if head.len() < 4 {
            return problem("is too short for a capture (pcap or pcapng)");
        }
        let magic = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let (big, nanoseconds) = match magic {
            0xa1b2_c3d4 => (true, false),
            0xd4c3_b2a1 => (false, false),
            0xa1b2_3c4d => (true, true),
            0x4d3c_b2a1 => (false, true),
            0x0a0d_0d0a => {
                let format = Format::Pcapng(Sections::default());
                return Ok(Packets { input, format, pending: 0, first: None, problem: None, unpacking, ended: false });
            }
            _ => return problem("is not a capture: neither pcap nor pcapng (a recording is a directory, NAME.thw)"),
        };
        if head.len() < 24 {
            return problem("ends within the header of a pcap file");
        }
        let order = Order { big };
        // The upper bits give the length of the frame check sequence; the rest is the link type.
        let link = order.u32(&head, 20) & 0x0fff_ffff;
        input.consume(24);
        let format = Format::Pcap { order, nanoseconds, link };
        Ok(Packets { input, format, pending: 0, first: None, problem: None, unpacking, ended: false })
    }

    /// Returns the current position in the file.
    pub(crate) fn position(&self) -> u64 {
        self.input.position() + self.pending as u64
    }

    /// Returns the time of the first packet, which `next` still returns.
    pub(crate) fn first_ns(&mut self) -> io::Result<Option<i64>> {
        self.first = self.find()?;
        Ok(self.first.map(|found| found.at_ns))
    }

    /// Returns the packets that the capturing program reported as lost.
    pub(crate) fn dropped(&self) -> u64 {
        match &self.format {
            Format::Pcap { .. } => 0,
            Format::Pcapng(sections) => sections.dropped(),
        }
    }

    /// Returns the next packet; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Packet<'_>>> {
        self.input.consume(std::mem::take(&mut self.pending));
        let found = match self.first.take() {
            Some(found) => Some(found),
            None => self.find()?,
        };
        Ok(found.map(|found| {
            self.pending = found.length;
            let data = self.input.seen(found.from, found.to);
            Packet { at_ns: found.at_ns, link: found.link, data, wire_bytes: found.wire_bytes }
        }))
    }

    fn find(&mut self) -> io::Result<Option<PacketRange>> {
        if self.ended {
            return Ok(None);
        }
        let next = match &mut self.format {
            Format::Pcap { order, nanoseconds, link } => pcap_record(&mut self.input, *order, *nanoseconds, *link)?,
            Format::Pcapng(sections) => sections.next(&mut self.input)?,
        };
        match next {
            Next::Packet(found) => Ok(Some(found)),
            Next::End(problem) => {
                self.ended = true;
                self.problem = self.unpacking.as_ref().and_then(|ended| ended.lock().clone()).or(problem);
                Ok(None)
            }
        }
    }
}

fn pcap_record(input: &mut Input, order: Order, nanoseconds: bool, link: u32) -> io::Result<Next> {
    const HEAD: usize = 16;
    let position = input.position();
    let head = input.peek(HEAD)?;
    if head.is_empty() {
        return Ok(Next::End(None));
    }
    if head.len() < HEAD {
        return Ok(Next::End(Some(cut_short(position))));
    }
    let (seconds, fraction) = (order.u32(head, 0), order.u32(head, 4));
    let (captured, wire_bytes) = (order.u32(head, 8), order.u32(head, 12));
    if captured > MOST_PACKET_BYTES {
        return Ok(Next::End(Some(format!("is damaged at byte {position}: a packet of {captured} bytes; the packets before it are used"))));
    }
    let length = HEAD + captured as usize;
    if input.peek(length)?.len() < length {
        return Ok(Next::End(Some(cut_short(position))));
    }
    let fraction_ns = i128::from(fraction) * if nanoseconds { 1 } else { 1000 };
    let at_ns = instant(i128::from(seconds) * 1_000_000_000 + fraction_ns);
    Ok(Next::Packet(PacketRange { at_ns, link, wire_bytes: wire_bytes.max(captured), from: HEAD, to: length, length }))
}

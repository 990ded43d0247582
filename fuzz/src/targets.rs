//! The readers that are tried. A new one is one type here and one line in [`all`].

use crate::made::{CLIENT, Format, Link, SERVER, Talk, call, record, reply, write};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_explain::rpcstat::rpcstat;
use thalweg_explain::runs::runs;
use thalweg_explain::{Options as Explaining, explain};
use thalweg_record::capture::{Capture, Options};
use thalweg_trace::{
    CounterName, Ending, Event, FORMAT_VERSION, Memory, MemorySource, Meta, Recording, RecordingWriter, Sink, Source, Time, decode_events,
    encode_events,
};

/// A reader.
pub trait Target {
    /// Its name on the command line, and in the names of cases.
    fn name(&self) -> &'static str;
    /// Right input.
    fn corpus(&self) -> Vec<Vec<u8>>;
    /// Reads `bytes` to their end. An error of the reader's is as good as a result; `Err` is a promise that it broke.
    fn run(&self, bytes: &[u8]) -> Result<(), String>;
}

/// All of them.
pub fn all() -> Vec<Box<dyn Target>> {
    vec![Box::new(CaptureFile), Box::new(Rpc), Box::new(Events), Box::new(Segments::new()), Box::new(Tables::new())]
}

/// Committed captures of real programs.
fn captures() -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/record/tests/captures");
    let read = |name: &str| std::fs::read(directory.join(name)).expect("a committed capture can be read");
    vec![read("nfs3.pcapng"), read("nfs4.pcapng")]
}

/// Events that are kept of one case.
const MOST_EVENTS: usize = 1 << 20;

/// A capture to its events, then their RPCs and their explanation.
fn read_capture(bytes: &[u8]) -> Result<(), String> {
    let memory = Arc::new(Memory::new(MOST_EVENTS));
    let Ok(capture) = Capture::from_reader(Path::new("case"), Box::new(std::io::Cursor::new(bytes.to_vec()))) else { return Ok(()) };
    let Ok(summary) = capture.read(&Options::default(), &(Arc::clone(&memory) as Arc<dyn Sink>)) else { return Ok(()) };
    let (events, lost) = memory.drain();
    // Every event has a packet that made it; a packet makes a few.
    let most = 64 + summary.counts.packets.saturating_mul(64) + bytes.len() as u64;
    if events.len() as u64 + lost > most {
        return Err(format!("{} events of {} packets", events.len() as u64 + lost, summary.counts.packets));
    }
    let meta = Meta { attributes: summary.attributes, ..meta(summary.start, Some(summary.end.plus_ns(1))) };
    let source = MemorySource::from_events(meta, events);
    // Of several runs the longest stands for all; the others are to be right, too.
    for run in runs(&source).iter().take(4) {
        analysed(&run.within(&source).map_err(|e| e.to_string())?)?;
    }
    analysed(&source)
}

fn meta(start: Time, end: Option<Time>) -> Meta {
    Meta {
        format: FORMAT_VERSION,
        command: Vec::new(),
        recorder: "capture".to_owned(),
        start,
        end,
        exit_code: None,
        dropped_events: 0,
        attributes: Vec::new(),
    }
}

/// What is made of a recording with RPCs must be consistent, whatever they are.
fn analysed(source: &dyn Source) -> Result<(), String> {
    if let Ok(document) = rpcstat(source) {
        let finite =
            document.wall_s.is_finite() && document.procedures.iter().all(|p| p.mean_s.is_none_or(f64::is_finite) && p.min_s <= p.max_s);
        let text = document.to_json();
        if !finite || text.len() > 4 << 20 {
            return Err("the document is not what it must be".to_owned());
        }
    }
    if let Ok(explanation) = explain(source, &Explaining { what_if: false, why: true, ..Explaining::default() }) {
        let share: f64 = explanation.critical_path.iter().map(|c| c.share).sum();
        if !explanation.critical_path.is_empty() && (share - 1.0).abs() > 0.001 {
            return Err(format!("shares sum to {share}"));
        }
    }
    Ok(())
}

/// Capture files.
struct CaptureFile;

impl Target for CaptureFile {
    fn name(&self) -> &'static str {
        "capture"
    }
    fn corpus(&self) -> Vec<Vec<u8>> {
        let mut corpus = captures();
        corpus.extend(corpus.first().map(|capture| packed(capture)));
        corpus.push(write(&turns().packets, Format::Pcap { big: false, nanoseconds: true }, Link::Raw, 300));
        for (i, link) in Link::ALL.into_iter().enumerate() {
            let talk = conversation(i % 2 == 1);
            let big = i % 3 == 0;
            corpus.push(write(&talk.packets, Format::Pcap { big, nanoseconds: i % 2 == 0 }, link, 256));
            corpus.push(write(&talk.packets, Format::Pcapng { big, resolution: [6, 9, 0x9e][i % 3] }, link, 2000));
        }
        corpus
    }
    fn run(&self, bytes: &[u8]) -> Result<(), String> {
        read_capture(bytes)
    }
}

/// A capture packed by gzip.
fn packed(capture: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(capture).expect("memory");
    to.finish().expect("memory")
}

/// A conversation that is no RPC, a year's silence in it.
fn turns() -> Talk {
    let mut talk = Talk::new(false, 701);
    talk.connect();
    for _ in 0..5 {
        talk.send(CLIENT, b"GET / HTTP/1.1\r\n\r\n");
        talk.wait(20_000_000);
        talk.send(SERVER, &[b'x'; 5000]);
    }
    talk.wait(31_536_000_000_000_000);
    let mut again = Talk::new(false, 702);
    again.at_ns = talk.at_ns;
    again.connect();
    again.send(CLIENT, b"SSH-2.0-x\r\n");
    talk.packets.extend(again.packets);
    talk
}

/// A few calls and replies, with a retransmission and an unanswered call.
fn conversation(v6: bool) -> Talk {
    let mut talk = Talk::new(v6, 700);
    talk.connect();
    for xid in 1..=6 {
        talk.send(CLIENT, &record(call(xid, 7, 300 * xid as usize)));
        talk.wait(300_000);
        talk.send(SERVER, &record(reply(xid, 0, 40)));
    }
    talk.send(CLIENT, &record(call(9, 21, 10)));
    talk.wait(1_500_000_000);
    talk.send(CLIENT, &record(call(9, 21, 10)));
    talk.datagram(CLIENT, &call(1, 1, 40));
    talk.datagram(SERVER, &reply(1, 0, 40));
    talk
}

/// RPC messages: what both ends say is changed, and packed into packets that are right.
struct Rpc;

impl Target for Rpc {
    fn name(&self) -> &'static str {
        "rpc"
    }
    fn corpus(&self) -> Vec<Vec<u8>> {
        let exchange = |procedure: u32, payload: usize| {
            (1..=5).flat_map(|xid| [record(call(xid, procedure, payload)), record(reply(xid, 0, payload))].concat()).collect::<Vec<u8>>()
        };
        let compound: Vec<u8> = [
            1_u32,
            0,
            2,
            100_003,
            4,
            1,
            0,
            0,
            0,
            0,
            3,
            0x6162_6300,
            0,
            4,
            53,
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            22,
            4,
            5,
            15,
            1,
            0x6100_0000,
            9,
            1,
            1,
        ]
        .iter()
        .flat_map(|w| w.to_be_bytes())
        .collect();
        vec![exchange(1, 40), exchange(7, 5000), exchange(19, 100), [record(compound.clone()), record(reply(1, 0, 8))].concat(), compound]
    }
    fn run(&self, bytes: &[u8]) -> Result<(), String> {
        let mut talk = Talk::new(false, 700);
        talk.segment_bytes = 700;
        talk.connect();
        for (i, chunk) in bytes.chunks(900).enumerate() {
            talk.send(if i % 2 == 0 { CLIENT } else { SERVER }, chunk);
        }
        talk.wait(1_000_000);
        // The same from the other end, and as datagrams.
        talk.send(SERVER, bytes);
        talk.datagram(CLIENT, &bytes[..bytes.len().min(60_000)]);
        talk.datagram(SERVER, &bytes[..bytes.len().min(60_000)]);
        read_capture(&write(&talk.packets, Format::Pcap { big: false, nanoseconds: true }, Link::Raw, usize::MAX))
    }
}

/// Events of a real capture.
fn events() -> (Meta, Vec<Event>) {
    let memory = Arc::new(Memory::new(MOST_EVENTS));
    let bytes = captures().swap_remove(0);
    let capture = Capture::from_reader(Path::new("nfs3.pcapng"), Box::new(std::io::Cursor::new(bytes))).expect("a capture");
    let summary = capture.read(&Options::default(), &(Arc::clone(&memory) as Arc<dyn Sink>)).expect("a capture");
    (meta(summary.start, Some(summary.end.plus_ns(1))), memory.drain().0)
}

/// Batches of events, as a socket or a segment carries them.
struct Events;

impl Target for Events {
    fn name(&self) -> &'static str {
        "events"
    }
    fn corpus(&self) -> Vec<Vec<u8>> {
        let all = events().1;
        all.chunks(40).map(encode_events).collect()
    }
    fn run(&self, bytes: &[u8]) -> Result<(), String> {
        let Ok(events) = decode_events(bytes) else { return Ok(()) };
        if decode_events(&encode_events(&events)).ok().as_ref() != Some(&events) {
            return Err("what was written reads otherwise".to_owned());
        }
        let end = Some(Time::from_monotonic_ns(1 << 40));
        analysed(&MemorySource::from_events(meta(Time::from_monotonic_ns(0), end), events))
    }
}

/// Opens a recording and reads all of it.
fn read_recording(root: &Path) -> Result<(), String> {
    let Ok(recording) = Recording::open(root) else { return Ok(()) };
    for batch in recording.spans_backward() {
        if batch.is_err() {
            break;
        }
    }
    let _ = (recording.marks(), recording.samples(), recording.stacks());
    for &name in CounterName::ALL {
        let _ = recording.counters(name);
    }
    analysed(&recording)
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { left.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// A recording that is written anew for each case, with one of its files changed. The first byte of a case says which.
struct Whole {
    scratch: tempfile::TempDir,
    root: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Whole {
    fn new(finished: bool) -> Whole {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let root = scratch.path().join("case.thw");
        let (meta, events) = events();
        let writer = RecordingWriter::create(&root, meta.clone()).expect("a recording");
        for chunk in events.chunks(100) {
            writer.take(&mut chunk.to_vec());
        }
        if finished {
            writer.finish(Ending::at(meta.end.expect("it ended"))).expect("a recording");
            // With checksums every change is told before anything is read; without them the readers are on their own.
            let _ = std::fs::remove_file(root.join("checksums.json"));
        }
        let files = files_below(&root).into_iter().map(|path| (path.clone(), std::fs::read(&path).expect("just written"))).collect();
        Whole { scratch, root, files }
    }

    fn corpus(&self) -> Vec<Vec<u8>> {
        self.files.iter().enumerate().map(|(i, (_, bytes))| [&[i as u8][..], bytes].concat()).collect()
    }

    fn run(&self, bytes: &[u8]) -> Result<(), String> {
        debug_assert!(self.root.starts_with(self.scratch.path()));
        let Some((&which, bytes)) = bytes.split_first() else { return Ok(()) };
        let (path, right) = &self.files[usize::from(which) % self.files.len()];
        std::fs::write(path, bytes).map_err(|e| e.to_string())?;
        let done = read_recording(&self.root);
        std::fs::write(path, right).map_err(|e| e.to_string())?;
        done
    }
}

/// Recordings that were never finished.
struct Segments(Whole);

impl Segments {
    fn new() -> Segments {
        Segments(Whole::new(false))
    }
}

impl Target for Segments {
    fn name(&self) -> &'static str {
        "segments"
    }
    fn corpus(&self) -> Vec<Vec<u8>> {
        self.0.corpus()
    }
    fn run(&self, bytes: &[u8]) -> Result<(), String> {
        self.0.run(bytes)
    }
}

/// Recordings whose tables another program wrote.
struct Tables(Whole);

impl Tables {
    fn new() -> Tables {
        Tables(Whole::new(true))
    }
}

impl Target for Tables {
    fn name(&self) -> &'static str {
        "tables"
    }
    fn corpus(&self) -> Vec<Vec<u8>> {
        self.0.corpus()
    }
    fn run(&self, bytes: &[u8]) -> Result<(), String> {
        self.0.run(bytes)
    }
}

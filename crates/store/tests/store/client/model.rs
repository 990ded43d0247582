//! The client library against a vector of bytes: random operations of several clients, over real servers on loopback, with every
//! distribution. Every read returns what was written last, however either was done.
//!
//! `THALWEG_MODEL_CASES` sets the number of random histories.

use crate::loopback;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use thalweg_client::{AheadOptions, BehindOptions, BufferedFile, BufferedOptions, DataClient, FileHandle, ReadAhead, StoreFile};
use thalweg_layout::{Layout, Spec};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::io::{Allocate, FileId, Seek, TargetId};

const CLIENTS: usize = 3;
const TARGETS: u32 = 5;
/// Upper bound of offsets: beyond one chunk, and within a few.
const REACH: u64 = 6 << 20;

/// The ways to write bytes.
#[derive(Clone, Copy, Debug)]
enum WriteWay {
    Behind,
    Through,
    /// In pieces of this length, sequentially.
    Pieces(usize),
    /// In such pieces, in reverse order.
    PiecesBackward(usize),
    /// By two threads that write alternate pieces.
    Threads(usize),
}

/// The ways to read bytes.
#[derive(Clone, Copy, Debug)]
enum ReadWay {
    Buffered,
    /// After a flush, unbuffered.
    Direct,
    /// Read ahead, by a reader that knows the file's size.
    KnownSize,
    Pieces(usize),
    /// Pieces of this length at this distance.
    Strided(usize, u64),
    /// By two threads that read alternate pieces.
    Threads(usize),
}

#[derive(Clone, Debug)]
enum Operation {
    Write(u64, usize, u64, WriteWay),
    Read(u64, usize, ReadWay),
    Truncate(u64),
    Allocate(u64, u64, Allocate),
    Seek(u64, Seek),
    Size,
    Flush,
    Sync,
    /// At the end of the file.
    Append(usize, u64),
    /// Opened again: buffered, or uncached.
    Reopen(bool),
    /// Limits the memory for windows.
    Budget(u64),
    /// Writes the same place repeatedly: the last write counts.
    Overwrite(u64, usize, u64, u8),
    /// Reads, writes ahead of the position, and continues to read.
    WriteAhead(u64, u64, u64),
    /// Waits until nothing is dirty, without a flush.
    Age,
}

fn operation() -> impl Strategy<Value = Operation> {
    let offset = prop_oneof![3 => 0..REACH, 3 => (0..REACH / 4096).prop_map(|n| n * 4096), 2 => 0_u64..70_000, 1 => Just(0_u64)];
    let length = prop_oneof![4 => 1_usize..5000, 2 => 60_000_usize..140_000, 1 => 1_usize..1_500_000, 1 => Just(1 << 20)];
    let piece = prop_oneof![1_usize..5000, Just(4096), Just(65536)];
    let write_way = prop_oneof![
        4 => Just(WriteWay::Behind),
        1 => Just(WriteWay::Through),
        2 => piece.clone().prop_map(WriteWay::Pieces),
        1 => piece.clone().prop_map(WriteWay::PiecesBackward),
        1 => piece.clone().prop_map(WriteWay::Threads)
    ];
    let read_way = prop_oneof![
        5 => Just(ReadWay::Buffered),
        1 => Just(ReadWay::Direct),
        1 => Just(ReadWay::KnownSize),
        2 => piece.clone().prop_map(ReadWay::Pieces),
        1 => (1_usize..3000, 4000_u64..90_000).prop_map(|(n, d)| ReadWay::Strided(n, d)),
        1 => piece.prop_map(ReadWay::Threads)
    ];
    let how = prop_oneof![
        1 => Just(Allocate::Extend),
        1 => Just(Allocate::KeepSize),
        3 => Just(Allocate::PunchHole),
        1 => Just(Allocate::ZeroRange),
        1 => Just(Allocate::ZeroRangeKeepSize)
    ];
    let offset_again = offset.clone();
    prop_oneof![
        12 => (offset.clone(), length.clone(), any::<u64>(), write_way).prop_map(|(o, l, s, w)| Operation::Write(o, l, s, w)),
        12 => (offset.clone(), length.clone(), read_way).prop_map(|(o, l, w)| Operation::Read(o, l, w)),
        2 => offset.clone().prop_map(Operation::Truncate),
        3 => (offset.clone(), 1..REACH, how).prop_map(|(o, l, h)| Operation::Allocate(o, l, h)),
        3 => (offset, prop_oneof![Just(Seek::Data), Just(Seek::Hole)]).prop_map(|(o, w)| Operation::Seek(o, w)),
        2 => Just(Operation::Size),
        2 => Just(Operation::Flush),
        1 => Just(Operation::Sync),
        2 => (length, any::<u64>()).prop_map(|(l, s)| Operation::Append(l, s)),
        2 => prop::bool::weighted(0.7).prop_map(Operation::Reopen),
        1 => prop_oneof![Just(0_u64), Just(300_000), Just(5 << 20), Just(256 << 20)].prop_map(Operation::Budget),
        2 => (offset_again, 1_usize..2_000_000, any::<u64>(), 2_u8..5).prop_map(|(o, l, s, n)| Operation::Overwrite(o, l, s, n)),
        3 => (0..REACH / 2, 0_u64..500_000, any::<u64>()).prop_map(|(o, d, s)| Operation::WriteAhead(o, d, s)),
        1 => Just(Operation::Age),
    ]
}

fn layout() -> impl Strategy<Value = (Spec, Option<u32>)> {
    let strip = prop_oneof![Just(65536_u64), 1_u64..5000, Just(4096), Just(1 << 20)];
    let simple = (strip.clone(), 1_u32..=TARGETS).prop_map(|(s, n)| (Spec::new("simple_stripe").with("strip_size", s), Some(n)));
    let twod = (strip, 1_u32..4, 1_u32..5).prop_map(|(s, groups, factor)| {
        let spec = Spec::new("twod_stripe").with("strip_size", s).with("num_groups", groups).with("group_strip_factor", factor);
        (spec, Some(TARGETS))
    });
    let strips = prop::collection::vec((0_u32..3, 1_u64..200_000), 1..6);
    let varstrip = strips.prop_map(|strips| {
        // Every datafile up to the highest must have a strip.
        let mut text: Vec<String> = (0..3).map(|n| format!("{n}:{}", 500 + 7000 * n)).collect();
        text.extend(strips.iter().map(|(datafile, bytes)| format!("{datafile}:{bytes}")));
        (Spec::new("varstrip_dist").with("strips", text.join(";")), None)
    });
    prop_oneof![1 => Just((Spec::new("basic_dist"), None)), 3 => simple, 1 => twod, 2 => varstrip]
}

/// A client with the file open.
struct Client {
    data: Arc<DataClient>,
    handle: FileHandle,
    open: BufferedFile,
}

fn options() -> BufferedOptions {
    let behind = BehindOptions { window_bytes: Some(3 << 20), age: Duration::from_secs(3600) };
    BufferedOptions { ahead_bytes: Some(3 << 20), behind }
}

impl Client {
    fn new(servers: &loopback::Servers, handle: &FileHandle) -> Client {
        let data = Arc::new(DataClient::new(servers.map.clone(), &Connect { timeout: Duration::from_secs(20), ..loopback::connect() }));
        let open = BufferedFile::new(Arc::new(StoreFile::new(Arc::clone(&data), handle.clone())), &options());
        Client { data, handle: handle.clone(), open }
    }

    /// Reopens; `None`: uncached.
    fn reopen(&mut self, options: Option<&BufferedOptions>) {
        self.open.flush(&mut Tracer::off()).unwrap();
        let file = Arc::new(StoreFile::new(Arc::clone(&self.data), self.handle.clone()));
        self.open = match options {
            Some(options) => BufferedFile::new(file, options),
            None => BufferedFile::unbuffered(file),
        };
    }

    fn read(&self, offset: u64, length: usize, way: ReadWay) -> Vec<(u64, usize, Vec<u8>)> {
        let off = &mut Tracer::off();
        let one = |offset: u64, length: usize, off: &mut Tracer| (offset, length, self.open.read(off, offset, length).unwrap().to_vec());
        let cut = |piece: usize| (0..length.div_ceil(piece)).map(move |n| (offset + (n * piece) as u64, piece.min(length - n * piece)));
        match way {
            ReadWay::Buffered => vec![one(offset, length, off)],
            ReadWay::Direct => {
                self.open.settle(off);
                let mut buffer = vec![0xEE; length];
                let have = self.open.file().read_at(&mut buffer, offset).unwrap();
                buffer.truncate(have);
                vec![(offset, length, buffer)]
            }
            ReadWay::KnownSize => {
                self.open.settle(off);
                let size_bytes = Some(self.open.size(off).unwrap());
                let ahead = ReadAhead::new(Arc::clone(self.open.file()), &AheadOptions { size_bytes, ..AheadOptions::default() });
                let read = |(offset, length): (u64, usize)| {
                    let mut buffer = vec![0xEE; length];
                    let have = ahead.read(&mut Tracer::off(), &mut buffer, offset).unwrap();
                    buffer.truncate(have);
                    (offset, length, buffer)
                };
                cut(length / 16 + 1).map(read).collect()
            }
            ReadWay::Pieces(piece) => cut(piece.max(length / 64 + 1)).map(|(o, l)| one(o, l, off)).collect(),
            ReadWay::Strided(piece, distance) => (0..12).map(|n| one(offset + n * distance, piece, off)).collect(),
            ReadWay::Threads(piece) => {
                let pieces: Vec<(u64, usize)> = cut(piece.max(length / 64 + 1)).collect();
                std::thread::scope(|scope| {
                    let half = |which: usize| {
                        let mine: Vec<(u64, usize)> = pieces.iter().copied().skip(which).step_by(2).collect();
                        let one = &one;
                        scope.spawn(move || mine.into_iter().map(|(o, l)| one(o, l, &mut Tracer::off())).collect::<Vec<_>>())
                    };
                    let threads = [half(0), half(1)];
                    threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
                })
            }
        }
    }

    fn write(&self, bytes: &[u8], offset: u64, way: WriteWay) {
        let off = &mut Tracer::off();
        let cut = |piece: usize| {
            let piece = piece.max(bytes.len() / 64 + 1);
            bytes.chunks(piece).enumerate().map(move |(n, part)| (offset + (n * piece) as u64, part)).collect::<Vec<_>>()
        };
        match way {
            WriteWay::Behind => self.open.write(off, bytes, offset).unwrap(),
            WriteWay::Through => self.open.write_through(off, bytes, offset).unwrap(),
            WriteWay::Pieces(piece) => cut(piece).into_iter().for_each(|(o, part)| self.open.write(off, part, o).unwrap()),
            WriteWay::Threads(piece) => {
                let pieces = &cut(piece);
                std::thread::scope(|scope| {
                    for which in 0..2 {
                        let mine = pieces.iter().skip(which).step_by(2);
                        scope.spawn(move || mine.for_each(|(o, part)| self.open.write(&mut Tracer::off(), part, *o).unwrap()));
                    }
                });
            }
            WriteWay::PiecesBackward(piece) => cut(piece).into_iter().rev().for_each(|(o, part)| self.open.write(off, part, o).unwrap()),
        }
    }
}

/// Reads and compares.
fn check_read(client: &Client, model: &[u8], offset: u64, length: usize, way: ReadWay) {
    for (offset, length, found) in client.read(offset, length, way) {
        let right = expected(model, offset, length);
        assert_eq!(found.len(), right.len(), "bytes of {length} at {offset}, of {}, {way:?}", model.len());
        // Compares bytes individually only on a mismatch.
        let wrong = (found != right).then(|| found.iter().zip(right).position(|(a, b)| a != b).unwrap());
        assert!(wrong.is_none(), "byte {} of a read of {length} at {offset}, {way:?}", offset + wrong.unwrap() as u64);
    }
}

/// Returns the bytes that a read must return.
fn expected(model: &[u8], offset: u64, length: usize) -> &[u8] {
    let from = (offset.min(model.len() as u64)) as usize;
    &model[from..(from + length).min(model.len())]
}

fn put(model: &mut Vec<u8>, bytes: &[u8], offset: u64) {
    let (from, to) = (offset as usize, offset as usize + bytes.len());
    model.resize(model.len().max(to), 0);
    model[from..to].copy_from_slice(bytes);
}

fn allocate(model: &mut Vec<u8>, offset: u64, length: u64, how: Allocate) {
    let end = (offset + length) as usize;
    let clears = matches!(how, Allocate::PunchHole | Allocate::ZeroRange | Allocate::ZeroRangeKeepSize);
    if matches!(how, Allocate::Extend | Allocate::ZeroRange) && model.len() < end {
        model.resize(end, 0);
    }
    let end = end.min(model.len());
    if clears && (offset as usize) < end {
        model[offset as usize..end].fill(0);
    }
}

/// The file system decides where holes are, but must not report data as one.
fn check_seek(model: &[u8], offset: u64, what: Seek, found: Option<u64>) {
    let size = model.len() as u64;
    let is_zero = |range: std::ops::Range<u64>| model[range.start as usize..range.end as usize].iter().all(|b| *b == 0);
    match (what, found) {
        (_, None) if offset >= size => {}
        (Seek::Data, None) => assert!(is_zero(offset..size), "data from {offset} on was not found"),
        (Seek::Data, Some(at)) => {
            assert!(offset <= at && at < size, "{at} from {offset} of {size}");
            assert!(is_zero(offset..at), "data between {offset} and {at} was not found");
        }
        (Seek::Hole, Some(at)) => {
            assert!(offset <= at && at <= size, "{at} from {offset} of {size}");
            assert!(at == size || model[at as usize] == 0, "{at} is no hole");
        }
        (Seek::Hole, None) => panic!("no hole from {offset} on, and the file ends at {size}"),
    }
}

#[expect(clippy::too_many_lines, reason = "one arm for each operation")]
fn play((spec, datafiles): &(Spec, Option<u32>), first: u32, history: &[(usize, Operation)]) {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    // A single server has two connections, which may overtake each other.
    let (servers, targets) = if first.is_multiple_of(2) { (3, 2) } else { (1, 6) };
    let servers = loopback::servers(directory.path(), servers, targets);
    let layout = Layout::new(spec, *datafiles, TARGETS).unwrap();
    let targets = (0..layout.num_datafiles()).map(|n| TargetId((first + n) % 6)).collect();
    let handle = FileHandle::new(FileId(77), "/file", layout, targets).unwrap();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::new(&servers, &handle)).collect();
    let mut model: Vec<u8> = Vec::new();
    let mut last = 0;
    let off = &mut Tracer::off();
    for (client, operation) in history {
        let client = client % CLIENTS;
        if client != last {
            // As between closing a file and opening it: writes are visible, and cached data may be old.
            clients[last].open.flush(off).unwrap();
            clients[client].open.forget_all();
            last = client;
        }
        let me = &mut clients[client];
        match operation {
            Operation::Write(offset, length, seed, way) => {
                let bytes = loopback::noise(*length, *seed);
                me.write(&bytes, *offset, *way);
                put(&mut model, &bytes, *offset);
            }
            Operation::Read(offset, length, way) => check_read(me, &model, *offset, *length, *way),
            Operation::Overwrite(offset, length, seed, times) => {
                for n in 0..u64::from(*times) {
                    let bytes = loopback::noise(*length, seed.wrapping_add(n));
                    me.write(&bytes, *offset, WriteWay::Behind);
                    put(&mut model, &bytes, *offset);
                }
                check_read(me, &model, *offset, *length, ReadWay::Direct);
            }
            Operation::WriteAhead(offset, distance, seed) => {
                check_read(me, &model, *offset, 300_000, ReadWay::Pieces(65536));
                let (at, bytes) = (offset + 300_000 + distance, loopback::noise(5000, *seed));
                me.write(&bytes, at, WriteWay::Behind);
                put(&mut model, &bytes, at);
                if seed % 2 == 0 {
                    me.open.settle(off);
                }
                check_read(me, &model, offset + 300_000, 600_000, ReadWay::Pieces(65536));
            }
            Operation::Truncate(size) => {
                me.open.truncate(off, |off| me.data.truncate(off, &handle, *size)).unwrap();
                model.resize(*size as usize, 0);
            }
            Operation::Allocate(offset, length, how) => {
                me.open.allocate(off, *offset, *length, *how).unwrap();
                allocate(&mut model, *offset, *length, *how);
            }
            Operation::Seek(offset, what) => check_seek(&model, *offset, *what, me.open.seek(off, *offset, *what).unwrap()),
            Operation::Size => assert_eq!(me.open.size(off).unwrap(), model.len() as u64),
            Operation::Flush => {
                me.open.flush(off).unwrap();
                assert_eq!(me.open.dirty_end(), None);
            }
            Operation::Sync => me.open.sync(off).unwrap(),
            Operation::Append(length, seed) => {
                let offset = me.open.size(off).unwrap();
                assert_eq!(offset, model.len() as u64);
                let bytes = loopback::noise(*length, *seed);
                if offset + (*length as u64) < 2 * REACH {
                    me.write(&bytes, offset, if seed % 2 == 0 { WriteWay::Behind } else { WriteWay::Through });
                    put(&mut model, &bytes, offset);
                }
            }
            Operation::Reopen(buffered) => me.reopen(buffered.then(options).as_ref()),
            Operation::Budget(bytes) => me.data.budget().set_total(*bytes),
            Operation::Age => {
                let young = BehindOptions { age: Duration::ZERO, ..options().behind };
                me.reopen(Some(&BufferedOptions { behind: young, ..options() }));
                let end = me.open.size(off).unwrap().min(REACH);
                me.open.write(off, b"aged", end).unwrap();
                put(&mut model, b"aged", end);
                while me.open.dirty_end().is_some() {
                    std::thread::yield_now();
                }
            }
        }
    }
    for client in &clients {
        client.open.flush(off).unwrap();
    }
    let fresh = Client::new(&servers, &handle);
    assert_eq!(fresh.open.size(off).unwrap(), model.len() as u64);
    let mut all = vec![0; model.len() + 10];
    assert_eq!(fresh.open.file().read_at(&mut all, 0).unwrap(), model.len());
    assert!(all[..model.len()] == model, "what is on the servers at the end");
    drop(clients);
    assert_eq!(fresh.data.budget().lent(), 0);
}

fn cases(default: u32) -> u32 {
    std::env::var("THALWEG_MODEL_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(40), max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_what_was_written_last(
        layout in layout(),
        first in 0_u32..6,
        history in prop::collection::vec((0..CLIENTS, operation()), 1..40),
    ) {
        play(&layout, first, &history);
    }
}

#[test]
fn nothing_is_past_the_largest_file() {
    let directory = tempfile::tempdir().unwrap();
    let servers = loopback::servers(directory.path(), 2, 1);
    let layout = Layout::new(&Spec::default(), None, 2).unwrap();
    let handle = FileHandle::new(FileId(1), "/file", layout, vec![TargetId(0), TargetId(1)]).unwrap();
    let client = Client::new(&servers, &handle);
    let off = &mut Tracer::off();
    let most = i64::MAX as u64;
    assert_eq!(client.open.write(off, b"x", most).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(client.open.write_through(off, b"x", most).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(client.open.allocate(off, most, 1, Allocate::Extend).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(client.open.allocate(off, 0, 0, Allocate::Extend).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(client.open.read(off, u64::MAX - 3, 10).unwrap().len(), 0);
    assert_eq!(client.open.read(off, most - 3, 10).unwrap().len(), 0);
    assert_eq!(client.open.seek(off, u64::MAX, Seek::Hole).unwrap(), None);
}

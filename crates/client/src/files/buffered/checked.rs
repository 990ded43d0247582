//! Write-behind under a model checker: writers, flushes, the thread that sends old data, and threads that stand in for two connections by
//! putting bytes into a simulated server's memory. Checks that writes reach the server in order and that no thread waits for ever.

use super::{BehindOptions, WriteBehind};
use crate::files::engine::flow::{Endpoint, Task};
use crate::files::file::StoreFile;
use crate::files::{DataClient, FileHandle};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use thalweg_base::sync::{Mutex, explore, thread};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::{FileId, TargetId};
use thalweg_wire::protocol::metadata::{ServerEntry, StoreMap, TargetEntry};
use thalweg_wire::trust::{Credential, Credentials};
use thalweg_wire::{Connect, Error, ErrorKind};

const CONNECTIONS: u32 = 2;

/// The body of a thread.
type ThreadBody = Box<dyn FnOnce(&Stage) + Send>;

/// A file with write-behind, and a simulated server with the bytes that arrived.
struct Stage {
    behind: Arc<WriteBehind>,
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Number of tasks still to fail, from the first on.
    failing: Arc<Mutex<usize>>,
}

impl Stage {
    fn new(size: usize, failing: usize) -> Arc<Stage> {
        let server = ServerEntry { name: "io0".into(), node: String::new(), address: "127.0.0.1:1".into() };
        let target = TargetEntry { target: TargetId(0), server: 0, directory: String::new() };
        let options = Connect { credentials: Credentials::given(Credential::new_store(1)), ..Connect::default() };
        let data = Arc::new(DataClient::new(StoreMap { store: 1, servers: vec![server], targets: vec![target] }, &options));
        data.writing().by_hand(CONNECTIONS);
        let layout = thalweg_layout::Layout::new(&thalweg_layout::Spec::new("basic_dist"), None, 1).unwrap();
        let handle = FileHandle::new(FileId(1), "/file", layout, vec![TargetId(0)]).unwrap();
        // Everything is old immediately, so an open extent may be sent at any moment.
        let options = BehindOptions { age: Duration::ZERO, ..BehindOptions::default() };
        let behind = WriteBehind::new(Arc::new(StoreFile::new(data, handle)), &options);
        Arc::new(Stage { behind, bytes: Arc::new(Mutex::new(vec![0; size])), failing: Arc::new(Mutex::new(failing)) })
    }

    fn data(&self) -> &Arc<DataClient> {
        self.behind.file().data()
    }

    /// Runs a connection's thread until the queue is closed.
    fn connection(&self) {
        while let Some(work) = self.data().writing().next(0) {
            let (Task::Move(buffer), Endpoint::FromMemory(memory, base)) = (&work.task, &work.flow.endpoint) else {
                panic!("only writes are expected");
            };
            let (from, to) = (buffer.physical_offset, buffer.physical_offset + buffer.length);
            // SAFETY: as in the connections' threads: a flow that sends only reads its memory, which lives until the flow has ended.
            let piece = unsafe { memory.part((from - base) as usize..(to - base) as usize) }.to_vec();
            let fails = {
                let mut failing = self.failing.lock();
                let fails = *failing > 0;
                *failing = failing.saturating_sub(1);
                fails
            };
            if fails {
                work.flow.done(Err(Error::new(ErrorKind::NoSpace, "the disk is full")), None);
                continue;
            }
            self.bytes.lock()[from as usize..to as usize].copy_from_slice(&piece);
            work.flow.done(Ok(buffer.length), None);
        }
    }

    /// Returns the byte that fills a range at the server; `None`: the bytes differ.
    fn value(&self, range: &Range<usize>) -> Option<u8> {
        let bytes = &self.bytes.lock()[range.clone()];
        bytes.iter().all(|byte| *byte == bytes[0]).then_some(bytes[0])
    }
}

/// Runs the connections and these writers until the writers have ended.
fn run(stage: &Arc<Stage>, writers: Vec<ThreadBody>) {
    let in_a_thread = |work: ThreadBody| {
        let stage = Arc::clone(stage);
        thread::spawn(move || work(&stage))
    };
    let connections: Vec<_> = (0..CONNECTIONS).map(|_| in_a_thread(Box::new(Stage::connection))).collect();
    let writers: Vec<_> = writers.into_iter().map(in_a_thread).collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    // Writes that no writer waited for arrive too: the file is kept alive while they are in flight.
    assert!(stage.behind.flush(&mut Tracer::off()).is_ok());
    stage.data().writing().close();
    connections.into_iter().for_each(|connection| connection.join().unwrap());
}

#[test]
fn of_two_writes_of_one_byte_the_later_one_stays() {
    const LENGTH: usize = 100;
    explore(|| {
        let stage = Stage::new(3 * LENGTH, 0);
        let writer = |own: usize| -> ThreadBody {
            Box::new(move |stage| {
                let (mut off, range) = (Tracer::off(), own..own + LENGTH);
                for value in 1..=3 {
                    stage.behind.write(&mut off, &[value; LENGTH], own as u64).unwrap();
                    // Overlaps half of the neighbour's bytes, which both write.
                    stage.behind.write(&mut off, &[value; LENGTH], LENGTH as u64).unwrap();
                }
                stage.behind.flush(&mut off).unwrap();
                assert_eq!(stage.value(&range), Some(3), "an older write has overtaken a later one");
            })
        };
        run(&stage, vec![writer(0), writer(2 * LENGTH)]);
        assert!(stage.value(&(LENGTH..2 * LENGTH)).is_some(), "two writes are mixed");
        assert_eq!(stage.behind.dirty_end(), None);
    });
}

#[test]
fn who_waits_for_a_range_finds_it_at_the_server() {
    explore(|| {
        let stage = Stage::new(400, 0);
        let writes = |stage: &Stage| {
            for n in 0..4 {
                stage.behind.write(&mut Tracer::off(), &[1; 100], n * 100).unwrap();
            }
        };
        let waits = |stage: &Stage| {
            stage.behind.write(&mut Tracer::off(), &[1; 100], 200).unwrap();
            stage.behind.flush_range(&mut Tracer::off(), &(200..300));
            assert_eq!(stage.value(&(200..300)), Some(1));
        };
        run(&stage, vec![Box::new(writes), Box::new(waits)]);
    });
}

#[test]
fn a_writer_that_waits_for_room_goes_on_when_something_has_arrived() {
    const CHUNK: usize = 1 << 20;
    explore(|| {
        let stage = Stage::new(4 * CHUNK, 0);
        let writes = |stage: &Stage| {
            let chunk = vec![7; CHUNK];
            for n in 0..4 {
                stage.behind.write(&mut Tracer::off(), &chunk, n * CHUNK as u64).unwrap();
            }
            stage.behind.flush(&mut Tracer::off()).unwrap();
            assert!(*stage.bytes.lock() == vec![7; 4 * CHUNK]);
        };
        run(&stage, vec![Box::new(writes)]);
    });
}

#[test]
fn a_failure_is_reported_by_one_flush_and_no_other() {
    explore(|| {
        let stage = Stage::new(200, 1);
        let failures = Arc::new(Mutex::new(0));
        let writer = |at: u64| -> ThreadBody {
            let failures = Arc::clone(&failures);
            Box::new(move |stage| {
                // An error of another write that is not reported yet fails this one too.
                let _ = stage.behind.write(&mut Tracer::off(), &[1; 100], at);
                *failures.lock() += usize::from(stage.behind.flush(&mut Tracer::off()).is_err());
            })
        };
        run(&stage, vec![writer(0), writer(100)]);
        assert_eq!(*failures.lock(), 1);
    });
}

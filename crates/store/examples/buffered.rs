//! Read-ahead and write-behind beside the copy engine, in turns, with the I/O servers in a process of their own: what a program
//! that reads or writes one file in order gets of a copy's speed.
//!
//! `buffered serve DIR SERVERS` | `buffered run DIR SERVERS ROUNDS MEBIBYTES [PIECE_BYTES]`

#[path = "../tests/store/loopback.rs"]
mod loopback;
#[path = "served/mod.rs"]
mod served;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_client::copy::{CopyJob, Quiet, Sink, Source, run};
use thalweg_client::{BufferedFile, BufferedOptions, FileHandle, Store, StoreFile};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::metadata::{Existing, LayoutChoice};

fn open(store: &Store, path: &str) -> BufferedFile {
    let off = &mut Tracer::off();
    let attributes = match store.names.open(off, path, true) {
        Ok(found) => found,
        Err(_) => store.names.create(off, path, 0o644, Existing::Refuse, &LayoutChoice::default()).expect("a new file"),
    };
    let handle = FileHandle::from_attributes(path, &attributes).expect("a file");
    BufferedFile::new(Arc::new(StoreFile::new(Arc::clone(&store.data), handle)), &BufferedOptions::default())
}

fn remove(store: &Store, path: &str) {
    let off = &mut Tracer::off();
    let _ = store.names.stat(off, path).and_then(|found| store.names.unlink(off, found.id, path));
}

/// Seconds that `work` takes.
fn seconds(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (directory, servers) = (PathBuf::from(&arguments[2]), arguments[3].parse().expect("servers"));
    if arguments[1] == "serve" {
        return served::serve(&directory, servers);
    }
    let (rounds, mebibytes): (usize, u64) = (arguments[4].parse().expect("rounds"), arguments[5].parse().expect("MiB"));
    let piece: usize = arguments.get(6).map_or(1 << 20, |text| text.parse().expect("bytes"));
    let size = mebibytes << 20;
    let (mut child, map) = served::start(&arguments[0], &directory, servers);
    let (store, _) = loopback::store(&map, Duration::from_secs(30));
    let off = &mut Tracer::off();
    let bytes = loopback::noise(piece, 1);
    let copy = |source, sink| run(&CopyJob { force: true, ..CopyJob::new(source, sink) }, &Quiet).expect("copy");
    let there = || Sink::Store(store.clone(), "/copied".into(), LayoutChoice::default());
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds {
        remove(&store, "/copied");
        times[0].push(seconds(|| drop(copy(Source::Memory(size), there()))));
        remove(&store, "/written");
        let file = open(&store, "/written");
        times[1].push(seconds(|| {
            (0..size).step_by(piece).for_each(|offset| file.write(off, &bytes, offset).expect("write"));
            file.flush(off).expect("flush");
        }));
        times[2].push(seconds(|| drop(copy(Source::Store(store.clone(), "/copied".into()), Sink::Null))));
        let file = open(&store, "/copied");
        let mut read = 0;
        times[3].push(seconds(|| (0..size).step_by(piece).for_each(|offset| read += file.read(off, offset, piece).expect("read").len())));
        assert_eq!(read as u64, size);
    }
    let median = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let rate = |n: usize| size as f64 / f64::from(1 << 30) / median(&times[n]);
    for (what, copied, buffered) in [("in", 0, 1), ("out", 2, 3)] {
        let ratios: Vec<f64> = times[copied].iter().zip(&times[buffered]).map(|(copy, other)| copy / other).collect();
        println!(
            "{what}: copy {:.2} GiB/s, buffered {:.2} GiB/s, ratio {:.2} (median of pairs)",
            rate(copied),
            rate(buffered),
            median(&ratios)
        );
    }
    drop(child.stdin.take());
    let _ = child.wait();
}

//! What checksums at rest cost an I/O server: the same work on a target with them and on one without, in turn, in one process and without
//! a network, so that every ratio is worse than a client sees. `cargo run --release -p thalweg-io --example sums [DIRECTORY]`

use std::path::Path;
use std::time::Instant;
use thalweg_io::Target;
use thalweg_wire::protocol::io::{DatafileId, FileId, TargetId};

const MIB: usize = 1 << 20;
const ROUNDS: usize = 15;
/// Datafiles, bytes and changes of each kind of work.
const LARGE: usize = 256;
const OVERWRITES: u64 = 4000;
const APPENDS: u64 = 4000;
const FILES: u64 = 1000;

fn id(file: u64) -> DatafileId {
    DatafileId { file: FileId(file), index: 0, target: TargetId(0), lot: None }
}

/// Work on a target in a round.
type Work = fn(&Target, u64);

const KINDS: [(&str, Work); 5] = [
    ("write 256 MiB, 1 MiB at a time", |target, round| {
        let (bytes, datafile) = (vec![round as u8; MIB], target.created(id(round + 1)).expect("created"));
        (0..LARGE).for_each(|at| datafile.write(&bytes, (at * MIB) as u64).expect("written"));
    }),
    ("read 256 MiB, 1 MiB at a time", |target, round| {
        let (mut bytes, datafile) = (vec![0; MIB], target.created(id(round + 1)).expect("opened"));
        (0..LARGE).for_each(|at| assert_eq!(datafile.read(&mut bytes, (at * MIB) as u64).expect("read"), MIB));
    }),
    ("overwrite 4 KiB at random", |target, round| {
        let (bytes, datafile) = (vec![7; 4096], target.created(id(round + 1)).expect("opened"));
        (0..OVERWRITES).for_each(|n| datafile.write(&bytes, n * 7919 % (LARGE as u64 * 256) * 4096).expect("written"));
    }),
    ("append 100 bytes", |target, round| {
        let datafile = target.created(id(round + 1000)).expect("created");
        (0..APPENDS).for_each(|n| datafile.write(&[n as u8; 100], n * 100).expect("written"));
    }),
    ("make files of 10 KiB", |target, round| {
        let bytes = vec![3; 10 << 10];
        (0..FILES).for_each(|n| target.created(id(10_000 + round * FILES + n)).expect("created").write(&bytes, 0).expect("written"));
    }),
];

fn target(directory: &Path, has_sums: bool) -> Target {
    drop(Target::initialise(directory, 7, TargetId(0)).expect("a target"));
    if !has_sums {
        let identity = directory.join("thalweg-target.toml");
        let text = std::fs::read_to_string(&identity).expect("its identity");
        std::fs::write(&identity, text.replace("format = 2", "format = 1")).expect("written");
    }
    let target = Target::open(directory, 7, TargetId(0)).expect("a target");
    assert_eq!(target.has_sums(), has_sums);
    target
}

fn main() {
    let place = std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let directory = tempfile::tempdir_in(place).expect("a directory");
    let targets = [false, true].map(|has_sums| target(&directory.path().join(format!("{has_sums}")), has_sums));
    let mut ratios: Vec<(f64, Vec<f64>)> = KINDS.iter().map(|_| (f64::MAX, Vec::new())).collect();
    for round in 0..ROUNDS {
        for (kind, (_, work)) in KINDS.iter().enumerate() {
            let mut seconds = [0.0; 2];
            for turn in 0..2 {
                let which = (turn + round) % 2;
                let begun = Instant::now();
                work(&targets[which], round as u64);
                seconds[which] = begun.elapsed().as_secs_f64();
            }
            ratios[kind].1.push(seconds[0] / seconds[1]);
            ratios[kind].0 = ratios[kind].0.min(seconds[1]);
        }
        for target in &targets {
            target.remove(id(round as u64 + 1)).expect("removed");
        }
    }
    println!("rate with checksums / without, median of {ROUNDS} pairs (quartiles); shortest time with");
    for ((name, _), (shortest, mut of)) in KINDS.iter().zip(ratios) {
        of.sort_by(f64::total_cmp);
        let at = |part: usize| of[part * (of.len() - 1) / 4];
        println!("{name:<34} {:.3} ({:.3} to {:.3})  {:.1} ms", at(2), at(1), at(3), shortest * 1000.0);
    }
}

//! Measures mappings per second and core: the median of several rounds, for each distribution.
//!
//! `cargo run --release -p thalweg-layout --example mappings`. A *mapping* returns the datafile, physical offset and contiguous
//! length of an offset; a *rank* is that of an offset on a given datafile; *random* offsets are anywhere in 1 TiB. Offsets are
//! computed before the clock starts.

use std::hint::black_box;
use std::time::Instant;

use thalweg_layout::{Distribution, Layout, Spec};

const OFFSETS: usize = 1 << 16;
const ROUNDS: usize = 9;
const PASSES: usize = 32;

fn main() {
    println!("{:<44} {:>12} {:>12} {:>12} {:>12}", "Mmappings/s, median of 9 rounds", "random", "sequential", "rank", "inverse");
    let layouts = [
        ("basic_dist", layout("basic_dist", 1)),
        ("simple_stripe, 64 KiB, 4 datafiles", layout("simple_stripe", 4)),
        ("simple_stripe, 100000 bytes, 7 datafiles", layout("simple_stripe,strip_size=100000", 7)),
        ("twod_stripe, 64 KiB, 2 groups of 5", layout("twod_stripe", 5)),
        ("varstrip_dist, 4 strips", layout("varstrip_dist,strips=0:2K;1:1K;2:4K;0:1K", 3)),
        ("varstrip_dist, 1000 strips, 1000 datafiles", varstrip(1000, |index| 4096 + index * 37)),
        ("varstrip_dist, 1000 strips, 8 datafiles", varstrip(8, |index| 1000 + index * index)),
        ("varstrip_dist, 1000 strips of 1 byte to 1 GiB", varstrip(8, |index| 1 << (index * 7 % 31))),
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let random: Vec<u64> = std::iter::repeat_with(|| next(&mut state) >> 24).take(OFFSETS).collect();
    let sequential: Vec<u64> = (0..OFFSETS as u64).map(|index| index * 4096).collect();
    for (name, layout) in &layouts {
        let datafile = layout.num_datafiles() / 2;
        let place = |x: u64| {
            let piece = layout.piece_at(x);
            piece.physical_offset ^ u64::from(piece.datafile) ^ piece.length
        };
        let figures = [
            rate(&random, place),
            rate(&sequential, place),
            rate(&random, |x| layout.logical_to_physical(datafile, x)),
            rate(&random, |x| layout.physical_to_logical(datafile, x >> 8).unwrap_or(0)),
        ];
        let [a, b, c, d] = figures.map(|rate| format!("{rate:.0}"));
        println!("{name:<44} {a:>12} {b:>12} {c:>12} {d:>12}");
    }
}

fn layout(text: &str, datafiles: u32) -> Layout {
    Layout::new(&text.parse::<Spec>().expect("a spec"), Some(datafiles), datafiles).expect("a layout")
}

fn varstrip(datafiles: u64, size: impl Fn(u64) -> u64) -> Layout {
    let strips: Vec<String> = (0..1000).map(|index| format!("{}:{}", index % datafiles, size(index))).collect();
    layout(&format!("varstrip_dist,strips={}", strips.join(";")), datafiles as u32)
}

/// Returns million calls per second in the median round.
fn rate(offsets: &[u64], mapping: impl Fn(u64) -> u64) -> f64 {
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..PASSES {
                let sum = offsets.iter().fold(0u64, |sum, &offset| sum.wrapping_add(mapping(offset)));
                black_box(sum);
            }
            (offsets.len() * PASSES) as f64 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[ROUNDS / 2]
}

/// xorshift64*.
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

//! Reads all spans of a recording backward, every column, and prints how fast: `scan RECORDING.thw [TIMES]`.

use std::time::Instant;
use thalweg_trace::{Recording, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: scan RECORDING.thw [TIMES]")?;
    let times: usize = std::env::args().nth(2).map_or(Ok(1), |n| n.parse())?;
    for _ in 0..times {
        let began = Instant::now();
        let recording = Recording::open(path.as_ref())?;
        let (mut spans, mut sum, mut last) = (0, 0_u64, i64::MAX);
        for batch in recording.spans_backward() {
            let batch = batch?;
            spans += batch.len();
            sum = batch.cpu_ns.iter().chain(&batch.size_bytes).fold(sum, |sum, &n| sum.wrapping_add(n));
            assert!(batch.end_ns.iter().all(|&end| std::mem::replace(&mut last, end) >= end), "not backward");
        }
        let seconds = began.elapsed().as_secs_f64();
        println!("{spans} spans in {seconds:.3} s: {:.2} million spans/s ({sum:x})", spans as f64 / seconds / 1e6);
    }
    Ok(())
}

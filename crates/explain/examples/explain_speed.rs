//! Measures the time and memory of an explanation: `explain_speed RECORDING.thw [--passes N] [--why]`. The trace crate's example `generate`
//! makes a recording of any size.

use std::time::Instant;
use thalweg_explain::{Options, explain};
use thalweg_trace::{Recording, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut path, mut passes, mut why) = (None, 1_usize, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--passes" => passes = arguments.next().and_then(|n| n.parse().ok()).ok_or("--passes takes a number")?,
            "--why" => why = true,
            _ => path = Some(argument),
        }
    }
    let path = path.ok_or("usage: explain_speed RECORDING.thw [--passes N] [--why]")?;
    for _ in 0..passes {
        let recording = Recording::open(path.as_ref())?;
        let began = Instant::now();
        let mut spans = 0;
        for batch in recording.spans_backward() {
            spans += batch?.len();
        }
        let reading_s = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let explanation = explain(&recording, &Options { why, ..Options::default() })?;
        let explaining_s = began.elapsed().as_secs_f64();
        let rate = |s: f64| spans as f64 / s / 1e6;
        println!(
            "{spans} spans: read {reading_s:.2} s ({:.1} M/s), explained {explaining_s:.2} s ({:.1} M/s), peak {} MiB",
            rate(reading_s),
            rate(explaining_s),
            peak_mib()
        );
        println!("{}", explanation.verdict.sentence);
    }
    Ok(())
}

/// The process's largest resident set so far.
fn peak_mib() -> u64 {
    thalweg_base::proc::status::here().number::<u64>("VmHWM").unwrap_or(0) / 1024
}

//! Measures the time, memory and size of a page: `page_speed RECORDING.thw [--passes N] [-o PAGE.html]`. The trace crate's example
//! `generate` makes a recording of any size. Explaining is timed apart from making the page. Times are wall time and, where other work
//! runs on the machine, the processor time of this thread.

use std::time::Instant;
use thalweg_explain::{Options, explain};
use thalweg_report::{PictureOptions, html, svg};
use thalweg_trace::{Recording, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut path, mut out, mut passes) = (None, None, 1_usize);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--passes" => passes = arguments.next().and_then(|n| n.parse().ok()).ok_or("--passes takes a number")?,
            "-o" => out = arguments.next(),
            _ => path = Some(argument),
        }
    }
    let path = path.ok_or("usage: page_speed RECORDING.thw [--passes N] [-o PAGE.html]")?;
    let recording = Recording::open(path.as_ref())?;
    let (spans, reading) = timed(|| recording.spans_backward().try_fold(0, |spans, batch| batch.map(|batch| spans + batch.len())))?;
    let (explanation, explaining) = timed(|| explain(&recording, &Options::default()))?;
    println!("{spans} spans: read {reading}, explained {explaining}, peak {} MiB", peak_mib());
    let options = PictureOptions::default();
    for _ in 0..passes {
        let (_, picture) = timed(|| svg(&recording, &explanation, &options))?;
        let (page, whole) = timed(|| html(&recording, &explanation, &options, None))?;
        let megabytes = page.len() as f64 / 1e6;
        println!("still picture {picture}; whole page {whole}, {megabytes:.2} MB, peak {} MiB", peak_mib());
        if let Some(out) = &out {
            std::fs::write(out, page)?;
        }
    }
    Ok(())
}

/// Returns a result and the time that making it took.
fn timed<T, E>(make: impl FnOnce() -> Result<T, E>) -> Result<(T, String), E> {
    let (began, cpu_s) = (Instant::now(), cpu_s());
    let made = make()?;
    let took = format!("{:.2} s ({:.2} s of processor)", began.elapsed().as_secs_f64(), self::cpu_s() - cpu_s);
    Ok((made, took))
}

/// The processor time of this thread so far; 0 where the system does not say.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// The process's largest resident set so far.
fn peak_mib() -> u64 {
    thalweg_base::proc::status::here().number::<u64>("VmHWM").unwrap_or(0) / 1024
}

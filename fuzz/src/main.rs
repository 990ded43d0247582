//! `thalweg-fuzz [TARGET...] [--seconds N] [--seed S]`: tries each target for N seconds (60), and says what it found.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_fuzz::{regressions, run, targets};

fn main() -> ExitCode {
    let mut seconds = 60;
    // Another seed each day, so that days try different cases; it is printed, so that a run can be made again.
    let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs() / 86_400);
    let mut seed = day << 40;
    let mut wanted = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|n| n.parse::<u64>().ok());
        match argument.as_str() {
            "--seconds" => seconds = number().unwrap_or(seconds),
            "--seed" => seed = number().unwrap_or(seed),
            _ => wanted.push(argument),
        }
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut failed = false;
    for target in targets::all().iter().filter(|t| wanted.is_empty() || wanted.iter().any(|w| w == t.name())) {
        let before = regressions(target.as_ref(), &here.join("regressions"));
        let outcome = run(target.as_ref(), seed, Duration::from_secs(seconds), &here.join("found"));
        println!(
            "{}: {} cases from seed {seed} and {} kept ones, at most {} MiB of memory",
            target.name(),
            outcome.cases,
            before.cases,
            outcome.peak_bytes >> 20
        );
        for found in [before.found, outcome.found].into_iter().flatten() {
            println!("FOUND {found}");
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

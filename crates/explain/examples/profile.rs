//! Prints the profile of a recording as JSON, and on standard error what it took: `profile RECORDING.thw`.

use std::path::Path;
use std::time::Instant;
use thalweg_explain::profile::{Rules, profile};
use thalweg_trace::Recording;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("expected a recording")?;
    let begun = Instant::now();
    let recording = Recording::open(Path::new(&path))?;
    let document = profile(&recording, &Rules::default())?;
    let text = document.to_json();
    eprintln!("{:.3} s", begun.elapsed().as_secs_f64());
    println!("{text}");
    Ok(())
}

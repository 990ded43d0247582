//! Explains and draws a recording: `cargo run -p thalweg-report --example draw -- RECORDING DIRECTORY`.

use std::path::PathBuf;
use std::time::Instant;
use thalweg_report::{PictureOptions, TextOptions, html, svg, text};
use thalweg_trace::{Recording, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(recording), Some(directory)) = (arguments.next(), arguments.next()) else {
        return Err("name a recording, and a directory to draw into".into());
    };
    let name = recording.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let source = Recording::open(&recording)?;
    let explanation = thalweg_explain::explain(&source, &thalweg_explain::Options::default())?;
    std::fs::create_dir_all(&directory)?;
    let begun = Instant::now();
    let picture = svg(&source, &explanation, &PictureOptions::default())?;
    let bytes = picture.len();
    eprintln!("{} tracks, {bytes} bytes of SVG in {:.2} s", source.tracks().len(), begun.elapsed().as_secs_f64());
    std::fs::write(directory.join(format!("{name}.svg")), picture)?;
    std::fs::write(directory.join(format!("{name}.html")), html(&source, &explanation, &PictureOptions::default(), None)?)?;
    print!("{}", text(&explanation, &TextOptions::for_stdout()));
    Ok(())
}

//! `thalweg report RECORDING -o FILE.svg|FILE.html`: the still picture, self-contained, for a ticket or a paper.

use crate::failure::Failure;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of `thalweg report`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The recording, a directory NAME.thw
    recording: PathBuf,
    /// The file to write: FILE.svg for a picture, FILE.html for a page with tables
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Draws, and writes the file in one piece.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let kind = arguments.output.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if kind != "svg" && kind != "html" {
        let what = arguments.output.display();
        return Err(Failure::usage(format!("{what}: expected a name that ends with .svg or .html")));
    }
    let (recording, explanation) = crate::recordings::explained::explained(&arguments.recording)?;
    let options = thalweg_report::PictureOptions::default();
    let drawn = match kind {
        "svg" => thalweg_report::svg(&recording, &explanation, &options),
        _ => thalweg_report::html(&recording, &explanation, &options),
    };
    write_whole(&arguments.output, &drawn.map_err(Failure::failed)?)
}

/// Writes a file so that nobody ever sees half of it: under a name that nobody has, which is made and never found.
pub(super) fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let error = |e: std::io::Error| Failure::failed(format!("{}: {e}", path.display()));
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{:016x}.partial", thalweg_store::protocol::common::random_u64()));
    let partial = path.with_file_name(name);
    let written = std::fs::File::create_new(&partial).and_then(|mut file| file.write_all(text.as_bytes()));
    let done = written.and_then(|()| std::fs::rename(&partial, path));
    done.map_err(|e| {
        let _ = std::fs::remove_file(&partial);
        error(e)
    })
}

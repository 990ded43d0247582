//! `thalweg report RECORDING -o FILE.svg|FILE.html|FILE.md`: draws a self-contained picture for a ticket or a paper, or writes the answer
//! as Markdown. For a packet capture it plots
//! the RPCs over time; if RPCs were recorded beside threads, the page has that plot too.

use crate::failure::Failure;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_explain::Options;
use thalweg_report::PictureOptions;
use thalweg_trace::Source;

/// Arguments of `thalweg report`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The recording, a directory NAME.thw
    recording: PathBuf,
    /// The file to write: FILE.svg for a picture, FILE.html for a page to explore, FILE.md for text and tables
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Draw from this time on, counted from the recording's start, like 250ms
    #[arg(long, value_name = "TIME", value_parser = numbers::parse_duration)]
    from: Option<Duration>,
    /// Draw until this time (default: the end)
    #[arg(long, value_name = "TIME", value_parser = numbers::parse_duration)]
    to: Option<Duration>,
    /// Leave out the close-up of one gap or wait
    #[arg(long, conflicts_with_all = ["from", "to"])]
    no_close_up: bool,
    /// Maximum number of threads and connections to draw; the others are combined
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(8..=1000))]
    lanes: u16,
    /// Width of the picture in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 1400, value_parser = clap::value_parser!(u16).range(700..=10000))]
    width: u16,
}

impl Arguments {
    /// Returns the picture options for a recording of `wall_s` seconds.
    fn options(&self, wall_s: f64) -> Result<PictureOptions, Failure> {
        let window = (self.from.is_some() || self.to.is_some()).then(|| {
            let end_s = self.to.map_or(wall_s, |to| to.as_secs_f64().min(wall_s));
            (self.from.map_or(0.0, |from| from.as_secs_f64()), end_s)
        });
        if let Some((start_s, end_s)) = window
            && start_s >= end_s
        {
            let [from, to, all] = [start_s, end_s, wall_s].map(numbers::duration);
            return Err(Failure::usage(format!("--from {from} --to {to}: expected a part of the recording, which lasts {all}")));
        }
        let max_lanes = usize::from(self.lanes);
        Ok(PictureOptions { width_px: f64::from(self.width), max_lanes, enlarged: !self.no_close_up, window })
    }
}

/// Draws, and writes the file atomically.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let kind = arguments.output.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if !["svg", "html", "md"].contains(&kind) {
        let what = arguments.output.display();
        return Err(Failure::usage(format!("{what}: expected a name that ends with .svg, .html or .md")));
    }
    // The page shows the rules behind each cause.
    let how = Options { why: kind == "html", ..Options::default() };
    let (recording, explanation) = crate::recordings::explained::explained_as(&arguments.recording, &how)?;
    if kind == "md" {
        return write_whole(&arguments.output, &thalweg_report::markdown(&explanation));
    }
    let options = arguments.options(explanation.wall_s)?;
    // A time window is drawn by threads and connections. A recording without RPCs is not an error here.
    let wanted = options.window.is_none() && (kind == "html" || recording.meta().recorder == "capture");
    let rpcs = if wanted { thalweg_report::rpcstat_to_draw(&*recording).ok() } else { None };
    let drawn = match (kind, &rpcs) {
        ("svg", Some(rpcs)) => Ok(thalweg_report::rpcstat_picture(rpcs)),
        ("svg", _) => thalweg_report::svg(&*recording, &explanation, &options),
        _ => thalweg_report::html(&*recording, &explanation, &options, rpcs.as_ref()),
    };
    write_whole(&arguments.output, &drawn.map_err(Failure::failed)?)
}

/// Writes a file atomically: to a new file of a random name, then renamed.
pub(super) fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let error = |e: std::io::Error| Failure::failed(format!("{}: {e}", path.display()));
    let mut name = std::ffi::OsString::from(".");
    // A name of nearly 255 bytes leaves no room for a suffix.
    name.push(path.file_name().filter(|name| name.len() < 200).unwrap_or_default());
    name.push(format!(".{:016x}.partial", thalweg_wire::protocol::common::random_u64()));
    let partial = path.with_file_name(name);
    let written = std::fs::File::create_new(&partial).and_then(|mut file| file.write_all(text.as_bytes()));
    let done = written.and_then(|()| std::fs::rename(&partial, path));
    done.map_err(|e| {
        let _ = std::fs::remove_file(&partial);
        error(e)
    })
}

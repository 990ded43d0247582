//! `thalweg report RECORDING -o FILE.svg|FILE.png|FILE.html|FILE.md`: draws a self-contained picture for a ticket or a paper, makes a page to
//! explore, or writes the answer as Markdown. For a packet capture it plots the RPCs over time; if RPCs were recorded beside threads, the
//! page has that plot too. `--serve DIR` shows the recordings of a directory in a browser.

mod drawn;
mod serve;

use crate::failure::Failure;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_explain::Options;
use thalweg_report::PictureOptions;

/// Width in pixels for which a picture is laid out as PNG, if it is wider: beyond, it is enlarged.
const LAID_OUT_PX: u16 = 1400;

/// Arguments of `thalweg report`.
#[derive(clap::Args)]
#[command(
    override_usage = "thalweg report [OPTIONS] RECORDING -o FILE\n       thalweg report [OPTIONS] RECORDING --markdown|--png\n       \
thalweg report --serve DIR [--port N]",
    after_help = "Examples:
  thalweg report run.thw -o run.html          a page to explore
  thalweg report run.thw --markdown           for a ticket or an assistant
  thalweg report run.thw -o run.png --width 2800
  thalweg report --serve .                    all recordings here, in a browser"
)]
pub(crate) struct Arguments {
    /// The recording, a directory NAME.thw; or the result of a sweep, NAME.json
    #[arg(required_unless_present = "serve")]
    recording: Option<PathBuf>,
    /// The file to write: FILE.svg or FILE.png for a picture, FILE.html for a page to explore, FILE.md for text and tables
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["markdown", "png", "serve"])]
    output: Option<PathBuf>,
    /// Write text and tables as Markdown, to standard output without -o
    #[arg(long)]
    markdown: bool,
    /// Draw a PNG, to standard output without -o
    #[arg(long, conflicts_with = "markdown")]
    png: bool,
    /// Show the recordings in this directory in a browser on this machine, until Ctrl-C: what limited each, its page, two compared, and
    /// those being recorded. Prints the address, whose random key keeps other users out
    #[arg(long, value_name = "DIR", conflicts_with_all = ["recording", "output", "markdown", "png", "from", "to", "no_close_up", "lanes", "width"])]
    serve: Option<PathBuf>,
    /// With --serve: the port on 127.0.0.1 (default: a free one)
    #[arg(long, value_name = "N", requires = "serve", conflicts_with_all = ["recording", "output"], default_value_t = 0, hide_default_value = true)]
    port: u16,
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
    /// Width of the picture in pixels. A PNG wider than 1400 is enlarged: text and lines grow too
    #[arg(long, value_name = "PIXELS", default_value_t = 1400, value_parser = clap::value_parser!(u16).range(700..=10000))]
    width: u16,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Svg,
    Png,
    Html,
    Markdown,
}

impl Format {
    /// Returns the format that a file's name stands for.
    fn of_name(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "svg" => Some(Format::Svg),
            "png" => Some(Format::Png),
            "html" => Some(Format::Html),
            "md" => Some(Format::Markdown),
            _ => None,
        }
    }
}

impl Arguments {
    /// Returns the format: a flag's, or that of the file's name.
    fn format(&self) -> Result<Format, Failure> {
        let flag = match (self.markdown, self.png) {
            (true, _) => Some(("--markdown", Format::Markdown)),
            (_, true) => Some(("--png", Format::Png)),
            _ => None,
        };
        let named = self.output.as_deref().and_then(Format::of_name);
        let output = self.output.as_deref().unwrap_or(Path::new("")).display();
        match (flag, named) {
            (Some((flag, format)), Some(named)) if format != named => {
                Err(Failure::usage(format!("{flag} -o {output}: the name stands for another format")))
            }
            (Some((_, format)), _) => Ok(format),
            (None, Some(named)) => Ok(named),
            (None, None) => Err(Failure::usage(format!("{output}: expected a name that ends with .svg, .png, .html or .md"))),
        }
    }

    /// Returns the picture options for a recording of `wall_s` seconds.
    fn options(&self, wall_s: f64, format: Format) -> Result<PictureOptions, Failure> {
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
        let width = if format == Format::Png { self.width.min(LAID_OUT_PX) } else { self.width };
        Ok(PictureOptions { width_px: f64::from(width), max_lanes, enlarged: !self.no_close_up, window })
    }
}

/// Draws, and writes the file atomically; or serves a directory.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(recording) = &arguments.recording else {
        return serve::run(arguments.serve.as_deref().unwrap_or(Path::new(".")), arguments.port);
    };
    let format = arguments.format()?;
    if format == Format::Png && arguments.output.is_none() && std::io::stdout().is_terminal() {
        return Err(Failure::usage("--png: standard output is a terminal; give -o FILE.png, or redirect it"));
    }
    let made = match recording.extension() {
        Some(ending) if ending == "json" => swept(recording, format)?,
        _ => made(arguments, recording, format)?,
    };
    match &arguments.output {
        Some(path) => write_whole(path, &made),
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(&made)?;
            Ok(out.flush()?)
        }
    }
}

/// Returns the recording in this format.
fn made(arguments: &Arguments, recording: &Path, format: Format) -> Result<Vec<u8>, Failure> {
    // The page shows the rules behind each cause.
    let how = Options { why: format == Format::Html, ..Options::default() };
    let (recording, explanation) = crate::recordings::explained::explained_as(recording, &how)?;
    if format == Format::Markdown {
        return Ok(thalweg_report::markdown(&explanation).into_bytes());
    }
    let options = arguments.options(explanation.wall_s, format)?;
    match format {
        Format::Html => drawn::page(&recording, &explanation, &options).map(String::into_bytes),
        Format::Svg => drawn::picture(&recording, &explanation, &options).map(String::into_bytes),
        _ => {
            let picture = drawn::picture(&recording, &explanation, &options)?;
            thalweg_report::png(&picture, u32::from(arguments.width)).map_err(Failure::failed)
        }
    }
}

/// Returns the page of a sweep's result, as the sweep wrote it.
fn swept(result: &Path, format: Format) -> Result<Vec<u8>, Failure> {
    if format != Format::Html {
        return Err(Failure::usage(format!("{}: the result of a sweep is drawn as a page: expected -o FILE.html", result.display())));
    }
    let document = thalweg_study::sweep::Document::read(result).map_err(Failure::failed)?;
    Ok(thalweg_report::study::sweep::page(&document).into_bytes())
}

/// Writes a file atomically: to a new file of a random name, then renamed.
pub(super) fn write_whole(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
    let error = |e: std::io::Error| Failure::failed(format!("{}: {e}", path.display()));
    let mut name = std::ffi::OsString::from(".");
    // A name of nearly 255 bytes leaves no room for a suffix.
    name.push(path.file_name().filter(|name| name.len() < 200).unwrap_or_default());
    name.push(format!(".{:016x}.partial", thalweg_wire::protocol::common::random_u64()));
    let partial = path.with_file_name(name);
    let written = std::fs::File::create_new(&partial).and_then(|mut file| file.write_all(contents.as_ref()));
    let done = written.and_then(|()| std::fs::rename(&partial, path));
    done.map_err(|e| {
        let _ = std::fs::remove_file(&partial);
        error(e)
    })
}

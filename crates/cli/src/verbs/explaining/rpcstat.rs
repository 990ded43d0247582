//! `thalweg rpcstat`: statistics of the RPCs in a capture, on an interface or in a recording, as text and pictures; two are compared on
//! equal axes.

use super::report::write_whole;
use crate::interrupt::Interrupt;
use crate::recordings::captured::{self, CaptureRecording, is_capture};
use crate::recordings::explained::{Form, more_of as more_of_explained};
use crate::recordings::runs::{OfRun, each, title};
use crate::{failure::Failure, output};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_base::numbers::parse_duration;
use thalweg_explain::rpcstat::{Interval, RpcStat};
use thalweg_explain::{ExplainError, Explanation};
use thalweg_record::capture::{Live, LiveOptions, Options};
use thalweg_report::{RunSummary, TextOptions};
use thalweg_trace::{Event, Recording, RecordingWriter, Sink, Source};

/// Interval between lines of the live table.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Lines between repeated heads of the live table.
const LINES_PER_HEAD: u64 = 20;

/// Arguments of `thalweg rpcstat`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A capture (pcap or pcapng, also compressed; - for standard input) or a recording (a directory NAME.thw); two of them are compared
    #[arg(value_name = "CAPTURE|RECORDING", num_args = 0..=2, conflicts_with = "interface")]
    files: Vec<PathBuf>,
    /// Capture from this interface and print a line each second (needs root or CAP_NET_RAW)
    #[arg(short, long, value_name = "IF")]
    interface: Option<String>,
    /// Capture only packets to and from this server port (2049 is NFS). May be repeated
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// How long to capture, like 30s or 5m (default: until Ctrl-C)
    #[arg(long = "for", value_name = "TIME", requires = "interface", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Bytes to capture of each packet (default: only the start of large packets, for speed; 262144: all bytes)
    #[arg(long, value_name = "BYTES", requires = "interface")]
    snaplen: Option<u32>,
    /// Print the figures as JSON (thalweg.rpcstat/1; for two, thalweg.rpcstat-pair/1)
    #[arg(long)]
    json: bool,
    /// Print the full text: procedures, everything over time, each long stall
    #[arg(short, long)]
    verbose: bool,
    /// Use only this run of a capture that holds several (1 is the first)
    #[arg(long, value_name = "N", conflicts_with = "interface")]
    run: Option<usize>,
    /// Draw everything over time (FILE.svg, FILE.html), or keep a capture's recording (NAME.thw). May be repeated
    #[arg(short, long, value_name = "FILE.svg|FILE.html|NAME.thw")]
    output: Vec<PathBuf>,
}

/// Files to write besides the text.
#[derive(Default)]
struct Outputs<'a> {
    /// The path for the recording, if it is kept.
    recording: Option<&'a Path>,
    pictures: Vec<&'a Path>,
    pages: Vec<&'a Path>,
}

impl<'a> Outputs<'a> {
    fn of(paths: &'a [PathBuf]) -> Result<Outputs<'a>, Failure> {
        let mut outputs = Outputs::default();
        for path in paths {
            match path.extension().and_then(|ending| ending.to_str()) {
                Some("svg") => outputs.pictures.push(path),
                Some("html") => outputs.pages.push(path),
                Some("thw") if outputs.recording.is_none() => outputs.recording = Some(path),
                Some("thw") => {
                    return Err(Failure::usage(format!("{}: only one recording is kept, so give only one NAME.thw", path.display())));
                }
                _ => {
                    let expected = "expected FILE.svg for a picture, FILE.html for a page, or NAME.thw to keep the recording";
                    return Err(Failure::usage(format!("{}: {expected}", path.display())));
                }
            }
        }
        Ok(outputs)
    }

    /// Writes the pictures and pages asked for.
    fn draw(&self, picture: impl Fn() -> String, page: impl Fn() -> String) -> Result<(), Failure> {
        self.pictures.iter().try_for_each(|path| write_whole(path, picture()))?;
        self.pages.iter().try_for_each(|path| write_whole(path, page()))
    }
}

/// The documents of two captures or recordings.
#[derive(serde::Serialize)]
struct Pair<'a> {
    /// Always `thalweg.rpcstat-pair/1`.
    schema: &'static str,
    a: &'a RpcStat,
    b: &'a RpcStat,
}

/// Reads or captures packets; prints and draws the statistics.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let outputs = Outputs::of(&arguments.output)?;
    if let Some(interface) = &arguments.interface {
        return live(arguments, &outputs, interface);
    }
    match &arguments.files[..] {
        [] => Err(Failure::usage("expected a capture (pcap or pcapng), a recording, or --interface IF")),
        [file] => one(arguments, &outputs, file),
        [a, b, ..] => pair(arguments, &outputs, [a, b]),
    }
}

/// The analysis of a capture or a recording: of RPCs, or of connections if it has no RPCs of a known protocol.
enum Analysis {
    Rpcs(Box<RpcStat>),
    Connections(Box<Explanation>),
}

impl Analysis {
    fn summary(&self, title: String) -> RunSummary {
        match self {
            Analysis::Rpcs(d) => RunSummary { title, about: thalweg_report::rpcstat_about(d), sentence: d.sentence.clone() },
            Analysis::Connections(e) => RunSummary { title, about: e.summary.about.clone(), sentence: e.summary.sentence.clone() },
        }
    }

    fn json(&self) -> serde_json::Value {
        let value = match self {
            Analysis::Rpcs(document) => serde_json::to_value(document),
            Analysis::Connections(explanation) => serde_json::to_value(explanation),
        };
        value.unwrap_or_default()
    }
}

/// Prints the analysis of one file: of all of it, of each run, or of the run asked for.
fn one(arguments: &Arguments, outputs: &Outputs<'_>, file: &Path) -> Result<(), Failure> {
    let opened = opened(arguments, outputs, file)?;
    let mut all = each(&opened, file, arguments.run, |source| analysed(source, file, &opened.notes, outputs))?;
    if all.len() > 1 {
        return several(&all, &opened, outputs, arguments, file);
    }
    match all.pop().map(|(_, said)| said).transpose()? {
        Some(Analysis::Rpcs(document)) => hand_over(&document, outputs, arguments, file),
        Some(Analysis::Connections(explanation)) => hand_over_connections(&explanation, outputs, arguments, file),
        None => Err(Failure::failed(format!("{}: has no run", file.display()))),
    }
}

/// Prints several runs, each in a few lines, or in full.
fn several(
    all: &[OfRun<Analysis>],
    recording: &Recording,
    outputs: &Outputs<'_>,
    arguments: &Arguments,
    file: &Path,
) -> Result<(), Failure> {
    if !outputs.pictures.is_empty() || !outputs.pages.is_empty() {
        return Err(Failure::usage(format!("{} has {} runs: choose the one to draw with --run N", file.display(), all.len())));
    }
    if arguments.json {
        let runs: Vec<serde_json::Value> = all
            .iter()
            .map(|(_, said)| said.as_ref().map_or_else(|failure| serde_json::json!({ "problem": failure.message() }), Analysis::json))
            .collect();
        return output::json(&serde_json::json!({ "schema": "thalweg.rpcstat-runs/1", "runs": runs }));
    }
    let options = TextOptions::for_stdout();
    let titles = all.iter().map(|(run, _)| run.as_ref().map_or_else(String::new, |run| title(run, recording)));
    if arguments.verbose {
        let text = |(title, (_, said)): (String, &OfRun<Analysis>)| match said {
            Ok(Analysis::Rpcs(document)) => format!("{title}\n\n{}", thalweg_report::rpcstat(document, &options)),
            Ok(Analysis::Connections(explanation)) => format!("{title}\n\n{}", Form::Full.write(explanation, &options)),
            Err(failure) => format!("{title}\n\n{}\n", failure.message()),
        };
        return output::result(&titles.zip(all).map(text).collect::<Vec<_>>().join("\n"));
    }
    let summaries: Vec<RunSummary> = titles
        .zip(all)
        .map(|(title, (_, said))| match said {
            Ok(said) => said.summary(title),
            Err(failure) => RunSummary { title, about: "not explained".to_owned(), sentence: failure.message().to_owned() },
        })
        .collect();
    let name = file.file_name().map_or_else(|| "standard input".into(), std::ffi::OsStr::to_string_lossy);
    output::result(&thalweg_report::runs(&name, &summaries, &options, "rpcstat --run N FILE"))
}

/// Prints the explanation from TCP, in the form of `explain`.
fn hand_over_connections(explanation: &Explanation, outputs: &Outputs<'_>, arguments: &Arguments, file: &Path) -> Result<(), Failure> {
    if let Some(picture) = outputs.pictures.iter().chain(&outputs.pages).next() {
        let how = "keep the recording (-o NAME.thw) and draw that: thalweg report NAME.thw";
        return Err(Failure::usage(format!("{}: no RPCs to draw; {how}", picture.display())));
    }
    let more = more_of_explained(file);
    let form = match (arguments.json, arguments.verbose) {
        (true, _) => Form::Json,
        (false, true) => Form::Full,
        (false, false) => Form::Short { more: &more },
    };
    crate::recordings::explained::print(explanation, form)
}

/// Opens a recording, or reads a capture.
fn opened(arguments: &Arguments, outputs: &Outputs<'_>, file: &Path) -> Result<captured::Opened, Failure> {
    if !is_capture(file) && file.is_dir() {
        if outputs.recording.is_some() || !arguments.port.is_empty() {
            return Err(Failure::usage(format!("{}: a recording; --port and --output NAME.thw are for captures", file.display())));
        }
        if !file.join("meta.json").exists() {
            let expected = "a directory that is not a recording; expected a capture (pcap or pcapng) or a recording NAME.thw";
            return Err(Failure::failed(format!("{}: {expected}", file.display())));
        }
        return captured::opened(file, "rpcstat");
    }
    let options = Options { ports: arguments.port.clone(), ..Options::default() };
    captured::read(file, "rpcstat", &options, outputs.recording)
}

/// Returns the RPC statistics of a capture or a recording; of several runs, those of the run asked for, or of the longest.
fn document(arguments: &Arguments, outputs: &Outputs<'_>, file: &Path) -> Result<RpcStat, Failure> {
    let opened = opened(arguments, outputs, file)?;
    let said = match arguments.run {
        Some(_) => each(&opened, file, arguments.run, |source| analysed(source, file, &opened.notes, outputs))?.pop().map(|(_, said)| said),
        None => Some(analysed(&*opened, file, &opened.notes, outputs)),
    };
    match said.transpose()? {
        Some(Analysis::Rpcs(document)) => Ok(*document),
        _ => Err(Failure::failed(format!("{}: no RPCs to compare; to compare explanations, use thalweg diff", file.display()))),
    }
}

/// Draws and prints the statistics of one file.
fn hand_over(document: &RpcStat, outputs: &Outputs<'_>, arguments: &Arguments, of: &Path) -> Result<(), Failure> {
    outputs.draw(|| thalweg_report::rpcstat_picture(document), || thalweg_report::rpcstat_page(document))?;
    let options = TextOptions::for_stdout();
    match (arguments.json, arguments.verbose) {
        (true, _) => output::line(&document.to_json()),
        (false, true) => output::result(&thalweg_report::rpcstat(document, &options)),
        (false, false) => output::result(&thalweg_report::rpcstat_short(document, &options, &more_of(of))),
    }
}

/// Returns the commands that show more.
fn more_of(file: &Path) -> String {
    // A longer name would leave no room for the commands: the reader fills it in.
    const ROOM: usize = 24;
    let name = file.to_str().filter(|name| name.len() <= ROOM).unwrap_or("FILE");
    format!("rpcstat -v {name} | rpcstat {name} -o rpcs.svg")
}

/// Draws two on equal axes, and prints the figures side by side.
fn pair(arguments: &Arguments, outputs: &Outputs<'_>, files: [&PathBuf; 2]) -> Result<(), Failure> {
    if let Some(recording) = outputs.recording {
        let expected = "no recording is kept when two captures are compared: keep each separately";
        return Err(Failure::usage(format!("{}: {expected}", recording.display())));
    }
    if files.iter().all(|file| file.as_os_str() == "-") {
        return Err(Failure::usage("-: only one capture can come from standard input: name the other"));
    }
    let [a, b] = [document(arguments, outputs, files[0])?, document(arguments, outputs, files[1])?];
    let [first, second] = names(files);
    let both = [(first.as_str(), &a), (second.as_str(), &b)];
    outputs.draw(|| thalweg_report::rpcstat_pair_picture(both), || thalweg_report::rpcstat_pair_page(both))?;
    match (arguments.json, arguments.verbose) {
        (true, _) => {
            let pair = Pair { schema: "thalweg.rpcstat-pair/1", a: &a, b: &b };
            output::line(&serde_json::to_string_pretty(&pair).map_err(Failure::failed)?)
        }
        (false, verbose) => {
            let options = TextOptions::for_stdout();
            let mut text = thalweg_report::rpcstat_pair(both, &options);
            for (name, document) in both.iter().filter(|_| verbose) {
                text += &format!("\n{name}\n\n{}", thalweg_report::rpcstat(document, &options));
            }
            output::result(&text)
        }
    }
}

/// Returns the file names, or the whole paths if the names are the same.
fn names(files: [&PathBuf; 2]) -> [String; 2] {
    let own = files.map(|file| file.file_name().map_or_else(|| file.display().to_string(), |name| name.to_string_lossy().into_owned()));
    if own[0] == own[1] { files.map(|file| file.display().to_string()) } else { own }
}

fn analysed(source: &dyn Source, of: &Path, notes: &[String], outputs: &Outputs<'_>) -> Result<Analysis, Failure> {
    let document = match outputs.pictures.len() + outputs.pages.len() {
        0 => thalweg_explain::rpcstat::rpcstat(source),
        _ => thalweg_report::rpcstat_to_draw(source),
    };
    let problem = match document {
        Ok(document) => return Ok(Analysis::Rpcs(Box::new(document))),
        Err(ExplainError::Nothing(problem)) => problem,
        Err(error) => return Err(Failure::failed(format!("{}: {error}", of.display()))),
    };
    if let Ok(explanation) = thalweg_explain::explain(source, &thalweg_explain::Options::default())
        && explanation.connections.is_some()
    {
        return Ok(Analysis::Connections(Box::new(explanation)));
    }
    let notes = if notes.is_empty() { String::new() } else { format!(" {}", notes.join(" ")) };
    Err(Failure::failed(format!("{}: {problem}.{notes}", of.display())))
}

/// A sink that adds events to the live interval on their way to the recording.
struct IntervalSink {
    to: Arc<RecordingWriter>,
    seen: Mutex<Interval>,
}

impl Sink for IntervalSink {
    fn take(&self, batch: &mut Vec<Event>) {
        let mut seen = self.seen.lock();
        batch.iter().for_each(|event| seen.take(event));
        drop(seen);
        self.to.take(batch);
    }
}

fn live(arguments: &Arguments, outputs: &Outputs<'_>, interface: &str) -> Result<(), Failure> {
    let options = LiveOptions { interface: interface.to_owned(), snaplen: arguments.snaplen };
    let interrupt = Interrupt::listen()?;
    let mut live = Live::open(&options, &arguments.port)?;
    let command = ["rpcstat", "--interface", interface].map(str::to_owned);
    let kept = CaptureRecording::at(outputs.recording, &command, live.start())?;
    let looking = Arc::new(IntervalSink { to: Arc::clone(&kept.writer), seen: Mutex::default() });
    live.begin(&Options { ports: arguments.port.clone(), ..Options::default() }, &(Arc::clone(&looking) as Arc<dyn Sink>));
    let begun = Instant::now();
    let ends = arguments.duration.map(|d| begun + d);
    let mut lines = 0;
    while !interrupt.is_raised() && ends.is_none_or(|e| Instant::now() < e) {
        let line_begun = Instant::now();
        let until = ends.map_or(line_begun + LINE_EVERY, |e| e.min(line_begun + LINE_EVERY));
        live.capture(until, &|| interrupt.is_raised()).map_err(Failure::failed)?;
        let passed = std::mem::take(&mut *looking.seen.lock());
        if lines % LINES_PER_HEAD == 0 {
            output::note(&thalweg_report::live_heads());
        }
        lines += 1;
        let seconds = line_begun.elapsed().as_secs_f64().max(1e-3);
        output::note(&thalweg_report::live_line(&passed, begun.elapsed().as_secs_f64(), seconds));
    }
    let summary = live.finish().map_err(Failure::failed)?;
    let of = Path::new(interface);
    // The same packets cannot be captured again: only the recording, if kept, can show more.
    let more = outputs.recording.unwrap_or(Path::new("NAME.thw"));
    let opened = kept.finish(&summary)?;
    match analysed(&*opened, of, &summary.notes, outputs)? {
        Analysis::Rpcs(document) => hand_over(&document, outputs, arguments, more),
        Analysis::Connections(explanation) => hand_over_connections(&explanation, outputs, arguments, more),
    }
}

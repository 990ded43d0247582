//! `thalweg rpcstat`: what the RPCs in a capture, on an interface, or in a recording say, as text and as pictures; of two, on equal axes.

use super::report::write_whole;
use crate::interrupt::Interrupt;
use crate::recordings::captured::{self, Kept, is_capture};
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

/// Between two lines of the live table.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Lines between two heads of the live table.
const LINES_PER_HEAD: u64 = 20;

/// Arguments of `thalweg rpcstat`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A capture (pcap or pcapng, also compressed; - for standard input), or a recording, a directory NAME.thw; two are compared
    #[arg(value_name = "CAPTURE|RECORDING", num_args = 0..=2, conflicts_with = "interface")]
    files: Vec<PathBuf>,
    /// Capture from this interface and print a line each second (needs root or CAP_NET_RAW)
    #[arg(short, long, value_name = "IF")]
    interface: Option<String>,
    /// Only packets to and from this server port (2049 is NFS). May be repeated
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// How long to capture, like 30s or 5m (default: until Ctrl-C)
    #[arg(long = "for", value_name = "TIME", requires = "interface", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Bytes to capture of each packet (default: of large ones their heads, for speed; 262144 is all of all)
    #[arg(long, value_name = "BYTES", requires = "interface")]
    snaplen: Option<u32>,
    /// Print the figures as JSON (thalweg.rpcstat/1; of two thalweg.rpcstat-pair/1)
    #[arg(long)]
    json: bool,
    /// Print all that is known: procedures, everything over time, each long stall
    #[arg(short, long)]
    verbose: bool,
    /// Of a capture that holds several runs, this one alone (1 is the first)
    #[arg(long, value_name = "N", conflicts_with = "interface")]
    run: Option<usize>,
    /// Draw everything over time (FILE.svg, FILE.html), or keep a capture's recording (NAME.thw). May be repeated
    #[arg(short, long, value_name = "FILE.svg|FILE.html|NAME.thw")]
    output: Vec<PathBuf>,
}

/// What is to be written besides the text.
#[derive(Default)]
struct Outputs<'a> {
    /// Where the recording is kept.
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
                Some("thw") => return Err(Failure::usage(format!("{}: the recording is kept once: give one NAME.thw", path.display()))),
                _ => {
                    let expected = "expected FILE.svg for a picture, FILE.html for a page, or NAME.thw to keep the recording";
                    return Err(Failure::usage(format!("{}: {expected}", path.display())));
                }
            }
        }
        Ok(outputs)
    }

    /// Draws what was asked for.
    fn draw(&self, picture: impl Fn() -> String, page: impl Fn() -> String) -> Result<(), Failure> {
        self.pictures.iter().try_for_each(|path| write_whole(path, &picture()))?;
        self.pages.iter().try_for_each(|path| write_whole(path, &page()))
    }
}

/// Two documents.
#[derive(serde::Serialize)]
struct Pair<'a> {
    /// Always `thalweg.rpcstat-pair/1`.
    schema: &'static str,
    a: &'a RpcStat,
    b: &'a RpcStat,
}

/// Reads, or captures; prints and draws.
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

/// What a capture or a recording says: of RPCs, or, where packets show none known here, of connections.
enum Said {
    Rpcs(Box<RpcStat>),
    Connections(Box<Explanation>),
}

impl Said {
    fn summary(&self, title: String) -> RunSummary {
        match self {
            Said::Rpcs(d) => RunSummary { title, about: thalweg_report::rpcstat_about(d), sentence: d.sentence.clone() },
            Said::Connections(e) => RunSummary { title, about: e.summary.about.clone(), sentence: e.summary.sentence.clone() },
        }
    }

    fn json(&self) -> serde_json::Value {
        let value = match self {
            Said::Rpcs(document) => serde_json::to_value(document),
            Said::Connections(explanation) => serde_json::to_value(explanation),
        };
        value.unwrap_or_default()
    }
}

/// Prints what one file says: all of it, or each run, or the run that was asked for.
fn one(arguments: &Arguments, outputs: &Outputs<'_>, file: &Path) -> Result<(), Failure> {
    let opened = opened(arguments, outputs, file)?;
    let mut all = each(&opened, file, arguments.run, |source| analysed(source, file, &opened.notes, outputs))?;
    if all.len() > 1 {
        return several(&all, &opened, outputs, arguments, file);
    }
    match all.pop().map(|(_, said)| said).transpose()? {
        Some(Said::Rpcs(document)) => hand_over(&document, outputs, arguments, file),
        Some(Said::Connections(explanation)) => hand_over_connections(&explanation, outputs, arguments, file),
        None => Err(Failure::failed(format!("{}: holds no run", file.display()))),
    }
}

/// Prints several runs, each in a few lines, or in full.
fn several(all: &[OfRun<Said>], recording: &Recording, outputs: &Outputs<'_>, arguments: &Arguments, file: &Path) -> Result<(), Failure> {
    if !outputs.pictures.is_empty() || !outputs.pages.is_empty() {
        return Err(Failure::usage(format!("{} holds {} runs: give --run N for the one to draw", file.display(), all.len())));
    }
    if arguments.json {
        let runs: Vec<serde_json::Value> = all
            .iter()
            .map(|(_, said)| said.as_ref().map_or_else(|failure| serde_json::json!({ "problem": failure.message() }), Said::json))
            .collect();
        return output::json(&serde_json::json!({ "schema": "thalweg.rpcstat-runs/1", "runs": runs }));
    }
    let options = TextOptions::for_stdout();
    let titles = all.iter().map(|(run, _)| run.as_ref().map_or_else(String::new, |run| title(run, recording)));
    if arguments.verbose {
        let text = |(title, (_, said)): (String, &OfRun<Said>)| match said {
            Ok(Said::Rpcs(document)) => format!("{title}\n\n{}", thalweg_report::rpcstat(document, &options)),
            Ok(Said::Connections(explanation)) => format!("{title}\n\n{}", Form::Full.write(explanation, &options)),
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

/// Prints what TCP shows, in the words of `explain`.
fn hand_over_connections(explanation: &Explanation, outputs: &Outputs<'_>, arguments: &Arguments, file: &Path) -> Result<(), Failure> {
    if let Some(picture) = outputs.pictures.iter().chain(&outputs.pages).next() {
        let how = "keep the recording (-o NAME.thw) and draw that: thalweg report NAME.thw";
        return Err(Failure::usage(format!("{}: there are no RPCs to draw; {how}", picture.display())));
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
            return Err(Failure::usage(format!("{}: is a recording; --port and --output NAME.thw are for captures", file.display())));
        }
        if !file.join("meta.json").exists() {
            let expected = "is a directory; expected a capture (pcap or pcapng) or a recording NAME.thw";
            return Err(Failure::failed(format!("{}: {expected}", file.display())));
        }
        return captured::opened(file, "rpcstat");
    }
    let options = Options { ports: arguments.port.clone(), ..Options::default() };
    captured::read(file, "rpcstat", &options, outputs.recording)
}

/// What the RPCs of a capture or a recording say; of several runs, those of the one asked for, or of the longest.
fn document(arguments: &Arguments, outputs: &Outputs<'_>, file: &Path) -> Result<RpcStat, Failure> {
    let opened = opened(arguments, outputs, file)?;
    let said = match arguments.run {
        Some(_) => each(&opened, file, arguments.run, |source| analysed(source, file, &opened.notes, outputs))?.pop().map(|(_, said)| said),
        None => Some(analysed(&*opened, file, &opened.notes, outputs)),
    };
    match said.transpose()? {
        Some(Said::Rpcs(document)) => Ok(*document),
        _ => Err(Failure::failed(format!(
            "{}: holds no RPCs, which two are compared by; thalweg diff compares explanations",
            file.display()
        ))),
    }
}

/// Draws and prints one.
fn hand_over(document: &RpcStat, outputs: &Outputs<'_>, arguments: &Arguments, of: &Path) -> Result<(), Failure> {
    outputs.draw(|| thalweg_report::rpcstat_picture(document), || thalweg_report::rpcstat_page(document))?;
    let options = TextOptions::for_stdout();
    match (arguments.json, arguments.verbose) {
        (true, _) => output::line(&document.to_json()),
        (false, true) => output::result(&thalweg_report::rpcstat(document, &options)),
        (false, false) => output::result(&thalweg_report::rpcstat_short(document, &options, &more_of(of))),
    }
}

/// How to see more of it.
fn more_of(file: &Path) -> String {
    // A name that leaves no room for the rest is the reader's to put in.
    const ROOM: usize = 24;
    let name = file.to_str().filter(|name| name.len() <= ROOM).unwrap_or("FILE");
    format!("rpcstat -v {name} | rpcstat {name} -o rpcs.svg")
}

/// Draws two on equal axes, and prints the figures that are compared.
fn pair(arguments: &Arguments, outputs: &Outputs<'_>, files: [&PathBuf; 2]) -> Result<(), Failure> {
    if let Some(recording) = outputs.recording {
        let expected = "of two captures no recording is kept: keep each by itself";
        return Err(Failure::usage(format!("{}: {expected}", recording.display())));
    }
    if files.iter().all(|file| file.as_os_str() == "-") {
        return Err(Failure::usage("-: standard input is one capture: give the other one's name"));
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

/// The files' own names, or whole paths where those are the same.
fn names(files: [&PathBuf; 2]) -> [String; 2] {
    let own = files.map(|file| file.file_name().map_or_else(|| file.display().to_string(), |name| name.to_string_lossy().into_owned()));
    if own[0] == own[1] { files.map(|file| file.display().to_string()) } else { own }
}

fn analysed(source: &dyn Source, of: &Path, notes: &[String], outputs: &Outputs<'_>) -> Result<Said, Failure> {
    let document = match outputs.pictures.len() + outputs.pages.len() {
        0 => thalweg_explain::rpcstat::rpcstat(source),
        _ => thalweg_report::rpcstat_to_draw(source),
    };
    let problem = match document {
        Ok(document) => return Ok(Said::Rpcs(Box::new(document))),
        Err(ExplainError::Nothing(problem)) => problem,
        Err(error) => return Err(Failure::failed(format!("{}: {error}", of.display()))),
    };
    if let Ok(explanation) = thalweg_explain::explain(source, &thalweg_explain::Options::default())
        && explanation.connections.is_some()
    {
        return Ok(Said::Connections(Box::new(explanation)));
    }
    let notes = if notes.is_empty() { String::new() } else { format!(" {}", notes.join(" ")) };
    Err(Failure::failed(format!("{}: {problem}.{notes}", of.display())))
}

/// Looks at events on their way to the recording.
struct Looking {
    to: Arc<RecordingWriter>,
    seen: Mutex<Interval>,
}

impl Sink for Looking {
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
    let kept = Kept::at(outputs.recording, &["rpcstat".to_owned(), "--interface".to_owned(), interface.to_owned()], live.start())?;
    let looking = Arc::new(Looking { to: Arc::clone(&kept.writer), seen: Mutex::default() });
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
    // Nobody can capture the same again: what shows more is the recording, where one was kept.
    let more = outputs.recording.unwrap_or(Path::new("NAME.thw"));
    let opened = kept.finish(&summary)?;
    match analysed(&*opened, of, &summary.notes, outputs)? {
        Said::Rpcs(document) => hand_over(&document, outputs, arguments, more),
        Said::Connections(explanation) => hand_over_connections(&explanation, outputs, arguments, more),
    }
}

//! `thalweg scrub`: reads and verifies everything in a store, and says what is damaged, missing, or does not belong there.

use crate::operand::StoreFlags;
use crate::session::Session;
use crate::terminal::progress::Progress;
use crate::{failure::Failure, interrupt::Interrupt, names, output, scrubbed};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use thalweg_base::numbers;
use thalweg_client::scrub::{Finding, ScrubOptions, ScrubReport, Watch, scrub};
use thalweg_wire::Connect;
use thalweg_wire::protocol::metadata::FileId;

/// Findings shown; `--json` has all.
const SHOWN: usize = 1000;

/// Arguments of `thalweg scrub`.
#[derive(clap::Args)]
#[command(
    after_help = "Needs the store's own credential. Exit codes: 0 nothing found, 1 failed or a server did not answer, 3 something found.\n\
    What is in a server's page cache is verified there; the rest is read from its disks.\n\
    thalweg scrub --store thal://HOST:PORT             everything: all targets, then all names\n\
    thalweg scrub --rate 200Mi --continue              beside load; on with the last one\n\
    thalweg scrub thal:/run7 thal:/a                   only these\n\
    thalweg scrub --file 0000010000000007.0            the file of a datafile that a message names"
)]
pub(crate) struct Arguments {
    /// Files and trees: thal://HOST:PORT/path, or paths with --store (default: the whole store)
    paths: Vec<OsString>,
    /// Maximum bytes read per second, of all targets together
    #[arg(long, value_name = "RATE", default_value = "200Mi", value_parser = numbers::parse_rate)]
    rate: f64,
    /// Read as fast as possible
    #[arg(long, conflicts_with = "rate")]
    no_limit: bool,
    /// Move datafiles that belong to no file to TARGET/set-aside, and count lots again. Nothing is removed, and no file changes
    #[arg(long, conflicts_with_all = ["paths", "file"])]
    repair: bool,
    /// Give checksums to targets that an earlier release made, while the store runs. Earlier releases can then no longer serve them
    #[arg(long, conflicts_with_all = ["paths", "file"])]
    add_checksums: bool,
    /// Go on where the last scrub of each target was interrupted
    #[arg(long = "continue", conflicts_with_all = ["paths", "file"])]
    go_on: bool,
    /// Verify the file of this datafile, given by its path at its server or by its name
    #[arg(long, value_name = "DATAFILE", conflicts_with = "paths")]
    file: Vec<OsString>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    /// Whether everything was examined: not interrupted, and all servers answered.
    complete: bool,
    read_bytes: u64,
    datafiles: u64,
    names: u64,
    seconds: f64,
    /// Datafiles whose checksums were computed, because they had none or a crash had left them unverified.
    checksums_computed: u64,
    /// Targets whose datafiles have no checksums.
    without_checksums: Vec<u32>,
    findings: Vec<FindingDocument<'a>>,
    /// Findings beyond the maximum.
    more: u64,
    silent: &'a [String],
}

#[derive(Serialize)]
struct FindingDocument<'a> {
    kind: &'static str,
    problem: &'a str,
    repaired: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hexadecimal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    datafile: Option<&'a str>,
    /// Ranges of the datafile.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ranges: &'a [(u64, u64)],
    /// The same bytes in the file.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ranges_in_file: &'a [(u64, u64)],
}

impl<'a> FindingDocument<'a> {
    fn of(finding: &'a Finding) -> FindingDocument<'a> {
        let place = &finding.place;
        let path = place.path.as_deref();
        let odd = path.filter(|path| std::str::from_utf8(path).is_err());
        FindingDocument {
            kind: finding.kind.name(),
            problem: &finding.problem,
            repaired: finding.repaired,
            path: path.map(|path| String::from_utf8_lossy(path).into_owned()),
            path_hexadecimal: odd.map(names::hexadecimal),
            file: place.file.map(|file| file.to_string()),
            target: place.target.map(|target| target.0),
            datafile: place.datafile.as_deref(),
            ranges: &place.ranges,
            ranges_in_file: &place.in_file,
        }
    }
}

struct Watching {
    interrupt: Interrupt,
    progress: Progress,
    read_bytes: AtomicU64,
}

impl Watch for Watching {
    fn is_over(&self) -> bool {
        self.interrupt.is_raised()
    }

    fn read(&self, bytes: u64, about: u64) {
        let read_bytes = self.read_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.progress.advance(bytes);
        if about > 0 {
            self.progress.expect(about.max(read_bytes));
        }
    }
}

/// Scrubs.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let root = [OsString::from("/")];
    let given = if arguments.paths.is_empty() { &root[..] } else { &arguments.paths };
    let paths = given.iter().map(|path| arguments.store.byte_path(path)).collect::<Result<Vec<_>, _>>()?;
    if let Some(other) = paths.iter().find(|path| path.store != paths[0].store) {
        return Err(Failure::usage(format!(
            "{}: is in another store than the first path: scrub one store at a time",
            names::text(&other.given)
        )));
    }
    let options = ScrubOptions {
        paths: if arguments.paths.is_empty() { Vec::new() } else { paths.iter().map(|path| path.path.clone()).collect() },
        files: arguments.file.iter().map(file_of).collect::<Result<_, _>>()?,
        bytes_per_second: (!arguments.no_limit).then_some(arguments.rate as u64),
        repair: arguments.repair,
        add_checksums: arguments.add_checksums,
        go_on: arguments.go_on,
        every: None,
    };
    let session = Session::connect(&paths[0].store, &arguments.store)?;
    let begun = Instant::now();
    let watching = Watching { interrupt, progress: Progress::new("scrub", None, arguments.quiet), read_bytes: AtomicU64::new(0) };
    let rows = || {
        let connect = Connect {
            timeout: arguments.store.timeout,
            node: arguments.store.node(),
            credentials: arguments.store.credentials(&paths[0].store)?,
            ..Connect::default()
        };
        scrubbed::check_rows(&paths[0].store.service()?, &connect)
    };
    let report = scrub(session.names(), session.data(), &options, &rows, &watching).map_err(Failure::failed)?;
    let Watching { interrupt, progress, .. } = watching;
    drop(progress);
    let seconds = begun.elapsed().as_secs_f64();
    match arguments.json {
        true => output::json(&document(&report, seconds))?,
        false => print(&report, seconds)?,
    }
    if interrupt.is_raised() {
        let on = if arguments.paths.is_empty() && arguments.file.is_empty() { "; --continue goes on from here" } else { "" };
        return Err(Failure::Interrupted(format!("interrupted{on}")));
    }
    if !report.silent.is_empty() {
        return Err(Failure::failed(format!("not everything was examined: {}", report.silent.join("; "))));
    }
    if report.findings.is_empty() { Ok(()) } else { Err(Failure::Verdict(3)) }
}

/// Returns the number of the file of a datafile, given by its path at a server or by its name.
fn file_of(name: &OsString) -> Result<FileId, Failure> {
    let text = name.to_string_lossy();
    let last = text.rsplit('/').next().unwrap_or_default();
    let number = last.split('.').next().filter(|number| number.len() == 16).and_then(|number| u64::from_str_radix(number, 16).ok());
    number
        .map(FileId)
        .ok_or_else(|| Failure::usage(format!("--file {text}: expected the name of a datafile, like 0000010000000007.0, or its path")))
}

fn document(report: &ScrubReport, seconds: f64) -> Document<'_> {
    Document {
        schema: "thalweg.scrub/1",
        complete: report.is_whole && report.silent.is_empty(),
        read_bytes: report.read_bytes,
        datafiles: report.datafiles,
        names: report.names,
        seconds,
        checksums_computed: report.recomputed,
        without_checksums: report.without_sums.iter().map(|target| target.0).collect(),
        findings: report.findings.iter().map(FindingDocument::of).collect(),
        more: report.more,
        silent: &report.silent,
    }
}

fn print(report: &ScrubReport, seconds: f64) -> Result<(), Failure> {
    for finding in report.findings.iter().take(SHOWN) {
        output::line(&scrubbed::finding(finding))?;
    }
    let hidden = report.more + report.findings.len().saturating_sub(SHOWN) as u64;
    if hidden > 0 {
        output::line(&format!("{} more findings (--json has the first 100000)", numbers::count(hidden)))?;
    }
    let kinds: BTreeSet<_> = report.findings.iter().filter(|finding| !finding.repaired).map(|finding| finding.kind).collect();
    for kind in kinds {
        output::line(&format!("{}: {}", kind.name(), kind.advice()))?;
    }
    if !report.without_sums.is_empty() {
        let targets: Vec<String> = report.without_sums.iter().map(ToString::to_string).collect();
        let what = "their datafiles were read, not verified; thalweg scrub --add-checksums adds them";
        output::line(&format!("no checksums on target {}: {what}", targets.join(", ")))?;
    }
    if report.recomputed > 0 {
        output::line(&format!(
            "computed the checksums of {} datafiles that had none, or were unverified after a crash",
            numbers::count(report.recomputed)
        ))?;
    }
    let (read, rate) = (numbers::size(report.read_bytes), numbers::byte_rate(report.read_bytes as f64 / seconds.max(1e-3)));
    let found = report.findings.len() as u64 + report.more;
    let findings = match found {
        0 if report.silent.is_empty() => "nothing found".to_owned(),
        0 => "nothing found, but not everything was examined".to_owned(),
        1 => "1 finding".to_owned(),
        many => format!("{} findings", numbers::count(many)),
    };
    let (datafiles, names) = (numbers::count(report.datafiles), numbers::count(report.names));
    output::line(&format!("{findings}: {read} in {datafiles} datafiles, {names} names, {} ({rate})", numbers::duration(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datafile_is_named_by_its_path_or_its_name() {
        for name in ["/s/io0/datafiles/07/0000010000000007.0", "0000010000000007.0", "0000010000000007.12.crc"] {
            assert_eq!(file_of(&name.into()).unwrap(), FileId(0x0100_0000_0007));
        }
        for name in ["7.0", "", "/a/b", "000001000000000g.0"] {
            assert!(matches!(file_of(&name.into()), Err(Failure::Usage(_))), "{name}");
        }
    }
}

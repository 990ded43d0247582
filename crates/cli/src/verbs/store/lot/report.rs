//! `thalweg lot ls` and `thalweg lot show`: the state and space of lots, as text, JSON and an exit code.

use crate::lots::{self, Lot};
use crate::operand::StoreFlags;
use crate::session::Session;
use crate::{failure::Failure, names, output};
use serde::Serialize;
use thalweg_base::numbers;
use thalweg_wire::protocol::lots::{LotOperation, LotReport};
use thalweg_wire::protocol::metadata::StoreMap;

/// Arguments of `thalweg lot ls`.
#[derive(clap::Args)]
pub(super) struct List {
    /// The store: thal://HOST:PORT (default: --store or THALWEG_STORE)
    store_path: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Arguments of `thalweg lot show`.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 all is well; 3 less than 10 % of its time or space, or less than an hour, is left, or a target does not \
        answer; 4 the lot has expired; 1 the command failed."
)]
pub(super) struct Show {
    /// The lot
    name: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// The document of `lot ls --json`.
#[derive(Serialize)]
struct Listed {
    schema: &'static str,
    lots: Vec<Lot>,
}

/// The document of `lot show --json`, and of the verbs that change a lot.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    #[serde(flatten)]
    lot: Lot,
    id: u32,
    /// Directories whose new files go to it; not all of them if there are many.
    directories: Vec<String>,
    targets: Vec<Target>,
    /// `fine`, `warning` or `expired`.
    verdict: &'static str,
    warnings: Vec<String>,
    /// PID of the watcher that expires it, if one was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    watcher: Option<u32>,
}

/// A target's share; absent figures mean that its server did not answer.
#[derive(Serialize)]
struct Target {
    target: u32,
    share_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    used_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    promised_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<&'static str>,
}

/// Whether a lot needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    Warning,
    Expired,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::Warning => "warning",
            Verdict::Expired => "expired",
        }
    }
}

/// Lists the lots.
pub(super) fn list(arguments: &List) -> Result<(), Failure> {
    let path = arguments.store.path(arguments.store_path.as_deref().unwrap_or("/"))?;
    let session = Session::connect(&path.store, &arguments.store)?;
    let reports = lots::asked(&session, LotOperation::Show { name: None })?;
    let lots: Vec<Lot> = reports.iter().map(Lot::of).collect();
    match (arguments.json, lots.is_empty()) {
        (true, _) => output::json(&Listed { schema: "thalweg.lots/1", lots }),
        (false, true) => {
            output::note("there are no lots that this credential may see");
            Ok(())
        }
        (false, false) => output::result(&table(&lots)),
    }
}

/// Formats lots, a line each.
pub(crate) fn table(lots: &[Lot]) -> String {
    let row = |lot: &Lot| {
        vec![
            lot.name.clone(),
            lot.owner.clone(),
            numbers::size(lot.size_bytes),
            shown(lot.used_bytes),
            shown(lot.promised_bytes),
            lot.level.unwrap_or("?").to_owned(),
            until(lot),
        ]
    };
    let rows: Vec<Vec<String>> = lots.iter().map(row).collect();
    output::table(&["lot", "owner", "size", "used", "promised", "level", "until"], &rows)
}

/// Shows a lot; the exit code says whether it needs attention.
pub(super) fn show(arguments: &Show) -> Result<(), Failure> {
    let (session, name) = lots::connect(&arguments.name, &arguments.store)?;
    let report = lots::named(&session, &name)?;
    if arguments.json {
        output::json(&Document::of(&report))?;
    } else {
        output::result(&text(&report, &session.map()))?;
    }
    match assess(&report, lots::now_ns()).0 {
        Verdict::Fine => Ok(()),
        Verdict::Warning => Err(Failure::Verdict(3)),
        Verdict::Expired => Err(Failure::Verdict(4)),
    }
}

/// Prints a changed lot, in a line or as `thalweg lot show --json` does.
pub(super) fn print_changed(report: &LotReport, json: bool) -> Result<(), Failure> {
    if json {
        return output::json(&Document::of(report));
    }
    output::line(&line(&Lot::of(report)))
}

impl Document {
    /// Converts the service's report.
    pub(super) fn of(report: &LotReport) -> Document {
        let (verdict, warnings) = assess(report, lots::now_ns());
        let target = |(target, share_bytes): &(thalweg_wire::protocol::io::TargetId, u64)| {
            let at = report.uses.iter().position(|used| used.target == *target);
            Target {
                target: target.0,
                share_bytes: *share_bytes,
                used_bytes: at.map(|at| report.uses[at].used_bytes),
                promised_bytes: at.map(|at| lots::unused_bytes(report, at)),
                level: at.map(|at| report.uses[at].level.name()),
            }
        };
        Document {
            schema: "thalweg.lot/1",
            lot: Lot::of(report),
            id: report.lot.id.0,
            directories: report.directories.iter().map(|path| names::text(path)).collect(),
            targets: report.lot.shares.iter().map(target).collect(),
            verdict: verdict.text(),
            warnings,
            watcher: None,
        }
    }

    /// Adds the PID of the watcher that expires it.
    pub(super) fn with_watcher(self, watcher: Option<u32>) -> Document {
        Document { watcher, ..self }
    }
}

/// Formats a lot in a line: `lot run7: 100 GiB for ana until 2026-12-02T14:20:00Z (in 7 d 0 h), 0 B used`.
pub(super) fn line(lot: &Lot) -> String {
    let used = lot.used_bytes.map_or_else(|| "used ?".to_owned(), |used| format!("{} used", numbers::size(used)));
    format!("lot {}: {} for {} until {}, {used}", lot.name, numbers::size(lot.size_bytes), lot.owner, until(lot))
}

fn until(lot: &Lot) -> String {
    let apart = numbers::duration(lot.left_s.unsigned_abs() as f64);
    match lot.left_s >= 0 && lot.state != "expired" {
        true => format!("{} (in {apart})", lot.until),
        false => format!("{} ({apart} ago)", lot.until),
    }
}

fn shown(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "?".to_owned(), numbers::size)
}

/// Formats the full text of a lot.
fn text(report: &LotReport, map: &StoreMap) -> String {
    let lot = Lot::of(report);
    let part = |bytes: u64| numbers::percent(bytes as f64 / lot.size_bytes.max(1) as f64);
    let mut text = format!("lot {}: {}, of {}\n", lot.name, lot.state, lot.owner);
    let mut say = |head: &str, what: String| text.push_str(&format!("{head:9} {what}\n"));
    say("size", numbers::size(lot.size_bytes));
    say("used", lot.used_bytes.map_or_else(|| "?".to_owned(), |used| format!("{} ({})", numbers::size(used), part(used))));
    say("promised", format!("{}, not used yet", shown(lot.promised_bytes)));
    say("until", until(&lot));
    match lots::level_of(report) {
        Some(level) => say("level", format!("{}: {}", level.name(), lots::level_meaning(level))),
        None => say("level", "?".to_owned()),
    }
    say("beyond", if lot.elastic { "best effort, while there is room (elastic)" } else { "refused (EDQUOT)" }.to_owned());
    for directory in &report.directories {
        say("directory", names::text(directory));
    }
    text.push('\n');
    let document = Document::of(report);
    let row = |target: &Target| {
        let entry = map.target(thalweg_wire::protocol::io::TargetId(target.target));
        let (server, directory) = entry.map_or(("?", "?"), |(entry, server)| (&server.name, &entry.directory));
        vec![
            server.to_owned(),
            target.target.to_string(),
            numbers::size(target.share_bytes),
            shown(target.used_bytes),
            shown(target.promised_bytes),
            target.level.unwrap_or("?").to_owned(),
            directory.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = document.targets.iter().map(row).collect();
    text.push_str(&output::table(&["server", "target", "share", "used", "promised", "level", "directory"], &rows));
    for warning in &document.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    text
}

/// An hour: less time left is a warning, whatever the term.
const SOON_NS: i64 = 3_600_000_000_000;

/// Returns whether a lot needs attention, and why.
fn assess(report: &LotReport, now_ns: i64) -> (Verdict, Vec<String>) {
    let lot = &report.lot;
    let name = &lot.name;
    let left_ns = lot.until_ns.saturating_sub(now_ns);
    if lot.state == thalweg_wire::protocol::lots::LotState::Expired {
        let problem =
            format!("it has expired: its files may be removed when the space is needed; to renew it: thalweg lot renew {name} --for TIME");
        return (Verdict::Expired, vec![problem]);
    }
    let mut warnings = Vec::new();
    let whole_ns = lot.until_ns.saturating_sub(lot.created_ns);
    if left_ns <= 0 {
        warnings.push(format!(
            "it has expired by this machine's clock, but its targets still hold it: a clock was set; thalweg lot renew {name} --for TIME"
        ));
    } else if left_ns < SOON_NS || left_ns < whole_ns / 10 {
        let left = numbers::duration(left_ns as f64 / 1e9);
        warnings.push(format!("it ends in {left}: thalweg lot renew {name} --for TIME"));
    }
    let silent = lot.shares.len().saturating_sub(report.uses.len());
    let used: u64 = report.uses.iter().fold(0, |sum, used| sum.saturating_add(used.used_bytes));
    let left_bytes = lot.size_bytes.saturating_sub(used);
    if silent > 0 {
        warnings.push(format!("{silent} of its {} targets did not answer: the space used is not known", lot.shares.len()));
    } else if left_bytes < lot.size_bytes / 10 {
        warnings.push(format!(
            "{} of its {} is left: thalweg lot resize {name} --size SIZE",
            numbers::size(left_bytes),
            numbers::size(lot.size_bytes)
        ));
    }
    let verdict = if warnings.is_empty() { Verdict::Fine } else { Verdict::Warning };
    (verdict, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::protocol::io::TargetId;
    use thalweg_wire::protocol::lots::{Level, Lot as Row, LotShare, LotState, LotUse};
    use thalweg_wire::protocol::metadata::LotId;

    const DAY_NS: i64 = 86_400_000_000_000;

    fn report(used_bytes: u64) -> LotReport {
        let (name, owner, size_bytes, until_ns) = ("run".to_owned(), "ana".to_owned(), 1 << 20, 7 * DAY_NS);
        let share = LotShare {
            lot: LotId(1),
            name: name.clone(),
            owner: owner.clone(),
            share_bytes: 1 << 20,
            size_bytes,
            until_ns,
            elastic: false,
        };
        let shares = vec![(TargetId(0), 1 << 20)];
        LotReport {
            lot: Row {
                id: LotId(1),
                name,
                owner,
                size_bytes,
                created_ns: 0,
                until_ns,
                elastic: false,
                least: None,
                state: LotState::Active,
                shares,
            },
            uses: vec![LotUse { share, target: TargetId(0), used_bytes, level: Level::Own, expired: false }],
            directories: Vec::new(),
        }
    }

    #[test]
    fn a_warning_comes_before_time_or_space_is_over_and_with_what_to_do() {
        let verdict = |report: &LotReport, now_ns| {
            let (verdict, warnings) = assess(report, now_ns);
            (verdict, warnings.join("; "))
        };
        assert_eq!(verdict(&report(900_000), 6 * DAY_NS), (Verdict::Fine, String::new()));
        let (late, why) = verdict(&report(0), 6 * DAY_NS + DAY_NS / 2);
        assert!(late == Verdict::Warning && why == "it ends in 12 h 0 min: thalweg lot renew run --for TIME", "{why}");
        let (full, why) = verdict(&report(1_000_000), 0);
        assert!(full == Verdict::Warning && why.contains("of its 1 MiB is left: thalweg lot resize run"), "{why}");
        let mut silent = report(0);
        silent.uses.clear();
        assert!(verdict(&silent, 0).1.contains("1 of its 1 targets did not answer"));
        let mut ended = report(0);
        ended.lot.state = LotState::Expired;
        let (over, why) = verdict(&ended, 7 * DAY_NS);
        assert!(over == Verdict::Expired && why.contains("lot renew run"), "{why}");
        let (set, why) = verdict(&report(0), 8 * DAY_NS);
        assert!(set == Verdict::Warning && why.contains("a clock was set"), "this machine's clock ends nothing: {why}");
        let mut short = report(0);
        short.lot.until_ns = SOON_NS / 2;
        assert_eq!(assess(&short, 0).0, Verdict::Warning, "under an hour is little");
    }

    #[test]
    fn what_no_target_answered_about_is_absent_and_not_0() {
        let mut silent = report(5);
        assert_eq!(Lot::of(&silent).used_bytes, Some(5));
        silent.uses.clear();
        let lot = Lot::of(&silent);
        assert_eq!((lot.used_bytes, lot.level), (None, None));
    }
}

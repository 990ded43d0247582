//! When a store was last scrubbed, as `df` and `doctor` say it, and the scrubs that `up` schedules.

use crate::{interrupt::Interrupt, names, output};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_base::numbers;
use thalweg_client::DataClient;
use thalweg_client::metadata::MetadataClient;
use thalweg_client::scrub::{Finding, FindingKind, ScrubOptions, Watch, schedule, scrub};
use thalweg_store::backup::{self, Source};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::TargetSpace;
use thalweg_wire::protocol::scrub::ScrubRecord;
use thalweg_wire::{Connect, Error};

/// Ranges shown of one finding.
const RANGES: usize = 4;
/// Interval between looks for a scrub that is due.
const LOOK: Duration = Duration::from_secs(60);

pub(crate) fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Returns when a target was last scrubbed to its end; 0: never.
fn ended_ns(scrub: &ScrubRecord) -> i64 {
    if scrub.ended_ns > 0 { scrub.ended_ns } else { scrub.before_ns }
}

/// Returns a line about the scrubs of these targets, by the one that was scrubbed least recently; `None` where there are none.
pub(crate) fn line(targets: &[Option<ScrubRecord>], now_ns: i64) -> Option<String> {
    let known = |record: &Option<ScrubRecord>| record.clone().unwrap_or_default();
    let oldest = targets.iter().map(known).min_by_key(ended_ns)?;
    let findings: u64 = targets.iter().flatten().map(|scrub| scrub.findings).sum();
    let span = |ns: i64| numbers::age(Duration::from_nanos(ns.max(0) as u64));
    let found = match findings {
        0 => "nothing found".to_owned(),
        1 => "1 finding".to_owned(),
        many => format!("{many} findings"),
    };
    let last = match ended_ns(&oldest) {
        0 => "last scrub: never".to_owned(),
        ended => format!("last scrub: {} ago, {found}", span(now_ns - ended)),
    };
    let under_way = targets.iter().flatten().any(|scrub| scrub.ended_ns == 0 && scrub.started_ns > 0);
    let next = match oldest.every_ns {
        _ if under_way => "; one has begun and not ended (thalweg scrub --continue)".to_owned(),
        0 => "; none is scheduled (thalweg up --scrub 7d)".to_owned(),
        every => match ended_ns(&oldest) + every - now_ns {
            left if left > 0 => format!("; the next is due in {}", span(left)),
            _ => "; the next is due now".to_owned(),
        },
    };
    Some(format!("{last}{next}"))
}

/// Returns a finding's line.
pub(crate) fn finding(finding: &Finding) -> String {
    let place = &finding.place;
    let mut line = finding.kind.name().to_owned();
    match (&place.path, place.file) {
        (Some(path), _) => line.push_str(&format!(" {}:", names::text(path))),
        (None, Some(file)) => line.push_str(&format!(" file {file}:")),
        (None, None) => line.push(':'),
    }
    line.push_str(&format!(" {}", finding.problem));
    let ranges = |ranges: &[(u64, u64)]| {
        let shown: Vec<String> = ranges.iter().take(RANGES).map(|(from, to)| format!("{from} to {to}")).collect();
        let more = if ranges.len() > RANGES { format!(" and {} more", ranges.len() - RANGES) } else { String::new() };
        format!("{}{more}", shown.join(", "))
    };
    if !place.in_file.is_empty() {
        line.push_str(&format!("; bytes {} of the file", ranges(&place.in_file)));
    }
    if let Some(datafile) = &place.datafile {
        let bytes = if place.ranges.is_empty() { String::new() } else { format!("bytes {} of ", ranges(&place.ranges)) };
        let target = place.target.map_or_else(String::new, |target| format!(", target {target}"));
        line.push_str(&format!("; {bytes}{datafile}{target}"));
    }
    if finding.repaired {
        line.push_str(if finding.kind == FindingKind::Account { "; counted again" } else { "; moved to set-aside" });
    }
    line
}

/// Checks the metadata of a running store; returns what is wrong with its rows, a sentence each.
pub(crate) fn check_rows(service: &str, options: &Connect) -> Result<Vec<String>, Error> {
    let (checked, _) = backup::check(&Source::Running(service, options))?;
    let row = |found: &backup::Finding| format!("{} {}: {}", found.table, found.key, found.problem);
    let mut all: Vec<String> = checked.findings.iter().map(row).collect();
    if checked.more > 0 {
        all.push(format!("and {} more", numbers::count(checked.more)));
    }
    Ok(all)
}

/// A scrub that ends with its server.
struct Background(Interrupt);

impl Watch for Background {
    fn is_over(&self) -> bool {
        self.0.is_raised()
    }

    fn read(&self, _bytes: u64, _about: u64) {}
}

/// Scrubs a store whenever its last scrub is `every` ago, until the interrupt. What is found is printed as notes.
pub(crate) fn scrub_every(
    (names, data): (&MetadataClient, &DataClient),
    (service, options): (&str, &Connect),
    every: Duration,
    bytes_per_second: u64,
    interrupt: &Interrupt,
) {
    let every_ns = i64::try_from(every.as_nanos()).unwrap_or(i64::MAX);
    let is_due = |space: &TargetSpace| space.scrub.as_ref().map_or(0, ended_ns).saturating_add(every_ns) <= now_ns();
    schedule(data, every);
    loop {
        let (space, _) = data.space(&mut Tracer::off());
        if space.iter().any(is_due) {
            let wanted =
                ScrubOptions { bytes_per_second: Some(bytes_per_second), go_on: true, every: Some(every), ..ScrubOptions::default() };
            match scrub(names, data, &wanted, &|| check_rows(service, options), &Background(interrupt.clone())) {
                Ok(report) => {
                    report.findings.iter().for_each(|finding| output::note(&format!("thalweg scrub: {}", self::finding(finding))));
                    report.silent.iter().for_each(|error| output::note(&format!("thalweg scrub: not everything was examined: {error}")));
                }
                Err(error) => output::note(&format!("thalweg scrub: {error}")),
            }
        }
        if interrupt.wait_for(LOOK) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_scrubbed_least_recently_counts() {
        const HOUR: i64 = 3_600_000_000_000;
        let ended = |hours: i64, findings| Some(ScrubRecord { started_ns: 1, ended_ns: hours * HOUR, findings, ..ScrubRecord::default() });
        let due = |record: Option<ScrubRecord>| record.map(|record| ScrubRecord { every_ns: 24 * HOUR, ..record });
        let say = |targets: &[Option<ScrubRecord>]| line(targets, 100 * HOUR).unwrap();
        assert_eq!(line(&[], 0), None);
        assert_eq!(say(&[ended(99, 0), None]), "last scrub: never; none is scheduled (thalweg up --scrub 7d)");
        assert_eq!(say(&[due(ended(97, 1)), due(ended(95, 2))]), "last scrub: 5h ago, 3 findings; the next is due in 19h");
        assert_eq!(say(&[due(ended(9, 0))]), "last scrub: 3d ago, nothing found; the next is due now");
        let begun = ScrubRecord { started_ns: 99 * HOUR, before_ns: 90 * HOUR, ..ScrubRecord::default() };
        assert!(say(&[Some(begun)]).starts_with("last scrub: 10h ago, nothing found; one has begun and not ended"));
    }
}

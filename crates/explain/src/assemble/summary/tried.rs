//! Attempts between a program's pauses, in words: which call, how often, and the error.

use super::groups::Group;
use super::of::Of;
use crate::facts::names::{base, brief, far_end};
use crate::observe::answered::Answered;
use crate::observe::attempts::{Failed, error_name};
use crate::observe::index::NONE;
use crate::peer::peer;
use crate::waits::place::{Missing, Place, What};
use thalweg_base::numbers::{count, duration};
use thalweg_trace::ObjectKind;

/// A group's pauses between attempts.
struct Row {
    /// Number of attempts that failed before pauses, in words.
    times: String,
    /// Whether there was one attempt.
    is_one: bool,
    /// The interval of pauses, ` every 100 ms`; empty for one pause.
    every: String,
    /// Number of pauses.
    pauses: u64,
}

impl Row {
    fn of(of: &Of<'_>, group: &Group<'_>) -> Row {
        let entries = group.members.iter().map(|&member| &of.parts.ledger.entries[member]);
        let (mut pauses, mut ns, mut objects) = (0, 0, Vec::new());
        for entry in entries {
            let Place::Thread { what: What::LooksFor(_), object, .. } = entry.place else { continue };
            (pauses, ns) = (pauses + entry.runs.count, ns + entry.runs.total_ns);
            objects.push(object);
        }
        objects.sort_unstable();
        objects.dedup();
        // One attempt before each pause is inferred: the first are not recorded, and a pause may be partly charged elsewhere.
        let about = if objects == [NONE] { "" } else { "about " };
        let every = if pauses == 1 { String::new() } else { format!(" every {}", duration(ns as f64 / pauses.max(1) as f64 / 1e9)) };
        let is_one = pauses == 1;
        Row { times: format!("{}{}", if is_one { "" } else { about }, count(pauses)), is_one, every, pauses }
    }

    /// `1 attempt`, `20 attempts`.
    fn many(&self, noun: &str) -> String {
        format!("{} {noun}{}", self.times, if self.is_one { "" } else { "s" })
    }

    /// `once`, `20 times`.
    fn often(&self) -> String {
        if self.is_one { "once".to_owned() } else { format!("{} times", self.times) }
    }
}

/// The clause for a program that slept between attempts; `None` for another place.
pub(super) fn sentence(of: &Of<'_>, group: &Group<'_>, who: &str) -> Option<String> {
    let Place::Thread { what: What::LooksFor(missing), object, .. } = group.largest.place else { return None };
    let row = Row::of(of, group);
    let Some(known) = of.parts.tables.objects.get(object as usize) else { return Some(asked(of, missing, who, &row)) };
    let name = match (known.kind, known.name.strip_prefix("flock ")) {
        (ObjectKind::Lock, Some(path)) => format!("the lock on {}", brief(base(path))),
        (ObjectKind::File, _) => brief(base(&known.name)),
        _ => brief(&known.name),
    };
    let failed = of.parts.seen.attempts.on(object);
    let error = failed.map_or_else(String::new, |failed| format!(" ({})", error_name(failed.error)));
    let in_vain = format!("{} failed{error}", row.many("attempt"));
    let every = &row.every;
    Some(match missing {
        Missing::Absent => format!("{who} looked for {name}{every}: {} failed{error}", row.many("lookup")),
        Missing::Present if failed.is_some_and(|failed| failed.error == 17) => format!("{who} tried to create {name}{every}: {in_vain}"),
        Missing::Busy if known.name.contains("message queue") => format!("{who} asked {name} for a message{every}: {in_vain}"),
        Missing::Busy if known.kind == ObjectKind::Lock => format!("{who} tried to take {name}{every}: {in_vain}"),
        Missing::Answer | Missing::Reply | Missing::Success => {
            format!("{who} ran a program that read {name}{every}: {} failed", row.many("run"))
        }
        Missing::Listener => format!("{who} tried to connect to {name}{every}: {in_vain}"),
        Missing::Present | Missing::Busy => format!("{who} tried {name}{every}: {in_vain}"),
    })
}

/// The clause for a server that was polled.
fn asked(of: &Of<'_>, missing: Missing, who: &str, row: &Row) -> String {
    let failed: Vec<&Answered> = of.parts.tables.answered.iter().filter(|answered| answered.is_failure()).collect();
    let (every, often) = (&row.every, row.often());
    match missing {
        Missing::Answer | Missing::Success
            if let [one] = failed[..]
                && one.count >= row.pauses =>
        {
            format!("{who} answered HTTP {} {}, and was asked again{every}", one.status, times_in_words(one.count))
        }
        Missing::Answer => format!("{who} was polled{every}: it gave the same answer {often}, then a different one"),
        Missing::Reply => format!("{who} was polled{every} and did not answer {often}"),
        _ => format!("{who} was polled{every} by a program that failed {often}"),
    }
}

/// The addition for a server that answered most requests with a failure: `, and 127.0.0.1:80 answered HTTP 503 4 times`. Empty if several
/// servers did, since the pauses' server is then unknown.
pub(super) fn refused_by_answers(of: &Of<'_>) -> String {
    let mut most = of.parts.tables.mostly_failed();
    match (most.next(), most.next()) {
        (Some(one), None) => format!(", and {} answered HTTP {} {}", one.server, one.status, times_in_words(one.count)),
        _ => String::new(),
    }
}

/// The clause for pauses between refused attempts to connect.
pub(super) fn refused(of: &Of<'_>, group: &Group<'_>, seen_by: &str) -> Option<String> {
    let Place::FarEnd { connection, .. } = group.largest.place else { return None };
    let failed = to_connect(of, connection)?;
    let server = far_end(of.parts.tables, connection)?;
    Some(format!("{seen_by} paused between attempts to connect to {}: {}", peer(server), refusals(failed)))
}

/// The refused attempts, if any.
pub(super) fn to_connect(of: &Of<'_>, connection: u32) -> Option<Failed> {
    (connection != NONE).then(|| of.parts.seen.attempts.to_connect(of.parts.tables, connection)).flatten()
}

/// `12 were refused (ECONNREFUSED)`.
pub(super) fn refusals(failed: Failed) -> String {
    let how = if failed.error == 111 { "refused" } else { "not possible" };
    let were = if failed.count == 1 { "1 was".to_owned() } else { format!("{} were", count(failed.count)) };
    format!("{were} {how} ({})", error_name(failed.error))
}

fn times_in_words(times: u64) -> String {
    if times == 1 { "once".to_owned() } else { format!("{} times", count(times)) }
}

//! `thalweg df`: shows the space on each target, the space promised to lots, and the space used by partial copies.

use super::lot;
use crate::lots::{self, Lot};
use crate::operand::StoreFlags;
use crate::session::{IN_CLEAR, Session};
use crate::{emulation, failure::Failure, honoured, output, scrubbed};
use serde::Serialize;
use thalweg_base::numbers;
use thalweg_client::partials::Partial;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::Checksums;
use thalweg_wire::protocol::lots::LotOperation;
use thalweg_wire::protocol::metadata::TargetEntry;
use thalweg_wire::protocol::scrub::ScrubRecord;

/// Arguments of `thalweg df`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The store: thal://HOST:PORT (default: --store or THALWEG_STORE)
    store_path: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    targets: Vec<Target>,
    /// The lots that this credential may see.
    lots: Vec<Lot>,
    /// Whether traffic to servers beyond loopback is not encrypted.
    in_clear: bool,
    /// Emulated devices (`up --emulate`).
    #[serde(skip_serializing_if = "Option::is_none")]
    emulated: Option<String>,
    partials: Partials,
    /// Mounts of it on this machine that honour its set-user bits or device nodes, a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    honoured: Vec<String>,
    /// Servers that did not answer, and why.
    silent: Vec<String>,
}

/// One target; sizes are absent when its server did not answer.
#[derive(Serialize)]
struct Target {
    target: u32,
    server: String,
    /// Its server's node label.
    node: String,
    directory: String,
    /// The size of its file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
    /// Free space promised to lots on its file system, by all targets of its server's process there.
    #[serde(skip_serializing_if = "Option::is_none")]
    promised_bytes: Option<u64>,
    /// The level of lots there, unless a lot asks for more.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<&'static str>,
    /// Whether its datafiles have checksums.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_checksums: Option<bool>,
    /// What they have shown since its server was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    checksums: Option<Checksums>,
    /// Its last scrub, or the one under way; times in ns since 1970, 0: not yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    scrub: Option<ScrubRecord>,
}

/// Returns lines about checksums that need attention: targets without them, and damage found.
fn about_checksums(targets: &[Target]) -> Vec<String> {
    let numbers = |of: &dyn Fn(&Target) -> bool| targets.iter().filter(|t| of(t)).map(|t| t.target.to_string()).collect::<Vec<_>>();
    let without = numbers(&|t| t.has_checksums == Some(false));
    let mut lines = Vec::new();
    if !without.is_empty() {
        lines.push(format!(
            "no checksums at rest: target {} (made by an earlier release; thalweg scrub --add-checksums adds them)",
            without.join(", ")
        ));
    }
    for target in targets {
        let Some(found) = target.checksums else { continue };
        if found.damaged > 0 {
            let (number, directory) = (target.target, &target.directory);
            lines.push(format!("damaged data: target {number} has refused {} requests since its start, {directory}", found.damaged));
        }
        if found.unverified + found.recomputed > 0 {
            let (number, waiting, differed) = (target.target, found.unverified, found.recomputed);
            lines.push(format!("unverified after a crash: target {number}, {waiting} datafiles to go; {differed} blocks differed so far"));
        }
    }
    let scrubbed: Vec<_> = targets.iter().filter(|target| target.has_checksums == Some(true)).map(|target| target.scrub.clone()).collect();
    lines.extend(scrubbed::line(&scrubbed, scrubbed::now_ns()));
    lines
}

/// Number and space of partial copies; absent if a server did not answer.
#[derive(Serialize, Debug, Default, PartialEq, Eq)]
struct Partials {
    /// Copies of clients that are gone.
    abandoned: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    abandoned_bytes: Option<u64>,
    /// Copies being written, or whose client may come back.
    writing: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    writing_bytes: Option<u64>,
}

/// Prints the space on all targets; fails if a server did not answer.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = arguments.store.path(arguments.store_path.as_deref().unwrap_or("/"))?;
    let session = Session::connect(&path.store, &arguments.store)?;
    let (targets, silent) = self::targets(&session);
    let lots: Vec<Lot> = lots::asked(&session, LotOperation::Show { name: None })?.iter().map(Lot::of).collect();
    let (in_clear, emulated, partials) = (session.is_in_clear(), session.emulated(), Partials::of(&session)?);
    let honoured = honoured::lines(path.store.service().ok().as_deref());
    if arguments.json {
        output::json(&Document {
            schema: "thalweg.df/1",
            targets,
            lots,
            in_clear,
            emulated: emulated.map(|e| e.to_string()),
            partials,
            honoured,
            silent: silent.clone(),
        })?;
    } else {
        let bytes = |b: Option<u64>| b.map_or("?".to_owned(), numbers::size);
        let used = |t: &Target| match (t.total_bytes, t.free_bytes) {
            (Some(total @ 1..), Some(free)) => format!("{} %", 100 * u128::from(total.saturating_sub(free)) / u128::from(total)),
            _ => "?".to_owned(),
        };
        let rows: Vec<Vec<String>> = targets
            .iter()
            .map(|t| {
                vec![
                    t.server.clone(),
                    t.target.to_string(),
                    bytes(t.total_bytes),
                    bytes(t.free_bytes),
                    used(t),
                    bytes(t.promised_bytes),
                    t.level.unwrap_or("?").to_owned(),
                    t.node.clone(),
                    t.directory.clone(),
                ]
            })
            .collect();
        output::result(&output::table(&["server", "target", "size", "free", "used", "promised", "level", "node", "directory"], &rows))?;
        if !lots.is_empty() {
            output::result(&format!("\n{}", lot::table(&lots)))?;
        }
        if in_clear {
            output::line(IN_CLEAR)?;
        }
        about_checksums(&targets).iter().try_for_each(|line| output::line(line))?;
        if let Some(emulated) = &emulated {
            output::line(&emulation::of_store(emulated))?;
        }
        honoured.iter().try_for_each(|line| output::line(line))?;
        partials.line().map_or(Ok(()), |line| output::line(&line))?;
    }
    match silent.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(silent.join("; "))),
    }
}

/// Returns the space on every target, and the errors of servers that did not answer.
fn targets(session: &Session) -> (Vec<Target>, Vec<String>) {
    let (space, silent) = session.data().space(&mut Tracer::off());
    let map = session.map();
    let target = |entry: &TargetEntry| {
        let server = map.servers.get(entry.server as usize);
        let found = space.iter().find(|s| s.target == entry.target);
        Target {
            target: entry.target.0,
            server: server.map_or_else(String::new, |s| s.name.clone()),
            node: server.map_or_else(String::new, |s| s.node.clone()),
            directory: entry.directory.clone(),
            total_bytes: found.map(|s| s.total_bytes),
            free_bytes: found.map(|s| s.available_bytes),
            promised_bytes: found.map(|s| s.promised_bytes),
            level: found.map(|s| s.level.name()),
            has_checksums: found.map(|s| s.checksums.is_some()),
            checksums: found.and_then(|s| s.checksums),
            scrub: found.and_then(|s| s.scrub.clone()),
        }
    };
    (map.targets.iter().map(target).collect(), silent.iter().map(ToString::to_string).collect())
}

impl Partials {
    fn of(session: &Session) -> Result<Partials, Failure> {
        let tracer = &mut Tracer::off();
        let mut sums = Partials { abandoned_bytes: Some(0), writing_bytes: Some(0), ..Partials::default() };
        for partial in Partial::all(tracer, session.names()).map_err(Failure::failed)? {
            let bytes = partial.allocated_bytes(tracer, session.data());
            let (count, sum) = match partial.abandoned_for {
                Some(_) => (&mut sums.abandoned, &mut sums.abandoned_bytes),
                None => (&mut sums.writing, &mut sums.writing_bytes),
            };
            *count += 1;
            *sum = sum.zip(bytes).map(|(sum, more)| sum.saturating_add(more));
        }
        Ok(sums)
    }

    /// Formats a line; `None` if there are no partial copies.
    fn line(&self) -> Option<String> {
        let files = |n: u64| if n == 1 { "1 partial copy".to_owned() } else { format!("{n} partial copies") };
        let space = |bytes: Option<u64>| bytes.map_or("?".to_owned(), numbers::size);
        let abandoned = (self.abandoned > 0).then(|| {
            let (files, space) = (files(self.abandoned), space(self.abandoned_bytes));
            format!("{files} of clients that are gone, {space} (thalweg rm --partials removes them)")
        });
        let writing = (self.writing > 0).then(|| format!("{} being written, {}", files(self.writing), space(self.writing_bytes)));
        let parts: Vec<String> = abandoned.into_iter().chain(writing).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_there_is_and_nothing_where_there_is_nothing() {
        assert_eq!(Partials::default().line(), None);
        let partials = Partials { abandoned: 1, abandoned_bytes: Some(3 << 20), writing: 2, writing_bytes: None };
        let line = partials.line().unwrap();
        assert_eq!(
            line,
            "1 partial copy of clients that are gone, 3 MiB (thalweg rm --partials removes them); 2 partial copies being written, ?"
        );
    }
}

//! What would settle an unsure answer: what was not seen, and the shortest way to see it. It is decided here alone, by the charges that
//! are open (unknown, inferred, or an unrecorded server's) and by what the recording's attributes say its recorder could not see.

use crate::cause::{Cause, End};
use crate::document::{Status, Verdict};
use crate::facts::Parts;
use crate::facts::names::{far_end, file, program};
use crate::limits::assemble as limits;
use crate::observe::index::NONE;
use crate::observe::tables::Object;
use crate::path::ledger::Entry;
use crate::path::names::datagrams_to;
use crate::waits::place::{Place, What};
use crate::waits::rules::is_on_files;
use std::collections::BTreeMap;
use thalweg_trace::{Abilities, Meta, SpanKind};

/// Gives a copy of the program what the kernel recorder needs.
const CAPABILITIES: &str = "setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep $(command -v thalweg)";
/// Lets any user record the context switches of its own threads.
const SWITCHES: &str = "sysctl kernel.perf_event_paranoid=2";
/// The port of NFS.
const NFS_PORT: &str = "2049";

/// What a recording lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unseen {
    /// A server, by its address, and whether it is on the same machine.
    Server { address: String, here: bool },
    /// The server of a file system, by the file system's kind and name.
    FileServer { kind: String, of: String },
    /// A client, by its address.
    Client { host: String },
    /// A program.
    Program { name: String },
    /// When threads ran, and when they waited.
    Switches,
    /// Who ended waits.
    Wakers,
    /// Requests of devices.
    Requests,
}

/// Lines that say what was not seen, and how to see it: the largest first. Empty for an answer that is sure.
pub(crate) fn settle(parts: &Parts<'_>, meta: &Meta, verdict: &Verdict) -> Vec<String> {
    if verdict.status != Status::Unsure && verdict.cause != Cause::ServerUnknown {
        return Vec::new();
    }
    let open = Open { parts, meta, can: meta.abilities() };
    // With the thread of the longest time, which stands for the others.
    let mut lacks: BTreeMap<Unseen, (u64, u64, u32)> = BTreeMap::new();
    for entry in parts.ledger.entries.iter().filter(|entry| is_open(entry)) {
        let Some((unseen, track)) = open.lack(entry) else { continue };
        let ns = entry.runs.total_ns;
        let lack = lacks.entry(unseen).or_default();
        *lack = (lack.0 + ns, lack.1.max(ns), if ns >= lack.1 { track } else { lack.2 });
    }
    let mut lacks: Vec<(Unseen, (u64, u64, u32))> = lacks.into_iter().collect();
    lacks.sort_by(|a, b| b.1.0.cmp(&a.1.0).then_with(|| a.0.cmp(&b.0)));
    let least_ns = (parts.end - parts.start) as f64 * limits::LEAD;
    let worth = lacks.iter().enumerate().take_while(|(at, (_, (ns, ..)))| *at == 0 || *ns as f64 >= least_ns);
    let lines: Vec<String> = worth.take(limits::MOST_SETTLE).map(|(_, (unseen, (.., track)))| open.line(unseen, *track)).collect();
    if lines.is_empty() { vec![control_run(verdict).to_owned()] } else { lines }
}

/// Whether a charge may belong to another cause.
fn is_open(entry: &Entry) -> bool {
    entry.inferred || matches!(entry.cause, Cause::Unknown | Cause::ServerUnknown)
}

/// The run that tells what no recording would.
fn control_run(verdict: &Verdict) -> &'static str {
    match verdict.cause.name().split_once('.') {
        Some(("network", _)) => "control run: the same against a server on this machine; what it takes then is not the network's",
        Some(("server", _)) => "control run: the same on the server's own machine; what it takes then is not the network's",
        Some((_, "read" | "metadata")) => "control run: the same with its files in /dev/shm; what it takes then is not the disk's",
        Some((_, "write" | "sync" | "memory")) => "control run: the same written to /dev/shm; what it takes then is not the disk's",
        Some((_, "cpu" | "runqueue")) => "control run: the same with nothing else running; what it takes then is its own",
        _ => "control run: thalweg explain --profile -- COMMAND; the stacks of the longest waits say what they are for",
    }
}

/// The open charges of a run.
struct Open<'a> {
    parts: &'a Parts<'a>,
    meta: &'a Meta,
    can: Abilities,
}

impl Open<'_> {
    /// What would settle a charge, and the thread it is about.
    fn lack(&self, entry: &Entry) -> Option<(Unseen, u32)> {
        let tables = self.parts.tables;
        match entry.place {
            Place::FarEnd { seen_by, connection, side: End::Server } => Some((self.server(connection)?, seen_by)),
            Place::FarEnd { seen_by, connection, side: End::Client } => {
                let (client, _) = tables.ends(connection)?;
                let host = client.rsplit_once(':').map_or(client, |(host, _)| host).to_owned();
                Some((Unseen::Client { host }, seen_by))
            }
            Place::TimeLimit { waiter, connection, .. } if connection != NONE => Some((self.server(connection)?, waiter)),
            Place::Unseen { track } | Place::Given { by: track, .. } if self.name(track).is_some() => {
                Some((Unseen::Program { name: self.name(track)? }, track))
            }
            Place::Thread { label, object, .. } if entry.cause == Cause::ServerUnknown && datagrams_to(tables, object).is_some() => {
                let address = datagrams_to(tables, object)?.to_owned();
                Some((Unseen::Server { here: is_here(&address), address }, label))
            }
            Place::Thread { label, .. } if self.file_server(entry).is_some() => Some((self.file_server(entry)?, label)),
            Place::Thread { label, what, .. } => Some((self.of_thread(what)?, label)),
            Place::Hole { label } => (!self.can.switches).then_some((Unseen::Switches, label)),
            Place::Wire(from, _) | Place::Held { waiter: from, .. } | Place::HeldElsewhere { waiter: from, .. } => {
                (!self.can.wakers).then_some((Unseen::Wakers, from))
            }
            _ => None,
        }
    }

    /// What the recorder of a thread's own activity could not see.
    fn of_thread(&self, what: What) -> Option<Unseen> {
        let by_switches = match what {
            What::Running(_) | What::OwnWork | What::Carrying | What::Runnable | What::Still(_) | What::Looking => true,
            What::Blocked(kind) => is_on_files(kind) || matches!(kind, SpanKind::WaitOther | SpanKind::WaitTimer | SpanKind::WaitMemory),
            What::Stopped | What::LooksFor(_) => false,
        };
        match what {
            _ if self.can.wakers => None,
            _ if by_switches && !self.can.switches => Some(Unseen::Switches),
            What::Blocked(kind) if is_on_files(kind) => Some(Unseen::Requests),
            _ => Some(Unseen::Wakers),
        }
    }

    /// The unrecorded server of a connection.
    fn server(&self, connection: u32) -> Option<Unseen> {
        let address = far_end(self.parts.tables, connection)?.to_owned();
        Some(Unseen::Server { here: self.parts.tables.is_within_machine(connection), address })
    }

    /// The server of a file, where another program or machine serves it.
    fn file_server(&self, entry: &Entry) -> Option<Unseen> {
        let file: &Object = file(self.parts.tables, &entry.place)?;
        let (kind, of) = (file.served_by()?.to_owned(), file.attribute("device").unwrap_or_default().to_owned());
        Some(Unseen::FileServer { kind, of })
    }

    /// The name of a thread's program, where it has one.
    fn name(&self, track: u32) -> Option<String> {
        let actor = self.parts.tables.actors.get(track as usize)?;
        (!actor.program().is_empty()).then(|| actor.program().to_owned())
    }

    fn line(&self, unseen: &Unseen, track: u32) -> String {
        let who = program(self.parts.tables, self.meta, track);
        // Without privilege, only processes of the same user can be recorded.
        let by_whom = if self.can.wakers { "" } else { "as its user or root: " };
        match unseen {
            Unseen::Server { address, here } => {
                let port = address.rsplit_once(':').map_or(address.as_str(), |(_, port)| port);
                let how = if *here {
                    format!("{by_whom}thalweg explain --also :{port} -- COMMAND")
                } else {
                    format!("ask whoever runs it for: thalweg record --server --port {port} -o s.thw")
                };
                format!("the server at {address} was not recorded; {how}")
            }
            Unseen::FileServer { kind, of } => {
                let name = kind.strip_prefix("fuse.").unwrap_or(kind);
                let served = if of.is_empty() { kind.clone() } else { format!("{of} ({kind})") };
                let how = match of.rsplit_once(":/") {
                    Some((host, _)) if kind.starts_with("nfs") && is_here(host) => {
                        format!("as root: thalweg explain --also :{NFS_PORT} -- COMMAND")
                    }
                    Some((host, _)) if kind.starts_with("nfs") => {
                        format!("ask whoever runs {host} for: thalweg record --server --port {NFS_PORT} -o s.thw")
                    }
                    _ if kind.starts_with("fuse") => format!("{by_whom}thalweg explain --also {name} -- COMMAND"),
                    _ => "control run: the same with its files on a local disk".to_owned(),
                };
                format!("what serves {served} was not recorded; {how}")
            }
            Unseen::Client { host } => {
                format!(
                    "the client at {host} was not recorded; there: thalweg record -o c.thw -- COMMAND, and thalweg merge c.thw with this"
                )
            }
            Unseen::Program { name } => format!("what {name} did was not recorded; {by_whom}thalweg explain --also {name} -- COMMAND"),
            Unseen::Switches => format!("when {who} ran and waited was not seen exactly; ask for: {SWITCHES}"),
            Unseen::Wakers => format!("what ended waits of {who} was not seen; ask for: {CAPABILITIES}"),
            Unseen::Requests => format!("which requests of the disk {who} waited for was not seen; ask for: {CAPABILITIES}"),
        }
    }
}

/// Whether an address is this machine's own.
fn is_here(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.starts_with("127.") || matches!(host, "localhost" | "::1" | "[::1]" | "")
}

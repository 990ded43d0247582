//! One sentence: where the time went, with programs, files and devices by name.

use super::about::{failure, through_a_pipe};
use super::figures::{device, has_network, holder, link_rate, loss_narrowed, queueing, sampled, window};
use super::groups::Group;
use super::held_back;
use super::of::Of;
use super::operations;
use super::peers;
use super::sleeping;
use super::tried;
use crate::assemble::behind::Behind;
use crate::cause::{Cause, End};
use crate::document::MAX_SUMMARY_SENTENCE;
use crate::facts::names::{base, brief, far_end, file_name, program};
use crate::facts::sharing::Sharing;
use crate::limits::summary as limits;
use crate::observe::index::NONE;
use crate::observe::tables::{Actor, parted};
use crate::path::names::{client_name, given, name_server, silent_peer, with_article};
use crate::peer::peer;
use crate::waits::place::{Place, What};
use std::collections::HashMap;
use thalweg_base::numbers::{bit_rate, byte_rate, count, size, whole_percent};
use thalweg_trace::linux::{SIGALRM, signal_name};
use thalweg_trace::{Role, SpanKind};

/// The addition for computing meanwhile.
const NETWORK_IDLE: &str = ", with the network idle";

/// The addition for a device used by others.
const CONTENTION: &str = ": contention, not a slow disk";

/// Makes the sentence. A failed command's failure comes before the causes.
pub(super) fn sentence(of: &Of<'_>, groups: &[Group<'_>]) -> String {
    if groups.is_empty() {
        return "Nothing was recorded that could be explained.".to_owned();
    }
    let failure = failure(of.meta, of.parts.around.why_failed.as_ref()).map_or_else(String::new, |failure| failure + " ");
    let mut clauses: Vec<String> = Vec::new();
    let mut addresses: Vec<String> = Vec::new();
    let mut accounted = 0.0;
    for group in groups.iter().take(3) {
        if accounted >= limits::ENOUGH || group.share < limits::WORTH_SAYING {
            break;
        }
        accounted += group.share;
        // Beside another clause, a comma would separate words that belong together.
        clauses.last_mut().into_iter().for_each(|last: &mut String| *last = last.replace(NETWORK_IDLE, "").replace(CONTENTION, ""));
        let at = at_address(of, group).filter(|at| !addresses.contains(at));
        clauses.push(format!(
            "for {} {}{}",
            whole_percent(group.share),
            if clauses.is_empty() { "of the time " } else { "" },
            clause(of, group, groups, at.as_deref().unwrap_or(""))
                + &aside(of, group)
                + if of.parts.others_at(group.largest).is_some_and(Sharing::is_contention) { CONTENTION } else { "" }
        ));
        addresses.extend(at.filter(|at| clauses.iter().any(|clause| clause.contains(at.as_str()))));
        let network = matches!(group.cause, Cause::NetworkLatency | Cause::NetworkRwnd | Cause::NetworkSndbuf | Cause::NetworkCwnd);
        if let (1, true, Some(window)) = (clauses.len(), network && held_back::clause(of, group).is_none(), window(of, group)) {
            clauses[0] = format!("{} ({window})", clauses[0]);
        }
        clauses.last_mut().into_iter().for_each(|last| last.push_str(&held_back::part(of, group)));
    }
    loop {
        let said = match clauses.as_slice() {
            [] => return cut(&format!("{failure}The time is spread over many causes, none of them above 6 %.")),
            [one] => one.clone(),
            [first, last] => format!("{first} and {last}"),
            [firsts @ .., last] => format!("{} and {last}", firsts.join(", ")),
        };
        let said = format!("{failure}F{}.", &said[1..]);
        if said.chars().count() <= MAX_SUMMARY_SENTENCE || clauses.len() == 1 {
            return cut(&said);
        }
        match addresses.pop() {
            // A server's address matters less than another cause.
            Some(at) => clauses.iter_mut().for_each(|clause| *clause = clause.replace(&at, "")),
            None => drop(clauses.pop()),
        }
    }
}

/// Appends a second sentence, if both fit.
pub(super) fn with(sentence: String, more: Option<String>) -> String {
    match more.map(|more| format!("{sentence} {more}")).filter(|both| both.chars().count() <= MAX_SUMMARY_SENTENCE) {
        Some(both) if !sentence.is_empty() => both,
        _ => sentence,
    }
}

/// Cuts a sentence to [`MAX_SUMMARY_SENTENCE`] characters.
pub(super) fn cut(sentence: &str) -> String {
    match sentence.char_indices().nth(MAX_SUMMARY_SENTENCE) {
        None => sentence.to_owned(),
        Some(_) => sentence.chars().take(MAX_SUMMARY_SENTENCE - 1).chain(['…']).collect(),
    }
}

/// The address of a group's server: ` at 10.0.0.2:443`.
fn at_address(of: &Of<'_>, group: &Group<'_>) -> Option<String> {
    let is_server = |actor: &u32| of.parts.tables.actors.get(*actor as usize).is_some_and(|actor| actor.end == End::Server);
    let actor = match group.largest.place {
        Place::Wire(from, to) if group.names.len() == 1 => [to, from].into_iter().find(is_server)?,
        Place::Thread { label, .. } if group.cause.end() == Some(End::Server) && group.names.len() == 1 => label,
        _ => return None,
    };
    peers::address(of, actor).map(|address| format!(" at {address}"))
}

/// The addition to the place: after a named thread, "its" would be the thread's.
fn aside(of: &Of<'_>, group: &Group<'_>) -> String {
    let said = of.parts.aside(group.largest);
    if thread(of, group).is_some() { said.replace("one of its ", "one of the program's ") } else { said }
}

/// A group as a clause with subject and verb; `at` is the server's address.
fn clause(of: &Of<'_>, group: &Group<'_>, groups: &[Group<'_>], at: &str) -> String {
    use Cause as C;
    let who = name_with_end(group, groups) + if group.cause.end() == Some(End::Server) { at } else { "" };
    let who = thread(of, group).map_or_else(|| who.clone(), |thread| format!("{thread} of {who}"));
    let way = || group.way(at);
    let mostly = || operations::mostly(of, group).map_or_else(String::new, |most| format!(" (mostly {most})"));
    if let Some(said) = resolving(of, group).or_else(|| held_back::clause(of, group)) {
        return said;
    }
    match group.cause {
        C::ClientRead | C::ServerRead => on_file(group, &who, "read"),
        C::ClientWrite | C::ServerWrite => on_file(group, &who, "write"),
        C::ClientSync | C::ServerSync => {
            let what = group.file().map_or_else(|| "data".to_owned(), |name| brief(file_name(name)));
            let on = group.device().map_or_else(String::new, |name| format!(" on {}", brief(name)));
            format!("{who} waited for {what} to be on stable storage{on}")
        }
        C::ClientMetadata | C::ServerMetadata => match group.largest.place {
            Place::Thread { what: What::Blocked(_), .. } => {
                let behind = group.behind.as_ref().map(Behind::device);
                let from = group.device().or(behind.as_deref()).map_or_else(String::new, |name| format!(" from {}", brief(name)));
                format!("{who} waited for metadata{from}{}", mostly())
            }
            _ => format!("{who} worked on metadata{}", mostly()),
        },
        C::ClientMemory | C::ServerMemory => memory(of, group, &who),
        C::ClientCpu | C::ServerCpu if let Some(part) = carrying(of, group).filter(|part| *part >= limits::TUNNEL_BUSY) => {
            let who = brief(&group.who());
            let at = if group.cause.end() == Some(End::Server) { " at the server" } else { "" };
            format!("the tunnel {who}{at} was busy ({} of a CPU)", whole_percent(part))
        }
        C::ClientCpu | C::ServerCpu => format!("{who} {}", computing(of, group)),
        C::ClientRunqueue | C::ServerRunqueue => queued(of, group, groups),
        C::ClientLock | C::ServerLock => {
            tried::sentence(of, group, &who).unwrap_or_else(|| format!("{who} waited for {}", lock(of, group)))
        }
        C::ClientThink | C::ServerThink => pausing(of, group, &who),
        C::ServerUnknown => match group.largest.place {
            Place::Thread { what: What::LooksFor(_), label, .. } => {
                tried::sentence(of, group, &brief(&program(of.parts.tables, of.meta, label))).unwrap_or_default()
            }
            Place::FarEnd { seen_by, connection, .. } if tried::to_connect(of, connection).is_some() => {
                tried::refused(of, group, &brief(&program(of.parts.tables, of.meta, seen_by))).unwrap_or_default()
            }
            Place::FarEnd { seen_by, connection, .. } if far_end(of.parts.tables, connection).is_some() => {
                let wire = &of.parts.facts.wire;
                let asked_again = wire.stalls.connecting(connection, i64::MIN, i64::MAX).is_some();
                let called = wire.not_accepted.contains_key(&connection) || asked_again || of.parts.is_silent(connection);
                let why = if called { "did not answer" } else { "was not recorded" };
                let who = peer(&who);
                format!("{} waited for the server at {who}, which {why}", brief(&program(of.parts.tables, of.meta, seen_by)))
            }
            Place::Thread { object, .. } if let Some(host) = name_server(of.parts.tables, object) => {
                format!("{who} waited for the name server {host}, which was not recorded")
            }
            Place::Unseen { .. } => format!("it is not known what {who} did before it was recorded"),
            _ => format!("{} waited for a peer that was not recorded", brief(&group.who().replace(" > the far end", ""))),
        },
        C::NetworkLoss if loss_narrowed(of, group) => format!("packets lost {} kept the congestion window small", way()),
        C::NetworkLoss => format!("packets lost {} were retransmitted", way()),
        C::NetworkSndbuf => format!("the send buffer {} was full", way()),
        C::NetworkRwnd => format!("the receive window {} was full", way()),
        C::NetworkCwnd => format!("the congestion window {} was still too small", way()),
        C::NetworkLatency => format!("messages were in transit between {}", group.ends(at)),
        C::NetworkBandwidth => {
            let rate = link_rate(of, group).map_or_else(String::new, |rate| format!(" at {}", bit_rate(rate)));
            format!("the link carried data {}{rate}", way())
        }
        C::Recorder => "the recorder itself held a CPU".to_owned(),
        C::Unknown => unknown(of, group, &who),
    }
}

/// The clause for an unknown cause.
fn unknown(of: &Of<'_>, group: &Group<'_>, who: &str) -> String {
    match group.largest.place {
        Place::Given { label, by, kind, object } => {
            let whom = given(of.parts.tables, label, by, kind, object);
            let (whom, then) = whom.strip_suffix(", not recorded").map_or((whom.as_str(), " then"), |whom| (whom, ""));
            // A process number is not cut.
            let whom =
                whom.rsplit_once(" (process ").map_or_else(|| brief(whom), |(name, number)| format!("{} (process {number}", brief(name)));
            format!("{who} waited for {whom}, which was not recorded{then}")
        }
        Place::Thread { what: What::LooksFor(_), .. } => {
            let times = if group.count == 1 { "once".to_owned() } else { format!("{} times", count(group.count)) };
            format!("{who} failed and was run again after a pause, {times}")
        }
        _ => format!("it is not known what {who} waited for"),
    }
}

/// The clause for name resolution: who waited for which server.
fn resolving(of: &Of<'_>, group: &Group<'_>) -> Option<String> {
    group.lookups_within(of)?;
    let tables = of.parts.tables;
    let (server, lookups, _) = *of.parts.around.lookups.of(&group.members).first()?;
    let who = brief(&program(tables, of.meta, lookups.first()?.track));
    let limit = if matches!(group.largest.place, Place::TimeLimit { .. }) { ", until its own timeout" } else { "" };
    let server = match server.strip_suffix(":5353") {
        Some(host) => format!("an answer by mDNS ({host})"),
        None if server.starts_with('/') => format!("the resolver at {server}"),
        None => format!("the name server {}", server.strip_suffix(":53").unwrap_or(server)),
    };
    Some(format!("{who} waited for {server}{limit}"))
}

/// The program, with its end if programs of this name are at both.
fn name_with_end(group: &Group<'_>, groups: &[Group<'_>]) -> String {
    let who = group.who();
    let at = |end: End| {
        groups.iter().any(|g| g.share >= limits::NAMED_TWICE && g.cause.end() == Some(end) && g.names.first() == group.names.first())
    };
    match group.cause.end() {
        Some(End::Client) if at(End::Server) => format!("the client {}", brief(&who)),
        Some(End::Server) if at(End::Client) => format!("the server {}", brief(&who)),
        _ => brief(&who),
    }
}

fn on_file(group: &Group<'_>, who: &str, verb: &str) -> String {
    let file = group.file().map(|name| brief(file_name(name)));
    match (group.device().map(brief), file) {
        (Some(device), Some(file)) => format!("{who} waited for {device} to {verb} {file}"),
        (Some(device), None) => format!("{who} waited for {device} to {verb}"),
        (None, Some(file)) => format!("{who} waited to {verb} {file}"),
        (None, None) => format!("{who} waited for {verb}s"),
    }
}

/// The clause for a memory wait: writers are throttled when too many pages are dirty, and proceed as fast as the device writes.
fn memory(of: &Of<'_>, group: &Group<'_>, who: &str) -> String {
    let Place::Thread { what: What::Blocked(_), object, .. } = group.largest.place else { return format!("{who} waited for memory") };
    let device = group.device().filter(|_| of.parts.tables.objects.get(object as usize).is_some());
    if let Some(device) = device {
        let are = if group.is_several() { "were" } else { "was" };
        let rate = writes(of, device).filter(|_| of.parts.aside(group.largest).is_empty());
        let why = match rate {
            Some(rate) => format!("too many dirty pages: {} writes {}", brief(device), byte_rate(rate)),
            None => format!("too many dirty pages for {}", brief(device)),
        };
        return format!("{who} {are} throttled while writing ({why})");
    }
    let behind = group.behind.as_ref().map(|behind| format!(" while {} moved {}", brief(&behind.device()), size(behind.bytes)));
    format!("{who} waited for memory{}", behind.unwrap_or_default())
}

/// The write rate of a device, from its first request to its last.
fn writes(of: &Of<'_>, name: &str) -> Option<f64> {
    let (_, did) = device(of, name)?;
    let (first, last) = did.all.extent()?;
    (did.written_bytes > 0).then(|| did.written_bytes as f64 * 1e9 / (last - first).max(1) as f64)
}

/// The thread with nearly all of the time, if it has a name of its own: `thread bio_aof_fsync`.
fn thread(of: &Of<'_>, group: &Group<'_>) -> Option<String> {
    let tables = of.parts.tables;
    let mut by_label: HashMap<&str, (u64, &str)> = HashMap::new();
    for entry in group.members.iter().map(|&at| &of.parts.ledger.entries[at]) {
        let Place::Thread { label, what, .. } = entry.place else { continue };
        let is_ours = |actor: &&Actor| what != What::Runnable && matches!(actor.role, Role::Client | Role::Server);
        if let Some(actor) = tables.actors.get(label as usize).filter(is_ours) {
            by_label.entry(&actor.label).or_insert((0, &actor.name)).0 += entry.runs.total_ns;
        }
    }
    let (label, (ns, name)) = by_label.into_iter().max_by_key(|&(label, (ns, _))| (ns, label))?;
    let ((command, _), (_, thread)) = (parted(name)?, parted(label)?);
    // Threads without a name of their own have their program's.
    let is_own = !command.starts_with(thread) && group.names.first().is_some_and(|who| who == command);
    if !is_own || (ns as f64) < group.ns as f64 * limits::NEARLY_ALL {
        return None;
    }
    // A name that several threads share says little more than their program's.
    let alike = tables.actors.iter().filter(|actor| actor.thread && actor.label == label).count();
    (alike == 1).then(|| format!("thread {}", brief(thread)))
}

/// The name of the object waited on: names are cut, words are not.
fn named(name: &str) -> String {
    let words = with_article(name);
    if words == name { brief(name) } else { words.to_owned() }
}

/// Whether more bytes went through a pipe than the client read from files (`way` 0) or wrote to them (1).
fn is_for_a_pipe(of: &Of<'_>, way: usize) -> bool {
    let by_files: u64 = of.parts.seen.moved[End::Client as usize].iter().map(|ways| ways[way].bytes).sum();
    through_a_pipe(of).is_some_and(|bytes| bytes > by_files)
}

/// Whether the client's busiest file, by bytes read (`way` 0) or written (1), was opened past the page cache (`O_DIRECT`).
fn goes_past_the_cache(of: &Of<'_>, way: usize) -> bool {
    let moved = of.parts.seen.moved[End::Client as usize].iter().enumerate();
    let most = moved.max_by_key(|(object, ways)| (ways[way].bytes, std::cmp::Reverse(*object)));
    most.is_some_and(|(object, _)| of.parts.tables.objects[object].attribute("direct") == Some("yes"))
}

fn computing(of: &Of<'_>, group: &Group<'_>) -> String {
    let idle = if has_network(of) && group.idle >= limits::IDLE { NETWORK_IDLE } else { "" };
    let sampled = sampled(of, group);
    let doing = match sampled.as_ref().filter(|(_, part)| *part >= 0.5).map(|(class, _)| class.as_str()) {
        Some("read") if goes_past_the_cache(of, 0) => "read data past the page cache",
        Some("write") if goes_past_the_cache(of, 1) => "wrote data past the page cache",
        Some("read") if is_for_a_pipe(of, 0) => "read from a pipe",
        Some("write") if is_for_a_pipe(of, 1) => "wrote to a pipe",
        Some("read") => "copied data from the page cache",
        Some("write") => "copied data to the page cache",
        Some("send") => "sent data",
        Some("receive") => "received data",
        Some("fault") => "faulted pages in",
        Some("softirq") => "handled network and block interrupts",
        Some("sync") => "computed in fsync(2)",
        Some("sync.write") => "computed in synchronous writes",
        Some("poll") => "polled",
        _ => "computed",
    };
    format!("{doing}{idle}")
}

/// For a program that carries packets: the part of one processor it used over its lifetime.
fn carrying(of: &Of<'_>, group: &Group<'_>) -> Option<f64> {
    let Place::Thread { label, what: What::Carrying, .. } = group.largest.place else { return None };
    let labels = &of.parts.ledger.labels;
    let own = of.parts.threads_ran().filter(|(number, ..)| labels.label(*number) == label);
    let part = |(number, _, ns): (u32, _, u64)| {
        let did = &of.parts.seen.did[number as usize];
        ns as f64 / (did.last_end - did.first_start).max(1) as f64
    };
    own.map(|(number, actor, ns)| part((number, actor, ns))).max_by(f64::total_cmp).map(|part| part.min(1.0))
}

/// The clause for queueing: the programs that queued for a processor, and who held it.
fn queued(of: &Of<'_>, group: &Group<'_>, groups: &[Group<'_>]) -> String {
    let name = queueing(of, group);
    let queues = |g: &&Group<'_>| matches!(g.cause, Cause::ClientRunqueue | Cause::ServerRunqueue) && g.cause != group.cause;
    let at_both = groups.iter().filter(queues).any(|g| g.share >= limits::NAMED_TWICE && queueing(of, g) == name);
    let who = match group.cause.end() {
        Some(End::Client) if at_both => format!("the client {}", brief(&name)),
        Some(End::Server) if at_both => format!("the server {}", brief(&name)),
        _ => brief(&name),
    };
    if group.largest.place.is_quota(of.parts.tables) {
        let are = if name.contains(" and ") { "were throttled by their" } else { "was throttled by its" };
        return format!("{who} {are} CPU quota");
    }
    if of.parts.others_at_processors(group.largest).is_some() {
        return format!("{who} waited for a CPU");
    }
    let held = holder(of, group).filter(|(name, part)| *part >= 0.5 && *name != who);
    format!("{who} waited for a CPU{}", held.map_or_else(String::new, |(name, _)| format!(" that `{}` held", brief(&name))))
}

/// The lock and its holder.
fn lock(of: &Of<'_>, group: &Group<'_>) -> String {
    let tables = of.parts.tables;
    match group.largest.place {
        Place::Held { holder, what, .. } => {
            let doing = if matches!(what, What::Blocked(_)) { "slept" } else { "worked" };
            format!("a lock that {} held while it {doing}", brief(&program(tables, of.meta, holder)))
        }
        Place::HeldElsewhere { waiter, holder, what, by_session, .. } if holder != NONE => {
            let client = brief(&client_name(tables, waiter, holder));
            format!("a lock that {client} held{}", held_while(what, by_session))
        }
        Place::HeldElsewhere { connection, .. } => match tables.ends(connection) {
            Some((client, _)) => format!("a lock that the client at {client} held"),
            None => "a lock that another client held".to_owned(),
        },
        Place::Given { label, by, kind, object } => given(tables, label, by, kind, object),
        Place::Thread { object, .. } => match tables.objects.get(object as usize) {
            Some(object) => match object.name.split_once(' ') {
                Some((kind, path)) if path.contains('/') => {
                    let held = holder(of, group).map_or_else(String::new, |(name, _)| {
                        let another = if group.names.contains(&name) { "another " } else { "" };
                        format!(", which {another}`{}` held", brief(&name))
                    });
                    format!("the {kind} on {}{held}", brief(base(path)))
                }
                _ => named(&object.name),
            },
            None => "a lock".to_owned(),
        },
        _ => "a lock".to_owned(),
    }
}

/// The activity of a lock's holder, or of the server for it.
fn held_while(what: What, by_session: bool) -> &'static str {
    match (what, by_session) {
        (What::Blocked(_), true) => " while its session slept",
        (What::Blocked(_), false) => " while it slept",
        (What::Running(_) | What::OwnWork, true) => " while its session worked",
        (What::Running(_) | What::OwnWork, false) => " while it worked",
        _ => "",
    }
}

/// The end of a wait: the waiter's own timeout, the program that stopped it, or a signal from the kernel (a typed key).
fn time_limit(of: &Of<'_>, waiter: u32) -> String {
    let (tables, labels) = (of.parts.tables, &of.parts.ledger.labels);
    let stopped = of.parts.facts.ended.iter().find(|ended| labels.label(ended.leader) == waiter);
    let Some(stopped) = stopped.filter(|stopped| stopped.signal != SIGALRM) else { return "its own timeout".to_owned() };
    let by = tables.objects.get(stopped.sender as usize).and_then(|by| by.name.split(" (process").next());
    match (by, signal_name(stopped.signal)) {
        (Some(by), _) => format!("`{}` stopped it", brief(by)),
        (None, Some(signal)) => format!("{signal} stopped it"),
        (None, None) => "its own timeout".to_owned(),
    }
}

fn pausing(of: &Of<'_>, group: &Group<'_>, who: &str) -> String {
    let is_mount = |label: u32| of.parts.tables.actors.get(label as usize).is_some_and(|actor| actor.mount);
    match group.largest.place {
        Place::Thread { what: What::Blocked(SpanKind::WaitTimer), label, .. } if is_mount(label) => format!("{who} waited for requests"),
        Place::Thread { what: What::Stopped, .. } => {
            format!("{who} {} stopped by a signal", if group.is_several() { "were" } else { "was" })
        }
        Place::Thread { what: What::Still(_), .. } => format!("{who} stood still: it neither ran nor waited for anything"),
        Place::Thread { what: What::Looking, .. } => format!("{who} polled in a sleep loop (for what was not recorded)"),
        Place::FarEnd { .. } => format!("{who} sent nothing"),
        Place::TimeLimit { waiter, connection, object } => {
            let whom = peer(&silent_peer(of.parts.tables, connection, object));
            format!("{who} waited for {whom}, until {}", time_limit(of, waiter))
        }
        Place::Thread { object, .. } => match of.parts.tables.objects.get(object as usize) {
            Some(object) if object.kind == thalweg_trace::ObjectKind::Terminal => {
                format!("{who} waited for a person at terminal {}", object.name)
            }
            Some(object) if object.name == "inotify" => format!("{who} waited for a file to change (inotify)"),
            Some(object) if object.kind == thalweg_trace::ObjectKind::Lock => {
                format!("{who} waited on {} until its own timeout", named(&object.name))
            }
            Some(object) if object.kind != thalweg_trace::ObjectKind::File => {
                format!("{who} waited on {}", named(&object.name))
            }
            _ => sleeping::sentence(of, group, who),
        },
        _ => sleeping::sentence(of, group, who),
    }
}

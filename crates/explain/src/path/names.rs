//! Names of places.

use crate::cause::End;
use crate::observe::index::NONE;
use crate::observe::tables::Tables;
use crate::waits::place::{Missing, Place, What, waited_on};
use thalweg_trace::{ObjectKind, Role, SpanKind};

impl Place {
    /// The name of a place; `named` says which files it may name.
    pub(crate) fn name(self, tables: &Tables, named: impl Fn(u32) -> bool) -> String {
        match self {
            Place::Thread { label, what, object } => {
                let who = thread_name(tables, label);
                match what {
                    What::Running(SpanKind::FileRead) if is_mount(tables, label) => format!("{who}: taking requests from the kernel"),
                    What::Running(SpanKind::FileWrite) if is_mount(tables, label) => format!("{who}: answering the kernel"),
                    What::Running(kind) => format!("{who}: {}", work_name(tables, kind, object, named(object), true)),
                    What::OwnWork => format!("{who}: its own work"),
                    What::Carrying => format!("{who}: carrying packets"),
                    What::Runnable => queue_name(tables, label, object),
                    What::Blocked(SpanKind::WaitTimer) if is_mount(tables, label) => format!("{who}: waiting for requests"),
                    What::Blocked(_) if let Some(on) = tables.objects.get(object as usize).and_then(waited_on) => format!("{who}: {on}"),
                    What::Blocked(SpanKind::WaitTimer) => format!("{who}: asleep"),
                    What::Blocked(SpanKind::WaitNetwork) => format!("{who}: asleep in a poll"),
                    What::Blocked(kind) => format!("{who}: {}", work_name(tables, kind, object, named(object), false)),
                    What::Still(kind) => format!("{who}: standing still in {}", kind.name()),
                    What::Stopped => format!("{who}: stopped"),
                    What::Looking => format!("{who}: polling in a sleep loop; target unknown"),
                    What::LooksFor(missing) => format!("{who}: {}", looked_for(tables, missing, object)),
                }
            }
            Place::Wire(from, to) => format!("{} > {}", end_name(tables, from), end_name(tables, to)),
            Place::FarEnd { seen_by, connection, side } => far_end_name(tables, seen_by, connection, side),
            Place::TimeLimit { waiter, connection, object } => {
                format!(
                    "{}: {} had sent nothing when its timeout expired",
                    thread_name(tables, waiter),
                    silent_peer(tables, connection, object)
                )
            }
            Place::Unseen { track } => unseen_name(tables, track),
            Place::Given { label, by, kind, object } => {
                format!("{}: waiting for {}", thread_name(tables, label), given(tables, label, by, kind, object))
            }
            Place::Hole { label } => format!("{}: unaccounted: no wait, no sample", thread_name(tables, label)),
            Place::HeldElsewhere { waiter, holder: NONE, connection, .. } => {
                let client = tables.ends(connection).map_or("somewhere", |n| n.0);
                format!("{}: a lock that the client at {client} holds", thread_name(tables, waiter))
            }
            Place::HeldElsewhere { waiter, holder, what, by_session, .. } => {
                let (holder, doing) = (client_name(tables, waiter, holder), holds_while(what, by_session));
                format!("{}: a lock that {holder} holds{doing}", thread_name(tables, waiter))
            }
            Place::Held { waiter, holder, what, .. } => {
                let (holder, doing) = (thread_name(tables, holder), holds_while(what, false));
                format!("{}: a lock that {holder} holds{doing}", thread_name(tables, waiter))
            }
        }
    }

    /// Whether the place is a control group's processor quota.
    pub(crate) fn is_quota(self, tables: &Tables) -> bool {
        matches!(self, Place::Thread { what: What::Runnable, object, .. } if tables.objects.get(object as usize).is_some())
    }
}

/// The address of a silent peer: a server, or a name server.
pub(crate) fn silent_peer(tables: &Tables, connection: u32, object: u32) -> String {
    if let Some((_, server)) = tables.ends(connection) {
        return server.to_owned();
    }
    match (name_server(tables, object), datagrams_to(tables, object)) {
        (Some(host), _) => format!("the name server {host}"),
        (None, Some(address)) => address.to_owned(),
        (None, None) => "its peer".to_owned(),
    }
}

/// The name server that a socket without connections sends to.
pub(crate) fn name_server(tables: &Tables, object: u32) -> Option<&str> {
    datagrams_to(tables, object)?.strip_suffix(":53")
}

/// The address that a socket without connections sends to.
pub(crate) fn datagrams_to(tables: &Tables, object: u32) -> Option<&str> {
    tables.objects.get(object as usize)?.name.strip_prefix("udp:")
}

/// The object looked for repeatedly, and why the looks failed.
fn looked_for(tables: &Tables, missing: Missing, object: u32) -> String {
    let Some(object) = tables.objects.get(object as usize) else {
        return match missing {
            Missing::Answer => "polled until its answer changed".to_owned(),
            Missing::Reply => "polled until it answered".to_owned(),
            Missing::Success => "retried until a program succeeded".to_owned(),
            _ => "polling for an unknown object".to_owned(),
        };
    };
    match (missing, waited_on(object)) {
        (_, Some(on)) => on,
        (Missing::Absent, None) => format!("waiting for {} to appear", object.name),
        (Missing::Present, None) => format!("waiting for {} to go away", object.name),
        (Missing::Answer | Missing::Reply | Missing::Success, None) => format!("waiting for {} to change", object.name),
        (Missing::Busy | Missing::Listener, None) => format!("waiting for {}", object.name),
    }
}

fn is_mount(tables: &Tables, actor: u32) -> bool {
    tables.actors.get(actor as usize).is_some_and(|actor| actor.mount)
}

/// A thread's end and kind: `client request`, `server io0`.
fn thread_name(tables: &Tables, actor: u32) -> String {
    let Some(actor) = tables.actors.get(actor as usize) else { return "a thread".to_owned() };
    let label = &actor.label;
    match actor.end {
        End::Server => at_end("server", label.strip_suffix(" connection").or_else(|| served_by(label)).unwrap_or(label)),
        End::Client if actor.role == Role::Client && !actor.mount => at_end("client", label),
        End::Client => label.clone(),
    }
}

/// A label after its end's name, unless it begins with it.
fn at_end(end: &str, label: &str) -> String {
    if label.starts_with(end) { label.to_owned() } else { format!("{end} {label}") }
}

/// The server that a thread belongs to, if the process has threads of several: `COMMAND/io0 serve` → `io0`.
fn served_by(label: &str) -> Option<&str> {
    label.strip_suffix(" serve").map(|label| label.rsplit('/').next().unwrap_or(label))
}

/// The unrecorded end: its server's address, if the connection has it.
fn far_end_name(tables: &Tables, seen_by: u32, connection: u32, side: End) -> String {
    match tables.ends(connection) {
        Some((_, server)) if side == End::Server => format!("the server at {server}"),
        Some((client, _)) => format!("the client at {}", client.rsplit_once(':').map_or(client, |(host, _)| host)),
        None => format!("the far end of {}", thread_name(tables, seen_by)),
    }
}

/// An unrecorded thread, by name and process.
fn unseen_name(tables: &Tables, actor: u32) -> String {
    match tables.actors.get(actor as usize) {
        Some(a) if a.role == Role::None && a.pid != 0 => format!("`{}` (process {}), not recorded", a.name, a.pid),
        Some(a) if a.role == Role::None => format!("`{}`, not recorded", a.name),
        _ => format!("{}, before it was recorded", another_name(tables, tables.main, actor)),
    }
}

/// A thread as seen from another: of another process with the same name, with its process number.
pub(crate) fn another_name(tables: &Tables, one: u32, other: u32) -> String {
    let name = |actor: u32| tables.actors.get(actor as usize).map(|a| (a.program(), a.pid));
    match (name(one), name(other)) {
        (Some((own, pid)), Some((its, number))) if own == its && pid != number && number != 0 => {
            format!("another {its} (process {number})")
        }
        _ => thread_name(tables, other),
    }
}

/// The activity of a lock's holder, or of the server in its session.
fn holds_while(what: What, by_session: bool) -> &'static str {
    match (what, by_session) {
        (What::Stopped, _) => "",
        (What::Blocked(_), true) => " while its session sleeps",
        (What::Blocked(_), false) => " while it sleeps",
        (_, true) => " while its session works",
        (_, false) => " while it works",
    }
}

/// A client of the same server as seen from another. A client that was reached through a server may be called a server, too.
pub(crate) fn client_name(tables: &Tables, one: u32, other: u32) -> String {
    let name = another_name(tables, one, other);
    name.strip_prefix("server ").map_or(name.clone(), |program| format!("client {program}"))
}

/// An object given by another thread, and that thread: `semaphore from another perl (process 812)`.
pub(crate) fn given(tables: &Tables, waiter: u32, by: u32, kind: SpanKind, object: u32) -> String {
    format!("{}{}", given_name(tables, kind, object), giver_name(tables, waiter, by))
}

/// The giver of what was waited for, with its process number.
fn giver_name(tables: &Tables, waiter: u32, by: u32) -> String {
    let another = another_name(tables, waiter, by);
    match tables.actors.get(by as usize) {
        Some(actor) if actor.role == Role::None => unseen_name(tables, by),
        Some(actor) if another.starts_with("another ") || actor.pid == 0 => another,
        Some(actor) => format!("{} (process {})", actor.program(), actor.pid),
        None => another,
    }
}

/// An object given by another thread: `a semaphore from `.
fn given_name(tables: &Tables, kind: SpanKind, object: u32) -> String {
    match tables.objects.get(object as usize) {
        Some(object) if object.kind == ObjectKind::File && kind == SpanKind::FileOpen => format!("{} to be opened by ", object.name),
        Some(object) if matches!(object.kind, ObjectKind::Socket | ObjectKind::Connection) => format!("a message on {} from ", object.name),
        Some(object) if matches!(object.kind, ObjectKind::Pipe | ObjectKind::Lock) => format!("{} from ", with_article(&object.name)),
        _ if kind == SpanKind::FileOpen => "a file to be opened by ".to_owned(),
        _ => String::new(),
    }
}

/// A recorder's name for a kind of lock, with its article.
pub(crate) fn with_article(name: &str) -> &str {
    match name {
        "condition or semaphore" => "a condition variable or semaphore",
        "futex" => "a futex",
        "mutex" => "a mutex",
        other => other,
    }
}

/// The processors that an actor's end queues for, or the control group whose quota throttles it.
fn queue_name(tables: &Tables, actor: u32, group: u32) -> String {
    if let Some(group) = tables.objects.get(group as usize) {
        return format!("the CPU quota of cgroup {}", group.name);
    }
    let machine = tables.actors.get(actor as usize).and_then(|a| tables.machines.get(a.machine as usize));
    match machine {
        Some(machine) if machine.cpus == 1 => format!("the CPU of {}", machine.name),
        Some(machine) => format!("the {} CPUs of {}", machine.cpus, machine.name),
        None => "the CPUs".to_owned(),
    }
}

/// One end of a wire.
fn end_name(tables: &Tables, actor: u32) -> String {
    match tables.actors.get(actor as usize) {
        Some(a) if a.end == End::Server => thread_name(tables, actor),
        Some(a) if a.mount => a.label.split('/').next().unwrap_or("mount").to_owned(),
        Some(_) => "client".to_owned(),
        None => "the far end".to_owned(),
    }
}

fn work_name(tables: &Tables, kind: SpanKind, object: u32, named: bool, running: bool) -> String {
    let mut name = kind.name().to_owned();
    let object = tables.objects.get(object as usize);
    let file = object.filter(|t| t.kind == ObjectKind::File);
    let device =
        file.and_then(|t| t.attribute("device")).or_else(|| object.filter(|t| t.kind == ObjectKind::Device).map(|t| t.name.as_str()));
    if let Some(file) = file.filter(|_| named) {
        // A file on a known device is named in full; a store's datafile by its distinguishing part.
        let whole = device.is_some() || file.name.ends_with('/');
        name.push(' ');
        name.push_str(if whole { &file.name } else { file.name.rsplit('/').next().unwrap_or(&file.name) });
    }
    if let Some((kind, file)) = file.and_then(|file| Some((file.served_by()?, file))) {
        match file.attribute("device") {
            Some(device) => name.push_str(&format!(", which {kind} ({device}) serves")),
            None => name.push_str(&format!(", which is served by {kind}")),
        }
        return name;
    }
    if let Some(device) = device.filter(|_| !running) {
        name.push_str(&format!(" on {device}"));
    }
    if running && matches!(kind, SpanKind::FileRead | SpanKind::FileWrite) {
        name.push_str(" (page cache)");
    }
    name
}

//! Actors and objects of a recording: tracks, objects, machines and connections by dense numbers, with what the rules need to know of each.
//! Built once from the small tables.

use crate::cause::End;
use crate::observe::answered::Answered;
use crate::observe::index::{DenseIndex, NONE};
use std::collections::{HashMap, HashSet};
use thalweg_trace::{HostId, ObjectKind, Role, Source, Track, TrackKind};

/// A track, for the rules.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    /// Its number in the recording.
    pub id: u64,
    /// Its name in the recording.
    pub name: String,
    /// Its name in places: without what distinguishes it from similar ones (numbers, peers' addresses).
    pub label: String,
    /// The side it works for.
    pub role: Role,
    /// Its end.
    pub end: End,
    /// Whether the actor is a thread of a mount: a client that works for the mount's users.
    pub mount: bool,
    /// Whether the actor is a thread; device and link tracks are never walked on.
    pub thread: bool,
    /// The machine it runs on: hosts with one clock are one machine.
    pub machine: u32,
    /// Its process, or 0.
    pub pid: u32,
    /// Whether the actor was reached from the command's threads, neither started by the command nor named for recording.
    pub reached: bool,
    tid: u32,
}

impl Actor {
    /// Whether the program's runtime sleeps for at most half a second at a time: Tcl.
    pub(crate) fn sleeps_in_slices(&self) -> bool {
        ["tclsh", "wish", "expect"].iter().any(|tcl| self.program().starts_with(tcl))
    }

    /// Whether the thread is its process's first.
    pub(crate) fn leads(&self) -> bool {
        self.tid != 0 && self.tid == self.pid
    }

    /// Its program's name: its process's name, without its own.
    pub(crate) fn program(&self) -> &str {
        self.name.split('/').next().unwrap_or(&self.name)
    }
}

/// An object, for the rules.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// Its number in the recording.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: ObjectKind,
    /// The connection it is one end of, or [`NONE`].
    pub connection: u32,
    /// The end of it, if known.
    pub connection_end: Option<End>,
    /// Its attributes.
    pub attributes: Vec<(String, String)>,
}

/// A machine: hosts that share a clock share its processors.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Its clock.
    pub clock: String,
    /// Its name: that of the first host on it.
    pub name: String,
    /// Its processors.
    pub cpus: u32,
}

/// All actors and objects.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    /// Tracks.
    pub actors: Vec<Actor>,
    /// Objects.
    pub objects: Vec<Object>,
    /// Names of connections: both ends' rows of one name are one connection.
    pub connections: Vec<String>,
    /// Machines.
    pub machines: Vec<Machine>,
    /// The thread that the walk begins on: the command's own.
    pub main: u32,
    /// Whether any thread works for a server: if not, servers were not recorded.
    pub has_servers: bool,
    /// Whether threads were only sampled: then wakers are unknown.
    pub sampled: bool,
    /// Whether wakers were not recorded: they are known only if one thread alone can have been the waker, and stops are recorded as spans
    /// of their own.
    pub wakers_inferred: bool,
    /// Whether a thread that is in no wait is known to run.
    pub switches: bool,
    /// Whether only some of the calls by which programs look for something between pauses were recorded.
    pub looks_in_part: bool,
    /// Servers' unencrypted HTTP answers.
    pub answered: Vec<Answered>,
    /// Whether the recording names the locks that threads wait for: then no other wait is for a lock.
    pub records_locks: bool,
    /// Track number → actor.
    pub tracks: DenseIndex,
    /// Object number → index in `objects`.
    pub object_rows: DenseIndex,
    /// A device's track → the same device as an object.
    pub device_objects: HashMap<u32, u32>,
    /// Queueing thread and processor holder, if the two compute in turn → the object at which the one waits for the other.
    pub hand_overs: HashMap<(u32, u32), u32>,
}

impl Object {
    /// One of its attributes.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The kind of its file system, if another program or machine, not a device, answers its calls.
    pub(crate) fn served_by(&self) -> Option<&str> {
        const OTHERS: [&str; 13] =
            ["9p", "afs", "beegfs", "ceph", "cifs", "fuse", "fuseblk", "glusterfs", "gpfs", "lustre", "pvfs2", "smb3", "virtiofs"];
        let kind = self.attribute("filesystem")?;
        (OTHERS.contains(&kind) || kind.starts_with("fuse.") || kind.starts_with("nfs")).then_some(kind)
    }
}

impl Tables {
    /// Builds them from the small tables of a recording.
    pub(crate) fn of(source: &dyn Source) -> Tables {
        let (machines, machine_of) = machines(source);
        let machine = |host: &HostId| machine_of.get(&host.0).copied().unwrap_or(0);
        let mut actors: Vec<Actor> = source.tracks().iter().map(|track| actor(track, machine(&track.host))).collect();
        rename_reached_mounts(&mut actors);
        let mut device_objects = device_objects(source);
        let mut connections = Vec::new();
        let mut by_name: HashMap<&str, u32> = HashMap::new();
        let mut objects: Vec<Object> = source
            .objects()
            .iter()
            .map(|o| {
                let connection = if o.kind == ObjectKind::Connection {
                    *by_name.entry(&o.name).or_insert_with(|| {
                        connections.push(o.name.clone());
                        connections.len() as u32 - 1
                    })
                } else {
                    NONE
                };
                let connection_end = match o.attributes.iter().find(|(n, _)| n == "end").map(|(_, v)| v.as_str()) {
                    Some("client") => Some(End::Client),
                    Some("server") => Some(End::Server),
                    _ => None,
                };
                let (id, name) = (o.object.number(), o.name.clone());
                Object { id, name, kind: o.kind, connection, connection_end, attributes: o.attributes.clone() }
            })
            .collect();
        turn_connections(&mut connections, &mut objects);
        // Devices that no wait and no file names: running threads may have waited for them.
        for (number, actor) in (0..).zip(&actors).filter(|(_, actor)| !actor.thread) {
            if device_objects.contains_key(&number) {
                continue;
            }
            device_objects.insert(number, objects.len() as u32);
            let (name, kind, connection) = (actor.name.clone(), ObjectKind::Device, NONE);
            objects.push(Object { id: 0, name, kind, connection, connection_end: None, attributes: Vec::new() });
        }
        let abilities = source.meta().abilities();
        Tables {
            answered: Answered::all(source.meta()),
            looks_in_part: !abilities.all_looks,
            records_locks: objects.iter().any(|t| t.kind == ObjectKind::Lock),
            main: main_thread(&actors, command_pid(source)),
            sampled: !abilities.every_change,
            wakers_inferred: !abilities.wakers,
            switches: abilities.switches,
            has_servers: actors.iter().any(|a| a.thread && a.end == End::Server),
            tracks: DenseIndex::new(source.tracks().iter().map(|t| t.track.number())),
            object_rows: DenseIndex::new(source.objects().iter().map(|o| o.object.number())),
            actors,
            objects,
            connections,
            machines,
            device_objects,
            hand_overs: HashMap::new(),
        }
    }

    /// Threads that work for either end.
    pub(crate) fn workers(&self) -> impl Iterator<Item = u32> {
        let works = |(_, a): &(usize, &Actor)| a.thread && matches!(a.role, Role::Client | Role::Server);
        self.actors.iter().enumerate().filter(works).map(|(i, _)| i as u32)
    }

    /// The tracks of each process, in order.
    pub(crate) fn processes(&self) -> HashMap<(u32, u32), Vec<u32>> {
        let mut processes: HashMap<_, Vec<u32>> = HashMap::new();
        for (track, actor) in self.actors.iter().enumerate() {
            processes.entry((actor.machine, actor.pid)).or_default().push(track as u32);
        }
        processes
    }

    /// An actor's process: its machine and number.
    pub(crate) fn process(&self, actor: u32) -> Option<(u32, u32)> {
        self.actors.get(actor as usize).map(|a| (a.machine, a.pid))
    }

    /// Whether a thread waited at a socket of its machine until a thread of another program wrote there.
    pub(crate) fn is_asked_at(&self, track: u32, object: u32, waker: u32) -> bool {
        let at_socket = || self.objects.get(object as usize).is_some_and(|object| object.kind == ObjectKind::Socket);
        let (Some(own), Some(other)) = (self.actors.get(track as usize), self.actors.get(waker as usize)) else { return false };
        let is_another = own.pid != other.pid && other.pid != 0 && own.machine == other.machine && own.program() != other.program();
        own.end == End::Server && is_another && matches!(other.role, Role::Client | Role::Server) && at_socket()
    }

    /// The recorder's own threads.
    pub(crate) fn recorders(&self) -> impl Iterator<Item = u32> {
        self.actors.iter().enumerate().filter(|(_, a)| a.thread && a.role == Role::Recorder).map(|(i, _)| i as u32)
    }

    /// Notes that a device ended a wait on a file whose location was not recorded: the file is on it.
    pub(crate) fn note_device(&mut self, object: u32, device: u32) {
        let name = &self.actors[device as usize].name;
        let object = &mut self.objects[object as usize];
        if object.kind == ObjectKind::File && object.attribute("device").is_none() && object.served_by().is_none() {
            object.attributes.push(("device".to_owned(), name.clone()));
        }
    }

    /// The connection that an object is an end of, or [`NONE`].
    pub(crate) fn connection_of(&self, object: u32) -> u32 {
        self.objects.get(object as usize).map_or(NONE, |t| t.connection)
    }

    /// The addresses of a connection's client and server, if its name has both.
    pub(crate) fn ends(&self, connection: u32) -> Option<(&str, &str)> {
        self.connections.get(connection as usize)?.split_once(" > ")
    }

    /// Whether an object is a datagram socket with one far end (a name server, for example).
    pub(crate) fn is_datagram(&self, object: u32) -> bool {
        self.objects.get(object as usize).is_some_and(|object| object.kind == ObjectKind::Socket && object.name.starts_with("udp:"))
    }

    /// Whether two connections are to the same server.
    pub(crate) fn is_same_server(&self, one: u32, other: u32) -> bool {
        let server = |connection: u32| self.ends(connection).map(|(_, server)| server);
        one == other || server(one).is_some() && server(one) == server(other)
    }

    /// Failed answers, of servers that failed at least half of their requests.
    pub(crate) fn mostly_failed(&self) -> impl Iterator<Item = &Answered> {
        let all = |server: &str| self.answered.iter().filter(|other| other.server == server).map(|other| other.count).sum::<u64>();
        self.answered.iter().filter(move |answered| answered.is_failure() && 2 * answered.count >= all(&answered.server))
    }

    /// Whether both ends of a connection are on one machine, as far as its addresses show.
    pub(crate) fn is_within_machine(&self, connection: u32) -> bool {
        let Some((client, server)) = self.ends(connection) else { return false };
        let host = |address: &str| address.rsplit_once(':').map(|(host, _)| host.to_owned());
        let (client, server) = (host(client), host(server));
        client.is_some() && client == server || server.is_some_and(|host| host.starts_with("127.") || host == "[::1]")
    }
}

/// Corrects the direction of connections that existed before the recording, where the calling end may be wrong: an end called on other
/// connections was called on this one, too.
fn turn_connections(connections: &mut [String], objects: &mut [Object]) {
    let ends = |name: &String| name.split_once(" > ").map(|(client, server)| (client.to_owned(), server.to_owned()));
    let all: Vec<(String, String)> = connections.iter().filter_map(ends).collect();
    let called: HashMap<&str, usize> = all.iter().fold(HashMap::new(), |mut called, (_, server)| {
        *called.entry(server.as_str()).or_default() += 1;
        called
    });
    for (number, name) in connections.iter_mut().enumerate() {
        let Some((client, server)) = ends(name) else { continue };
        if called.contains_key(client.as_str()) && called.get(server.as_str()) == Some(&1) {
            *name = format!("{server} > {client}");
            for object in objects.iter_mut().filter(|object| object.connection == number as u32) {
                object.name.clone_from(name);
                object.connection_end = object.connection_end.map(End::other);
            }
        }
    }
}

/// Matches devices' tracks with their objects, by host and name.
fn device_objects(source: &dyn Source) -> HashMap<u32, u32> {
    let objects = source.objects().iter().enumerate().filter(|(_, o)| o.kind == ObjectKind::Device);
    let by_name: HashMap<(u16, &str), u32> = objects.map(|(i, o)| ((o.host.0, o.name.as_str()), i as u32)).collect();
    let devices = source.tracks().iter().enumerate().filter(|(_, t)| t.kind == TrackKind::Device);
    devices.filter_map(|(i, t)| by_name.get(&(t.host.0, t.name.as_str())).map(|&object| (i as u32, object))).collect()
}

fn machines(source: &dyn Source) -> (Vec<Machine>, HashMap<u16, u32>) {
    let mut machines: Vec<Machine> = Vec::new();
    let mut of = HashMap::new();
    for host in source.hosts() {
        let at = machines.iter().position(|m| m.clock == host.clock).unwrap_or_else(|| {
            machines.push(Machine { clock: host.clock.clone(), name: host.name.clone(), cpus: 1 });
            machines.len() - 1
        });
        machines[at].cpus = machines[at].cpus.max(host.cpus);
        of.insert(host.host.0, at as u32);
    }
    if machines.is_empty() {
        machines.push(Machine { clock: String::new(), name: "a machine".to_owned(), cpus: 1 });
    }
    (machines, of)
}

/// The command's process on the reference host, if the recorder named it.
fn command_pid(source: &dyn Source) -> Option<u32> {
    source.meta().attributes.iter().find(|(name, _)| name == "command.pid").and_then(|(_, pid)| pid.parse().ok())
}

/// The command's own thread: the first of its process, if known (programs that it works through, such as a mount, are clients too); or else
/// a client's thread that is its process's first, or else the client's thread named first, or else the first thread.
fn main_thread(actors: &[Actor], command: Option<u32>) -> u32 {
    let first = |wanted: &dyn Fn(&Actor) -> bool| {
        actors.iter().enumerate().filter(|(_, a)| a.thread && wanted(a)).min_by_key(|(_, a)| a.id).map(|(i, _)| i as u32)
    };
    first(&|a| a.role == Role::Client && a.machine == 0 && a.tid != 0 && Some(a.tid) == command && a.tid == a.pid)
        .or_else(|| first(&|a| a.role == Role::Client && a.tid != 0 && a.tid == a.pid))
        .or_else(|| first(&|a| a.role == Role::Client))
        .or_else(|| first(&|a| a.role != Role::Recorder))
        .unwrap_or(NONE)
}

/// A track as an actor on this machine.
fn actor(track: &Track, machine: u32) -> Actor {
    Actor {
        mount: track.role == Role::Client && is_mount(&track.name),
        id: track.track.number(),
        label: label(&track.name),
        name: track.name.clone(),
        role: track.role,
        end: if track.role == Role::Server { End::Server } else { End::Client },
        thread: track.kind == TrackKind::Thread,
        machine,
        pid: track.pid.unwrap_or(0),
        reached: false,
        tid: track.tid.unwrap_or(0),
    }
}

/// Whether a name is a mount's thread: recorders use `mount` and `mount/...`; with several mounts, `mount:NAME` and so on. A mount that
/// records itself uses `mount 0` and so on.
fn is_mount(name: &str) -> bool {
    name.strip_prefix("mount").is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', ' ']))
}

/// Renames reached mounts: mounts that the command does not name, but its calls led to, are clients called `mount`, too. The recorder takes
/// a process that answers /dev/fuse for a server; it is recognised by the threads that answer the kernel.
fn rename_reached_mounts(actors: &mut [Actor]) {
    let answers = |actor: &&Actor| actor.name.starts_with("thalweg/mount ");
    let mounts: HashSet<(u32, u32)> = actors.iter().filter(answers).map(|a| (a.machine, a.pid)).collect();
    for actor in actors.iter_mut().filter(|a| mounts.contains(&(a.machine, a.pid))) {
        actor.name = actor.name.replacen("thalweg", "mount", 1);
        actor.label = label(&actor.name);
        (actor.role, actor.end, actor.mount) = (Role::Client, End::Client, true);
    }
}

/// Splits `COMMAND/THREAD`, recorders' name for a thread that has another name than its process. A command is one word, or a word and what
/// it runs in parentheses, if several of a recording run one program: `python3 (producer.py)/worker`.
pub(crate) fn parted(name: &str) -> Option<(&str, &str)> {
    let is_command = |command: &str| !command.contains(' ') || is_distinguished(command);
    name.split_once('/').filter(|(command, _)| !command.is_empty() && is_command(command))
}

/// Whether a command is followed by what it runs in parentheses.
fn is_distinguished(command: &str) -> bool {
    command.ends_with(')') && command.split_once(' ').is_some_and(|(word, runs)| !word.is_empty() && runs.starts_with('('))
}

/// A name without numbers and addresses: `request 3` → `request`, `io0 connection 127.0.0.1:51234` → `io0 connection`, `connection io0#2` →
/// `connection io0`.
///
/// In `COMMAND/THREAD-NAME` a thread's number in its pool is dropped too, and a name that only repeats the command's: `ganesha.nfsd/svc_12`
/// → `ganesha.nfsd/svc`, `curl/curl` → `curl`.
fn label(name: &str) -> String {
    if let Some((command, thread)) = parted(name).filter(|(_, thread)| !thread.is_empty()) {
        let thread = thread.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['_', '-', '#', ':', '.', ' ']);
        let same = thread.is_empty() || thread == command || thread.starts_with(command) && thread.len() <= command.len() + 1;
        return if same { command.to_owned() } else { format!("{command}/{thread}") };
    }
    if is_distinguished(name) {
        return name.to_owned();
    }
    let words = name.split_whitespace().filter(|word| !word.contains(':') && !word.bytes().all(|b| b.is_ascii_digit()));
    let words: Vec<&str> = words.map(|word| word.split('#').next().unwrap_or(word)).filter(|w| !w.is_empty()).collect();
    if words.is_empty() { name.to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn a_label_leaves_out_what_distinguishes_a_thread_from_its_likes() {
        assert_eq!(label("request 3"), "request");
        assert_eq!(label("io0 connection 127.0.0.1:51234"), "io0 connection");
        assert_eq!(label("connection io0#2"), "connection io0");
        assert_eq!(label("17"), "17");
        assert_eq!(label("ganesha.nfsd/svc_12"), "ganesha.nfsd/svc");
        assert_eq!(label("curl/curl"), "curl");
        assert_eq!(label("python3/3"), "python3");
        assert_eq!(label("python3 (a.py)/worker 2"), "python3 (a.py)/worker");
        assert_eq!(label("python3 (-c a; b)/2"), "python3 (-c a; b)");
    }
}

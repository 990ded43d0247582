//! Servers among the processes: those that the recorder, which must decide when they start, called clients.
//!
//! Only calls count, never a name, a port, or parentage alone. A process serves
//!
//! - if it serves a file system, and is not the command itself;
//! - if it was not started by the command (it was named, or reached), and listens, or received a datagram before it had sent any;
//! - if it was started by the command, and another process of the run called it: it accepted a connection or was asked on a unix socket on
//!   which it listens, or received a datagram, at a port of its own choice, before it had sent any.
//!
//! Peers call each other, and keep the recorder's role (the ranks of a parallel program, both ends of a transfer over a second connection
//! that the server makes). So a call counts only in one direction: the called program does not call the caller's, and the caller is not a
//! child of the called process (children work for it: it gives them their work). Between processes of one name, the caller must neither
//! listen nor be called itself. A program started by a server to do something is its tool, if nothing else calls it.
//!
//! Rejected: roles by port numbers (a server's may be above its callers'), and a role per connection in the words of a place: a reader
//! wants to know what a *process* is.

use crate::ExplainError;
use crate::cause::End;
use crate::limits::observe as limits;
use crate::observe::index::{DenseIndex, NONE};
use crate::observe::lives::{Beginning, Life};
use crate::observe::tables::{Actor, Object, Tables};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use thalweg_trace::{MarkKind, ObjectKind, Role, Source, SpanBatch, SpanKind, called};

/// The facts of a process.
#[derive(Clone, Debug, Default)]
struct Process {
    /// Its program's name.
    name: String,
    /// Its maker, if recorded.
    maker: Option<usize>,
    /// The ways it can be called, or was: the bits of [`called`].
    called: i64,
    /// Whether the process belongs to the command.
    command: bool,
    /// Whether the recorder called it a client.
    client: bool,
    /// Whether the process is a mount of a store: a client that works for its users.
    mount: bool,
}

/// The processes, and their calls.
#[derive(Debug, Default)]
struct Society {
    processes: Vec<Process>,
    /// The first process of each one's program: processes of one name, one of which made the other.
    programs: Vec<usize>,
    /// The callers of a process.
    callers: BTreeMap<usize, BTreeSet<usize>>,
    /// Calls between programs: caller, called.
    program_calls: BTreeSet<(usize, usize)>,
}

/// Calls, and processes that can have been called: from the small tables, and from every span, each seen once.
#[derive(Debug)]
pub(crate) struct Callers {
    processes: Vec<Process>,
    /// By actor: its process.
    of_actor: Vec<Option<usize>>,
    /// `None` if the recording has no information on calls.
    gathered: Option<Gathered>,
}

impl Callers {
    /// The state before any span is seen; `None` if no role is in doubt.
    pub(crate) fn of(source: &dyn Source, lives: &[Life], tables: &mut Tables) -> Result<Option<Callers>, ExplainError> {
        let (mut processes, of_actor) = processes(tables, lives);
        for mark in source.marks()?.into_iter().filter(|mark| mark.kind == MarkKind::ProcessCalled) {
            let process = of_actor.get(tables.tracks.get(mark.track.number()) as usize).copied().flatten();
            if let Some(process) = process {
                processes[process].called |= mark.value.unwrap_or(0);
            }
        }
        if !processes.iter().any(Process::may_turn) {
            return Ok(None);
        }
        let says = |object: &Object| object.connection_end == Some(End::Server) || object.kind == ObjectKind::Socket;
        let gathered = tables.objects.iter().any(says).then(|| Gathered {
            tracks: tables.tracks.clone(),
            objects: tables.object_rows.clone(),
            ends: HashMap::new(),
            met: BTreeSet::new(),
        });
        Ok(Some(Callers { processes, of_actor, gathered }))
    }

    /// Whether spans are needed.
    pub(crate) fn asks_spans(&self) -> bool {
        self.gathered.is_some()
    }

    /// Adds spans.
    pub(crate) fn note(&mut self, tables: &Tables, batch: &SpanBatch) {
        let Some(gathered) = &mut self.gathered else { return };
        for row in 0..batch.len() {
            gathered.note(&tables.objects, &self.of_actor, batch, row);
        }
    }

    /// Changes the roles of processes that serve.
    pub(crate) fn settle(self, tables: &mut Tables) {
        let Callers { processes, of_actor, gathered } = self;
        let calls = gathered.map(|gathered| gathered.calls(&processes)).unwrap_or_default();
        let servers = Society::of(processes, &calls).servers();
        for (actor, process) in tables.actors.iter_mut().zip(of_actor) {
            if actor.role == Role::Client && process.is_some_and(|process| servers.contains(&process)) {
                (actor.role, actor.end) = (Role::Server, End::Server);
                tables.has_servers |= actor.thread;
            }
        }
    }
}

impl Process {
    /// Whether the recorder's role may be wrong.
    fn may_turn(&self) -> bool {
        self.client && !self.command && !self.mount
    }
}

/// The processes, and the process of each actor.
fn processes(tables: &Tables, lives: &[Life]) -> (Vec<Process>, Vec<Option<usize>>) {
    let key = |actor: &Actor| (actor.thread && actor.pid != 0).then_some((actor.machine, actor.pid));
    let command = tables.actors.get(tables.main as usize).and_then(key);
    let mut numbers = BTreeMap::new();
    let mut processes: Vec<Process> = Vec::new();
    let mut of_actor = Vec::with_capacity(tables.actors.len());
    for actor in &tables.actors {
        let Some(key) = key(actor) else {
            of_actor.push(None);
            continue;
        };
        let number = *numbers.entry(key).or_insert_with(|| {
            processes.push(Process { command: Some(key) == command, ..Process::default() });
            processes.len() - 1
        });
        let process = &mut processes[number];
        process.client |= actor.role == Role::Client;
        process.mount |= actor.mount;
        if process.name.is_empty() || actor.leads() {
            process.name = actor.program().to_owned();
        }
        of_actor.push(Some(number));
    }
    for (actor, life) in lives.iter().enumerate() {
        let Some((_, Beginning::Made(by))) = life.from else { continue };
        let (own, maker) = (of_actor[actor], of_actor.get(by as usize).copied().flatten());
        if let (Some(own), Some(maker)) = (own, maker.filter(|maker| own != Some(*maker))) {
            processes[own].maker.get_or_insert(maker);
        }
    }
    (processes, of_actor)
}

impl Society {
    /// Makes the society of processes from their calls (caller, called).
    fn of(processes: Vec<Process>, calls: &BTreeSet<(usize, usize)>) -> Society {
        let mut society = Society { processes, ..Society::default() };
        society.programs = (0..society.processes.len()).map(|process| society.eldest(process)).collect();
        for &(caller, called) in calls {
            society.callers.entry(called).or_default().insert(caller);
            society.program_calls.insert((society.programs[caller], society.programs[called]));
        }
        society
    }

    /// A process's maker, that one's maker, and so on.
    fn makers(&self, of: usize) -> impl Iterator<Item = usize> {
        // A reused process number may form a cycle.
        std::iter::successors(self.processes[of].maker, |maker| self.processes[*maker].maker).take(limits::MOST_GENERATIONS)
    }

    /// The first of a program's processes.
    fn eldest(&self, of: usize) -> usize {
        let same = |maker: &usize| self.processes[*maker].name == self.processes[of].name;
        self.makers(of).take_while(same).last().unwrap_or(of)
    }

    fn is_called(&self, process: usize) -> bool {
        self.callers.contains_key(&process)
    }

    /// Whether two processes, or their programs, call each other.
    fn is_mutual(&self, caller: usize, called: usize) -> bool {
        let (one, other) = (self.programs[caller], self.programs[called]);
        if one == other {
            return self.callers.get(&caller).is_some_and(|callers| callers.contains(&called));
        }
        self.program_calls.contains(&(other, one))
    }

    /// Whether a call shows that the called process serves its caller.
    fn is_clear(&self, caller: usize, called: usize) -> bool {
        let (one, other) = (&self.processes[caller], &self.processes[called]);
        if self.is_mutual(caller, called) || self.makers(caller).any(|maker| maker == called) {
            return false;
        }
        // A server's tool.
        if self.is_called(caller) && self.makers(called).any(|maker| maker == caller) {
            return false;
        }
        one.name != other.name || !self.is_called(caller) && one.called == 0 && (other.called != 0 || one.command)
    }

    /// Whether a process serves by itself, not as one of a server's processes.
    fn serves(&self, process: usize) -> bool {
        let of = &self.processes[process];
        if !of.may_turn() {
            return false;
        }
        let from_command = self.makers(process).any(|maker| self.processes[maker].command);
        let asked = of.called & called::DATAGRAM != 0 && (!from_command || of.called & called::CHOSEN_PORT != 0);
        let listens = !from_command && of.called & (called::PORT | called::UNIX_SOCKET) != 0;
        of.called & called::FILE_SYSTEM != 0
            || asked
            || listens
            || self.callers.get(&process).is_some_and(|callers| callers.iter().any(|&caller| self.is_clear(caller, process)))
    }

    /// The processes that serve, including the rest of a server's program, and children of a process that serves a file system.
    fn servers(&self) -> BTreeSet<usize> {
        let mut servers: BTreeSet<usize> = (0..self.processes.len()).filter(|&process| self.serves(process)).collect();
        loop {
            let joins = |process: usize| {
                let of = &self.processes[process];
                let made_by = of.maker.filter(|maker| servers.contains(maker)).map(|maker| &self.processes[maker]);
                let works = made_by.is_some_and(|maker| maker.name == of.name || maker.called & called::FILE_SYSTEM != 0);
                let listens = of.called & (called::PORT | called::UNIX_SOCKET) != 0;
                let made = |&server: &usize| self.processes[server].maker == Some(process) && self.processes[server].name == of.name;
                of.may_turn() && !servers.contains(&process) && (works || listens && servers.iter().any(made))
            };
            let more: Vec<usize> = (0..self.processes.len()).filter(|&process| joins(process)).collect();
            if more.is_empty() {
                return servers;
            }
            servers.extend(more);
        }
    }
}

/// The spans' evidence of communication.
#[derive(Debug)]
struct Gathered {
    tracks: DenseIndex,
    objects: DenseIndex,
    /// By connection: the processes that sent or took bytes at the caller's end, and at the other.
    ends: HashMap<u32, [BTreeSet<usize>; 2]>,
    /// Pairs of processes of which one ended the other's wait on a socket, with the way one can be called there.
    met: BTreeSet<(i64, usize, usize)>,
}

impl Gathered {
    /// The calls: over connections by their ends; over unix sockets and by datagrams, by which of two processes that end each other's waits
    /// there can be called.
    fn calls(self, processes: &[Process]) -> BTreeSet<(usize, usize)> {
        let mut calls = BTreeSet::new();
        for [callers, called] in self.ends.values() {
            calls.extend(callers.iter().flat_map(|caller| called.iter().map(|called| (*caller, *called))));
        }
        for (by, one, other) in self.met {
            let can = |process: usize| processes[process].called & by != 0;
            if can(one) != can(other) {
                calls.insert(if can(one) { (other, one) } else { (one, other) });
            }
        }
        calls.retain(|(caller, called)| caller != called);
        calls
    }

    fn note(&mut self, objects: &[Object], of_actor: &[Option<usize>], batch: &SpanBatch, row: usize) {
        let object = objects.get(self.objects.get(batch.object[row]) as usize);
        let Some(object) = object.filter(|object| matches!(object.kind, ObjectKind::Connection | ObjectKind::Socket)) else { return };
        let mut of = |track: u64| of_actor.get(self.tracks.get(track) as usize).copied().flatten();
        let Some(process) = of(batch.track[row]) else { return };
        if let Some(end) = object.connection_end.filter(|_| object.connection != NONE) {
            let moves = matches!(batch.kind[row], SpanKind::NetSend | SpanKind::NetReceive);
            let ends = self.ends.entry(object.connection).or_default();
            if moves && ends[end as usize].len() < limits::MOST_PARTIES {
                ends[end as usize].insert(process);
            }
        } else if let Some(waker) = of(batch.waker_track[row]).filter(|waker| *waker != process) {
            let by = if object.name.starts_with("udp:") { called::DATAGRAM } else { called::UNIX_SOCKET };
            self.met.insert((by, process, waker));
        }
    }
}

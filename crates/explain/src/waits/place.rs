//! Where time is charged, before it is put into words.

use super::rules::is_on_files;
use crate::cause::End;
use crate::observe::index::NONE;
use crate::observe::strangers::strangers;
use crate::observe::tables::{Object, Tables};
use std::collections::HashMap;
use thalweg_trace::{ObjectKind, SpanKind};

/// What a thread was doing at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// Running within a span of this kind.
    Running(SpanKind),
    /// Running between spans.
    OwnWork,
    /// Working on the packets of a connection in which its process has no part.
    Carrying,
    /// Runnable and not running.
    Runnable,
    /// Blocked within a span of this kind.
    Blocked(SpanKind),
    /// Neither running, nor runnable, nor waiting for anything.
    Still(SpanKind),
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Polls in a sleep loop; what for is not known.
    Looking,
    /// Sleeps between looks for an object.
    LooksFor(Missing),
}

/// Why what was looked for was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Missing {
    /// It was not there.
    Absent,
    /// It was there, and was not to be.
    Present,
    /// Somebody else had it.
    Busy,
    /// Nobody listened.
    Listener,
    /// Its answers were alike until one differed.
    Answer,
    /// It had not answered.
    Reply,
    /// A program that asked it, or read it, failed; or just failed.
    Success,
}

/// What a sleep stands between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SleptFor {
    /// A question that it took, and its answer.
    Answer,
    /// An answer that it got, and the next question.
    Requests,
    /// Two steps of moving data: it paces itself.
    Steps,
    /// Its beginning to listen: others had tried to connect to it in vain, in this connection last.
    Listen(u32),
    /// Questions for names, between which it did nothing else.
    Names,
    /// Questions of one size to one server, in this connection last, that had answers of one size: it may pace itself, or wait for another answer.
    Alike(u32),
    /// Looks at whether this process, its child, had ended.
    Child(u32),
    /// Nothing: a program that was run in order to sleep, by this thread.
    Run(u32),
    /// It is not known.
    Unknown,
}

impl SleptFor {
    /// Whether the sleep is not the program's own to leave out: others decide when what it is for comes about, or it is not known what it is for.
    pub(crate) fn is_others(self) -> bool {
        match self {
            SleptFor::Listen(_) | SleptFor::Names | SleptFor::Alike(_) | SleptFor::Child(_) | SleptFor::Unknown => true,
            SleptFor::Answer | SleptFor::Requests | SleptFor::Steps | SleptFor::Run(_) => false,
        }
    }
}

/// Where time is charged, before it is put into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// A kind of thread, what it did, and on which object (or [`NONE`]).
    Thread {
        /// Any track with the label.
        label: u32,
        /// What it did.
        what: What,
        /// On what, or [`NONE`].
        object: u32,
    },
    /// Between two kinds of threads: the labels of the sender's and the receiver's.
    Wire(u32, u32),
    /// The far end of a connection of which only one end was recorded.
    FarEnd {
        /// The label of those who see it.
        seen_by: u32,
        /// The connection, or [`NONE`].
        connection: u32,
        /// Which side of it that end is.
        side: End,
    },
    /// A wait for a peer that ended when the waiter's own time limit did: the peer had sent nothing.
    TimeLimit {
        /// The label of who waited.
        waiter: u32,
        /// The connection to the peer, or [`NONE`].
        connection: u32,
        /// A socket that names the peer, where there is no connection, or [`NONE`].
        object: u32,
    },
    /// A thread that was not recorded then, or not at all.
    Unseen {
        /// The thread: a track, no label.
        track: u32,
    },
    /// What a thread waited for that another gave, of which nothing was recorded then.
    Given {
        /// The label of who waited.
        label: u32,
        /// Who gave it: a track, no label.
        by: u32,
        /// In a span of which kind it waited.
        kind: SpanKind,
        /// On what, or [`NONE`].
        object: u32,
    },
    /// A thread that was in no wait, and that no sample found running.
    Hole {
        /// Its label.
        label: u32,
    },
    /// A lock that a thread (a track, no label) holds.
    Held {
        /// The label of those who wait for it.
        waiter: u32,
        /// Whose work or sleep it is that they wait for.
        holder: u32,
        /// What it did meanwhile: slept or ran.
        what: What,
        /// On what, or [`NONE`].
        object: u32,
    },
    /// A lock that another client of the same server has.
    HeldElsewhere {
        /// The client that waits for it: any track with its label.
        waiter: u32,
        /// Whose work or sleep it is that they wait for: a track, or [`NONE`] where nothing was recorded of it.
        holder: u32,
        /// The connection over which it was given back, where the holder is not known.
        connection: u32,
        /// What it did meanwhile.
        what: What,
        /// On what, or [`NONE`].
        object: u32,
        /// Whether the server did that in the client's session, and not the client.
        by_session: bool,
    },
}

impl Place {
    /// Whether it is a wait on something that has a name (a lock, a pipe), and no mere sleep.
    pub(crate) fn is_for_something(&self) -> bool {
        let Place::Thread { what: What::Blocked(kind), object, .. } = *self else { return false };
        object != NONE && kind != SpanKind::WaitTimer && !is_on_files(kind) && kind != SpanKind::WaitMemory
    }
}

/// What places are called by: threads of one kind are one, a run queue is a machine's.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    /// For each actor the lowest actor with the same end and label that is as much a part of what was recorded.
    labels: Vec<u32>,
    /// For each actor the lowest actor at the same end of the same machine: they queue for the same processors.
    queues: Vec<u32>,
    /// For each actor that is no part of what was recorded the one that stands for its program.
    strangers: Vec<u32>,
    /// By object: whether a wait on it is named by it.
    waited_on: Vec<bool>,
}

impl Labels {
    /// Of everyone.
    pub(crate) fn of(tables: &Tables) -> Labels {
        let strangers = strangers(tables);
        let mut first: HashMap<(bool, bool, &str), u32> = HashMap::new();
        let labels = tables.actors.iter().zip(&strangers).enumerate();
        let labels = labels
            .map(|(i, (a, stranger))| *first.entry((a.end == End::Server, *stranger != NONE, &a.label)).or_insert(i as u32))
            .collect();
        let mut first: HashMap<(bool, u32), u32> = HashMap::new();
        let queues = tables.actors.iter().enumerate();
        let queues = queues.map(|(i, a)| *first.entry((a.end == End::Server, a.machine)).or_insert(i as u32)).collect();
        let waited_on = tables.objects.iter().map(|t| t.kind == ObjectKind::Cgroup || waited_on(t).is_some()).collect();
        Labels { labels, queues, strangers, waited_on }
    }

    /// The place of a thread's doing. A run queue is a machine's, whichever thread waits in it.
    pub(crate) fn thread_place(&self, track: u32, what: What, object: u32) -> Place {
        let label = match what {
            What::Runnable => self.queues.get(track as usize).copied().unwrap_or(track),
            _ => self.label(track),
        };
        let object = match what {
            What::Running(kind) | What::Blocked(kind) if is_on_files(kind) || kind == SpanKind::WaitMemory => object,
            What::Blocked(SpanKind::DiskRead | SpanKind::DiskWrite) | What::LooksFor(_) => object,
            // A quota's control group; a pipe, a terminal.
            What::Runnable | What::Blocked(_) if self.waited_on.get(object as usize).is_some_and(|named| *named) => object,
            _ => NONE,
        };
        Place::Thread { label, what, object }
    }

    /// By what a holder is kept: of a program that was not recorded all threads are one.
    pub(crate) fn holder(&self, track: u32) -> u32 {
        self.strangers.get(track as usize).copied().filter(|stands| *stands != NONE).unwrap_or_else(|| self.label(track))
    }

    /// Whether a thread is of a program that is no part of what was recorded.
    pub(crate) fn is_stranger(&self, track: u32) -> bool {
        self.strangers.get(track as usize).is_some_and(|stands| *stands != NONE)
    }

    /// The label of a track.
    pub(crate) fn label(&self, track: u32) -> u32 {
        self.labels.get(track as usize).copied().unwrap_or(track)
    }
}

/// What a wait was on that is neither a file nor a connection, in words.
pub(crate) fn waited_on(object: &Object) -> Option<String> {
    let name = &object.name;
    Some(match object.kind {
        ObjectKind::Terminal => format!("waiting for somebody at terminal {name}"),
        ObjectKind::Pipe => format!("waiting at {name}"),
        ObjectKind::Socket => format!("waiting for an answer at {name}"),
        ObjectKind::Lock if name == "inotify" => "waiting for a file to change (inotify)".to_owned(),
        ObjectKind::Lock => format!("waiting for {name}"),
        ObjectKind::Process => format!("waiting for {name} to end"),
        _ => return None,
    })
}

//! Places of charges, before they are put into words.

use super::rules::is_on_files;
use crate::cause::End;
use crate::observe::index::NONE;
use crate::observe::strangers::strangers;
use crate::observe::tables::{Object, Tables};
use std::collections::HashMap;
use thalweg_trace::{ObjectKind, SpanKind};

/// A thread's activity at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// Running within a span of this kind.
    Running(SpanKind),
    /// Running between spans.
    OwnWork,
    /// Working on the packets of a connection that its process takes no part in.
    Carrying,
    /// Runnable but not running.
    Runnable,
    /// Blocked within a span of this kind.
    Blocked(SpanKind),
    /// Neither running, nor runnable, nor waiting for anything.
    Still(SpanKind),
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Polling in a sleep loop for something unknown.
    Looking,
    /// Sleeping between looks for an object.
    LooksFor(Missing),
}

/// Why a look failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Missing {
    /// The object did not exist.
    Absent,
    /// The object existed, and should not.
    Present,
    /// Another thread held it.
    Busy,
    /// No process listened.
    Listener,
    /// Its answers were equal until one differed.
    Answer,
    /// It had not answered.
    Reply,
    /// A program that asked it, or read it, failed; or a program simply failed.
    Success,
}

/// The purpose of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SleptFor {
    /// Between a request received and its answer.
    Answer,
    /// Between an answer received and the next request.
    Requests,
    /// Between two steps of moving data: pacing.
    Steps,
    /// Before listening: others had failed to connect, last in this connection.
    Listen(u32),
    /// Between name lookups, without other work.
    Names,
    /// Between equal requests to one server with equal answers, last in this connection: it may pace itself, or wait for a different
    /// answer.
    Alike(u32),
    /// Between checks whether this process, its child, had ended.
    Child(u32),
    /// A program run only to sleep, by this thread.
    Run(u32),
    /// Unknown.
    Unknown,
}

impl SleptFor {
    /// Whether the sleep cannot simply be left out: others decide when the awaited event happens, or the purpose is unknown.
    pub(crate) fn is_others(self) -> bool {
        match self {
            SleptFor::Listen(_) | SleptFor::Names | SleptFor::Alike(_) | SleptFor::Child(_) | SleptFor::Unknown => true,
            SleptFor::Answer | SleptFor::Requests | SleptFor::Steps | SleptFor::Run(_) => false,
        }
    }
}

/// The place of a charge, before it is put into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// A kind of thread, its activity, and the object (or [`NONE`]).
    Thread {
        /// Any track with the label.
        label: u32,
        /// The activity.
        what: What,
        /// The object, or [`NONE`].
        object: u32,
    },
    /// Between two kinds of threads, by the labels of sender and receiver.
    Wire(u32, u32),
    /// The unrecorded end of a connection.
    FarEnd {
        /// Label of the threads at the recorded end.
        seen_by: u32,
        /// The connection, or [`NONE`].
        connection: u32,
        /// The side of the unrecorded end.
        side: End,
    },
    /// A wait for a peer that ended at the waiter's own timeout, without a message from the peer.
    TimeLimit {
        /// Label of the waiter.
        waiter: u32,
        /// The connection to the peer, or [`NONE`].
        connection: u32,
        /// A socket that names the peer, if there is no connection, or [`NONE`].
        object: u32,
    },
    /// A thread that was not recorded at the time, or at all.
    Unseen {
        /// The thread: a track, not a label.
        track: u32,
    },
    /// Something that an unrecorded thread gave to a waiting one.
    Given {
        /// Label of the waiter.
        label: u32,
        /// The giver: a track, not a label.
        by: u32,
        /// Kind of the span in which it waited.
        kind: SpanKind,
        /// The object, or [`NONE`].
        object: u32,
    },
    /// A thread that was not waiting, and that no sample found running.
    Hole {
        /// Its label.
        label: u32,
    },
    /// A lock held by a thread (a track, not a label).
    Held {
        /// Label of the waiters.
        waiter: u32,
        /// The holder, whose work or sleep they wait for.
        holder: u32,
        /// The holder's activity: asleep or running.
        what: What,
        /// The object, or [`NONE`].
        object: u32,
    },
    /// A lock held by another client of the same server.
    HeldElsewhere {
        /// The client that waits: any track with its label.
        waiter: u32,
        /// The holder, whose work or sleep is waited for: a track, or [`NONE`] if it was not recorded.
        holder: u32,
        /// The connection over which it was released, if the holder is unknown.
        connection: u32,
        /// The holder's activity.
        what: What,
        /// The object, or [`NONE`].
        object: u32,
        /// Whether the server did it in the client's session, not the client.
        by_session: bool,
    },
}

impl Place {
    /// Whether the place is a wait on a named object (a lock, a pipe), not just a sleep.
    pub(crate) fn is_for_something(&self) -> bool {
        let Place::Thread { what: What::Blocked(kind), object, .. } = *self else { return false };
        object != NONE && kind != SpanKind::WaitTimer && !is_on_files(kind) && kind != SpanKind::WaitMemory
    }
}

/// The names of places: threads of one kind share a place, and a run queue is a machine's.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    /// By actor: the lowest actor with the same end and label that is equally part of what was recorded.
    labels: Vec<u32>,
    /// By actor: the lowest actor at the same end of the same machine, which queues for the same processors.
    queues: Vec<u32>,
    /// By actor that is not part of what was recorded: the actor that stands for its program.
    strangers: Vec<u32>,
    /// By object: whether it names waits on it.
    waited_on: Vec<bool>,
}

impl Labels {
    /// Makes the labels of all actors.
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

    /// The place of a thread's activity. A run queue is a machine's, whichever thread waits in it.
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

    /// The key of a holder: all threads of an unrecorded program are one.
    pub(crate) fn holder(&self, track: u32) -> u32 {
        self.strangers.get(track as usize).copied().filter(|stands| *stands != NONE).unwrap_or_else(|| self.label(track))
    }

    /// Whether a thread belongs to a program that is not part of what was recorded.
    pub(crate) fn is_stranger(&self, track: u32) -> bool {
        self.strangers.get(track as usize).is_some_and(|stands| *stands != NONE)
    }

    /// The label of a track.
    pub(crate) fn label(&self, track: u32) -> u32 {
        self.labels.get(track as usize).copied().unwrap_or(track)
    }
}

/// The object of a wait that is neither a file nor a connection, in words.
pub(crate) fn waited_on(object: &Object) -> Option<String> {
    let name = &object.name;
    Some(match object.kind {
        ObjectKind::Terminal => format!("waiting for a person at terminal {name}"),
        ObjectKind::Pipe => format!("waiting at {name}"),
        ObjectKind::Socket => format!("waiting for an answer at {name}"),
        ObjectKind::Lock if name == "inotify" => "waiting for a file to change (inotify)".to_owned(),
        ObjectKind::Lock => format!("waiting for {name}"),
        ObjectKind::Process => format!("waiting for {name} to end"),
        _ => return None,
    })
}

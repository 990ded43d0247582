//! Changes: the input of proposals, and how each is predicted.

use super::walk::Walk;
use crate::cause::{Cause, End};
use crate::document::RoundTrips;
use crate::facts::again::{Again, Copied, Fetched};
use crate::facts::mounts::Mount;
use crate::facts::names::program;
use crate::facts::set_limits::SetLimits;
use crate::facts::sharing::Foreign;
use crate::limits::replay as limits;
use crate::observe::pipes::Joined;
use crate::observe::questions::UnderWay;
use crate::observe::tables::Tables;
use crate::replay::edit::asks_unseen;
use crate::replay::program::{Class, Graph};
use crate::replay::scale::Scale;
use crate::replay::stages::Stages;
use crate::replay::support::Support;
use std::collections::HashMap;
use thalweg_recipes::{Advised, Fact};
use thalweg_trace::{Knob, Meta};

/// The input of proposals.
pub(crate) struct Run<'a> {
    /// The recorded run.
    pub graph: &'a Graph,
    /// Busy times of its stages.
    pub stages: &'a Stages,
    /// Length of a replay without a change, in nanoseconds.
    pub replayed_ns: f64,
    /// The recording's metadata.
    pub meta: &'a Meta,
    /// The mounted stores that the program worked in.
    pub mounts: &'a [Mount],
    /// Facts for recipes.
    pub facts: &'a [Fact],
    /// Number of their servers that moved a fair part of the data.
    pub servers_used: usize,
    /// Requests and answers, in a run that is about answers.
    pub trips: Option<&'a RoundTrips>,
    /// The walk, if it is one of this project's client, entry by entry.
    pub walk: Option<Walk>,
    /// Number of files and names used by the command, if counted.
    pub files: Option<u64>,
    /// Devices' time for unrecorded programs, by machine and name.
    pub foreign: &'a HashMap<(u32, String), Foreign>,
    /// Changes that the recording supports.
    pub support: &'a Support,
    /// Number of processors of the command's machine that other programs used.
    pub others_busy: f64,
    /// Whether the purpose of most sleeps is known.
    pub reasons_known: bool,
    /// Limits that were set.
    pub limits: &'a SetLimits,
    /// Actors and objects.
    pub tables: &'a Tables,
    /// Threads that wait by running.
    pub spinning: Vec<u32>,
    /// Requests in flight, if something limits their number and the run waited for them: those of servers on behalf of the command, else
    /// the command's.
    pub pool: Option<UnderWay>,
    /// Two processes that took turns because of a small pipe.
    pub joined: Option<Joined>,
    /// The file that was read several times over.
    pub read_again: Option<Again>,
    /// The file that was written several times over.
    pub written_again: Option<Again>,
    /// The file whose bytes were copied to another.
    pub copied_again: Option<Copied>,
    /// Repeated requests to a server.
    pub fetched_again: Option<Fetched>,
    /// The command's requests, if it waited for them most of the time.
    pub asked: Option<UnderWay>,
    /// Whether a database committed many transactions one by one.
    pub transactions: bool,
    /// Whether the command made many requests to a server.
    pub asks: bool,
    /// The part of the run that the network needs for its bytes.
    pub network_part: f64,
    /// Whether the network was full from the first byte to the last.
    pub network_full: bool,
    /// The part of the run that a disk needs for its requests, whenever they are made; 0 if none was waited for.
    pub disk_part: f64,
    /// For a copy by requests: its unchanged edit's length, in nanoseconds; `None` if that does not reproduce the run.
    pub copied_ns: Option<f64>,
}

/// The method of a prediction.
#[derive(Clone, Debug)]
pub(crate) enum By {
    /// Replays under a scale.
    Replay(Box<Scale>),
    /// Replays an edit of the recorded graph.
    Edit(Box<Graph>),
    /// Replays an edit of a copy's requests, compared with [`Run::copied_ns`].
    EditCopy(Box<Graph>),
    /// Replays an edit as a bound: the resource it uses more was not recorded, and an unrecorded one limits nothing in a replay; or
    /// overlapping work may have to wait for each other.
    EditBound(Box<Graph>),
    /// The turns of a walk of this project's client, each at its recorded cost: this many nanoseconds, where the replay without a change
    /// takes `replayed_ns`.
    Turns(f64),
    /// At least this many nanoseconds, where the replay without a change takes `replayed_ns`: for changes that no edit can express.
    Bound(f64),
}

/// A change.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    /// Kind of the change, for programs.
    pub id: &'static str,
    /// The change in words.
    pub change: String,
    /// How to make it, if nothing is known of the program.
    pub how: String,
    /// The flags alone, if flags make it.
    pub flags: Vec<(String, String)>,
    /// The recorded command with the change made, if one of this project's knobs makes it.
    pub command: Vec<String>,
    /// A recipe's advice, if already found.
    pub advised: Option<Advised>,
    /// Its prediction.
    pub by: By,
}

impl Proposal {
    pub(super) fn new(id: &'static str, change: impl Into<String>, how: impl Into<String>, by: By) -> Proposal {
        Proposal { id, change: change.into(), how: how.into(), flags: Vec::new(), command: Vec::new(), advised: None, by }
    }

    pub(super) fn replay(id: &'static str, change: impl Into<String>, how: impl Into<String>, scale: Scale) -> Proposal {
        Proposal::new(id, change, how, By::Replay(Box::new(scale)))
    }

    /// Sets another value of a knob, if the recording has it.
    pub(super) fn with_knob(self, meta: &Meta, name: &str, value: usize) -> Proposal {
        let value = value.to_string();
        match Knob::of(meta, name) {
            Some(knob) => {
                Proposal { how: knob.how(&value), flags: knob.flags(&value), command: knob.command(&value, &meta.command), ..self }
            }
            None => self,
        }
    }

    /// More requests in flight, to recorded or unrecorded servers.
    pub(super) fn requests(run: &Run<'_>, id: &'static str, change: impl Into<String>, how: impl Into<String>, graph: Graph) -> Proposal {
        let by = if asks_unseen(run.graph) { By::EditBound } else { By::Edit };
        Proposal::new(id, change, how, by(Box::new(graph)))
    }
}

impl Run<'_> {
    /// The program of a thread.
    pub(super) fn name_of(&self, track: u32) -> String {
        program(self.tables, self.meta, track)
    }

    /// The name of the command's CPUs, with or without a server.
    pub(super) fn clients_cpus(&self) -> &'static str {
        let elsewhere = |cause: &Cause| cause.is_network() || cause.end() == Some(End::Server);
        let is_client = self.network_part > 0.0 || Cause::ALL.iter().any(|&cause| elsewhere(&cause) && self.support.share(&[cause]) > 0.0);
        if is_client { "the client's CPUs" } else { "CPUs" }
    }

    /// Whether this many nanoseconds are worth a replay.
    pub(super) fn matters(&self, ns: f64) -> bool {
        ns >= self.replayed_ns * limits::MATTERS_PART
    }

    /// Time that threads of one end ran.
    pub(super) fn ran_ns(&self, end: End) -> f64 {
        self.graph.programs.iter().zip(&self.stages.run).filter(|(program, _)| program.end == end).map(|(_, ns)| ns).sum()
    }

    /// Run time of the thread that ran longest; running that is waiting does not count.
    pub(super) fn busiest_ns(&self) -> f64 {
        let runs = self.graph.programs.iter().zip(&self.stages.run).filter(|(program, _)| !self.spinning.contains(&program.track));
        runs.map(|(_, ns)| *ns).fold(0.0, f64::max)
    }

    pub(super) fn delayed(&self, classes: &[Class]) -> bool {
        self.matters(classes.iter().map(|&c| self.stages.delays[c as usize]).sum())
    }
}

//! What a change is: what proposals are made from, and how each is predicted.

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

/// What proposals are made from.
pub(crate) struct Run<'a> {
    /// The recorded run.
    pub graph: &'a Graph,
    /// How busy its stages were.
    pub stages: &'a Stages,
    /// How long a replay without a change takes, in nanoseconds.
    pub replayed_ns: f64,
    /// What was said of the recording.
    pub meta: &'a Meta,
    /// The mounted stores that the program worked in.
    pub mounts: &'a [Mount],
    /// What recipes may ask of it.
    pub facts: &'a [Fact],
    /// How many servers of theirs moved a fair part of the data.
    pub servers_used: usize,
    /// What was asked and waited for, in a run that is about answers.
    pub trips: Option<&'a RoundTrips>,
    /// The same, where it is a walk of our own client's, entry by entry.
    pub walk: Option<Walk>,
    /// How many files and names the command dealt with, where that was counted.
    pub files: Option<u64>,
    /// When devices served programs that were not recorded, by machine and name.
    pub foreign: &'a HashMap<(u32, String), Foreign>,
    /// What the recording supports.
    pub support: &'a Support,
    /// How many processors of the command's machine other programs had.
    pub others_busy: f64,
    /// Whether it is known of most sleeps what they were for.
    pub reasons_known: bool,
    /// Limits that somebody set.
    pub limits: &'a SetLimits,
    /// Who is who.
    pub tables: &'a Tables,
    /// Threads that wait by running.
    pub spinning: Vec<u32>,
    /// How many questions were under way at a time, where something holds that number and the run waited for them: those of servers that asked on for the
    /// command, else the command's.
    pub pool: Option<UnderWay>,
    /// Two processes that took turns, since the pipe between them holds little.
    pub joined: Option<Joined>,
    /// The file that was read several times over.
    pub read_again: Option<Again>,
    /// The file that was written several times over.
    pub written_again: Option<Again>,
    /// The file that was written to another one once more.
    pub copied_again: Option<Copied>,
    /// What was asked of a server again and again.
    pub fetched_again: Option<Fetched>,
    /// The command's questions, where it waited for them most of the time.
    pub asked: Option<UnderWay>,
    /// Whether a database made many transactions durable, one by one.
    pub transactions: bool,
    /// Whether the command asked a server many questions.
    pub asks: bool,
    /// The part of the run that the network needs for its bytes.
    pub network_part: f64,
    /// Whether the network was full from the first byte to the last.
    pub network_full: bool,
    /// Which part of the run a disk needs for its requests, whenever they are made; 0 where none was waited for.
    pub disk_part: f64,
    /// Of a copy by requests: its edit with as many in flight as there were, in nanoseconds; `None` where that is not the run again.
    pub copied_ns: Option<f64>,
}

/// How a prediction is made.
#[derive(Clone, Debug)]
pub(crate) enum By {
    /// Replaying under a scale.
    Replay(Box<Scale>),
    /// Replaying an edit of the recorded graph.
    Edit(Box<Graph>),
    /// The same of a copy's requests, held against [`Run::copied_ns`].
    EditCopy(Box<Graph>),
    /// The same, as a bound: what it asks more of was not recorded, and who is not seen to be busy limits nothing in a replay; or what goes on side
    /// by side may have to wait for each other.
    EditBound(Box<Graph>),
    /// The turns of a walk of our own client, each at what it costs in the recording: so many nanoseconds, where the replay without a change takes
    /// `replayed_ns`.
    Turns(f64),
    /// So many nanoseconds at the least, where the replay without a change takes `replayed_ns`: what no edit gives.
    Bound(f64),
}

/// A change.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    /// What kind of change, for programs.
    pub id: &'static str,
    /// In words.
    pub change: String,
    /// What makes it, where nothing is known of the program.
    pub how: String,
    /// The flags alone, where it is a matter of flags.
    pub flags: Vec<(String, String)>,
    /// The recorded command with the change made, where a knob of ours makes it.
    pub command: Vec<String>,
    /// What a recipe says of it, where it was asked already.
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

    /// With another value of a knob, where the recording has it.
    pub(super) fn with_knob(self, meta: &Meta, name: &str, value: usize) -> Proposal {
        let value = value.to_string();
        match Knob::of(meta, name) {
            Some(knob) => {
                Proposal { how: knob.how(&value), flags: knob.flags(&value), command: knob.command(&value, &meta.command), ..self }
            }
            None => self,
        }
    }

    /// More requests at once, of servers that were recorded or not.
    pub(super) fn requests(run: &Run<'_>, id: &'static str, change: impl Into<String>, how: impl Into<String>, graph: Graph) -> Proposal {
        let by = if asks_unseen(run.graph) { By::EditBound } else { By::Edit };
        Proposal::new(id, change, how, by(Box::new(graph)))
    }
}

impl Run<'_> {
    /// The program whose thread this is.
    pub(super) fn name_of(&self, track: u32) -> String {
        program(self.tables, self.meta, track)
    }

    /// The command's CPUs, as they are called where there is a server too, and where there is none.
    pub(super) fn clients_cpus(&self) -> &'static str {
        let elsewhere = |cause: &Cause| cause.is_network() || cause.end() == Some(End::Server);
        let is_client = self.network_part > 0.0 || Cause::ALL.iter().any(|&cause| elsewhere(&cause) && self.support.share(&[cause]) > 0.0);
        if is_client { "the client's CPUs" } else { "CPUs" }
    }

    /// Whether so many nanoseconds are worth looking at.
    pub(super) fn matters(&self, ns: f64) -> bool {
        ns >= self.replayed_ns * limits::MATTERS_PART
    }

    /// For how long threads of one end ran.
    pub(super) fn ran_ns(&self, end: End) -> f64 {
        self.graph.programs.iter().zip(&self.stages.run).filter(|(program, _)| program.end == end).map(|(_, ns)| ns).sum()
    }

    /// For how long the thread ran that ran longest; running that is a wait does not count.
    pub(super) fn busiest_ns(&self) -> f64 {
        let runs = self.graph.programs.iter().zip(&self.stages.run).filter(|(program, _)| !self.spinning.contains(&program.track));
        runs.map(|(_, ns)| *ns).fold(0.0, f64::max)
    }

    pub(super) fn delayed(&self, classes: &[Class]) -> bool {
        self.matters(classes.iter().map(|&c| self.stages.delays[c as usize]).sum())
    }
}

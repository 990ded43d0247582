//! Changes of any program's run: one file for each thing that can be changed, and one line in [`ALL`].

mod devices;
mod far_end;
mod layout;
mod link;
mod locks;
mod overlap;
pub(crate) mod parallel;
mod pauses;
mod processors;
pub(crate) mod requests;
mod streams;
mod sync;
pub(crate) mod walk;
mod windows;

use super::edit::asks_unseen;
use super::program::{Class, Graph};
use super::scale::Scale;
use super::stages::Stages;
use super::support::Support;
use crate::assemble::sharing::Foreign;
use crate::assemble::summary::names::program;
use crate::cause::{Cause, End};
use crate::document::RoundTrips;
use crate::limits::replay as limits;
use crate::observe::tables::Tables;
use crate::replay::mounts::Mount;
use std::collections::HashMap;
use thalweg_recipes::{Advised, Fact};
use thalweg_trace::{Knob, Meta};
use walk::Walk;

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
    /// Who is who.
    pub tables: &'a Tables,
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
    /// The same, where what it asks more of was not recorded: who is not seen to be busy limits nothing in a replay, and so it is a bound.
    EditUnseen(Box<Graph>),
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
    fn new(id: &'static str, change: impl Into<String>, how: impl Into<String>, by: By) -> Proposal {
        Proposal { id, change: change.into(), how: how.into(), flags: Vec::new(), command: Vec::new(), advised: None, by }
    }

    fn replay(id: &'static str, change: impl Into<String>, how: impl Into<String>, scale: Scale) -> Proposal {
        Proposal::new(id, change, how, By::Replay(Box::new(scale)))
    }

    /// With another value of a knob, where the recording has it.
    fn with_knob(self, meta: &Meta, name: &str, value: usize) -> Proposal {
        let value = value.to_string();
        match Knob::of(meta, name) {
            Some(knob) => {
                Proposal { how: knob.how(&value), flags: knob.flags(&value), command: knob.command(&value, &meta.command), ..self }
            }
            None => self,
        }
    }

    /// More requests at once, of servers that were recorded or not.
    fn requests(run: &Run<'_>, id: &'static str, change: impl Into<String>, how: impl Into<String>, graph: Graph) -> Proposal {
        let by = if asks_unseen(run.graph) { By::EditUnseen } else { By::Edit };
        Proposal::new(id, change, how, by(Box::new(graph)))
    }
}

impl Run<'_> {
    /// The program whose thread this is.
    fn name_of(&self, track: u32) -> String {
        program(self.tables, self.meta, track)
    }

    /// Whether so many nanoseconds are worth looking at.
    fn matters(&self, ns: f64) -> bool {
        ns >= self.replayed_ns * limits::MATTERS_PART
    }

    /// For how long threads of one end ran.
    fn ran_ns(&self, end: End) -> f64 {
        self.graph.programs.iter().zip(&self.stages.run).filter(|(program, _)| program.end == end).map(|(_, ns)| ns).sum()
    }

    fn delayed(&self, classes: &[Class]) -> bool {
        self.matters(classes.iter().map(|&c| self.stages.delays[c as usize]).sum())
    }
}

/// Proposals of one kind.
pub(crate) type Change = fn(&Run<'_>) -> Vec<Proposal>;

/// Every kind of change.
pub(crate) const ALL: &[Change] = &[
    devices::propose,
    sync::propose,
    pauses::propose,
    locks::propose,
    processors::propose,
    parallel::propose,
    link::propose,
    streams::propose,
    requests::propose,
    overlap::propose,
    far_end::propose,
    layout::propose,
    windows::propose,
];

/// The changes that are aimed at a cause, best known first.
pub(crate) const fn aimed_at(cause: Cause) -> &'static [&'static str] {
    use Cause as C;
    match cause {
        C::ClientRead | C::ServerRead => &["no_disk_hog", "device.read.x2", "overlap.read_send", "layout.wide"],
        C::ClientWrite | C::ServerWrite => &["no_disk_hog", "device.write.x2", "layout.wide"],
        C::ClientSync | C::ServerSync => &["no_disk_hog", "no_sync", "device.write.x2", "layout.wide"],
        C::ClientMetadata | C::ServerMetadata => &["no_disk_hog", "metadata.x2", "requests.x4"],
        C::ClientMemory | C::ServerMemory => &["no_throttle", "device.write.x2"],
        C::ClientCpu => &["processors.all", "commands.all", "cpu.client.x2", "processors.x2"],
        C::ServerCpu => &["cpu.server.x2", "processors.x2"],
        C::ClientRunqueue | C::ServerRunqueue => &["no_cpu_quota", "no_hog", "processors.x2"],
        C::ClientLock | C::ServerLock => &["no_lock"],
        C::ClientThink | C::ServerThink => &["no_think", "no_stop", "no_poll"],
        C::ServerUnknown => &["server.x2", "requests.x4"],
        C::NetworkLoss => &["no_loss", "streams.x4"],
        C::NetworkSndbuf | C::NetworkRwnd => &["window.x4", "streams.x4"],
        C::NetworkCwnd => &["no_slow_start", "rtt.half", "streams.x4"],
        C::NetworkLatency => &["rtt.half", "requests.x4", "layout.local"],
        C::NetworkBandwidth => &["link.x2", "layout.local"],
        C::Recorder => &["no_recorder"],
        C::Unknown => &[],
    }
}

//! The replay model of any program: its recorded threads as programs that run, wait for each other, for bytes and for devices, replayed
//! with one thing changed at a time.
//!
//! A recording becomes timelines ([`timeline`]) of running and waiting; each wait gets its dependency ([`build`]): an action of a thread
//! ([`program::Op::Follow`]), bytes of a connection ([`streams`]), a device, or just time. The replay ([`simulate`]) without a change gives
//! the recorded run, except for queueing at processors; each change ([`changes`]) is a scale ([`scale`]) on one kind of time, or an edit of
//! the graph (more requests in flight: [`edit`]; of a copy: [`edit_copy`]), and the prediction is the observed time, times the ratio of the
//! two replays. A change that no edit can express is a bound. Nothing is predicted that the recording does not support ([`support`]), and
//! nothing if the replay misses the observed time by more than [`limits::MOST_ERROR`].

pub(crate) mod beside;
mod build;
pub(crate) mod changes;
pub(crate) mod depends;
pub(crate) mod edit;
pub(crate) mod edit_copy;
pub(crate) mod edit_parallel;
mod edit_pipe;
pub(crate) mod facts;
pub(crate) mod flows;
pub(crate) mod interval;
pub(crate) mod program;
pub(crate) mod queueing;
pub(crate) mod ranks;
pub(crate) mod recorded;
pub(crate) mod regime;
pub(crate) mod rows;
pub(crate) mod scale;
pub(crate) mod services;
pub(crate) mod simulate;
pub(crate) mod stages;
pub(crate) mod streams;
pub(crate) mod support;
pub(crate) mod timeline;

use crate::ExplainError;
use crate::cause::{Cause, End};
use crate::document::{Grounds, MAX_WHAT_IFS, Model, RoundTrips, WhatIf};
use crate::facts::Parts;
use crate::facts::again::{Again, Copied, Fetched};
use crate::facts::ceiling;
use crate::facts::for_recipes;
use crate::facts::mounts::{Mount, mounts};
use crate::facts::raise::Raise;
use crate::limits::replay as limits;
use crate::observe::observation::Way;
use crate::observe::questions::UnderWay;
use changes::aimed_at;
use changes::proposal::{By, Proposal, Run};
use changes::raised;
use changes::walk::Walk;
use edit_copy::edited;
use program::Graph;
use recorded::Recorded;
use scale::Scale;
use simulate::{simulate, simulate_edit};
use stages::Stages;
use std::collections::{HashMap, HashSet};
use support::Support;
use thalweg_base::numbers::duration;
use thalweg_recipes::Asked;
use thalweg_trace::{Meta, Source};

/// The model's results.
#[derive(Clone, Debug)]
pub(crate) struct Prediction {
    /// How well it replays the run.
    pub model: Model,
    /// The changes' effects, best first.
    pub what_if: Vec<WhatIf>,
    /// A further note for the reader.
    pub note: Option<String>,
}

/// The result if no prediction was requested.
pub(crate) fn not_asked() -> Prediction {
    Prediction { model: Model { replayed_wall_s: None, error: None, reason: None }, what_if: Vec::new(), note: None }
}

/// Replays the run, and predicts the effects of changes.
pub(crate) fn predict(
    source: &dyn Source,
    parts: &Parts<'_>,
    recorded: Recorded,
    trips: Option<&RoundTrips>,
    raises: &[Raise],
) -> Prediction {
    match graph(source, parts, recorded) {
        Ok(Some((graph, support))) => predict_from(graph, &support, parts, source.meta(), (trips, raises)),
        Ok(None) => refuse(None, None, "no thread of the command was recorded, so there is nothing to replay".to_owned()),
        Err(error) => refuse(None, None, format!("the recording could not be read a second time: {error}")),
    }
}

/// The recorded run as a graph, and what it supports.
fn graph(source: &dyn Source, parts: &Parts<'_>, recorded: Recorded) -> Result<Option<(Graph, Support)>, ExplainError> {
    let facts = facts::facts(source, parts)?;
    let Recorded { rows, mut timelines } = recorded;
    let support = Support::of(parts, source.meta(), &rows);
    timeline::join(&mut timelines);
    Ok(build::build(parts, &rows, &facts, timelines).map(|graph| (graph, support)))
}

/// Fits the replay's length to the run's, if it brings about less queueing for processors than this run's threads had: adds background load
/// of other programs, up to half a processor, and then keeps the remaining queueing as recorded. Returns the replay's length in ns.
fn keep_queueing(graph: &mut Graph, stages: &Stages, replayed_ns: f64) -> f64 {
    if stages.delays[program::Class::Ours as usize] <= 0.0 {
        return replayed_ns;
    }
    let replayed_ns = fit(graph, replayed_ns, limits::MOST_FOREIGN, |graph, foreign| graph.foreign = foreign);
    fit(graph, replayed_ns, 1.0, |graph, kept| graph.kept = kept)
}

/// Sets the largest value up to `most` with which the replay is no longer than the run; leaves a replay alone that is near. Returns its
/// length in ns.
fn fit(graph: &mut Graph, replayed_ns: f64, most: f64, set: impl Fn(&mut Graph, f64)) -> f64 {
    if replayed_ns > graph.wall_ns * (1.0 - limits::FIT_NEAR) {
        return replayed_ns;
    }
    let (mut least, mut least_ns, mut most, mut tried) = (0.0, replayed_ns, most, most);
    for _ in 0..limits::HALVINGS {
        set(graph, tried);
        match simulate(graph, &Scale::none()).filter(|ns| *ns <= graph.wall_ns) {
            Some(ns) => (least, least_ns) = (tried, ns),
            None => most = tried,
        }
        tried = f64::midpoint(least, most);
    }
    set(graph, least);
    least_ns
}

fn refuse(replayed_wall_s: Option<f64>, error: Option<f64>, reason: String) -> Prediction {
    Prediction { model: Model { replayed_wall_s, error, reason: Some(reason) }, what_if: Vec::new(), note: None }
}

fn predict_from(
    mut graph: Graph,
    support: &Support,
    parts: &Parts<'_>,
    meta: &Meta,
    (trips, raises): (Option<&RoundTrips>, &[Raise]),
) -> Prediction {
    let Some(bare_ns) = simulate(&graph, &Scale::none()) else {
        return refuse(None, None, "the replay of this run cannot finish: too much of what threads waited for was not recorded".into());
    };
    let stages = Stages::of(&graph);
    let replayed_ns = keep_queueing(&mut graph, &stages, bare_ns);
    let graph = &graph;
    let wall_s = parts.wall_s();
    // If only the end of a long run is replayed, it stands for all of it.
    let replayed_s = wall_s * replayed_ns / graph.wall_ns.max(1.0);
    let error = (replayed_s - wall_s).abs() / wall_s;
    if error > limits::MOST_ERROR {
        let reason = format!(
            "the model replays this run in {} instead of the observed {}: too far off to predict from",
            duration(replayed_s),
            duration(wall_s)
        );
        return refuse(Some(replayed_s), Some(error), reason);
    }
    let mounts = mounts(meta);
    let servers_used = servers_used(parts, &mounts);
    let facts = for_recipes::facts(meta, parts, &mounts);
    let transactions = raises.iter().any(Raise::is_of_transactions);
    let run = Run {
        graph,
        stages: &stages,
        replayed_ns,
        meta,
        mounts: &mounts,
        facts: &facts,
        servers_used,
        trips,
        walk: Walk::of(parts, meta, trips),
        files: parts.around.files.map(|counts| counts.most()),
        foreign: &parts.sharing.foreign,
        support,
        others_busy: others_busy(parts, meta),
        reasons_known: parts.ledger.knows_why_it_slept() && parts.ledger.slept_by_choice() && parts.tables.mostly_failed().next().is_none(),
        limits: &parts.around.limits,
        tables: parts.tables,
        spinning: parts.waiting_by_running(),
        joined: parts.taking_turns_at_a_pipe().map(|(joined, _)| joined).filter(|joined| joined.is_directed),
        pool: [End::Server, End::Client].into_iter().filter_map(|by| waited_for(parts, by)).find(UnderWay::is_held),
        read_again: Again::find(parts, false),
        written_again: Again::find(parts, true).filter(|_| !transactions),
        transactions,
        copied_again: Copied::find(parts),
        fetched_again: Fetched::find(meta, parts),
        asked: waited_for(parts, End::Client),
        asks: parts.seen.questions.under_way(End::Client, parts.tables).is_some_and(|own| own.count >= limits::MANY_QUESTIONS),
        network_part: network_part(parts, support),
        network_full: largest_cause(parts) == Cause::NetworkBandwidth && ceiling::is_full(parts),
        disk_part: disk_part(parts, support),
        copied_ns: copied_ns(graph, meta, replayed_ns),
    };
    let proposals = changes::ALL.iter().flat_map(|propose| propose(&run));
    let mut all = simplest(proposals.filter_map(|p| what_if(p, &run, wall_s)).collect());
    leave_out(&mut all, raises);
    let raised: Vec<WhatIf> = raised::propose(&run, raises, &all).into_iter().filter_map(|p| what_if(p, &run, wall_s)).collect();
    all.retain(|w| raised.iter().all(|raised| raised.id != w.id));
    all.extend(raised);
    let note = (graph.wall_ns < wall_s * 1e9 * limits::WHOLE_RUN).then(|| {
        format!("The run is long: predictions come from its last {}, assumed to be like the rest.", duration(graph.wall_ns / 1e9))
    });
    Prediction {
        model: Model { replayed_wall_s: Some(replayed_s), error: Some(error), reason: None },
        what_if: best(all, wall_s, aimed_at(largest_cause(parts))),
        note,
    }
}

/// Removes changes that a named cause rules out.
fn leave_out(all: &mut Vec<WhatIf>, raises: &[Raise]) {
    let named = |id: &str| raises.iter().any(|raise| raise.id == id);
    // A delayed acknowledgement is no path that gets shorter, and no slow server; requests that wait at a server are not answered sooner if
    // there are more of them. A thread that waits for a lock makes no more requests until the lock is released.
    let (held_back, queued) = (named("no_nagle"), named("server.parallel") || named("lock.outside"));
    // A name server that is slow, dead or asked for missing names is not helped by changes for other servers.
    let of_servers = ["server.x2", "server.parallel", "rtt.half", "requests.x4", "no_think", "no_poll", "connect_once", "no_loss"];
    let is_of_names = named("names_at_once");
    all.retain(|w| !(is_of_names && of_servers.contains(&w.id.as_str())));
    all.retain(|w| !(held_back && matches!(w.id.as_str(), "rtt.half" | "server.x2") || queued && w.id == "requests.x4"));
}

/// The requests of one end, if the run waited for them.
fn waited_for(parts: &Parts<'_>, by: End) -> Option<UnderWay> {
    parts.seen.questions.waited_for(by, parts.tables, parts.end - parts.start)
}

/// For a copy by requests, the length of the edit that changes nothing: if that does not reproduce the run, with or without the kept
/// queueing (edits have none), no other edit can be trusted.
fn copied_ns(graph: &Graph, meta: &Meta, replayed_ns: f64) -> Option<f64> {
    let (requests, depth) = changes::requests::in_flight_as_set(graph, meta);
    let ns = simulate_edit(&edited(graph, requests, depth)?)?;
    let bare_ns = if graph.kept > 0.0 { simulate(&Graph { kept: 0.0, ..graph.clone() }, &Scale::none())? } else { replayed_ns };
    let (least, most) = (bare_ns.min(replayed_ns) * (1.0 - limits::MOST_ERROR), bare_ns.max(replayed_ns) * (1.0 + limits::MOST_ERROR));
    (least..=most).contains(&ns).then_some(ns)
}

/// The part of the run that the network needs for its bytes in any order, if it was full for a fair part of it.
fn network_part(parts: &Parts<'_>, support: &Support) -> f64 {
    let sustained = parts.on_wire.sustained().filter(|_| support.share(&[Cause::NetworkBandwidth]) >= limits::FULL_PART);
    sustained.map_or(0.0, |sustained| sustained.least_ns() / (parts.end - parts.start).max(1) as f64).min(1.0)
}

/// The part of the run that a disk needs for its requests in any order, if disks were waited for a fair part of it: its time at the limit
/// set on it, or else its busy time.
fn disk_part(parts: &Parts<'_>, support: &Support) -> f64 {
    use Cause as C;
    let of_disks =
        [C::ClientRead, C::ServerRead, C::ClientWrite, C::ServerWrite, C::ClientSync, C::ServerSync, C::ClientMemory, C::ServerMemory];
    let limited = parts.around.limits.longest_s() / parts.wall_s();
    if support.share(&of_disks) < limits::FULL_PART || !parts.sharing.foreign.is_empty() {
        return limited.min(1.0);
    }
    let busy = parts.seen.devices.keys().filter_map(|&track| parts.device_busy(track)).fold(0.0, f64::max);
    limited.max(busy).min(1.0)
}

/// Whether a change leaves the network, and its traffic, unchanged.
fn leaves_network(id: &str) -> bool {
    const NETWORKS: [&str; 10] =
        ["link.", "rtt.", "window.", "streams.", "no_loss", "no_slow_start", "layout.", "fetch_once", "read_once", "walk."];
    !NETWORKS.iter().any(|network| id.starts_with(network))
}

fn what_if(proposal: Proposal, run: &Run<'_>, wall_s: f64) -> Option<WhatIf> {
    // With several connections, part of the link's waits is charged to latency, and to processors that take turns slowly.
    let doubled = if run.network_full && proposal.id == "link.x2" { run.network_part / 2.0 } else { 0.0 };
    let most = run.support.most(proposal.id)?.max(doubled);
    let reading_ns = |factor: f64| (run.graph.reading_ns * factor).min(run.replayed_ns);
    let ns = match &proposal.by {
        // Reading for others while this run's threads wait takes time as well.
        By::Replay(scale) => simulate(run.graph, scale)?.max(reading_ns(scale.device[program::Class::Read as usize] * scale.foreign)),
        By::Edit(graph) | By::EditBound(graph) => simulate_edit(graph)?.max(reading_ns(1.0)),
        By::EditCopy(graph) => (simulate_edit(graph)? * run.replayed_ns / run.copied_ns?).max(reading_ns(1.0)),
        By::Turns(ns) | By::Bound(ns) => *ns,
    };
    // Traffic over a full link takes as long as the link needs for it, whatever else changes.
    let network = if leaves_network(proposal.id) { run.network_part } else { 0.0 };
    // Nor does a disk serve its requests faster if they come sooner.
    let asks_sooner = proposal.id.starts_with("cpu.") || proposal.id.starts_with("overlap.");
    let disk = if asks_sooner { run.disk_part } else { 0.0 };
    let shorter = (ns / run.replayed_ns).min(1.0 - doubled);
    let beside = run.support.beside(proposal.id);
    let (replayed, least) = (shorter.max(network).max(disk).max(beside), 1.0 - most);
    // A result limited only by the charges is no replay (a fiftieth is the resolution of both), nor are streams over a link of unknown
    // rate.
    let capped = replayed < least - limits::CAPPED_BY;
    let no_limit = matches!(&proposal.by, By::Replay(scale) if proposal.id == "streams.x4" && scale.least_ns_per_byte <= 0.0);
    let waits_stay = matches!(proposal.id, "no_think" | "no_stop") && replayed > 1.0 - most * (1.0 - limits::LEFT_OF_WAITS);
    let holds_back = beside > 0.0 && replayed <= beside;
    let bounded = capped || no_limit || waits_stay || holds_back || matches!(proposal.by, By::Bound(_) | By::EditBound(_));
    let basis = if bounded { Grounds::Bounded } else { Grounds::Replayed };
    let predicted_wall_s = wall_s * if waits_stay { least.max(network).max(disk).max(beside) } else { replayed.max(least) }.clamp(0.0, 1.0);
    let missed = (run.replayed_ns / run.graph.wall_ns.max(1.0) - 1.0).abs();
    // A knob has its own method.
    let asked = Asked { command: &run.meta.command, facts: run.facts };
    let of_recipe = || if proposal.flags.is_empty() { asked.for_change(proposal.id) } else { None };
    let advised = proposal.advised.or_else(of_recipe);
    let (how, command, gives_up, recipe) = match advised {
        Some(advised) => (advised.says, advised.command, advised.gives_up, Some(advised.recipe)),
        None => (proposal.how, proposal.command, None, None),
    };
    Some(WhatIf {
        id: proposal.id.to_owned(),
        change: if basis == Grounds::Bounded { format!("{} (gives this at most)", proposal.change) } else { proposal.change },
        basis,
        predicted_wall_s,
        interval_s: interval::interval(proposal.id, basis, wall_s, predicted_wall_s, missed),
        speedup: wall_s / predicted_wall_s.max(1e-9),
        about: support::about(proposal.id).to_vec(),
        how,
        flags: proposal.flags,
        command,
        gives_up,
        recipe,
    })
}

/// Mean number of the command's processors that other programs used: what its machine counted busy, beyond the command's own time and that
/// of recorded threads.
fn others_busy(parts: &Parts<'_>, meta: &Meta) -> f64 {
    let counted = |wanted: &str| meta.attributes.iter().find(|(name, _)| name == wanted)?.1.parse::<f64>().ok();
    let machine = parts.tables.actors.get(parts.tables.main as usize).map_or(0, |main| main.machine);
    let servers = parts.processors_of(|actor| actor.machine == machine && actor.end == End::Server);
    let own = parts.processors_of(|actor| actor.machine == machine).max(counted("cpus.own").unwrap_or(0.0) + servers);
    counted("cpus.busy").map(|busy| busy - own).filter(|others| *others >= limits::LEAST_OTHERS).unwrap_or(0.0)
}

/// Of changes of one kind, from simple to far-reaching, the first whose gain is nearly the best.
fn simplest(all: Vec<WhatIf>) -> Vec<WhatIf> {
    let mut best: HashMap<String, f64> = HashMap::new();
    for what_if in &all {
        let best = best.entry(what_if.id.clone()).or_insert(f64::INFINITY);
        *best = best.min(what_if.predicted_wall_s);
    }
    let mut found = HashSet::new();
    let near = |w: &WhatIf| w.predicted_wall_s <= best[&w.id] * limits::NEAR_BEST;
    all.into_iter().filter(|w| near(w) && found.insert(w.id.clone())).collect()
}

/// Number of mounted stores' servers that moved at least a tenth of the busiest one's bytes.
fn servers_used(parts: &Parts<'_>, mounts: &[Mount]) -> usize {
    let mut moved: HashMap<&str, u64> = HashMap::new();
    for way in [Way::ClientSends, Way::ServerSends, Way::ClientReceives] {
        let gathered = parts.tables.objects.iter().zip(&parts.seen.stream(way).by_object);
        for (object, gathered) in gathered.filter_map(|(object, gathered)| Some((object, gathered.as_ref()?))) {
            let server = object.name.split_once(" > ").map_or("", |(_, server)| server);
            if let Some(server) = mounts.iter().flat_map(|mount| &mount.store.servers).find(|known| known.address == server) {
                *moved.entry(&server.address).or_default() += gathered.bytes;
            }
        }
    }
    let most = moved.values().copied().max().unwrap_or(0);
    moved.values().filter(|&&bytes| bytes * limits::USED_PART >= most).count()
}

/// The most that are shown, best first: those aimed at the largest cause, whatever their gain, and the others by gain.
fn best(mut all: Vec<WhatIf>, wall_s: f64, aimed: &[&str]) -> Vec<WhatIf> {
    let is_aimed = |w: &WhatIf| aimed.contains(&w.id.as_str());
    all.retain(|w| w.speedup >= limits::LEAST_SPEEDUP || is_aimed(w) && w.predicted_wall_s <= wall_s * (1.0 - limits::LEAST_GAIN));
    // What a walk requests, and when, is its own to change, and so are knobs.
    let is_own = |w: &WhatIf| w.id.starts_with("walk.") || !w.flags.is_empty();
    let rank = |w: &WhatIf| (!is_own(w), !is_aimed(w), w.is_bought());
    all.sort_by(|a, b| rank(a).cmp(&rank(b)).then(a.predicted_wall_s.total_cmp(&b.predicted_wall_s)));
    all.truncate(MAX_WHAT_IFS);
    // Bounds come below replayed changes, however large.
    all.sort_by(|a, b| a.basis.cmp(&b.basis).then(a.predicted_wall_s.total_cmp(&b.predicted_wall_s)));
    // Unnecessary work is the subject of the number behind the rate.
    if let Some(once) = all.iter().position(WhatIf::is_of_the_number) {
        all[..=once].rotate_right(1);
        return all;
    }
    // Changes without risk or cost come before those that give something up.
    let is_unsafe = |w: &WhatIf| w.id == "no_sync" || w.gives_up.is_some();
    let is_safe = |w: &WhatIf| is_aimed(w) && !w.is_bought() && !w.id.ends_with(".x2") && !is_unsafe(w);
    if all.first().is_some_and(is_unsafe)
        && let Some(safe) = all.iter().position(|w| is_safe(w) && w.basis == all[0].basis)
    {
        all[..=safe].rotate_right(1);
    }
    all
}

fn largest_cause(parts: &Parts<'_>) -> Cause {
    let mut sums: HashMap<Cause, u64> = HashMap::new();
    for entry in &parts.ledger.entries {
        *sums.entry(entry.cause).or_default() += entry.runs.total_ns;
    }
    sums.into_iter().max_by_key(|&(cause, ns)| (ns, std::cmp::Reverse(cause))).map_or(Cause::Unknown, |(cause, _)| cause)
}

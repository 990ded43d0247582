//! From a recording to its explanation: what is read in which order, and what is made from it.
//!
//! Spans are read twice: once before the path is walked, for who serves and for the rows of the replay, and once as the path is walked. If
//! threads wait by running, or compute in turn, the path is walked once more.

use crate::assemble::{notes, phase, round_trips, settle, summary, transfers, tuning, verdict};
use crate::cause::End;
use crate::document::{Explanation, PhaseName, SCHEMA};
use crate::error::ExplainError;
use crate::facts::circumstances::Circumstances;
use crate::facts::lookups::Lookups;
use crate::facts::set_limits::SetLimits;
use crate::facts::sharing::Sharings;
use crate::facts::{Parts, ceiling, doubted, ending};
use crate::interval::interval_of;
use crate::observe::asked_names::AskedNames;
use crate::observe::feed::{Feed, StackedWait};
use crate::observe::holes::Holes;
use crate::observe::index::NONE;
use crate::observe::observation::Observation;
use crate::observe::on_wire::OnWire;
use crate::observe::roles::Callers;
use crate::observe::span::{LiveSpan, Observer};
use crate::observe::spins::Spins;
use crate::observe::tables::Tables;
use crate::observe::wire::WireFacts;
use crate::observe::{ended, lives, try_locks};
use crate::path::Path;
use crate::path::ledger::Ledger;
use crate::path::why::Why;
use crate::replay::depends::Asking;
use crate::replay::recorded::{Recorded, ReplayInput};
use crate::waits::view::Facts;
use crate::{replay, rpcstat, runs};
use std::collections::BTreeMap;
use thalweg_trace::{Sample, Source};

/// Options of an explanation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to replay the run and predict what changes would give.
    pub what_if: bool,
    /// Whether to record for each charge the rules by which it was charged, and the spans it rests on.
    pub why: bool,
    /// Explains this phase of the transfer alone: charges, without predictions.
    pub phase: Option<PhaseName>,
}

impl Default for Options {
    fn default() -> Options {
        Options { what_if: true, why: false, phase: None }
    }
}

/// Explains a recording.
pub fn explain(source: &dyn Source, options: &Options) -> Result<Explanation, ExplainError> {
    if !source.meta().abilities().waits {
        let problem =
            "the recording is a profile and holds no waits: `thalweg profile RECORDING` shows it; `thalweg record --profile` records both";
        return Err(ExplainError::Nothing(problem.to_owned()));
    }
    if let Some(run) = runs::longest(source) {
        return explain(&run.within(source)?, options);
    }
    let mut tables = Tables::of(source);
    if tables.main == NONE {
        return without_threads(source, options);
    }
    // A profile's samples cover everything that ran on the machine.
    let (profiled, samples): (Vec<_>, Vec<_>) = source.samples()?.into_iter().partition(|sample| sample.profiled().is_some());
    let mut known = prepare(source, options, &samples, &mut tables)?;
    let walked = walk(source, options, &samples, &mut tables, &mut known)?;
    let Prepared { facts, recorded, interval } = known;
    let WalkResults { mut seen, mut ledger, waits, unrecorded, unrecorded_ranks } = walked;
    // Threads that wait by running are found with all requests: one that computes may answer another's.
    seen.leave_out_others(&tables);
    let wall_ns = interval.1 - interval.0;
    let set_limits = SetLimits::read(source, &mut tables, wall_ns as f64 / 1e9)?;
    doubted::doubt_disks(&mut ledger, &tables, (&seen, &set_limits), wall_ns);
    let (seen, ledger) = (seen, ledger);
    let mut around = Circumstances::read(source, (&samples, &profiled), &waits, &mut tables, &ledger)?;
    around.lookups = Lookups::read(source, &mut tables, &ledger, &seen.resolvers)?;
    around.why_failed = ending::why(source.meta(), &tables, &facts, &seen);
    let (start, end) = interval;
    let on_wire = OnWire::read(source, &mut tables, start, end)?;
    let sharing = Sharings::of(&tables, &ledger, &seen, &facts.lives);
    let (around, on_wire, facts, sharing) = (&around, &on_wire, &facts, &sharing);
    let parts = Parts { tables: &tables, ledger: &ledger, facts, seen: &seen, around, sharing, on_wire, start, end };
    if let Some(name) = options.phase {
        return phase::explanation(source.meta(), &parts, name, unrecorded);
    }
    let mut explanation = document(source, recorded, &parts, unrecorded);
    explanation.notes.extend(notes::of_ranks(&unrecorded_ranks));
    explanation.summary.tuning = tuning::story(source)?;
    Ok(explanation)
}

/// Explains a recording without threads: of packets.
fn without_threads(source: &dyn Source, options: &Options) -> Result<Explanation, ExplainError> {
    if let Some(explanation) = rpcstat::charge::explanation(source, options.why)? {
        return Ok(explanation);
    }
    Err(ExplainError::Nothing(
        "the recording holds no threads, so there is no time to charge: record a command again (a recorder that is killed before its command runs leaves none)".to_owned(),
    ))
}

/// The facts needed before the path is walked.
struct Prepared {
    /// The contents of the small tables.
    facts: Facts,
    /// The rows of the replay; `None` if nothing is to be replayed.
    recorded: Option<Recorded>,
    /// The interval to explain.
    interval: (i64, i64),
}

/// Finds who serves, and gathers the rest of what must be known. Reads the spans once, as far as any part needs them.
fn prepare(source: &dyn Source, options: &Options, samples: &[Sample], tables: &mut Tables) -> Result<Prepared, ExplainError> {
    let mut batches = source.spans_backward().peekable();
    let interval = interval_of(source.meta(), &mut batches)?;
    let wire = WireFacts::read(source, tables)?;
    let (lives, holes) = (lives::read(source, tables)?, Holes::of(samples, source.meta(), tables));
    let mut callers = Callers::of(source, &lives, tables)?;
    let mut taken = (options.what_if && options.phase.is_none()).then(|| ReplayInput::new(source, interval));
    while callers.as_ref().is_some_and(Callers::asks_spans) || taken.as_ref().is_some_and(ReplayInput::asks_spans) {
        let Some(batch) = batches.next().transpose()? else { break };
        callers.iter_mut().for_each(|callers| callers.note(tables, &batch));
        taken.iter_mut().for_each(|taken| taken.note(&batch));
    }
    if let Some(callers) = callers {
        callers.settle(tables);
    }
    let recorders = tables.recorders().collect();
    let asked = AskedNames::read(source, tables)?;
    let processes = tables.processes();
    let ended = ended::ended_by_signals(source, tables, &processes, &lives)?;
    let facts = Facts { wire, lives, holes, asked, ended, processes, recorders, spins: None };
    Ok(Prepared { facts, recorded: taken.map(ReplayInput::recorded), interval })
}

/// The results of a walk over the recording.
struct WalkResults {
    seen: Observation,
    ledger: Ledger,
    waits: Vec<StackedWait>,
    unrecorded: Option<(End, u32)>,
    unrecorded_ranks: BTreeMap<String, i64>,
}

/// Walks the path, once; if the walk shows that threads wait by running or compute in turn, once more with that known.
fn walk(
    source: &dyn Source,
    options: &Options,
    samples: &[Sample],
    tables: &mut Tables,
    known: &mut Prepared,
) -> Result<WalkResults, ExplainError> {
    let walked = WalkResults::of(source, options, tables, known)?;
    let (start, end) = known.interval;
    let tried = try_locks::read(source, samples, tables, &known.facts.lives)?;
    known.facts.spins = Spins::of(&walked.seen, tables, &known.facts.lives, &tried, (start, end));
    let waits_by_running = known.facts.spins.is_some() && Spins::are_charged(&walked.ledger, end - start);
    tables.hand_overs = walked.seen.turns.hand_overs(end - start);
    if !waits_by_running && tables.hand_overs.is_empty() {
        return Ok(walked);
    }
    known.recorded.iter_mut().for_each(|recorded| recorded.hand_over(&tables.hand_overs));
    WalkResults::of(source, options, tables, known)
}

impl WalkResults {
    /// Passes every span to all observers as the path's reading reaches it.
    fn of(source: &dyn Source, options: &Options, tables: &mut Tables, known: &mut Prepared) -> Result<WalkResults, ExplainError> {
        let Prepared { facts, recorded, interval: (start, end) } = known;
        let (facts, start, end) = (&*facts, *start, *end);
        let seen = Observation::new(tables, facts.wire.round_trips(), start, end);
        let asking = recorded.as_ref().map(|recorded| recorded.asking(tables, facts, (start, end)));
        let mut lookers = SpanObservers { seen, asking };
        let feed = Feed::new(source, tables);
        let mut path = Path::new(tables, feed, facts, &mut lookers, (start, end));
        path.ledger.why = options.why.then(Why::default);
        path.run()?;
        let (unrecorded, unrecorded_ranks) = (path.unrecorded, std::mem::take(&mut path.memory.unrecorded_ranks));
        let (ledger, waits) = (path.ledger, path.feed.stacked);
        let SpanObservers { mut seen, asking } = lookers;
        seen.lock_waits.read_tasks(source, tables)?;
        if let (Some(recorded), Some(asking)) = (recorded, asking) {
            recorded.timelines = asking.answered();
        }
        Ok(WalkResults { seen, ledger, waits, unrecorded, unrecorded_ranks })
    }
}

/// The observers of every span that is read for the path.
struct SpanObservers<'a> {
    seen: Observation,
    asking: Option<Asking<'a>>,
}

impl Observer for SpanObservers<'_> {
    fn begins(&mut self, until: i64) {
        self.asking.iter_mut().for_each(|asking| asking.begins(until));
    }

    #[inline]
    fn span(&mut self, tables: &Tables, span: &LiveSpan) {
        self.seen.span(tables, span);
        if let Some(asking) = &mut self.asking {
            asking.span(tables, span);
        }
    }

    fn ends(&mut self, tables: &Tables) {
        self.asking.iter_mut().for_each(|asking| asking.ends(tables));
    }
}

/// Assembles the document, with predictions if the replay has its rows.
fn document(source: &dyn Source, recorded: Option<Recorded>, parts: &Parts<'_>, unrecorded: Option<(End, u32)>) -> Explanation {
    let meta = source.meta();
    let charges = parts.charges();
    let (transfers, unlisted_transfers) = transfers::transfers(parts, meta);
    let wall_s = parts.wall_s();
    let size_bytes =
        Some(transfers.iter().map(|t| t.size_bytes).chain(unlisted_transfers.map(|rest| rest.size_bytes)).sum()).filter(|&b: &u64| b > 0);
    let rate_bytes_per_s = size_bytes.map(|b| b as f64 / wall_s);
    let round_trips = round_trips::round_trips(parts, meta);
    let mut verdict = verdict::verdict(&charges.list, |cause| ceiling::reached(parts, meta, cause));
    verdict.settle = settle::settle(parts, meta, &verdict);
    let of = summary::Of {
        parts,
        meta,
        charges: &charges,
        verdict: &verdict,
        round_trips: round_trips.as_ref(),
        listed: &transfers,
        transfers: transfers.len() as u64 + unlisted_transfers.map_or(0, |rest| rest.count),
        size_bytes,
        unrecorded,
    };
    let said = summary::RunSummary::of(&of);
    let unreliable_because = of.is_short().then(summary::too_short);
    let (prediction, advice) = match recorded {
        Some(recorded) => {
            let prediction = replay::predict(source, parts, recorded, round_trips.as_ref(), &said.raises);
            let advice = said.advice(&prediction);
            (prediction, advice)
        }
        None => (replay::not_asked(), Vec::new()),
    };
    let summary = said.summary;
    verdict.sentence = said.sentence;
    let mut notes = notes::notes(parts, meta, unrecorded);
    notes.extend(prediction.note.clone());
    notes.extend(prediction.model.reason.iter().map(|r| format!("No prediction: {r}")));
    Explanation {
        schema: SCHEMA.to_owned(),
        command: meta.command.clone(),
        recorder: meta.recorder.clone(),
        dropped_events: meta.dropped_events,
        start_ns: parts.start,
        wall_s,
        size_bytes,
        rate_bytes_per_s,
        repeated: None,
        emulated: notes::emulated(meta),
        summary,
        verdict,
        path: parts.path(&charges),
        transfers,
        unlisted_transfers,
        phases: parts.phases(),
        channels: parts.channels(&charges),
        throughput: parts.throughput(),
        tracks: parts.tracks(),
        round_trips,
        connections: None,
        reliable: unreliable_because.is_none(),
        unreliable_because,
        what_if: prediction.what_if,
        advice,
        model: prediction.model,
        notes,
        critical_path: charges.list,
    }
}

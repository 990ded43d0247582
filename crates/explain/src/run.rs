//! From a recording to its explanation: what is read in which order, and what comes of it.

use crate::assemble::{self, notes, round_trips, summary, transfers, verdict};
use crate::document::{self, Explanation};
use crate::error::ExplainError;
use crate::facts::{self, Parts, ceiling};
use crate::interval::interval;
use crate::observe::{asked_names, ended, feed, holes, index, lives, observation, on_wire, roles, spins, tables, try_locks, wire};
use crate::{cause, path, replay, rpcstat, runs, waits};
use thalweg_trace::Source;

/// What can be chosen about an explanation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to replay the run and predict what changes would give.
    pub what_if: bool,
    /// Whether to say of each charge by which rules it was charged, and on which spans it rests.
    pub why: bool,
    /// Explain this phase of the transfer alone: charges, and no prediction.
    pub phase: Option<document::PhaseName>,
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
    let mut tables = tables::Tables::of(source);
    if tables.main == index::NONE {
        if let Some(explanation) = rpcstat::charge::explanation(source, options.why)? {
            return Ok(explanation);
        }
        return Err(ExplainError::Nothing(
            "the recording holds no threads, so there is no time to charge: record a command again (a recorder that is killed before its command runs leaves none)".to_owned(),
        ));
    }
    let (start, end) = interval(source)?;
    // Those of a profile are of everything that ran on the machine.
    let (profiled, samples): (Vec<_>, Vec<_>) = source.samples()?.into_iter().partition(|sample| sample.profiled().is_some());
    let wire = wire::WireFacts::read(source, &mut tables)?;
    let (lives, holes) = (lives::read(source, &mut tables)?, holes::Holes::of(&samples, source.meta(), &mut tables));
    roles::read(source, &lives, &mut tables)?;
    let recorders = tables.recorders().collect();
    let asked = asked_names::AskedNames::read(source, &mut tables)?;
    let processes = tables.processes();
    let ended = ended::ended_by_signals(source, &mut tables, &processes, &lives)?;
    let facts = waits::view::Facts { wire, lives, holes, asked, ended, processes, recorders, spins: None };
    let mut walked = Walked::of(source, options, &mut tables, facts, (start, end))?;
    let tried = try_locks::read(source, &samples, &mut tables, &walked.facts.lives)?;
    walked.facts.spins = spins::Spins::of(&walked.seen, &tables, &walked.facts.lives, &tried, (start, end));
    let waits_by_running = walked.facts.spins.is_some() && spins::Spins::are_charged(&walked.ledger, end - start);
    tables.hand_overs = walked.seen.turns.hand_overs(end - start);
    if waits_by_running || !tables.hand_overs.is_empty() {
        walked = Walked::of(source, options, &mut tables, walked.facts, (start, end))?;
    }
    let Walked { mut seen, ledger, waits, facts, unrecorded, unrecorded_ranks } = walked;
    // (Who waits by running is found with all questions: one that computes may answer another's.)
    seen.leave_out_others(&tables);
    let seen = seen;
    let mut around = facts::circumstances::Circumstances::read(source, (&samples, &profiled), &waits, &mut tables, &ledger)?;
    around.lookups = facts::lookups::Lookups::read(source, &mut tables, &ledger, &seen.resolvers)?;
    around.why_failed = facts::ending::why(source.meta(), &tables, &facts, &seen);
    let on_wire = on_wire::OnWire::read(source, &mut tables, start, end)?;
    let sharing = facts::sharing::Sharings::of(&tables, &ledger, &seen, &facts.lives);
    let (around, on_wire, facts, sharing) = (&around, &on_wire, &facts, &sharing);
    let parts = Parts { tables: &tables, ledger: &ledger, facts, seen: &seen, around, sharing, on_wire, start, end };
    if let Some(name) = options.phase {
        return assemble::phase::explanation(source.meta(), &parts, name, unrecorded);
    }
    let mut explanation = document(source, options, &parts, unrecorded);
    explanation.notes.extend(notes::of_ranks(&unrecorded_ranks));
    explanation.summary.tuning = assemble::tuning::story(source)?;
    Ok(explanation)
}

/// What a walk over the recording found.
struct Walked {
    seen: observation::Observation,
    ledger: path::ledger::Ledger,
    waits: Vec<feed::StackedWait>,
    facts: waits::view::Facts,
    unrecorded: Option<(cause::End, u32)>,
    unrecorded_ranks: std::collections::BTreeMap<String, i64>,
}

impl Walked {
    fn of(
        source: &dyn Source,
        options: &Options,
        tables: &mut tables::Tables,
        facts: waits::view::Facts,
        (start, end): (i64, i64),
    ) -> Result<Walked, ExplainError> {
        let mut seen = observation::Observation::new(tables, facts.wire.round_trips(), start, end);
        let feed = feed::Feed::new(source, tables);
        let mut path = path::Path::new(tables, feed, facts, &mut seen, start, end);
        path.ledger.why = options.why.then(path::why::Why::default);
        path.run()?;
        let (unrecorded, unrecorded_ranks) = (path.unrecorded, std::mem::take(&mut path.memory.unrecorded_ranks));
        let (ledger, waits, facts) = (path.ledger, path.feed.stacked, path.facts);
        Ok(Walked { seen, ledger, waits, facts, unrecorded, unrecorded_ranks })
    }
}

fn document(source: &dyn Source, options: &Options, parts: &Parts<'_>, unrecorded: Option<(cause::End, u32)>) -> Explanation {
    let meta = source.meta();
    let charges = parts.charges();
    let (transfers, unlisted_transfers) = transfers::transfers(parts, meta);
    let wall_s = parts.wall_s();
    let size_bytes =
        Some(transfers.iter().map(|t| t.size_bytes).chain(unlisted_transfers.map(|rest| rest.size_bytes)).sum()).filter(|&b: &u64| b > 0);
    let rate_bytes_per_s = size_bytes.map(|b| b as f64 / wall_s);
    let round_trips = round_trips::round_trips(parts, meta);
    let mut verdict = verdict::verdict(&charges.list, |cause| ceiling::reached(parts, meta, cause));
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
    let said = summary::Said::of(&of);
    let unreliable_because = of.is_short().then(summary::too_short);
    let (prediction, advice) = match options.what_if {
        true => {
            let prediction = replay::predict(source, parts, meta, round_trips.as_ref(), &said.raises);
            let advice = said.advice(&prediction);
            (prediction, advice)
        }
        false => (replay::not_asked(), Vec::new()),
    };
    let summary = said.summary;
    verdict.sentence = said.sentence;
    let mut notes = notes::notes(parts, meta, unrecorded);
    notes.extend(prediction.note.clone());
    notes.extend(prediction.model.reason.iter().map(|r| format!("No prediction: {r}")));
    Explanation {
        schema: document::SCHEMA.to_owned(),
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

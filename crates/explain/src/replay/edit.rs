//! Changes that edit the recorded graph: requests, reads and sends depend on something earlier than they did.
//!
//! A thread that asks, waits for the answer and asks again is a row of *turns* ([`Graph::turns`]): each begins where the thread had taken
//! the last answer before it sent again. With n in flight, the k-th turn begins when the (k−n)-th is over instead of the (k−1)-th: the
//! turns are dealt to n chains, each a program of its own. The chains are still one thread: the current one keeps it while it runs, reads,
//! sleeps or waits for room, and gives it to the next only while it waits for an answer. Servers keep their threads, each of which serves
//! one request at a time; processors, links and devices stay shared, and limit what an edit gains.

use super::program::{Class, Graph, NO_MARK, Op};
use super::queueing::is_queueing;
use crate::cause::End;
use crate::limits::replay as limits;
use std::collections::HashSet;

/// Indices of the programs that make requests.
fn askers(graph: &Graph) -> Vec<usize> {
    let most = graph.turns.iter().map(Vec::len).max().unwrap_or(0);
    let asks = |turns: &Vec<u32>| turns.len() >= limits::FEWEST_TURNS.max(most / limits::BUSIEST_PART);
    (0..graph.turns.len()).filter(|&p| asks(&graph.turns[p])).collect()
}

/// The recorded run with `n` turns of each asking thread in flight; `None` if no thread asks and waits.
pub(crate) fn in_flight(graph: &Graph, n: usize) -> Option<Graph> {
    let askers = askers(graph);
    let ends = ends_of_marks(graph);
    let mut edited = graph.clone();
    let mut any = false;
    for asker in askers {
        any |= deal(&mut edited, asker, n, &ends);
    }
    any.then_some(edited)
}

/// Whether most of the answers that asking threads waited for came from unrecorded ends.
pub(crate) fn asks_unseen(graph: &Graph) -> bool {
    let ends = ends_of_marks(graph);
    let askers = askers(graph);
    let ops = askers.iter().flat_map(|&asker| &graph.programs[asker].ops);
    let is_unseen = |op: &&Op| matches!(op, Op::Delay { .. } | Op::Arrive { mark: NO_MARK, .. });
    let (unseen, seen): (Vec<&Op>, Vec<&Op>) = ops.filter(|op| is_answer(op, &ends)).partition(is_unseen);
    unseen.len() > seen.len()
}

/// By mark: the end of the program that passes it.
fn ends_of_marks(graph: &Graph) -> Vec<End> {
    let end = |(program, _): (u32, u32)| graph.programs.get(program as usize).map_or(End::Client, |program| program.end);
    passed(graph).into_iter().map(end).collect()
}

/// By mark: the program and the operation that passes it.
pub(super) fn passed(graph: &Graph) -> Vec<(u32, u32)> {
    let mut passed = vec![(u32::MAX, 0); graph.marks];
    for (p, program) in graph.programs.iter().enumerate() {
        for (at, op) in program.ops.iter().enumerate() {
            if let Op::Mark(mark) = op {
                passed[*mark as usize] = (p as u32, at as u32);
            }
        }
    }
    passed
}

/// Whether an operation of a client waits for an answer.
fn is_answer(op: &Op, ends: &[End]) -> bool {
    match op {
        Op::Arrive { .. } | Op::Delay { class: Class::FarEnd, .. } => true,
        Op::Follow { mark, lock: false, .. } => ends.get(*mark as usize) == Some(&End::Server),
        _ => false,
    }
}

/// The positions of these marks among a program's operations, in order.
fn positions(ops: &[Op], marks: &[u32]) -> Vec<usize> {
    let wanted: HashSet<u32> = marks.iter().copied().collect();
    (0..ops.len()).filter(|&at| matches!(ops[at], Op::Mark(mark) if wanted.contains(&mark))).collect()
}

/// Deals a program's turns to `n` chains that share one thread. The time before the first turn and after the last answer is unchanged.
fn deal(graph: &mut Graph, asker: usize, n: usize, ends: &[End]) -> bool {
    let ops = &graph.programs[asker].ops;
    let begins = positions(ops, &graph.turns[asker]);
    let last = ops.iter().rposition(|op| is_answer(op, ends));
    let (Some(&first), Some(last)) = (begins.first(), last) else { return false };
    let ops = std::mem::take(&mut graph.programs[asker].ops);
    let thread = graph.threads;
    graph.threads += 1;
    let mut chains: Vec<Vec<Op>> = vec![vec![Op::Take(thread)]; n.max(1)];
    for (turn, &begin) in begins.iter().enumerate().filter(|&(_, &begin)| begin <= last) {
        let end = begins.get(turn + 1).copied().unwrap_or(last + 1).min(last + 1);
        let chain = &mut chains[turn % n.max(1)];
        for op in &ops[begin..end] {
            if is_answer(op, ends) {
                chain.extend([Op::Leave(thread), *op, Op::Take(thread)]);
            } else {
                chain.push(*op);
            }
        }
    }
    chains.iter_mut().for_each(|chain| chain.push(Op::Leave(thread)));
    // The first chain is the program itself: it starts the others, and waits for them at the end.
    let (mut begin, mut wait) = (ops[..first].to_vec(), Vec::new());
    for mut chain in chains.drain(1..) {
        let (start, done) = (graph.fresh_mark(), graph.fresh_mark());
        graph.awaited.push(done);
        begin.push(Op::Mark(start));
        wait.push(Op::follow(done));
        chain.insert(0, Op::follow(start));
        chain.push(Op::Mark(done));
        graph.add_program(asker, chain);
    }
    begin.append(&mut chains[0]);
    begin.append(&mut wait);
    begin.extend_from_slice(&ops[last + 1..]);
    graph.programs[asker].ops = begin;
    true
}

/// Number of turns that the asking threads had in flight: one more than the median, over the answers whose requests can be found, of how
/// many turns earlier each was requested. `None` if no thread asks and waits.
pub(crate) fn under_way(graph: &Graph) -> Option<usize> {
    let (askers, passed) = (askers(graph), passed(graph));
    let mut earlier: Vec<usize> = Vec::new();
    for &asker in &askers {
        let ops = &graph.programs[asker].ops;
        let begins = positions(ops, &graph.turns[asker]);
        let turn_at = |at: usize| begins.partition_point(|&begin| begin <= at);
        let answers = ops.iter().enumerate().filter(|(_, op)| matches!(op, Op::Arrive { mark, .. } if *mark != NO_MARK));
        for (at, op) in answers.step_by(ops.len().div_ceil(limits::MOST_ASKED_ABOUT).max(1)) {
            if let Op::Arrive { mark, .. } = op
                && let Some(asked) = question(graph, &passed, asker as u32, *mark)
            {
                earlier.push(turn_at(at).saturating_sub(turn_at(asked)));
            }
        }
    }
    earlier.sort_unstable();
    (!askers.is_empty()).then(|| 1 + earlier.get(earlier.len() / 2).copied().unwrap_or(0))
}

/// The position, among the asker's operations, of the send that led to this mark: the last thing each waited for, back to the asker.
fn question(graph: &Graph, passed: &[(u32, u32)], asker: u32, answer: u32) -> Option<usize> {
    let mut mark = answer;
    for _ in 0..limits::MOST_HOPS {
        let (program, at) = passed[mark as usize];
        if program == asker {
            return Some(at as usize);
        }
        let ops = &graph.programs.get(program as usize)?.ops[..at as usize];
        let waited = ops.iter().rev().take(limits::MOST_OPS_BACK).find_map(|op| match op {
            Op::Arrive { mark, .. } | Op::Follow { mark, .. } if *mark != NO_MARK => Some(*mark),
            _ => None,
        });
        mark = waited?;
    }
    None
}

/// The recorded run with its main thread's reads in a thread of their own, one buffer ahead; `None` if it does not alternately read from a
/// device and wait for others.
pub(crate) fn overlapped(graph: &Graph) -> Option<Graph> {
    let main = &graph.programs[graph.main];
    let (stretches, waits) = (stretches(&main.ops), main.ops.iter().filter(|op| is_passing_on(op)).count());
    if stretches.len() < limits::FEWEST_READS || waits < limits::FEWEST_READS {
        return None;
    }
    let mut edited = graph.clone();
    let (mut reader, mut rest) = (Vec::new(), main.ops[..stretches[0].0].to_vec());
    let start = edited.fresh_mark();
    rest.push(Op::Mark(start));
    reader.push(Op::follow(start));
    let mut taken: Vec<u32> = Vec::new();
    for (k, &(begin, passes_on)) in stretches.iter().enumerate() {
        let end = stretches.get(k + 1).map_or(main.ops.len(), |next| next.0);
        // There are two buffers: the one before the last must have been passed on.
        if let Some(free) = k.checked_sub(2).map(|k| taken[k]) {
            reader.push(Op::follow(free));
        }
        reader.extend_from_slice(&main.ops[begin..passes_on]);
        let (read, done) = (edited.fresh_mark(), edited.fresh_mark());
        reader.push(Op::Mark(read));
        rest.push(Op::follow(read));
        rest.extend_from_slice(&main.ops[passes_on..end]);
        rest.push(Op::Mark(done));
        taken.push(done);
    }
    edited.add_program(graph.main, reader);
    edited.programs[graph.main].ops = rest;
    Some(edited)
}

fn is_read(op: &Op) -> bool {
    matches!(op, Op::Serve { class: Class::Read, .. })
}

/// Whether an operation waits for another program, as in passing on what was read.
fn is_passing_on(op: &Op) -> bool {
    matches!(op, Op::Arrive { .. } | Op::Room { .. } | Op::Delay { class: Class::FarEnd, .. })
}

/// The starts of reading each buffer and of passing it on: reads, and the running and queueing after them until anything else happens.
fn stretches(ops: &[Op]) -> Vec<(usize, usize)> {
    // A device request for later reading is reading, too.
    let asked: HashSet<u32> = ops.iter().filter_map(|op| if let Op::Serve { asked, .. } = op { Some(*asked) } else { None }).collect();
    let reading = |op: &Op| match op {
        Op::Mark(mark) => asked.contains(mark),
        op => is_read(op) || matches!(op, Op::Run(_)) || is_queueing(op),
    };
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(begin) = ops[at..].iter().position(is_read).map(|found| at + found) {
        let passes_on = ops[begin..].iter().position(|op| !reading(op)).map_or(ops.len(), |found| begin + found);
        found.push((begin, passes_on));
        // A buffer that nothing was waited for with is read with the next.
        at = ops[passes_on..].iter().position(is_passing_on).map_or(ops.len(), |found| passes_on + found);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::program::Program;
    use super::super::program::tests::{graph, program};
    use super::super::scale::Scale;
    use super::super::simulate::simulate;
    use super::*;
    use crate::replay::regime::Regime;

    /// A client that asks and waits `count` times, 2 of its own for each; a server that takes `each` for an answer; 5 in transit in each
    /// direction.
    fn asking(count: u32, cpus: u32, each: f64) -> Graph {
        let arrive = |mark, way| Op::Arrive { mark, way, service: 0.0, bytes: 1.0, regime: Regime::Latency, lag: 0.0, polls: false };
        let (mut client, mut server, mut turns) = (Vec::new(), Vec::new(), Vec::new());
        for k in 0..count {
            let (turn, sent, answered) = (3 * k, 3 * k + 1, 3 * k + 2);
            client.extend([Op::Mark(turn), Op::Run(2.0), Op::Mark(sent), arrive(answered, 1)]);
            server.extend([arrive(sent, 0), Op::Run(each), Op::Mark(answered)]);
            turns.push(turn);
        }
        let mut asking = graph(cpus, vec![client, server]);
        asking.programs[1] = Program { end: End::Server, ..program(asking.programs[1].ops.clone()) };
        (asking.marks, asking.turns) = (3 * count as usize, vec![turns, Vec::new()]);
        asking
    }

    fn ns(graph: &Graph) -> f64 {
        simulate(graph, &Scale::none()).expect("it ends")
    }

    #[test]
    fn four_in_flight_share_the_way_and_wait_for_the_last_of_four() {
        let serial = asking(40, 4, 1.0);
        assert_eq!(ns(&serial), 40.0 * 13.0);
        // A turn takes 13, four of them are in flight; the last of the others ends up to three turns' work later.
        let four = ns(&in_flight(&serial, 4).unwrap());
        assert!((130.0..=140.0).contains(&four), "{four}");
        assert_eq!(ns(&in_flight(&serial, 1).unwrap()), 40.0 * 13.0, "one chain is the run as it was");
    }

    #[test]
    fn a_servers_thread_serves_one_at_a_time_and_the_asking_thread_does_one_thing_at_a_time() {
        let by_server = ns(&in_flight(&asking(40, 4, 10.0), 32).unwrap());
        assert!((400.0..430.0).contains(&by_server), "{by_server}");
        let by_client = ns(&in_flight(&asking(400, 4, 1.0), 32).unwrap());
        assert!((800.0..830.0).contains(&by_client), "{by_client}");
    }

    #[test]
    fn processors_stay_shared() {
        let one = ns(&in_flight(&asking(40, 1, 4.0), 8).unwrap());
        assert!((240.0..260.0).contains(&one), "{one}");
    }

    #[test]
    fn sleeps_between_questions_are_the_asking_threads_own() {
        let mut serial = asking(40, 4, 1.0);
        let ops = std::mem::take(&mut serial.programs[0].ops);
        let sleep = Op::Delay { class: Class::ClientThink, ns: 20.0 };
        serial.programs[0].ops = ops.into_iter().flat_map(|op| if let Op::Run(_) = op { vec![sleep, op] } else { vec![op] }).collect();
        let eight = ns(&in_flight(&serial, 8).unwrap());
        assert!((880.0..900.0).contains(&eight), "{eight}");
    }

    #[test]
    fn how_many_were_under_way_is_known_from_how_long_before_its_answer_each_was_asked() {
        assert_eq!(under_way(&asking(40, 4, 1.0)), Some(1));
        assert_eq!(under_way(&graph(1, vec![vec![Op::Run(1.0)]])), None);
        let mut ahead = asking(40, 4, 1.0);
        // Each turn's request is sent two turns before.
        let sent = |k: usize| Op::Mark(3 * k as u32 + 1);
        let ops = &mut ahead.programs[0].ops;
        ops.retain(|op| !matches!(op, Op::Mark(mark) if mark % 3 == 1));
        for k in (0..40_usize).rev() {
            let turn = 3 * k.saturating_sub(2) as u32;
            let at = ops.iter().position(|op| matches!(op, Op::Mark(mark) if *mark == turn)).unwrap();
            ops.insert(at + 1, sent(k));
        }
        assert_eq!(under_way(&ahead), Some(3));
    }

    #[test]
    fn n_under_way_are_never_slower_than_fewer_and_at_most_n_times_as_fast() {
        for (cpus, each) in [(1, 1.0), (1, 9.0), (2, 3.0), (4, 30.0)] {
            let serial = asking(64, cpus, each);
            let alone = ns(&serial);
            let mut last = alone;
            for n in [1, 2, 3, 5, 8, 64, 200] {
                let is = ns(&in_flight(&serial, n).unwrap());
                assert!(is <= last + 1e-6 && is >= alone / n as f64 - 1e-6, "{cpus} processors, {each} each, {n}: {is} after {last}");
                last = is;
            }
        }
    }

    #[test]
    fn who_asks_too_seldom_is_left_as_it_is() {
        assert!(in_flight(&asking(10, 4, 1.0), 4).is_none());
    }

    #[test]
    fn reading_ahead_takes_the_longer_of_reading_and_passing_on() {
        let mut turns = Vec::new();
        let read = Op::Serve { device: 0, class: Class::Read, service: 30.0, foreign: 0.0, lag: 0.0, asked: NO_MARK, ahead: false };
        for _ in 0..10 {
            turns.extend([read, Op::Run(10.0), Op::Delay { class: Class::FarEnd, ns: 50.0 }]);
        }
        let serial = graph(2, vec![turns]);
        assert_eq!(ns(&serial), 900.0);
        let overlapped = ns(&overlapped(&serial).unwrap());
        assert_eq!(overlapped, 40.0 + 500.0, "passing on, and the first buffer's reading");
    }

    #[test]
    fn a_program_that_reads_and_waits_for_nobody_has_nothing_to_overlap() {
        let read = Op::Serve { device: 0, class: Class::Read, service: 30.0, foreign: 0.0, lag: 0.0, asked: NO_MARK, ahead: false };
        assert!(overlapped(&graph(1, vec![vec![read; 20]])).is_none());
    }
}

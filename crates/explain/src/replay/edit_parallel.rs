//! The recorded run with sequential work in parallel: a program's computing on several processors, or several of the commands that a
//! program starts at a time.

use super::program::{Graph, Op};
use crate::limits::replay as limits;
use std::collections::HashMap;

/// How a program's computing is spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// Number of processors.
    pub processors: usize,
    /// Factor by which it gets shorter if each of them is free: fewer than there are processors if pieces do not come out even.
    pub shorter: f64,
    /// The part of the recorded work that the changed command does.
    pub work: f64,
}

impl Spread {
    /// Spreads work over this many processors, in this many pieces of equal size if known.
    pub(crate) fn of(processors: u32, pieces: Option<u64>, work: f64) -> Spread {
        let all = f64::from(processors.max(1));
        let shorter = pieces.map_or(all, |pieces| pieces as f64 / (pieces as f64 / all).ceil().max(1.0));
        Spread { processors: processors.max(1) as usize, shorter: shorter.max(1.0), work }
    }
}

/// The recorded run with these programs' computing done by as many threads as there are processors: each stretch of computing is handed
/// out, and waited for.
pub(crate) fn spread(graph: &Graph, programs: &[usize], by: Spread) -> Graph {
    let mut edited = graph.clone();
    for &program in programs {
        let mut helpers: Vec<Vec<Op>> = vec![Vec::new(); by.processors - 1];
        let mut own = Vec::with_capacity(graph.programs[program].ops.len());
        for &op in &graph.programs[program].ops {
            match op {
                Op::Run(ns) if ns >= limits::WORTH_HANDING_OUT_NS => hand_out(&mut edited, ns * by.work, by, &mut own, &mut helpers),
                op => own.push(op),
            }
        }
        edited.programs[program].ops = own;
        helpers.into_iter().for_each(|ops| edited.add_program(program, ops));
    }
    edited
}

/// Hands out one stretch of computing: the program's own part, and its helpers' beside it.
fn hand_out(graph: &mut Graph, ns: f64, by: Spread, own: &mut Vec<Op>, helpers: &mut [Vec<Op>]) {
    let mine = ns / by.shorter;
    let theirs = (ns - mine) / helpers.len().max(1) as f64;
    let start = graph.fresh_mark();
    own.extend([Op::Mark(start), Op::Run(mine)]);
    for helper in helpers {
        let done = graph.fresh_mark();
        helper.extend([Op::follow(start), Op::Run(theirs), Op::Mark(done)]);
        own.push(Op::follow(done));
    }
}

/// The recorded run in which the program that started most others sequentially keeps `n` of them in progress; `None` if none did.
pub(crate) fn side_by_side(graph: &Graph, n: usize) -> Option<Graph> {
    let starter = starter(graph)?;
    let ops = &graph.programs[starter].ops;
    let ends = ends_of_started(graph, starter);
    if ends.len() < limits::FEWEST_STARTED || n < 2 {
        return None;
    }
    let mut edited = graph.clone();
    let mut changed = ops.clone();
    // Each wait is for the command `n - 1` places before; the last are waited for at the end.
    for (place, &at) in ends.iter().enumerate() {
        changed[at] = place.checked_sub(n - 1).map_or(Op::Run(0.0), |earlier| ops[ends[earlier]]);
    }
    let last = *ends.last()?;
    let rest: Vec<Op> = ends[ends.len().saturating_sub(n - 1)..].iter().map(|&at| ops[at]).collect();
    changed.splice(last + 1..last + 1, rest);
    edited.programs[starter].ops = changed;
    Some(edited)
}

/// The program that started most others and waited for each.
fn starter(graph: &Graph) -> Option<usize> {
    let mut started: HashMap<u32, usize> = HashMap::new();
    graph.programs.iter().filter_map(|program| program.made_by).for_each(|by| *started.entry(by).or_default() += 1);
    let most = started.into_iter().max_by_key(|&(by, count)| (count, std::cmp::Reverse(by)))?;
    Some(most.0 as usize)
}

/// The positions at which a program waits for the end of others that it started, if each is waited for before the next is started.
fn ends_of_started(graph: &Graph, starter: usize) -> Vec<usize> {
    let mut last_mark_of: HashMap<u32, usize> = HashMap::new();
    let mut starts: HashMap<u32, usize> = HashMap::new();
    for (number, program) in graph.programs.iter().enumerate().filter(|(_, program)| program.made_by == Some(starter as u32)) {
        if let Some(Op::Mark(mark)) = program.ops.iter().rev().take(limits::OPS_AT_THE_END).find(|op| matches!(op, Op::Mark(_))) {
            last_mark_of.insert(*mark, number);
        }
        if let Some(Op::Follow { mark, .. }) = program.ops.first() {
            starts.insert(*mark, number);
        }
    }
    let (mut ends, mut under_way) = (Vec::new(), 0_usize);
    for (at, op) in graph.programs[starter].ops.iter().enumerate() {
        match op {
            Op::Mark(mark) if starts.contains_key(mark) => under_way += 1,
            Op::Follow { mark, .. } if last_mark_of.contains_key(mark) => {
                // Several at a time already.
                if under_way > 1 {
                    return Vec::new();
                }
                under_way = 0;
                ends.push(at);
            }
            _ => {}
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::super::program::tests::graph;
    use super::super::scale::Scale;
    use super::super::simulate::simulate;
    use super::*;

    const MS: f64 = 1e6;

    fn ms(graph: &Graph) -> f64 {
        simulate(graph, &Scale::none()).expect("it ends") / MS
    }

    #[test]
    fn computing_is_shared_by_the_processors_that_are_free() {
        let compress = |cpus| {
            graph(
                cpus,
                vec![vec![Op::Run(40.0 * MS), Op::Delay { class: super::super::program::Class::Other, ns: MS }, Op::Run(40.0 * MS)]],
            )
        };
        let even = |cpus| Spread::of(cpus, None, 1.0);
        assert_eq!(ms(&spread(&compress(2), &[0], even(2))), 41.0);
        assert_eq!(ms(&spread(&compress(4), &[0], even(4))), 21.0);
        let mut shared = compress(2);
        shared.foreign = 1.0;
        assert!(ms(&spread(&shared, &[0], even(2))) > 80.0, "others have the second processor");
        assert_eq!(ms(&spread(&compress(2), &[0], Spread::of(2, None, 0.5))), 21.0, "with half the work");
    }

    #[test]
    fn three_pieces_on_two_processors_take_as_long_as_two() {
        assert_eq!(Spread::of(2, Some(3), 1.0).shorter, 1.5);
        assert_eq!(Spread::of(2, Some(1), 1.0).shorter, 1.0);
        assert_eq!(Spread::of(8, Some(3), 1.0).shorter, 3.0);
        assert_eq!(Spread::of(2, None, 1.0).shorter, 2.0);
    }

    /// A program that starts `count` others sequentially, each of which runs this long.
    fn starts(cpus: u32, count: u32, each: f64) -> Graph {
        let mut programs = vec![Vec::new()];
        for k in 0..count {
            let (start, end) = (2 * k, 2 * k + 1);
            programs[0].extend([Op::Run(0.1 * MS), Op::Mark(start), Op::follow(end)]);
            programs.push(vec![Op::follow(start), Op::Run(each), Op::Mark(end)]);
        }
        let mut graph = graph(cpus, programs);
        graph.marks = 2 * count as usize;
        graph.programs[1..].iter_mut().for_each(|program| program.made_by = Some(0));
        graph
    }

    #[test]
    fn commands_are_started_before_the_last_has_ended() {
        let serial = starts(4, 20, 10.0 * MS);
        assert!((ms(&serial) - 202.0).abs() < 1e-6);
        let two = ms(&side_by_side(&serial, 2).expect("they are started in turn"));
        assert!((100.0..104.0).contains(&two), "{two}");
        let four = ms(&side_by_side(&serial, 4).expect("they are started in turn"));
        assert!((50.0..55.0).contains(&four), "{four}");
        let on_one = ms(&side_by_side(&starts(1, 20, 10.0 * MS), 2).expect("they are started in turn"));
        assert!(on_one > 195.0, "{on_one}");
    }

    #[test]
    fn who_starts_few_or_several_at_a_time_is_left_as_it_is() {
        assert!(side_by_side(&starts(4, 3, 10.0 * MS), 2).is_none());
        let serial = starts(4, 20, 10.0 * MS);
        assert!(side_by_side(&side_by_side(&serial, 2).expect("they are started in turn"), 2).is_none());
    }
}

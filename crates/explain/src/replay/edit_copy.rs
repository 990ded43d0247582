//! A copy by requests ([`super::flows`]) with another number of requests in flight, or of messages in flight on each connection.
//!
//! A connection's thread sends messages, and takes answers in between. Its work up to the end of each send is that message's sending, its
//! work up to the end of each call is the answering. The edit splits it into a program that sends and one that takes answers, which share
//! the thread: a message is sent when its request was handed over and the message `depth` before it was answered. Requests are dealt to as
//! many threads as should be in flight; each waits for all of its own messages. Servers, links, devices and processors stay shared.

use super::flows::Flows;
use super::program::{Class, Graph, Op};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A part of a program's operations.
type Chunk = Vec<Op>;

/// Parts for messages, by index, in order of time.
type OfMessages = Vec<(usize, Chunk)>;

/// The recorded run with this many requests in flight and messages in flight on each connection; `None` if it is no such copy.
pub(crate) fn edited(graph: &Graph, requests: usize, depth: usize) -> Option<Graph> {
    let flows = &graph.flows;
    if !flows.is_known() || requests == 0 || depth == 0 {
        return None;
    }
    let mut edit = Edit { graph, flows, edited: graph.clone(), handed: Vec::new(), done: Vec::new() };
    edit.handed = (0..flows.asked.len()).map(|_| edit.edited.fresh_mark()).collect();
    edit.done = (0..flows.messages.len()).map(|_| edit.edited.fresh_mark()).collect();
    edit.edited.kept = 0.0;
    edit.edited.awaited.clone_from(&edit.done);
    edit.connections(depth)?;
    edit.requesters(requests);
    Some(edit.edited)
}

/// The operations for one step of a program that shares its thread, and gives it away while it waits for the far end.
fn shared(op: Op, thread: u32) -> Vec<Op> {
    match op {
        Op::Arrive { .. } | Op::Room { .. } | Op::Delay { class: Class::FarEnd, .. } => vec![Op::Leave(thread), op, Op::Take(thread)],
        op => vec![op],
    }
}

/// The edit in progress.
struct Edit<'a> {
    graph: &'a Graph,
    flows: &'a Flows,
    edited: Graph,
    /// By request: passed when its bytes are ready to be moved.
    handed: Vec<u32>,
    /// By message: passed when it was answered.
    done: Vec<u32>,
}

/// The operations of an asking thread before its first request, and after its last.
struct Around {
    program: u32,
    head: Chunk,
    tail: Chunk,
}

impl Edit<'_> {
    /// The marks that these programs pass.
    fn marks_of(&self, programs: impl Iterator<Item = u32>) -> HashSet<u32> {
        let programs: HashSet<u32> = programs.collect();
        let ops = programs.iter().flat_map(|&p| &self.graph.programs[p as usize].ops);
        ops.filter_map(|op| if let Op::Mark(mark) = op { Some(*mark) } else { None }).collect()
    }

    fn connections(&mut self, depth: usize) -> Option<()> {
        let by_askers = self.marks_of(self.flows.asked.iter().map(|a| a.program));
        let programs: BTreeSet<u32> = self.flows.messages.iter().map(|m| m.program).collect();
        programs.into_iter().try_for_each(|program| self.connection(program, depth, &by_askers))
    }

    /// Splits a connection's thread into sending and taking answers.
    fn connection(&mut self, program: u32, depth: usize, by_askers: &HashSet<u32>) -> Option<()> {
        // Waiting for work now means waiting for requests; if the giver is unknown, there is no wait.
        let for_work = |op: &Op| match op {
            Op::Follow { mark, .. } => by_askers.contains(mark),
            Op::Delay { class: Class::Lock, .. } => true,
            _ => false,
        };
        let (sending, answering, tail) = self.cut(program);
        let thread = self.edited.threads;
        self.edited.threads += 1;
        let shared_ops = |ops: Chunk| ops.into_iter().filter(|op| !for_work(op)).flat_map(|op| shared(op, thread)).collect::<Chunk>();
        let sent: HashMap<usize, u32> = sending.iter().map(|&(message, _)| (message, self.edited.fresh_mark())).collect();
        let order: Vec<usize> = sending.iter().map(|&(message, _)| message).collect();
        let mut sender: Chunk = Vec::new();
        for (k, (message, mut ops)) in sending.into_iter().enumerate() {
            // Operations before it waited for work need none: above all the thread's start, which others may have followed.
            if let Some(waited) = ops.iter().rposition(for_work) {
                let send = ops.split_off(waited + 1);
                let before = std::mem::replace(&mut ops, send);
                sender.push(Op::Take(thread));
                sender.extend(shared_ops(before));
                sender.push(Op::Leave(thread));
            }
            sender.push(Op::follow(self.handed[self.flows.messages[message].of as usize]));
            sender.extend(k.checked_sub(depth).map(|before| Op::follow(self.done[order[before]])));
            sender.push(Op::Take(thread));
            sender.extend(shared_ops(ops));
            sender.extend([Op::Mark(sent[&message]), Op::Leave(thread)]);
        }
        let mut answers: Chunk = Vec::new();
        for (message, ops) in answering {
            answers.extend([Op::follow(*sent.get(&message)?), Op::Take(thread)]);
            answers.extend(shared_ops(ops));
            answers.extend([Op::Mark(self.done[message]), Op::Leave(thread)]);
        }
        answers.extend(tail);
        self.edited.programs[program as usize].ops = sender;
        self.edited.add_program(program as usize, answers);
        Some(())
    }

    /// The operations of a connection's thread for the sending of each message, for its answer, and after all of them.
    fn cut(&self, program: u32) -> (OfMessages, OfMessages, Chunk) {
        let mut bounds: HashMap<u32, (usize, bool)> = HashMap::new();
        for (number, message) in self.flows.messages.iter().enumerate().filter(|(_, m)| m.program == program) {
            bounds.insert(message.sent, (number, true));
            bounds.insert(message.answered, (number, false));
        }
        let (mut sending, mut answering, mut chunk) = (Vec::new(), Vec::new(), Chunk::new());
        for op in &self.graph.programs[program as usize].ops {
            let bound = if let Op::Mark(mark) = op { bounds.get(mark) } else { None };
            match bound {
                Some(&(message, true)) => sending.push((message, std::mem::take(&mut chunk))),
                Some(&(message, false)) => answering.push((message, std::mem::take(&mut chunk))),
                None => chunk.push(*op),
            }
        }
        (sending, answering, chunk)
    }

    /// The operations of the asking threads for each request; those between two requests belong to the first of them.
    fn cut_askers(&self) -> (Vec<Chunk>, Vec<Around>) {
        let asked = &self.flows.asked;
        let bounds: HashMap<u32, (usize, bool)> =
            asked.iter().enumerate().flat_map(|(i, a)| [(a.begin, (i, true)), (a.end, (i, false))]).collect();
        let programs: BTreeSet<u32> = asked.iter().map(|a| a.program).collect();
        let mut chunks = vec![Chunk::new(); asked.len()];
        let mut around = Vec::new();
        for program in programs {
            let (mut head, mut tail, mut last) = (Chunk::new(), Chunk::new(), None);
            let mut within = false;
            for op in &self.graph.programs[program as usize].ops {
                let bound = if let Op::Mark(mark) = op { bounds.get(mark).copied() } else { None };
                match (bound, last) {
                    (Some((request, true)), before) => {
                        if let Some(before) = before {
                            let between: &mut Chunk = &mut chunks[before];
                            between.append(&mut tail);
                        }
                        (last, within) = (Some(request), true);
                    }
                    (Some(_), _) => within = false,
                    (None, Some(request)) if within => chunks[request].push(*op),
                    (None, Some(_)) => tail.push(*op),
                    (None, None) => head.push(*op),
                }
            }
            around.push(Around { program, head, tail });
        }
        (chunks, around)
    }

    /// By request: the last of its messages on each connection.
    fn last_messages(&self) -> Vec<Vec<u32>> {
        let mut last: HashMap<(u32, u32), usize> = HashMap::new();
        for (number, message) in self.flows.messages.iter().enumerate() {
            last.insert((message.of, message.program), number);
        }
        let last: BTreeSet<(u32, usize)> = last.into_iter().map(|((of, _), number)| (of, number)).collect();
        let mut waits: Vec<Vec<u32>> = vec![Vec::new(); self.flows.asked.len()];
        last.into_iter().for_each(|(of, number)| waits[of as usize].push(self.done[number]));
        waits
    }

    /// Deals the requests to this many threads. The existing ones become the first of them; others begin when the first does. All wait for
    /// each other before they end.
    fn requesters(&mut self, requests: usize) {
        let by_movers = self.marks_of(self.flows.messages.iter().map(|m| m.program));
        let is_wait = |op: &Op| matches!(op, Op::Follow { mark, .. } if by_movers.contains(mark));
        let (chunks, around) = self.cut_askers();
        let waits = self.last_messages();
        let mut chains: Vec<Chunk> = vec![Vec::new(); requests.min(chunks.len())];
        let many = chains.len();
        for (request, chunk) in chunks.into_iter().enumerate() {
            let handed_at = chunk.iter().position(is_wait).unwrap_or(chunk.len());
            let chain = &mut chains[request % many];
            chain.extend(&chunk[..handed_at]);
            chain.push(Op::Mark(self.handed[request]));
            chain.extend(waits[request].iter().map(|&mark| Op::follow(mark)));
            chain.extend(chunk[handed_at..].iter().filter(|op| !is_wait(op)));
        }
        let ended: Vec<u32> = (0..many).map(|_| self.edited.fresh_mark()).collect();
        chains.iter_mut().zip(&ended).for_each(|(chain, &mark)| chain.push(Op::Mark(mark)));
        let (begun, first) = (self.edited.fresh_mark(), around[0].program);
        let mut chains = chains.into_iter();
        for Around { program, head, tail } in around {
            let mut ops = head;
            if program == first {
                ops.push(Op::Mark(begun));
            }
            ops.extend(chains.next().unwrap_or_default());
            ops.extend(ended.iter().map(|&mark| Op::follow(mark)));
            ops.extend(tail);
            self.edited.programs[program as usize].ops = ops;
        }
        for chain in chains {
            let mut ops = vec![Op::follow(begun)];
            ops.extend(chain);
            self.edited.add_program(first as usize, ops);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flows::{CopyRequest, Message};
    use super::super::program::Program;
    use super::super::program::tests::{graph, program};
    use super::super::regime::Regime;
    use super::super::simulate::{simulate, simulate_edit};
    use super::*;
    use crate::cause::End;
    use crate::replay::scale::Scale;

    /// A copy of `count` requests, of one message each: 10 of reading, 2 of sending, 5 in transit in each direction, 8 of the server's.
    fn copying(count: u32) -> Graph {
        let arrive = |mark, way| Op::Arrive { mark, way, service: 0.0, bytes: 1.0, regime: Regime::Latency, lag: 0.0, polls: false };
        let (mut asker, mut mover, mut server, mut flows) = (Vec::new(), Vec::new(), Vec::new(), Flows::default());
        for k in 0..count {
            let [begin, end, handed, sent, answered, done, going] = [0, 1, 2, 3, 4, 5, 6].map(|n| 7 * k + n);
            asker.extend([Op::Mark(begin), Op::Run(10.0), Op::Mark(handed), Op::follow(done), Op::Mark(end)]);
            mover.extend([Op::follow(handed), Op::Run(2.0), Op::Mark(going), Op::Mark(sent), arrive(7 * k + 7 * count, 1)]);
            mover.extend([Op::Mark(done), Op::Mark(answered)]);
            server.extend([arrive(going, 0), Op::Run(8.0), Op::Mark(7 * k + 7 * count)]);
            flows.asked.push(CopyRequest { program: 1, begin, end });
            flows.messages.push(Message { program: 2, sent, answered, of: k });
        }
        let over = 7 * count - 7 + 1;
        let mut copy = graph(4, vec![vec![Op::follow(over)], asker, mover, server]);
        copy.programs[3] = Program { end: End::Server, ..program(copy.programs[3].ops.clone()) };
        (copy.marks, copy.flows) = (14 * count as usize, flows);
        // A wait for the last request's end waits for a mark of its own.
        let last = copy.marks as u32;
        copy.marks += 1;
        copy.programs[0].ops = vec![Op::follow(last)];
        copy.programs[1].ops.push(Op::Mark(last));
        copy
    }

    #[test]
    fn as_many_requests_as_there_were_are_the_run_again() {
        let copy = copying(20);
        assert_eq!(simulate(&copy, &Scale::none()), Some(20.0 * 30.0));
        assert_eq!(simulate_edit(&edited(&copy, 1, 1).unwrap()), Some(20.0 * 30.0));
    }

    #[test]
    fn two_requests_read_while_the_other_is_moved() {
        // Each of two threads takes 30 for a request; the server takes 8 for each, the connection's thread 2.
        let two = simulate_edit(&edited(&copying(20), 2, 8).unwrap()).unwrap();
        assert!((300.0..=330.0).contains(&two), "{two}");
        let many = simulate_edit(&edited(&copying(200), 8, 8).unwrap()).unwrap();
        assert!((200.0 * 8.0..200.0 * 8.0 + 60.0).contains(&many), "the server has one thread: {many}");
    }

    #[test]
    fn one_message_under_way_waits_for_the_answer_before() {
        let one = simulate_edit(&edited(&copying(200), 8, 1).unwrap()).unwrap();
        assert!((200.0 * 20.0 - 40.0..200.0 * 20.0 + 60.0).contains(&one), "2 to send, 18 until it is answered: {one}");
    }

    #[test]
    fn a_connection_whose_thread_began_after_anothers_may_have_the_first_request() {
        let arrive = |mark, way| Op::Arrive { mark, way, service: 0.0, bytes: 1.0, regime: Regime::Latency, lag: 0.0, polls: false };
        let (mut asker, mut flows) = (Vec::new(), Flows::default());
        // The second thread followed the first one's beginning.
        let mut movers = [vec![Op::Run(1.0), Op::Mark(100)], vec![Op::follow(100)]];
        let mut servers = [vec![], vec![]];
        for k in 0..6 {
            let [begin, end, handed, sent, answered, done, going, came] = [0, 1, 2, 3, 4, 5, 6, 7].map(|n| 8 * k + n);
            let other = 1 - k as usize % 2;
            asker.extend([Op::Mark(begin), Op::Run(10.0), Op::Mark(handed), Op::follow(done), Op::Mark(end)]);
            movers[other].extend([Op::follow(handed), Op::Run(2.0), Op::Mark(going), Op::Mark(sent), arrive(came, 1)]);
            movers[other].extend([Op::Mark(done), Op::Mark(answered)]);
            servers[other].extend([arrive(going, 0), Op::Run(8.0), Op::Mark(came)]);
            flows.asked.push(CopyRequest { program: 1, begin, end });
            flows.messages.push(Message { program: 2 + other as u32, sent, answered, of: k });
        }
        asker.push(Op::Mark(101));
        let [[near, far], [first, second]] = [movers, servers];
        let mut copy = graph(8, vec![vec![Op::follow(101)], asker, near, far, first, second]);
        (copy.marks, copy.flows) = (102, flows);
        let one = simulate_edit(&edited(&copy, 1, 1).unwrap()).expect("it ends");
        assert!((one / simulate(&copy, &Scale::none()).unwrap() - 1.0).abs() < 0.05, "{one}");
        assert!(simulate_edit(&edited(&copy, 2, 1).unwrap()).expect("it ends") < one);
    }

    #[test]
    fn a_run_without_requests_is_no_copy() {
        assert!(edited(&graph(1, vec![vec![Op::Run(1.0)]]), 2, 8).is_none());
    }
}

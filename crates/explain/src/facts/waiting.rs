//! Where the critical path's longest waits waited, if a profile was taken beside the recording: the stacks of waits of the path's own
//! threads, as far as they lie on the path.

use crate::ExplainError;
use crate::cause::Cause;
use crate::document::WaitStack;
use crate::limits::assemble as limits;
use crate::observe::feed::StackedWait;
use crate::observe::tables::Tables;
use crate::path::ledger::{Ledger, Run};
use std::collections::{BTreeMap, HashMap, HashSet};
use thalweg_trace::frame::UNKNOWN;
use thalweg_trace::{Frame, Source};

/// Waits with one stack under one ledger entry.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    total_ns: u64,
    /// The longest: its time on the path, its start, and its track.
    longest: (u64, i64, u64),
}

impl Sum {
    /// Adds others; returns whether the longest is among them.
    fn add(&mut self, more: Sum) -> bool {
        self.count += more.count;
        self.total_ns += more.total_ns;
        // Of two equally long, the earlier one.
        let is_longer = (more.longest.0, -more.longest.1) > (self.longest.0, -self.longest.1);
        if is_longer {
            self.longest = more.longest;
        }
        is_longer
    }
}

/// The functions of a stack: the program's, and the kernel's below them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackFunctions {
    functions: Vec<String>,
    kernel: Vec<String>,
}

/// The path's waits with stacks.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    by_entry: HashMap<u32, HashMap<u32, Sum>>,
    said: HashMap<u32, StackFunctions>,
}

impl Waiting {
    /// Reads their stacks.
    pub(crate) fn read(source: &dyn Source, waits: &[StackedWait], tables: &Tables, ledger: &Ledger) -> Result<Waiting, ExplainError> {
        let mut waiting = Waiting::default();
        for wait in waits {
            for (entry, from, until) in on_path(&ledger.path, wait) {
                let ns = until.abs_diff(from);
                if ns < limits::SHORTEST_WAIT_NS {
                    continue;
                }
                let track = tables.actors.get(wait.track as usize).map_or(0, |actor| actor.id);
                let sum = Sum { count: 1, total_ns: ns, longest: (ns, from, track) };
                waiting.by_entry.entry(entry).or_default().entry(wait.stack).or_default().add(sum);
            }
        }
        if waiting.by_entry.is_empty() {
            return Ok(waiting);
        }
        let wanted: HashSet<u32> = waiting.by_entry.values().flat_map(|stacks| stacks.keys().copied()).collect();
        let stacks = source.stacks()?.into_iter().filter(|stack| wanted.contains(&stack.stack));
        waiting.said = stacks.map(|stack| (stack.stack, said(&stack.frames))).collect();
        Ok(waiting)
    }

    /// The stacks of a charge's waits, longest first. A thread that ran, or was runnable, did not wait: a path in steps may contain both.
    pub(crate) fn of(&self, cause: Cause, members: &[usize], seconds: impl Fn(i64) -> f64) -> Vec<WaitStack> {
        if matches!(cause, Cause::ClientCpu | Cause::ServerCpu | Cause::ClientRunqueue | Cause::ServerRunqueue) {
            return Vec::new();
        }
        let mut sums: BTreeMap<&[String], (Sum, &StackFunctions)> = BTreeMap::new();
        for (stack, sum) in members.iter().filter_map(|&entry| self.by_entry.get(&(entry as u32))).flatten() {
            let Some(said) = self.said.get(stack) else { continue };
            // Stacks with the same program functions are one, whatever the kernel's.
            let called = if said.functions.is_empty() { &said.kernel } else { &said.functions };
            let (all, longest) = sums.entry(called).or_insert((Sum::default(), said));
            if all.add(*sum) {
                *longest = said;
            }
        }
        let wait = |(sum, said): (Sum, &StackFunctions)| WaitStack {
            count: sum.count,
            seconds: sum.total_ns as f64 / 1e9,
            longest_s: sum.longest.0 as f64 / 1e9,
            at_s: seconds(sum.longest.1),
            track: sum.longest.2,
            functions: said.functions.clone(),
            kernel: said.kernel.clone(),
        };
        let mut waits: Vec<WaitStack> = sums.into_values().map(wait).collect();
        // Stable: of equals the first by name.
        waits.sort_by(|a, b| b.longest_s.total_cmp(&a.longest_s));
        waits.truncate(limits::LONGEST_WAITS);
        waits
    }
}

/// The parts of a wait on the path: entry, start and end. The path has the latest first.
fn on_path(path: &[Run], wait: &StackedWait) -> Vec<(u32, i64, i64)> {
    let first = path.partition_point(|run| run.start >= wait.end);
    let mut parts: Vec<(u32, i64, i64)> = Vec::new();
    for run in path[first..].iter().take_while(|run| run.end > wait.start).filter(|run| run.track == wait.track) {
        let (from, until) = (run.start.max(wait.start), run.end.min(wait.end));
        match parts.last_mut() {
            // One wait, though the walk took it in parts.
            Some(part) if part.0 == run.entry && part.1 == until => part.1 = from,
            _ => parts.push((run.entry, from, until)),
        }
    }
    parts
}

/// Whether a kernel function only puts a thread to sleep: the frames up to here are the scheduler's, and those of the stack recorder.
fn is_scheduler(symbol: &str) -> bool {
    let plain = symbol.trim_start_matches('_');
    ["schedule", "io_schedule", "preempt_schedule", "do_sched"].iter().any(|begins| plain.starts_with(begins))
}

/// Whether a kernel function is a system call's entry.
fn is_entry(symbol: &str) -> bool {
    ["entry_", "do_syscall_64", "x64_sys_call", "ret_from_fork", "el0", "invoke_syscall", "do_el0_svc"]
        .iter()
        .any(|begins| symbol.starts_with(begins))
}

/// Callers of `main`, or of a thread's function, in C libraries.
const STARTS: [&str; 7] = ["_start", "__libc_start_main", "__libc_start_call_main", "start_thread", "clone3", "__clone3", "clone"];

/// The functions of a stack, innermost first. Frames beyond an address outside any mapping are uncertain and left out.
fn said(frames: &[String]) -> StackFunctions {
    let frames: Vec<Frame> = frames.iter().map(|frame| Frame::parse(frame)).collect();
    let user = frames.iter().position(Frame::is_user).unwrap_or(frames.len());
    let symbol = |frame: &Frame| frame.symbol.clone().unwrap_or_default();
    let first = frames[..user].iter().rposition(|frame| is_scheduler(&symbol(frame))).map_or(0, |last| last + 1);
    let kernel = frames[first..user].iter().filter_map(|frame| frame.symbol.clone());
    let kernel: Vec<String> = kernel.take_while(|symbol| !is_entry(symbol)).collect();
    let known = frames[user..].iter().take_while(|frame| frame.module != UNKNOWN);
    let mut functions: Vec<String> = known.map(Frame::function).collect();
    match functions.iter().position(|function| function == "main") {
        Some(main) => functions.truncate(main + 1),
        None => {
            let started = functions.iter().rposition(|function| !STARTS.iter().any(|start| function.split('@').next() == Some(start)));
            functions.truncate(started.map_or(0, |last| last + 1));
        }
    }
    if functions.is_empty() && kernel.is_empty() {
        functions.extend(frames.get(user).or(frames.last()).map(Frame::function));
    }
    StackFunctions { functions, kernel }
}

/// The functions of a waiting thread's stack, innermost first: the program's up to `main`, and the kernel's below them.
pub fn waited_in(frames: &[String]) -> (Vec<String>, Vec<String>) {
    let StackFunctions { functions, kernel } = said(frames);
    (functions, kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said_of(frames: &[&str]) -> (String, String) {
        let said = said(&frames.iter().map(|frame| (*frame).to_owned()).collect::<Vec<_>>());
        (said.functions.join(" < "), said.kernel.join(" < "))
    }

    #[test]
    fn a_stack_says_what_the_program_called_and_what_the_kernel_waited_in() {
        let kernel = [
            "bpf_prog_1_on_wait_over+0x5 [bpf]",
            "__traceiter_sched_exit_tp+0x4 [kernel]",
            "__schedule+0x300 [kernel]",
            "schedule+0x27 [kernel]",
            "jbd2_log_wait_commit+0xd0 [jbd2]",
            "__x64_sys_fdatasync+0x30 [kernel]",
            "do_syscall_64+0x80 [kernel]",
        ];
        let user =
            ["fdatasync+0x10 [/lib/libc.so.6]", "[/usr/lib/libsqlite3.so.0 ab+0x77]", "main+0x5 [/bin/app]", "_start+0x2 [/bin/app]"];
        let whole = [&kernel[..], &user[..]].concat();
        let expected = ("fdatasync < [libsqlite3.so.0+0x77] < main".to_owned(), "jbd2_log_wait_commit < __x64_sys_fdatasync".to_owned());
        assert_eq!(said_of(&whole), expected);
        assert_eq!(said_of(&kernel), (String::new(), expected.1));
    }

    #[test]
    fn what_lies_beyond_an_unknown_address_is_nobody_s_caller() {
        let read = |frames: &[&str]| said_of(frames).0;
        assert_eq!(read(&["read [/lib/libc.so.6]", "[unknown]", "main [/bin/app]"]), "read");
        assert_eq!(
            read(&["poll [/lib/libc.so.6]", "work [/bin/app]", "start_thread [/lib/libc.so.6]", "clone3 [/lib/libc.so.6]"]),
            "poll < work"
        );
        assert_eq!(read(&["[unknown]", "main [/bin/app]"]), "[unknown]");
        assert_eq!(read(&["[kernel]"]), "[kernel]");
        assert_eq!(read(&[]), "");
    }

    #[test]
    fn a_wait_is_on_the_path_where_the_path_was_in_its_thread() {
        let run = |start, end, entry, track| Run { start, end, entry, track };
        // The latest first, as the walk makes it.
        let path = [run(90, 100, 0, 1), run(60, 90, 1, 1), run(50, 60, 2, 7), run(40, 50, 1, 1), run(30, 40, 1, 1), run(0, 30, 3, 1)];
        let wait = |start, end| StackedWait { start, end, track: 1, stack: 5 };
        assert_eq!(on_path(&path, &wait(35, 85)), [(1, 60, 85), (1, 35, 50)]);
        assert_eq!(on_path(&path, &wait(50, 60)), []);
        assert_eq!(on_path(&path, &wait(95, 200)), [(0, 95, 100)]);
        assert_eq!(on_path(&path, &wait(-9, 5)), [(3, 0, 5)]);
    }
}

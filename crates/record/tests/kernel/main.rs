//! Promises of the kernel recorder for real programs. Each test needs BPF; skipped, with a message, without it.

#![cfg(feature = "bpf")]

#[path = "../../../../tests/bounded.rs"]
mod bounded;
mod calling;
#[path = "../common/mod.rs"]
mod common;
mod following;
mod leaves;
mod looking;
mod naming;
mod profiling;
mod stacks_of_waits;
mod tasks;
mod unwinding;
mod waiting;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use thalweg_record::probe::State;

/// Debian's own Python: a version manager's would be a tree of shell scripts.
const PYTHON: &str = "/usr/bin/python3";

/// Serialises the tests: they share two CPUs, and would appear in each other's recordings of the machine.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    let found = thalweg_record::probe::probe().into_iter().find(|finding| finding.name == "recorder bpf")?;
    if found.state != State::Good {
        println!("SKIPPED: {}", found.found);
        return None;
    }
    if !Path::new(PYTHON).exists() {
        println!("SKIPPED: there is no {PYTHON}");
        return None;
    }
    Some(ONE.lock().unwrap_or_else(PoisonError::into_inner))
}

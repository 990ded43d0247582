//! What the kernel recorder promises of real programs. Each test needs BPF; without it, it is skipped and says so.

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

/// Debian's own: one that a version manager puts before it is a tree of shell scripts.
const PYTHON: &str = "/usr/bin/python3";

/// One at a time: they share two processors, and what one does would be in another's recording of the machine.
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

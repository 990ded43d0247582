//! One run by an MPI job: all ranks start at the job's own barrier, and each reports its times.

use super::pattern::Calls;
use super::plan::{Choice, Method};
use super::sample::Operation;
use crate::access::{Order, Sharing};
use crate::{Error, Result};
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};

/// The times of one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ran {
    pub(super) transfer_s: f64,
    pub(super) sync_s: Option<f64>,
    pub(super) bytes: u64,
}

/// The output of the patterns' program for one rank.
#[derive(Deserialize)]
struct RankOutput {
    rank: usize,
    bytes: u64,
    transfer_s: f64,
    sync_s: f64,
}

/// Runs the job; returns the times of each rank, in rank order.
pub(super) fn run(choice: &Choice, method: &Method, name: &str, operation: Operation, nodes: &[String]) -> Result<Vec<Ran>> {
    let words = words(choice, method, name, operation, nodes.len())?;
    let line = words.join(" ");
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    let ran = command.output().map_err(Error::file(Path::new(&line), "starting it"))?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        return Err(Error::Choice(format!("{line}: {}: {}", ran.status, said.trim())));
    }
    runs_of(&String::from_utf8_lossy(&ran.stdout), nodes.len(), operation)
        .ok_or_else(|| Error::Choice(format!("{line}: expected one line of output for each rank")))
}

fn words(choice: &Choice, method: &Method, name: &str, operation: Operation, ranks: usize) -> Result<Vec<String>> {
    let (Some(mpi), Some(via)) = (&choice.mpi, method.via) else {
        return Err(Error::Choice("an MPI job without a launcher: a bug".into()));
    };
    let access = method.access(ranks as u32, 0);
    let mut words: Vec<String> =
        mpi.run.split_whitespace().map(|word| word.replace("{mpi}", via.name()).replace("{ranks}", &ranks.to_string())).collect();
    words.push(mpi.directory.join(name).display().to_string());
    words.push(if operation == Operation::Read { "read" } else { "write" }.into());
    words.push(
        match method.pattern.calls {
            Calls::Independent => "independent",
            Calls::Collective => "collective",
            Calls::SharedPointer => "shared_pointer",
        }
        .into(),
    );
    words.push(if access.sharing == Sharing::Shared { "shared" } else { "per_rank" }.into());
    words.push(if access.order == Order::Ascending { "ascending" } else { "random" }.into());
    words.extend([access.block_bytes, access.transfer_bytes, access.segments].map(|number| number.to_string()));
    Ok(words)
}

fn runs_of(output: &str, ranks: usize, operation: Operation) -> Option<Vec<Ran>> {
    let said: Vec<RankOutput> = output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |rank: usize| {
        let said = said.iter().find(|said| said.rank == rank)?;
        let sync_s = (operation != Operation::Read).then_some(said.sync_s);
        Some(Ran { transfer_s: said.transfer_s, sync_s, bytes: said.bytes })
    };
    (0..ranks).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_must_say_what_it_took() {
        let line = |rank: usize| format!("{{\"rank\":{rank},\"bytes\":8,\"transfer_s\":0.5,\"sync_s\":0.25}}\n");
        let both = format!("a warning\n{}{}", line(1), line(0));
        assert_eq!(runs_of(&both, 2, Operation::Write).unwrap()[1], Ran { transfer_s: 0.5, sync_s: Some(0.25), bytes: 8 });
        assert_eq!(runs_of(&both, 2, Operation::Read).unwrap()[0].sync_s, None);
        assert!(runs_of(&line(0), 2, Operation::Write).is_none());
    }
}

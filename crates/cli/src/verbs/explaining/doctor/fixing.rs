//! `doctor --fix` and `doctor --undo`: make the changes that findings propose, and take them back.
//!
//! Nothing is run that was not printed before, and nothing without a yes. Each change is written down before it is made, so that an
//! interrupted one can be undone too. Whether it helped is asked of a new process: capabilities reach only programs that start afterwards.

use super::made::{Journal, Made};
use crate::failure::Failure;
use crate::output;
use crate::terminal::asking;
use serde_json::Value;
use std::os::fd::AsFd;
use std::process::Command;
use thalweg_base::machine::has_program;
use thalweg_base::shell;
use thalweg_record::probe::fix::{self, Change, Fix};
use thalweg_record::probe::{Finding, State};

/// What runs a command with the rights for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rights {
    Root,
    Sudo,
    /// An administrator must run it.
    None,
}

impl Rights {
    fn here() -> Rights {
        match (rustix::process::geteuid().is_root(), has_program("sudo")) {
            (true, _) => Rights::Root,
            (false, true) => Rights::Sudo,
            (false, false) => Rights::None,
        }
    }

    /// Returns the words to run.
    fn words(self, command: &[String]) -> Vec<String> {
        let before: &[&str] = match self {
            // Without a terminal sudo could not ask for a password.
            Rights::Sudo if !asking::can_ask() => &["sudo", "-n"],
            Rights::Sudo => &["sudo"],
            Rights::Root | Rights::None => &[],
        };
        before.iter().map(|word| (*word).to_owned()).chain(command.iter().cloned()).collect()
    }

    fn line(self, commands: &[Vec<String>]) -> String {
        commands.iter().map(|command| shell::line(&self.words(command))).collect::<Vec<_>>().join(" && ")
    }

    /// Runs the commands, with their output on standard error.
    fn run(self, commands: &[Vec<String>]) -> Result<(), String> {
        // An administrator's programs are not in every PATH.
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        for command in commands {
            let words = self.words(command);
            let failed = |how: String| format!("{}: {how}", shell::line(&words));
            let errors = std::io::stderr().as_fd().try_clone_to_owned().map_err(|error| failed(error.to_string()))?;
            let status = Command::new(&words[0]).args(&words[1..]).env("PATH", &path).stdout(errors).status();
            let status = status.map_err(|error| failed(error.to_string()))?;
            if !status.success() {
                return Err(failed(format!("failed with {status}")));
            }
        }
        Ok(())
    }

    /// Whether changes can be made; otherwise, the failure to end with, once they are printed.
    fn may(self, yes: bool, what: &str) -> Result<(), Failure> {
        if self == Rights::None {
            return Err(Failure::failed(format!(
                "{what} needs root, and there is no sudo: nothing was changed; an administrator can run the commands above"
            )));
        }
        match yes || asking::can_ask() {
            true => Ok(()),
            false => Err(Failure::usage(format!("{what} asks first, and there is no terminal: nothing was changed; --yes answers yes"))),
        }
    }
}

/// Makes the changes that the findings propose: those in `ids`, or all.
pub(super) fn fix(findings: Vec<Finding>, ids: &[String], yes: bool, persist: bool) -> Result<(), Failure> {
    let is_wanted = |finding: &Finding| finding.fix.as_ref().is_some_and(|fix| ids.is_empty() || ids.iter().any(|id| id == fix.id));
    let (proposed, others): (Vec<Finding>, Vec<Finding>) = findings.into_iter().partition(is_wanted);
    for id in ids.iter().filter(|id| !proposed.iter().any(|finding| finding.fix.as_ref().is_some_and(|fix| fix.id == **id))) {
        output::line(&format!("{id}: nothing to change here (`thalweg doctor` says what it found)"))?;
    }
    if proposed.is_empty() && ids.is_empty() {
        output::line("nothing that doctor can change would help here")?;
    }
    let rights = Rights::here();
    let may = rights.may(yes, "--fix");
    let mut is_whole = true;
    for finding in &proposed {
        let Some(fix) = finding.fix.clone().map(|fix| kept_if(fix, persist)) else { continue };
        show(finding, &fix, rights)?;
        if may.is_ok() && (yes || asking::is_agreed("make this change?")) {
            is_whole &= make(finding, fix, rights)?;
        }
    }
    if ids.is_empty() {
        list_others(&others)?;
    }
    if !proposed.is_empty() {
        may?;
    }
    if is_whole { Ok(()) } else { Err(Failure::Reported) }
}

/// Adds to a setting that it is kept over boots.
fn kept_if(mut fix: Fix, persist: bool) -> Fix {
    if let Change::Setting { persists, .. } = &mut fix.change {
        *persists = persist;
    }
    fix
}

/// Prints what a change does, before it is made.
fn show(finding: &Finding, fix: &Fix, rights: Rights) -> Result<(), Failure> {
    let mut text = format!("{}: {}: {}\n", fix.id, finding.name, finding.found);
    let mut row = |name: &str, what: &str| text.push_str(&format!("  {name:<9} {what}\n"));
    row(if rights == Rights::None { "as root" } else { "runs" }, &rights.line(&fix.change.commands()));
    row("adds", &fix.adds);
    row("affects", &fix.affects);
    if let Some(gives_up) = &fix.gives_up {
        row("gives up", gives_up);
    }
    row("lasts", fix.change.lasts());
    row("undo", &rights.line(&fix.change.undo()));
    output::result(&text)
}

/// Makes a change and says whether it helped; `false` if it could not be made.
fn make(finding: &Finding, fix: Fix, rights: Rights) -> Result<bool, Failure> {
    let before = if matches!(fix.change, Change::Package { .. }) { fix::packages() } else { Vec::new() };
    let mut made = Made { id: fix.id.to_owned(), change: fix.change };
    let journal = remember(&made)?;
    let ran = rights.run(&made.change.commands());
    if let Change::Package { installed, .. } = &mut made.change {
        *installed = fix::packages().into_iter().filter(|package| !before.contains(package)).collect();
    }
    let is_made = made.change.is_made();
    let mut all = journal.read()?;
    all.pop();
    if is_made {
        all.push(made.clone());
    }
    journal.write(&all)?;
    if let Err(problem) = ran {
        output::note(&format!("thalweg doctor: {}: {problem}", fix.id));
        if is_made {
            output::note(&format!("  part of it was made; undo it with: {}", rights.line(&made.change.undo())));
        }
        return Ok(false);
    }
    let (sign, found) = again(finding)?;
    let said = match sign == "good" {
        true => format!("it helped: {} is good: {found}", finding.name),
        false if found == finding.found => format!("it did not help: {} is {sign} as before: {found}", finding.name),
        false => format!("{} is {sign} now: {found}", finding.name),
    };
    output::line(&format!("  made      {said}\n  undo      thalweg doctor --undo, or: {}", rights.line(&made.change.undo())))?;
    Ok(true)
}

/// Writes down that a change is about to be made.
fn remember(made: &Made) -> Result<Journal, Failure> {
    let journal = Journal::of_user()?;
    let mut all = journal.read()?;
    all.push(made.clone());
    journal.write(&all)?;
    Ok(journal)
}

/// Checks again; returns the finding's state and what was found.
fn again(finding: &Finding) -> Result<(String, String), Failure> {
    let failed = |how: String| Failure::failed(format!("cannot check again: {how}"));
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let checked = Command::new(program).args(["doctor", "--json"]).env_remove("THALWEG_STORE").output();
    let checked = checked.map_err(|error| failed(error.to_string()))?;
    let document: Value = serde_json::from_slice(&checked.stdout).map_err(|error| failed(error.to_string()))?;
    let findings = document["findings"].as_array().map_or(&[][..], Vec::as_slice);
    let found = findings.iter().find(|found| found["name"] == *finding.name);
    let text = |field: &str| found.and_then(|found| found[field].as_str()).map(str::to_owned);
    Ok((text("state").unwrap_or_else(|| "unknown".to_owned()), text("found").unwrap_or_default()))
}

/// Lists what falls short and cannot be changed from here.
fn list_others(findings: &[Finding]) -> Result<(), Failure> {
    let is_short = |finding: &&Finding| finding.state != State::Good && !finding.get.is_empty();
    let mut lines = findings.iter().filter(is_short).map(|finding| format!("  {}: {}\n", finding.name, finding.get)).peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    output::result(&std::iter::once("doctor changes nothing for these:\n".to_owned()).chain(lines).collect::<String>())
}

/// Undoes what was made, the latest first.
pub(super) fn undo(yes: bool) -> Result<(), Failure> {
    let journal = Journal::of_user()?;
    let mut all = journal.read()?;
    if all.is_empty() {
        return output::line("nothing to undo: `doctor --fix` has made no change, or all are undone");
    }
    let rights = Rights::here();
    let may = rights.may(yes, "--undo");
    let mut is_whole = true;
    for at in (0..all.len()).rev() {
        let Made { id, change } = all[at].clone();
        if !change.is_made() {
            output::line(&format!("{id}: no longer as doctor made it, so there is nothing to undo"))?;
            all.remove(at);
            journal.write(&all)?;
            continue;
        }
        output::line(&format!("{id}\n  runs      {}", rights.line(&change.undo())))?;
        if may.is_err() || !(yes || asking::is_agreed("undo this change?")) {
            continue;
        }
        match rights.run(&change.undo()) {
            Ok(()) => {
                output::line("  undone")?;
                all.remove(at);
                journal.write(&all)?;
            }
            Err(problem) => {
                output::note(&format!("thalweg doctor: {id}: {problem}"));
                is_whole = false;
            }
        }
    }
    if !all.is_empty() {
        may?;
    }
    if is_whole { Ok(()) } else { Err(Failure::Reported) }
}

//! `explain --try -- COMMAND`: records and explains the command, runs it alternately with the first proposed change of its command line,
//! and prints the predicted against the achieved time with intervals. `tune` chooses the change, checks that the command can be run
//! again, and does the runs.

use super::recorded::{Use, record};
use super::runs::{self, Wanted};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::recordings::explained::{Form, more_of, note};
use crate::recordings::temporary::Temporary;
use crate::terminal::asking;
use std::ffi::OsString;
use std::path::Path;
use thalweg_base::numbers::duration;
use thalweg_base::shell;
use thalweg_explain::Explanation;
use thalweg_explain::document::{Grounds, WhatIf};
use thalweg_measure::{Observer, Progress};
use thalweg_recipes::Recipe;
use thalweg_record::Exit;
use thalweg_report::Prediction;
use thalweg_trace::secrets;
use thalweg_tune::{Output, Trying, choose, consumes};

/// Flags for trying a proposed change.
#[derive(clap::Args)]
#[command(next_help_heading = "Trying a change")]
pub(super) struct TryFlags {
    /// Try the first proposed change that is a change of the command line: run the unchanged and the changed command alternately (each
    /// --runs times, default 10), and print the predicted and the achieved time
    #[arg(long = "try", requires = "command", conflicts_with_all = ["recordings", "json", "to", "fail_if", "why", "verbose", "phase"])]
    pub(super) is_on: bool,
    /// With --try: do not ask before the runs
    #[arg(long, requires = "is_on")]
    yes: bool,
    /// With --try: permit this change although it gives something up (durability, encryption). May be repeated
    #[arg(long, value_name = "ID", requires = "is_on")]
    allow: Vec<String>,
}

/// Default number of pairs of runs.
const PAIRS: u32 = 10;

/// Records and explains the command, then tries the change.
pub(super) fn run(flags: &TryFlags, wanted: &Wanted<'_>) -> Result<(), Failure> {
    let pairs = wanted.repeat.runs.unwrap_or(PAIRS) as usize;
    let command = wanted.command.iter().map(text).collect::<Result<Vec<String>, _>>()?;
    if !flags.yes && !asking::can_ask() {
        return Err(Failure::usage("--try asks before it runs commands, and there is no terminal: give --yes"));
    }
    let restored = wanted.repeat.prepare.is_some();
    if let Some(why) = consumes(&command).filter(|_| !restored) {
        return Err(Failure::usage(format!(
            "--try runs the command {} times, and {why}: give --prepare with a command that restores it",
            2 * pairs + 3
        )));
    }
    let recipe = Recipe::find(Recipe::embedded(), &command);
    let made = recipe.filter(|_| !restored).and_then(|recipe| Some((recipe.output(&command)?, recipe.repeat())));
    let made = made
        .map(|(made, repeat)| Output::new(&made, repeat).map_err(|error| Failure::usage(format!("--try: {error}"))))
        .transpose()?
        .flatten();
    let prepare: Vec<String> = made.as_ref().map(Output::removal).into_iter().chain(wanted.repeat.prepare.clone()).collect();
    let tried = tried(flags, wanted, &command, &prepare, pairs).map_err(|failure| match (failure, recipe.map(Recipe::repeat)) {
        (Failure::Failed(problem), Some(repeat)) if !repeat.is_empty() => {
            Failure::Failed(format!("{problem} ({repeat}; --prepare runs a command before each run)"))
        }
        (failure, _) => failure,
    });
    let cleaned = runs::around("--cleanup", wanted.repeat.cleanup.as_deref(), "after the last run");
    tried.and(cleaned)
}

fn text(word: &OsString) -> Result<String, Failure> {
    word.to_str().map(str::to_owned).ok_or_else(|| Failure::usage(format!("{}: --try needs a command line in UTF-8", word.display())))
}

fn tried(flags: &TryFlags, wanted: &Wanted<'_>, command: &[String], prepare: &[String], pairs: usize) -> Result<(), Failure> {
    let explanation = explained(wanted, prepare)?;
    let restored = wanted.repeat.prepare.is_some();
    let choice = choose(&explanation.what_if, &flags.allow, restored);
    choice.passed_over.iter().for_each(|passed_over| output::note(passed_over));
    let Some(change) = choice.change else {
        let why = explanation.model.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        return Err(Failure::failed(format!("no change of the command line was proposed, so there is nothing to try{why}")));
    };
    if secrets::was_cut(&change.command) {
        let problem =
            "the command has words that look like secrets, which were removed from its recording, so it cannot be run again with a change";
        return Err(Failure::failed(format!("{problem}: give --keep-command, or leave out -o")));
    }
    show(change, command, prepare, pairs, &explanation);
    if !flags.yes && !asking::is_agreed("run them?") {
        return Err(Failure::Interrupted("nothing was tried".to_owned()));
    }
    let interrupt = Interrupt::listen()?;
    let trying =
        Trying { before: command.to_vec(), after: change.command.clone(), prepare: prepare.to_vec(), pairs, stop: interrupt.flag() };
    let tried = trying.run(&Screen(interrupt)).map_err(|error| match error.is_stopped() {
        true => Failure::Interrupted("stopped".to_owned()),
        false => Failure::failed(error),
    })?;
    // The prediction is used as a ratio: the recorded run was made alone, at another time.
    let scale = tried.before_s.median / explanation.wall_s;
    let (achieved_s, achieved_interval_s) = tried.achieved_s();
    let prediction = Prediction {
        before_s: tried.before_s.median,
        predicted_s: change.predicted_wall_s * scale,
        bounded: change.basis == Grounds::Bounded,
        predicted_interval_s: Some((change.interval_s.0 * scale, change.interval_s.1 * scale)),
        achieved_s,
        achieved_interval_s: Some(achieved_interval_s),
        runs: pairs,
    };
    output::note(&thalweg_report::predicted_against_achieved(&change.change, &prediction));
    Ok(())
}

/// Runs and records the command once, and prints its explanation on standard error.
fn explained(wanted: &Wanted<'_>, prepare: &[String]) -> Result<Explanation, Failure> {
    let temporary = Temporary::new()?;
    prepare.iter().try_for_each(|script| runs::around("--prepare", Some(script), "before the first run"))?;
    let path = wanted.output.map_or_else(|| temporary.recording("try.thw"), Path::to_path_buf);
    // A temporary recording may keep the full command, which is needed for the run with the change.
    let recorded = record(wanted.command, wanted.flags, &path, Use { keep_command: wanted.output.is_none(), ..wanted.to() })?;
    if let Some(exit) = recorded.exit.filter(|exit| *exit != Exit::Code(0)) {
        output::note("thalweg explain: the unchanged command failed, so nothing is tried");
        return Err(Failure::Ended(exit));
    }
    let explanation = recorded.explained(&wanted.options)?;
    let more = wanted.output.map_or_else(|| "predicted against achieved follows".to_owned(), more_of);
    note(&explanation, Form::Short { more: &more });
    Ok(explanation)
}

/// Prints what is about to be run.
fn show(change: &WhatIf, command: &[String], prepare: &[String], pairs: usize, explanation: &Explanation) {
    output::note(&format!("\nto try: {}; alternately, {pairs} times each, after one warm-up run of each", change.change));
    prepare.iter().for_each(|script| output::note(&format!("  before each run  {script}")));
    output::note(&format!("  unchanged        {}", shell::line(command)));
    output::note(&format!("  with the change  {}", shell::line(&change.command)));
    if let Some(gives_up) = &change.gives_up {
        output::note(&format!("  gives up         {gives_up}"));
    }
    let all_s = (explanation.wall_s + change.predicted_wall_s) * (pairs + 1) as f64;
    output::note(&format!("  takes about {}", duration(all_s)));
}

/// Prints trouble, and listens for Ctrl-C.
struct Screen(Interrupt);

impl Observer for Screen {
    fn next(&self, _: &Progress<'_>) {}
    fn trouble(&self, what: &str) {
        output::note(&format!("thalweg explain: {what}"));
    }
    fn cancelled(&self) -> bool {
        self.0.is_raised()
    }
}

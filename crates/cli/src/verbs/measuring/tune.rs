//! `thalweg tune`: the setting at which a command is fastest. Search, recipes and claim are `tune`'s; here are the flags, the files and the lines.

use super::RunFlags;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use std::path::{Path, PathBuf};
use thalweg_base::numbers;
use thalweg_measure::{Observer, Progress};
use thalweg_recipes::Recipe;
use thalweg_report::tune::{self, Columns};
use thalweg_study::sweep::{self, Choice, Parameter, Point, Steps, Surroundings, Sweep};
use thalweg_tune::search::Kind;
use thalweg_tune::{Applied, Budget, Document, Error, Goal, History, Measured, Output, Ran, Replay, Setting, Tuned, Tuning, Watch};

/// Arguments of `thalweg tune`.
#[derive(clap::Args)]
#[command(
    override_usage = "thalweg tune [OPTIONS] -- PROGRAM [ARGUMENTS]...\n       thalweg tune --vary NAME=VALUES... [OPTIONS] -- COMMAND {NAME}...\n       thalweg tune --replay SWEEP.json [--from NAME=VALUE,...]\n       thalweg tune --recipes"
)]
#[command(after_help = "\
For programs of which a recipe is known (--recipes lists them, thalweg recipes PROGRAM shows one) the command as one types it is enough: the recipe has the parameters and how they are \
written, and the command as it stands is the default. For other programs, and to choose, give --vary and put {NAME} where the value belongs; the first \
value is the default unless --from names another. Values are those of thalweg sweep: 1,2,4 | 1..32:x2 | 64Ki..16Mi:x4 | fast,slow.

Each run is recorded and explained: the largest cause of the best run so far picks the parameter that is turned, and which way. A line for each run says \
what it gave, what limited it, and why this setting; * is the best so far. The last runs go to the leaders again. Then the default and the best are run in \
turn, unrecorded, and only if all of the interval says so the best is the answer: the default stays otherwise. A command that is at 95 % of what its \
device or link was measured to give (--ceiling) is left alone.

A run has to do the same work each time: give --prepare or --cleanup, or {run} in the name of what it makes (a number that no other run has). What a \
recipe knows to be made is removed after each run, and has to be new. Every run is in NAME.runs.jsonl as soon as it is known; --continue goes on with it.

  thalweg tune -- globus-url-copy file:///data/big ftp://server/big
  thalweg tune --vary block=4Ki..4Mi:x4 -- dd if=/data/big of=/scratch/copy-{run} bs={block} conv=fsync")]
pub(crate) struct Arguments {
    /// A parameter and its values; may be repeated
    #[arg(long, value_name = "NAME=VALUES")]
    vary: Vec<String>,
    /// Where the command stands now; by default the first value of each parameter
    #[arg(long, value_name = "NAME=VALUE,...", value_delimiter = ',')]
    from: Vec<String>,
    /// What a parameter turns, if its name does not say it: streams, requests, depth, block, window, workers, effort or other
    #[arg(long, value_name = "NAME=KIND")]
    kind: Vec<String>,
    /// Runs of the search (12), a part of the grid (20%), or a time for everything (10min). A warm-up and --pairs come on top of runs; the first line
    /// says how many there will be in all
    #[arg(long, value_name = "HOW MUCH", value_parser = Budget::parse)]
    budget: Option<Budget>,
    /// What is to be large or small: the rate, processor time for each byte, or the 99th percentile of single reads, writes and questions
    #[arg(long, value_enum, default_value_t = Wanted::Rate)]
    goal: Wanted,
    /// So often default and best are run in turn at the end, and up to four times as often where that leaves open which is faster
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = numbers::parse_count)]
    pairs: u32,
    /// Compare rates although settings move different amounts
    #[arg(long)]
    any_bytes: bool,
    /// What the hardware gives: at 95 % of it nothing is left to tune
    #[arg(long, value_name = "RATE", value_parser = numbers::parse_rate)]
    ceiling: Option<f64>,
    /// Vary this parameter of a recipe although it gives something up; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "vary")]
    allow: Vec<String>,
    /// Use this recipe, a file
    #[arg(long, value_name = "FILE", conflicts_with = "vary")]
    recipe: Option<PathBuf>,
    /// List the recipes, with their parameters, and end
    #[arg(long)]
    recipes: bool,
    #[command(flatten)]
    around: RunFlags,
    /// Tune on the runs of a sweep that was made before, its NAME.json, and run nothing
    #[arg(long, value_name = "SWEEP.json", conflicts_with_all = ["vary", "command", "recipe"])]
    replay: Option<PathBuf>,
    /// Neither start from what an earlier tuning found nor keep what this one finds
    #[arg(long)]
    no_history: bool,
    /// Go on with the runs that are there
    #[arg(long = "continue")]
    go_on: bool,
    /// Of the orders; of the runs that --replay draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the settings that may be run and the command as it would be at the default; run nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// What the results are called: a path without its ending
    #[arg(short, long, value_name = "NAME", default_value = "tune")]
    output: PathBuf,
    /// The command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The goals, as the flag says them.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Wanted {
    Rate,
    CpuPerByte,
    P99,
}

/// Tunes, or lists the recipes.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.recipes {
        return list();
    }
    if let Some(path) = &arguments.replay {
        return replay(arguments, path);
    }
    let asked = asked(arguments)?;
    let choice = Choice { command: asked.template.clone(), narrow: 0.0, seed: arguments.seed, ..arguments.around.choice() };
    let output = made(&asked, arguments)?;
    let choice = Choice { cleanup: output.as_ref().map(Output::removal).or(choice.cleanup.clone()), ..choice };
    let sweep = choice.grid(asked.parameters.clone()).map_err(Failure::usage)?;
    let tuning = tuning(arguments, &asked, sweep.skipped().cloned().collect())?;
    asked.notes.iter().for_each(|note| output::note(note));
    if arguments.dry_run {
        return dry_run(&sweep, &tuning);
    }
    let key = thalweg_tune::key(&asked.template, &names(&asked.parameters), &thalweg_tune::mounts());
    let history = History::of_user().filter(|_| !arguments.no_history);
    let known = history.as_ref().map(|history| history.of(&key)).transpose().unwrap_or_else(|note| {
        output::note(&format!("thalweg: {note}"));
        None
    });
    let remembered = known.map(|setting| {
        asked.parameters.iter().map(|parameter| setting.get(&parameter.name).cloned().unwrap_or_default()).collect::<Point>()
    });
    let tuning = Tuning { remembered, ..tuning };
    let (tuned, document) = measured(arguments, &sweep, &tuning, &asked)?;
    drop(output);
    if let Some(history) = history {
        // What was found stands, whether or not it can be kept for the next time. Where that is the default, there is nothing to remember.
        let found = if tuned.winner == tuning.start { Setting::new() } else { document.winner.values.clone() };
        history.remember(&key, &found).unwrap_or_else(|note| output::note(&format!("thalweg: {note}")));
    }
    finish(arguments, &document)
}

/// What runs make, if the recipe knows it, nothing else takes care of it, and it is of this machine.
fn made(asked: &Applied, arguments: &Arguments) -> Result<Option<Output>, Failure> {
    let is_cared_for = arguments.around.prepare.is_some() || arguments.around.cleanup.is_some();
    let Some(made) = asked.output.as_deref().filter(|_| !is_cared_for) else { return Ok(None) };
    Output::new(made, &asked.repeat).map_err(failure)
}

/// What is to be tuned: by a recipe, or by the flags.
fn asked(arguments: &Arguments) -> Result<Applied, Failure> {
    if arguments.command.is_empty() {
        return Err(Failure::usage(
            "no command: give it after --, like -- globus-url-copy FROM TO (--recipes lists what is known without --vary)",
        ));
    }
    let from = |parameters: &[Parameter], defaults: Point| start(parameters, &arguments.from, defaults);
    if !arguments.vary.is_empty() {
        let choice = Choice { vary: arguments.vary.clone(), ..Choice::default() };
        let parameters = choice.parameters().map_err(Failure::usage)?;
        let first = parameters.iter().map(|parameter| parameter.values[0].label.clone()).collect();
        let (start, kinds) = (from(&parameters, first)?, kinds(&parameters, &arguments.kind)?);
        let (template, gives_up, notes) = (arguments.command.clone(), Vec::new(), Vec::new());
        return Ok(Applied { template, parameters, kinds, start, gives_up, notes, output: None, repeat: String::new() });
    }
    let given = arguments.recipe.as_ref().map(|path| thalweg_tune::read(path)).transpose().map_err(failure)?;
    let recipes = Recipe::embedded();
    let recipe = given.as_ref().or_else(|| Recipe::find(recipes, &arguments.command).filter(|recipe| !recipe.parameters.is_empty()));
    let Some(recipe) = recipe else {
        let tunable = recipes.iter().filter(|recipe| !recipe.parameters.is_empty());
        let known: Vec<&str> = tunable.map(|recipe| recipe.name.as_str()).collect();
        let program = &arguments.command[0];
        let problem = format!("no recipe for {program}: give --vary NAME=VALUES and put {{NAME}} into the command where the value belongs");
        return Err(Failure::usage(format!("{problem} (recipes: {})", known.join(", "))));
    };
    let applied =
        thalweg_tune::apply(recipe, &arguments.command, &arguments.allow, |name| std::env::var_os(name).is_some()).map_err(failure)?;
    let start = from(&applied.parameters, applied.start.clone())?;
    Ok(Applied { start, ..applied })
}

/// The defaults, with those that --from names.
fn start(parameters: &[Parameter], from: &[String], mut start: Point) -> Result<Point, Failure> {
    for one in from {
        let named = one.split_once('=').and_then(|(name, value)| Some((parameters.iter().position(|p| p.name == name)?, value)));
        let Some((at, value)) = named else {
            return Err(Failure::usage(format!("--from {one}: expected NAME=VALUE; there are: {}", names(parameters).join(", "))));
        };
        let values = &parameters[at].values;
        let Some(found) = values.iter().find(|known| known.label == value || known.word == value) else {
            let known: Vec<&str> = values.iter().map(|known| known.label.as_str()).collect();
            return Err(Failure::usage(format!("--from {one}: {value} is none of its values: {}", known.join(", "))));
        };
        start[at].clone_from(&found.label);
    }
    Ok(start)
}

fn kinds(parameters: &[Parameter], given: &[String]) -> Result<Vec<Kind>, Failure> {
    let mut kinds: Vec<Kind> = parameters.iter().map(|parameter| Kind::of_name(&parameter.name)).collect();
    for one in given {
        let named =
            one.split_once('=').and_then(|(name, kind)| Some((parameters.iter().position(|p| p.name == name)?, Kind::parse(kind)?)));
        let Some((at, kind)) = named else {
            let known = names(parameters).join(", ");
            return Err(Failure::usage(format!(
                "--kind {one}: expected NAME=KIND; names: {known}; kinds: streams, requests, depth, block, window, workers, effort, other"
            )));
        };
        kinds[at] = kind;
    }
    Ok(kinds)
}

fn names(parameters: &[Parameter]) -> Vec<&str> {
    parameters.iter().map(|parameter| parameter.name.as_str()).collect()
}

fn tuning(arguments: &Arguments, asked: &Applied, excluded: Vec<Point>) -> Result<Tuning, Failure> {
    if excluded.contains(&asked.start) {
        return Err(Failure::usage(format!("{}: --skip leaves out the default itself; give --from another", asked.start.join(" "))));
    }
    Ok(Tuning {
        parameters: asked.parameters.clone(),
        kinds: asked.kinds.clone(),
        start: asked.start.clone(),
        remembered: None,
        excluded,
        budget: arguments.budget.unwrap_or_default(),
        goal: match arguments.goal {
            Wanted::Rate => Goal::Rate,
            Wanted::CpuPerByte => Goal::CpuPerByte,
            Wanted::P99 => Goal::P99,
        },
        pairs: arguments.pairs as usize,
        any_bytes: arguments.any_bytes,
        // A size that is given is the work of every setting.
        same_bytes: arguments.around.bytes.as_ref().is_some_and(|text| numbers::parse_size(text).is_ok()),
        ceiling_bytes_per_s: arguments.ceiling,
    })
}

fn measured(arguments: &Arguments, sweep: &Sweep, tuning: &Tuning, asked: &Applied) -> Result<(Tuned, Document), Failure> {
    let interrupt = Interrupt::listen()?;
    let around = Surroundings {
        thalweg: std::env::current_exe().map_err(|e| Failure::failed(format!("this program's path: {e}")))?,
        log: with_ending(arguments, "runs.jsonl"),
        resume: arguments.go_on,
        stop: interrupt.flag(),
    };
    if !arguments.go_on && is_finished(&around.log, &with_ending(arguments, "json")) {
        std::fs::remove_file(&around.log).map_err(|e| Failure::failed(format!("{}: {e}", around.log.display())))?;
    }
    let goal = serde_json::to_string(&tuning.goal).unwrap_or_default();
    let with = [("goal", goal), ("start", tuning.start.join(" "))];
    let steps = Steps::new(sweep, &around, "tuning", &with).map_err(|error| failure(error.into()))?;
    let screen = Screen { interrupt: Some(interrupt), columns: Columns::new(tuning), is_quiet: arguments.json };
    Some(tune::announced(tuning)).filter(|text| !text.is_empty()).iter().for_each(|text| screen.line(text));
    screen.line(&screen.columns.head(tuning));
    let tuned = tuning.run(&mut Measured::new(steps, tuning.goal), &screen).map_err(failure)?;
    let filled = sweep.command(&tuned.winner, "0");
    let document = Document::new(tuning, &tuned, &asked.template, filled).giving_up(&asked.gives_up);
    Ok((tuned, document))
}

fn replay(arguments: &Arguments, path: &Path) -> Result<(), Failure> {
    let swept = sweep::Document::read(path).map_err(Failure::failed)?;
    let parameters = swept.parameters.clone();
    let first = parameters.iter().map(|parameter| parameter.values[0].label.clone()).collect();
    let start = start(&parameters, &arguments.from, first)?;
    let kinds = kinds(&parameters, &arguments.kind)?;
    let (gives_up, notes) = (Vec::new(), Vec::new());
    let asked = Applied { template: swept.command.clone(), parameters, kinds, start, gives_up, notes, output: None, repeat: String::new() };
    let mut trials = Replay::new(&swept, arguments.seed).map_err(failure)?;
    let tuning = tuning(arguments, &asked, trials.skipped().cloned().collect())?;
    let screen = Screen { interrupt: None, columns: Columns::new(&tuning), is_quiet: arguments.json };
    screen.line(&screen.columns.head(&tuning));
    let tuned = tuning.run(&mut trials, &screen).map_err(failure)?;
    let choice = Choice { command: swept.command.clone(), ..Choice::default() };
    let filled = choice.grid(asked.parameters.clone()).map_err(Failure::usage)?.command(&tuned.winner, "0");
    let document = Document { replay: Some(path.display().to_string()), ..Document::new(&tuning, &tuned, &swept.command, filled) };
    output::result(&if arguments.json { document.json() } else { tune::text(&document) })
}

/// Prints runs as they come, and hears Ctrl-C.
struct Screen {
    interrupt: Option<Interrupt>,
    columns: Columns,
    is_quiet: bool,
}

impl Screen {
    fn line(&self, text: &str) {
        if !self.is_quiet {
            // A reader that went away is met again at the end.
            let _ = output::line(text);
        }
    }
}

impl Observer for Screen {
    fn next(&self, _: &Progress<'_>) {}
    fn trouble(&self, what: &str) {
        output::note(&format!("thalweg: {what}"));
    }
    fn cancelled(&self) -> bool {
        self.interrupt.as_ref().is_some_and(Interrupt::is_raised)
    }
}

impl Watch for Screen {
    fn ran(&self, ran: &Ran) {
        self.line(&self.columns.run(ran));
    }
    fn confirming(&self, pairs: usize) {
        output::note(&format!("the default and the best, {pairs} times in turn, unrecorded"));
    }
}

fn finish(arguments: &Arguments, document: &Document) -> Result<(), Failure> {
    let path = with_ending(arguments, "json");
    std::fs::write(&path, document.json()).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
    output::result(&if arguments.json { document.json() } else { tune::text(document) })
}

/// Whether a log is that of a tuning whose result stands beside it: a new one begins anew, and only one that was ended has to be asked about.
fn is_finished(log: &Path, result: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    modified(log).zip(modified(result)).is_some_and(|(log, result)| result >= log)
}

fn dry_run(sweep: &Sweep, tuning: &Tuning) -> Result<(), Failure> {
    for (parameter, kind) in tuning.parameters.iter().zip(&tuning.kinds) {
        let values: Vec<&str> = parameter.values.iter().map(|value| value.label.as_str()).collect();
        output::line(&format!("{} ({kind:?}): {}", parameter.name, values.join(" ")).to_lowercase())?;
    }
    output::line(&format!("default: {}", sweep.command(&tuning.start, "0").join(" ")))
}

fn list() -> Result<(), Failure> {
    for recipe in Recipe::embedded().iter().filter(|recipe| !recipe.parameters.is_empty()) {
        output::line(&recipe.title())?;
        for line in recipe.parameter_lines() {
            output::line(&format!("  {line}"))?;
        }
    }
    Ok(())
}

fn with_ending(arguments: &Arguments, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}.{ending}", arguments.output.display()))
}

fn failure(error: Error) -> Failure {
    match error {
        error if error.is_stopped() => Failure::Interrupted("stopped; what was measured is kept: give --continue to go on".into()),
        error if error.is_usage() => Failure::usage(error),
        error => Failure::failed(error),
    }
}

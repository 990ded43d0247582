//! `thalweg tune`: finds the setting at which a command is fastest. The `tune` crate does the search, the recipes and the comparison; this
//! file has the flags, writes the files and prints a line for each run.

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
For programs with a recipe (--recipes lists them, thalweg recipes PROGRAM shows one) the plain command is enough: the recipe has the parameters and \
their syntax, and the unchanged command is the default. For other programs, or other parameters, give --vary and put {NAME} where the value belongs; \
the first value is the default unless --from names another. Values are those of thalweg sweep: 1,2,4 | 1..32:x2 | 64Ki..16Mi:x4 | fast,slow.

Each run is recorded and explained: the largest cause of the best run so far decides which parameter is changed, and in which direction. A line for each \
run shows its result, what limited it, and why this setting was chosen; * marks the best so far. The last runs repeat the leaders. Then the default and \
the best are run alternately, unrecorded; the best wins only if the whole interval is in its favour, otherwise the default stays. A command at 95 % of \
the measured rate of its device or link (--ceiling) is not tuned.

Every run must do the same work: give --prepare or --cleanup, or put {run} (a number unique to the run) into the name of its output. Output that a \
recipe knows of must not exist before, and is removed after each run. Every run is in NAME.runs.jsonl as soon as it ends; --continue resumes from it.

  thalweg tune -- globus-url-copy file:///data/big ftp://server/big
  thalweg tune --vary block=4Ki..4Mi:x4 -- dd if=/data/big of=/scratch/copy-{run} bs={block} conv=fsync")]
pub(crate) struct Arguments {
    /// A parameter and its values. May be repeated
    #[arg(long, value_name = "NAME=VALUES")]
    vary: Vec<String>,
    /// The current setting (default: the first value of each parameter)
    #[arg(long, value_name = "NAME=VALUE,...", value_delimiter = ',')]
    from: Vec<String>,
    /// The kind of a parameter, if its name does not show it: streams, requests, depth, block, window, workers, effort or other
    #[arg(long, value_name = "NAME=KIND")]
    kind: Vec<String>,
    /// Number of search runs (12), a part of the grid (20%), or a total time (10min). Warm-up runs and --pairs are added to a number of
    /// runs; the first line printed has the total
    #[arg(long, value_name = "HOW MUCH", value_parser = Budget::parse)]
    budget: Option<Budget>,
    /// What to optimise: the rate, the CPU time per byte, or the 99th percentile latency of single reads, writes and requests
    #[arg(long, value_enum, default_value_t = Wanted::Rate)]
    goal: Wanted,
    /// Number of pairs of runs of the default and the best setting at the end; up to four times as many if it is still undecided which is
    /// faster
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = numbers::parse_count)]
    pairs: u32,
    /// Compare rates even if the settings move different numbers of bytes
    #[arg(long)]
    any_bytes: bool,
    /// Ceiling of the hardware: a command at 95 % of it is not tuned
    #[arg(long, value_name = "RATE", value_parser = numbers::parse_rate)]
    ceiling: Option<f64>,
    /// Vary this parameter of a recipe even though it gives something up. May be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "vary")]
    allow: Vec<String>,
    /// Use the recipe in this file
    #[arg(long, value_name = "FILE", conflicts_with = "vary")]
    recipe: Option<PathBuf>,
    /// List the recipes with their parameters, and exit
    #[arg(long)]
    recipes: bool,
    #[command(flatten)]
    around: RunFlags,
    /// Tune on the runs of an earlier sweep, given its NAME.json; run nothing
    #[arg(long, value_name = "SWEEP.json", conflicts_with_all = ["vary", "command", "recipe"])]
    replay: Option<PathBuf>,
    /// Do not start from the result of an earlier tuning, and do not save the result of this one
    #[arg(long)]
    no_history: bool,
    /// Resume from the runs in the log
    #[arg(long = "continue")]
    go_on: bool,
    /// Random seed for the orders, and for the runs that --replay draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the possible settings and the command at the default; run nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Path of the results, without extension
    #[arg(short, long, value_name = "NAME", default_value = "tune")]
    output: PathBuf,
    /// The command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The goals, as the flag names them.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Wanted {
    Rate,
    CpuPerByte,
    P99,
}

/// Tunes a command, or lists the recipes.
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
        // The result is valid even if it cannot be saved in the history. If it is the default, there is nothing to save.
        let found = if tuned.winner == tuning.start { Setting::new() } else { document.winner.values.clone() };
        history.remember(&key, &found).unwrap_or_else(|note| output::note(&format!("thalweg: {note}")));
    }
    finish(arguments, &document)
}

/// Returns the output of runs to remove, if the recipe knows it, it is on this machine, and neither `--prepare` nor `--cleanup` handles it.
fn made(asked: &Applied, arguments: &Arguments) -> Result<Option<Output>, Failure> {
    let is_cared_for = arguments.around.prepare.is_some() || arguments.around.cleanup.is_some();
    let Some(made) = asked.output.as_deref().filter(|_| !is_cared_for) else { return Ok(None) };
    Output::new(made, &asked.repeat).map_err(failure)
}

/// Returns the parameters to tune, from a recipe or from the flags.
fn asked(arguments: &Arguments) -> Result<Applied, Failure> {
    if arguments.command.is_empty() {
        return Err(Failure::usage(
            "no command: give it after --, like -- globus-url-copy FROM TO (--recipes lists the programs that need no --vary)",
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

/// Returns the default setting, changed by `--from`.
fn start(parameters: &[Parameter], from: &[String], mut start: Point) -> Result<Point, Failure> {
    for one in from {
        let named = one.split_once('=').and_then(|(name, value)| Some((parameters.iter().position(|p| p.name == name)?, value)));
        let Some((at, value)) = named else {
            return Err(Failure::usage(format!(
                "--from {one}: expected NAME=VALUE with one of the names {}",
                names(parameters).join(", ")
            )));
        };
        let values = &parameters[at].values;
        let Some(found) = values.iter().find(|known| known.label == value || known.word == value) else {
            let known: Vec<&str> = values.iter().map(|known| known.label.as_str()).collect();
            return Err(Failure::usage(format!("--from {one}: {value} is not one of its values: {}", known.join(", "))));
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
        return Err(Failure::usage(format!("{}: --skip excludes the default itself; choose another with --from", asked.start.join(" "))));
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
        // A given size applies to every setting.
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

/// Prints runs as they end, and listens for Ctrl-C.
struct Screen {
    interrupt: Option<Interrupt>,
    columns: Columns,
    is_quiet: bool,
}

impl Screen {
    fn line(&self, text: &str) {
        if !self.is_quiet {
            // A closed standard output is reported at the end.
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
        output::note(&format!("comparing the default and the best: {pairs} alternating runs of each, unrecorded"));
    }
}

fn finish(arguments: &Arguments, document: &Document) -> Result<(), Failure> {
    let path = with_ending(arguments, "json");
    std::fs::write(&path, document.json()).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
    output::result(&if arguments.json { document.json() } else { tune::text(document) })
}

/// Whether a log belongs to a finished tuning, whose result exists: then a new tuning starts over without --continue.
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
        error if error.is_stopped() => Failure::Interrupted("stopped; the runs so far are kept: resume with --continue".into()),
        error if error.is_usage() => Failure::usage(error),
        error => Failure::failed(error),
    }
}

//! Text of a tuning for a terminal: a line for each run, and at the end the setting to use, its gain, ties, and what limits now.

use thalweg_base::numbers::{percent, whole_percent};
use thalweg_base::shell;
use thalweg_base::text::wrap_hanging;
use thalweg_study::sweep::{Parameter, State};
use thalweg_tune::search::{LEAST_RUNS, Reason};
use thalweg_tune::{AT_CEILING, Document, Goal, Ran, Setting, Tuning};

/// Maximum width of a sentence.
const WIDTH: usize = 100;
/// Maximum number of ties listed.
const MOST_TIES: usize = 4;

/// Returns the first line: the number of runs, including a warm-up. Empty if the time is the limit, or if a run's error will say more.
pub fn announced(tuning: &Tuning) -> String {
    let Ok(Some((search, fewest, most))) = tuning.runs() else { return String::new() };
    let alone = search + 1;
    if most == 0 {
        return format!("At most {alone} runs: a warm-up and {search} of the search.");
    }
    let (all, longest) = (alone + fewest, alone + most);
    let pairs = fewest / 2;
    format!(
        "At most {all} runs: a warm-up, {search} of the search, and {pairs} alternating runs each of the default and the best\n\
         (more if it is still open which is faster: {longest} runs)."
    )
}
/// Aligned columns of runs.
#[derive(Clone, Debug)]
pub struct Columns {
    widths: Vec<usize>,
    goal: Goal,
}

impl Columns {
    /// Computes the columns for runs of this tuning.
    pub fn new(tuning: &Tuning) -> Columns {
        let width = |parameter: &Parameter| {
            let values = parameter.values.iter().map(|value| value.label.chars().count());
            values.chain([parameter.name.chars().count()]).max().unwrap_or(0)
        };
        Columns { widths: tuning.parameters.iter().map(width).collect(), goal: tuning.goal }
    }

    /// Returns the heading.
    pub fn head(&self, tuning: &Tuning) -> String {
        let names: Vec<&str> = tuning.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let figure = match self.goal {
            Goal::Rate => "rate",
            Goal::CpuPerByte => "CPU",
            Goal::P99 => "p99",
        };
        self.line("run", &names, figure, "limited by", "why this setting")
    }

    /// Formats a run's line.
    pub fn run(&self, ran: &Ran) -> String {
        let labels: Vec<&str> = ran.point.iter().map(String::as_str).collect();
        let (figure, cause) = match ran.trial.state {
            State::Done => (self.goal.figure(&ran.trial.figures), cause(ran)),
            state => (state.name().to_owned(), String::new()),
        };
        let mark = if ran.is_best { "*" } else { "" };
        self.line(&format!("{}{mark}", ran.number), &labels, &figure, &cause, &why(&ran.reason))
    }

    fn line(&self, number: &str, values: &[&str], figure: &str, cause: &str, why: &str) -> String {
        let values: Vec<String> = values.iter().zip(&self.widths).map(|(value, width)| format!("{value:>width$}")).collect();
        format!("{number:<4}{}  {figure:>11}  {cause:<23}{why}", values.join(" ")).trim_end().to_owned()
    }
}

fn cause(ran: &Ran) -> String {
    ran.trial.causes.first().map_or_else(|| "not explained".to_owned(), |(cause, share)| format!("{cause} {}", whole_percent(*share)))
}

/// Formats the reason for a run.
fn why(reason: &Reason) -> String {
    let way = |up: &bool| if *up { "up" } else { "down" };
    match reason {
        Reason::Default => "the default".to_owned(),
        Reason::Remembered => "the best of an earlier tuning".to_owned(),
        Reason::Cause { cause, knob, up, .. } => format!("{cause}: {knob} {}", way(up)),
        Reason::OneInFlight { knob } => format!("one in flight: {knob} up"),
        Reason::Other { knob, up } => format!("no cause suggests a move: {knob} {}", way(up)),
        Reason::Leader => "repeated: among the best".to_owned(),
    }
}

/// Formats the result in a few lines, the last of which is the command to use.
pub fn text(document: &Document) -> String {
    let mut lines = vec![outcome(document)];
    lines.extend(ties_line(document));
    let failed = document.runs.iter().filter(|run| run.state != State::Done).count();
    if failed > 0 {
        let settings: Vec<String> = document.runs.iter().filter(|run| run.state != State::Done).map(|run| words(&run.values)).collect();
        lines.push(format!("Fails at: {}.", settings.join(", ")));
    }
    lines.extend(limit_line(document));
    lines.extend(document.gives_up.iter().map(|text| format!("Gives up: {text}")));
    let lines = lines.iter().flat_map(|line| wrap_hanging(line, WIDTH, 2));
    let text = lines.chain(["Use:".to_owned(), format!("  {}", shell::line(&document.winner.command))]).collect::<Vec<_>>().join("\n");
    text + "\n"
}

/// Formats the sentence on the winner.
fn outcome(document: &Document) -> String {
    let winner = &document.winner;
    let interval =
        |gain: thalweg_measure::Estimate| format!("{:.2}x, {:.2} to {:.2}, in {} pairs", gain.median, gain.low, gain.high, gain.values);
    match (&winner.rejected, winner.gain) {
        (None, Some(gain)) => {
            let claim = format!("{:.2}x {}, {:.2} to {:.2}", gain.median, document.goal.gain(), gain.low, gain.high);
            format!("{}: {claim} (95 % interval of {} interleaved pairs).", words(&winner.values), gain.values)
        }
        (Some(best), Some(gain)) => {
            format!("The default stays: the best of the search, {}, is not shown to be better ({}).", words(best), interval(gain))
        }
        (Some(best), None) => format!("The default stays: {} was not compared with it.", words(best)),
        (None, None) => match document.limit.as_ref().and_then(|limit| limit.of_ceiling) {
            Some(part) if document.runs.len() <= LEAST_RUNS => {
                format!("Nothing is left to tune: the default reaches {} of the measured ceiling.", whole_percent(part))
            }
            _ => "The default is the best setting tried.".to_owned(),
        },
    }
}

fn ties_line(document: &Document) -> Option<String> {
    let ties: Vec<String> = document.ties.iter().take(MOST_TIES).map(words).collect();
    let more = document.ties.len().saturating_sub(MOST_TIES);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let noise = percent(document.noise);
    (!ties.is_empty()).then(|| format!("Equally good (runs of one setting differ by {noise}): {}{rest}.", ties.join("; ")))
}

fn limit_line(document: &Document) -> Option<String> {
    let limit = document.limit.as_ref()?;
    let place = if limit.place.is_empty() { String::new() } else { format!(" ({})", limit.place) };
    let ceiling = match limit.of_ceiling {
        Some(part) if part >= AT_CEILING => format!(", at {} of its measured ceiling: nothing is left to tune", whole_percent(part)),
        _ => String::new(),
    };
    Some(format!("Limits now: {} {}{place}{ceiling}.", limit.cause, whole_percent(limit.share)))
}
fn words(setting: &Setting) -> String {
    setting.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

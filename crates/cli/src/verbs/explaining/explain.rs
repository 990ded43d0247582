//! `thalweg explain RECORDING`: where the time went, and what a change would give; with `--after EARLIER`, what an earlier
//! recording's explanation predicted for this one, against what was achieved. `thalweg explain CLIENT SERVER` merges the recordings
//! of both ends first; `thalweg explain -- COMMAND` runs and records first.
//!
//! With a command, standard output is the command's: the explanation goes to standard error, as with `time` and `perf stat`, or to the
//! file that `--to` names. JSON was asked for by a program, so it goes to standard output after all the command wrote, unless `--to`
//! names a file.

use crate::failure::Failure;
use crate::output;
use crate::recordings::explained::{Form, explained, explained_as, merged, more_of, note, print};
use crate::recordings::record_flags::{RECORDING_FLAGS, RecordFlags};
use crate::recordings::temporary::Temporary;
use crate::terminal::exit;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use thalweg_explain::{Explanation, Options};
use thalweg_record::Exit;
use thalweg_report::{Prediction, TextOptions};
use thalweg_trace::Source;

/// Arguments of `thalweg explain`.
#[derive(clap::Args)]
#[command(override_usage = "thalweg explain [OPTIONS] RECORDING...\n       thalweg explain [OPTIONS] -- COMMAND [ARGUMENTS]...")]
#[command(
    after_help = "With a command, it exits with the command's exit code or by the signal that ended it; 127: not found, 126: not executable. \
The explanation goes to standard error or to the file that --to names; with --json to standard output, after what the command wrote."
)]
pub(crate) struct Arguments {
    /// The recording, a directory NAME.thw. Several are merged: the client's first, then the servers'
    #[arg(value_name = "RECORDING", required_unless_present = "command", conflicts_with = "command")]
    recordings: Vec<PathBuf>,
    /// Print the explanation as JSON (thalweg.explain/1)
    #[arg(long)]
    json: bool,
    /// Say of each charge by which rules it was charged, and on which spans that rests
    #[arg(long, conflicts_with = "after")]
    why: bool,
    /// Print all that is known: every charge with its evidence, gaps, phases, up to five changes with how to make them
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
    /// Write the explanation to this file
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Compare what the explanation of EARLIER predicted for the change made since with what was achieved
    #[arg(long, value_name = "EARLIER", conflicts_with_all = ["json", "command"])]
    after: Option<PathBuf>,
    /// Keep the recording of the command, or the merged one: a directory that does not exist yet
    #[arg(short, long, value_name = "NAME.thw")]
    output: Option<PathBuf>,
    #[command(flatten)]
    flags: CommandsFlags,
    /// The command to run, record and explain, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The flags for recording, each refused by its name where recordings are given.
struct CommandsFlags(RecordFlags);

impl clap::FromArgMatches for CommandsFlags {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<CommandsFlags, clap::Error> {
        RecordFlags::from_arg_matches(matches).map(CommandsFlags)
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl clap::Args for CommandsFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        RecordFlags::augment_args(command).mut_group(RECORDING_FLAGS, |flags| flags.conflicts_with("recordings"))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        CommandsFlags::augment_args(command)
    }
}

impl Arguments {
    fn options(&self) -> Options {
        Options { why: self.why, ..Options::default() }
    }
}

/// Explains.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.command.is_empty() {
        return run_and_explain(arguments);
    }
    match (arguments.recordings.as_slice(), &arguments.after) {
        ([recording], after) => {
            if let Some(output) = &arguments.output {
                return Err(Failure::usage(format!("-o {}: a single recording is kept anyway; leave -o out", output.display())));
            }
            explain_one(arguments, recording, after.as_deref())
        }
        (_, Some(_)) => Err(Failure::usage("--after compares one recording with an earlier one; merge those of both ends first")),
        (several, None) => explain_merged(arguments, several),
    }
}

fn explain_one(arguments: &Arguments, path: &Path, after: Option<&Path>) -> Result<(), Failure> {
    let (recording, explanation) = explained_as(path, &arguments.options())?;
    match after {
        None => hand_over(&explanation, arguments, &more_of(path), false),
        Some(earlier) => {
            let (_, before) = explained(earlier)?;
            output::result(&against(&before, &explanation, &recording.meta().command, earlier)?)
        }
    }
}

/// Merges the recordings of several ends, and explains them as one.
fn explain_merged(arguments: &Arguments, recordings: &[PathBuf]) -> Result<(), Failure> {
    let temporary = Temporary::new()?;
    temporary.guard();
    let path = arguments.output.clone().unwrap_or_else(|| temporary.recording("merged.thw"));
    // What is to be noted of it is in the recording, and so in the explanation.
    merged(recordings, &path)?;
    let more = arguments.output.as_deref().map_or_else(|| "explain -v, or -o run.thw to keep the merged recording".to_owned(), more_of);
    hand_over(&explained_as(&path, &arguments.options())?.1, arguments, &more, false)
}

/// Runs a command, records it and explains the recording; ends as the command did.
fn run_and_explain(arguments: &Arguments) -> Result<(), Failure> {
    // The file is made first: that it cannot be is better known before the command has run.
    if let Some(to) = &arguments.to {
        std::fs::write(to, "").map_err(|e| Failure::failed(format!("{}: {e}", to.display())))?;
    }
    let temporary = Temporary::new()?;
    let path = arguments.output.clone().unwrap_or_else(|| temporary.recording("command.thw"));
    let outcome = thalweg_record::run(&arguments.flags.0.options(&arguments.command, &path))?;
    temporary.guard();
    let explained = explained_as(&outcome.path, &arguments.options()).map(|(_, explanation)| explanation);
    let more = arguments
        .output
        .as_deref()
        .map_or_else(|| "explain -v, or -o run.thw to keep it, then report run.thw -o run.html".to_owned(), more_of);
    // The explanation has the recording's notes; what came to be known after it was written, or could not be explained, is said here.
    let known = explained.as_ref().map_or(&[][..], |explanation| &explanation.notes);
    outcome.notes.iter().filter(|note| !known.contains(note)).for_each(|note| output::note(&format!("thalweg explain: {note}")));
    let handed_over = explained.and_then(|explanation| hand_over(&explanation, arguments, &more, true));
    drop(temporary);
    match (outcome.exit, handed_over) {
        (None | Some(Exit::Code(0)), handed_over) => handed_over,
        (Some(exit), handed_over) => {
            // How the command ended counts for more than what could be said about it.
            if let Err(failure) = handed_over {
                exit::report(&failure, "explain");
            }
            Err(Failure::Ended(exit))
        }
    }
}

/// Puts an explanation where the arguments say; `after_command`: standard output has been the command's. `more`: how to see more of it.
fn hand_over(explanation: &Explanation, arguments: &Arguments, more: &str, after_command: bool) -> Result<(), Failure> {
    let form = match (arguments.json, arguments.verbose || arguments.why) {
        (true, _) => Form::Json,
        (false, true) => Form::Full,
        (false, false) => Form::Short { more },
    };
    match &arguments.to {
        Some(to) => {
            let text = form.write(explanation, &TextOptions::default());
            std::fs::write(to, text).map_err(|e| Failure::failed(format!("{}: {e}", to.display())))
        }
        None if after_command && !arguments.json => {
            note(explanation, form);
            Ok(())
        }
        None => print(explanation, form),
    }
}

/// The change of `before` that `command` made, with prediction and outcome.
fn against(before: &Explanation, now: &Explanation, command: &[String], earlier: &Path) -> Result<String, Failure> {
    let has = |(flag, value): &(String, String)| {
        // The last of several is what the command went by.
        let last = command.iter().rposition(|word| word == flag);
        last.and_then(|at| command.get(at + 1)) == Some(value) || command.contains(&format!("{flag}={value}"))
    };
    let made = before.what_if.iter().find(|change| !change.flags.is_empty() && change.flags.iter().all(has)).ok_or_else(|| {
        Failure::failed(format!("{}: this recording was made with none of the changes that its explanation proposes", earlier.display()))
    })?;
    let prediction = Prediction { before_s: before.wall_s, predicted_s: made.predicted_wall_s, achieved_s: now.wall_s };
    Ok(thalweg_report::predicted_against_achieved(&made.change, &prediction))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;
    use clap::{Arg, ArgAction, Args, Command};

    fn parse(words: &[&str]) -> Result<clap::ArgMatches, clap::Error> {
        Arguments::augment_args(Command::new("explain")).try_get_matches_from([&["explain"], words].concat())
    }

    /// The flags that a flag goes with.
    fn needs(flag: &Arg) -> &'static [&'static str] {
        match flag.get_id().as_str() {
            "user_stacks" => &["--profile"],
            "stack_bytes" => &["--profile", "--user-stacks=dwarf"],
            _ => &[],
        }
    }

    /// The words that give a flag, with a value that it takes.
    fn given(flag: &Arg) -> Vec<String> {
        let name = format!("--{}", flag.get_long().expect("a flag for recording has a long name"));
        if matches!(flag.get_action(), ArgAction::SetTrue) {
            return vec![name];
        }
        let possible = flag.get_possible_values();
        let values = possible.iter().map(|value| value.get_name().to_owned()).chain(["1s", "16Ki", "1Gi", "name"].map(str::to_owned));
        let takes = |word: &String| parse(&[needs(flag), &[word, "--", "true"]].concat()).is_ok();
        values.map(|value| format!("{name}={value}")).find(takes).map(|word| vec![word]).expect("one of the values is taken")
    }

    #[test]
    fn flags_for_recording_are_refused_with_a_recording() {
        assert!(parse(&["run.thw"]).is_ok(), "defaults are no flags given");
        let flags = RecordFlags::augment_args(Command::new("flags"));
        for flag in flags.get_arguments() {
            let words = given(flag);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let with_recording = parse(&[&words[..], &["run.thw"]].concat());
            let refused = with_recording.expect_err("a flag for recording is refused with a recording");
            assert_eq!(refused.kind(), ErrorKind::ArgumentConflict, "{words:?} with a recording");
            let name = words[0].split('=').next().expect("a flag");
            assert!(refused.to_string().contains(name), "{name} is not named: {refused}");
            assert_eq!(refused.to_string().split("Usage").next().map(|text| text.matches("--").count()), Some(1), "{refused}");
            assert!(parse(&[needs(flag), &words, &["--", "true"]].concat()).is_ok(), "{words:?} with a command");
        }
    }
}

//! `thalweg explain RECORDING`: shows where the time went, and what a change would gain. `thalweg explain CLIENT SERVER` merges the
//! recordings of both ends first; `thalweg explain -- COMMAND` runs and records first, with `-n` several times ([`runs`]), and with
//! `--try` makes a proposed change ([`trying`]). `--fail-if` turns the explanation into an exit code ([`fail_if`]).
//!
//! With a command, standard output is the command's: the explanation goes to standard error, as with `time` and `perf stat`, or to the
//! file that `--to` names. JSON is for programs, so it goes to standard output after the command's output, unless `--to` names a file.

mod captured;
mod fail_if;
mod recorded;
mod runs;
mod trying;

use crate::failure::Failure;
use crate::output;
use crate::recordings::captured::is_capture;
use crate::recordings::explained::{Form, explained_as, merged, more_of, note, print};
use crate::recordings::record_flags::{RECORDING_FLAGS, RecordFlags};
use crate::recordings::temporary::Temporary;
use crate::terminal::exit;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use thalweg_explain::document::PhaseName;
use thalweg_explain::{Condition, Explanation, Options};
use thalweg_record::Exit;
use thalweg_report::TextOptions;

/// Arguments of `thalweg explain`.
#[derive(clap::Args)]
#[command(override_usage = "thalweg explain [OPTIONS] RECORDING|CAPTURE...\n       thalweg explain [OPTIONS] -- COMMAND [ARGUMENTS]...")]
#[command(
    after_help = "With a command, exits with the command's exit code or by the signal that ended it; 127: not found, 126: not executable. \
The explanation goes to standard error or to the file that --to names; with --json to standard output, after the command's output.

The conditions of --fail-if are: 'rate < 500MiB/s', 'wall > 3s', 'share(server.sync) > 20%' (also share(server), share(sync)), \
'slower than EARLIER by 5%', where EARLIER is a recording or an explanation as JSON. If one holds, the exit code is 3, and a line on \
standard error says why; a command that failed keeps its own exit code, and the conditions are not checked.

  thalweg explain packets.pcapng
  thalweg explain -n 5 --prepare 'rm -f copy' -- cp big copy
  thalweg explain --fail-if 'rate < 500MiB/s' --fail-if 'slower than baseline.json by 5%' -- cp big /mnt/copy"
)]
pub(crate) struct Arguments {
    /// The recording, a directory NAME.thw, or a capture of packets (pcap or pcapng, also compressed; - for standard input). If there are
    /// several, they are merged: give the client's first, then the servers'
    #[arg(value_name = "RECORDING|CAPTURE", required_unless_present = "command", conflicts_with = "command")]
    recordings: Vec<PathBuf>,
    /// Print the explanation as JSON (thalweg.explain/1)
    #[arg(long)]
    json: bool,
    /// Show, for each charge, the rules that assigned it and the spans it is based on
    #[arg(long)]
    why: bool,
    /// Print the full text: every charge with its evidence, gaps, phases, and up to six changes and how to make them
    #[arg(short, long)]
    verbose: bool,
    /// Write the explanation to this file
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Explain only this run of a capture that holds several (1 is the first)
    #[arg(long, value_name = "N", conflicts_with_all = ["command", "phase"])]
    run: Option<usize>,
    /// Explain only this phase of the transfer: set-up (before the first byte), ramp, steady, drain (at its end), tear-down (after the last
    /// byte)
    #[arg(long, value_name = "NAME", value_parser = PhaseName::parse, conflicts_with = "fail_if")]
    phase: Option<PhaseName>,
    /// Exit with code 3 if this condition holds. May be repeated
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse)]
    fail_if: Vec<Condition>,
    /// Keep the recording in this directory, which must not exist yet: that of the command (with -n, of the median run; with --try, of the
    /// run that is explained), or the merged recording
    #[arg(short, long, value_name = "NAME.thw")]
    output: Option<PathBuf>,
    #[command(flatten)]
    repeat: runs::Repeat,
    #[command(flatten)]
    trying: trying::TryFlags,
    #[command(flatten)]
    flags: CommandsFlags,
    /// The command to run, record and explain, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The recording flags; each is refused by name if recordings are given.
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
        Options { why: self.why, phase: self.phase, ..Options::default() }
    }

    /// Whether the explanation's form has the recording's notes.
    fn shows_notes(&self) -> bool {
        self.json || self.verbose || self.why
    }

    fn wanted(&self) -> runs::Wanted<'_> {
        let (command, flags, output) = (&self.command, &self.flags.0, self.output.as_deref());
        runs::Wanted { command, flags, repeat: &self.repeat, output, options: self.options() }
    }
}

/// Explains recordings, captures or a command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.trying.is_on {
        return trying::run(&arguments.trying, &arguments.wanted());
    }
    if !arguments.command.is_empty() {
        return run_and_explain(arguments);
    }
    let conditions = fail_if::read(&arguments.fail_if)?;
    let explanation = match arguments.recordings.as_slice() {
        [recording] => {
            if is_capture(recording) && arguments.phase.is_none() {
                return explain_captured(arguments, recording, &conditions);
            }
            if let Some(output) = &arguments.output {
                return Err(Failure::usage(format!("-o {}: leave out -o: a single recording is kept anyway", output.display())));
            }
            explain_one(arguments, recording)?
        }
        several => explain_merged(arguments, several)?,
    };
    fail_if::judge(&conditions, &explanation)
}

fn explain_one(arguments: &Arguments, path: &Path) -> Result<Explanation, Failure> {
    let (_, explanation) = explained_as(path, &arguments.options())?;
    hand_over(&explanation, arguments, &more_of(path), false)?;
    Ok(explanation)
}

/// Explains a packet capture: each of its runs, or the run asked for.
fn explain_captured(arguments: &Arguments, path: &Path, conditions: &[fail_if::Judged]) -> Result<(), Failure> {
    let kept = arguments.output.as_deref();
    let (opened, mut all) = captured::explained(path, kept, arguments.run, &arguments.options())?;
    if all.len() > 1 {
        let how = captured::How { json: arguments.json, full: arguments.verbose || arguments.why, to: arguments.to.as_deref() };
        captured::print(&all, &opened, &how, path)?;
        return all
            .iter()
            .filter_map(|(_, explained)| explained.as_ref().ok())
            .try_for_each(|explained| fail_if::judge(conditions, explained));
    }
    let explanation = match all.pop() {
        Some((_, explained)) => explained?,
        None => return Ok(()),
    };
    hand_over(&explanation, arguments, &more_of(kept.unwrap_or(path)), false)?;
    fail_if::judge(conditions, &explanation)
}

/// Merges the recordings of several ends, and explains the result.
fn explain_merged(arguments: &Arguments, recordings: &[PathBuf]) -> Result<Explanation, Failure> {
    let temporary = Temporary::new()?;
    temporary.guard();
    let path = arguments.output.clone().unwrap_or_else(|| temporary.recording("merged.thw"));
    // The notes are in the recording, and so in the explanation.
    merged(recordings, &path)?;
    let more = arguments.output.as_deref().map_or_else(|| "explain -v, or -o run.thw to keep the merged recording".to_owned(), more_of);
    let (_, explanation) = explained_as(&path, &arguments.options())?;
    hand_over(&explanation, arguments, &more, false)?;
    Ok(explanation)
}

/// Runs a command, records it and explains the recording; exits as the command did.
fn run_and_explain(arguments: &Arguments) -> Result<(), Failure> {
    // Errors in the conditions, or with a file, are reported before the command runs.
    let conditions = fail_if::read(&arguments.fail_if)?;
    if let Some(to) = &arguments.to {
        std::fs::write(to, "").map_err(|e| Failure::failed(format!("{}: {e}", to.display())))?;
    }
    let temporary = Temporary::new()?;
    let ran = runs::run(&arguments.wanted(), &temporary)?;
    let more = arguments
        .output
        .as_deref()
        .map_or_else(|| "explain -v, or -o run.thw to keep it, then report run.thw -o run.html".to_owned(), more_of);
    // The explanation has the recording's notes; later ones, and those of a recording that could not be explained, are printed here.
    let known = ran.explained.as_ref().map_or(&[][..], |explanation| &explanation.notes);
    ran.notes.iter().filter(|note| !known.contains(note)).for_each(|note| output::note(&format!("thalweg explain: {note}")));
    let handed_over = ran.explained.and_then(|explanation| {
        hand_over(&explanation, arguments, &more, true)?;
        Ok(explanation)
    });
    drop(temporary);
    if handed_over.is_ok() && !arguments.shows_notes() {
        ran.unavailable.iter().for_each(|why| output::note(&format!("thalweg explain: {why}")));
    }
    match (ran.exit, handed_over) {
        (None | Some(Exit::Code(0)), handed_over) => fail_if::judge(&conditions, &handed_over?),
        (Some(exit), handed_over) => {
            // The command's exit status takes precedence over a failure to explain it.
            if let Err(failure) = handed_over {
                exit::report(&failure, "explain");
            }
            Err(Failure::Ended(exit))
        }
    }
}

/// Prints or writes an explanation. `after_command`: standard output was the command's. `more`: commands that show more.
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;
    use clap::{Arg, ArgAction, Args, Command};

    fn parse(words: &[&str]) -> Result<clap::ArgMatches, clap::Error> {
        Arguments::augment_args(Command::new("explain")).try_get_matches_from([&["explain"], words].concat())
    }

    /// Returns the flags that a flag requires.
    fn needs(flag: &Arg) -> &'static [&'static str] {
        match flag.get_id().as_str() {
            "user_stacks" => &["--profile"],
            "stack_bytes" => &["--profile", "--user-stacks=dwarf"],
            _ => &[],
        }
    }

    /// Returns the words that set a flag, with a valid value.
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

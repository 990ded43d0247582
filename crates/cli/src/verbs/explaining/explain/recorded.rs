//! Runs and records a command: with the recorder, or with `--record` if the command is a thalweg verb that records both of its ends.

use crate::failure::Failure;
use crate::recordings::explained::explained_as;
use crate::recordings::record_flags::RecordFlags;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_explain::{Explanation, Options};
use thalweg_record::Exit;
use thalweg_trace::secrets;

/// A recorded run.
pub(super) struct Recorded {
    /// How the command ended; `None` if there was no command.
    pub(super) exit: Option<Exit>,
    /// The recording.
    pub(super) path: PathBuf,
    /// Notes for the user, a sentence each.
    pub(super) notes: Vec<String>,
    /// Those of them that say why a better recorder was not used.
    pub(super) unavailable: Vec<String>,
    /// The command as given, if `--record` was added to it.
    given: Option<Vec<String>>,
}

/// The use of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    /// Keep words of the command that look like secrets.
    pub(super) keep_command: bool,
    /// The recording is explained and then removed.
    pub(super) read_once: bool,
}

/// Runs the command once, and records it at `path`.
///
/// # Errors
/// The command could not be run or recorded, or a thalweg verb failed before it recorded anything.
pub(super) fn record(command: &[OsString], flags: &RecordFlags, path: &Path, to: Use) -> Result<Recorded, Failure> {
    let (keep_command, read_once) = (to.keep_command || flags.keep_command, to.read_once);
    let Some(mut own) = recording_itself(command, path, keep_command).filter(|_| flags.are_defaults()) else {
        let outcome = thalweg_record::run(&thalweg_record::Options { keep_command, read_once, ..flags.options(command, path) })?;
        let thalweg_record::Outcome { exit, path, notes, unavailable, .. } = outcome;
        return Ok(Recorded { exit, path, notes, unavailable, given: None });
    };
    let ended = own.status().map_err(|e| Failure::failed(format!("{}: {e}", command[0].display())))?;
    let exit = ended.code().map_or(Exit::Signal(ended.signal().unwrap_or(0)), Exit::Code);
    if exit != Exit::Code(0) && !path.exists() {
        return Err(Failure::Ended(exit));
    }
    let given: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let given = if keep_command { given } else { secrets::cut_command(&given) };
    Ok(Recorded { exit: Some(exit), path: path.to_owned(), notes: Vec::new(), unavailable: Vec::new(), given: Some(given) })
}

impl Recorded {
    /// Explains the recording. The explanation has the command as given, with secrets replaced.
    pub(super) fn explained(&self, options: &Options) -> Result<Explanation, Failure> {
        let (_, explanation) = explained_as(&self.path, options)?;
        Ok(match &self.given {
            Some(given) => Explanation { command: given.clone(), ..explanation },
            None => explanation,
        })
    }
}

/// Returns the command with `--record` added if it is a thalweg verb that records both of its ends, with its knobs.
fn recording_itself(command: &[OsString], path: &Path, keep_command: bool) -> Option<Command> {
    const RECORD: &[&str] = &["cp", "ls", "find", "du", "rm"];
    let program = Path::new(command.first()?);
    let verb = command.get(1)?.to_str().filter(|verb| RECORD.contains(verb))?;
    let records = |word: &OsString| word.to_str().is_some_and(|w| w == "--record" || w.starts_with("--record=") || w == "--explain");
    if program.file_name().is_none_or(|name| name != "thalweg") || command.iter().any(records) {
        return None;
    }
    let mut own = Command::new(program);
    own.arg(verb).arg("--record").arg(path).args(keep_command.then_some("--keep-command")).args(&command[2..]);
    Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<String> {
        let command: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let own = recording_itself(&command, Path::new("run.thw"), false)?;
        let words = std::iter::once(own.get_program()).chain(own.get_args());
        Some(words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_verb_of_ours_records_itself_and_nothing_else_does() {
        assert_eq!(of("/opt/thalweg cp big thalweg:/big").as_deref(), Some("/opt/thalweg cp --record run.thw big thalweg:/big"));
        assert_eq!(of("thalweg ls -lR thalweg:/").as_deref(), Some("thalweg ls --record run.thw -lR thalweg:/"));
        for other in ["cp big copy", "thalweg up", "thalweg", "thalweg cp --record mine.thw a b", "thalweg cp --explain a b"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}

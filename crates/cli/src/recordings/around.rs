//! What a verb does with a store, recorded at both ends when that is asked for, and explained.
//!
//! `--record` keeps the recording; `--explain` says where the time went, from a recording that goes away if it is not kept.

use super::explained::{Form, NOT_KEPT, explained, more_of, note, print};
use super::temporary::Temporary;
use crate::failure::Failure;
use crate::operand::StoreFlags;
use crate::session::Session;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_client::Store;
use thalweg_client::copy::{Recorder, Recording};
use thalweg_trace::{Time, TraceHandle};

/// Recording and explaining.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Recording")]
pub(crate) struct RecordingFlags {
    /// Show where the time went, in a few lines: on standard error; with --json on standard output, in place of the result
    #[arg(long)]
    pub explain: bool,
    /// Record both ends into this directory, NAME.thw
    #[arg(long, value_name = "PATH")]
    pub record: Option<PathBuf>,
    /// Record words of the command that look like secrets (passwords, tokens, keys) as they are; otherwise `[secret]` stands for each
    #[arg(long)]
    pub keep_command: bool,
}

/// What is known of the work when it is done, for the recording.
pub(crate) type Attributes = Vec<(String, String)>;

impl RecordingFlags {
    /// Whether the explanation takes the place of the result.
    pub(crate) fn replaces_result(&self, json: bool) -> bool {
        self.explain && json
    }

    /// Does `work` with tracers of the mode it is given, all of which it drops, and records it in these stores if that is asked for.
    ///
    /// # Errors
    /// `work`'s, which counts for more than those of the recording.
    pub(crate) fn around<T>(
        &self,
        stores: &StoreFlags,
        sessions: &[Arc<Session>],
        json: bool,
        work: impl FnOnce(&TraceHandle) -> (Result<T, Failure>, Attributes),
    ) -> Result<T, Failure> {
        if !self.explain && self.record.is_none() {
            return work(&TraceHandle::off()).0;
        }
        let temporary = if self.record.is_none() { Some(Temporary::new()?) } else { None };
        let path = match (&self.record, &temporary) {
            (Some(path), _) => path.clone(),
            (None, Some(temporary)) => {
                temporary.guard();
                temporary.recording("walk.thw")
            }
            (None, None) => return Err(Failure::failed("no place for the recording")),
        };
        let recording = Recording { path, command: command_line(), node: stores.node(), keep_command: self.keep_command };
        let recorded: Vec<Store> = sessions.iter().map(|session| session.store()).collect();
        let recorder = Recorder::start(&recording, &recorded.iter().collect::<Vec<_>>()).map_err(Failure::failed)?;
        let mode = recorder.trace.clone();
        let (done, mut attributes) = work(&mode);
        attributes.push(("servers".to_owned(), recorded.iter().map(|s| s.data.links().len()).sum::<usize>().to_string()));
        let exit_code = i32::from(done.is_err());
        let finished = recorder.finish(Time::now(), exit_code, attributes).map_err(Failure::failed);
        let explained = finished.and_then(|path| if self.explain { self.explain(&path, json) } else { Ok(()) });
        let done = done?;
        explained.map(|()| done)
    }

    /// Explains a recording: for a program on standard output, for a person where the result is not.
    fn explain(&self, path: &Path, json: bool) -> Result<(), Failure> {
        let (_, explanation) = explained(path)?;
        if json {
            return print(&explanation, Form::Json);
        }
        note(&explanation, Form::Short { more: &self.more() });
        Ok(())
    }

    /// How to see more than the short explanation.
    pub(crate) fn more(&self) -> String {
        self.record.as_deref().map_or_else(|| NOT_KEPT.to_owned(), more_of)
    }
}

/// The command, as it was given.
pub(crate) fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

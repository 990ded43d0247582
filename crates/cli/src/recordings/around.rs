//! Records a verb's work at both ends and explains it, when asked to.
//!
//! `--record` keeps the recording; `--explain` says where the time went, from a temporary recording unless `--record` keeps it.

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

/// Flags for recording and explaining a verb's own work.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Recording")]
pub(crate) struct RecordingFlags {
    /// Explain where the time went, in a few lines on standard error; with --json, the explanation replaces the result on standard output
    #[arg(long)]
    pub explain: bool,
    /// Record both ends into this directory (NAME.thw)
    #[arg(long, value_name = "PATH")]
    pub record: Option<PathBuf>,
    /// Do not replace words of the command that look like secrets (passwords, tokens, keys) with `[secret]`
    #[arg(long)]
    pub keep_command: bool,
}

/// Attributes of the work, known once it is done, for the recording.
pub(crate) type Attributes = Vec<(String, String)>;

impl RecordingFlags {
    /// Whether the explanation replaces the result on standard output.
    pub(crate) fn replaces_result(&self, json: bool) -> bool {
        self.explain && json
    }

    /// Does `work`, and records it in these stores if asked to. `work` must drop all tracers it makes.
    ///
    /// # Errors
    /// `work`'s, which takes precedence over a failure to record.
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
            (None, None) => return Err(Failure::failed("no directory for the recording")),
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

    /// Explains a recording: as JSON on standard output, or as text on standard error.
    fn explain(&self, path: &Path, json: bool) -> Result<(), Failure> {
        let (_, explanation) = explained(path)?;
        if json {
            return print(&explanation, Form::Json);
        }
        note(&explanation, Form::Short { more: &self.more() });
        Ok(())
    }

    /// Returns the commands that show more than the short explanation.
    pub(crate) fn more(&self) -> String {
        self.record.as_deref().map_or_else(|| NOT_KEPT.to_owned(), more_of)
    }
}

/// Returns the command line of this process.
pub(crate) fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

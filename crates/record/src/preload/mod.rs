//! A library in the program's own processes.
use crate::{Finished, RecordError, Recorder, Watched};
/// The recorder `preload`.
#[derive(Debug)]
pub struct PreloadRecorder;
impl PreloadRecorder {
    /// Ready to begin.
    pub fn new() -> Result<PreloadRecorder, RecordError> {
        Err(RecordError::NotAllowed("this build has no library to preload".to_owned()))
    }
}
impl Recorder for PreloadRecorder {
    fn name(&self) -> &'static str {
        "preload"
    }
    fn begin(&mut self, _watched: Watched) -> Result<(), RecordError> {
        Ok(())
    }
    fn finish(&mut self) -> Result<Finished, RecordError> {
        Ok(Finished::default())
    }
}

//! Chooses the recorders of a run before anything is created, and replaces one that cannot begin.

use super::{Method, Options, Profile};
use crate::command::{Executable, Linkage};
use crate::counted::{CountedRecorder, why};
use crate::preload::PreloadRecorder;
use crate::proc::ProcRecorder;
use crate::profile::{OwnRecorder, SharedTracks};
use crate::user::UserRecorder;
use crate::{Finished, RecordError, Recorder, Watched};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_trace::{IdSpace, Sink};

/// The recorder of a run; if it cannot see processes besides the command, a second one for those.
pub(super) struct Active {
    main: Box<dyn Recorder>,
    beside: Option<ProcRecorder>,
    /// Replacements if `main` cannot begin, best first.
    fallbacks: Vec<Method>,
    pub(super) executable: Option<Executable>,
    /// The path of the recording.
    output: PathBuf,
    /// Takes a profile beside `main`.
    profile: Option<Beside>,
    /// `main` takes a profile, and may be replaced by counts from /proc.
    may_count: bool,
    notes: Vec<String>,
}

/// Wraps a sink.
type ThroughSink = dyn Fn(Arc<dyn Sink>) -> Arc<dyn Sink>;

/// A profile beside another recorder.
struct Beside {
    recorder: Box<dyn Recorder>,
    /// Wraps a sink for the other recorder's events.
    sink: Box<ThroughSink>,
}

/// Identifiers of a profile.
const PROFILE_SPACE: IdSpace = IdSpace(8);

/// Returns the profile that this user may take: of the whole machine, or of the command and other own processes.
fn profile(options: &Options, executable: Option<&Executable>) -> Result<Beside, RecordError> {
    let why = match of_machine(options) {
        Err(RecordError::NotAllowed(error)) => why::missing(&error),
        decided => return decided,
    };
    if options.is_of_everything() {
        return Err(RecordError::NotAllowed(why));
    }
    let tracks = Arc::new(SharedTracks::default());
    match OwnRecorder::new(Arc::clone(&tracks), options, why.clone(), executable.map(|executable| executable.path.as_path())) {
        Ok(recorder) => Ok(Beside { recorder: Box::new(recorder), sink: Box::new(move |sink| tracks.sink(sink)) }),
        Err(error) => Err(RecordError::NotAllowed(format!("{why}; for your own programs alone: {error}"))),
    }
}

/// Returns few samples of own programs, which name functions in an ordinary user's recording; `None` where another recorder
/// was asked for by name, or the kernel takes no samples.
fn functions(options: &Options) -> Option<Beside> {
    if !matches!(options.method, Method::Auto | Method::User) {
        return None;
    }
    let tracks = Arc::new(SharedTracks::default());
    let recorder = OwnRecorder::of_functions(Arc::clone(&tracks), why::here()?)?;
    Some(Beside { recorder: Box::new(recorder), sink: Box::new(move |sink| tracks.sink(sink)) })
}

#[cfg(feature = "bpf")]
fn of_machine(options: &Options) -> Result<Beside, RecordError> {
    use crate::profile::ProfileRecorder;
    let tracks = Arc::new(SharedTracks::default());
    let recorder = Box::new(ProfileRecorder::new(Arc::clone(&tracks), options)?);
    Ok(Beside { recorder, sink: Box::new(move |sink| tracks.sink(sink)) })
}

#[cfg(not(feature = "bpf"))]
fn of_machine(_: &Options) -> Result<Beside, RecordError> {
    Err(RecordError::NotAllowed("this build has no kernel recorder".to_owned()))
}

#[cfg(feature = "bpf")]
fn bpf_recorder() -> Result<Box<dyn Recorder>, RecordError> {
    Ok(Box::new(crate::bpf::BpfRecorder::new()?))
}

#[cfg(not(feature = "bpf"))]
fn bpf_recorder() -> Result<Box<dyn Recorder>, RecordError> {
    Err(RecordError::NotAllowed("this build has no kernel recorder".to_owned()))
}

/// Returns why a library cannot be preloaded into this program.
fn cannot_preload(executable: Option<&Executable>) -> Option<String> {
    let Some(executable) = executable else { return Some("there is no command to run".to_owned()) };
    let path = executable.path.display();
    if executable.raises_rights {
        return Some(format!("{path} gains privileges (set-user-ID or capabilities), so its loader ignores our library"));
    }
    match &executable.linkage {
        Linkage::Dynamic => None,
        Linkage::Static => Some(format!("{path} is statically linked: no library can be preloaded")),
        Linkage::Foreign(why) => Some(format!("our library cannot be preloaded into {path}: {why}")),
        Linkage::Unknown => Some(format!("{path} is not a known kind of program")),
    }
}

impl Active {
    /// Chooses the recorders; returns an active set with notes on why better ones were not chosen.
    pub(crate) fn choose(options: &Options, executable: Option<&Executable>, others: bool) -> Result<Active, RecordError> {
        let order: &[Method] = match options.method {
            Method::Auto => &[Method::Bpf, Method::User, Method::Preload, Method::Proc],
            Method::Bpf => &[Method::Bpf],
            Method::User => &[Method::User],
            Method::Preload => &[Method::Preload],
            Method::Proc => &[Method::Proc],
        };
        let profile = match options.profile {
            Profile::No => None,
            Profile::Beside => Some(profile(options, executable)?),
            Profile::Alone => return Active::alone(options, executable),
        };
        let mut notes = Vec::new();
        for (index, method) in order.iter().enumerate() {
            match make(*method, executable, &options.output) {
                Ok(main) => {
                    let beside = (*method == Method::Preload && others).then(ProcRecorder::beside);
                    // Its switches are not this user's to see, either.
                    let rights = executable.filter(|executable| *method == Method::User && executable.raises_rights);
                    notes.extend(
                        rights.and_then(|executable| cannot_preload(Some(executable))).map(|why| format!("Little of it is seen: {why}.")),
                    );
                    let fallbacks = order[index + 1..].to_vec();
                    let (executable, output) = (executable.cloned(), options.output.clone());
                    let profile = profile.or_else(|| if *method == Method::Bpf { None } else { functions(options) });
                    return Ok(Active { main, beside, fallbacks, executable, output, profile, may_count: false, notes });
                }
                Err(error) if index + 1 == order.len() => return Err(error),
                Err(error) => notes.push(format!("The recorder {} is not available: {error}.", name(*method))),
            }
        }
        Err(RecordError::Failed("no recorder was requested".to_owned()))
    }

    /// Chooses a profile alone: with samples of everything or of own programs, otherwise counts from /proc.
    fn alone(options: &Options, executable: Option<&Executable>) -> Result<Active, RecordError> {
        let (main, may_count) = match (profile(options, executable), &options.samples_for) {
            (Ok(profile), samples_for) => (profile.recorder, samples_for.is_none()),
            (Err(RecordError::NotAllowed(why)), Some(what)) => {
                return Err(RecordError::NotAllowed(format!("{what} needs samples of what runs, which are not available: {why}")));
            }
            (Err(RecordError::NotAllowed(why)), None) => (counts(why, executable), false),
            (Err(error), _) => return Err(error),
        };
        let executable = executable.cloned();
        let output = options.output.clone();
        Ok(Active { main, beside: None, fallbacks: Vec::new(), executable, output, profile: None, may_count, notes: Vec::new() })
    }

    /// Returns the main recorder's name in the recording.
    pub(crate) fn name(&self) -> &'static str {
        self.main.name()
    }

    /// Returns why better recorders are not used, a sentence each; also part of [`Active::finish`]'s notes.
    pub(crate) fn unavailable(&self) -> &[String] {
        &self.notes
    }

    /// Returns variables to add to the command's environment.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        self.main.environment()
    }

    /// Begins. Unless a recorder was requested by name, one that cannot begin is replaced by the next that can.
    pub(crate) fn begin(&mut self, mut watched: Watched) -> Result<(), RecordError> {
        let of_profile = Watched { space: PROFILE_SPACE, ..watched.clone() };
        if let Some(profile) = &self.profile {
            watched.sink = (profile.sink)(watched.sink);
        }
        while let Err(error) = self.begin_one(watched.clone()) {
            if std::mem::take(&mut self.may_count) {
                let why = why::here().map_or_else(|| error.to_string(), |why| format!("{why}; for your own programs alone: {error}"));
                self.main = counts(why, self.executable.as_ref());
                continue;
            }
            if self.fallbacks.is_empty() {
                return Err(error);
            }
            let next = self.fallbacks.remove(0);
            self.notes.push(format!("The recorder {} could not start ({error}); {} was used instead.", self.name(), name(next)));
            match make(next, self.executable.as_ref(), &self.output) {
                Ok(main) => {
                    self.beside = (next == Method::Preload && !watched.others.is_empty()).then(ProcRecorder::beside);
                    self.main = main;
                }
                Err(error) => self.notes.push(error.to_string()),
            }
        }
        self.begin_profile(of_profile)
    }

    /// Begins the profile beside the other recorder, which must begin first: the profile takes stacks of its threads.
    fn begin_profile(&mut self, watched: Watched) -> Result<(), RecordError> {
        let Some(profile) = &mut self.profile else { return Ok(()) };
        profile.recorder.begins_beside(self.main.threads());
        profile.recorder.begin(watched).inspect_err(|_| {
            let _ = self.main.finish();
            let _ = self.beside.as_mut().map(|beside| beside.finish());
        })
    }

    fn begin_one(&mut self, watched: Watched) -> Result<(), RecordError> {
        let Some(beside) = &mut self.beside else { return self.main.begin(watched) };
        let others = Watched { command: None, space: IdSpace(watched.space.0 + 1), ..watched.clone() };
        beside.begin(others)?;
        self.main.begin(Watched { others: Vec::new(), ..watched })
    }

    /// Ends all recorders; one that fails leaves a note.
    pub(crate) fn finish(&mut self) -> Finished {
        let mut all = Finished { notes: std::mem::take(&mut self.notes), ..Finished::default() };
        if let Some(profile) = &mut self.profile {
            profile.recorder.end_soon();
        }
        let beside = self.beside.as_mut().map(|beside| beside.finish());
        let main = self.main.finish();
        let profile = self.profile.as_mut().map(|profile| profile.recorder.finish());
        for finished in std::iter::once(main).chain(beside).chain(profile) {
            match finished {
                Ok(finished) => all.add(finished),
                Err(error) => all.notes.push(format!("The recorder failed, so the recording is incomplete: {error}.")),
            }
        }
        all
    }
}

/// Creates a recorder of counts from /proc; `why` there are no samples.
fn counts(why: String, executable: Option<&Executable>) -> Box<dyn Recorder> {
    Box::new(CountedRecorder::new(why, executable.map(|executable| executable.path.as_path())))
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Auto => "auto",
        Method::Bpf => "bpf",
        Method::User => "user",
        Method::Preload => "preload",
        Method::Proc => "proc",
    }
}

fn make(method: Method, executable: Option<&Executable>, output: &Path) -> Result<Box<dyn Recorder>, RecordError> {
    match method {
        Method::Auto | Method::Bpf => bpf_recorder(),
        Method::User => {
            let library = cannot_preload(executable).is_none().then(|| PreloadRecorder::new(Some(output))).transpose()?;
            Ok(Box::new(UserRecorder::new(library)?))
        }
        Method::Preload => match cannot_preload(executable) {
            Some(why) => Err(RecordError::NotAllowed(why)),
            None => Ok(Box::new(PreloadRecorder::new(Some(output))?)),
        },
        Method::Proc => Ok(Box::new(ProcRecorder::new())),
    }
}

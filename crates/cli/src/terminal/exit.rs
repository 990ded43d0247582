//! How this process ends: with the exit code of a failure, or as the recorded command ended, by its exit code or its signal, so that shells
//! and schedulers see no difference.

use super::{failure::Failure, output};
use std::process::ExitCode;
use thalweg_record::Exit;

/// Says on standard error why a verb failed, and gives the exit code.
pub(crate) fn report(failure: &Failure, verb: &str) -> ExitCode {
    let (message, code) = match failure {
        Failure::Usage(message) => (message, 2),
        Failure::Failed(message) => (message, 1),
        Failure::Interrupted(message) => (message, 130),
        Failure::NotRun(message, code) => (message, *code),
        Failure::Ended(exit) => return as_the_command(*exit),
        Failure::Verdict(code) => return ExitCode::from(*code),
        Failure::Reported => return ExitCode::from(1),
        Failure::NobodyReads => return as_the_command(Exit::Signal(signal_hook::consts::SIGPIPE)),
    };
    output::note(&format!("thalweg {verb}: {message}"));
    ExitCode::from(code)
}

/// The exit code; does not return where a signal ended the command.
fn as_the_command(exit: Exit) -> ExitCode {
    match exit {
        Exit::Code(code) => ExitCode::from(code as u8),
        Exit::Signal(signal) => {
            die_by(signal);
            // A signal whose default is not to end a process did not end the command either; but say what shells say.
            ExitCode::from((128 + signal) as u8)
        }
    }
}

/// Ends this process by a signal, without a core file of its own: the command has made one, if one was wanted.
fn die_by(signal: i32) {
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, rustix::process::Rlimit { current: Some(0), maximum: Some(0) });
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

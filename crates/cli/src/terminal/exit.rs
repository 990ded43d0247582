//! Ends this process with the exit code of a failure, or as the recorded command ended: with its exit code or by its signal, so that
//! shells and schedulers see no difference.

use super::{failure::Failure, output};
use std::process::ExitCode;
use thalweg_record::Exit;

/// Prints why a verb failed on standard error, and returns the exit code.
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

/// Returns the command's exit code; does not return if a signal ended the command.
fn as_the_command(exit: Exit) -> ExitCode {
    match exit {
        Exit::Code(code) => ExitCode::from(code as u8),
        Exit::Signal(signal) => {
            die_by(signal);
            // Reached only for a signal that does not terminate by default: return the code that shells use.
            ExitCode::from((128 + signal) as u8)
        }
    }
}

/// Ends this process by a signal, without a core file: the command has written one if it was enabled.
fn die_by(signal: i32) {
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, rustix::process::Rlimit { current: Some(0), maximum: Some(0) });
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

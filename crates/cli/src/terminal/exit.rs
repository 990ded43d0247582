//! Ending as the recorded command ended: with its exit code, or by its signal, so that shells and schedulers see no difference.

use std::process::ExitCode;
use thalweg_record::Exit;

/// The exit code; does not return where a signal ended the command.
pub fn as_the_command(exit: Exit) -> ExitCode {
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

//! Linux's numbers of signals and errors as recordings store them, whatever machine reads them.

/// Added to a signal's number, the status of a process killed by that signal, as in shells.
pub const SIGNAL_STATUS: i64 = 128;

pub const SIGKILL: i64 = 9;
pub const SIGPIPE: i64 = 13;
pub const SIGALRM: i64 = 14;
pub const SIGXCPU: i64 = 24;
pub const SIGXFSZ: i64 = 25;

/// Signals that end processes, by number.
const SIGNALS: [(i64, &str); 16] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (SIGKILL, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (SIGPIPE, "SIGPIPE"),
    (SIGALRM, "SIGALRM"),
    (15, "SIGTERM"),
    (SIGXCPU, "SIGXCPU"),
    (SIGXFSZ, "SIGXFSZ"),
];

/// Returns a signal's name.
pub fn signal_name(number: i64) -> Option<&'static str> {
    SIGNALS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

pub const EIO: i64 = 5;
pub const EMFILE: i64 = 24;
pub const EFBIG: i64 = 27;
pub const ENOSPC: i64 = 28;
pub const EROFS: i64 = 30;
pub const ENETUNREACH: i64 = 101;
pub const ECONNRESET: i64 = 104;
pub const ETIMEDOUT: i64 = 110;
pub const ECONNREFUSED: i64 = 111;
pub const EHOSTUNREACH: i64 = 113;
pub const EDQUOT: i64 = 122;

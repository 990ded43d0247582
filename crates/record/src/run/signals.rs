//! Forwards signals meant for the command.
//!
//! A handler writes number, origin and sender to a pipe. Signals from the terminal (Ctrl-C, Ctrl-\, a hang-up) go to
//! the whole foreground process group, which includes the command: it already has them and must not get them twice.
//! Signals ignored at our start (nohup) stay ignored. `timeout` signals its child and then its whole group, which
//! includes the child: the second signal belongs to the same event as the first, and is not for us even if the
//! command has ended meanwhile.

use crate::RecordError;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

const PASSED_ON: [c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Where the handler writes; −1: nowhere. Only one session at a time catches signals.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Time after a signal within which another one belongs to the same event.
const SAME_EVENT: Duration = Duration::from_millis(300);

/// Bytes of one signal in the pipe: number, code.
const RECORD_BYTES: usize = 8;

/// A caught signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caught {
    pub number: c_int,
    code: c_int,
}

impl Caught {
    /// Whether `pid` received it as well: the terminal sent it to a group that contains both.
    pub(crate) fn reached(self, pid: u32) -> bool {
        // SAFETY: plain system calls.
        let (ours, theirs) = unsafe { (libc::getpgrp(), libc::getpgid(pid as libc::pid_t)) };
        self.code == libc::SI_KERNEL && ours == theirs
    }
}

/// Catches signals while it exists; then restores the previous dispositions.
pub(super) struct Signals {
    read: OwnedFd,
    _write: OwnedFd,
    before: Vec<(c_int, libc::sigaction)>,
    caught: bool,
    last: Cell<Option<Instant>>,
}

extern "C" fn handler(number: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    let pipe = PIPE.load(Ordering::Relaxed);
    if pipe < 0 {
        return;
    }
    // SAFETY: the kernel gives a valid siginfo; errno is this thread's, and restored; write is async-signal-safe.
    unsafe {
        let errno = *libc::__errno_location();
        let mut record = [0_u8; RECORD_BYTES];
        record[..4].copy_from_slice(&number.to_ne_bytes());
        record[4..].copy_from_slice(&(*info).si_code.to_ne_bytes());
        libc::write(pipe, record.as_ptr().cast(), RECORD_BYTES);
        *libc::__errno_location() = errno;
    }
}

impl Signals {
    /// Starts catching signals.
    pub(crate) fn catch() -> Result<Signals, RecordError> {
        let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
        let (read, write) =
            rustix::pipe::pipe_with(flags).map_err(|e| RecordError::Failed(format!("cannot create a pipe for signals: {e}")))?;
        let taken = PIPE.compare_exchange(-1, write.as_raw_fd(), Ordering::SeqCst, Ordering::SeqCst);
        if taken.is_err() {
            return Err(RecordError::Failed("this process is already recording".to_owned()));
        }
        let mut signals = Signals { read, _write: write, before: Vec::new(), caught: true, last: Cell::new(None) };
        for number in PASSED_ON {
            // SAFETY: zero is a valid sigaction; the handler is async-signal-safe.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                libc::sigaction(number, std::ptr::null(), &mut old);
                if old.sa_sigaction == libc::SIG_IGN {
                    continue;
                }
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = handler as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigaction(number, &new, std::ptr::null_mut());
                signals.before.push((number, old));
            }
        }
        Ok(signals)
    }

    /// Returns the previous dispositions, which the command gets.
    pub(crate) fn before(&self) -> &[(c_int, libc::sigaction)] {
        &self.before
    }

    /// Returns a descriptor that is readable when a signal was caught.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Takes the caught signals.
    pub(crate) fn take(&self) -> Vec<Caught> {
        let mut bytes = [0_u8; 64 * RECORD_BYTES];
        let n = rustix::io::read(&self.read, &mut bytes).unwrap_or(0);
        if n > 0 {
            self.last.set(Some(Instant::now()));
        }
        let word = |b: &[u8]| c_int::from_ne_bytes([b[0], b[1], b[2], b[3]]);
        bytes[..n].chunks_exact(RECORD_BYTES).map(|b| Caught { number: word(b), code: word(&b[4..]) }).collect()
    }

    /// Restores the previous dispositions, once no further signal of the last event can follow.
    pub(crate) fn restore_after_event(&mut self) {
        if let Some(last) = self.last.get() {
            std::thread::sleep(SAME_EVENT.saturating_sub(last.elapsed()));
        }
        self.restore();
    }

    /// Restores the previous dispositions.
    pub(crate) fn restore(&mut self) {
        if std::mem::take(&mut self.caught) {
            for (number, old) in &self.before {
                // SAFETY: the dispositions come from the kernel.
                unsafe { libc::sigaction(*number, old, std::ptr::null_mut()) };
            }
            PIPE.store(-1, Ordering::SeqCst);
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.restore();
    }
}

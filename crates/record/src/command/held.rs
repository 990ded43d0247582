//! A process held before it becomes the command.
//!
//! Between `fork` and `execve` the child makes only system calls, on memory prepared before: this process may have
//! other threads, whose locks would never be released in the child.

use super::resolve::{NOT_EXECUTABLE, NOT_FOUND, problem};
use super::{CommandFile, find};
use crate::RecordError;
use std::ffi::{CString, OsString, c_char, c_int};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

impl Exit {
    /// Returns the code as shells report it: the exit code, or 128 + the signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}

/// Room for recorders' additions to the environment.
const ENVIRONMENT_ROOM_BYTES: usize = 64 << 10;

/// Exit code of a child whose parent died before releasing it. No process sees it.
const ABANDONED: c_int = 125;

/// A command's process before `execve`. If dropped unreleased, it exits and is reaped.
#[derive(Debug)]
pub(crate) struct Held {
    command: OsString,
    pid: u32,
    pidfd: OwnedFd,
    /// One byte releases it; if closed without, it exits.
    hold: Option<OwnedFd>,
    /// Reports why `execve` failed; closed by a successful `execve`.
    status: OwnedFd,
    environment: SharedEnvironment,
    reaped: bool,
}

/// The child's data, prepared before the fork.
struct Prepared {
    /// The path, then `/bin/sh` for a file without `#!`.
    path: CString,
    arguments: Vec<CString>,
    shell_arguments: Vec<CString>,
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

fn failed(what: &str) -> impl Fn(rustix::io::Errno) -> RecordError + '_ {
    move |error| RecordError::Failed(format!("{what}: {error}"))
}

impl Held {
    /// Finds the command and creates its process. `dispositions` are those of the signals that this process handles
    /// itself: the child gets the given ones, not ours.
    ///
    /// # Errors
    /// As [`find`]; or the machine allows no more processes.
    pub(crate) fn spawn(words: &[OsString], dispositions: &[(c_int, libc::sigaction)]) -> Result<Held, RecordError> {
        let first = words.first().ok_or_else(|| RecordError::Usage("no command given".to_owned()))?;
        let CommandFile { path } = find(first)?;
        let word = |w: &OsString| CString::new(w.as_bytes()).map_err(|_| problem(w, "a word has a zero byte in it", NOT_FOUND));
        let path = word(&path.into_os_string())?;
        let arguments = words.iter().map(word).collect::<Result<Vec<_>, _>>()?;
        let mut shell_arguments = vec![c"/bin/sh".to_owned(), path.clone()];
        shell_arguments.extend(arguments.iter().skip(1).cloned());
        let prepared = Prepared { path, arguments, shell_arguments };
        let environment = SharedEnvironment::new()?;
        let (hold_read, hold) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(failed("a pipe"))?;
        let (status, status_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(failed("a pipe"))?;
        let pid = fork(&prepared, &environment, dispositions, [hold_read.as_raw_fd(), hold.as_raw_fd()], status_write.as_raw_fd())?;
        let raw = rustix::process::Pid::from_raw(pid).ok_or_else(|| RecordError::Failed("fork gave no process".to_owned()))?;
        let pidfd = rustix::process::pidfd_open(raw, rustix::process::PidfdFlags::empty()).map_err(failed("pidfd_open"));
        let pidfd = pidfd.inspect_err(|_| reap(pid))?;
        let command = first.clone();
        Ok(Held { command, pid: pid as u32, pidfd, hold: Some(hold), status, environment, reaped: false })
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns its pidfd, readable once it has ended.
    pub(crate) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Adds `more` to its environment and lets it become the command.
    ///
    /// # Errors
    /// `execve` failed: exit code 127 if the file or its interpreter is missing, otherwise 126.
    pub(crate) fn release(&mut self, more: &[(OsString, OsString)]) -> Result<(), RecordError> {
        self.environment.write(more)?;
        let hold = self.hold.take().ok_or_else(|| RecordError::Usage("the command was already released".to_owned()))?;
        rustix::io::write(&hold, b"g").map_err(failed("the command's process is gone"))?;
        drop(hold);
        let mut errno = [0_u8; 4];
        let mut status = std::fs::File::from(self.status.try_clone().map_err(|e| RecordError::Failed(e.to_string()))?);
        match status.read_exact(&mut errno) {
            // Closed by a successful execve, or by a signal that killed the process first: waiting for it shows
            // which.
            Err(_) => Ok(()),
            Ok(()) => {
                self.reap_now();
                Err(self.exec_problem(i32::from_ne_bytes(errno)))
            }
        }
    }

    fn exec_problem(&self, errno: i32) -> RecordError {
        let (text, code) = match errno {
            libc::ENOENT => ("its interpreter (named in its first line, or its loader) does not exist".to_owned(), NOT_FOUND),
            libc::ETXTBSY => ("is being written by another process".to_owned(), NOT_EXECUTABLE),
            libc::E2BIG => ("its arguments and environment exceed the kernel's limit".to_owned(), NOT_EXECUTABLE),
            other => (std::io::Error::from_raw_os_error(other).to_string(), NOT_EXECUTABLE),
        };
        problem(&self.command, text, code)
    }

    /// Sends it a signal; to no other process, even if it has ended and its number was reused.
    pub(crate) fn signal(&self, signal: c_int) {
        // SAFETY: a system call on a descriptor we own, without pointers that are read.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.pidfd.as_raw_fd(), signal, std::ptr::null::<u8>(), 0) };
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// Another part of this process reaped it (SIGCHLD is ignored).
    pub(crate) fn wait(&mut self) -> Result<Exit, RecordError> {
        // SAFETY: an all-zero siginfo_t is a value of it.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        loop {
            // SAFETY: `info` outlives the call.
            let done = unsafe { libc::waitid(libc::P_PIDFD, self.pidfd.as_raw_fd() as libc::id_t, &mut info, libc::WEXITED) };
            if done == 0 {
                break;
            }
            let error = std::io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINTR) {
                return Err(RecordError::Failed(format!("waiting for the command: {error}")));
            }
        }
        self.reaped = true;
        // SAFETY: waitid filled it for a child that ended.
        let status = unsafe { info.si_status() };
        Ok(if info.si_code == libc::CLD_EXITED { Exit::Code(status) } else { Exit::Signal(status) })
    }

    fn reap_now(&mut self) {
        if !self.reaped {
            reap(self.pid as c_int);
            self.reaped = true;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.hold.take().is_some() {
            self.reap_now();
        }
    }
}

fn reap(pid: c_int) {
    // SAFETY: the child is ours and not reaped yet; it exits by itself, since the other end of its pipe is closed.
    while unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) } < 0 {
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            break;
        }
    }
}

/// Returns the highest descriptor that is, or may be, open here.
fn most_open() -> c_int {
    let listed =
        std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).max());
    listed.flatten().unwrap_or(1024)
}

/// Closes our descriptors that `execve` would close: until then a recorder that examines the held child would take
/// them for the command's. Calls async-signal-safe functions only.
fn close_ours(most: c_int, but: [c_int; 2]) {
    for fd in (3..=most).filter(|fd| !but.contains(fd)) {
        // SAFETY: plain system calls, in the child, on descriptors that nothing in it uses any more.
        unsafe {
            let flags = libc::fcntl(fd, libc::F_GETFD);
            if flags >= 0 && flags & libc::FD_CLOEXEC != 0 {
                libc::close(fd);
            }
        }
    }
}

/// Forks the child with all signals blocked, so that none runs our handlers in it.
fn fork(
    prepared: &Prepared,
    environment: &SharedEnvironment,
    dispositions: &[(c_int, libc::sigaction)],
    hold: [c_int; 2],
    status: c_int,
) -> Result<c_int, RecordError> {
    let (arguments, shell_arguments) = (pointers(&prepared.arguments), pointers(&prepared.shell_arguments));
    let most_open = most_open();
    // SAFETY: the child calls async-signal-safe functions only, on memory made above, and never returns from the block.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let pid = libc::fork();
        if pid == 0 {
            for (signal, action) in dispositions {
                libc::sigaction(*signal, action, std::ptr::null_mut());
            }
            // Rust's start-up ignores it; the command must not inherit that.
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
            libc::close(hold[1]);
            close_ours(most_open, [hold[0], status]);
            let mut leave = 0_u8;
            let got = loop {
                let got = libc::read(hold[0], (&raw mut leave).cast(), 1);
                if got >= 0 || *libc::__errno_location() != libc::EINTR {
                    break got;
                }
            };
            if got != 1 {
                libc::_exit(ABANDONED);
            }
            libc::execve(prepared.path.as_ptr(), arguments.as_ptr(), environment.pointers());
            if *libc::__errno_location() == libc::ENOEXEC {
                libc::execve(c"/bin/sh".as_ptr(), shell_arguments.as_ptr(), environment.pointers());
            }
            let errno = (*libc::__errno_location()).to_ne_bytes();
            libc::write(status, errno.as_ptr().cast(), errno.len());
            libc::_exit(NOT_EXECUTABLE);
        }
        let error = std::io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        if pid < 0 { Err(RecordError::Failed(format!("the command's process cannot be created: {error}"))) } else { Ok(pid) }
    }
}

/// An environment in memory shared with the child: pointers first, then their strings.
#[derive(Debug)]
struct SharedEnvironment {
    start: *mut u8,
    length: usize,
}

// SAFETY: plain memory, written by one thread through `&mut`.
unsafe impl Send for SharedEnvironment {}

impl SharedEnvironment {
    fn new() -> Result<SharedEnvironment, RecordError> {
        let (mut bytes, mut many) = (0, 0);
        for (name, value) in std::env::vars_os() {
            bytes += name.len() + value.len() + 2;
            many += 1;
        }
        let length = ENVIRONMENT_ROOM_BYTES + bytes + (many + 64) * size_of::<usize>();
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, where the kernel likes.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(RecordError::Failed(format!("no memory for the environment: {}", std::io::Error::last_os_error())));
        }
        Ok(SharedEnvironment { start: start.cast(), length })
    }

    fn pointers(&self) -> *const *const c_char {
        self.start.cast()
    }

    /// Writes our own environment with `more` added, replacing variables of the same name.
    fn write(&mut self, more: &[(OsString, OsString)]) -> Result<(), RecordError> {
        let kept = std::env::vars_os().filter(|(name, _)| !more.iter().any(|(replaced, _)| replaced == name));
        let mut strings = Vec::new();
        for (name, value) in kept.chain(more.iter().cloned()) {
            let mut text = name.into_vec();
            text.push(b'=');
            text.extend_from_slice(value.as_bytes());
            text.push(0);
            strings.push(text);
        }
        let table = (strings.len() + 1) * size_of::<usize>();
        if table + strings.iter().map(Vec::len).sum::<usize>() > self.length {
            return Err(RecordError::Failed("the recorder's additions to the environment are too long".to_owned()));
        }
        let mut at = table;
        for (index, text) in strings.iter().enumerate() {
            // SAFETY: both lie within the mapping, as checked above; the table is aligned, since the mapping is.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr(), self.start.add(at), text.len());
                self.start.cast::<*const u8>().add(index).write(self.start.add(at));
            }
            at += text.len();
        }
        // SAFETY: the table has one entry more than there are strings.
        unsafe { self.start.cast::<*const u8>().add(strings.len()).write(std::ptr::null()) };
        Ok(())
    }
}

impl Drop for SharedEnvironment {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of this length; the child has its own view of it.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(Into::into).collect()
    }

    #[test]
    fn a_held_command_runs_only_when_it_is_let_go() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("file");
        let script = format!("echo \"$ADDED\" > {}; exit 7", file.display());
        let mut held = Held::spawn(&words(&["sh", "-c", &script]), &[]).expect("held");
        assert!(!file.exists());
        held.release(&[("ADDED".into(), "by the recorder".into())]).expect("released");
        assert_eq!(held.wait().expect("waited"), Exit::Code(7));
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "by the recorder\n");
    }

    #[test]
    fn a_command_that_is_never_let_go_never_runs() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("file");
        let held = Held::spawn(&words(&["touch", &file.to_string_lossy()]), &[]).expect("held");
        drop(held);
        assert!(!file.exists());
    }

    #[test]
    fn the_signal_that_ends_a_command_is_recorded() {
        let mut held = Held::spawn(&words(&["sleep", "1000"]), &[]).expect("held");
        held.release(&[]).expect("released");
        held.signal(libc::SIGTERM);
        let exit = held.wait().expect("waited");
        assert_eq!((exit, exit.shell_code()), (Exit::Signal(libc::SIGTERM), 143));
    }

    #[test]
    fn a_script_without_an_interpreter_line_is_run_by_the_shell_and_a_missing_one_is_127() {
        let directory = tempfile::tempdir().expect("a directory");
        let run = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
            let mut held = Held::spawn(&words(&[&path.to_string_lossy(), "3"]), &[]).expect("held");
            held.release(&[]).map(|()| held.wait().expect("waited"))
        };
        assert_eq!(run("plain", "exit $1\n").expect("run"), Exit::Code(3));
        let error = run("lost", "#!/no/such/interpreter\n").expect_err("no interpreter");
        assert!(matches!(error, RecordError::Command { exit_code: 127, .. }), "{error}");
    }
}

//! Recording sessions: a client asks a server to trace what it does for that client, and fetches it.
//!
//! A session's events stay in the server's memory, up to a bound, and are lost (and counted) past it: tracing must never
//! slow the data path down or fill a disk. A session lives as long as the connection that asked for it.

use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::sync::locked;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;
use thalweg_trace::{Event, Host, HostId, IdSpace, Memory, Mode, Role};

/// Sessions of one server.
#[derive(Default)]
pub(crate) struct Sessions {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    by_number: HashMap<u32, Arc<RecordingSession>>,
    last: u32,
}

/// One session.
pub(crate) struct RecordingSession {
    memory: Arc<Memory>,
    pub mode: Mode,
    /// Drained and not yet fetched, in order.
    waiting: Mutex<std::collections::VecDeque<Event>>,
    /// Requests being worked on.
    busy: Mutex<usize>,
    idle: Condvar,
}

impl Sessions {
    /// Begins one; its number.
    pub fn start(&self, host: HostId, space: IdSpace) -> Result<u32> {
        let mut inner = locked(&self.inner);
        if inner.by_number.len() >= limits::SESSIONS {
            return Err(Error::new(
                ErrorKind::TooMany,
                format!("{} recordings are being made here already: wait until one has ended", limits::SESSIONS),
            ));
        }
        let memory = Arc::new(Memory::new(limits::SESSION_EVENTS));
        let mode = Mode::on(memory.clone(), host, Role::Server, space);
        let session = RecordingSession { memory, mode, waiting: Mutex::default(), busy: Mutex::new(0), idle: Condvar::new() };
        inner.last = inner.last.checked_add(1).unwrap_or(1);
        let number = inner.last;
        inner.by_number.insert(number, Arc::new(session));
        Ok(number)
    }

    /// The session, unless it has ended.
    pub fn get(&self, number: u32) -> Option<Arc<RecordingSession>> {
        locked(&self.inner).by_number.get(&number).cloned()
    }

    /// Ends one.
    pub fn stop(&self, number: u32) {
        locked(&self.inner).by_number.remove(&number);
    }
}

impl RecordingSession {
    /// A request of it is being worked on until the guard is dropped.
    pub fn working(self: &Arc<Self>) -> Working {
        *locked(&self.busy) += 1;
        Working(Arc::clone(self))
    }

    /// The next events, whether there are more, and how many were lost. Waits until no request is being worked on, since
    /// a reply reaches its client a moment before the server has noted that it sent it.
    pub fn fetch(&self) -> (Vec<Event>, bool, u64) {
        let deadline = Instant::now() + limits::SESSION_QUIET;
        let mut busy = locked(&self.busy);
        while *busy > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            busy = self.idle.wait_timeout(busy, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(busy);
        let (events, lost) = self.memory.drain();
        let mut waiting = locked(&self.waiting);
        waiting.extend(events);
        let many = waiting.len().min(limits::FETCH_EVENTS);
        let page = waiting.drain(..many).collect();
        (page, !waiting.is_empty(), lost)
    }
}

/// See [`RecordingSession::working`].
pub(crate) struct Working(Arc<RecordingSession>);

impl Drop for Working {
    fn drop(&mut self) {
        let mut busy = locked(&self.0.busy);
        *busy -= 1;
        if *busy == 0 {
            self.0.idle.notify_all();
        }
    }
}

/// What identifies this boot of this machine, and its monotonic clock: in a time namespace also how far that is ahead.
pub fn boot_id() -> String {
    thalweg_trace::boot::boot_here()
}

/// This machine, as a row of a recording.
pub fn host_here(host: HostId, node: &str) -> Host {
    let uname = rustix::system::uname();
    Host {
        host,
        name: uname.nodename().to_string_lossy().into_owned(),
        node: node.to_owned(),
        clock: thalweg_trace::boot::clock_here(),
        kernel: uname.release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
    }
}

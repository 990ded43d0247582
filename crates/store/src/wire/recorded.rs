//! A connection whose requests are recorded: in which session of the server's, and under which numbers.

use thalweg_trace::{ObjectId, ObjectKind, TraceHandle, Tracer};

/// What requests of a recorded connection belong to.
pub(super) struct Recorded {
    pub mode: TraceHandle,
    /// The server's session.
    pub session: u32,
    /// The connection's row in the recording.
    pub object: Option<ObjectId>,
}

impl Recorded {
    /// A connection called `name` to a server; `None`: nothing is recorded.
    pub(super) fn new(mode: &TraceHandle, session: u32, name: &str, server: &str) -> Option<Recorded> {
        mode.is_on().then(|| Recorded {
            mode: mode.clone(),
            session,
            object: mode.object(ObjectKind::Connection, name, &[("server", server.to_owned())]),
        })
    }

    /// Number and session of the next request: the recording's, or (session 0) the next of the connection's own.
    pub(super) fn number(recorded: Option<&Recorded>, tracer: &Tracer, counter: &mut u64) -> (u64, u32) {
        match recorded {
            Some(recorded) if tracer.is_on() => (recorded.mode.fresh(), recorded.session),
            _ => {
                *counter += 1;
                (*counter, 0)
            }
        }
    }
}

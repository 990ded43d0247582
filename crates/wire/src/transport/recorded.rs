//! A connection whose requests are recorded: in which session of the server's, and under which numbers.

use super::counted::Counted;
use crate::emulate::{Emulation, round_trip};
use std::net::TcpStream;
use std::sync::Arc;
use thalweg_trace::{ObjectId, ObjectKind, Time, TraceHandle, Tracer};

/// What requests of a recorded connection belong to.
pub(super) struct Recorded {
    pub mode: TraceHandle,
    /// The server's session.
    pub session: u32,
    /// The connection's row in the recording.
    pub object: Option<ObjectId>,
    /// TCP's counters of it; `None`: they are not recorded.
    counted: Option<Counted>,
}

impl Recorded {
    /// A connection called `name` to a server; `None`: nothing is recorded. With its socket, TCP's counters are (since it has begun, where it was
    /// made for the recording); of a link that is emulated those of the real one are not, since they are not about that.
    pub(super) fn new(
        mode: &TraceHandle,
        session: u32,
        (name, server): (&str, &str),
        socket: Option<(&Arc<TcpStream>, Option<Time>)>,
        emulated: Option<&Emulation>,
    ) -> Option<Recorded> {
        if !mode.is_on() {
            return None;
        }
        let link = emulated.and_then(|emulation| Some((emulation.link()?, emulation.rtt_ns)));
        let mut attributes = vec![("server", server.to_owned()), ("end", "client".to_owned())];
        attributes.extend(link.iter().map(|(text, _)| ("emulated", text.clone())));
        let object = mode.object(ObjectKind::Connection, name, &attributes);
        if let Some((object, (_, rtt_ns))) = object.zip(link) {
            round_trip(mode, object, rtt_ns);
        }
        let mut recorded = Recorded { mode: mode.clone(), session, object, counted: None };
        if let Some((socket, begun)) = socket {
            recorded.count(socket, begun, emulated);
        }
        Some(recorded)
    }

    /// From now on TCP's counters are recorded, unless the link is an emulated one.
    pub(super) fn count(&mut self, socket: &Arc<TcpStream>, begun: Option<Time>, emulated: Option<&Emulation>) {
        if emulated.and_then(Emulation::link).is_none() {
            self.counted = Counted::new(&self.mode, self.object, socket, begun);
        }
    }

    /// TCP's counters, where the connection is recorded and its link is no emulated one.
    pub(super) fn counted(recorded: Option<&Recorded>) -> Option<&Counted> {
        recorded?.counted.as_ref()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn of_a_connection_that_is_not_recorded_tcp_is_asked_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        assert!(Recorded::new(&TraceHandle::off(), 0, ("a > b", "io0"), Some((&socket, None)), None).is_none());
        assert_eq!(Arc::strong_count(&socket), 1, "nobody else has the socket: there is nothing that could ask");
    }
}

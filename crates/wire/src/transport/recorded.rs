//! A connection whose requests are recorded: its session at the server, and request numbers.

use super::counted::Counted;
use crate::emulate::{Emulation, round_trip};
use std::net::TcpStream;
use std::sync::Arc;
use thalweg_trace::{ObjectId, ObjectKind, Time, TraceHandle, Tracer};

/// The recording of a connection's requests.
pub(super) struct Recorded {
    pub trace: TraceHandle,
    /// The server's session.
    pub session: u32,
    /// The connection's object in the recording.
    pub object: Option<ObjectId>,
    /// The connection's TCP counters; `None`: not recorded.
    counted: Option<Counted>,
}

impl Recorded {
    /// Records a connection called `name`; `None`: recording is off. With its socket, records TCP counters (from `begun`, if the
    /// connection was made for the recording), except on an emulated link, where the real link's counters would mislead.
    pub(super) fn new(
        trace: &TraceHandle,
        session: u32,
        (name, server): (&str, &str),
        socket: Option<(&Arc<TcpStream>, Option<Time>)>,
        emulated: Option<&Emulation>,
    ) -> Option<Recorded> {
        if !trace.is_on() {
            return None;
        }
        let link = emulated.and_then(|emulation| Some((emulation.link()?, emulation.rtt_ns)));
        let mut attributes = vec![("server", server.to_owned()), ("end", "client".to_owned())];
        attributes.extend(link.iter().map(|(text, _)| ("emulated", text.clone())));
        let object = trace.object(ObjectKind::Connection, name, &attributes);
        if let Some((object, (_, rtt_ns))) = object.zip(link) {
            round_trip(trace, object, rtt_ns);
        }
        let mut recorded = Recorded { trace: trace.clone(), session, object, counted: None };
        if let Some((socket, begun)) = socket {
            recorded.count(socket, begun, emulated);
        }
        Some(recorded)
    }

    /// Starts recording TCP counters, unless the link is emulated.
    pub(super) fn count(&mut self, socket: &Arc<TcpStream>, begun: Option<Time>, emulated: Option<&Emulation>) {
        if emulated.and_then(Emulation::link).is_none() {
            self.counted = Counted::new(&self.trace, self.object, socket, begun);
        }
    }

    /// Returns the TCP counters, if recorded.
    pub(super) fn counted(recorded: Option<&Recorded>) -> Option<&Counted> {
        recorded?.counted.as_ref()
    }

    /// Returns number and session of the next request: the recording's, or session 0 and the connection's own count.
    pub(super) fn number(recorded: Option<&Recorded>, tracer: &Tracer, counter: &mut u64) -> (u64, u32) {
        match recorded {
            Some(recorded) if tracer.is_on() => (recorded.trace.fresh(), recorded.session),
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

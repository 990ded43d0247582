//! Recording a client of a store (a copy, for example): its own events, and a session at every server involved.

use super::clock::{Reading, clock};
use super::job::Recording;
use crate::files::{SessionOf, Store};
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_base::machine;
use thalweg_trace::{Ending, Event, Host, HostId, IdSpace, Meta, RecordingWriter, Role, Sink, Time, TraceHandle, Tracer, secrets};
use thalweg_wire::Connection;
use thalweg_wire::{Error, ErrorKind, Result};

/// A recording being made.
pub struct Recorder {
    writer: Arc<RecordingWriter>,
    /// Trace handle for the threads of this process.
    pub trace: TraceHandle,
    /// Sessions at I/O servers, each with the connection that keeps it open.
    sessions: Vec<(String, Connection, u32)>,
    /// Sessions at metadata services.
    at_names: Vec<(Store, u32)>,
    stores: Vec<Store>,
    /// Machines by boot and label; the index is the machine's number.
    machines: Vec<(String, String)>,
    /// Machines with clocks of their own, with their readings at the start.
    clocks: Vec<(HostId, Reading)>,
    /// Servers that could not be reached.
    unrecorded: Vec<String>,
    /// Names of the emulated devices of a store.
    emulated: Option<String>,
}

fn failure(error: thalweg_trace::TraceError) -> Error {
    Error::new(ErrorKind::Io, error.to_string())
}

/// Machine numbers and identifiers, assigned while the servers are asked.
struct Numbers {
    /// Machines by boot and label; the index is the machine's number.
    hosts: Vec<(String, String)>,
    rows: Vec<Host>,
    clocks: Vec<(HostId, Reading)>,
    last_space: u16,
}

impl Numbers {
    /// Begins a session at a server. Servers with the same boot share a clock; labels distinguish network namespaces of one machine.
    fn begin(&mut self, connection: &mut Connection) -> Result<u32> {
        let machine = (connection.hello().boot_id.clone(), connection.hello().node.clone());
        let known = self.hosts.iter().position(|h| *h == machine);
        let host = known.unwrap_or(self.hosts.len());
        self.last_space += 1;
        let (session, row) = connection.record_start(HostId(host as u16), IdSpace(self.last_space))?;
        if known.is_none() {
            if machine.0 != self.hosts[0].0 {
                self.clocks.push((row.host, Reading::take(connection)?));
            }
            self.hosts.push(machine);
            self.rows.push(row);
        }
        Ok(session)
    }

    /// Returns the machine a server runs on.
    fn host_of(machines: &[(String, String)], connection: &Connection) -> Option<HostId> {
        let hello = connection.hello();
        machines.iter().position(|(boot, node)| *boot == hello.boot_id && *node == hello.node).map(|n| HostId(n as u16))
    }
}

impl Recorder {
    /// Begins a session at every server of these stores, and then the recording.
    ///
    /// # Errors
    /// The recording cannot be created, or a metadata service is unreachable. An unreachable I/O server is noted in the recording instead.
    pub fn start(recording: &Recording, stores: &[&Store]) -> Result<Recorder> {
        let here = Host::here(HostId(0), &recording.node);
        let mut numbers =
            Numbers { hosts: vec![(machine::boot_id(), recording.node.clone())], rows: vec![here], clocks: Vec::new(), last_space: 1 };
        let (mut sessions, mut at_names, mut unrecorded) = (Vec::new(), Vec::new(), Vec::new());
        let mut at_links = Vec::new();
        let mut emulated: Option<String> = None;
        for store in stores {
            for link in store.data.links() {
                // A server that is down is not an error here: the copy fails by itself if it needs that server.
                match link.connect(&mut Tracer::off(), None).and_then(|mut connection| Ok((numbers.begin(&mut connection)?, connection))) {
                    Ok((session, connection)) => {
                        at_links.push((Arc::clone(link), session));
                        sessions.push((link.name().to_owned(), connection, session));
                    }
                    Err(_) => unrecorded.push(link.name().to_owned()),
                }
            }
            store.names.with_connection(&mut |connection| {
                emulated = emulated.take().or_else(|| connection.hello().emulated.map(|emulation| emulation.to_string()));
                at_names.push(((*store).clone(), numbers.begin(connection)?));
                Ok(())
            })?;
        }
        let meta = Meta {
            format: thalweg_trace::FORMAT_VERSION,
            command: recording.command.clone(),
            recorder: "store".to_owned(),
            start: Time::now(),
            end: None,
            exit_code: None,
            dropped_events: 0,
            attributes: recording.keep_command.then(|| (secrets::KEPT.to_owned(), "yes".to_owned())).into_iter().collect(),
        };
        let writer = RecordingWriter::create(&recording.path, meta).map_err(failure)?;
        let trace = TraceHandle::on(Arc::clone(&writer) as Arc<dyn Sink>, HostId(0), Role::Client, IdSpace(1));
        for row in numbers.rows {
            trace.event(Event::Host(row));
        }
        for (link, session) in at_links {
            link.set_recording(Some(SessionOf { trace: trace.clone(), session }));
        }
        let stores = stores.iter().map(|s| (*s).clone()).collect();
        let recorder =
            Recorder { writer, trace, sessions, at_names, stores, machines: numbers.hosts, clocks: numbers.clocks, unrecorded, emulated };
        for (store, session) in &recorder.at_names {
            store.names.with_connection(&mut |connection| {
                connection.record(&recorder.trace, *session, None);
                Ok(())
            })?;
        }
        Ok(recorder)
    }

    /// Aligns machines that have clocks of their own with our time axis.
    fn align(&mut self) {
        for (host, first) in std::mem::take(&mut self.clocks) {
            let machines = &self.machines;
            let mut on_it = self.sessions.iter_mut().filter(|(_, c, _)| Numbers::host_of(machines, c) == Some(host));
            // A machine that runs only the metadata service is asked once.
            let last = on_it.next().and_then(|(_, connection, _)| Reading::take(connection).ok());
            self.trace.event(Event::Clock(clock(host, first, last)));
        }
    }

    /// Fetches the servers' events and finishes the recording, which ended at `end`. All tracers must have been dropped.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub fn finish(mut self, end: Time, exit_code: i32, mut attributes: Vec<(String, String)>) -> Result<PathBuf> {
        let mut dropped_events = 0;
        self.align();
        self.end_links();
        let writer = Arc::clone(&self.writer);
        let mut take = |mut page: Vec<Event>| writer.take(&mut page);
        for (name, mut connection, session) in std::mem::take(&mut self.sessions) {
            match connection.record_fetch(session, &mut take) {
                Ok(lost) => dropped_events += lost,
                Err(_) => self.unrecorded.push(name),
            }
        }
        for (store, session) in std::mem::take(&mut self.at_names) {
            let fetched = store.names.with_connection(&mut |connection| {
                dropped_events += connection.record_fetch(session, &mut take)?;
                connection.record(&TraceHandle::off(), 0, None);
                Ok(())
            });
            if fetched.is_err() {
                self.unrecorded.push("metadata".to_owned());
            }
        }
        if !self.unrecorded.is_empty() {
            attributes.push(("unrecorded_servers".to_owned(), self.unrecorded.join(", ")));
        }
        attributes.push(("realtime_ns".to_owned(), machine::realtime_ns().to_string()));
        attributes.push(("user".to_owned(), machine::user()));
        attributes.extend(self.emulated.take().map(|emulated| ("emulated".to_owned(), emulated)));
        let path = self.writer.path().to_owned();
        let ending = Ending { end, exit_code: Some(exit_code), dropped_events, attributes };
        self.writer.finish(ending).map_err(failure)?;
        Ok(path)
    }
}

impl Recorder {
    /// Stops recording connections and hands over what was collected about them.
    fn end_links(&self) {
        self.stores.iter().flat_map(|store| store.data.links()).for_each(|link| link.set_recording(None));
        thalweg_wire::flush_counters();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.end_links();
    }
}

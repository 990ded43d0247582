//! Our tracks in Perfetto's: processes by command, their threads, and lanes beside those where spans overlap.

use super::perfetto_messages::{Packet, ProcessDescriptor, ProcessTree, ThreadDescriptor, TrackDescriptor, TreeThread};
use super::perfetto_writer::Writer;
use crate::{Source, TraceError, TrackId};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum threads named in one packet.
const THREADS_PER_PACKET: usize = 4_096;

/// Maps our tracks to Perfetto's: ids from 1, each track's lanes consecutive.
pub(super) struct Tracks {
    lanes: HashMap<u64, u64>,
    /// The last lane of each track.
    last_lanes: BTreeMap<u64, usize>,
    processes: BTreeMap<(u16, u32), u64>,
    many_hosts: bool,
    next: u64,
}

impl Tracks {
    /// `last_lanes` has the tracks that events are on.
    pub(super) fn of(source: &dyn Source, last_lanes: BTreeMap<u64, usize>) -> Tracks {
        let (processes, many_hosts) = (BTreeMap::new(), Tracks::are_many_hosts(source));
        let mut tracks = Tracks { lanes: HashMap::new(), last_lanes, processes, many_hosts, next: 1 };
        for track in source.tracks() {
            tracks.add(track.track.number());
            if let Some(pid) = track.pid
                && !tracks.processes.contains_key(&(track.host.0, pid))
            {
                let uuid = tracks.new_uuid();
                tracks.processes.insert((track.host.0, pid), uuid);
            }
        }
        // Spans of a track whose row was lost still get a track.
        let others: Vec<u64> = tracks.last_lanes.keys().copied().collect();
        others.into_iter().for_each(|track| tracks.add(track));
        tracks
    }

    fn add(&mut self, track: u64) {
        let lanes = self.last_lanes.get(&track).copied().unwrap_or(0) as u64 + 1;
        if !self.lanes.contains_key(&track) {
            self.lanes.insert(track, self.next);
            self.next += lanes;
        }
    }

    /// Returns an id for a further track.
    pub(super) fn new_uuid(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Returns the id of a track's lane.
    pub(super) fn uuid(&self, track: TrackId, lane: u32) -> u64 {
        self.lanes.get(&track.number()).copied().unwrap_or(0) + u64::from(lane)
    }

    /// Returns the id of a track, if it has one.
    pub(super) fn known(&self, track: TrackId) -> Option<u64> {
        self.lanes.get(&track.number()).copied()
    }

    /// Returns the id of a process, if it has one.
    pub(super) fn process(&self, host: u16, pid: u32) -> Option<u64> {
        self.processes.get(&(host, pid)).copied()
    }

    /// Whether a recording is of several hosts.
    pub(super) fn are_many_hosts(source: &dyn Source) -> bool {
        source.tracks().iter().any(|track| track.host.0 != 0)
    }

    /// Returns the number of a process or a thread: those of different hosts must not collide.
    pub(super) fn pid(many_hosts: bool, host: u16, pid: u32) -> i32 {
        let pid = pid & 0x3f_ffff;
        if many_hosts { ((u32::from(host) & 0x1ff) << 22 | pid) as i32 } else { pid as i32 }
    }

    /// Describes all processes, threads and other tracks.
    pub(super) fn describe(&self, source: &dyn Source, writer: &mut Writer) -> Result<(), TraceError> {
        let names = super::perfetto_names::of_processes(source);
        self.describe_tree(source, &names, writer)?;
        for (&(host, pid), &uuid) in &self.processes {
            let (process_name, of_host) = (names.get(&(host, pid)).cloned(), |number| Some(Tracks::pid(self.many_hosts, host, number)));
            let cmdline = if host == 0 && Some(pid) == command_pid(source) { source.meta().command.clone() } else { Vec::new() };
            let process = Some(ProcessDescriptor { pid: of_host(pid), cmdline, process_name });
            writer.describe(TrackDescriptor { uuid: Some(uuid), process, ..TrackDescriptor::default() })?;
        }
        let mut threads = HashSet::new();
        for track in source.tracks() {
            let uuid = self.uuid(track.track, 0);
            let parent_uuid = track.pid.and_then(|pid| self.process(track.host.0, pid));
            let number = |number| Some(Tracks::pid(self.many_hosts, track.host.0, number));
            // A thread may have been traced twice: only the first track becomes the thread itself.
            let thread = track.pid.zip(track.tid).filter(|&ids| threads.insert((track.host, ids))).map(|(pid, tid)| ThreadDescriptor {
                pid: number(pid),
                tid: number(tid),
                thread_name: Some(track.name.clone()),
            });
            let name = thread.is_none().then(|| track.name.clone());
            writer.describe(TrackDescriptor { uuid: Some(uuid), name, thread, parent_uuid, ..TrackDescriptor::default() })?;
            self.describe_lanes(track.track.number(), uuid, &track.name, writer)?;
        }
        let known: HashSet<u64> = source.tracks().iter().map(|track| track.track.number()).collect();
        for (&track, &uuid) in self.lanes.iter().filter(|(track, _)| !known.contains(track)) {
            let name = format!("track {track}, whose row was lost");
            writer.describe(TrackDescriptor { uuid: Some(uuid), name: Some(name.clone()), ..TrackDescriptor::default() })?;
            self.describe_lanes(track, uuid, &name, writer)?;
        }
        Ok(())
    }

    fn describe_lanes(&self, track: u64, uuid: u64, name: &str, writer: &mut Writer) -> Result<(), TraceError> {
        for lane in 1..=self.last_lanes.get(&track).copied().unwrap_or(0) {
            let (lane_uuid, name) = (Some(uuid + lane as u64), Some(format!("{name} ({})", lane + 1)));
            writer.describe(TrackDescriptor { uuid: lane_uuid, name, parent_uuid: Some(uuid), ..TrackDescriptor::default() })?;
        }
        Ok(())
    }

    /// Writes which threads belong to which process, for their states. A process whose main thread has no track gets one by its name. (The
    /// tree's processes are left out: their names would be cut to one word.)
    fn describe_tree(&self, source: &dyn Source, names: &BTreeMap<(u16, u32), String>, writer: &mut Writer) -> Result<(), TraceError> {
        let number = |host: u16, number: u32| Some(i64::from(Tracks::pid(self.many_hosts, host, number)));
        let mut threads: BTreeMap<(u16, u32), (u32, &str)> = BTreeMap::new();
        for track in source.tracks() {
            if let Some((pid, tid)) = track.pid.zip(track.tid) {
                threads.entry((track.host.0, tid)).or_insert((pid, track.name.as_str()));
            }
        }
        for (&(host, pid), name) in names {
            threads.entry((host, pid)).or_insert((pid, name.as_str()));
        }
        let threads: Vec<TreeThread> = threads
            .into_iter()
            .map(|((host, tid), (pid, name))| TreeThread {
                tid: number(host, tid),
                pid: number(host, pid),
                comm: Some(name.to_owned()),
                is_main_thread: Some(tid == pid),
            })
            .collect();
        let start = source.meta().start;
        threads.chunks(THREADS_PER_PACKET).try_for_each(|chunk| {
            let process_tree = Some(ProcessTree { threads: chunk.to_vec() });
            writer.at(start, Packet { process_tree, ..Packet::default() })
        })
    }
}

/// Returns the process of the recorded command, where the recorder tells.
fn command_pid(source: &dyn Source) -> Option<u32> {
    source.meta().attributes.iter().find(|(name, _)| name == "command.pid").and_then(|(_, value)| value.parse().ok())
}

//! Plans the lanes: one per thread and one per connection; if there are too many, the rest of a kind is folded into one lane.

use crate::numbered::{Numbered, Numbers};
use std::collections::{HashMap, HashSet};
use thalweg_explain::document::Explanation;
use thalweg_trace::{Host, HostId, ObjectKind, Role, Source, Track, TrackKind};

/// The content of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneKind {
    /// The spans of one thread (or device, or processor).
    Track,
    /// The spans of several threads: height is the part of them in each class.
    Folded,
    /// Bytes sent over one connection: from the client above, to the client below.
    Connection,
}

/// A lane.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// The label at its left.
    pub label: String,
    /// Its content.
    pub kind: LaneKind,
    /// Index of its group.
    pub group: usize,
    /// Number of threads or connections in it.
    pub members: usize,
}

/// All lanes, from top to bottom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Headings of the groups.
    pub groups: Vec<String>,
    /// Lanes, group by group.
    pub lanes: Vec<Lane>,
    /// Track number to lane.
    pub of_track: Numbered<usize>,
    /// Connection object number to lane.
    pub of_connection: Numbered<usize>,
    /// Tracks whose sends go from a server to a client.
    pub server_tracks: Numbers,
    /// Threads of the command: of clients, or if there are none, of what else was recorded.
    pub command_tracks: Numbers,
    /// Whether those are a server's.
    pub command_serves: bool,
    /// A sentence on what was folded.
    pub folded: Option<String>,
}

/// Returns the position of a track's section, from the top.
pub(crate) fn section(track: &Track) -> usize {
    match (track.kind, track.role) {
        (TrackKind::Connection, _) => CONNECTIONS,
        (TrackKind::Device | TrackKind::Cpu | TrackKind::Link, _) => 5,
        (TrackKind::Thread, Role::Client) => 0,
        (TrackKind::Thread, Role::None) => 1,
        (TrackKind::Thread, Role::Server) => 3,
        (TrackKind::Thread, Role::Kernel | Role::Recorder) => 4,
    }
}

/// The position of the section of connections.
pub(crate) const CONNECTIONS: usize = 2;
const SECTIONS: [&str; 6] = ["client threads", "other threads", "connections", "server threads", "kernel threads", "devices"];

impl Plan {
    /// Plans at most `max_lanes` (≥ 8) lanes for a recording.
    pub(crate) fn new(source: &dyn Source, explanation: &Explanation, max_lanes: usize) -> Plan {
        let max_lanes = max_lanes.max(8);
        let mut plan = Plan::default();
        plan.know_threads(source);
        let connections = connections(source, explanation);
        let connection_lanes = connections.len().min(max_lanes / 3);
        let (idle, tracks) = without_idle(tracks_by_interest(source, explanation), explanation, max_lanes / 4);
        let room = max_lanes - connection_lanes - idle.len();
        let kept = if tracks.len() <= room { tracks.len() } else { room - folded_sections(&tracks, room) };
        let (mut shown, rest) = (tracks[..kept].to_vec(), &tracks[kept..]);
        shown.sort_by_cached_key(|t| (section(t), t.host, order_of_name(&t.name), t.track));

        for (number, name) in SECTIONS.iter().enumerate() {
            for track in shown.iter().filter(|t| section(t) == number) {
                let group = plan.group(&heading(name, number, track, source.hosts()));
                plan.add(&[*track], track.name.clone(), LaneKind::Track, group);
            }
            if number == CONNECTIONS {
                plan.add_connections(&connections, connection_lanes);
            }
            for members in idle.iter().filter(|members| section(members[0]) == number) {
                let group = plan.group(&heading(name, number, members[0], source.hosts()));
                let others = if shown.iter().any(|t| alike(t) == alike(members[0])) { "other " } else { "" };
                let label = format!("{} {others}{}, idle", members.len(), process_name(members[0]));
                plan.add(members, label, LaneKind::Folded, group);
            }
            let folded: Vec<&Track> = rest.iter().copied().filter(|t| section(t) == number).collect();
            if !folded.is_empty() {
                let group = plan.groups.len().checked_sub(1).filter(|g| plan.groups[*g].starts_with(name));
                let group = group.unwrap_or_else(|| plan.group(name));
                plan.add(&folded, format!("{} more", folded.len()), LaneKind::Folded, group);
            }
        }
        let folded_tracks = rest.len();
        let folded_connections =
            connections.len().saturating_sub(connection_lanes.saturating_sub(1)) * usize::from(connections.len() > connection_lanes);
        plan.folded = sentence(folded_tracks, tracks.len(), folded_connections, connections.len());
        plan
    }

    fn know_threads(&mut self, source: &dyn Source) {
        let threads = || source.tracks().iter().filter(|t| t.kind == TrackKind::Thread && t.role != Role::Recorder);
        let numbers = |of: &dyn Fn(&Track) -> bool| threads().filter(|t| of(t)).map(|t| t.track.number()).collect::<Numbers>();
        self.server_tracks = source.tracks().iter().filter(|t| t.role == Role::Server).map(|t| t.track.number()).collect();
        self.command_tracks = numbers(&|t| t.role == Role::Client);
        self.command_serves = self.command_tracks.is_empty() && !self.server_tracks.is_empty();
        if self.command_tracks.is_empty() {
            self.command_tracks = numbers(&|t| t.role != Role::Kernel);
        }
    }

    fn add(&mut self, tracks: &[&Track], label: String, kind: LaneKind, group: usize) {
        tracks.iter().for_each(|t| {
            self.of_track.insert(t.track.number(), self.lanes.len());
        });
        self.lanes.push(Lane { label, kind, group, members: tracks.len() });
    }

    fn group(&mut self, heading: &str) -> usize {
        if self.groups.last().is_none_or(|g| g != heading) {
            self.groups.push(heading.to_owned());
        }
        self.groups.len() - 1
    }

    fn add_connections(&mut self, connections: &[(String, Vec<u64>)], lanes: usize) {
        if connections.is_empty() {
            return;
        }
        let group = self.group(SECTIONS[CONNECTIONS]);
        let single = if connections.len() > lanes { lanes.saturating_sub(1) } else { lanes };
        for (name, objects) in &connections[..single] {
            objects.iter().for_each(|o| {
                self.of_connection.insert(*o, self.lanes.len());
            });
            self.lanes.push(Lane { label: name.clone(), kind: LaneKind::Connection, group, members: 1 });
        }
        let rest = &connections[single..];
        if !rest.is_empty() {
            rest.iter().flat_map(|(_, objects)| objects).for_each(|o| {
                self.of_connection.insert(*o, self.lanes.len());
            });
            let label = format!("{} more connections", rest.len());
            self.lanes.push(Lane { label, kind: LaneKind::Connection, group, members: rest.len() });
        }
    }
}

/// Returns a sort key that puts threads of connections last, and `io10` after `io9`.
pub(crate) fn order_of_name(name: &str) -> (bool, Vec<(String, u64)>) {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[text..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |n| text + n);
        parts.push((rest[..text].to_owned(), rest[text..digits].parse().unwrap_or(0)));
        rest = &rest[digits..];
    }
    (name.contains("connection"), parts)
}

/// What threads that do the same have in common: the name before a number or the thread's own name.
fn alike(track: &Track) -> (usize, HostId, &str) {
    (section(track), track.host, process_name(track))
}

fn process_name(track: &Track) -> &str {
    let process = track.name.split('/').next().unwrap_or_default();
    process.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end()
}

/// Separates threads that did next to nothing from the others, grouped by name; at most `most` groups. Those of the critical path are not
/// idle.
fn without_idle<'a>(tracks: Vec<&'a Track>, explanation: &Explanation, most: usize) -> (Vec<Vec<&'a Track>>, Vec<&'a Track>) {
    let on_path: HashSet<u64> = explanation.path.iter().filter_map(|segment| segment.track).collect();
    let worked: HashMap<u64, f64> = explanation.tracks.iter().map(|u| (u.track, u.cpu_s + u.file_s)).collect();
    let idle = |track: &Track| {
        let number = track.track.number();
        let worked_s = worked.get(&number);
        track.kind == TrackKind::Thread
            && !on_path.contains(&number)
            && worked_s.is_some_and(|seconds| *seconds < IDLE_SHARE * explanation.wall_s)
    };
    let mut groups: Vec<Vec<&Track>> = Vec::new();
    let mut index: HashMap<(usize, HostId, &str), usize> = HashMap::new();
    for track in tracks.iter().copied().filter(|track| idle(track)) {
        let group = *index.entry(alike(track)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(track);
    }
    groups.retain(|group| group.len() >= FEWEST_IDLE);
    groups.sort_by_key(|group| (std::cmp::Reverse(group.len()), group[0].track));
    groups.truncate(most);
    let folded: HashSet<u64> = groups.iter().flatten().map(|t| t.track.number()).collect();
    let rest = tracks.into_iter().filter(|t| !folded.contains(&t.track.number())).collect();
    (groups, rest)
}

/// A thread that worked for a smaller part of the run is idle.
const IDLE_SHARE: f64 = 0.002;
/// Fewest idle threads of one name that are folded.
const FEWEST_IDLE: usize = 3;

fn heading(name: &str, section: usize, track: &Track, hosts: &[Host]) -> String {
    let host = hosts.iter().find(|h| h.host == track.host);
    match host {
        Some(host) if section != CONNECTIONS => format!("{name} on {}", host.name),
        _ => name.to_owned(),
    }
}

/// Returns the number of lanes to reserve for folded tracks.
fn folded_sections(tracks: &[&Track], room: usize) -> usize {
    let mut sections: Vec<usize> = tracks[room.min(tracks.len())..].iter().map(|t| section(t)).collect();
    sections.sort_unstable();
    sections.dedup();
    // One more: reserving a lane may fold a track of another kind.
    (sections.len() + 1).min(room)
}

/// Returns tracks by time on the critical path, then by busy time. Tracks known to have no spans are left out.
fn tracks_by_interest<'a>(source: &'a dyn Source, explanation: &Explanation) -> Vec<&'a Track> {
    let mut on_path: HashMap<u64, f64> = HashMap::new();
    for segment in &explanation.path {
        if let Some(track) = segment.track {
            *on_path.entry(track).or_default() += segment.end_s - segment.start_s;
        }
    }
    let busy: HashMap<u64, usize> = explanation.tracks.iter().enumerate().map(|(i, u)| (u.track, i)).collect();
    let complete = !busy.is_empty() && busy.len() < thalweg_explain::document::MAX_TRACKS;
    let mut tracks: Vec<&Track> =
        source.tracks().iter().filter(|t| !complete || t.kind != TrackKind::Thread || busy.contains_key(&t.track.number())).collect();
    tracks.sort_by(|a, b| {
        let path = |t: &Track| on_path.get(&t.track.number()).copied().unwrap_or(0.0);
        let rank = |t: &Track| busy.get(&t.track.number()).copied().unwrap_or(usize::MAX);
        path(b).total_cmp(&path(a)).then(rank(a).cmp(&rank(b))).then(a.track.cmp(&b.track))
    });
    tracks
}

/// Returns connections by name, with the numbers of their objects (one at each end); those that moved most first, then in the order they
/// were made.
fn connections(source: &dyn Source, explanation: &Explanation) -> Vec<(String, Vec<u64>)> {
    let mut by_name: Vec<(String, Vec<u64>)> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for object in source.objects().iter().filter(|o| o.kind == ObjectKind::Connection) {
        let at = *index.entry(&object.name).or_insert_with(|| {
            by_name.push((object.name.clone(), Vec::new()));
            by_name.len() - 1
        });
        by_name[at].1.push(object.object.number());
    }
    let rank: HashMap<u64, usize> = explanation.channels.iter().enumerate().filter_map(|(i, c)| Some((c.object?, i))).collect();
    by_name.sort_by_key(|(_, objects)| objects.iter().filter_map(|o| rank.get(o)).min().copied().unwrap_or(usize::MAX));
    by_name
}

fn sentence(tracks: usize, all_tracks: usize, connections: usize, all_connections: usize) -> Option<String> {
    let mut parts = Vec::new();
    if tracks > 0 {
        parts.push(format!("{tracks} of {all_tracks} threads"));
    }
    if connections > 0 {
        parts.push(format!("{connections} of {all_connections} connections"));
    }
    let what = parts.join(" and ");
    (!parts.is_empty()).then(|| format!("{what} are folded into the lanes named “more”: there, height shows how many were in that state."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_stand_in_the_order_a_person_expects() {
        let mut names =
            ["connection io10#0", "request 1", "main", "connection io9#0", "request 0", "", "connection io9#10", "connection io9#2"];
        names.sort_by_cached_key(|n| order_of_name(n));
        let expected =
            ["", "main", "request 0", "request 1", "connection io9#0", "connection io9#2", "connection io9#10", "connection io10#0"];
        assert_eq!(names, expected);
    }
}

//! How a change is made with this very program: what its recipe says, by its command and what is known of the run.

use crate::assemble::Parts;
use crate::observe::observation::Way;
use crate::observe::tables::Object;
use crate::replay::mounts::Mount;
use thalweg_recipes::Fact;

/// The port of an NFS server.
const NFS_PORT: &str = ":2049";

/// What recipes may ask of a run.
pub(crate) fn facts(parts: &Parts<'_>, mounts: &[Mount]) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut know = |name: &'static str, value: String| facts.push(Fact { name, value });
    if let Some(mount) = mounts.first() {
        know("mount", mount.point.clone());
        know("servers", mount.store.servers.len().to_string());
        if mount.store.strict {
            know("strict", mount.point.clone());
        }
    }
    let far_ends = parts.tables.objects.iter().filter_map(|object| object.name.split_once(" > ")).map(|(_, server)| server);
    if let Some(server) = far_ends.filter_map(|server| server.strip_suffix(NFS_PORT)).next() {
        know("nfs", server.to_owned());
    }
    if !parts.tables.connections.is_empty() {
        know("network", parts.tables.connections.len().to_string());
    }
    let processors = parts.tables.machines.first().map_or(1, |machine| machine.cpus);
    if processors > 1 {
        know("processors", processors.to_string());
    }
    let read = parts.seen.stream(Way::ClientReads).all.bytes;
    if read > 0 {
        know("read_bytes", read.to_string());
        know("part_mib", read.div_ceil(u64::from(processors.max(1))).div_ceil(1 << 20).to_string());
    }
    if let Some(disk) = read_ahead_of(parts) {
        know("disk", disk.to_owned());
    }
    facts
}

/// The disk that most was read from, where reads went through the page cache, which reads ahead.
fn read_ahead_of<'p>(parts: &'p Parts<'_>) -> Option<&'p str> {
    let past_the_cache = |object: &Object| object.attribute("direct") == Some("yes");
    if parts.tables.objects.iter().any(past_the_cache) {
        return None;
    }
    let devices = parts.seen.devices.iter().filter(|(_, did)| did.read_bytes > 0);
    let (&track, _) = devices.max_by_key(|(track, did)| (did.read_bytes, std::cmp::Reverse(**track)))?;
    // (What is emulated is no device of this machine.)
    Some(parts.tables.actors[track as usize].name.as_str()).filter(|name| !name.contains(' '))
}

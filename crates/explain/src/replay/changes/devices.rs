//! Devices: one without its other users; one twice as fast, for the reads and the writes waited for most; metadata in half the time.

use super::proposal::{Proposal, Run};
use crate::limits::replay as limits;
use crate::replay::program::Class;
use crate::replay::scale::Scale;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let mut proposals: Vec<Proposal> = without_others(run).into_iter().collect();
    let name = |device: u32| run.graph.devices[device as usize].name.clone();
    if let Some((device, ns)) = run.stages.device_most_in(&[Class::Read])
        && run.matters(ns)
    {
        let scale = Scale { only_device: Some(device), ..Scale::none().devices(&[Class::Read], 0.5) };
        let (change, how) = twice_as_fast(run, &name(device), true);
        proposals.push(Proposal::replay("device.read.x2", change, how, scale));
    }
    // The time writers are throttled also follows the device's rate.
    let writing = [Class::Write, Class::Sync];
    let throttled = run.stages.delays[Class::Memory as usize];
    let most = run.stages.device_most_in(&writing);
    if run.matters(most.map_or(0.0, |m| m.1) + throttled) {
        let scale = Scale { only_device: most.map(|m| m.0), ..Scale::none().devices(&writing, 0.5).delays(&[Class::Memory], 0.5) };
        let device = most.map_or_else(|| "the disk".to_owned(), |m| name(m.0));
        let (change, how) = twice_as_fast(run, &device, false);
        proposals.push(Proposal::replay("device.write.x2", change, how, scale));
    }
    if run.matters(throttled) {
        let how = "allow more dirty pages";
        let scale = Scale::none().delays(&[Class::Memory], 0.0);
        proposals.push(Proposal::replay("no_throttle", "no dirty throttling", how, scale));
    }
    if run.matters(run.stages.at_devices(Class::Metadata)) {
        let scale = Scale::none().devices(&[Class::Metadata], 0.5);
        let fewer = if run.files.is_some_and(|files| files >= limits::MANY_FILES) { ", or fewer files of larger size" } else { "" };
        let how = format!("a faster device for metadata{fewer}");
        proposals.push(Proposal::replay("metadata.x2", "metadata operations twice as fast", how, scale));
    }
    proposals
}

/// The change and method that make a device read, or write, twice as fast: another device, or a higher limit.
fn twice_as_fast(run: &Run<'_>, device: &str, reads: bool) -> (String, String) {
    if let Some(group) = run.limits.group_of(device) {
        let how = format!("raise what cgroup {group} allows (io.max; blkio.throttle of version 1), or run outside the group");
        return (format!("{device}'s limit twice as high"), how);
    }
    let (does, done) = if reads { ("reads", "read") } else { ("writes", "written") };
    (format!("{device} {does} twice as fast"), format!("move what is {done} to a device twice as fast"))
}

/// Without the unrecorded programs that used a device while it was waited for.
fn without_others(run: &Run<'_>) -> Option<Proposal> {
    let (&device, &ns) = run.stages.foreign.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)))?;
    if !run.matters(ns) {
        return None;
    }
    let name = &run.graph.devices[device as usize].name;
    let who = run.graph.devices[device as usize].clone();
    let who = run.foreign.get(&(who.machine, who.name)).map_or("others", |foreign| foreign.who.as_str());
    let how = format!(
        "run it when {who} does not use {name}, or put one of the two on another disk; otherwise share it with io.weight or ionice"
    );
    let scale = Scale { foreign: 0.0, only_device: Some(device), ..Scale::none() };
    Some(Proposal::replay("no_disk_hog", format!("no other programs at {name}"), how, scale))
}

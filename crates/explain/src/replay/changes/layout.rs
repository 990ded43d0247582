//! Another layout of a file in a mounted store: over all its servers, or on the machine that uses it.

use super::proposal::{Proposal, Run};
use crate::facts::mounts::Mount;
use crate::replay::program::Class;
use crate::replay::regime::Regime;
use crate::replay::scale::{Rooms, Scale};

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let [mount] = run.mounts else { return Vec::new() };
    wide(run, mount).into_iter().chain(local(run, mount)).collect()
}

/// The busiest server's disk becomes one of as many as there are servers, instead of as many as carried the file.
fn wide(run: &Run<'_>, mount: &Mount) -> Option<Proposal> {
    let data = [Class::Read, Class::Write, Class::Sync];
    let (used, all) = (run.servers_used, mount.store.servers.len());
    let (device, ns) = run.stages.device_most_in(&data)?;
    if used == 0 || used >= all || !run.matters(ns) {
        return None;
    }
    let scale = Scale { only_device: Some(device), ..Scale::none().devices(&data, used as f64 / all as f64) };
    let change = format!("the file on all {all} servers instead of {used}, if each has a disk of its own");
    Some(Proposal::replay("layout.wide", change, "lay the file out over all servers", scale))
}

/// Nothing crosses the network, and this machine's one server does the work of all those used.
fn local(run: &Run<'_>, mount: &Mount) -> Option<Proposal> {
    let crossing = run.stages.in_regimes(&Regime::ALL) + run.stages.latency;
    if !mount.has_local_server() || run.servers_used == 0 || !run.matters(crossing) {
        return None;
    }
    let data = [Class::Read, Class::Write, Class::Sync];
    let scale = Scale::none().services(&Regime::ALL, 0.0).rooms(&Regime::ALL, Rooms::Endless).devices(&data, run.servers_used as f64);
    let scale = Scale { latency: 0.0, ..scale };
    let change = format!("the file on this machine's own server ({})", mount.store.node);
    Some(Proposal::replay("layout.local", change, "lay the file out on this machine's server", scale))
}

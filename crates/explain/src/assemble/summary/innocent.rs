//! Resources that did not limit, with the figure that shows it: less than a twentieth of the time, and not busy either.

use super::figures::has_network;
use super::groups::Group;
use super::of::Of;
use crate::cause::{Cause, End};
use crate::document::Innocent;
use crate::limits::summary as limits;
use thalweg_base::numbers::whole_percent;

/// Everything that did not limit.
pub(super) fn innocent(of: &Of<'_>, groups: &[Group<'_>]) -> Vec<Innocent> {
    let mut innocent: Vec<Innocent> = processors(of).into_iter().collect();
    innocent.extend(network(of));
    innocent.extend(devices(of, groups));
    innocent
}

/// A percentage, or "under 1 %".
fn little(part: f64) -> String {
    if part < limits::LITTLE { "under 1 %".to_owned() } else { whole_percent(part) }
}

/// The processors of each end, if neither its computing nor its queueing mattered.
fn processors(of: &Of<'_>) -> Option<Innocent> {
    let of_end = |end: End| {
        let (cpu, queue) = match end {
            End::Client => (Cause::ClientCpu, Cause::ClientRunqueue),
            End::Server => (Cause::ServerCpu, Cause::ServerRunqueue),
        };
        let busy = of.parts.processors_busy(end)?;
        (busy < limits::BUSY && of.share(|c| c == cpu || c == queue) < limits::INNOCENT).then(|| little(busy))
    };
    let both = of.parts.tables.has_servers;
    let figure = match (of_end(End::Client), of_end(End::Server).filter(|_| both)) {
        (Some(client), Some(server)) => format!("client {client}, server {server} busy"),
        (Some(client), None) if both => format!("client {client} busy"),
        (Some(own), None) => format!("{own} busy"),
        (None, Some(server)) => format!("server {server} busy"),
        (None, None) => return None,
    };
    Some(Innocent { what: "CPU".to_owned(), figure })
}

/// The network, and its losses.
fn network(of: &Of<'_>) -> Vec<Innocent> {
    if !has_network(of) || of.parts.seen.asking.exchanged().from_to.is_none() {
        return Vec::new();
    }
    let share = of.share(Cause::is_network);
    let lost = of.share(|c| c == Cause::NetworkLoss);
    // If the other end was not recorded, the network's part is unknown.
    let whole = of.share(|c| c == Cause::ServerUnknown) < limits::INNOCENT && share < limits::INNOCENT;
    let mut innocent = Vec::new();
    if whole {
        innocent.push(Innocent { what: "network".to_owned(), figure: format!("{} of the time", little(share)) });
    } else if of.parts.on_wire.is_known() && lost < limits::INNOCENT {
        let figure = if lost > 0.0 { format!("{} of the time", little(lost)) } else { "none".to_owned() };
        innocent.push(Innocent { what: "loss".to_owned(), figure });
    }
    innocent
}

/// Devices that worked and were hardly waited for.
fn devices(of: &Of<'_>, groups: &[Group<'_>]) -> Vec<Innocent> {
    let waited_for = |name: &str| groups.iter().filter(|g| g.devices.iter().any(|(n, _)| n == name)).map(|g| g.share).sum::<f64>();
    // Throttled writers wait for a device that is not named.
    let throttled = of.share(|c| matches!(c, Cause::ClientMemory | Cause::ServerMemory));
    let mut busy: Vec<(f64, &str)> = Vec::new();
    for (&track, did) in &of.parts.seen.devices {
        let name = of.parts.tables.actors[track as usize].name.as_str();
        if did.requests.count > 0 && waited_for(name) + throttled < limits::INNOCENT {
            busy.extend(of.parts.device_busy(track).filter(|part| *part < limits::BUSY).map(|part| (part, name)));
        }
    }
    busy.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let named = busy.into_iter().take(limits::DEVICES);
    named.map(|(part, name)| Innocent { what: name.to_owned(), figure: format!("{} busy", little(part)) }).collect()
}

//! Changes of any program's run: one file for each thing that can be changed, and one line in [`ALL`].

mod devices;
mod far_end;
mod layout;
mod link;
mod locks;
mod once;
mod overlap;
pub(crate) mod parallel;
mod pauses;
mod pipe;
mod processors;
pub(crate) mod proposal;
pub(crate) mod raised;
pub(crate) mod requests;
mod streams;
mod sync;
pub(crate) mod walk;
mod windows;

use crate::cause::Cause;
use proposal::{Proposal, Run};

/// Proposals of one kind.
pub(crate) type Change = fn(&Run<'_>) -> Vec<Proposal>;

/// Every kind of change.
pub(crate) const ALL: &[Change] = &[
    once::propose,
    devices::propose,
    sync::propose,
    pauses::propose,
    locks::propose,
    processors::propose,
    parallel::propose,
    link::propose,
    streams::propose,
    requests::propose,
    overlap::propose,
    pipe::propose,
    far_end::propose,
    layout::propose,
    windows::propose,
];

/// The changes aimed at a cause, best known first.
pub(crate) const fn aimed_at(cause: Cause) -> &'static [&'static str] {
    use Cause as C;
    match cause {
        C::ClientRead | C::ServerRead => &[
            "read_once",
            "fetch_once",
            "start_once",
            "lock.outside",
            "disk.requests.x4",
            "no_disk_hog",
            "device.read.x2",
            "overlap.read_send",
            "layout.wide",
        ],
        C::ClientWrite | C::ServerWrite => {
            &["write_once", "lock.outside", "disk.requests.x4", "no_disk_hog", "device.write.x2", "layout.wide"]
        }
        C::ClientSync | C::ServerSync => {
            &["write_once", "sync_once", "lock.outside", "no_disk_hog", "no_sync", "device.write.x2", "layout.wide"]
        }
        C::ClientMetadata | C::ServerMetadata => &["start_once", "disk.requests.x4", "no_disk_hog", "metadata.x2", "requests.x4"],
        C::ClientMemory | C::ServerMemory => &["write_once", "start_once", "no_throttle", "device.write.x2"],
        C::ClientCpu => &[
            "pipe.room",
            "overlap.stages",
            "write_once",
            "read_once",
            "fetch_once",
            "start_once",
            "connect_once",
            "calls.larger",
            "lock.outside",
            "processors.all",
            "commands.all",
            "cpu.client.x2",
            "processors.x2",
        ],
        C::ServerCpu => &["no_other_clients", "fetch_once", "connect_once", "cpu.server.x2", "processors.x2"],
        C::ClientRunqueue | C::ServerRunqueue => &["write_once", "read_once", "start_once", "no_cpu_quota", "no_hog", "processors.x2"],
        C::ClientLock | C::ServerLock => &["no_lock"],
        C::ClientThink | C::ServerThink => &[
            "no_other_clients",
            "fetch_once",
            "names_at_once",
            "server.parallel",
            "lock.outside",
            "time_limit",
            "no_think",
            "no_stop",
            "no_poll",
            "requests.x4",
        ],
        C::ServerUnknown => {
            &["names_at_once", "no_other_clients", "fetch_once", "connect_once", "lock.outside", "server.x2", "requests.x4"]
        }
        C::NetworkLoss => &["no_loss", "streams.x4"],
        C::NetworkSndbuf | C::NetworkRwnd => &["window.x4", "streams.x4"],
        C::NetworkCwnd => &["no_slow_start", "rtt.half", "streams.x4"],
        C::NetworkLatency => {
            &["names_at_once", "fetch_once", "connect_once", "lock.outside", "no_nagle", "rtt.half", "requests.x4", "layout.local"]
        }
        C::NetworkBandwidth => &["fetch_once", "link.x2", "layout.local"],
        C::Recorder => &["no_recorder"],
        C::Unknown => &["names_at_once"],
    }
}

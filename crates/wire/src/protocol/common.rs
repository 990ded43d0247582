//! Messages common to all servers: the greeting, and recording sessions.

use crate::emulate::Emulation;
use serde::{Deserialize, Serialize};
use thalweg_trace::{Host, HostId, IdSpace, Time};

/// Random at each start of a server: unsynced writes answered under another verifier may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BootVerifier(pub u64);

impl BootVerifier {
    /// Makes a new verifier.
    pub fn random() -> BootVerifier {
        BootVerifier(random_u64() | 1)
    }
}

/// Returns 64 random bits from the kernel.
pub fn random_u64() -> u64 {
    u64::from_le_bytes(thalweg_base::random::bytes())
}

/// The service a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ServiceKind {
    /// Datafiles.
    Io,
    /// Names and attributes.
    Metadata,
}

/// Requests of [`crate::transport::Kind::Common`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommonRequest {
    /// Opens every connection. Reply: [`CommonReply::Hello`].
    Hello(Hello),
    /// Starts tracing the requests that carry the session in the reply ([`CommonReply::RecordStarted`]). The session ends with
    /// the connection.
    RecordStart {
        /// The server's host, in the recording's numbering.
        host: HostId,
        /// The identifiers the server may use.
        space: IdSpace,
    },
    /// Fetches a page of the session's events: [`CommonReply::RecordPage`], with the events as payload.
    RecordFetch {
        /// The session.
        session: u32,
    },
    /// Reads the server's clock: [`CommonReply::Clock`].
    Clock,
    /// Ends the session.
    RecordStop {
        /// The session.
        session: u32,
    },
}

/// The client's greeting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Lowest protocol version the client speaks.
    pub version_min: u16,
    /// Highest protocol version.
    pub version_max: u16,
    /// Command and process id, for messages and traces.
    pub client: String,
    /// Label of its machine.
    pub node: String,
    /// The intended store, if known; servers of another store refuse.
    pub store: Option<u64>,
    /// The start of the store's metadata service known to the client.
    pub service_start: Option<ServiceStart>,
}

/// The server's greeting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloReply {
    /// The version to speak.
    pub version: u16,
    /// The server's name in the store.
    pub server: String,
    /// The service it offers.
    pub service: ServiceKind,
    /// Label of its machine.
    pub node: String,
    /// Identifies the clock of the machine's traces: equal ids share a clock.
    pub boot_id: String,
    /// This start of the server.
    pub verifier: BootVerifier,
    /// The store it belongs to.
    pub store: u64,
    /// Metadata service: its current start. I/O server: the last start whose file numbers its targets served.
    pub service_start: ServiceStart,
    /// I/O server: the last change of the metadata's log in that start of which its targets were notified. Metadata service: 0.
    pub change: u64,
    /// The devices its store emulates.
    pub emulated: Option<Emulation>,
}

/// One start of a store's metadata service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServiceStart {
    /// The epoch of the file numbers it assigns: higher than in earlier starts, unless the service lost state.
    pub epoch: u64,
    /// Random: two starts of one epoch are from two copies of the metadata. 0: unknown.
    pub start: u64,
}

impl ServiceStart {
    /// Whether this service does not know the start that a target has `seen`, or runs from another copy of the metadata.
    pub fn is_behind(self, seen: ServiceStart) -> bool {
        seen.epoch > self.epoch || seen.epoch == self.epoch && seen.start != 0 && self.start != 0 && seen.start != self.start
    }
}

/// The latest durable state of the metadata that a target was notified of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Witnessed {
    /// The start of the service.
    pub start: ServiceStart,
    /// The last durable change in the service's log; 0: no notification in this start.
    pub change: u64,
}

/// Replies of [`crate::transport::Kind::Common`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum CommonReply {
    Hello(HelloReply),
    /// The session, and the server's host.
    RecordStarted {
        session: u32,
        host: Host,
    },
    /// A page of events. More pages follow if `more`; `lost` events did not fit since the last page.
    RecordPage {
        more: bool,
        lost: u64,
    },
    Done,
    Clock(Time),
}

/// Why one item of a batch failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The errno.
    pub errno: i32,
    /// The message.
    pub message: String,
}

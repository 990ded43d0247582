//! What every server understands: the greeting, and the recording of its own work.

use crate::emulate::Emulation;
use serde::{Deserialize, Serialize};
use thalweg_trace::{Host, HostId, IdSpace, Time};

/// Random at each start of a server: what a client wrote and did not sync under another verifier may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BootVerifier(pub u64);

impl BootVerifier {
    /// A new one.
    pub fn random() -> BootVerifier {
        BootVerifier(random_u64() | 1)
    }
}

/// 64 random bits from the kernel.
pub fn random_u64() -> u64 {
    u64::from_le_bytes(thalweg_base::random::bytes())
}

/// Which service a server offers.
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
    /// The first message of every connection. Answered with [`CommonReply::Hello`].
    Hello(Hello),
    /// Asks the server to trace the requests that carry the session it answers with ([`CommonReply::RecordStarted`]).
    /// The session ends with the connection.
    RecordStart {
        /// The server's host, in the recording's numbering.
        host: HostId,
        /// The identifiers it may use.
        space: IdSpace,
    },
    /// A page of the session's events: [`CommonReply::RecordPage`], with the events as payload.
    RecordFetch {
        /// Which.
        session: u32,
    },
    /// Asks for the time on the server's clock: [`CommonReply::Clock`].
    Clock,
    /// Forgets the session.
    RecordStop {
        /// Which.
        session: u32,
    },
}

/// The client introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Lowest version of the protocol it speaks.
    pub version_min: u16,
    /// Highest one.
    pub version_max: u16,
    /// Who it is, for messages and traces: command and process.
    pub client: String,
    /// The label of the machine it is on.
    pub node: String,
    /// The store it means, if it knows; a server of another store refuses.
    pub store: Option<u64>,
    /// The start of the store's metadata service that it knows.
    pub service_start: Option<ServiceStart>,
}

/// The server introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloReply {
    /// The version to speak.
    pub version: u16,
    /// Its name in the store.
    pub server: String,
    /// What it offers.
    pub service: ServiceKind,
    /// The label of the machine it is on.
    pub node: String,
    /// Identifies the clock of the machine's traces: equal ones are one clock.
    pub boot_id: String,
    /// This start of the server.
    pub verifier: BootVerifier,
    /// The store it belongs to.
    pub store: u64,
    /// The metadata service: this start of it. An I/O server: the last one whose file numbers its targets have served.
    pub service_start: ServiceStart,
    /// An I/O server: how far the metadata's log had come in that start, as far as its targets were notified. The metadata service: 0.
    pub change: u64,
    /// The devices that its store pretends to have.
    pub emulated: Option<Emulation>,
}

/// One start of a store's metadata service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServiceStart {
    /// The epoch of the numbers that it gives: higher than before, if it has forgotten nothing.
    pub epoch: u64,
    /// Random: two starts of one epoch are of two copies of the metadata. 0: not known.
    pub start: u64,
}

impl ServiceStart {
    /// Whether this service has forgotten the start that a target has `seen`, or is not the one that it was.
    pub fn is_behind(self, seen: ServiceStart) -> bool {
        seen.epoch > self.epoch || seen.epoch == self.epoch && seen.start != 0 && self.start != 0 && seen.start != self.start
    }
}

/// How far a target knows the metadata to have come, durably.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Witnessed {
    /// In which start of the service.
    pub start: ServiceStart,
    /// The number of the last change in its log that was on stable storage; 0: it was not notified of any in this start.
    pub change: u64,
}

/// Replies of [`crate::transport::Kind::Common`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum CommonReply {
    Hello(HelloReply),
    /// The session, and the host it is on.
    RecordStarted {
        session: u32,
        host: Host,
    },
    /// More pages are to be fetched while `more`; `lost` events did not fit since the last page.
    RecordPage {
        more: bool,
        lost: u64,
    },
    Done,
    Clock(Time),
}

/// Why one of many could not be had: errno and text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The errno.
    pub errno: i32,
    /// The text.
    pub message: String,
}

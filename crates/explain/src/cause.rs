//! The causes: one closed list. `MODEL.md` says what each means and when the walk charges it.

use serde::{Deserialize, Serialize};

/// Declares the closed set of causes from one list: name in documents, and phrase in a sentence.
macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident = $name:literal, $phrase:literal);+ $(;)?) => {
        /// The cause of an instant of wall time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Cause { $($(#[$doc])* #[serde(rename = $name)] $cause),+ }

        impl Cause {
            /// Every cause, in the order of its number.
            pub const ALL: &'static [Cause] = &[$(Cause::$cause),+];

            /// The cause's name in documents.
            pub const fn name(self) -> &'static str {
                match self { $(Cause::$cause => $name),+ }
            }

            /// The phrase after "it was" in the sentence of a recording of packets, which has no programs to name.
            pub(crate) const fn phrase(self) -> &'static str {
                match self { $(Cause::$cause => $phrase),+ }
            }

            /// Whether the time was spent in transit between two machines.
            pub(crate) fn is_network(self) -> bool {
                self.name().starts_with("network.")
            }

            /// Whether the cause is a wait for stable storage.
            pub(crate) fn is_sync(self) -> bool {
                self.name().ends_with(".sync")
            }

            /// The end at which the cause is; `None` for the network's and others.
            pub(crate) fn end(self) -> Option<End> {
                match self.name().split('.').next() {
                    Some("client") => Some(End::Client),
                    Some("server") => Some(End::Server),
                    _ => None,
                }
            }

            /// The cause with this name, if there is one.
            pub fn from_name(name: &str) -> Option<Cause> {
                match name { $($name => Some(Cause::$cause),)+ _ => None }
            }
        }
    };
}

causes! {
    /// The client blocked reading its source.
    ClientRead = "client.read", "the client waiting for its source";
    /// The client blocked writing its sink.
    ClientWrite = "client.write", "the client waiting for its sink";
    /// The client blocked making its sink durable.
    ClientSync = "client.sync", "the client waiting for its sink to be on stable storage";
    /// The client working on names and attributes.
    ClientMetadata = "client.metadata", "the client working on metadata";
    /// The client blocked on memory: faults, reclaim, dirty throttling.
    ClientMemory = "client.memory", "the client waiting for memory";
    /// The client computing.
    ClientCpu = "client.cpu", "the client's CPU at work";
    /// The client runnable but not running.
    ClientRunqueue = "client.runqueue", "the client waiting for a CPU";
    /// The client blocked on a lock whose holder is not known.
    ClientLock = "client.lock", "the client waiting for a lock";
    /// The client asleep by its own choice, or stopped.
    ClientThink = "client.think", "the client doing nothing";
    /// The server blocked reading a datafile.
    ServerRead = "server.read", "the server waiting for its disk to read";
    /// The server blocked writing a datafile.
    ServerWrite = "server.write", "the server waiting for its disk to write";
    /// The server blocked making data durable.
    ServerSync = "server.sync", "the server waiting for data to be on stable storage";
    /// The server working on names and attributes.
    ServerMetadata = "server.metadata", "the server working on metadata";
    /// The server blocked on memory: faults, reclaim, dirty throttling.
    ServerMemory = "server.memory", "the server waiting for memory";
    /// The server computing.
    ServerCpu = "server.cpu", "the server's CPU at work";
    /// The server runnable but not running.
    ServerRunqueue = "server.runqueue", "the server waiting for a CPU";
    /// The server blocked on a lock whose holder is not known.
    ServerLock = "server.lock", "the server waiting for a lock";
    /// The server asleep by its own choice, or stopped: neither running, nor runnable, nor waiting for anything recorded.
    ServerThink = "server.think", "the server doing nothing";
    /// The server's time, which was not recorded.
    ServerUnknown = "server.unknown", "the server, which was not recorded";
    /// Loss recovery or a retransmission timeout.
    NetworkLoss = "network.loss", "the network losing packets";
    /// The send buffer is at its limit, below bandwidth × delay.
    NetworkSndbuf = "network.sndbuf", "a send buffer that is too small";
    /// The receive window is at its limit, below bandwidth × delay.
    NetworkRwnd = "network.rwnd", "a receive window that is too small";
    /// In flight is below bandwidth × delay and the round-trip time near its minimum.
    NetworkCwnd = "network.cwnd", "the congestion window";
    /// One round trip or transit with nothing else to wait for.
    NetworkLatency = "network.latency", "messages in transit";
    /// Data moved, or could have, as fast as the path takes it.
    NetworkBandwidth = "network.bandwidth", "the wire carrying data";
    /// The recording itself.
    Recorder = "recorder", "the recorder itself";
    /// Not known. Counts against the explanation.
    Unknown = "unknown", "something that was not recorded";
}

/// The end at which a thread works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    /// The recorded program, and everything that is not a server.
    Client,
    /// A server.
    Server,
}

impl End {
    /// The opposite end.
    pub(crate) const fn other(self) -> End {
        match self {
            End::Client => End::Server,
            End::Server => End::Client,
        }
    }
}

/// A thread's activity, before its end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub(crate) enum Activity {
    Read,
    Write,
    Sync,
    Metadata,
    Memory,
    Cpu,
    Runqueue,
    Lock,
    Think,
}

impl Activity {
    /// The cause of this activity at an end.
    pub(crate) const fn at(self, end: End) -> Cause {
        match (end, self) {
            (End::Client, Activity::Read) => Cause::ClientRead,
            (End::Client, Activity::Write) => Cause::ClientWrite,
            (End::Client, Activity::Sync) => Cause::ClientSync,
            (End::Client, Activity::Metadata) => Cause::ClientMetadata,
            (End::Client, Activity::Memory) => Cause::ClientMemory,
            (End::Client, Activity::Cpu) => Cause::ClientCpu,
            (End::Client, Activity::Runqueue) => Cause::ClientRunqueue,
            (End::Client, Activity::Lock) => Cause::ClientLock,
            (End::Client, Activity::Think) => Cause::ClientThink,
            (End::Server, Activity::Read) => Cause::ServerRead,
            (End::Server, Activity::Write) => Cause::ServerWrite,
            (End::Server, Activity::Sync) => Cause::ServerSync,
            (End::Server, Activity::Metadata) => Cause::ServerMetadata,
            (End::Server, Activity::Memory) => Cause::ServerMemory,
            (End::Server, Activity::Cpu) => Cause::ServerCpu,
            (End::Server, Activity::Runqueue) => Cause::ServerRunqueue,
            (End::Server, Activity::Lock) => Cause::ServerLock,
            (End::Server, Activity::Think) => Cause::ServerThink,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_causes() {
        for &cause in Cause::ALL {
            assert_eq!(Cause::from_name(cause.name()), Some(cause));
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
        }
        assert_eq!(Cause::from_name("client.nothing"), None);
    }
}

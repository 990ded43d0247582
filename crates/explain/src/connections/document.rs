//! Connections without a known RPC protocol, as far as TCP shows them.

use serde::{Deserialize, Serialize};

/// Most entries in [`Connections::listed`].
pub const MAX_LISTED: usize = 64;

/// Connections without a known RPC protocol, as far as TCP shows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Number of connections.
    pub count: u64,
    /// Attempted connections that were not established: refused, or unanswered.
    pub failed: u64,
    /// Bytes from clients, each counted once however often it was sent.
    pub sent_bytes: u64,
    /// Bytes to clients.
    pub received_bytes: u64,
    /// How often a client sent and then its server: requests and their answers, if the protocol has them.
    pub round_trips: u64,
    /// Median time from the client's last byte to the server's first, as captured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer_median_s: Option<f64>,
    /// Longest time from the client's last byte to the server's first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer_max_s: Option<f64>,
    /// Segments sent again.
    pub tcp_retransmissions: u64,
    /// Times that a sender's TCP waited for its timer.
    pub tcp_timeouts: u64,
    /// Times that a receiver closed its window.
    pub zero_windows: u64,
    /// The connections, most bytes first; at most [`MAX_LISTED`].
    pub listed: Vec<Conversation>,
}

/// One connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// `CLIENT:PORT > SERVER:PORT`.
    pub name: String,
    /// The protocol, by its first bytes or its server's port.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub protocol: Option<String>,
    /// The evidence: `content` or `port`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub protocol_from: Option<String>,
    /// Time it starts.
    pub start_s: f64,
    /// Time of its last byte.
    pub end_s: f64,
    /// Bytes from the client.
    pub sent_bytes: u64,
    /// Bytes to the client.
    pub received_bytes: u64,
    /// Time from SYN to SYN and ACK; absent if the connection's start was not captured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub handshake_s: Option<f64>,
    /// Whether it was not established.
    pub failed: bool,
    /// How often the client sent and then the server.
    pub round_trips: u64,
    /// Median time from the client's last byte to the server's first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer_median_s: Option<f64>,
    /// Longest time from the client's last byte to the server's first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer_max_s: Option<f64>,
    /// Time in which this connection waited for its server, beyond the round trip.
    pub server_s: f64,
    /// Time in which it waited for its client, beyond the round trip.
    pub client_s: f64,
    /// Time in which it waited for messages and acknowledgements in transit.
    pub round_trip_s: f64,
    /// Time in which it waited for TCP to retransmit.
    pub loss_s: f64,
    /// Time in which a sender waited for a window to open.
    pub window_s: f64,
    /// Segments that the client sent again.
    pub sent_again: u64,
    /// Segments that the server sent again.
    pub received_again: u64,
    /// Times that the server closed its window, so that the client had to wait.
    pub server_zero_windows: u64,
    /// Times that the client closed its window.
    pub client_zero_windows: u64,
    /// The least window that the server offered; absent if the window's scale was not captured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_window_bytes: Option<u64>,
    /// The least window that the client offered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_window_bytes: Option<u64>,
}

//! What TCP shows of connections that carry something else than RPC.

use serde::{Deserialize, Serialize};

/// At most this many entries in [`Connections::listed`].
pub const MAX_LISTED: usize = 64;

/// Connections that carry no RPC known here, as far as TCP shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// How many.
    pub count: u64,
    /// Connections that were asked for and did not come about: refused, or unanswered.
    pub failed: u64,
    /// Bytes from clients, each counted once however often it was sent.
    pub sent_bytes: u64,
    /// Bytes to clients.
    pub received_bytes: u64,
    /// How often a client spoke and then its server: requests and their answers, where a protocol has such.
    pub round_trips: u64,
    /// From the client's last byte to the server's first, seen where the packets were captured: the median.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer_median_s: Option<f64>,
    /// ... the longest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer_max_s: Option<f64>,
    /// Segments sent again.
    pub tcp_retransmissions: u64,
    /// Times that a sender's TCP waited for its timer.
    pub tcp_timeouts: u64,
    /// Times that a receiver closed its window.
    pub zero_windows: u64,
    /// Each by itself, most bytes first; at most [`MAX_LISTED`].
    pub listed: Vec<Conversation>,
}

/// One connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// `CLIENT:PORT > SERVER:PORT`.
    pub name: String,
    /// What it carries, as its first bytes or its server's port say.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub protocol: Option<String>,
    /// `content` or `port`: what says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub protocol_from: Option<String>,
    /// When it began.
    pub start_s: f64,
    /// When its last byte passed.
    pub end_s: f64,
    /// Bytes from the client.
    pub sent_bytes: u64,
    /// Bytes to the client.
    pub received_bytes: u64,
    /// From SYN to SYN and ACK; absent where the connection's beginning was not captured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub handshake_s: Option<f64>,
    /// Whether it did not come about.
    pub failed: bool,
    /// How often the client spoke and then the server.
    pub round_trips: u64,
    /// From the client's last byte to the server's first: the median.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer_median_s: Option<f64>,
    /// ... the longest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer_max_s: Option<f64>,
    /// Time in which this connection waited for its server, beyond the round trip.
    pub server_s: f64,
    /// Time in which it waited for its client, beyond the round trip.
    pub client_s: f64,
    /// Time in which it waited for messages and acknowledgements on their way.
    pub round_trip_s: f64,
    /// Time in which it waited for TCP to send again.
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
    /// The least window that the server offered; absent where the window's scale was not captured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_window_bytes: Option<u64>,
    /// The least window that the client offered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_window_bytes: Option<u64>,
}

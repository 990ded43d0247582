//! Kinds of parameters.

use serde::{Deserialize, Serialize};

/// The kind of a parameter, which decides for which causes it is varied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Connections that transfer one file in parallel.
    Streams,
    /// Files or requests in flight.
    Requests,
    /// Asynchronous operations in flight on a file or connection.
    Depth,
    /// Bytes per read, write or message.
    Block,
    /// Bytes that a connection may have unacknowledged.
    Window,
    /// Threads or processes that compute.
    Workers,
    /// CPU effort to move fewer bytes: a compression level.
    Effort,
    /// Unknown: tried in both directions when causes suggest nothing else.
    #[default]
    Other,
}

/// Common names of parameters, by kind. A parameter's name matches if one of its words is in the list.
const NAMES: [(Kind, &[&str]); 7] = [
    (Kind::Window, &["window", "tcp-bs", "tcpbs", "sndbuf", "rcvbuf", "socket-buffer", "socketbuffer", "wmem", "rmem"]),
    (Kind::Depth, &["depth", "iodepth", "qd", "queue"]),
    (Kind::Streams, &["streams", "stream", "connections", "conns", "parallel", "parallelism", "p", "x", "split"]),
    (Kind::Requests, &["requests", "concurrency", "cc", "transfers", "inflight", "in-flight", "files", "checkers", "pipeline", "ahead"]),
    (Kind::Block, &["block", "blocksize", "bs", "buffer", "chunk", "size", "request", "obs", "ibs", "rsize", "wsize", "record"]),
    (Kind::Workers, &["threads", "workers", "jobs", "numjobs", "processes", "j"]),
    (Kind::Effort, &["level", "effort", "compression", "compress", "preset", "quality"]),
];

impl Kind {
    /// Every kind, with its name in a recipe and on the command line.
    const ALL: [(Kind, &str); 8] = [
        (Kind::Streams, "streams"),
        (Kind::Requests, "requests"),
        (Kind::Depth, "depth"),
        (Kind::Block, "block"),
        (Kind::Window, "window"),
        (Kind::Workers, "workers"),
        (Kind::Effort, "effort"),
        (Kind::Other, "other"),
    ];

    /// Guesses the kind from a parameter's name; [`Kind::Other`] if unknown.
    pub fn of_name(name: &str) -> Kind {
        let name = name.to_lowercase().replace('_', "-");
        let has = |word: &str| name == word || name.split('-').any(|part| part == word);
        NAMES.iter().find(|(_, words)| words.iter().any(|word| has(word))).map_or(Kind::Other, |(kind, _)| *kind)
    }

    /// Parses a kind's name in a recipe or on the command line.
    pub fn parse(text: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_well_known_parameters_are_of_the_kind_that_people_mean() {
        let kinds = [
            ("streams", Kind::Streams),
            ("p", Kind::Streams),
            ("tcp-bs", Kind::Window),
            ("socket_buffer", Kind::Window),
            ("bs", Kind::Block),
            ("buffer-size", Kind::Block),
            ("multi-thread-streams", Kind::Streams),
            ("transfers", Kind::Requests),
            ("iodepth", Kind::Depth),
            ("threads", Kind::Workers),
            ("level", Kind::Effort),
            ("mode", Kind::Other),
        ];
        for (name, kind) in kinds {
            assert_eq!(Kind::of_name(name), kind, "{name}");
        }
        assert_eq!(Kind::parse("window"), Some(Kind::Window));
        assert_eq!(Kind::parse("speed"), None);
    }
}

//! Knobs: what is turned, and what turning it does to a transfer, as far as a cause needs to know.

use serde::{Deserialize, Serialize};

/// What a knob turns. It decides which causes call for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Connections that share one file's bytes.
    Streams,
    /// Files or requests in flight.
    Requests,
    /// Asynchronous operations in flight on one file or connection.
    Depth,
    /// Bytes of one read, write or message.
    Block,
    /// Bytes that a connection may have unacknowledged.
    Window,
    /// Threads or processes that compute.
    Workers,
    /// How much is computed to move less: a level of compression.
    Effort,
    /// Nothing is known of it: it is tried both ways when causes have nothing left to try.
    #[default]
    Other,
}

/// Names that parameters of well-known programs have, by kind. A name counts where one of its words is in the list.
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
    /// By a parameter's name; [`Kind::Other`] where it says nothing.
    pub fn of_name(name: &str) -> Kind {
        let name = name.to_lowercase().replace('_', "-");
        let has = |word: &str| name == word || name.split('-').any(|part| part == word);
        NAMES.iter().find(|(_, words)| words.iter().any(|word| has(word))).map_or(Kind::Other, |(kind, _)| *kind)
    }

    /// By its name in a recipe or on the command line.
    pub fn parse(text: &str) -> Option<Kind> {
        serde_json::from_value(serde_json::Value::String(text.to_owned())).ok()
    }
}

/// One parameter of what is tuned: a list of values, of which only the places are known here.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// Its name.
    pub name: String,
    /// What it turns.
    pub kind: Kind,
    /// The numbers of its values, where all are numbers, in order; `None` for words.
    pub numbers: Option<Vec<f64>>,
    /// How many values it has.
    pub values: usize,
}

impl Knob {
    /// The place `steps` from this one, as far as the list goes. Words have no order to step over: one at a time.
    pub(super) fn moved(&self, from: usize, steps: isize) -> usize {
        let steps = if self.numbers.is_some() { steps } else { steps.signum() };
        from.saturating_add_signed(steps).min(self.values.saturating_sub(1))
    }

    /// Whether this place is a value of one: a single connection, file or request in flight.
    pub(super) fn is_one(&self, place: usize) -> bool {
        self.numbers.as_ref().and_then(|numbers| numbers.get(place)).is_some_and(|number| (*number - 1.0).abs() < f64::EPSILON)
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

    #[test]
    fn steps_end_where_the_list_does_and_words_go_one_at_a_time() {
        let numbers = Knob { name: "p".into(), kind: Kind::Streams, numbers: Some(vec![1.0, 2.0, 4.0, 8.0]), values: 4 };
        assert_eq!((numbers.moved(1, 4), numbers.moved(1, -4), numbers.moved(1, 1)), (3, 0, 2));
        let words = Knob { numbers: None, ..numbers.clone() };
        assert_eq!((words.moved(0, 4), words.moved(3, -4)), (1, 2));
        assert!(numbers.is_one(0) && !numbers.is_one(1) && !words.is_one(0));
    }
}

//! Servers' unencrypted HTTP answers: how many with which status (the attributes `answered.N`).

use crate::observe::words::word;
use thalweg_trace::Meta;

/// Answers of one server with one status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    /// The status.
    pub status: u16,
    /// Number of answers.
    pub count: u64,
    /// The server's address.
    pub server: String,
}

impl Answered {
    /// Reads the answers that a recording has.
    pub(crate) fn all(meta: &Meta) -> Vec<Answered> {
        let values = meta.attributes.iter().filter(|(name, _)| name.starts_with("answered."));
        values.filter_map(|(_, value)| Answered::of(value)).collect()
    }

    fn of(value: &str) -> Option<Answered> {
        let (status, count) = (word(value, "status")?.parse().ok()?, word(value, "answers")?.parse().ok()?);
        Some(Answered { status, count, server: word(value, "server")?.to_owned() })
    }

    /// Whether the status says that the request failed (RFC 9110, section 15).
    pub(crate) fn is_failure(&self) -> bool {
        self.status >= 400
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_lacks_a_word_says_nothing() {
        let found = Answered::of("status=503 answers=3 server=127.0.0.1:80");
        assert_eq!(found, Some(Answered { status: 503, count: 3, server: "127.0.0.1:80".to_owned() }));
        assert_eq!(Answered::of("status=503 server=127.0.0.1:80"), None);
    }
}

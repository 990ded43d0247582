//! Plaintext HTTP requests and their repetition, by server, path and range (RFC 9110, sections 9.3 and 14.2).
//!
//! A client that repeatedly fetches the same ranges of an object is slow whatever the link's speed, and its
//! connections do not show why. Of each request the method, the target without the query, and the range are stored,
//! and nothing else: headers and queries may contain secrets; queries only distinguish targets. Of each
//! response the status is stored (RFC 9110, section 15): a "not now" explains a client's retries.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum objects remembered, and distinct requests of each.
const MOST_OBJECTS: usize = 4_096;
const MOST_APART: usize = 65_536;

/// Maximum server statuses remembered, and recorded.
const MOST_STATUSES: usize = 1_024;
const RECORDED_STATUSES: usize = 8;

/// Maximum objects recorded, and the minimum requests of one.
const RECORDED: usize = 3;
const LEAST_REQUESTS: u64 = 10;

/// Requests for one object.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    requests: u64,
    apart: HashSet<u64>,
    /// Bytes requested, if every request had a range, and how many of them were requested for the first time.
    bytes: Option<(u64, u64)>,
}

/// All requests.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    /// By method, server and path.
    objects: HashMap<(String, String, String), Asked>,
    /// Number of responses, by server and status.
    statuses: BTreeMap<(String, u16), u64>,
}

/// Parses a response's status: `HTTP/1.1 503 `.
fn status(text: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(text.get(..12)?).ok()?;
    let (version, status) = text.split_once(' ')?;
    version.strip_prefix("HTTP/")?;
    status.parse().ok().filter(|status| (100..600).contains(status))
}

/// Parses a request's method, target, and range.
fn request(text: &[u8]) -> Option<(&str, &str, Option<&str>)> {
    let head = text.split(|byte| *byte == b'\r' || *byte == b'\n').filter(|line| !line.is_empty());
    let mut lines = head.map_while(|line| std::str::from_utf8(line).ok());
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?, first.next().filter(|target| !target.is_empty())?);
    // A truncated target may be a different one.
    first.next()?;
    let range =
        lines.find_map(|line| line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("range")).map(|(_, value)| value.trim()));
    Some((method, target, range))
}

/// Returns the number of bytes in a range: `bytes=0-99`.
fn length(range: &str) -> Option<u64> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

impl Asks {
    fn answered(&mut self, server: &str, text: &[u8]) {
        let Some(status) = status(text) else { return };
        let key = (server.to_owned(), status);
        if self.statuses.len() < MOST_STATUSES || self.statuses.contains_key(&key) {
            *self.statuses.entry(key).or_default() += 1;
        }
    }

    /// Counts a request, or its beginning, sent to `server`.
    pub(super) fn asked(&mut self, server: &str, text: &[u8]) {
        if text.starts_with(b"HTTP/") {
            return self.answered(server, text);
        }
        let Some((method, target, range)) = request(text) else { return };
        let path = target.split(['?', '#']).next().unwrap_or(target);
        let key = (method.to_owned(), server.to_owned(), path.to_owned());
        if self.objects.len() >= MOST_OBJECTS && !self.objects.contains_key(&key) {
            return;
        }
        let asked = self.objects.entry(key).or_insert_with(|| Asked { bytes: Some((0, 0)), ..Asked::default() });
        if asked.apart.len() >= MOST_APART {
            return;
        }
        let mut hasher = DefaultHasher::new();
        (target, range).hash(&mut hasher);
        let is_new = asked.apart.insert(hasher.finish());
        asked.requests += 1;
        let length = range.and_then(length);
        asked.bytes = asked.bytes.zip(length).map(|((all, new), length)| (all + length, new + if is_new { length } else { 0 }));
    }

    /// Returns the most repeated objects as attributes of the recording.
    pub(crate) fn attributes(&self) -> Vec<(String, String)> {
        let again = |asked: &Asked| asked.requests - asked.apart.len() as u64;
        let mut found: Vec<_> = self.objects.iter().filter(|(_, asked)| asked.requests >= LEAST_REQUESTS && again(asked) > 0).collect();
        found.sort_unstable_by_key(|(key, asked)| (std::cmp::Reverse(again(asked)), *key));
        let value = |((method, server, path), asked): &(&(String, String, String), &Asked)| {
            let bytes = asked.bytes.map_or_else(String::new, |(all, new)| format!(" bytes={all} different_bytes={new}"));
            format!("requests={} different={}{bytes} method={method} server={server} path={path}", asked.requests, asked.apart.len())
        };
        let again = found.iter().take(RECORDED).enumerate().map(|(n, found)| (format!("asked.again.{n}"), value(found)));
        let mut statuses: Vec<_> = self.statuses.iter().collect();
        statuses.sort_by_key(|&(key, &answers)| (std::cmp::Reverse(answers), key));
        let value = |((server, status), answers): (&(String, u16), &u64)| format!("status={status} answers={answers} server={server}");
        let answered = statuses.into_iter().take(RECORDED_STATUSES).enumerate().map(|(n, found)| (format!("answered.{n}"), value(found)));
        again.chain(answered).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_again_is_told_apart_by_target_and_range() {
        let mut asks = Asks::default();
        for n in 0..10 {
            let window = n % 2 * 100;
            let text = format!(
                "GET /o?token=secret HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\nrange: bytes={window}-{}\r\n\r\n",
                window + 99
            );
            asks.asked("127.0.0.1:80", text.as_bytes());
            asks.asked("127.0.0.1:80", format!("GET /page/{n} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
            asks.asked("127.0.0.1:80", b"GET /whole HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        asks.asked("127.0.0.1:80", b"GET /cut-off-in-its-mid");
        let found: Vec<String> = asks.attributes().into_iter().map(|(_, value)| value).collect();
        assert_eq!(
            found,
            [
                "requests=10 different=1 method=GET server=127.0.0.1:80 path=/whole",
                "requests=10 different=2 bytes=1000 different_bytes=200 method=GET server=127.0.0.1:80 path=/o",
            ]
        );
    }

    #[test]
    fn answers_are_counted_by_server_and_status() {
        let mut asks = Asks::default();
        for text in ["HTTP/1.1 503 ", "HTTP/1.0 503 ", "HTTP/1.1 200 ", "HTTP/1.1 9x", "HTTP/1.1 999 "] {
            asks.asked("127.0.0.1:80", text.as_bytes());
        }
        let found: Vec<String> = asks.attributes().into_iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(found, ["answered.0 status=503 answers=2 server=127.0.0.1:80", "answered.1 status=200 answers=1 server=127.0.0.1:80"]);
    }
}

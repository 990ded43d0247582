//! What was asked for in clear, and how often the same: HTTP requests by server, path and range (RFC 9110, sections 9.3 and 14.2).
//!
//! A client that fetches the same ranges of an object again and again is slow whatever the link gives, and the connections do not show it. Of each request
//! its method, its target without the query, and its range are taken, and nothing else: headers may have secrets in them, and so may queries, which only
//! distinguish one target from another.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Objects that are remembered, and what is told apart of each.
const MOST_OBJECTS: usize = 4_096;
const MOST_APART: usize = 65_536;

/// Objects that are recorded, and from how many requests on.
const RECORDED: usize = 3;
const LEAST_REQUESTS: u64 = 10;

/// Of one object.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    requests: u64,
    apart: HashSet<u64>,
    /// Bytes that were asked for, where each request said which, and how many of them were not asked for before.
    bytes: Option<(u64, u64)>,
}

/// All that was asked for.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    /// By method, server and path.
    objects: HashMap<(String, String, String), Asked>,
}

/// A request's method, target, and range: its first and last byte.
fn request(text: &[u8]) -> Option<(&str, &str, Option<&str>)> {
    let head = text.split(|byte| *byte == b'\r' || *byte == b'\n').filter(|line| !line.is_empty());
    let mut lines = head.map_while(|line| std::str::from_utf8(line).ok());
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?, first.next().filter(|target| !target.is_empty())?);
    // A target that was cut off may be another.
    first.next()?;
    let range =
        lines.find_map(|line| line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("range")).map(|(_, value)| value.trim()));
    Some((method, target, range))
}

/// How many bytes a range has: `bytes=0-99`.
fn length(range: &str) -> Option<u64> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

impl Asks {
    /// A request, or its beginning, that was sent to `server`.
    pub(super) fn asked(&mut self, server: &str, text: &[u8]) {
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

    /// The objects that were asked for again most, as attributes of the recording.
    pub(crate) fn attributes(&self) -> Vec<(String, String)> {
        let again = |asked: &Asked| asked.requests - asked.apart.len() as u64;
        let mut found: Vec<_> = self.objects.iter().filter(|(_, asked)| asked.requests >= LEAST_REQUESTS && again(asked) > 0).collect();
        found.sort_unstable_by_key(|(key, asked)| (std::cmp::Reverse(again(asked)), *key));
        let value = |((method, server, path), asked): &(&(String, String, String), &Asked)| {
            let bytes = asked.bytes.map_or_else(String::new, |(all, new)| format!(" bytes={all} different_bytes={new}"));
            format!("requests={} different={}{bytes} method={method} server={server} path={path}", asked.requests, asked.apart.len())
        };
        found.iter().take(RECORDED).enumerate().map(|(n, found)| (format!("asked.again.{n}"), value(found))).collect()
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
}

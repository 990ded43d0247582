//! What a request asks for, decided from its method, its Host header and its address alone.
//!
//! The address begins with a key that only the printed address has: a loopback port is open to every user of the machine, and recordings are
//! private to theirs. The Host header must be that of the printed address, so that a page of another site, whose name resolves to this
//! machine (DNS rebinding), reads nothing.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The list of recordings.
    List,
    /// A recording's page, by name.
    Recording(OsString),
    /// The page that compares two recordings, by name.
    Comparison(OsString, OsString),
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Only GET and HEAD are served.
    Method,
    /// The Host header is missing, foreign, or there are several.
    Host,
    /// The address is not the printed one or below it.
    Address,
}

/// The printed address.
pub(super) struct Address {
    /// The port on the loopback interface.
    pub(super) port: u16,
    /// The key, in lowercase hexadecimal digits.
    pub(super) key: String,
}

impl Address {
    /// Returns what a request asks for; `hosts` are its Host headers.
    pub(super) fn wanted<'a>(&self, method: &str, hosts: impl IntoIterator<Item = &'a str>, target: &str) -> Result<Wanted, Refused> {
        if !["GET", "HEAD"].contains(&method) {
            return Err(Refused::Method);
        }
        let mut hosts = hosts.into_iter();
        if !hosts.next().is_some_and(|host| self.is_ours(host)) || hosts.next().is_some() {
            return Err(Refused::Host);
        }
        let path = target.strip_prefix('/').and_then(|path| path.strip_prefix(&*self.key)).and_then(|path| path.strip_prefix('/'));
        path.and_then(wanted).ok_or(Refused::Address)
    }

    fn is_ours(&self, host: &str) -> bool {
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
        ["127.0.0.1", "localhost"].iter().any(|ours| ours.eq_ignore_ascii_case(name)) && port == self.port.to_string()
    }
}

/// Returns what a path below the key asks for.
fn wanted(path: &str) -> Option<Wanted> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    match path {
        "" => Some(Wanted::List),
        "diff" => {
            let of = |wanted: &str| {
                let mut values = query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(name, _)| *name == wanted);
                // A form encodes the name, which is encoded already.
                let once = decoded(&values.next()?.1.replace('+', " "))?;
                name(std::str::from_utf8(&once).ok()?)
            };
            Some(Wanted::Comparison(of("before")?, of("after")?))
        }
        _ => name(path.strip_prefix("recordings/")?).map(Wanted::Recording),
    }
}

/// Returns the name of a directory entry; `None` if the text is not one.
fn name(encoded: &str) -> Option<OsString> {
    let bytes = decoded(encoded)?;
    let is_entry = !bytes.is_empty() && bytes != b"." && bytes != b".." && !bytes.contains(&b'/') && !bytes.contains(&0);
    is_entry.then(|| OsString::from_vec(bytes))
}

/// Decodes `%XX`; `None` if that is malformed.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(match byte {
            b'%' => {
                let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
                rest = &after[2..];
                u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    Some(bytes)
}

/// Encodes a name as one segment of an address.
pub(super) fn encoded(name: &std::ffi::OsStr) -> String {
    let one = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    name.as_bytes().iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(method: &str, host: &str, target: &str) -> Result<Wanted, Refused> {
        Address { port: 4000, key: "k3y".into() }.wanted(method, [host], target)
    }

    fn at(target: &str) -> Result<Wanted, Refused> {
        wanted("GET", "127.0.0.1:4000", target)
    }

    #[test]
    fn the_printed_address_is_the_list_and_recordings_are_below() {
        assert_eq!(at("/k3y/"), Ok(Wanted::List));
        assert_eq!(wanted("HEAD", "localhost:4000", "/k3y/"), Ok(Wanted::List));
        assert_eq!(at("/k3y/recordings/a%20b.thw"), Ok(Wanted::Recording("a b.thw".into())));
        assert_eq!(at("/k3y/diff?before=a.thw&after=b%2520c.thw"), Ok(Wanted::Comparison("a.thw".into(), "b c.thw".into())));
    }

    #[test]
    fn another_host_method_or_key_is_refused() {
        for host in ["evil.example:4000", "127.0.0.1:4001", "127.0.0.1", "localhost.evil.example:4000", "", "127.0.0.1.:4000"] {
            assert_eq!(wanted("GET", host, "/k3y/"), Err(Refused::Host), "{host}");
        }
        let address = Address { port: 4000, key: "k3y".into() };
        assert_eq!(address.wanted("GET", ["localhost:4000"; 2], "/k3y/"), Err(Refused::Host));
        assert_eq!(address.wanted("GET", [], "/k3y/"), Err(Refused::Host));
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "get"] {
            assert_eq!(wanted(method, "localhost:4000", "/k3y/"), Err(Refused::Method), "{method}");
        }
        for target in ["/", "/k3y", "/other/", "//k3y/", "http://evil.example/k3y/", "*", ""] {
            assert_eq!(at(target), Err(Refused::Address), "{target}");
        }
    }

    #[test]
    fn only_names_of_entries_are_accepted() {
        for name in ["", ".", "..", "../x", "..%2fx", "%2Fetc", "a/b", "a%00b", "%", "%4", "%zz", "%+1"] {
            assert_eq!(at(&format!("/k3y/recordings/{name}")), Err(Refused::Address), "{name}");
            assert_eq!(at(&format!("/k3y/diff?before={name}&after=b")), Err(Refused::Address), "{name}");
        }
        assert_eq!(at("/k3y/diff?before=a"), Err(Refused::Address));
    }

    #[test]
    fn every_name_survives_its_encoding() {
        let name = OsString::from_vec((1..=255).filter(|byte| *byte != b'/').collect());
        assert_eq!(at(&format!("/k3y/recordings/{}", encoded(&name))), Ok(Wanted::Recording(name.clone())));
        let query = encoded(encoded(&name).as_ref());
        assert_eq!(at(&format!("/k3y/diff?before={query}&after={query}")), Ok(Wanted::Comparison(name.clone(), name)));
    }
}

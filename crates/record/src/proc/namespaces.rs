//! TCP in the machine's other network namespaces (containers). Socket diagnostics show the own namespace only, but any
//! user may read the connections of any process's namespace in `/proc/PID/net/tcp`: what an end has written that was
//! not acknowledged, its congestion window, and what a listener has not accepted.

use super::diagnostics::LISTEN;
use super::listeners::address;
use super::processes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;

/// Bound: processes of which the network namespace is examined.
const MOST_PROCESSES: usize = 4096;

/// Bound: namespaces of which the connections are read.
const MOST_NAMESPACES: usize = 16;

/// A connection's two addresses: local, peer.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// One end of a connection, or a listener, in another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    state: u8,
    /// Bytes written and not acknowledged.
    pub queued_bytes: u64,
    /// Bytes received and not read; a listener's connections that are not accepted.
    pub unread: u64,
    /// Expirations of the retransmission timer since the last acknowledgement.
    pub timeouts: u32,
    pub cwnd_segments: u32,
    /// Absent until the window has been reduced for the first time.
    pub ssthresh_segments: Option<u32>,
}

/// The namespaces that have an address that was asked for.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    /// Their tables, and their own addresses among those asked for.
    tables: Vec<(Vec<File>, BTreeSet<IpAddr>)>,
    /// Addresses that were searched for.
    sought: BTreeSet<IpAddr>,
    /// Namespaces with an open table.
    opened: BTreeSet<u64>,
    text: String,
}

impl Namespaces {
    /// Returns the other ends of these connections (local, peer), as far as they are on this machine; while a connection
    /// is being established, its listener's.
    pub(super) fn other_ends(&mut self, ours: &BTreeSet<Ends>) -> BTreeMap<Ends, Entry> {
        let peers: BTreeSet<IpAddr> = ours.iter().map(|(_, peer)| peer.ip()).filter(|ip| !ip.is_loopback()).collect();
        let new: BTreeSet<IpAddr> = peers.into_iter().filter(|ip| !self.sought.contains(ip)).collect();
        if !new.is_empty() {
            self.search(&new);
        }
        let mut found = BTreeMap::new();
        let mut listeners: BTreeMap<SocketAddr, Vec<Entry>> = BTreeMap::new();
        for (files, addresses) in &mut self.tables {
            for file in files {
                self.text.clear();
                if file.rewind().and_then(|()| file.read_to_string(&mut self.text)).is_err() {
                    continue;
                }
                for ((local, peer), entry) in self.text.lines().skip(1).filter_map(parse) {
                    if entry.state == LISTEN {
                        let any = local.ip().is_unspecified();
                        let at = addresses.iter().filter(|ip| any || local.ip() == **ip);
                        at.for_each(|ip| listeners.entry(SocketAddr::new(*ip, local.port())).or_default().push(entry));
                    } else if ours.contains(&(peer, local)) {
                        found.insert((peer, local), entry);
                    }
                }
            }
        }
        for ends in ours {
            if let Some([listener]) = listeners.get(&ends.1).map(Vec::as_slice) {
                found.entry(*ends).or_insert(*listener);
            }
        }
        found
    }

    /// Opens the tables of the namespaces that have these addresses.
    fn search(&mut self, addresses: &BTreeSet<IpAddr>) {
        self.sought.extend(addresses);
        let Some(own) = namespace("self") else { return };
        let mut seen = BTreeSet::from([own]);
        for pid in processes::numbers_in("/proc").into_iter().take(MOST_PROCESSES) {
            let pid = pid.to_string();
            let Some(number) = namespace(&pid).filter(|number| seen.insert(*number)) else { continue };
            if self.opened.contains(&number) || self.tables.len() >= MOST_NAMESPACES {
                continue;
            }
            let has = of_namespace(&pid);
            let theirs: BTreeSet<IpAddr> = addresses.intersection(&has).copied().collect();
            if !theirs.is_empty() {
                let files = ["tcp", "tcp6"].iter().filter_map(|name| File::open(format!("/proc/{pid}/net/{name}")).ok());
                self.tables.push((files.collect(), theirs));
                self.opened.insert(number);
            }
        }
    }
}

impl Entry {
    /// Whether this is a listener.
    pub(super) fn listens(&self) -> bool {
        self.state == LISTEN
    }
}

/// Returns a number of a process's network namespace: that of a file which each namespace has of its own. (Which
/// namespace it is may be asked for one's own processes only.)
fn namespace(pid: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{pid}/net/tcp")).ok().map(|file| file.ino())
}

/// Returns the addresses of a process's network namespace.
fn of_namespace(pid: &str) -> BTreeSet<IpAddr> {
    let text = |name: &str| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let (routes, interfaces) = (text("fib_trie"), text("if_inet6"));
    let mut last: Option<IpAddr> = None;
    let mut found = BTreeSet::new();
    for line in routes.lines().map(str::trim) {
        match line.strip_prefix("|-- ") {
            Some(address) => last = address.parse().ok(),
            None if line == "/32 host LOCAL" => found.extend(last),
            None => {}
        }
    }
    let six = interfaces.lines().filter_map(|line| u128::from_str_radix(line.split_whitespace().next()?, 16).ok());
    found.extend(six.map(|bits| IpAddr::from(bits.to_be_bytes())));
    found
}

/// Parses one line: local and peer address, and what TCP says of this end.
fn parse(line: &str) -> Option<(Ends, Entry)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let plain = |at: usize| address(fields.get(at)?).map(super::diagnostics::plain);
    let (queued, unread) = fields.get(4)?.split_once(':')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let entry = Entry {
        state: u8::from_str_radix(fields.get(3)?, 16).ok()?,
        queued_bytes: hex(queued)?,
        unread: hex(unread)?,
        timeouts: u32::from_str_radix(fields.get(6)?, 16).ok()?,
        cwnd_segments: fields.get(15).and_then(|cwnd| cwnd.parse().ok()).unwrap_or(0),
        // Before that it is -1.
        ssthresh_segments: fields.get(16).and_then(|ssthresh| ssthresh.parse().ok()),
    };
    Some(((plain(1)?, plain(2)?), entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_end_has_not_delivered_is_read_from_its_line() {
        let line = "   1: 0100007F:176F 0100007F:9540 01 0039B600:00000007 04:00000020 00000002     0        1 12235408 2 0 20 0 0 15 -1";
        let (ends, entry) = parse(line).expect("parsed");
        assert_eq!(ends, ("127.0.0.1:5999".parse().expect("an address"), "127.0.0.1:38208".parse().expect("an address")));
        assert_eq!((entry.queued_bytes, entry.unread, entry.timeouts, entry.cwnd_segments), (0x39_b600, 7, 2, 15));
        assert_eq!(entry.ssthresh_segments, None);
        // One that waits for stray segments has no more than its addresses.
        let line = "   3: 0100007F:176F 0100007F:9542 06 00000000:00000000 03:000017 00000000     0        0 0 3 0";
        assert_eq!(parse(line).map(|(_, entry)| entry.cwnd_segments), Some(0));
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn this_namespace_has_its_own_addresses_and_is_not_searched() {
        let own = std::process::id().to_string();
        assert!(of_namespace(&own).contains(&IpAddr::from([127, 0, 0, 1])));
        assert_eq!(namespace(&own), namespace("self"));
        let mut namespaces = Namespaces::default();
        let ends = ("192.0.2.1:7".parse().expect("an address"), "192.0.2.2:8".parse().expect("an address"));
        assert_eq!(namespaces.other_ends(&BTreeSet::from([ends])), BTreeMap::new());
        assert!(namespaces.sought.contains(&ends.1.ip()) && namespaces.tables.is_empty());
    }

    #[test]
    fn a_process_in_a_network_of_its_own_has_another_number() {
        let program = std::process::Command::new("unshare").args(["-rn", "sleep", "60"]).spawn();
        let Ok(mut other) = program else { return println!("SKIPPED: there is no unshare") };
        let pid = other.id().to_string();
        let differs = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            namespace(&pid).is_some_and(|number| Some(number) != namespace("self"))
        });
        let refused = matches!(other.try_wait(), Ok(Some(_)));
        let _ = other.kill();
        other.wait().expect("it ends");
        if refused {
            return println!("SKIPPED: this user may not make network namespaces");
        }
        assert!(differs);
    }
}

//! Connections that have not greeted yet.
//!
//! Anyone who reaches the port can open connections and send nothing, or half a greeting. Their number is limited, and each lasts
//! [`limits::HELLO`] at most; when the limit is reached, the next one replaces a silent one: the oldest of the address with most
//! of them, provided it is older than [`limits::HELLO_GRACE`]. A client that speaks as soon as it is connected therefore always
//! gets its turn. A connection whose greeting has arrived and is only waiting to be read is not replaced; one that has proven a
//! credential is not for [`limits::PROVEN_GRACE`]: when thousands connect simultaneously, their machines are busy.

use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::transport::socket;
use crate::trust::{CredentialId, Identity, Rights};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};

/// Polling interval of the acceptor while there is no room.
const LOOK: Duration = Duration::from_millis(10);

/// New connections of one server, in order of arrival.
#[derive(Default)]
pub(super) struct Newcomers {
    waiting: Mutex<BTreeMap<u64, Newcomer>>,
    /// Signalled when one leaves.
    left: Condvar,
}

struct Newcomer {
    stream: Arc<TcpStream>,
    from: IpAddr,
    since: Instant,
    proven: bool,
}

/// A new connection that may be replaced.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    number: u64,
    from: IpAddr,
    age: Duration,
    proven: bool,
}

impl Newcomers {
    /// Adds a connection, making room for it. `false`: the server is stopping, or there was no room for [`limits::HELLO`].
    pub(super) fn enter(&self, number: u64, stream: &Arc<TcpStream>, from: IpAddr, most: usize, stopping: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        let mut waiting = self.waiting.lock();
        while waiting.len() >= most {
            if stopping() || begun.elapsed() > limits::HELLO {
                return false;
            }
            if !dismiss(&mut waiting, limits::HELLO_GRACE) {
                self.left.wait_for(&mut waiting, LOOK);
            }
        }
        waiting.insert(number, Newcomer { stream: Arc::clone(stream), from: origin(from), since: Instant::now(), proven: false });
        true
    }

    /// Notes that a connection has proven a credential.
    pub(super) fn proven(&self, number: u64) {
        if let Some(newcomer) = self.waiting.lock().get_mut(&number) {
            newcomer.proven = true;
        }
    }

    /// Removes a connection that has greeted or closed. `false`: it had been dismissed.
    pub(super) fn leave(&self, number: u64) -> bool {
        let was_there = self.waiting.lock().remove(&number).is_some();
        self.left.notify_all();
        was_there
    }

    /// Dismisses one connection when descriptors are exhausted, and waits briefly for its descriptor.
    pub(super) fn make_room(&self) {
        let mut waiting = self.waiting.lock();
        dismiss(&mut waiting, Duration::ZERO);
        self.left.wait_for(&mut waiting, LOOK * 10);
    }
}

/// Closes one silent connection; returns whether there was one.
fn dismiss(waiting: &mut BTreeMap<u64, Newcomer>, grace: Duration) -> bool {
    // They are in order of arrival: if the first is within its grace, all are. This avoids a scan per connection when many
    // clients arrive together.
    if waiting.first_key_value().is_none_or(|(_, oldest)| oldest.since.elapsed() < grace) {
        return false;
    }
    let candidates = |(number, n): (&u64, &Newcomer)| Candidate { number: *number, from: n.from, age: n.since.elapsed(), proven: n.proven };
    let candidates: Vec<Candidate> = waiting.iter().map(candidates).collect();
    let silent = |number: &u64| waiting.get(number).is_some_and(|n| !socket::is_readable(&n.stream));
    let goes = in_order(&candidates, grace).into_iter().find(silent);
    let Some(gone) = goes.and_then(|number| waiting.remove(&number)) else { return false };
    // Its thread sees the end and exits. An error means that the peer has already closed it.
    let _ = gone.stream.shutdown(Shutdown::Both);
    true
}

/// Returns the connections that may be dismissed, in order of dismissal.
fn in_order(candidates: &[Candidate], grace: Duration) -> Vec<u64> {
    let mut many: HashMap<IpAddr, usize> = HashMap::new();
    for one in candidates {
        *many.entry(one.from).or_default() += 1;
    }
    let mut old: Vec<&Candidate> =
        candidates.iter().filter(|one| one.age >= if one.proven { limits::PROVEN_GRACE } else { grace }).collect();
    old.sort_by_key(|one| (std::cmp::Reverse(many[&one.from]), one.number));
    old.into_iter().map(|one| one.number).collect()
}

/// Returns the network that counts as one address: this machine, an IPv4 address, or the 64-bit IPv6 network that one host
/// controls.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if address.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

/// Counts of established client connections. An owner's credential counts as one client, wherever it is used and whatever name it
/// gives, so that no owner can take every place. Users of the store's own credential trust each other: there a client is an
/// address and the name it gives, which keeps a runaway process from taking every place.
#[derive(Default)]
pub struct Clients {
    state: Mutex<Admitted>,
}

#[derive(Default)]
struct Admitted {
    all: usize,
    of: HashMap<Client, usize>,
}

/// The unit that shares a connection limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// An owner's credential, with the owner's name.
    Owner(CredentialId, String),
    /// With the store's own credential: the address, and the name the client gives (command and process).
    Own(IpAddr, String),
}

impl Client {
    pub(crate) fn of(who: &Identity, from: IpAddr, says: &str) -> Client {
        match who.rights {
            Rights::Store => Client::Own(from, says.to_owned()),
            Rights::Read | Rights::Write => Client::Owner(who.id, who.owner.clone()),
        }
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Client::Owner(_, name) => write!(f, "the credential of `{name}`"),
            Client::Own(_, says) => f.write_str(says),
        }
    }
}

impl Clients {
    /// Adds a connection, of `most` in all; one client may have at most three quarters of them.
    ///
    /// # Errors
    /// [`ErrorKind::TooMany`].
    pub fn enter(&self, client: &Client, most: usize) -> Result<()> {
        let mut state = self.state.lock();
        let too_many = |problem: String| Err(Error::new(ErrorKind::TooMany, problem));
        if state.all >= most {
            return too_many(format!("{most} connections are open here already: wait until some are closed, or start more servers"));
        }
        let of_one = most - most / 4;
        if state.of.get(client).is_some_and(|many| *many >= of_one) {
            return too_many(format!("{client} has {of_one} connections here already; the rest are reserved for other clients"));
        }
        state.all += 1;
        *state.of.entry(client.clone()).or_default() += 1;
        Ok(())
    }

    /// Removes a connection.
    pub(crate) fn leave(&self, client: &Client) {
        let mut state = self.state.lock();
        state.all -= 1;
        let left = state.of.get_mut(client).map_or(0, |many| {
            *many -= 1;
            *many
        });
        if left == 0 {
            state.of.remove(client);
        }
    }

    /// Returns the number of connections.
    pub fn all(&self) -> usize {
        self.state.lock().all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_oldest_of_the_address_with_the_most_goes_first_and_nobody_before_the_grace() {
        let candidates =
            |number, from: &str, age_ms| Candidate { number, from: address(from), age: Duration::from_millis(age_ms), proven: false };
        let all = [
            candidates(1, "10.0.0.9", 900),
            candidates(2, "10.0.0.1", 800),
            candidates(3, "10.0.0.1", 700),
            candidates(4, "10.0.0.1", 600),
            candidates(5, "10.0.0.2", 10),
        ];
        assert_eq!(in_order(&all, Duration::from_millis(100)), [2, 3, 4, 1]);
        assert!(in_order(&all, Duration::from_secs(1)).is_empty());
    }

    #[test]
    fn one_that_has_proven_a_credential_keeps_its_place_for_longer() {
        let proven = |age| Candidate { number: 1, from: address("10.0.0.1"), age, proven: true };
        assert!(in_order(&[proven(limits::PROVEN_GRACE / 2)], Duration::ZERO).is_empty());
        assert_eq!(in_order(&[proven(limits::PROVEN_GRACE)], limits::HELLO_GRACE), [1]);
    }

    #[test]
    fn all_addresses_of_one_machine_are_one() {
        assert_eq!(origin(address("127.0.0.1")), origin(address("127.9.8.7")));
        assert_eq!(origin(address("::1")), origin(address("127.0.0.1")));
        assert_eq!(origin(address("::ffff:10.0.0.1")), origin(address("10.0.0.1")));
        assert_eq!(origin(address("fd00:1:2:3::1")), origin(address("fd00:1:2:3:ffff::2")));
        assert_ne!(origin(address("10.0.0.1")), origin(address("10.0.0.2")));
    }

    #[test]
    fn a_client_takes_no_more_than_three_quarters_of_the_connections_and_gives_back_what_it_had() {
        let clients = Clients::default();
        let own = |says: &str| Client::of(&Identity::store(), address("10.0.0.1"), says);
        let (one, other) = (own("cp 7"), own("cp 8"));
        (0..6).for_each(|_| clients.enter(&one, 8).unwrap());
        assert_eq!(clients.enter(&one, 8).unwrap_err().kind(), ErrorKind::TooMany);
        (0..2).for_each(|_| clients.enter(&other, 8).unwrap());
        assert_eq!(clients.enter(&other, 8).unwrap_err().kind(), ErrorKind::TooMany, "all are taken");
        clients.leave(&one);
        clients.enter(&other, 8).unwrap();
        assert_eq!(clients.all(), 8);
    }

    #[test]
    fn users_of_one_owners_credential_are_one_client_whatever_they_say() {
        let ana =
            Identity { id: CredentialId([1; 16]), owner: "ana".into(), rights: Rights::Write, until_s: None, lots: Default::default() };
        let [one, other] = [("10.0.0.1", "cp 7"), ("10.0.0.2", "cp 8")].map(|(from, says)| Client::of(&ana, address(from), says));
        let clients = Clients::default();
        (0..3).for_each(|_| clients.enter(&one, 8).unwrap());
        (0..3).for_each(|_| clients.enter(&other, 8).unwrap());
        let error = clients.enter(&other, 8).unwrap_err();
        assert!(error.message().contains("credential of `ana` has 6"), "{error}");
    }
}

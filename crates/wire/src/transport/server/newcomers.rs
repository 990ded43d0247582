//! Connections that have not said hello yet.
//!
//! Anybody who reaches the port can open connections and say nothing, or half a hello. There are only so many of them, each for
//! [`limits::HELLO`] at most, and when there is no room the next one takes the place of one that is silent: the oldest of the address
//! that has most of them, which may stay for [`limits::HELLO_GRACE`]. So a client that speaks as soon as it is connected always gets
//! its turn. One whose hello has arrived, and waits only for us to read it, keeps its place; one that has proven a credential, and is to say
//! hello yet, keeps it for [`limits::PROVEN_GRACE`]: where thousands connect at once, theirs is a busy machine.

use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::transport::socket;
use crate::trust::{CredentialId, Identity, Rights};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};

/// How often the acceptor looks whether there is room, while there is none.
const LOOK: Duration = Duration::from_millis(10);

/// Those of one server, in the order in which they came.
#[derive(Default)]
pub(super) struct Newcomers {
    waiting: Mutex<BTreeMap<u64, Newcomer>>,
    /// One has gone.
    left: Condvar,
}

struct Newcomer {
    stream: Arc<TcpStream>,
    from: IpAddr,
    since: Instant,
    proven: bool,
}

/// One of them, as it is judged.
#[derive(Clone, Copy, Debug)]
struct Seen {
    number: u64,
    from: IpAddr,
    age: Duration,
    proven: bool,
}

impl Newcomers {
    /// Takes one in, and makes room for it. `false`: the server stops, or there is no room for as long as anybody may stay.
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

    /// It has proven a credential.
    pub(super) fn proven(&self, number: u64) {
        if let Some(newcomer) = self.waiting.lock().get_mut(&number) {
            newcomer.proven = true;
        }
    }

    /// It has said hello, or has gone. `false`: it had been dismissed.
    pub(super) fn leave(&self, number: u64) -> bool {
        let was_there = self.waiting.lock().remove(&number).is_some();
        self.left.notify_all();
        was_there
    }

    /// Descriptors are used up: one goes, and with it a descriptor comes free. Waits for that for a moment.
    pub(super) fn make_room(&self) {
        let mut waiting = self.waiting.lock();
        dismiss(&mut waiting, Duration::ZERO);
        self.left.wait_for(&mut waiting, LOOK * 10);
    }
}

/// Closes the connection of one that is silent; whether there was any.
fn dismiss(waiting: &mut BTreeMap<u64, Newcomer>, grace: Duration) -> bool {
    // (They came in this order: where the first is within its grace, all are. Clients that all come at once are not looked through for each of them.)
    if waiting.first_key_value().is_none_or(|(_, oldest)| oldest.since.elapsed() < grace) {
        return false;
    }
    let seen = |(number, n): (&u64, &Newcomer)| Seen { number: *number, from: n.from, age: n.since.elapsed(), proven: n.proven };
    let seen: Vec<Seen> = waiting.iter().map(seen).collect();
    let silent = |number: &u64| waiting.get(number).is_some_and(|n| !socket::is_readable(&n.stream));
    let goes = in_order(&seen, grace).into_iter().find(silent);
    let Some(gone) = goes.and_then(|number| waiting.remove(&number)) else { return false };
    // Its thread sees the end, and ends. An error means that the peer has closed it already.
    let _ = gone.stream.shutdown(Shutdown::Both);
    true
}

/// Who may be dismissed, the first first.
fn in_order(seen: &[Seen], grace: Duration) -> Vec<u64> {
    let mut many: HashMap<IpAddr, usize> = HashMap::new();
    for one in seen {
        *many.entry(one.from).or_default() += 1;
    }
    let mut old: Vec<&Seen> = seen.iter().filter(|one| one.age >= if one.proven { limits::PROVEN_GRACE } else { grace }).collect();
    old.sort_by_key(|one| (std::cmp::Reverse(many[&one.from]), one.number));
    old.into_iter().map(|one| one.number).collect()
}

/// What counts as one address: all of this machine, and all that one host can give itself (an IPv6 network of 64 bits).
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if address.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

/// Clients that have said hello. An owner's credential is one client, whatever it says and wherever it is used: nobody takes every place from
/// the others. Users of the store's own credential trust each other: there a client is an address and what it says it is, which keeps one
/// that runs wild from taking every place.
#[derive(Default)]
pub struct Clients {
    state: Mutex<Admitted>,
}

#[derive(Default)]
struct Admitted {
    all: usize,
    of: HashMap<Client, usize>,
}

/// Who shares a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// Users of an owner's credential, and the owner's name.
    Owner(CredentialId, String),
    /// Of the store's own: an address, and what it says it is (command and process).
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
    /// One connection more, of `most` in all; a client has three quarters of them at most.
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
            return too_many(format!("{client} has {of_one} connections here already, and the others are for other clients"));
        }
        state.all += 1;
        *state.of.entry(client.clone()).or_default() += 1;
        Ok(())
    }

    /// One fewer.
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

    /// How many connections there are.
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
        let seen = |number, from: &str, age_ms| Seen { number, from: address(from), age: Duration::from_millis(age_ms), proven: false };
        let all = [
            seen(1, "10.0.0.9", 900),
            seen(2, "10.0.0.1", 800),
            seen(3, "10.0.0.1", 700),
            seen(4, "10.0.0.1", 600),
            seen(5, "10.0.0.2", 10),
        ];
        assert_eq!(in_order(&all, Duration::from_millis(100)), [2, 3, 4, 1]);
        assert!(in_order(&all, Duration::from_secs(1)).is_empty());
    }

    #[test]
    fn one_that_has_proven_a_credential_keeps_its_place_for_longer() {
        let proven = |age| Seen { number: 1, from: address("10.0.0.1"), age, proven: true };
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

//! Addresses of servers: of a recorded one, if the command does not contain it, and of an unrecorded one.

use super::of::Of;
use crate::cause::End;
use crate::observe::tables::Actor;
use crate::peer::{peer, port_of};
use std::collections::BTreeSet;

/// The address at which a thread's program answered the command's connections; `None` if it is no server, answered at several, or the
/// command contains the port.
pub(super) fn address<'a>(of: &'a Of<'_>, actor: u32) -> Option<&'a str> {
    let tables = of.parts.tables;
    let program = |actor: &Actor| (actor.machine, actor.program().to_owned());
    let server = tables.actors.get(actor as usize).filter(|actor| actor.end == End::Server && !actor.mount).map(program)?;
    let exchanges = &of.parts.seen.exchanges;
    let serves = |connection: &&u32| exchanges.server(**connection).is_some_and(|track| program(&tables.actors[track as usize]) == server);
    let addresses: BTreeSet<&str> = exchanges.of.keys().filter(serves).filter_map(|connection| Some(tables.ends(*connection)?.1)).collect();
    let address = addresses.first().copied().filter(|_| addresses.len() == 1)?;
    let port = port_of(address)?.to_string();
    (!of.meta.command.iter().any(|word| has_number(word, &port))).then_some(address)
}

/// The address of the one unrecorded server, or else of the only server; `the far end` if there are several.
pub(super) fn unrecorded(of: &Of<'_>) -> String {
    let (tables, exchanges) = (of.parts.tables, &of.parts.seen.exchanges);
    let address = |connection: u32| tables.ends(connection).map(|(_, server)| server);
    let asked = |is_meant: &dyn Fn(u32) -> bool| -> BTreeSet<&str> {
        exchanges.of.keys().copied().filter(|connection| is_meant(*connection)).filter_map(address).collect()
    };
    let mut addresses = asked(&|connection| exchanges.server(connection).is_none());
    if let (true, Some((End::Client, connection))) = (addresses.is_empty(), of.unrecorded) {
        addresses.extend(address(connection));
    }
    if addresses.is_empty() {
        addresses = asked(&|_| true);
    }
    let one = addresses.first().filter(|_| addresses.len() == 1);
    one.map_or_else(|| "the far end".to_owned(), |address| peer(address))
}

/// Whether a word contains a number that is not part of a longer number.
fn has_number(word: &str, number: &str) -> bool {
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    word.match_indices(number)
        .any(|(at, _)| !is_digit(word[..at].chars().next_back()) && !is_digit(word[at + number.len()..].chars().next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_found_in_a_word_where_it_is_a_number_of_its_own() {
        assert!(["http://10.0.0.2:80/f", "80", "-p80", "h:80"].into_iter().all(|word| has_number(word, "80")));
        assert!(!["http://10.0.0.2:8080/f", "180", "f"].into_iter().any(|word| has_number(word, "80")));
    }
}

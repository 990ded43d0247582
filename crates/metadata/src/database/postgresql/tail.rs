//! The tail of the log: returned changes that are not in the tables at a service's start.

use super::schema::Owner;
use super::server::{Server, Trouble};
use crate::database::PUT_BACK;
use crate::database::layers::Layer;
use crate::database::log::next_record;
use crate::database::replay::apply;
use postgres::Client;

/// The log after the tables' last change.
#[derive(Debug, Default)]
pub(super) struct Tail {
    pub layer: Layer,
    pub bytes: u64,
}

/// Reads the log after the last change in the tables.
pub(super) fn read(server: &Server, client: &mut Client, owner: &Owner) -> Result<Tail, Trouble> {
    check(server, client, owner.epoch)?;
    let applied = owner.change;
    let sql = "SELECT number, records FROM thalweg.log WHERE number > $1 ORDER BY number";
    let rows = client.query(sql, &[&applied]).map_err(|e| server.trouble(&e))?;
    let damaged = |what| damaged(server, what);
    let (mut tail, mut expected) = (Tail::default(), applied + 1);
    for row in &rows {
        let (number, mut records): (i64, &[u8]) = (row.get(0), row.get(1));
        if number != expected {
            return Err(damaged(format!("change {expected} is missing, but change {number} exists")));
        }
        tail.bytes += records.len() as u64;
        while !records.is_empty() {
            let record = next_record(records).filter(|(of, _, _)| i64::try_from(*of) == Ok(number));
            let Some((_, payload, rest)) = record else {
                return Err(damaged(format!("change {number} cannot be read")));
            };
            apply(server.shown(), payload, &mut tail.layer).map_err(Trouble::Refused)?;
            records = rest;
        }
        expected += 1;
    }
    Ok(tail)
}

fn damaged(server: &Server, what: String) -> Trouble {
    Trouble::Refused(server.error(format!("its table `log` is damaged: {what}: {PUT_BACK}")))
}

/// Checks the permanent part of the log: one change without records per epoch, which began it. If the newest is missing, so may be all
/// later changes, which the numbers alone would not show; a second one in an epoch is a change that has lost its records.
fn check(server: &Server, client: &mut Client, epoch: i64) -> Result<(), Trouble> {
    let sql = "SELECT count(*) FILTER (WHERE epoch = $1) > 0, \
        (SELECT max(number) FROM thalweg.log WHERE octet_length(records) = 0 GROUP BY epoch HAVING count(*) > 1 LIMIT 1) \
        FROM thalweg.log WHERE octet_length(records) = 0";
    let row = client.query_one(sql, &[&epoch]).map_err(|e| server.trouble(&e))?;
    let (has_newest, emptied): (bool, Option<i64>) = (row.get(0), row.get(1));
    match emptied {
        Some(number) => Err(damaged(server, format!("change {number} has no records"))),
        None if epoch > 0 && !has_newest => Err(damaged(server, format!("the change that began epoch {epoch} is missing"))),
        None => Ok(()),
    }
}

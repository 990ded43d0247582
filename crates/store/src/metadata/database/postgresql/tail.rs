//! The end of the log: what a service finds at its start that was returned, and is not in the tables yet.

use super::server::{Server, Trouble};
use crate::metadata::database::layers::Layer;
use crate::metadata::database::log::next_record;
use crate::metadata::database::replay::apply;
use postgres::Client;

/// What the log has over the tables.
#[derive(Debug, Default)]
pub(super) struct Tail {
    pub layer: Layer,
    pub bytes: u64,
}

/// Reads the log after change `applied`.
pub(super) fn read(server: &Server, client: &mut Client, applied: i64) -> Result<Tail, Trouble> {
    let sql = "SELECT number, records FROM thalweg.log WHERE number > $1 ORDER BY number";
    let rows = client.query(sql, &[&applied]).map_err(|e| server.trouble(&e))?;
    let damaged =
        |what: String| Trouble::Refused(server.error(format!("its table `log` is damaged: {what}: put back a copy of the whole database")));
    let (mut tail, mut expected) = (Tail::default(), applied + 1);
    for row in &rows {
        let (number, mut records): (i64, &[u8]) = (row.get(0), row.get(1));
        if number != expected {
            return Err(damaged(format!("change {expected} is missing, and change {number} is there")));
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

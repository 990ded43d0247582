//! A standby: waits until the active service stops or fails.

use super::lease::STALE;
use super::schema::{holders, no_lease, owner};
use super::server::{Server, Trouble};
use crate::database::DatabaseError;
use postgres::Client;
use std::time::{Duration, Instant};

/// Polling interval for the active service.
const POLL: Duration = Duration::from_millis(250);
/// The state of the active service at the last change, and when it was first last_beat.
struct LastBeat {
    epoch: i64,
    beat: i64,
    since: Instant,
    /// The boot of PostgreSQL during which the active service held its lock.
    locked_in: String,
}

/// Waits until the active service of a store stops, or shows no sign of life, or `is_over`. Returns its epoch; `None` if `is_over`.
///
/// A service without its lock has stopped. But after a restart of PostgreSQL the lock is free until the service has reconnected: it has
/// changes that PostgreSQL may have lost, and is given the time of a late beat.
pub fn stand_by(server: &Server, store: u64, is_over: &dyn Fn() -> bool) -> Result<Option<i64>, DatabaseError> {
    let (mut session, mut last_beat) = (None, None);
    while !is_over() {
        match poll(server, store, &mut session, &mut last_beat) {
            Ok(Some(epoch)) => return Ok(Some(epoch)),
            Ok(None) | Err(Trouble::Again) => {}
            Err(Trouble::Refused(error)) => return Err(error),
            // An unreachable PostgreSQL shows nothing about the active service: the time counts from its return.
            Err(Trouble::Lost(_) | Trouble::ReadOnly | Trouble::Fenced) => {
                session = None;
                if let Some(LastBeat { since, .. }) = &mut last_beat {
                    *since = Instant::now();
                }
            }
        }
        std::thread::sleep(POLL);
    }
    Ok(None)
}

fn poll(server: &Server, store: u64, session: &mut Option<Client>, last_beat: &mut Option<LastBeat>) -> Result<Option<i64>, Trouble> {
    let client = match session {
        Some(client) => client,
        None => {
            let mut client = server.connect()?;
            owner(server, &mut client, store)?;
            session.insert(client)
        }
    };
    // The beat and the lock, and the boot of PostgreSQL.
    let is_held = format!("EXISTS (SELECT FROM {})", holders());
    let signs = format!("SELECT epoch, beat, pg_postmaster_start_time()::text, {is_held} FROM thalweg.lease");
    let row = client.query_opt(&signs, &[]).map_err(|e| server.trouble(&e))?.ok_or_else(|| no_lease(server))?;
    let (epoch, beat, started, has_lock): (i64, i64, String, bool) = (row.get(0), row.get(1), row.get(2), row.get(3));
    let last_beat = last_beat.get_or_insert_with(|| LastBeat { epoch, beat, since: Instant::now(), locked_in: started.clone() });
    if (last_beat.epoch, last_beat.beat) != (epoch, beat) {
        (last_beat.epoch, last_beat.beat, last_beat.since) = (epoch, beat, Instant::now());
    }
    if has_lock {
        last_beat.locked_in.clone_from(&started);
    }
    let is_gone = !has_lock && last_beat.locked_in == started;
    Ok((is_gone || last_beat.since.elapsed() >= STALE).then_some(epoch))
}

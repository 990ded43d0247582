//! Standing by: waiting until the active service is gone.

use super::lease::STALE;
use super::schema::{holders, no_lease, owner};
use super::server::{Server, Trouble};
use crate::database::DatabaseError;
use postgres::Client;
use std::time::{Duration, Instant};

/// Between two looks at the active service.
const LOOK: Duration = Duration::from_millis(250);
/// What was seen last, and since when it is the same.
struct Seen {
    epoch: i64,
    beat: i64,
    since: Instant,
    /// The start of PostgreSQL in which the active service had its lock.
    locked_in: String,
}

/// Waits until the active service of a store is gone, or gives no sign of life, or `is_over`. Its epoch; `None`: it is over.
///
/// A service is gone when it has no lock. But when PostgreSQL was started again, the lock is free until the service has come back: it has
/// changes that PostgreSQL may have lost, and is given the time of a late beat.
pub fn stand_by(server: &Server, store: u64, is_over: &dyn Fn() -> bool) -> Result<Option<i64>, DatabaseError> {
    let (mut session, mut seen) = (None, None);
    while !is_over() {
        match look(server, store, &mut session, &mut seen) {
            Ok(Some(epoch)) => return Ok(Some(epoch)),
            Ok(None) | Err(Trouble::Again) => {}
            Err(Trouble::Refused(error)) => return Err(error),
            // A PostgreSQL that is away says nothing about the active service: that counts from when it is back.
            Err(Trouble::Lost(_) | Trouble::ReadOnly | Trouble::Fenced) => {
                session = None;
                if let Some(Seen { since, .. }) = &mut seen {
                    *since = Instant::now();
                }
            }
        }
        std::thread::sleep(LOOK);
    }
    Ok(None)
}

fn look(server: &Server, store: u64, session: &mut Option<Client>, seen: &mut Option<Seen>) -> Result<Option<i64>, Trouble> {
    let client = match session {
        Some(client) => client,
        None => {
            let mut client = server.connect()?;
            owner(server, &mut client, store)?;
            session.insert(client)
        }
    };
    // A beat that grows, and the lock; and which start of PostgreSQL it is.
    let is_held = format!("EXISTS (SELECT FROM {})", holders());
    let signs = format!("SELECT epoch, beat, pg_postmaster_start_time()::text, {is_held} FROM thalweg.lease");
    let row = client.query_opt(&signs, &[]).map_err(|e| server.trouble(&e))?.ok_or_else(|| no_lease(server))?;
    let (epoch, beat, started, has_lock): (i64, i64, String, bool) = (row.get(0), row.get(1), row.get(2), row.get(3));
    let seen = seen.get_or_insert_with(|| Seen { epoch, beat, since: Instant::now(), locked_in: started.clone() });
    if (seen.epoch, seen.beat) != (epoch, beat) {
        (seen.epoch, seen.beat, seen.since) = (epoch, beat, Instant::now());
    }
    if has_lock {
        seen.locked_in.clone_from(&started);
    }
    let is_gone = !has_lock && seen.locked_in == started;
    Ok((is_gone || seen.since.elapsed() >= STALE).then_some(epoch))
}

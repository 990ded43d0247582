//! The connections that the command asked for last, since the last that came about: where it failed, they may be why.

use crate::cause::End;
use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;

/// Those that did not come about, latest first.
#[derive(Debug, Default)]
pub(crate) struct LastConnections {
    failed: Vec<(u32, i32)>,
    /// One came about, after which none of these was asked for.
    is_over: bool,
}

impl LastConnections {
    /// Takes in a connection that was asked for. Recordings are read backward.
    pub(crate) fn note(&mut self, tables: &Tables, span: &LiveSpan) {
        let actor = &tables.actors[span.track as usize];
        if self.is_over || actor.end != End::Client || actor.reached || span.connection == NONE {
            return;
        }
        self.is_over = span.result >= 0 || self.failed.len() >= limits::MOST_REFUSED;
        if !self.is_over {
            self.failed.push((span.connection, span.result));
        }
    }

    /// Who refused the last of them, in words; `None`: nobody did.
    pub(crate) fn refused(&self, tables: &Tables) -> Option<String> {
        let (connection, result) = *self.failed.first()?;
        let (_, server) = tables.ends(connection)?;
        Some(match -result {
            libc_errno::ECONNREFUSED => format!("connection refused by {server}"),
            libc_errno::ETIMEDOUT => format!("no connection to {server}: it did not answer"),
            libc_errno::EHOSTUNREACH => format!("no connection to {server}: no route to it"),
            libc_errno::ENETUNREACH => format!("no connection to {server}: its network is unreachable"),
            libc_errno::ECONNRESET => format!("connection reset by {server}"),
            _ => return None,
        })
    }
}

/// Errors as Linux numbers them, whatever machine explains.
mod libc_errno {
    pub(super) const ENETUNREACH: i32 = 101;
    pub(super) const ECONNRESET: i32 = 104;
    pub(super) const ETIMEDOUT: i32 = 110;
    pub(super) const ECONNREFUSED: i32 = 111;
    pub(super) const EHOSTUNREACH: i32 = 113;
}

//! The command's last connection attempts since its last successful one: they may explain its failure.

use crate::cause::End;
use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use thalweg_trace::linux;

/// Failed attempts, latest first.
#[derive(Debug, Default)]
pub(crate) struct LastConnections {
    failed: Vec<(u32, i32)>,
    /// Whether a successful attempt was seen, before which none counts.
    is_over: bool,
}

impl LastConnections {
    /// Adds a connection attempt. Recordings are read backward.
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

    /// How the last of them failed, in words; `None` if none was refused.
    pub(crate) fn refused(&self, tables: &Tables) -> Option<String> {
        let (connection, result) = *self.failed.first()?;
        let (_, server) = tables.ends(connection)?;
        Some(match -i64::from(result) {
            linux::ECONNREFUSED => format!("connection refused by {server}"),
            linux::ETIMEDOUT => format!("no connection to {server}: it did not answer"),
            linux::EHOSTUNREACH => format!("no connection to {server}: no route to it"),
            linux::ENETUNREACH => format!("no connection to {server}: its network is unreachable"),
            linux::ECONNRESET => format!("connection reset by {server}"),
            _ => return None,
        })
    }
}

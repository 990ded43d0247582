//! Calls that failed immediately, by object: how often, and with which error. They show what a program tried between its pauses.

use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use foldhash::HashMap;
use thalweg_trace::SpanKind;

/// Number of failed calls, by object and −errno.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failed: HashMap<(u32, i32), u64>,
}

/// Attempts with the same error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Their errno.
    pub error: i32,
    /// Number of attempts.
    pub count: u64,
}

impl Attempts {
    /// Adds a span of a thread.
    #[inline]
    pub(crate) fn note(&mut self, span: &LiveSpan) {
        let failed = span.start == span.end && span.result < 0 && span.object != NONE && span.kind != SpanKind::NetReceive;
        let key = (span.object, span.result);
        if failed && (self.failed.len() < limits::MOST_ATTEMPTED || self.failed.contains_key(&key)) {
            *self.failed.entry(key).or_default() += 1;
        }
    }

    /// Of the failed calls on an object, the most with one error.
    pub(crate) fn on(&self, object: u32) -> Option<Failed> {
        let own = self.failed.iter().filter(|((other, _), _)| *other == object);
        let (&(_, result), &count) = own.max_by_key(|&(&(_, result), &count)| (count, result))?;
        Some(Failed { error: -result, count })
    }

    /// Attempts to connect to a connection's server that were refused, or found no route, if this connection's own attempt did.
    pub(crate) fn to_connect(&self, tables: &Tables, connection: u32) -> Option<Failed> {
        let connection_of = |object: u32| tables.objects.get(object as usize).map_or(NONE, |object| object.connection);
        let refused = self.failed.iter().filter(|((_, result), _)| is_refusal(-result));
        let alike: Vec<_> = refused
            .map(|(&(object, result), &count)| (connection_of(object), result, count))
            .filter(|&(other, ..)| other != NONE && tables.is_same_server(connection, other))
            .collect();
        let &(_, own, _) = alike.iter().find(|(other, ..)| *other == connection)?;
        let count = alike.iter().filter(|(_, result, _)| *result == own).map(|(.., count)| count).sum();
        Some(Failed { error: -own, count })
    }
}

/// Whether nothing listened, or there was no route: `ECONNREFUSED`, `EHOSTUNREACH`, `ENETUNREACH`.
fn is_refusal(error: i32) -> bool {
    matches!(error, 111 | 113 | 101)
}

/// The name of an error in the manual.
pub(crate) fn error_name(error: i32) -> String {
    let name = match error {
        1 => "EPERM",
        2 => "ENOENT",
        5 => "EIO",
        6 => "ENXIO",
        11 => "EAGAIN",
        13 => "EACCES",
        16 => "EBUSY",
        17 => "EEXIST",
        20 => "ENOTDIR",
        26 => "ETXTBSY",
        28 => "ENOSPC",
        30 => "EROFS",
        39 => "ENOTEMPTY",
        42 => "ENOMSG",
        98 => "EADDRINUSE",
        101 => "ENETUNREACH",
        104 => "ECONNRESET",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        113 => "EHOSTUNREACH",
        _ => return format!("error {error}"),
    };
    name.to_owned()
}

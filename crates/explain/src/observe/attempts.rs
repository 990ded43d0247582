//! Calls that failed at once, by what they were on: how often, and with which error. They say what a program tried between its pauses.

use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use foldhash::HashMap;
use thalweg_trace::SpanKind;

/// How often calls failed, by their object and −errno.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failed: HashMap<(u32, i32), u64>,
}

/// Attempts that failed alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Their errno.
    pub error: i32,
    /// How many.
    pub count: u64,
}

impl Attempts {
    /// Takes in a span of a thread.
    #[inline]
    pub(crate) fn note(&mut self, span: &LiveSpan) {
        let failed = span.start == span.end && span.result < 0 && span.object != NONE && span.kind != SpanKind::NetReceive;
        let key = (span.object, span.result);
        if failed && (self.failed.len() < limits::MOST_ATTEMPTED || self.failed.contains_key(&key)) {
            *self.failed.entry(key).or_default() += 1;
        }
    }

    /// Of the calls on an object that failed, the most that failed alike.
    pub(crate) fn on(&self, object: u32) -> Option<Failed> {
        let own = self.failed.iter().filter(|((other, _), _)| *other == object);
        let (&(_, result), &count) = own.max_by_key(|&(&(_, result), &count)| (count, result))?;
        Some(Failed { error: -result, count })
    }

    /// Attempts to connect to a connection's server that were refused, or found no way there, if this connection's own was.
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

/// Whether nobody listened, or there was no way there: `ECONNREFUSED`, `EHOSTUNREACH`, `ENETUNREACH`.
fn is_refusal(error: i32) -> bool {
    matches!(error, 111 | 113 | 101)
}

/// What the manual calls an error of a call.
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

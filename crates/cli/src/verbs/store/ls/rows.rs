//! Rows of a listing, and their order.

use super::super::walking::Troubles;
use std::cmp::{Ordering, Reverse};
use thalweg_client::walk::WalkEntry;
use thalweg_wire::protocol::metadata::FileKind;

/// A file's size, if it has one and it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Bytes {
    /// Not a file, or not queried.
    None,
    /// Queried, but a server did not answer.
    Unknown,
    /// The size in bytes.
    Known(u64),
}

/// The fields of an entry that are shown; without the layout, so that a million rows fit in memory.
#[derive(Debug)]
pub(super) struct Row {
    pub name: Box<[u8]>,
    pub kind: FileKind,
    /// Whether the following fields were queried.
    pub has_attributes: bool,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified_ns: i64,
    pub size: Bytes,
    /// The target of a symbolic link.
    pub target: Option<Box<[u8]>>,
}

impl Row {
    /// Converts an entry; adds an unknown size to `troubles`.
    pub(super) fn new(entry: WalkEntry, troubles: &mut Troubles) -> Row {
        let size = match entry.size {
            None => Bytes::None,
            Some(Ok(size)) => Bytes::Known(size.size_bytes),
            Some(Err(error)) => {
                troubles.size(&error);
                Bytes::Unknown
            }
        };
        let attributes = entry.attributes.as_ref();
        Row {
            name: entry.name.into_boxed_slice(),
            kind: entry.kind,
            has_attributes: attributes.is_some(),
            mode: attributes.map_or(0, |a| a.mode),
            uid: attributes.map_or(0, |a| a.uid),
            gid: attributes.map_or(0, |a| a.gid),
            modified_ns: attributes.map_or(0, |a| a.modified_ns),
            size,
            target: entry.attributes.and_then(|a| a.target).map(Vec::into_boxed_slice),
        }
    }
}

/// The order in which a directory's entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As they arrive: in practice by name, but not guaranteed.
    AsTheyCome,
    /// By name, as bytes.
    Name { reverse: bool },
    /// Largest first, then by name; entries without a known size last.
    Size { reverse: bool },
    /// Newest first, then by name.
    Time { reverse: bool },
}

impl Order {
    /// Whether all entries must have arrived before the first is written.
    pub(super) fn needs_all(self) -> bool {
        !matches!(self, Order::AsTheyCome | Order::Name { reverse: false })
    }

    /// Sorts rows that arrived in the order of names.
    pub(super) fn sort(self, rows: &mut [Row]) {
        let in_order = |reverse: bool, ordering: Ordering| if reverse { ordering.reverse() } else { ordering };
        match self {
            Order::AsTheyCome => {}
            Order::Name { reverse } => rows.sort_by(|a, b| in_order(reverse, a.name.cmp(&b.name))),
            Order::Size { reverse } => rows.sort_by(|a, b| in_order(reverse, (Reverse(a.size), &a.name).cmp(&(Reverse(b.size), &b.name)))),
            Order::Time { reverse } => {
                rows.sort_by(|a, b| in_order(reverse, (Reverse(a.modified_ns), &a.name).cmp(&(Reverse(b.modified_ns), &b.name))));
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a row of a file.
    pub(crate) fn row(name: &str, size: Bytes, modified_ns: i64) -> Row {
        let name = name.as_bytes().into();
        Row { name, kind: FileKind::File, has_attributes: true, mode: 0o644, uid: 0, gid: 0, modified_ns, size, target: None }
    }

    #[test]
    fn orders_are_those_of_ls() {
        let sorted = |order: Order| {
            let mut rows =
                vec![row("a", Bytes::Known(5), 1), row("b", Bytes::None, 3), row("c", Bytes::Known(9), 2), row("d", Bytes::Known(5), 3)];
            order.sort(&mut rows);
            rows.iter().map(|row| char::from(row.name[0])).collect::<String>()
        };
        assert_eq!(sorted(Order::Name { reverse: false }), "abcd");
        assert_eq!(sorted(Order::Name { reverse: true }), "dcba");
        assert_eq!(sorted(Order::Size { reverse: false }), "cadb");
        assert_eq!(sorted(Order::Size { reverse: true }), "bdac");
        assert_eq!(sorted(Order::Time { reverse: false }), "bdca");
        assert!(!Order::AsTheyCome.needs_all() && !Order::Name { reverse: false }.needs_all() && Order::Name { reverse: true }.needs_all());
    }
}

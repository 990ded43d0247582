//! State in layers: each layer holds the changes made on top of those below it, and the stack reads as one ordered map. The embedded
//! database keeps what is not yet in its file in layers; the in-memory one consists of nothing else.

use crate::database::{DatabaseError, Table, Transaction, View};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// One table's changes: `None` deletes the key of a lower layer.
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Changes to every table.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    tables: [Changes; Table::ALL.len()],
}

impl Layer {
    /// Records a change.
    pub(super) fn set(&mut self, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.tables[table as usize].insert(key, value);
    }

    /// Drops a recorded change.
    fn forget(&mut self, table: Table, key: &[u8]) {
        self.tables[table as usize].remove(key);
    }

    /// Returns one table's changes.
    pub(super) fn table(&self, table: Table) -> &Changes {
        &self.tables[table as usize]
    }

    /// Returns whether there are no changes.
    pub(super) fn is_empty(&self) -> bool {
        self.tables.iter().all(BTreeMap::is_empty)
    }

    /// Iterates over all changes, by table, then key.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Table, &Vec<u8>, &Option<Vec<u8>>)> {
        Table::ALL.into_iter().flat_map(|t| self.table(t).iter().map(move |(k, v)| (t, k, v)))
    }

    /// Moves these changes onto `below`, leaving this layer empty.
    pub(super) fn settle_onto(&mut self, below: &mut Layer) {
        for (above, below) in self.tables.iter_mut().zip(&mut below.tables) {
            if below.is_empty() {
                std::mem::swap(above, below);
            } else {
                below.extend(std::mem::take(above));
            }
        }
    }
}

/// A cursor over pairs in order of key, from the base; the current pair is valid until the next call.
pub(super) trait Pairs {
    /// Advances to the next pair, initially the first; `None` at the end.
    fn next(&mut self) -> Result<Option<()>, DatabaseError>;
    /// Returns the current pair, if any.
    fn pair(&self) -> Option<(&[u8], &[u8])>;
}

/// The base below all layers.
pub(super) trait Base {
    /// Reads the value at `key`.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError>;
    /// Returns the pairs starting at `from`.
    fn range(&self, table: Table, from: Bound<&[u8]>) -> Result<Box<dyn Pairs + '_>, DatabaseError>;
}

impl<B: Base + ?Sized> Base for Arc<B> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        (**self).get(table, key)
    }

    fn range(&self, table: Table, from: Bound<&[u8]>) -> Result<Box<dyn Pairs + '_>, DatabaseError> {
        (**self).range(table, from)
    }
}

/// Layers, newest first, over a base, none of which changes any more.
pub(super) struct Held<B> {
    pub layers: Vec<Arc<Layer>>,
    pub base: B,
}

impl<B: Base> View for Held<B> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        get(self.layers.iter().map(|layer| &**layer), &self.base, table, key)
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), DatabaseError> {
        scan(self.layers.iter().map(|layer| &**layer), &self.base, table, prefix, after, each)
    }
}

/// Layers over a base, newest first.
pub(super) struct Stack<'a> {
    pub layers: Vec<&'a Layer>,
    pub base: &'a dyn Base,
}

impl View for Stack<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        get(self.layers.iter().copied(), self.base, table, key)
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), DatabaseError> {
        scan(self.layers.iter().copied(), self.base, table, prefix, after, each)
    }
}

/// A transaction's earlier change of a key, if any.
type Before = Option<Option<Vec<u8>>>;

/// A transaction: its own changes over the layers it started from.
pub(super) struct Working<'a> {
    pub own: Layer,
    below: Stack<'a>,
    /// The changes since the last save: the key, and the earlier change if any.
    changed: Option<Vec<(Table, Vec<u8>, Before)>>,
}

impl<'a> Working<'a> {
    /// Creates a transaction without changes.
    pub(super) fn over(below: Stack<'a>) -> Working<'a> {
        Working { own: Layer::default(), below, changed: None }
    }

    fn set(&mut self, table: Table, key: &[u8], value: Option<Vec<u8>>) {
        if let Some(changed) = &mut self.changed {
            changed.push((table, key.to_vec(), self.own.table(table).get(key).cloned()));
        }
        self.own.set(table, key.to_vec(), value);
    }
}

impl View for Working<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        get(std::iter::once(&self.own).chain(self.below.layers.iter().copied()), self.below.base, table, key)
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), DatabaseError> {
        let layers = std::iter::once(&self.own).chain(self.below.layers.iter().copied());
        scan(layers, self.below.base, table, prefix, after, each)
    }
}

impl Transaction for Working<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        self.set(table, key, Some(value));
    }
    fn delete(&mut self, table: Table, key: &[u8]) {
        self.set(table, key, None);
    }
    fn save(&mut self) {
        self.changed.get_or_insert_default().clear();
    }
    fn undo(&mut self) {
        for (table, key, before) in self.changed.get_or_insert_default().drain(..).rev() {
            match before {
                Some(before) => self.own.set(table, key, before),
                None => self.own.forget(table, &key),
            }
        }
    }
}

fn get<'a>(
    mut layers: impl Iterator<Item = &'a Layer>,
    base: &dyn Base,
    table: Table,
    key: &[u8],
) -> Result<Option<Vec<u8>>, DatabaseError> {
    match layers.find_map(|layer| layer.table(table).get(key)) {
        Some(change) => Ok(change.clone()),
        None => base.get(table, key),
    }
}

/// Merges all layers and the base. Of equal keys the newest layer's counts; deleted ones are skipped.
fn scan<'a>(
    layers: impl Iterator<Item = &'a Layer>,
    base: &dyn Base,
    table: Table,
    prefix: &[u8],
    after: Option<&[u8]>,
    each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), DatabaseError> {
    let from = match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    let mut sources: Vec<_> = layers
        .filter(|layer| !layer.table(table).is_empty())
        .map(|layer| layer.table(table).range::<[u8], _>((from, Bound::Unbounded)).peekable())
        .collect();
    let mut bottom = base.range(table, from)?;
    bottom.next()?;
    loop {
        let mut newest: Option<(usize, &[u8])> = None;
        for (i, source) in sources.iter_mut().enumerate() {
            if let Some((key, _)) = source.peek()
                && newest.is_none_or(|(_, least)| key.as_slice() < least)
            {
                newest = Some((i, key));
            }
        }
        let of_base = bottom.pair();
        if let Some((key, value)) = of_base
            && newest.is_none_or(|(_, least)| key < least)
        {
            if !key.starts_with(prefix) || !each(key, value) {
                return Ok(());
            }
            bottom.next()?;
            continue;
        }
        let Some((i, key)) = newest else { return Ok(()) };
        let (_, change) = sources[i].next().expect("it was peeked");
        if !key.starts_with(prefix) {
            return Ok(());
        }
        for older in &mut sources[i + 1..] {
            older.next_if(|(k, _)| k.as_slice() == key);
        }
        if of_base.is_some_and(|(k, _)| k == key) {
            bottom.next()?;
        }
        if let Some(value) = change
            && !each(key, value)
        {
            return Ok(());
        }
    }
}

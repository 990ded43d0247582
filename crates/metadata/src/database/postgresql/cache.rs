//! A cache of the tables in *chunks*, each with all pairs of a range of keys, so that the absence of a key is cached too.
//!
//! One service at a time changes the database, and applies each change here as well, so the cache is never stale, and a service that reuses
//! recent rows sends no requests. A cache of single pairs was rejected: each name looked up before its creation would cost a round trip.
//!
//! Memory is bounded: when the cache exceeds the size given to [`Cache::new`], chunks unused since the last round are evicted.

use crate::database::Table;
use crate::database::layers::{Changes, Layer};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use thalweg_base::sync::RwLock;

/// Bound: pairs of a chunk; a longer one is split.
const MOST_PAIRS: usize = 512;
/// Overhead of a pair: two boxes, and the allocator's.
const PAIR_BYTES: usize = 64;

pub(super) type Pair = (Box<[u8]>, Box<[u8]>);

/// All pairs from the chunk's key to `end`.
#[derive(Debug)]
pub(super) struct Chunk {
    pub pairs: Vec<Pair>,
    /// The first key after its range; `None`: it extends to the end of the table.
    pub end: Option<Vec<u8>>,
    used: AtomicBool,
    /// Fetched by read-ahead, and not used since.
    early: AtomicBool,
}

impl Clone for Chunk {
    fn clone(&self) -> Chunk {
        Chunk::new(self.pairs.clone(), self.end.clone())
    }
}

impl Chunk {
    pub(super) fn new(pairs: Vec<Pair>, end: Option<Vec<u8>>) -> Chunk {
        Chunk { pairs, end, used: AtomicBool::new(true), early: AtomicBool::new(false) }
    }

    /// Marks the chunk as fetched by read-ahead.
    pub(super) fn is_early(&self) {
        self.early.store(true, Ordering::Relaxed);
    }

    /// Returns whether this is its first use since read-ahead fetched it.
    pub(super) fn was_early(&self) -> bool {
        self.early.load(Ordering::Relaxed) && self.early.swap(false, Ordering::Relaxed)
    }

    fn covers(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| key < end)
    }

    fn bytes(&self) -> usize {
        self.pairs.iter().map(bytes_of).sum()
    }

    /// Searches a key; `Err` holds its insertion point.
    pub(super) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.pairs.binary_search_by(|pair| (*pair.0).cmp(key))
    }
}

fn bytes_of(pair: &Pair) -> usize {
    pair.0.len() + pair.1.len() + PAIR_BYTES
}

type Chunks = BTreeMap<Vec<u8>, Arc<Chunk>>;

/// A cache of the tables.
#[derive(Debug)]
pub(super) struct Cache {
    tables: [RwLock<Chunks>; Table::ALL.len()],
    bytes: AtomicUsize,
    most_bytes: usize,
    /// The clock hand: where the last round of [`Cache::shrink`] stopped.
    hand: RwLock<(usize, Option<Vec<u8>>)>,
}

impl Cache {
    /// Creates a cache of about this many bytes.
    pub(super) fn new(most_bytes: usize) -> Cache {
        Cache { tables: std::array::from_fn(|_| RwLock::default()), bytes: AtomicUsize::new(0), most_bytes, hand: RwLock::default() }
    }

    /// Returns the chunk whose range contains `key`.
    pub(super) fn chunk(&self, table: Table, key: &[u8]) -> Option<Arc<Chunk>> {
        let chunks = self.tables[table as usize].read();
        let (_, chunk) = chunks.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        if !chunk.covers(key) {
            return None;
        }
        chunk.used.store(true, Ordering::Relaxed);
        Some(Arc::clone(chunk))
    }

    /// Returns the number of pairs of the chunk that ends at `key`, for a reader that continues from there.
    pub(super) fn pairs_before(&self, table: Table, key: &[u8]) -> Option<usize> {
        let chunks = self.tables[table as usize].read();
        let (_, chunk) = chunks.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key))).next_back()?;
        (chunk.end.as_deref() == Some(key)).then_some(chunk.pairs.len())
    }

    /// Adds all pairs from `from` to `end`, as read from the server. Cached ranges are kept. Returns the chunk that starts at `from`.
    pub(super) fn learn(&self, table: Table, from: &[u8], mut pairs: Vec<Pair>, mut end: Option<Vec<u8>>) -> Arc<Chunk> {
        let mut chunks = self.tables[table as usize].write();
        let before = chunks.range::<[u8], _>((Bound::Unbounded, Bound::Included(from))).next_back();
        if let Some((_, known)) = before.filter(|(_, chunk)| chunk.covers(from)) {
            return Arc::clone(known);
        }
        let next = chunks.range::<[u8], _>((Bound::Excluded(from), Bound::Unbounded)).next();
        if let Some((start, _)) = next.filter(|(start, _)| end.as_ref().is_none_or(|end| *start < end)) {
            pairs.truncate(pairs.partition_point(|pair| *pair.0 < **start));
            end = Some(start.clone());
        }
        let chunk = Arc::new(Chunk::new(pairs, end));
        self.bytes.fetch_add(chunk.bytes() + PAIR_BYTES + from.len(), Ordering::Relaxed);
        chunks.insert(from.to_vec(), Arc::clone(&chunk));
        chunk
    }

    /// Applies changes that the server has made.
    pub(super) fn apply(&self, changes: &Layer) {
        for table in Table::ALL {
            if !changes.table(table).is_empty() {
                self.apply_to(table, changes.table(table));
            }
        }
        self.shrink();
    }

    fn apply_to(&self, table: Table, changes: &Changes) {
        let mut chunks = self.tables[table as usize].write();
        let mut rest = changes.iter().peekable();
        while let Some((key, _)) = rest.peek() {
            let found = chunks.range_mut::<[u8], _>((Bound::Unbounded, Bound::Included(key.as_slice()))).next_back();
            let Some((start, chunk)) = found.filter(|(_, chunk)| chunk.covers(key)) else {
                rest.next();
                continue;
            };
            let known = Arc::make_mut(chunk);
            let (mut more, mut less) = (0, 0);
            while let Some((key, value)) = rest.next_if(|(key, _)| known.covers(key)) {
                let found = known.find(key);
                less += found.map_or(0, |at| bytes_of(&known.pairs[at]));
                match (found, value) {
                    (Ok(at), Some(value)) => known.pairs[at].1 = value.as_slice().into(),
                    (Ok(at), None) => drop(known.pairs.remove(at)),
                    (Err(at), Some(value)) => known.pairs.insert(at, (key.as_slice().into(), value.as_slice().into())),
                    (Err(_), None) => {}
                }
                more += value.as_ref().map_or(0, |value| key.len() + value.len() + PAIR_BYTES);
            }
            if known.pairs.len() > MOST_PAIRS {
                let start = start.clone();
                more += divide(&mut chunks, &start);
            }
            self.bytes.fetch_add(more, Ordering::Relaxed);
            self.bytes.fetch_sub(less, Ordering::Relaxed);
        }
    }

    /// Evicts chunks until the cache is within its size.
    pub(super) fn shrink(&self) {
        if self.bytes.load(Ordering::Relaxed) <= self.most_bytes {
            return;
        }
        let Some(mut hand) = self.hand.try_write() else { return };
        // After two rounds, every chunk present at first is evicted.
        for _ in 0..=2 * Table::ALL.len() {
            let mut chunks = self.tables[hand.0].write();
            while self.bytes.load(Ordering::Relaxed) > self.most_bytes / 8 * 7 {
                let from = hand.1.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let next = chunks.range::<[u8], _>((from, Bound::Unbounded)).next();
                let Some((start, chunk)) = next.map(|(start, chunk)| (start.clone(), Arc::clone(chunk))) else { break };
                if !chunk.used.swap(false, Ordering::Relaxed) {
                    chunks.remove(&start);
                    self.bytes.fetch_sub(chunk.bytes() + PAIR_BYTES + start.len(), Ordering::Relaxed);
                }
                hand.1 = Some(start);
            }
            if self.bytes.load(Ordering::Relaxed) <= self.most_bytes / 8 * 7 {
                return;
            }
            drop(chunks);
            *hand = ((hand.0 + 1) % Table::ALL.len(), None);
        }
    }

    /// Returns the size of the contents in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Splits the chunk that starts at `start` in half; returns the bytes that the split adds.
fn divide(chunks: &mut Chunks, start: &[u8]) -> usize {
    let Some(chunk) = chunks.get_mut(start) else { return 0 };
    let first = Arc::make_mut(chunk);
    let pairs = first.pairs.split_off(first.pairs.len() / 2);
    let middle = pairs[0].0.to_vec();
    let second = Chunk::new(pairs, first.end.replace(middle.clone()));
    let bytes = middle.len() + PAIR_BYTES;
    chunks.insert(middle, Arc::new(second));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Change(Vec<(Vec<u8>, Option<u8>)>),
        /// Reads this many pairs of the server's, starting at a key.
        Learn(Vec<u8>, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = || prop::collection::vec(0_u8..4, 0..4);
        prop_oneof![
            prop::collection::vec((key(), prop::option::of(any::<u8>())), 1..20).prop_map(Step::Change),
            (key(), 1_usize..12).prop_map(|(key, most)| Step::Learn(key, most)),
        ]
    }

    fn play(steps: &[Step], most_bytes: usize) -> Cache {
        let (cache, mut server) = (Cache::new(most_bytes), BTreeMap::<Vec<u8>, Vec<u8>>::new());
        for step in steps {
            match step {
                Step::Change(changes) => {
                    let mut layer = Layer::default();
                    for (key, value) in changes {
                        let value = value.map(|value| vec![value; 3]);
                        layer.set(Table::Entries, key.clone(), value.clone());
                        match value {
                            Some(value) => drop(server.insert(key.clone(), value)),
                            None => drop(server.remove(key)),
                        }
                    }
                    cache.apply(&layer);
                }
                Step::Learn(from, most) => {
                    let found: Vec<Pair> =
                        server.range(from.clone()..).take(*most).map(|(k, v)| (k.as_slice().into(), v.as_slice().into())).collect();
                    let end = (found.len() == *most).then(|| [&*found[*most - 1].0, &[0]].concat());
                    cache.learn(Table::Entries, from, found, end);
                }
            }
            // The cache's answers equal the server's.
            for key in (0..256_u32).map(|n| vec![(n / 64) as u8, (n / 16 % 4) as u8, (n / 4 % 4) as u8][..(n % 4) as usize].to_vec()) {
                if let Some(chunk) = cache.chunk(Table::Entries, &key) {
                    let said = chunk.find(&key).ok().map(|at| chunk.pairs[at].1.to_vec());
                    assert_eq!(said, server.get(&key).cloned(), "{key:?}");
                }
            }
        }
        let held: usize = cache.tables[Table::Entries as usize].read().iter().map(|(k, c)| c.bytes() + k.len() + PAIR_BYTES).sum();
        assert_eq!(cache.bytes(), held);
        cache
    }

    proptest! {
        #[test]
        fn what_is_known_is_what_the_server_has(steps in prop::collection::vec(step(), 1..60)) {
            play(&steps, usize::MAX);
            play(&steps, 600);
        }
    }

    #[test]
    fn a_full_cache_lets_go_of_what_is_not_used() {
        let cache = Cache::new(100_000);
        let name = |i: u32| i.to_be_bytes().to_vec();
        cache.learn(Table::Entries, &[], Vec::new(), None);
        for i in 0..10_000 {
            let mut layer = Layer::default();
            layer.set(Table::Entries, name(i), Some(vec![7; 10]));
            cache.apply(&layer);
            assert!(cache.bytes() <= 140_000, "{} bytes after {i}", cache.bytes());
        }
        assert!(cache.chunk(Table::Entries, &name(5)).is_none());
    }
}

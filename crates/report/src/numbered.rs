//! Maps and sets of numbers of tracks and objects, which are looked up for every span: the standard hasher would take a tenth of a page's
//! time.

/// Values by number.
pub(crate) type Numbered<V> = foldhash::HashMap<u64, V>;
/// Numbers.
pub(crate) type Numbers = foldhash::HashSet<u64>;

//! From writers' views of a file, or from where each of them begins, to parts of a cycle.

use super::{Options, Part, Plan, Refused, from_parts};
use crate::MAX_OFFSET;

/// How far the last part goes on where nothing repeats.
const FOR_EVER: u64 = 1 << 50;

/// A run of bytes within a view's extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Run {
    pub offset: u64,
    pub length: u64,
}

/// What a writer sees of the file: from `displacement` on, tiles of `extent` bytes of which it has the runs, which are in order and
/// apart from each other. No runs: it writes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct View {
    pub displacement: u64,
    pub extent: u64,
    pub runs: Vec<Run>,
}

impl View {
    fn is_dense(&self) -> bool {
        matches!(self.runs[..], [Run { offset: 0, length }] if length == self.extent)
    }
}

/// Adds bytes from anywhere to a cycle that repeats.
fn around(parts: &mut Vec<Part>, start: u64, length: u64, cycle: u64, writer: u32) {
    let start = start % cycle;
    if length >= cycle {
        parts.push(Part { start: 0, end: cycle, writer });
    } else if length > cycle - start {
        parts.push(Part { start, end: cycle, writer });
        parts.push(Part { start: 0, end: length - (cycle - start), writer });
    } else {
        parts.push(Part { start, end: start + length, writer });
    }
}

/// Each writer's part goes on to where the next one begins. The parts and the cycle; `None`: there is none.
fn from_beginnings(mut beginnings: Vec<(u64, u32)>) -> Option<(Vec<Part>, u64)> {
    beginnings.sort_unstable();
    let mut distinct: Vec<u64> = beginnings.iter().map(|b| b.0).collect();
    distinct.dedup();
    let (&first, &last) = (distinct.first()?, distinct.last()?);
    if last > MAX_OFFSET - FOR_EVER {
        return None;
    }
    let distance = distinct.get(1).map_or(0, |second| second - first);
    let equal = distinct.len() > 1 && distinct.windows(2).all(|pair| pair[1] - pair[0] == distance);
    let repeats = equal && distance <= FOR_EVER / distinct.len() as u64;
    let cycle = if repeats { distinct.len() as u64 * distance } else { last + FOR_EVER };
    let mut parts = Vec::new();
    for &(at, writer) in &beginnings {
        if repeats {
            around(&mut parts, at, distance, cycle, writer);
        } else {
            let next = distinct.partition_point(|&other| other <= at);
            let end = distinct.get(next).copied().unwrap_or(cycle);
            parts.push(Part { start: if at == first { 0 } else { at }, end, writer });
        }
    }
    Some((parts, cycle))
}

/// Strips from the writers' views.
///
/// A view without holes says where its writer begins, not where it ends: its part goes on to where the next one begins. Parts that
/// begin at equal distances are a cycle that repeats; otherwise the last goes on for ever. Views with holes and one extent repeat
/// with it; of different extents they count once, with their first tile. Bytes before a displacement belong to whom they would if
/// the cycle had begun at 0.
///
/// # Errors
/// As [`from_parts`]; and views that do not fit in 63 bits.
pub fn from_views(views: &[View], target_of: &[u32], options: &Options) -> Result<Plan, Refused> {
    let refused = |why: &str| Err(Refused(why.to_owned()));
    let writing: Vec<(u32, &View)> = (0..).zip(views).filter(|(_, view)| !view.runs.is_empty()).collect();
    if writing.is_empty() {
        return refused("nobody writes anything");
    }
    let found = if writing.iter().all(|(_, view)| view.is_dense()) {
        from_beginnings(writing.iter().map(|(writer, view)| (view.displacement, *writer)).collect())
    } else {
        from_tiles(&writing)
    };
    match found {
        Some((parts, cycle)) => from_parts(&parts, cycle, target_of, options),
        None => refused("the views do not fit in 63 bits"),
    }
}

fn from_tiles(writing: &[(u32, &View)]) -> Option<(Vec<Part>, u64)> {
    let one_extent = writing.windows(2).all(|pair| pair[0].1.extent == pair[1].1.extent);
    let mut cycle = 0;
    for (_, view) in writing {
        if view.extent > MAX_OFFSET || view.displacement > MAX_OFFSET - view.extent {
            return None;
        }
        let last = view.runs.last()?;
        let tile = if last.offset < view.extent { view.extent } else { last.offset + last.length };
        cycle = cycle.max(if one_extent { view.extent } else { view.displacement + tile });
    }
    let mut parts = Vec::new();
    for &(writer, view) in writing {
        for run in &view.runs {
            let start = view.displacement + run.offset;
            match one_extent {
                true => around(&mut parts, start, run.length, cycle, writer),
                false => parts.push(Part { start, end: if view.is_dense() { cycle } else { start + run.length }, writer }),
            }
        }
    }
    Some((parts, cycle))
}

/// Strips from where each writer begins, and how many bytes it writes (0: it writes nothing).
///
/// # Errors
/// As [`from_parts`]; and offsets that do not fit in 63 bits.
pub fn from_starts(starts: &[(u64, u64)], target_of: &[u32], options: &Options) -> Result<Plan, Refused> {
    let beginnings: Vec<(u64, u32)> = (0..).zip(starts).filter(|(_, s)| s.1 > 0).map(|(writer, s)| (s.0, writer)).collect();
    if beginnings.is_empty() {
        return Err(Refused("nobody writes anything".to_owned()));
    }
    match from_beginnings(beginnings) {
        Some((parts, cycle)) => from_parts(&parts, cycle, target_of, options),
        None => Err(Refused("the offsets do not fit in 63 bits".to_owned())),
    }
}

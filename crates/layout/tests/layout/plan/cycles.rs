//! A model of how the library in `mpi/` derives the parts of a cycle: from writers' views of a file, or from where each writer
//! begins.

use thalweg_layout::MAX_OFFSET;
use thalweg_layout::plan::{Options, Part, Plan, Refused, from_parts};

/// How far the last part extends if nothing repeats.
const FOR_EVER: u64 = 1 << 50;

/// A run of bytes within a view's extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub offset: u64,
    pub length: u64,
}

/// A writer's view of the file: from `displacement` on, tiles of `extent` bytes, each with the runs, which are ordered and
/// disjoint. No runs: the writer writes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub displacement: u64,
    pub extent: u64,
    pub runs: Vec<Run>,
}

impl View {
    fn is_dense(&self) -> bool {
        matches!(self.runs[..], [Run { offset: 0, length }] if length == self.extent)
    }

    /// Returns the range of the first tile's bytes, from the displacement on. `None`: no bytes, or beyond 63 bits.
    fn span(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.runs.first()?, self.runs.last()?);
        let end = last.offset.checked_add(last.length)?;
        let fits = self.extent <= MAX_OFFSET && self.displacement.checked_add(end.max(self.extent))? <= MAX_OFFSET;
        fits.then_some((first.offset, end))
    }
}

/// Adds bytes at any offset to a repeating cycle.
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

/// Extends each writer's part to where the next one begins. Returns the parts and the cycle; `None`: there is no cycle.
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

/// Plans strips from the writers' views.
///
/// A view without holes says where its writer begins, not where it ends: its part extends to where the next one begins. Parts
/// that begin at equal distances are a repeating cycle; otherwise the last one extends indefinitely. Views with holes and one
/// common extent repeat with it, unless tiles of different targets would overlap. If they would, or the extents differ: views
/// whose first tiles are consecutive are treated as regions, as if they had no holes; other views count once, with their first
/// tile. (Repetition is kept if dropping it would leave no more bytes to one target alone.) Bytes before a displacement belong to
/// their owner in a cycle begun at 0.
///
/// # Errors
/// See [`from_parts`]; and views that exceed 63 bits.
pub fn from_views(views: &[View], target_of: &[u32], options: &Options) -> Result<Plan, Refused> {
    let refused = |why: &str| Err(Refused(why.to_owned()));
    let writing: Vec<(u32, &View)> = (0..).zip(views).filter(|(_, view)| !view.runs.is_empty()).collect();
    if writing.is_empty() {
        return refused("nobody writes anything");
    }
    let found = if writing.iter().all(|(_, view)| view.is_dense()) {
        from_beginnings(writing.iter().map(|(writer, view)| (view.displacement, *writer)).collect())
    } else {
        from_tiles(&writing, target_of)
    };
    match found {
        Some((parts, cycle)) => from_parts(&parts, cycle, target_of, options),
        None => refused("the views do not fit in 63 bits"),
    }
}

fn from_tiles(writing: &[(u32, &View)], target_of: &[u32]) -> Option<(Vec<Part>, u64)> {
    if !writing.iter().all(|(_, view)| view.span().is_some()) {
        return None;
    }
    let otherwise = || from_regions(writing).unwrap_or_else(|| once(writing));
    if !writing.windows(2).all(|pair| pair[0].1.extent == pair[1].1.extent) {
        return Some(otherwise());
    }
    let extent = writing.first()?.1.extent;
    let mut repeated = Vec::new();
    for &(writer, view) in writing {
        for run in &view.runs {
            around(&mut repeated, view.displacement + run.offset, run.length, extent, writer);
        }
    }
    let (claimed_around, owned_around) = owned(&repeated, extent, target_of);
    if owned_around == claimed_around {
        return Some((repeated, extent));
    }
    let (parts, cycle) = otherwise();
    let (claimed, owned) = owned(&parts, cycle, target_of);
    let repeats = owned_around as f64 * claimed as f64 >= owned as f64 * claimed_around as f64;
    Some(if repeats { (repeated, extent) } else { (parts, cycle) })
}

/// Returns the regions of views whose first tiles are consecutive. `None`: they are not.
fn from_regions(writing: &[(u32, &View)]) -> Option<(Vec<Part>, u64)> {
    let mut in_order: Vec<(u64, u32, u64)> = Vec::with_capacity(writing.len());
    for (writer, view) in writing {
        let (first, end) = view.span()?;
        in_order.push((view.displacement + first, *writer, view.displacement + end));
    }
    in_order.sort_unstable();
    let apart = in_order.windows(2).all(|pair| pair[0].2 <= pair[1].0);
    apart.then(|| from_beginnings(in_order.iter().map(|&(at, writer, _)| (at, writer)).collect())).flatten()
}

/// Returns each view's first tile; one without holes extends to the end.
fn once(writing: &[(u32, &View)]) -> (Vec<Part>, u64) {
    let end = |view: &View| view.displacement + view.span().map_or(0, |span| span.1).max(view.extent);
    let cycle = writing.iter().map(|(_, view)| end(view)).max().unwrap_or(0);
    let mut parts = Vec::new();
    for &(writer, view) in writing {
        for run in &view.runs {
            let start = view.displacement + run.offset;
            parts.push(Part { start, end: if view.is_dense() { cycle } else { start + run.length }, writer });
        }
    }
    (parts, cycle)
}

/// Plans strips from where each writer begins, and how many bytes it writes (0: nothing).
///
/// # Errors
/// See [`from_parts`]; and offsets that exceed 63 bits.
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

/// Returns how many of a cycle's bytes are claimed at all, and how many by one target alone.
fn owned(parts: &[Part], cycle_bytes: u64, target_of: &[u32]) -> (u64, u64) {
    let mut edges: Vec<u64> = parts.iter().flat_map(|part| [part.start, part.end]).map(|edge| edge.min(cycle_bytes)).collect();
    edges.sort_unstable();
    edges.dedup();
    let (mut claimed, mut owned) = (0, 0);
    for pair in edges.windows(2) {
        let over = parts.iter().filter(|part| part.start <= pair[0] && part.end >= pair[1]);
        let mut targets: Vec<u32> = over.map(|part| target_of[part.writer as usize]).collect();
        targets.dedup();
        let bytes = pair[1] - pair[0];
        claimed += if targets.is_empty() { 0 } else { bytes };
        owned += if targets.windows(2).all(|pair| pair[0] == pair[1]) && !targets.is_empty() { bytes } else { 0 };
    }
    (claimed, owned)
}

//! Plans strips that keep each writer's bytes on a target of its own.
//!
//! **In:** the parts of a cycle that each writer writes, and the target where each writer's bytes belong. **Out:** the parameter
//! `strips` of `varstrip_dist`, and the target of each datafile. The library in `mpi/` performs the same steps when it lays out a
//! file for its ranks; both must give the answers in `mpi/tests/vectors.json`.
//!
//!
//! 1. A byte claimed only by writers of one target is *owned* by that target; a byte claimed by none, or by writers of different
//!    targets, is not owned.
//! 2. An unowned range shorter than `gap_bytes` joins the owned range before it (the first range: after it). A longer one is
//!    dealt round-robin to the writers' targets in pieces of `piece_bytes`, in larger ones if there would be more than
//!    [`MOST_PIECES`]. The rotation continues from range to range, in the order in which the targets first appear among the
//!    writers.
//! 3. Adjacent ranges of one target form one strip; a cycle that repeats a shorter one is reduced to it.
//! 4. Strips smaller than `smallest_strip_bytes` on average are refused. If the text exceeds `text_bytes`, the strips are made
//!    coarser: blocks (of a power of two) go to the owner of most of each, or else to the target dealt most of it.
//! 5. Datafiles are numbered in the order in which their targets appear.

use std::collections::HashMap;

/// Maximum pieces of a long unowned range.
const MOST_PIECES: u64 = 64;
/// Maximum blocks of a cycle that is made coarser.
const MOST_BLOCKS: u64 = 1 << 20;
/// The smallest block.
const LEAST_BLOCK_BYTES: u64 = 4096;

/// The bytes `start..end` of the cycle, written by one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Part {
    pub start: u64,
    pub end: u64,
    /// The writer: an index into the list of the writers' targets.
    pub writer: u32,
}

/// Limits on how fine strips may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Options {
    pub gap_bytes: u64,
    pub piece_bytes: u64,
    pub smallest_strip_bytes: u64,
    pub text_bytes: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { gap_bytes: 64 << 10, piece_bytes: 1 << 20, smallest_strip_bytes: 512, text_bytes: 48 << 10 }
    }
}

/// A layout that places each writer's bytes on its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The parameter `strips` of `varstrip_dist`.
    pub strips: String,
    /// The target of each datafile.
    pub targets: Vec<u32>,
    /// Length of the shortest equivalent cycle.
    pub cycle_bytes: u64,
    /// Bytes of the given cycle claimed by any writer.
    pub claimed_bytes: u64,
    /// Claimed bytes placed on the target of all their writers.
    pub local_bytes: u64,
}

/// Why there is no plan, for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// The owner of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// A target, by its index in the rotation.
    One(u32),
    /// No writer claims them.
    Nobody,
    /// Writers of different targets claim them.
    Several,
}

/// A range up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range<T> {
    end: u64,
    of: T,
}

/// Consecutive ranges from 0, without holes.
#[derive(Clone, Debug)]
struct Ranges<T>(Vec<Range<T>>);

impl<T: Copy + PartialEq> Ranges<T> {
    fn new() -> Ranges<T> {
        Ranges(Vec::new())
    }

    fn start(&self, index: usize) -> u64 {
        if index == 0 { 0 } else { self.0[index - 1].end }
    }

    fn length(&self, index: usize) -> u64 {
        self.0[index].end - self.start(index)
    }

    fn end(&self) -> u64 {
        self.0.last().map_or(0, |range| range.end)
    }

    /// Appends a range up to `end`, merged with the last one if both have the same owner.
    fn append(&mut self, end: u64, of: T) {
        if end <= self.end() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.of == of => last.end = end,
            _ => self.0.push(Range { end, of }),
        }
    }
}

/// The writers' distinct targets in order of first appearance, and each writer's index among them.
struct Turn {
    targets: Vec<u32>,
    of_writer: Vec<u32>,
}

impl Turn {
    fn of(target_of: &[u32]) -> Turn {
        let mut numbers = HashMap::new();
        let mut targets = Vec::new();
        let of_writer = target_of.iter().map(|&target| {
            *numbers.entry(target).or_insert_with(|| {
                targets.push(target);
                targets.len() as u32 - 1
            })
        });
        let of_writer = of_writer.collect();
        Turn { targets, of_writer }
    }
}

/// Plans the strips of a cycle of `cycle_bytes` claimed by `parts` (unordered, possibly overlapping); `target_of[w]` is the
/// target of writer `w`'s bytes.
///
/// # Errors
/// No writer writes anything, no byte is written by one node alone, or the result is too fine for a layout.
pub fn from_parts(parts: &[Part], cycle_bytes: u64, target_of: &[u32], options: &Options) -> Result<Plan, Refused> {
    let refused = |why: &str| Err(Refused(why.to_owned()));
    if target_of.is_empty() || cycle_bytes == 0 || cycle_bytes > crate::MAX_OFFSET {
        return refused("nobody writes anything");
    }
    let turn = Turn::of(target_of);
    let owned = owners(parts, cycle_bytes, &turn);
    let bytes =
        |wanted: &dyn Fn(Owner) -> bool| (0..owned.0.len()).filter(|&i| wanted(owned.0[i].of)).map(|i| owned.length(i)).sum::<u64>();
    let claimed_bytes = bytes(&|of| of != Owner::Nobody);
    if bytes(&|of| matches!(of, Owner::One(_))) == 0 {
        return refused(if claimed_bytes > 0 { "no byte is written by one node alone" } else { "nobody writes anything" });
    }
    let dealt = deal(&owned, turn.targets.len() as u32, options);
    let mut strips = reduced(dealt.clone());
    let average = strips.end() / strips.0.len() as u64;
    if strips.0.len() > 1 && average < options.smallest_strip_bytes {
        let least = options.smallest_strip_bytes;
        return refused(&format!("strips would have {average} bytes on average, and less than {least} is too fine"));
    }
    let mut block = LEAST_BLOCK_BYTES;
    while cycle_bytes / block > MOST_BLOCKS {
        block *= 2;
    }
    let (mut text, mut targets) = written(&strips, &turn);
    while text.len() > options.text_bytes {
        if block > cycle_bytes {
            return refused("there are more targets than the text of a layout has room for");
        }
        strips = reduced(coarser(&owned, &dealt, block, turn.targets.len()));
        (text, targets) = written(&strips, &turn);
        block *= 2;
    }
    let (cycle_bytes, local_bytes) = (strips.end(), local(&owned, &strips));
    Ok(Plan { strips: text, targets, cycle_bytes, claimed_bytes, local_bytes })
}

/// Step 1: determines the owner of every byte.
fn owners(parts: &[Part], cycle_bytes: u64, turn: &Turn) -> Ranges<Owner> {
    let mut edges: Vec<(u64, u32, bool)> = Vec::with_capacity(2 * parts.len());
    for part in parts {
        let end = part.end.min(cycle_bytes);
        if part.start < end {
            let target = turn.of_writer[part.writer as usize];
            edges.extend([(part.start, target, true), (end, target, false)]);
        }
    }
    edges.sort_unstable_by_key(|edge| edge.0);
    let mut claims = vec![0_u64; turn.targets.len()];
    // Number of targets with claims, and the sum of their indices: with one target, its index.
    let (mut count, mut sum) = (0_u32, 0_u64);
    let mut owned = Ranges::new();
    let mut next = 0;
    while next < edges.len() {
        let at = edges[next].0;
        owned.append(
            at,
            if count == 0 {
                Owner::Nobody
            } else if count == 1 {
                Owner::One(sum as u32)
            } else {
                Owner::Several
            },
        );
        // Starts are counted before ends, so that no count becomes negative.
        let here = edges[next..].iter().take_while(|edge| edge.0 == at).count();
        let mut of_here = edges[next..next + here].to_vec();
        of_here.sort_unstable_by_key(|edge| !edge.2);
        for (_, target, begins) in of_here {
            let claims = &mut claims[target as usize];
            match begins {
                true if *claims == 0 => (count, sum) = (count + 1, sum + u64::from(target)),
                false if *claims == 1 => (count, sum) = (count - 1, sum - u64::from(target)),
                _ => {}
            }
            if begins { *claims += 1 } else { *claims -= 1 }
        }
        next += here;
    }
    owned.append(cycle_bytes, Owner::Nobody);
    owned
}

/// Step 2: deals unowned ranges to targets.
fn deal(owned: &Ranges<Owner>, targets: u32, options: &Options) -> Ranges<u32> {
    let mut dealt = Ranges::new();
    let mut turn = 0;
    let mut index = 0;
    while index < owned.0.len() {
        let mut start = owned.start(index);
        if let Owner::One(target) = owned.0[index].of {
            dealt.append(owned.0[index].end, target);
            index += 1;
            continue;
        }
        let first_owned = owned.0[index..].iter().position(|range| matches!(range.of, Owner::One(_)));
        let until = first_owned.map_or(owned.0.len(), |more| index + more);
        let end = owned.0[until - 1].end;
        index = until;
        let after = owned.0.get(until).map(|range| range.of);
        let beside = match (dealt.0.last(), after) {
            (Some(before), _) => Some(before.of),
            (None, Some(Owner::One(after))) => Some(after),
            _ => None,
        };
        if let Some(beside) = beside.filter(|_| end - start < options.gap_bytes) {
            dealt.append(end, beside);
            continue;
        }
        let pieces = (end - start).div_ceil(options.piece_bytes);
        let piece = options.piece_bytes * pieces.div_ceil(MOST_PIECES);
        while start < end {
            start = if end - start > piece { start + piece } else { end };
            dealt.append(start, turn);
            turn = (turn + 1) % targets;
        }
    }
    dealt
}

/// Step 3: reduces the cycle. It is treated as a ring: a first and a last strip of one target are one strip.
fn reduced(mut ranges: Ranges<u32>) -> Ranges<u32> {
    let count = ranges.0.len();
    let joined = count > 1 && ranges.0[0].of == ranges.0[count - 1].of;
    let ring = if joined { count - 1 } else { count };
    if ring < 2 {
        return ranges;
    }
    let mut strips: Vec<(u32, u64)> = (0..ring).map(|i| (ranges.0[i].of, ranges.length(i))).collect();
    if joined {
        strips[0].1 += ranges.length(ring);
    }
    let mut border = vec![0; ring + 1];
    let mut known = 0;
    for i in 1..ring {
        while known > 0 && strips[i] != strips[known] {
            known = border[known];
        }
        known += usize::from(strips[i] == strips[known]);
        border[i + 1] = known;
    }
    let period = ring - border[ring];
    if period < ring && ring.is_multiple_of(period) {
        let cycle: u64 = strips[..period].iter().map(|strip| strip.1).sum();
        let keep = ranges.0.partition_point(|range| range.end < cycle);
        ranges.0[keep].end = cycle;
        ranges.0.truncate(keep + 1);
    }
    ranges
}

/// Adds the bytes of `ranges` within `start..end` to each target's weight; `from` remembers where to start the search.
fn weigh<T: Copy + PartialEq>(
    ranges: &Ranges<T>,
    from: &mut usize,
    (start, end): (u64, u64),
    weight: &mut [u64],
    target: impl Fn(T) -> Option<u32>,
) {
    while *from < ranges.0.len() && ranges.0[*from].end <= start {
        *from += 1;
    }
    for index in *from..ranges.0.len() {
        let (low, high) = (ranges.start(index).max(start), ranges.0[index].end.min(end));
        if low >= end {
            break;
        }
        if let Some(target) = target(ranges.0[index].of) {
            weight[target as usize] += high - low;
        }
    }
}

fn heaviest(weight: &[u64]) -> Option<u32> {
    let most = *weight.iter().max()?;
    (most > 0).then(|| weight.iter().position(|&w| w == most).expect("it is there") as u32)
}

/// Step 4: makes strips of equal blocks.
fn coarser(owned: &Ranges<Owner>, dealt: &Ranges<u32>, block: u64, targets: usize) -> Ranges<u32> {
    let cycle_bytes = dealt.end();
    let (mut in_owned, mut in_dealt) = (0, 0);
    let mut coarse = Ranges::new();
    let mut start = 0;
    while start < cycle_bytes {
        let end = start + block.min(cycle_bytes - start);
        let mut weight = vec![0; targets];
        weigh(owned, &mut in_owned, (start, end), &mut weight, |of| if let Owner::One(target) = of { Some(target) } else { None });
        let target = heaviest(&weight).or_else(|| {
            weigh(dealt, &mut in_dealt, (start, end), &mut weight, Some);
            heaviest(&weight)
        });
        coarse.append(end, target.unwrap_or(0));
        start = end;
    }
    coarse
}

/// Step 5: returns the text, and the datafiles' targets.
fn written(strips: &Ranges<u32>, turn: &Turn) -> (String, Vec<u32>) {
    let mut datafile_of: HashMap<u32, usize> = HashMap::new();
    let mut targets = Vec::new();
    let mut text = String::new();
    for (index, range) in strips.0.iter().enumerate() {
        let datafile = *datafile_of.entry(range.of).or_insert_with(|| {
            targets.push(turn.targets[range.of as usize]);
            targets.len() - 1
        });
        let mut bytes = strips.length(index);
        let mut suffix = 0;
        while suffix < 3 && bytes.is_multiple_of(1024) {
            bytes /= 1024;
            suffix += 1;
        }
        let separator = if index == 0 { "" } else { ";" };
        text.push_str(&format!("{separator}{datafile}:{bytes}{}", ["", "K", "M", "G"][suffix]));
    }
    (text, targets)
}

/// Returns the bytes that the repeated strips place on their owner.
fn local(owned: &Ranges<Owner>, strips: &Ranges<u32>) -> u64 {
    let (mut at, mut base, mut strip, mut local) = (0, 0, 0, 0);
    for range in &owned.0 {
        while at < range.end {
            let strip_end = base + strips.0[strip].end;
            let end = strip_end.min(range.end);
            if range.of == Owner::One(strips.0[strip].of) {
                local += end - at;
            }
            at = end;
            if at == strip_end {
                strip += 1;
                if strip == strips.0.len() {
                    (strip, base) = (0, base + strips.end());
                }
            }
        }
    }
    local
}

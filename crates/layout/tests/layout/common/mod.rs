//! Layouts for tests, and a reference model: a list of strips, walked byte run by byte run.

#![allow(dead_code)] // each test binary uses a part of it

use proptest::prelude::*;
use thalweg_layout::{Distribution, Layout, MAX_OFFSET, Piece, Spec};

/// Returns the number of cases of a property: `LAYOUT_CASES` times the usual number.
pub fn cases(usual: u32) -> ProptestConfig {
    let times = std::env::var("LAYOUT_CASES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(usual * times) }
}

pub fn layout(spec: &Spec, datafiles: u32) -> Layout {
    Layout::new(spec, Some(datafiles), datafiles).unwrap()
}

/// PVFS2's function of this name: the first logical offset at or after `logical` whose byte is on `datafile`.
pub fn next_mapped_offset(layout: &Layout, datafile: u32, logical: u64) -> Option<u64> {
    layout.physical_to_logical(datafile, layout.logical_to_physical(datafile, logical))
}

/// PVFS2's function of this name: how many bytes from `physical` on are contiguous in the file too.
pub fn contiguous_length(layout: &Layout, datafile: u32, physical: u64) -> u64 {
    layout.physical_to_logical(datafile, physical).map_or(0, |logical| layout.piece_at(logical).length)
}

/// Returns the pieces of a logical range on `datafile`: those of one flow buffer that holds all of them.
pub fn segments(layout: &Layout, datafile: u32, offset: u64, length: u64) -> Vec<Piece> {
    layout.flow_buffers(datafile, offset, length, u64::MAX).flat_map(|buffer| buffer.pieces(layout)).collect()
}

/// Generates a varstrip over exactly `datafiles` datafiles: each once, in order, then `more` in any order.
pub fn varstrip(sizes: &[u64], more: &[(usize, u64)]) -> Layout {
    let first = sizes.iter().enumerate().map(|(datafile, &size)| (datafile, size));
    let rest = more.iter().map(|&(datafile, size)| (datafile % sizes.len(), size));
    let strips: Vec<String> = first.chain(rest).map(|(datafile, size)| format!("{datafile}:{size}")).collect();
    layout(&Spec::new("varstrip_dist").with("strips", strips.join(";")), sizes.len() as u32)
}

/// Generates a number of random magnitude, at most `2^bits`: small ones are as likely as large ones.
pub fn magnitude(bits: u32) -> impl Strategy<Value = u64> {
    (0..bits, any::<u64>()).prop_map(|(bit, low)| (1 << bit) + low % (1 << bit))
}

/// Generates 1 to 1000 datafiles, mostly few.
pub fn datafiles() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 1u32..9, 2 => 9u32..65, 1 => 65u32..=1000]
}

/// Generates a layout of `datafiles` with strips of up to `2^bits` bytes.
pub fn any_layout(datafiles: u32, bits: u32) -> impl Strategy<Value = Layout> {
    let count = datafiles as usize;
    let simple = magnitude(bits).prop_map(move |size| layout(&Spec::new("simple_stripe").with("strip_size", size), datafiles));
    let twod = (magnitude(bits), 1..=datafiles.saturating_add(2), magnitude(10)).prop_map(move |(size, groups, factor)| {
        let spec = Spec::new("twod_stripe").with("strip_size", size).with("num_groups", groups).with("group_strip_factor", factor);
        layout(&spec, datafiles)
    });
    let strips = (prop::collection::vec(magnitude(bits), count), prop::collection::vec((0..count, magnitude(bits)), 0..40))
        .prop_map(|(sizes, more)| varstrip(&sizes, &more));
    let basic = Just(layout(&Spec::new("basic_dist"), 1));
    // basic_dist has no parameters to vary: it is rare, and replaces any number of datafiles.
    prop_oneof![1 => basic, 10 => simple, 10 => twod, 10 => strips]
}

/// Generates a layout of 1 to 1000 datafiles.
pub fn layouts(bits: u32) -> impl Strategy<Value = Layout> {
    datafiles().prop_flat_map(move |datafiles| any_layout(datafiles, bits))
}

/// Generates logical offsets of every magnitude up to the last, and their neighbours.
pub fn offsets(count: usize) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![3 => magnitude(63).prop_map(|offset| offset - 1), 1 => MAX_OFFSET - 1000..=MAX_OFFSET], count)
}

/// The reference model: (datafile, bytes) strips, repeated, counting each datafile's bytes in order.
pub struct Model {
    pub strips: Vec<(u32, u64)>,
    pub datafiles: u32,
}

impl Model {
    pub fn simple_stripe(datafiles: u32, strip: u64) -> Model {
        Model { strips: (0..datafiles).map(|datafile| (datafile, strip)).collect(), datafiles }
    }

    pub fn twod_stripe(datafiles: u32, groups: u32, strip: u64, factor: u32) -> Model {
        let groups = groups.min(datafiles);
        let mut strips = Vec::new();
        for group in 0..groups {
            let first = group * (datafiles / groups);
            let end = if group + 1 == groups { datafiles } else { first + datafiles / groups };
            for _ in 0..factor {
                strips.extend((first..end).map(|datafile| (datafile, strip)));
            }
        }
        Model { strips, datafiles }
    }

    pub fn varstrip(strips: &[(u32, u64)]) -> Model {
        Model { strips: strips.to_vec(), datafiles: strips.iter().map(|&(datafile, _)| datafile + 1).max().unwrap() }
    }

    /// Returns the datafile and physical offset of each of the first `bytes` bytes.
    pub fn bytes(&self, bytes: usize) -> Vec<(u32, u64)> {
        let mut counts = vec![0; self.datafiles as usize];
        let runs = self.strips.iter().cycle().flat_map(|&(datafile, size)| (0..size).map(move |_| datafile));
        runs.take(bytes)
            .map(|datafile| {
                let count = &mut counts[datafile as usize];
                *count += 1;
                (datafile, *count - 1)
            })
            .collect()
    }
}

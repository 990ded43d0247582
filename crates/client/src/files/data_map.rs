//! The data ranges of a file: everything outside them is holes.
//!
//! Each datafile's target reports that datafile's holes. The distribution maps a datafile's data to logical ranges, and the file's data is
//! the union over all datafiles. Replies are bounded, and so are the ranges derived from them: the result ends at the first logical offset
//! that some datafile's map does not cover.
//!
//! A datafile that ends too early has lost bytes; the missing end is an error here, as in a read, and not a hole.

use super::data::DataClient;
use super::handle::FileHandle;
use std::ops::Range;
use thalweg_base::ranges;
use thalweg_base::sparse::BLOCK_BYTES;
use thalweg_layout::{Distribution, Layout};
use thalweg_trace::Tracer;
use thalweg_wire::Result;
use thalweg_wire::protocol::io::{DataMap, IoReply, IoRequest};
use thalweg_wire::unexpected;

/// Bound: logical ranges built per query.
const RANGES: usize = 1 << 16;

impl DataClient {
    /// Returns the data ranges of a logical range, sorted and disjoint, and the offset up to which they are known, which is past the
    /// range's beginning.
    ///
    /// # Errors
    /// A server's or a connection's, naming server and file; [`thalweg_wire::ErrorKind::Lost`] when bytes of the file are lost.
    pub fn data_map(&self, tracer: &mut Tracer, file: &FileHandle, range: Range<u64>) -> Result<(Vec<Range<u64>>, u64)> {
        if !file.losses().is_empty() {
            // A lost byte is not a hole: reading it is an error.
            return Ok((vec![range.clone()], range.end));
        }
        let layout = file.layout();
        let requests = self.requests(file, |ids| {
            let physical = ids.iter().map(|id| (*id, layout.physical_range(id.index, range.start, range.end - range.start)));
            let datafiles: Vec<_> = physical.filter(|(_, part)| !part.is_empty()).map(|(id, part)| (id, part.start, part.end)).collect();
            (!datafiles.is_empty()).then_some(IoRequest::DataMap { datafiles })
        })?;
        let replies = self.call_each(tracer, &requests).map_err(|e| e.on_file(file.path()))?;
        let (mut data, mut known_to, mut is_whole) = (Vec::new(), range.end, true);
        let most = (RANGES / file.targets().len()).max(1);
        for ((_, request), reply) in requests.iter().zip(replies) {
            let (IoRequest::DataMap { datafiles }, IoReply::DataMaps(maps)) = (request, &reply) else {
                return Err(unexpected(&reply).on_file(file.path()));
            };
            if datafiles.len() != maps.len() {
                return Err(unexpected(&reply).on_file(file.path()));
            }
            for ((id, from, to), map) in datafiles.iter().zip(maps) {
                is_whole &= file.may_end(id.index, map.size_bytes);
                if !is_within(map, *from..*to) {
                    return Err(unexpected(&reply).on_file(file.path()));
                }
                let end = logical_data(layout, id.index, map, *to, most, &mut data);
                known_to = known_to.min(end.unwrap_or(range.end));
            }
        }
        if !is_whole {
            // Returns the error, unless another client has changed the file since it was opened.
            self.sizes(tracer, file)?;
        }
        Ok((merged(data, range.start..known_to), known_to))
    }
}

/// Whether a map fits this range of a datafile: parts sorted, inside the range, and some progress.
fn is_within(map: &DataMap, range: Range<u64>) -> bool {
    let mut at = range.start;
    for (start, length) in &map.data {
        match start.checked_add(*length) {
            Some(end) if *start >= at && *length > 0 && end <= map.known_to => at = end,
            _ => return false,
        }
    }
    map.known_to > range.start && map.known_to <= range.end
}

/// Appends the logical ranges of a datafile's map to `data`, at most `most`. If the map does not reach `to`, or there are more ranges,
/// returns the first logical offset of the datafile that is not covered.
///
/// Strips shorter than a block are merged: the ranges of a datafile within one block of the file count as one.
fn logical_data(layout: &Layout, index: u32, map: &DataMap, to: u64, most: usize, data: &mut Vec<Range<u64>>) -> Option<u64> {
    let mut left = most;
    for (start, length) in &map.data {
        let (mut at, end) = (*start, start + length);
        while at < end {
            let logical = layout.physical_to_logical(index, at)?;
            if left == 0 {
                return Some(logical);
            }
            left -= 1;
            let piece = layout.piece_at(logical);
            // Skip to the datafile's byte one block later, or one strip later if that is longer.
            let next = layout.logical_to_physical(index, logical.saturating_add(piece.length.max(BLOCK_BYTES as u64)));
            let next = next.clamp(at + 1, end);
            let last = layout.physical_to_logical(index, next - 1)?;
            data.push(logical..last + 1);
            at = next;
        }
    }
    if map.known_to < to { layout.physical_to_logical(index, map.known_to) } else { None }
}

/// Returns the ranges, sorted, merged and clipped to `within`.
fn merged(data: Vec<Range<u64>>, within: Range<u64>) -> Vec<Range<u64>> {
    let mut data: Vec<Range<u64>> = data.iter().map(|part| ranges::overlap(part, &within)).collect();
    ranges::merge(&mut data);
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thalweg_layout::Spec;

    const SIZE: u64 = 1 << 20;

    /// Collects a file's data by repeated queries of at most `most` ranges, merging the replies.
    fn asked(layout: &Layout, has: &[bool], block: u64, most: usize) -> Vec<Range<u64>> {
        let (mut at, mut all) = (0, Vec::new());
        while at < SIZE {
            let (mut data, mut known_to) = (Vec::new(), SIZE);
            for index in 0..layout.num_datafiles() {
                let physical = layout.physical_range(index, at, SIZE - at);
                let mut map = DataMap { size_bytes: SIZE, known_to: physical.end, data: Vec::new() };
                let mut from = physical.start;
                while from < physical.end {
                    let to = (from / block * block + block).min(physical.end);
                    if has[(from / block) as usize % has.len()] {
                        if map.data.len() == most {
                            map.known_to = from;
                            break;
                        }
                        map.data.push((from, to - from));
                    }
                    from = to;
                }
                if physical.is_empty() {
                    continue;
                }
                assert!(is_within(&map, physical.clone()));
                let end = logical_data(layout, index, &map, physical.end, most, &mut data);
                known_to = known_to.min(end.unwrap_or(SIZE));
            }
            assert!(known_to > at, "no progress at {at}");
            all.extend(merged(data, at..known_to));
            at = known_to;
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn no_byte_of_data_is_in_a_hole_whatever_the_layout_and_however_short_the_replies(
            layout in prop_oneof![
                Just("basic_dist"), Just("simple_stripe,strip_size=65536"), Just("simple_stripe,strip_size=100"),
                Just("twod_stripe,num_groups=2,strip_size=10000,group_strip_factor=3"), Just("varstrip_dist,strips=0:2K;1:1K;2:100K;0:1K"),
            ],
            has in prop::collection::vec(any::<bool>(), 1..40),
            most in 1_usize..9,
        ) {
            let spec: Spec = layout.parse().unwrap();
            let datafiles = if layout.starts_with("varstrip") { None } else { Some(if layout.starts_with("basic") { 1 } else { 4 }) };
            let layout = Layout::new(&spec, datafiles, 4).unwrap();
            let block = 4096;
            let data = asked(&layout, &has, block, most * 50);
            prop_assert!(data.windows(2).all(|two| two[0].end <= two[1].start), "{:?}", data);
            for at in (0..SIZE).step_by(509) {
                let piece = layout.piece_at(at);
                let is_data = has[(piece.physical_offset / block) as usize % has.len()];
                let found = data.partition_point(|part| part.end <= at);
                let is_found = data.get(found).is_some_and(|part| part.contains(&at));
                prop_assert!(is_found || !is_data, "byte {} is lost", at);
            }
        }
    }
}

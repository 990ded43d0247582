//! Properties of every distribution, with every parameter, at every offset up to 63 bits.
//!
//! Each generated layout is checked at many offsets, so that a run checks some millions of mappings. `LAYOUT_CASES=50 cargo test
//! -p thalweg-layout --release` checks fifty times as many.

use crate::common::{self, cases, contiguous_length, layouts, magnitude, next_mapped_offset, offsets, segments};
use proptest::prelude::*;
use thalweg_layout::{Distribution, FlowBuffer, Layout, MAX_OFFSET, Piece};

/// Checks every property at one offset.
fn check_offset(layout: &Layout, x: u64) {
    let piece = layout.piece_at(x);
    let Piece { datafile, physical_offset, length, .. } = piece;
    assert!(datafile < layout.num_datafiles());
    assert_eq!(piece.logical_offset, x);
    assert_eq!(layout.logical_to_physical(datafile, x), physical_offset, "the rank of a datafile's own byte is its place, at {x}");
    if x == MAX_OFFSET {
        assert_eq!(length, 0);
        return;
    }
    assert!(length > 0 && length <= MAX_OFFSET - x);
    assert_eq!(layout.physical_to_logical(datafile, physical_offset), Some(x), "there and back, at {x}");
    assert_eq!(next_mapped_offset(layout, datafile, x), Some(x));
    assert_eq!(contiguous_length(layout, datafile, physical_offset), length);
    // The last byte of the piece is at its place; ranks grow by one inside the piece on its datafile and nowhere else.
    let last = layout.piece_at(x + length - 1);
    assert_eq!((last.datafile, last.physical_offset), (datafile, physical_offset + length - 1));
    assert_eq!(layout.logical_to_physical(datafile, x + length), physical_offset + length);
    let other = (datafile + 1) % layout.num_datafiles();
    if other != datafile {
        let rank = layout.logical_to_physical(other, x);
        assert_eq!(layout.logical_to_physical(other, x + length), rank);
        if let Some(next) = next_mapped_offset(layout, other, x) {
            assert!(next >= x + length);
            let there = layout.piece_at(next);
            assert_eq!((there.datafile, there.physical_offset), (other, rank));
            assert_eq!(layout.logical_to_physical(other, next), rank, "nothing of it is skipped");
        }
    }
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn every_offset_maps_there_and_back(layout in layouts(40), offsets in offsets(350)) {
        for x in offsets {
            check_offset(&layout, x);
        }
    }

    #[test]
    fn strip_boundaries_map_there_and_back(layout in layouts(6), start in magnitude(62), steps in 1usize..200) {
        let mut x = start;
        for _ in 0..steps {
            check_offset(&layout, x);
            check_offset(&layout, x.saturating_sub(1));
            x = x.saturating_add(layout.piece_at(x).length).min(MAX_OFFSET);
        }
    }
}

proptest! {
    #![proptest_config(cases(1_500))]

    #[test]
    fn ranks_over_all_datafiles_sum_to_the_offset(layout in layouts(40), offsets in offsets(15)) {
        for x in offsets {
            prop_assert_eq!(layout.datafile_sizes(x).sum::<u64>(), x);
        }
    }

    #[test]
    fn truncate_gives_sizes_whose_file_size_is_what_was_asked(layout in layouts(40), offsets in offsets(10)) {
        for x in offsets {
            let sizes: Vec<u64> = layout.datafile_sizes(x).collect();
            prop_assert_eq!(layout.logical_file_size(&sizes), Ok(x));
            // Sparse: only the datafile with the last byte must have its full size.
            if x > 0 {
                let last = layout.piece_at(x - 1).datafile as usize;
                let sparse: Vec<u64> = sizes.iter().enumerate().map(|(d, &size)| if d == last { size } else { size / 2 }).collect();
                prop_assert_eq!(layout.logical_file_size(&sparse), Ok(x));
            }
        }
    }

    #[test]
    fn a_sparse_files_size_is_its_largest_mapped_end(layout in layouts(30), written in prop::collection::vec((magnitude(60), magnitude(20)), 1..40)) {
        // Written as by a store: pieces, each of which extends its datafile.
        let mut sizes = vec![0; layout.num_datafiles() as usize];
        let mut end = 0;
        for (offset, length) in written {
            for piece in layout.pieces(offset, length).take(100) {
                let size: &mut u64 = &mut sizes[piece.datafile as usize];
                *size = (*size).max(piece.physical_offset + piece.length);
                end = end.max(piece.logical_offset + piece.length);
            }
        }
        prop_assert_eq!(layout.logical_file_size(&sizes), Ok(end));
    }

    #[test]
    fn pieces_cover_a_range_once_in_order_and_merged(layout in layouts(20), offset in magnitude(63), strips in 1u64..300) {
        let length = layout.piece_at(offset - 1).length.saturating_mul(strips);
        let end = (offset - 1).saturating_add(length).min(MAX_OFFSET);
        let mut at = offset - 1;
        let mut before: Option<Piece> = None;
        for piece in layout.pieces(offset - 1, length).take(1000) {
            prop_assert_eq!(piece.logical_offset, at);
            prop_assert!(piece.length > 0 && at + piece.length <= end);
            prop_assert_eq!(layout.logical_to_physical(piece.datafile, at), piece.physical_offset);
            prop_assert_eq!(layout.logical_to_physical(piece.datafile, at + piece.length), piece.physical_offset + piece.length);
            prop_assert!(before.is_none_or(|before| before.datafile != piece.datafile), "two pieces that adjoin on both sides");
            at += piece.length;
            before = Some(piece);
        }
        let all = layout.pieces(offset - 1, length).take(1001).count() <= 1000;
        prop_assert!(!all || at == end);
    }

    #[test]
    fn flow_buffers_of_all_datafiles_are_the_pieces_of_the_request(
        layout in layouts(14), offset in magnitude(50), length in magnitude(17), buffer_bytes in magnitude(15),
    ) {
        let mut by_datafile: Vec<Piece> = Vec::new();
        for datafile in 0..layout.num_datafiles() {
            let range = layout.physical_range(datafile, offset, length);
            let mut at = range.start;
            for buffer in layout.flow_buffers(datafile, offset, length, buffer_bytes) {
                let FlowBuffer { physical_offset, length, .. } = buffer;
                prop_assert_eq!((buffer.datafile, physical_offset), (datafile, at));
                prop_assert!(length == buffer_bytes || (length < buffer_bytes && at + length == range.end));
                for piece in buffer.pieces(&layout) {
                    prop_assert_eq!((piece.datafile, piece.physical_offset), (datafile, at), "pieces in physical order");
                    at += piece.length;
                    by_datafile.push(piece);
                }
                prop_assert_eq!(at, physical_offset + length, "a buffer's pieces are its bytes");
            }
            prop_assert_eq!(at, range.end);
        }
        by_datafile.sort_by_key(|piece| piece.logical_offset);
        let mut at = offset;
        for piece in by_datafile {
            prop_assert_eq!(piece.logical_offset, at);
            at += piece.length;
        }
        prop_assert_eq!(at, offset + length);
    }

    #[test]
    fn segments_are_the_pieces_of_one_datafile(layout in layouts(14), offset in magnitude(50), length in magnitude(17), pick in any::<u32>()) {
        let datafile = pick % layout.num_datafiles();
        let pieces: Vec<Piece> = layout.pieces(offset, length).filter(|piece| piece.datafile == datafile).collect();
        prop_assert_eq!(segments(&layout, datafile, offset, length), pieces);
    }

    #[test]
    fn text_brings_back_an_equal_layout(layout in layouts(40)) {
        let text = layout.spec().to_string();
        prop_assert_eq!(&common::layout(&text.parse().unwrap(), layout.num_datafiles()), &layout);
    }

    #[test]
    fn any_text_is_answered_without_a_panic(text in "[0-9a-z_:;,=kKmMgG+-]{0,40}") {
        let _ = text.parse().and_then(|spec| Layout::new(&spec, None, 8));
        let _ = Layout::new(&thalweg_layout::Spec::new("varstrip_dist").with("strips", &text), None, 8);
    }
}

//! Published and hand-derived vectors, each named for its layout.

use crate::common::{contiguous_length, next_mapped_offset, segments};
use thalweg_layout::{Distribution, FlowBuffer, Layout, MAX_OFFSET, Piece, Spec};

const KI: u64 = 1024;

fn layout(text: &str, datafiles: u32) -> Layout {
    Layout::new(&text.parse::<Spec>().unwrap(), None, datafiles).unwrap()
}

fn place(layout: &Layout, logical: u64) -> (u32, u64) {
    let piece = layout.piece_at(logical);
    assert_eq!(piece.logical_offset, logical);
    (piece.datafile, piece.physical_offset)
}

#[test]
fn simple_stripe_ranks() {
    let stripe = layout("simple_stripe", 4);
    for (logical, rank) in [(100, 100), (65_535, 65_535), (65_536, 65_536), (65_537, 65_536), (262_145, 65_537)] {
        assert_eq!(stripe.logical_to_physical(0, logical), rank, "d0 at {logical}");
    }
    for (logical, rank) in [(65_535, 0), (458_767, 65_551)] {
        assert_eq!(stripe.logical_to_physical(3, logical), rank, "d3 at {logical}");
    }
}

#[test]
fn simple_stripe_segments_of_266240_bytes_on_datafile_0() {
    let stripe = layout("simple_stripe", 4);
    let on_first: Vec<_> = segments(&stripe, 0, 0, 266_240).iter().map(|piece| (piece.logical_offset, piece.length)).collect();
    assert_eq!(on_first, [(0, 65_536), (262_144, 4096)]);
    assert_eq!(stripe.physical_range(0, 0, 266_240), 0..69_632, "both are one physical range");
}

#[test]
fn simple_stripe_contiguous_length_and_next_mapped_offset() {
    let stripe = layout("simple_stripe,strip_size=100", 3);
    assert_eq!(contiguous_length(&stripe, 1, 30), 70);
    assert_eq!(contiguous_length(&stripe, 1, 100), 100);
    assert_eq!(next_mapped_offset(&stripe, 1, 0), Some(100));
    assert_eq!(next_mapped_offset(&stripe, 1, 150), Some(150));
    assert_eq!(next_mapped_offset(&stripe, 1, 200), Some(400));
    assert_eq!(next_mapped_offset(&stripe, 0, MAX_OFFSET), None);
    assert_eq!(stripe.physical_to_logical(2, MAX_OFFSET / 2), None, "past 63 bits");
    assert_eq!(stripe.physical_to_logical(3, 0), None, "no such datafile");
    assert_eq!(stripe.logical_to_physical(3, 1000), 0, "no such datafile");
}

#[test]
fn varstrip_places_and_ranks() {
    let strips = layout("varstrip_dist,strips=0:2K;1:1K;2:4K;0:1K", 3);
    for (logical, expected) in
        [(2048, (1, 0)), (3072, (2, 0)), (7168, (0, 2048)), (8192, (0, 3072)), (10_240, (1, 1024)), (23_557, (0, 8197))]
    {
        assert_eq!(place(&strips, logical), expected, "at {logical}");
    }
    assert_eq!(strips.datafile_sizes(9000).collect::<Vec<_>>(), [3880, 1024, 4096]);
}

#[test]
fn varstrip_merges_the_last_strip_of_a_cycle_with_the_first_of_the_next() {
    let strips = layout("varstrip_dist,strips=0:2K;1:1K;2:4K;0:1K", 3);
    let pieces: Vec<_> = strips.pieces(7 * KI, 4 * KI).collect();
    assert_eq!(
        pieces,
        [
            Piece { datafile: 0, logical_offset: 7 * KI, physical_offset: 2 * KI, length: 3 * KI },
            Piece { datafile: 1, logical_offset: 10 * KI, physical_offset: KI, length: KI },
        ]
    );
    assert_eq!(segments(&strips, 0, 7 * KI, 4 * KI), pieces[..1]);
}

#[test]
fn twod_stripe_places() {
    let stripe = layout("twod_stripe,num_groups=2,group_strip_factor=2", 5);
    let strip = 64 * KI;
    let expected = [
        (0, 0),
        (1, 0),
        (0, strip),
        (1, strip),
        (2, 0),
        (3, 0),
        (4, 0),
        (2, strip),
        (3, strip),
        (4, strip),
        // The second cycle.
        (0, 2 * strip),
        (1, 2 * strip),
    ];
    for (index, expected) in (0..).zip(expected) {
        assert_eq!(place(&stripe, index * strip), expected, "strip {index}");
        assert_eq!(place(&stripe, index * strip + 17), (expected.0, expected.1 + 17), "strip {index}");
    }
}

#[test]
fn twod_stripe_keeps_the_groups_it_was_given_and_uses_at_most_one_for_each_datafile() {
    let given = layout("twod_stripe,num_groups=7,strip_size=10,group_strip_factor=3", 2);
    assert_eq!(given.spec().get("num_groups"), Some("7"));
    assert_eq!(given.pieces(0, 120).map(|piece| (piece.datafile, piece.length)).collect::<Vec<_>>(), [(0, 30), (1, 30), (0, 30), (1, 30)]);
}

#[test]
fn truncate_of_varstrip_keeps_both_halves() {
    let strips = layout("varstrip_dist,strips=0:512;1:512", 2);
    assert_eq!(strips.datafile_sizes(2048).collect::<Vec<_>>(), [1024, 1024]);
    assert_eq!(strips.datafile_sizes(1024).collect::<Vec<_>>(), [512, 512]);
}

#[test]
fn a_sparse_file_ends_where_its_last_byte_is() {
    for (text, sizes, expected) in [
        ("simple_stripe,strip_size=10", [0, 0, 1], 21),
        ("simple_stripe,strip_size=10", [11, 0, 1], 31),
        ("varstrip_dist,strips=0:10;1:20;2:5", [0, 21, 0], 46),
        ("twod_stripe,strip_size=10,num_groups=3,group_strip_factor=2", [0, 5, 0], 25),
        ("simple_stripe", [0, 0, 0], 0),
    ] {
        assert_eq!(layout(text, 3).logical_file_size(&sizes), Ok(expected), "{text}");
    }
}

#[test]
fn flow_buffers_of_a_request_with_their_pieces() {
    // The second 10 MiB of a file over 4 datafiles: 2.5 MiB on each.
    let stripe = layout("simple_stripe", 4);
    let buffers: Vec<_> = stripe.flow_buffers(1, 10 << 20, 10 << 20, 1 << 20).collect();
    let mi = 1 << 20;
    assert_eq!(
        buffers,
        [(5 * mi / 2, mi), (7 * mi / 2, mi), (9 * mi / 2, mi / 2)].map(|(physical_offset, length)| FlowBuffer {
            datafile: 1,
            physical_offset,
            length
        })
    );
    let pieces: Vec<_> = buffers[0].pieces(&stripe).collect();
    assert_eq!(pieces.len(), 16, "strips of 64 KiB");
    assert_eq!(pieces[0].logical_offset, (10 << 20) + 64 * KI);
    assert_eq!(pieces[1].logical_offset, pieces[0].logical_offset + 256 * KI);
    assert_eq!(stripe.flow_buffers(1, 0, 10, 1 << 20).count(), 0, "none of the first 10 bytes");
}

#[test]
fn one_datafile_is_one_piece_under_every_distribution() {
    for text in ["basic_dist", "simple_stripe", "varstrip_dist,strips=0:1K;0:2K", "twod_stripe"] {
        let layout = layout(text, 1);
        let whole = Piece { datafile: 0, logical_offset: 5, physical_offset: 5, length: 1 << 40 };
        assert_eq!(layout.pieces(5, 1 << 40).collect::<Vec<_>>(), [whole], "{text}");
        assert_eq!(contiguous_length(&layout, 0, 5), MAX_OFFSET - 5, "{text}: to the end");
    }
}

//! Each distribution against an independent definition: a walk over single bytes, and the other distributions.

use crate::common::{self, Model, cases, layout, magnitude, offsets};
use proptest::prelude::*;
use thalweg_layout::{Distribution, Layout, Piece, Spec};

const BYTES: usize = 1500;

/// Checks every answer about the first bytes against the walk.
fn check_against(model: &Model, layout: &Layout) {
    assert_eq!(layout.num_datafiles(), model.datafiles);
    let bytes = model.bytes(BYTES);
    let mut ranks = vec![0; model.datafiles as usize];
    for (x, &(datafile, physical)) in (0..).zip(&bytes) {
        let piece = layout.piece_at(x);
        assert_eq!((piece.datafile, piece.physical_offset), (datafile, physical), "byte {x}");
        assert_eq!(layout.physical_to_logical(datafile, physical), Some(x), "byte {x}");
        let run = bytes[x as usize..].iter().take_while(|&&(other, _)| other == datafile).count() as u64;
        let whole = x + run < BYTES as u64;
        assert!(!whole || piece.length <= run, "byte {x}: {} contiguous bytes of {run}", piece.length);
        if x % 7 == 0 {
            assert!(layout.datafile_sizes(x).eq(ranks.iter().copied()), "ranks at {x}");
        }
        ranks[datafile as usize] += 1;
    }
    let mut pieces: Vec<Piece> = Vec::new();
    for (x, &(datafile, physical)) in (0..).zip(&bytes) {
        match pieces.last_mut() {
            Some(piece) if piece.datafile == datafile => piece.length += 1,
            _ => pieces.push(Piece { datafile, logical_offset: x, physical_offset: physical, length: 1 }),
        }
    }
    assert_eq!(layout.pieces(0, BYTES as u64).collect::<Vec<_>>(), pieces);
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn simple_stripe_is_what_walking_says(datafiles in 1u32..20, strip in 1u64..200) {
        let spec = Spec::new("simple_stripe").with("strip_size", strip);
        check_against(&Model::simple_stripe(datafiles, strip), &layout(&spec, datafiles));
    }

    #[test]
    fn twod_stripe_is_what_walking_says(datafiles in 1u32..12, groups in 1u32..14, strip in 1u64..30, factor in 1u32..6) {
        let spec = Spec::new("twod_stripe").with("num_groups", groups).with("strip_size", strip).with("group_strip_factor", factor);
        check_against(&Model::twod_stripe(datafiles, groups, strip, factor), &layout(&spec, datafiles));
    }

    #[test]
    fn varstrip_is_what_walking_says(sizes in prop::collection::vec(1u64..60, 1..8), more in prop::collection::vec((0u32..8, 1u64..60), 0..12)) {
        let datafiles = sizes.len() as u32;
        // Datafiles first named in descending order: the order of naming must not matter.
        let first = sizes.iter().zip((0..datafiles).rev()).map(|(&size, datafile)| (datafile, size));
        let strips: Vec<(u32, u64)> = more.iter().map(|&(datafile, size)| (datafile % datafiles, size)).chain(first).collect();
        let text: Vec<String> = strips.iter().map(|(datafile, size)| format!("{datafile}:{size}")).collect();
        let spec = Spec::new("varstrip_dist").with("strips", text.join(";"));
        check_against(&Model::varstrip(&strips), &layout(&spec, datafiles));
    }
}

proptest! {
    #![proptest_config(cases(1_500))]

    #[test]
    fn simple_stripe_varstrip_and_twod_stripe_of_one_group_are_one(
        datafiles in common::datafiles(), strip in magnitude(40), factor in magnitude(10), offsets in offsets(150),
    ) {
        let simple = layout(&Spec::new("simple_stripe").with("strip_size", strip), datafiles);
        let varstrip = common::varstrip(&vec![strip; datafiles as usize], &[]);
        let twod = layout(
            &Spec::new("twod_stripe").with("num_groups", 1).with("strip_size", strip).with("group_strip_factor", factor),
            datafiles,
        );
        for x in offsets {
            let piece = simple.piece_at(x);
            prop_assert_eq!(varstrip.piece_at(x), piece);
            prop_assert_eq!(twod.piece_at(x), piece);
            let datafile = (x % u64::from(datafiles)) as u32;
            let rank = simple.logical_to_physical(datafile, x);
            prop_assert_eq!(varstrip.logical_to_physical(datafile, x), rank);
            prop_assert_eq!(twod.logical_to_physical(datafile, x), rank);
            let logical = simple.physical_to_logical(datafile, x);
            prop_assert_eq!(varstrip.physical_to_logical(datafile, x), logical);
            prop_assert_eq!(twod.physical_to_logical(datafile, x), logical);
        }
    }
}

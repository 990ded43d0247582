//! The short form: what was found before, and a second of new cases for each reader. `make fuzz` runs the long one.

use std::path::Path;
use std::time::Duration;
use thalweg_fuzz::{regressions, run, targets};

/// Right input is read without a complaint, or the cases made of it try nothing.
#[test]
fn the_corpus_itself_is_read() {
    for target in targets::all() {
        let corpus = target.corpus();
        assert!(!corpus.is_empty(), "{} has a corpus", target.name());
        for (i, bytes) in corpus.iter().enumerate() {
            assert_eq!(target.run(bytes), Ok(()), "{}: {i}", target.name());
        }
    }
}

#[test]
fn no_reader_panics_or_takes_too_much_on_bytes_that_are_nearly_right() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for target in targets::all() {
        let before = regressions(target.as_ref(), &here.join("regressions"));
        assert_eq!(before.found, None);
        let found_in = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let outcome = run(target.as_ref(), 1, Duration::from_secs(1), found_in);
        assert_eq!(outcome.found, None);
        assert!(outcome.cases > 0);
    }
}

//! What a scrub of a whole store does besides reading its targets and names.

use super::rot::{names_of, start, store_of};
use thalweg_client::scrub::{FindingKind, ScrubOptions, Watch, scrub};
use thalweg_trace::Tracer;
use thalweg_wire::{Error, ErrorKind};

struct Patient;

impl Watch for Patient {
    fn is_over(&self) -> bool {
        false
    }

    fn read(&self, _bytes: u64, _about: u64) {}
}

#[test]
fn what_is_wrong_with_the_metadatas_rows_is_found_and_remembered_and_without_an_answer_the_scrub_is_not_whole() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path()).unwrap();
    let (store, names) = (store_of(&running).unwrap(), names_of(&running).unwrap());
    let remembered = || {
        let (space, _) = store.data.space(&mut Tracer::off());
        space.iter().map(|space| space.scrub.as_ref().map_or(0, |scrub| scrub.findings)).sum::<u64>()
    };
    let whole = ScrubOptions::default();
    let wrong = || Ok(vec!["entries 7: names no file".to_owned()]);
    let found = scrub(&names, &store.data, &whole, &wrong, &Patient).unwrap();
    let findings: Vec<_> = found.findings.iter().map(|finding| (finding.kind, finding.problem.as_str())).collect();
    assert_eq!(findings, [(FindingKind::Metadata, "entries 7: names no file")]);
    assert_eq!((remembered(), found.silent.len()), (1, 0));
    let away = || Err(Error::new(ErrorKind::Io, "no answer"));
    let found = scrub(&names, &store.data, &whole, &away, &Patient).unwrap();
    assert_eq!((found.findings.len(), found.silent.len(), remembered()), (0, 1, 0));
    // A part of a store is no reason to read all rows.
    let part = ScrubOptions { paths: vec![b"/".to_vec()], ..ScrubOptions::default() };
    assert_eq!(scrub(&names, &store.data, &part, &wrong, &Patient).unwrap().findings, []);
    running.stop().unwrap();
}

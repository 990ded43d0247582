//! A store filled by other files.

use super::{make, show, used};
use crate::common::{Running, SmallDisk, Up, content, file, run, scratch, skipped, text, thalweg};

#[test]
fn writes_in_a_lot_never_meet_enospc_while_the_rest_of_the_store_is_full_and_being_filled() {
    let here = scratch();
    let at = here.path().join("disk");
    let Some(_disk) = SmallDisk::mount(&at, "128m") else { return skipped("a file system of its own cannot be mounted here (root)") };
    let mut process = Running::start(thalweg(["up", "--print-address", "--servers", "2", text(&at)]));
    let address = process.line();
    let store = Up { process, address, directory: scratch() };
    make(&store, "run", "32Mi");
    assert_eq!(show(&store, "run")["level"], "own", "nothing else is on this file system");
    let (outside, inside) = (file(here.path(), "outside", &content(1, 8 << 20)), file(here.path(), "inside", &content(2, 4 << 20)));
    let address = store.address.as_str();
    let put = |source: &std::path::Path, name: String, more: &[&str]| {
        let to = format!("{address}{name}");
        run([&["cp", "-q", text(source), &to], more].concat())
    };
    // Until there is no room outside of the lot.
    let full = (0..64).map(|i| put(&outside, format!("/out{i}"), &[])).find(|said| said.code != Some(0)).expect("it fills up");
    assert!(full.err.contains("free") || full.err.contains("space"), "{}", full.err);
    std::thread::scope(|scope| {
        let filler = scope.spawn(|| (0..6).map(|i| put(&outside, format!("/more{i}"), &[]).code).collect::<Vec<_>>());
        for i in 0..7 {
            put(&inside, format!("/in{i}"), &["--lot", "run"]).done();
        }
        assert!(filler.join().unwrap().iter().all(|code| *code == Some(1)), "what is promised is nobody else's");
    });
    assert!(used(&store, "run") >= 28 << 20);
    let out = here.path().join("out");
    run(["cp", "-q", &store.path("/in6"), text(&out)]).done();
    assert!(std::fs::read(&out).unwrap() == content(2, 4 << 20));
}

//! Copies into lots.

use super::{lot, make, show, used};
use crate::bounded::BoundedChild;
use crate::common::{Up, content, file, run, scratch, text, thalweg, wait_until};
use std::io::Write;
use std::process::Stdio;

fn names(store: &Up) -> String {
    run(["ls", &store.path("/")]).done().out
}

#[test]
fn a_copy_into_a_lot_is_in_it_and_what_asks_about_the_file_says_so() {
    let (store, here) = (Up::start(2), scratch());
    make(&store, "run", "8Mi");
    let source = file(here.path(), "f", &content(1, 3 << 20));
    run(["cp", "-q", "--lot", "run", text(&source), &store.path("/f")]).done();
    run(["cp", "-q", text(&source), &store.path("/outside")]).done();
    assert!((3 << 20..4 << 20).contains(&used(&store, "run")), "{}", show(&store, "run"));
    assert_eq!(run(["stat", "--json", &store.path("/f")]).done().json()["lot"], "run");
    assert!(run(["stat", &store.path("/f")]).done().out.contains("\nlot       run\n"));
    assert!(run(["stat", "--json", &store.path("/outside")]).done().json().get("lot").is_none());
    assert!(run(["layout", "show", &store.path("/f")]).done().out.contains("\nin lot run\n"));
    lot(&store, &["rm", "run"]).failed(1, &["lot `run` has 1 file", "--files"]);
    lot(&store, &["rm", "run", "--files"]).done();
    assert_eq!(names(&store), "outside\n");
}

#[test]
fn a_copy_beyond_a_lots_size_is_refused_with_the_numbers_and_leaves_nothing_half_made() {
    let (store, here) = (Up::start(2), scratch());
    make(&store, "run", "4Mi");
    let source = file(here.path(), "big", &content(1, 16 << 20));
    for more in [&[][..], &["--tune"], &["--request", "1Mi"]] {
        let said = run([&["cp", "-q", "--lot", "run", text(&source), &store.path("/big")], more].concat());
        said.failed(1, &["lot `run`", "4 MiB", "used", "until 20"]);
        wait_until("its space is back", || used(&store, "run") == 0);
        assert_eq!(names(&store), "");
    }
    let tree = here.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::copy(&source, tree.join("big")).unwrap();
    file(&tree, "small", b"small");
    let said = run(["cp", "-q", "-r", "--lot", "run", text(&tree), &store.path("/tree")]).failed(1, &["big", "lot `run`", "4 MiB"]);
    let there = run(["ls", &store.path("/tree")]).done().out;
    if there.is_empty() {
        // The large file had all of the space at that moment: then the small one is refused too, and named.
        assert!(said.err.contains("tree/small"), "{}", said.err);
        return;
    }
    assert_eq!(there, "small\n");
    assert_eq!(run(["stat", "--json", &store.path("/tree/small")]).done().json()["lot"], "run");
}

#[test]
fn an_elastic_lot_goes_beyond_its_size_while_there_is_room() {
    let (store, here) = (Up::start(1), scratch());
    lot(&store, &["create", "run", "--size", "1Mi", "--for", "2h", "--elastic"]).done();
    let source = file(here.path(), "big", &content(1, 4 << 20));
    run(["cp", "-q", "--lot", "run", text(&source), &store.path("/big")]).done();
    let said = lot(&store, &["show", "run"]);
    assert!(said.code == Some(3) && said.out.contains("best effort, while there is room (elastic)"), "{said:?}");
    assert!(used(&store, "run") >= 4 << 20);
}

#[test]
fn a_cancelled_copy_gives_its_space_back() {
    let store = Up::start(2);
    make(&store, "run", "8Mi");
    let mut copy = thalweg(["cp", "-q", "--request", "64Ki", "--buffer", "64Ki", "--lot", "run", "-", &store.path("/f")]);
    let mut copy = copy.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // Kept open until the copy has ended: the copy is interrupted, not completed.
    let mut input = copy.stdin.take().unwrap();
    input.write_all(&content(1, 4 << 20)).unwrap();
    wait_until("some of it is there", || used(&store, "run") >= 1 << 20);
    // SAFETY: kill has no memory effects; the child has not been waited for.
    unsafe { libc::kill(copy.id() as i32, libc::SIGINT) };
    assert_eq!(copy.wait_in_time(crate::bounded::LIMIT).unwrap().code(), Some(130));
    drop(input);
    let ended = std::time::Instant::now();
    wait_until("its space is back", || used(&store, "run") == 0);
    // The promise is within 1 s; the margin is for a busy machine.
    assert!(ended.elapsed() < std::time::Duration::from_secs(5), "{:?}", ended.elapsed());
    assert_eq!(names(&store), "");
}

#[test]
fn a_directory_of_a_lot_hands_it_down_and_what_was_there_stays_outside() {
    let (store, here) = (Up::start(1), scratch());
    make(&store, "run", "4Mi");
    let source = file(here.path(), "f", b"some bytes");
    let lot_of = |path: &str| run(["stat", "--json", &store.path(path)]).done().json()["lot"].clone();
    run(["mkdir", &store.path("/full")]).done();
    run(["cp", "-q", text(&source), &store.path("/full/old")]).done();
    let said = run(["mkdir", "-p", "--lot", "run", &store.path("/full"), &store.path("/empty")]).done();
    assert!(said.err.contains("/full: files already in it stay outside lot `run`") && !said.err.contains("/empty"), "{}", said.err);
    run(["cp", "-q", text(&source), &store.path("/full/new")]).done();
    run(["mkdir", &store.path("/full/sub")]).done();
    run(["cp", "-q", text(&source), &store.path("/full/sub/new")]).done();
    assert_eq!(lot_of("/full/old"), serde_json::Value::Null);
    for path in ["/full", "/full/new", "/full/sub", "/full/sub/new", "/empty"] {
        assert_eq!(lot_of(path), "run", "{path}");
    }
    assert_eq!(show(&store, "run")["directories"], serde_json::json!(["/empty", "/full", "/full/sub"]));
    run(["mv", &store.path("/full/new"), &store.path("/new")]).failed(1, &["lot `run`", "copy it"]);
}

#[test]
fn a_lot_that_is_not_there_is_said_before_a_byte_moves() {
    let (store, here) = (Up::start(1), scratch());
    let source = file(here.path(), "f", b"some bytes");
    run(["cp", "--lot", "none", text(&source), &store.path("/f")]).failed(1, &["--lot none", "none"]);
    run(["mkdir", "--lot", "none", &store.path("/d")]).failed(1, &["--lot none"]);
    run(["cp", "--lot", "none", &store.path("/f"), text(&here.path().join("out"))]).failed(2, &["--lot", "TO is not in a store"]);
    assert_eq!(names(&store), "");
}

#[test]
fn what_a_removal_gives_back_is_there_for_the_next_copy() {
    let (store, here) = (Up::start(2), scratch());
    make(&store, "run", "12Mi");
    let source = file(here.path(), "f", &content(1, 4 << 20));
    let copy = |to: &str, more: &[&str]| run([&["cp", "-q", "--lot", "run", text(&source), &store.path(to)], more].concat());
    copy("/f", &[]).done();
    // The file, its predecessor still being removed, and the one being written take exactly the lot's size.
    (0..8).for_each(|_| _ = copy("/f", &["--force"]).done());
    copy("/g", &[]).done();
    for _ in 0..8 {
        run(["rm", &store.path("/g")]).done();
        copy("/g", &[]).done();
    }
}

//! Owners of lots.

use super::{credential_of, lot, run_as};
use crate::common::{Up, file, run, scratch, text};
use std::fs;

#[test]
fn another_owners_credential_neither_reads_nor_changes_a_lot_and_is_refused_by_name() {
    let (store, here) = (Up::start(1), scratch());
    let (ana, bob) = (credential_of(&store, "ana"), credential_of(&store, "bob"));
    let made = run_as(&store, &ana, &["lot", "create", "run", "--size", "4Mi", "--for", "2h"]).done().out;
    assert!(made.contains("for ana until"), "{made}");
    let source = file(here.path(), "f", b"ana's");
    run_as(&store, &ana, &["cp", "-q", "--lot", "run", text(&source), "thal:/f"]).done();
    let refused = ["lot `run` is `ana`'s", "`bob`"];
    for arguments in [
        &["cp", "-q", "--lot", "run", text(&source), "thal:/g"][..],
        &["mkdir", "--lot", "run", "/d"],
        &["lot", "show", "run"],
        &["lot", "renew", "run", "--for", "3h"],
        &["lot", "resize", "run", "--size", "1Mi"],
        &["lot", "rm", "run", "--files"],
        &["cat", "/f"],
        &["rm", "/f"],
    ] {
        run_as(&store, &bob, arguments).failed(1, &refused);
    }
    run_as(&store, &bob, &["lot", "create", "x", "--size", "1Mi", "--for", "1h", "--owner", "ana"]).failed(1, &["`bob`", "`ana`"]);
    assert_eq!(run_as(&store, &bob, &["lot", "ls", "--json"]).done().json()["lots"], serde_json::json!([]));
    // Names and attributes are public; the lot only appears by number.
    assert_eq!(run_as(&store, &bob, &["stat", "--json", "/f"]).done().json()["lot"], "#1");
    assert_eq!(run_as(&store, &ana, &["cat", "/f"]).done().out, "ana's");
    assert_eq!(run(["cat", &store.path("/f")]).done().out, "ana's", "the store's own credential acts for all");
    lot(&store, &["create", "hers", "--size", "1Mi", "--for", "2h", "--owner", "ana"]).done();
    run_as(&store, &ana, &["lot", "rm", "hers"]).done();
}

#[test]
fn bounds_of_an_owners_lots_stand_in_the_credential_and_are_shown_and_a_hundred_years_are_refused() {
    let (store, here) = (Up::start(1), scratch());
    let ana = here.path().join("ana.credential");
    let of_store = store.directory.path().join("store.toml");
    run(["credential", "create", "ana", "--lots", "8Mi", "--lots-for", "2h", "--output", text(&ana), "--store", text(&of_store)]).done();
    let listed = run(["credential", "ls", "--store", text(&of_store)]).done().out;
    assert!(listed.contains("ana") && listed.contains("lots up to 8 MiB in total  lots for up to 2h"), "{listed}");
    let create = |name: &str, size: &str, time: &str| run_as(&store, &ana, &["lot", "create", name, "--size", size, "--for", time]);
    create("all", "16Mi", "1h").failed(1, &["lots of `ana` may have 8 MiB together", "--lots SIZE"]);
    create("all", "1Mi", "36500d").failed(1, &["last at most 2h", "--lots-for TIME"]);
    create("run", "4Mi", "2h").done();
    run_as(&store, &ana, &["lot", "renew", "run", "--for", "3h"]).failed(1, &["last at most 2h"]);
    run_as(&store, &ana, &["lot", "resize", "run", "--size", "9Mi"]).failed(1, &["8 MiB together"]);
    // Without bounds in the credential, default bounds apply.
    let bob = credential_of(&store, "bob");
    run_as(&store, &bob, &["lot", "create", "long", "--size", "1Mi", "--for", "36500d"]).failed(1, &["last at most 30d"]);
    // A bound changed in the file is invalid: the credential proves its contents.
    let more = fs::read_to_string(&ana).unwrap().replace("lots = 8388608", "lots = 8388608000");
    fs::write(&ana, more).unwrap();
    run_as(&store, &ana, &["lot", "ls"]).failed(1, &["does not"]);
}

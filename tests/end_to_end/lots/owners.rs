//! Whose a lot is.

use super::{credential_of, lot, run_as};
use crate::common::{Up, file, run, scratch, text};

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
    // Names and attributes are for all to see; the lot has only its number.
    assert_eq!(run_as(&store, &bob, &["stat", "--json", "/f"]).done().json()["lot"], "#1");
    assert_eq!(run_as(&store, &ana, &["cat", "/f"]).done().out, "ana's");
    assert_eq!(run(["cat", &store.path("/f")]).done().out, "ana's", "the store's own credential acts for all");
    lot(&store, &["create", "hers", "--size", "1Mi", "--for", "2h", "--owner", "ana"]).done();
    run_as(&store, &ana, &["lot", "rm", "hers"]).done();
}

//! Output on lots.

use super::{lot, make, show};
use crate::common::{Up, run};

const LEVELS: [&str; 4] = ["own", "kernel", "ballast", "admission"];

#[test]
fn a_lot_that_is_made_is_shown_with_its_numbers_until_it_is_removed() {
    let store = Up::start(2);
    let made = lot(&store, &["create", "run7", "--size", "8Mi", "--for", "7d"]).done().out;
    assert!(made.starts_with("lot run7: 8 MiB for store until ") && made.contains("(in 7 d 0 h), 0 B used\nlevel "), "{made}");
    let document = show(&store, "run7");
    assert_eq!(
        (&document["schema"], &document["verdict"], &document["state"]),
        (&"thalweg.lot/1".into(), &"fine".into(), &"active".into())
    );
    assert_eq!((document["size_bytes"].as_u64(), document["promised_bytes"].as_u64()), (Some(8 << 20), Some(8 << 20)));
    let targets = document["targets"].as_array().unwrap();
    assert!(targets.len() == 2 && targets.iter().all(|target| target["share_bytes"] == 4 << 20), "{document}");
    assert!(LEVELS.contains(&document["level"].as_str().unwrap()), "{document}");

    let renewed = lot(&store, &["renew", "run7", "--for", "90min", "--json"]).done().json();
    assert!((5300..=5400).contains(&renewed["left_s"].as_i64().unwrap()), "{renewed}");
    let resized = lot(&store, &["resize", "run7", "--size", "12Mi"]).done().out;
    assert!(resized.starts_with("lot run7: 12 MiB for store until "), "{resized}");
    let shown = lot(&store, &["show", "run7"]).done().out;
    for line in ["lot run7: active, of store\n", "size      12 MiB\n", "used      0 B (0.0 %)\n", "beyond    refused (EDQUOT)\n"] {
        assert!(shown.contains(line), "expected `{line}` in: {shown}");
    }
    assert_eq!(lot(&store, &["ls", "--json"]).done().json()["lots"].as_array().unwrap().len(), 1);
    assert!(lot(&store, &["ls"]).done().out.contains("run7"));
    lot(&store, &["rm", "run7"]).done();
    lot(&store, &["show", "run7"]).failed(1, &["run7"]);
    assert_eq!(lot(&store, &["ls", "--json"]).done().json()["lots"].as_array().unwrap().len(), 0);
}

#[test]
fn df_has_a_line_for_each_lot_and_what_each_target_promises() {
    let store = Up::start(2);
    make(&store, "run", "8Mi");
    let document = run(["df", "--json", "--store", &store.address]).done().json();
    let of_lot = &document["lots"][0];
    assert_eq!((&of_lot["name"], of_lot["size_bytes"].as_u64(), of_lot["used_bytes"].as_u64()), (&"run".into(), Some(8 << 20), Some(0)));
    assert!(of_lot["until"].as_str().is_some() && LEVELS.contains(&of_lot["level"].as_str().unwrap()), "{document}");
    // All targets are on one file system here, and promises count once for it.
    for target in document["targets"].as_array().unwrap() {
        assert!(target["promised_bytes"].as_u64() >= Some(4 << 20) && LEVELS.contains(&target["level"].as_str().unwrap()), "{document}");
    }
    assert_eq!(document["in_clear"], false);
    let shown = run(["df", "--store", &store.address]).done().out;
    assert!(shown.contains("promised") && shown.contains("\nrun  ") && !shown.contains("not encrypted"), "{shown}");
}

#[test]
fn df_says_where_bytes_are_in_clear() {
    let store = Up::start_with(1, 1, &["--plain"]);
    assert!(run(["df", "--store", &store.address]).done().out.contains("not encrypted (--plain)"));
    assert_eq!(run(["df", "--json", "--store", &store.address]).done().json()["in_clear"], true);
}

#[test]
fn a_script_sees_by_the_exit_code_that_little_is_left() {
    let store = Up::start(1);
    lot(&store, &["create", "short", "--size", "1Mi", "--for", "30min"]).done();
    let said = lot(&store, &["show", "short"]);
    assert!(said.code == Some(3) && said.out.contains("warning: it ends in ") && said.out.contains("thalweg lot renew short"), "{said:?}");
    lot(&store, &["renew", "short", "--for", "2h"]).done();
    lot(&store, &["show", "short"]).done();
    lot(&store, &["renew", "short", "--for", "0"]).done();
    let said = lot(&store, &["show", "short"]);
    assert!(said.code == Some(4) && said.out.contains("warning: it has expired"), "{said:?}");
    assert_eq!(show(&store, "short")["verdict"], "expired");
}

#[test]
fn what_no_lot_can_be_is_refused_with_what_is_expected() {
    let store = Up::start(1);
    let create = |more: &[&str]| lot(&store, &[&["create"], more].concat());
    make(&store, "taken", "1Mi");
    create(&["taken", "--size", "1Mi", "--for", "1h"]).failed(1, &["`taken`"]);
    create(&["a/b", "--size", "1Mi", "--for", "1h"]).failed(2, &["`a/b` is not a name for a lot", "letters, digits"]);
    create(&["n", "--size", "0", "--for", "1h"]).failed(2, &["0 bytes", "at least 1 byte"]);
    create(&["n", "--size", "9223372036854775808", "--for", "1h"]).failed(2, &["--size", "above the largest size"]);
    create(&["n", "--size", "1Mi", "--for", "0"]).failed(2, &["--for 7d"]);
    create(&["n", "--size", "1Mi", "--for", "7"]).failed(2, &["--for", "with the unit"]);
    create(&["n", "--size", "1Mi", "--for", "101d", "--targets", "7"]).failed(2, &["no target 7", "0"]);
    create(&["n", "--size", "1Mi", "--for", "40000d"]).failed(2, &["at most 100 years"]);
    let none = i32::MAX.to_string();
    create(&["n", "--size", "1Mi", "--for", "1h", "--while", &none]).failed(1, &["--while", "cannot wait for this process"]);
    // More than is available, with the numbers.
    create(&["n", "--size", "4Ei", "--for", "1h"]).failed(1, &["lot `n` of 4 EiB does not fit", "free"]);
    assert_eq!(lot(&store, &["ls", "--json"]).done().json()["lots"].as_array().unwrap().len(), 1, "nothing is left of what was refused");
}

#[test]
fn a_job_cannot_be_waited_for_where_slurm_is_not() {
    let store = Up::start(1);
    let create = ["lot", "create", "n", "--size", "1Mi", "--for", "1h", "--job", "7", "--store", &store.address];
    let said: crate::common::CommandOutput = {
        use crate::bounded::Bounded;
        crate::common::thalweg(create).env("PATH", "/nowhere").output_in_time().unwrap().into()
    };
    said.failed(1, &["--job 7", "squeue is not on this machine"]);
    lot(&store, &["show", "n"]).failed(1, &["n"]);
}

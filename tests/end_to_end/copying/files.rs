//! Copies into, out of and between stores, through pipes and of directories; names, layouts and the output of `ls`, `stat` and `df` on
//! them.

use crate::bounded::{Bounded, BoundedChild, LIMIT};
use crate::common::{Up, content, file, run, scratch, text, thalweg};
use std::io::Write;
use std::process::Stdio;

const LAYOUTS: [&str; 5] = [
    "basic_dist",
    "simple_stripe",
    "simple_stripe,strip_size=4097",
    "varstrip_dist,strips=0:2K;1:1K;2:4K;0:1K",
    "twod_stripe,num_groups=2,strip_size=64Ki,group_strip_factor=2",
];

#[test]
fn files_of_every_size_and_layout_come_out_as_they_went_in() {
    let store = Up::start(4);
    let here = scratch();
    for (i, layout) in LAYOUTS.iter().enumerate() {
        for size in [0, 1, 4096, 65_536, 65_537, 1_048_577, 5_000_011] {
            let bytes = content(size as u64 + i as u64, size);
            let source = file(here.path(), "source", &bytes);
            let target = store.path(&format!("/{i}-{size}"));
            run(["cp", "--quiet", "--layout", layout, text(&source), &target]).done();
            let out = here.path().join("out");
            run(["cp", "--quiet", "--force", &target, text(&out)]).done();
            assert!(std::fs::read(&out).unwrap() == bytes, "{layout}, {size} bytes");
        }
    }
}

#[test]
fn every_way_to_cut_a_copy_up_gives_the_same_bytes() {
    let store = Up::start_with(2, 2, &[]);
    let here = scratch();
    let bytes = content(7, 12_345_678);
    let source = file(here.path(), "source", &bytes);
    let out = here.path().join("out");
    for (i, flags) in [
        &["--request", "10Mi", "--requests", "1"][..],
        &["--request", "1Mi", "--requests", "8"],
        &["--buffer", "64Ki", "--depth", "16"],
        &["--streams", "3", "--depth", "1"],
        &["--request", "100000", "--buffer", "30000", "--requests", "3"],
        &["--sync"],
        &["--data-path", "buffered", "--requests", "4"],
        &["--data-path", "direct", "--request", "3Mi", "--requests", "4", "--socket-buffer", "64Ki"],
    ]
    .iter()
    .enumerate()
    {
        let target = store.path(&format!("/{i}"));
        run([&["cp", "--quiet"], *flags, &[text(&source), &target]].concat()).done();
        run([&["cp", "--quiet", "--force"], *flags, &[&target, text(&out)]].concat()).done();
        assert!(std::fs::read(&out).unwrap() == bytes, "{flags:?}");
    }
}

#[test]
fn a_pipe_goes_in_and_comes_out() {
    let store = Up::start(3);
    let bytes = content(1, 3_000_001);
    let target = store.path("/piped");
    let mut child = thalweg(["cp", "--quiet", "-", &target]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(child.wait_in_time(LIMIT).unwrap().success());
    for verb in [&["cp", "--quiet", &target, "-"][..], &["cat", &target]] {
        let out = thalweg(verb).output_in_time().unwrap();
        assert!(out.status.success() && out.stdout == bytes, "{verb:?}");
    }
}

#[test]
fn a_file_goes_from_store_to_store() {
    let (one, other) = (Up::start(2), Up::start(3));
    let here = scratch();
    let bytes = content(2, 4_000_003);
    let source = file(here.path(), "source", &bytes);
    run(["cp", "--quiet", text(&source), &one.path("/a")]).done();
    run(["cp", "--quiet", &one.path("/a"), &other.path("/b")]).done();
    assert!(thalweg(["cat", &other.path("/b")]).output_in_time().unwrap().stdout == bytes);
}

#[test]
fn a_tree_goes_in_and_comes_out_with_its_workers() {
    let store = Up::start(4);
    let here = scratch();
    let tree = here.path().join("tree");
    for directory in ["", "a", "a/b", "empty"] {
        std::fs::create_dir(tree.join(directory)).unwrap();
    }
    for i in 0..40 {
        let place = ["", "a", "a/b"][i % 3];
        file(&tree.join(place), &format!("file {i}"), &content(i as u64, i * 1000));
    }
    run(["cp", "--quiet", "-r", "--workers", "3", text(&tree), &store.path("/tree")]).done();
    run(["cp", "--quiet", "-r", &store.path("/tree"), text(&here.path().join("back"))]).done();
    let back = here.path().join("back");
    assert!(back.join("empty").is_dir());
    for i in 0..40 {
        let place = ["", "a", "a/b"][i % 3];
        assert!(std::fs::read(back.join(place).join(format!("file {i}"))).unwrap() == content(i as u64, i * 1000), "file {i}");
    }
}

#[test]
fn a_slash_at_the_end_means_into_that_directory() {
    let store = Up::start(2);
    let here = scratch();
    let source = file(here.path(), "source", b"abc");
    run(["mkdir", &store.path("/d")]).done();
    run(["cp", "--quiet", text(&source), &store.path("/d/")]).done();
    assert_eq!(run(["ls", &store.path("/d")]).done().out, "source\n");
    std::fs::create_dir(here.path().join("out")).unwrap();
    run(["cp", "--quiet", &store.path("/d/source"), &format!("{}/out/", text(here.path()))]).done();
    assert_eq!(std::fs::read(here.path().join("out/source")).unwrap(), b"abc");
    run(["cp", "--quiet", "-r", &store.path("/d"), &format!("{}/out/", text(here.path()))]).done();
    assert_eq!(std::fs::read(here.path().join("out/d/source")).unwrap(), b"abc");
    run(["cp", "--quiet", "-", &store.path("/d/")]).failed(2, &["/d/", "name"]);
}

#[test]
fn control_runs_need_no_file() {
    let store = Up::start(4);
    run(["cp", "--quiet", "--source", "memory:8Mi", &store.path("/made")]).done();
    let stat = run(["stat", "--json", &store.path("/made")]).done().json();
    assert_eq!(stat["size_bytes"], 8 << 20);
    let said = run(["cp", "--quiet", "--json", "--sink", "null", &store.path("/made")]).done().json();
    assert_eq!(said["size_bytes"], 8 << 20);
    assert!(said["rate_bytes_per_s"].as_f64().is_some_and(|rate| rate > 0.0));
}

#[test]
fn names_are_listed_made_moved_and_removed() {
    let store = Up::start(2);
    let here = scratch();
    let source = file(here.path(), "source", b"0123456789");
    run(["mkdir", &store.path("/d")]).done();
    run(["mkdir", "-p", &store.path("/d/e/f")]).done();
    run(["mkdir", &store.path("/d")]).failed(1, &["/d", "exists"]);
    run(["cp", "--quiet", text(&source), &store.path("/d/one")]).done();
    assert_eq!(run(["ls", &store.path("/d")]).done().out, "e\none\n");
    let long = run(["ls", "-l", "--json", &store.path("/d")]).done().json();
    assert_eq!(long["entries"][1]["name"], "one");
    assert_eq!(long["entries"][1]["size_bytes"], 10);
    let mode = long["entries"][1]["mode"].as_str().expect("a mode as text");
    assert!(mode.starts_with("-rw"), "not executable, not for everybody to write: {mode}");
    run(["mv", &store.path("/d/one"), &store.path("/d/e/two")]).done();
    assert_eq!(run(["ls", &store.path("/d/e")]).done().out, "f\ntwo\n");
    run(["ls", &store.path("/d/one")]).failed(1, &["/d/one"]);
    run(["rm", &store.path("/d")]).failed(1, &["/d", "directory"]);
    run(["rm", "-r", &store.path("/d")]).done();
    run(["ls", &store.path("/d")]).failed(1, &["/d"]);
    run(["rm", &store.path("/d")]).failed(1, &["/d"]);
    run(["rm", "-f", &store.path("/d")]).done();
    assert_eq!(run(["ls", &store.path("/")]).done().out, "");
}

#[test]
fn paths_without_an_address_mean_the_store_of_the_environment_or_the_flag() {
    let store = Up::start(2);
    let here = scratch();
    let source = file(here.path(), "source", b"abc");
    run(["cp", "--quiet", "--store", &store.address, text(&source), "thal:/x"]).done();
    assert_eq!(run(["ls", "--store", &store.address, "/"]).done().out, "x\n");
    let said = thalweg(["cat", "/x"]).env("THALWEG_STORE", &store.address).output_in_time().unwrap();
    assert_eq!(said.stdout, b"abc");
    run(["ls", "/"]).failed(2, &["THALWEG_STORE", "--store"]);
}

#[test]
fn df_shows_every_target() {
    let store = Up::start_with(2, 3, &[]);
    let df = run(["df", "--json", &store.address]).done().json();
    let targets = df["targets"].as_array().expect("targets");
    assert_eq!(targets.len(), 6);
    assert!(targets.iter().all(|t| t["total_bytes"].as_u64().is_some_and(|b| b > 0)), "{df}");
    assert!(run(["df", &store.address]).done().out.lines().count() >= 7);
}

#[test]
fn layout_show_says_how_many_bytes_each_datafile_has() {
    let store = Up::start(4);
    let here = scratch();
    let source = file(here.path(), "source", &content(3, 266_240));
    let target = store.path("/f");
    run(["cp", "--quiet", "--layout", "simple_stripe,strip_size=64Ki", "--place", "round-robin:0", text(&source), &target]).done();
    let shown = run(["layout", "show", "--json", &target]).done().json();
    assert_eq!(shown["distribution"], "simple_stripe");
    let datafiles = shown["datafiles"].as_array().expect("datafiles");
    let sizes: Vec<u64> = datafiles.iter().filter_map(|d| d["size_bytes"].as_u64()).collect();
    assert_eq!(sizes, [69_632, 65_536, 65_536, 65_536]);
    let servers: std::collections::BTreeSet<&str> = datafiles.iter().filter_map(|d| d["server"].as_str()).collect();
    assert_eq!(servers.len(), 4, "{shown}");
    assert!(run(["layout", "show", &target]).done().out.contains("69632"));
}

#[test]
fn layout_map_says_where_each_range_is() {
    let store = Up::start(4);
    let here = scratch();
    let source = file(here.path(), "source", &content(3, 266_240));
    let target = store.path("/f");
    run(["cp", "--quiet", "--layout", "simple_stripe,strip_size=64Ki", "--place", "targets:3,2,1,0", text(&source), &target]).done();
    let map = run(["layout", "map", "--json", &target]).done().json();
    let ranges = map["ranges"].as_array().expect("ranges");
    let row = |i: usize| {
        ["offset_bytes", "size_bytes", "datafile", "target", "physical_offset_bytes"].map(|k| ranges[i][k].as_u64().expect("a number"))
    };
    assert_eq!(ranges.len(), 5);
    assert_eq!(row(0), [0, 65_536, 0, 3, 0]);
    assert_eq!(row(3), [196_608, 65_536, 3, 0, 0]);
    assert_eq!(row(4), [262_144, 4096, 0, 3, 65_536]);
    let part = run(["layout", "map", "--json", "--offset", "100", "--size", "65536", &target]).done().json();
    assert_eq!(part["ranges"].as_array().map(Vec::len), Some(2), "{part}");
    assert!(run(["layout", "map", &target]).done().out.lines().count() >= 6);
}

#[test]
fn a_store_taken_down_and_brought_up_again_has_its_files() {
    let directory = scratch();
    let here = scratch();
    let bytes = content(4, 2_000_000);
    let source = file(here.path(), "source", &bytes);
    let up = || {
        let mut process = crate::common::Running::start(thalweg(["up", "--print-address", "--servers", "3", text(directory.path())]));
        let address = process.line();
        assert!(address.starts_with("thal://"), "{address}");
        (process, address)
    };
    let (first, address) = up();
    run(["cp", "--quiet", "--sync", text(&source), &format!("{address}/kept")]).done();
    drop(first);
    let (_second, address) = up();
    assert!(thalweg(["cat", &format!("{address}/kept")]).output_in_time().unwrap().stdout == bytes);
}

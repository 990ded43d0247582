//! Listing, finding, summing and removing whole trees: the effect of each flag, on real stores.

use crate::bounded::{Bounded, BoundedChild, LIMIT, rest};
use crate::common::{CommandOutput, THALWEG, Up, content, file, run, scratch, skipped, text, thalweg};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Creates a local tree: files of `i` times 1000 bytes, directories, a hidden one, an empty one, dangling links and cycles.
fn tree(here: &Path) -> std::path::PathBuf {
    let root = here.join("tree");
    for directory in ["a/b/c", ".hidden/below", "empty"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for i in 1..=30 {
        file(&root.join("a"), &format!("f{i}"), &content(i, i as usize * 1000));
    }
    file(&root.join("a/b"), "x.txt", b"hello");
    file(&root, "none", b"");
    for (link, target) in [("a/up", ".."), ("one", "two"), ("two", "one"), ("nowhere", "not there")] {
        std::os::unix::fs::symlink(target, root.join(link)).unwrap();
    }
    root
}

/// Starts a store with the tree in `/t`.
fn store_with_tree() -> Up {
    let store = Up::start(3);
    let here = scratch();
    run(["cp", "-r", "--quiet", text(&tree(here.path())), &store.path("/t")]).done();
    store
}

/// Runs a verb with the store's paths without an address.
fn say(store: &Up, arguments: &[&str]) -> CommandOutput {
    thalweg(arguments).env("THALWEG_STORE", &store.address).output_in_time().expect("the command starts").into()
}

fn names(said: &CommandOutput) -> Vec<&str> {
    said.out.lines().filter_map(|line| line.split_ascii_whitespace().nth(5)).collect()
}

#[test]
fn a_listing_is_in_the_order_and_form_that_was_asked_for() {
    let store = store_with_tree();
    assert_eq!(say(&store, &["ls", "/t"]).done().out, "a\nempty\nnone\nnowhere\none\ntwo\n");
    assert_eq!(say(&store, &["ls", "-a", "/t"]).done().out, ".hidden\na\nempty\nnone\nnowhere\none\ntwo\n");
    assert_eq!(say(&store, &["ls", "-r", "/t"]).done().out, "two\none\nnowhere\nnone\nempty\na\n");
    let long = say(&store, &["ls", "-l", "/t"]).done();
    assert!(long.out.contains(" -> not there\n") && long.out.lines().count() == 6, "{}", long.out);
    let by_size = say(&store, &["ls", "-lS", "/t/a"]).done();
    assert_eq!(names(&by_size)[..3], ["f30", "f29", "f28"]);
    assert_eq!(names(&by_size)[29..30], ["f1"]);
    let smallest = say(&store, &["ls", "-lSr", "/t/a"]).done();
    assert_eq!(names(&smallest).iter().rev().copied().collect::<Vec<_>>(), names(&by_size));
    assert!(say(&store, &["ls", "-lh", "/t/a/f30"]).done().out.contains(" 30K "));
    assert_eq!(say(&store, &["ls", "-d", "/t"]).done().out, "/t\n");
    // Sizes are equal whichever server is queried.
    for mode in ["none", "statahead", "glimpse-ahead", "metadata"] {
        let listed = say(&store, &["ls", "-lU", "--mode", mode, "--window", "7", "/t/a"]).done();
        for i in 1..=30 {
            let line = listed.out.lines().find(|line| line.ends_with(&format!(" f{i}"))).unwrap_or_else(|| panic!("{}", listed.out));
            assert_eq!(line.split_ascii_whitespace().nth(3), Some((i * 1000).to_string().as_str()), "{mode}: {line}");
        }
    }
    // Files before directories, each of these under its name; a missing one does not stop the others.
    let several = say(&store, &["ls", "/t/empty", "/t/missing", "/t/none", "/t/a/b"]);
    assert_eq!(several.out, "/t/none\n\n/t/empty:\n\n/t/a/b:\nc\nx.txt\n");
    several.failed(1, &["/t/missing"]);
}

#[test]
fn a_recursive_listing_has_every_directory_once_and_follows_no_link() {
    let store = store_with_tree();
    let listed = say(&store, &["ls", "-R", "/t"]).done().out;
    let headings: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(':')).collect();
    assert_eq!(headings, ["/t", "/t/a", "/t/a/b", "/t/a/b/c", "/t/empty"]);
    let all = say(&store, &["ls", "-aRS", "/t"]).done().out;
    assert!(all.contains("\n/t/.hidden:\nbelow\n\n/t/.hidden/below:\n\n/t/a:\nf30\nf29\n"), "{all}");
    // As `ls` lists the same tree.
    let here = scratch();
    let local = tree(here.path());
    let theirs = Command::new("ls").args(["-R", "."]).current_dir(&local).env("LC_ALL", "C").output_in_time().unwrap();
    let theirs = String::from_utf8(theirs.stdout).unwrap().replace("./", "/t/").replacen(".:", "/t:", 1);
    assert_eq!(listed, theirs);
}

#[test]
fn documents_are_json_whatever_was_asked_for_and_whatever_went_wrong() {
    let store = store_with_tree();
    for flags in [&[][..], &["-l"], &["-lR"], &["-lS"], &["-aRt"], &["-l", "--mode", "none"]] {
        let document = say(&store, &[&["ls", "--json"], flags, &["/t/a"]].concat()).done().json();
        assert_eq!((document["schema"].as_str(), document["path"].as_str()), (Some("thalweg.ls/1"), Some("/t/a")));
        assert!(document["entries"].as_array().is_some_and(|entries| entries.len() >= 32), "{flags:?}: {document}");
    }
    let long = say(&store, &["ls", "-l", "--json", "/t"]).done().json();
    let entry = |name: &str| long["entries"].as_array().unwrap().iter().find(|e| e["name"] == name).unwrap().clone();
    assert_eq!(entry("nowhere")["target"], "not there");
    assert_eq!((&entry("none")["size_bytes"], entry("a").get("size_bytes")), (&serde_json::json!(0), None));
    let empty = say(&store, &["ls", "--json", "/t/empty"]).done().json();
    assert_eq!(empty["entries"], serde_json::json!([]));
    // With -U one object per line, with the directory of each if there are several.
    let lines = say(&store, &["ls", "-lUR", "--json", "/t"]).done().out;
    let objects: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(objects.iter().any(|o| o["name"] == "x.txt" && o["directory"] == "/t/a/b" && o["size_bytes"] == 5), "{lines}");
    let du = say(&store, &["du", "--json", "-a", "/t", "/missing"]);
    assert_eq!(du.json()["schema"], "thalweg.du/1");
    assert!(du.json()["errors"][0].as_str().is_some_and(|error| error.contains("/missing")), "{}", du.out);
    du.failed(1, &["/missing"]);
}

#[test]
fn targets_of_many_links_cost_no_round_trip_each() {
    let store = Up::start(2);
    let here = scratch();
    let root = here.path().join("links");
    std::fs::create_dir(&root).unwrap();
    (0..500).for_each(|i| std::os::unix::fs::symlink(format!("target-{i}"), root.join(format!("link-{i}"))).unwrap());
    run(["cp", "-r", "--quiet", text(&root), &store.path("/links")]).done();
    let listed = say(&store, &["ls", "-l", "--counters", "/links"]).done();
    assert_eq!(listed.out.lines().filter(|line| line.contains(" -> target-")).count(), 500);
    let requests = |said: &CommandOutput| said.err.split(" requests").next().and_then(|text| text.rsplit(' ').next()?.parse::<u64>().ok());
    assert!(requests(&listed).is_some_and(|requests| requests < 50), "{}", listed.err);
}

#[test]
fn conditions_find_what_they_say() {
    let store = store_with_tree();
    let found = |conditions: &[&str]| {
        let said = say(&store, &[&["find", "/t"], conditions].concat()).done();
        said.out.lines().map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let set = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<String>>();
    assert_eq!(found(&["-name", "x*"]), set(&["/t/a/b/x.txt"]));
    assert_eq!(found(&["--iname", "X.TXT"]), set(&["/t/a/b/x.txt"]));
    assert_eq!(found(&["-path", "*/b/*"]), set(&["/t/a/b/x.txt", "/t/a/b/c"]));
    assert_eq!(found(&["-type", "d"]), set(&["/t", "/t/a", "/t/a/b", "/t/a/b/c", "/t/empty", "/t/.hidden", "/t/.hidden/below"]));
    assert_eq!(found(&["-type", "l"]), set(&["/t/a/up", "/t/one", "/t/two", "/t/nowhere"]));
    assert_eq!(found(&["-empty"]), set(&["/t/none", "/t/empty", "/t/a/b/c", "/t/.hidden/below"]));
    assert_eq!(found(&["-size", "+28k"]), set(&["/t/a/f29", "/t/a/f30"]));
    assert_eq!(found(&["-size", "+28k", "-name", "*9"]), set(&["/t/a/f29"]));
    assert_eq!(found(&["-size", "5c"]), set(&["/t/a/b/x.txt"]));
    assert_eq!(found(&["-maxdepth", "0"]), set(&["/t"]));
    assert_eq!(found(&["-maxdepth", "1", "-empty"]), set(&["/t/none", "/t/empty"]));
    assert_eq!(found(&["-mindepth", "3"]), set(&["/t/a/b/x.txt", "/t/a/b/c"]));
    assert_eq!(found(&["-mtime", "+0"]), set(&[]));
    assert_eq!(found(&["-mmin", "-60", "-maxdepth", "0"]), set(&["/t"]));
    assert_eq!(
        found(&["-newer", "/t", "-name", "none"]).len() + found(&["-name", "none"]).len(),
        1 + found(&["-newer", "/t", "-name", "none"]).len()
    );
    // The names and kinds that a shell's own find finds in the same tree.
    let here = scratch();
    let local = tree(here.path());
    for conditions in [&["-type", "f"][..], &["-name", "f1*"], &["-maxdepth", "2", "-type", "d"], &["-mindepth", "2", "-name", "*"]] {
        let theirs = Command::new("find").arg(".").args(conditions).current_dir(&local).output_in_time().unwrap();
        let theirs = String::from_utf8(theirs.stdout).unwrap();
        let theirs: BTreeSet<String> = theirs.lines().map(|path| path.replacen('.', "/t", 1)).collect();
        assert_eq!(found(conditions), theirs, "{conditions:?}");
    }
    let described = say(&store, &["find", "/t/a/b", "-ls"]).done().out;
    assert!(described.lines().any(|line| line.contains(" 5 ") && line.ends_with(" /t/a/b/x.txt")), "{described}");
    say(&store, &["find", "/t", "-size", "big"]).failed(2, &["--size"]);
    say(&store, &["find", "/t", "!", "-name", "x"]).failed(2, &["!"]);
    say(&store, &["find", "/t", "-newer", "/missing"]).failed(1, &["/missing"]);
}

#[test]
fn what_is_found_can_be_removed_and_directories_go_after_what_is_in_them() {
    let store = store_with_tree();
    say(&store, &["find", "/t", "-name", "f1*", "-delete"]).done();
    let left = say(&store, &["ls", "/t/a"]).done().out;
    assert_eq!(left.lines().count(), 30 - 11 + 2, "{left}");
    // Empty directories, and those that become empty.
    say(&store, &["find", "/t", "-type", "d", "-empty", "-delete", "-print"]).done();
    assert_eq!(say(&store, &["ls", "-a", "/t"]).done().out, "a\nnone\nnowhere\none\ntwo\n");
    // A non-empty directory stays and is reported; the rest is removed.
    say(&store, &["find", "/t", "-type", "d", "-delete"]).failed(1, &["/t/a/b", "not empty"]);
    say(&store, &["find", "/t", "-delete"]).done();
    assert_eq!(say(&store, &["ls", "/"]).done().out, "");
}

#[test]
fn sums_are_those_of_the_files() {
    let store = store_with_tree();
    let apparent: u64 = (1..=30).sum::<u64>() * 1000;
    let sum = |arguments: &[&str]| say(&store, arguments).done().out;
    assert_eq!(sum(&["du", "-sb", "/t"]), format!("{}\t/t\n", apparent + 5));
    assert_eq!(sum(&["du", "-b", "/t/a/b"]), "0\t/t/a/b/c\n5\t/t/a/b\n");
    assert_eq!(sum(&["du", "-b", "-d", "1", "/t"]), format!("0\t/t/.hidden\n{}\t/t/a\n0\t/t/empty\n{}\t/t\n", apparent + 5, apparent + 5));
    assert_eq!(sum(&["du", "-bc", "/t/none", "/t/a/b/x.txt"]), "0\t/t/none\n5\t/t/a/b/x.txt\n5\ttotal\n");
    assert!(sum(&["du", "-a", "-b", "/t/a"]).contains("30000\t/t/a/f30\n"));
    // The targets' file systems allocate at least the bytes, in whole blocks.
    let taken: u64 = sum(&["du", "-s", "/t"]).split('\t').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(taken * 1024 >= apparent && taken * 1024 < 2 * apparent + (30 << 14), "{taken} KiB for {apparent} bytes");
    assert!(sum(&["du", "-sh", "/t"]).contains("K\t/t"));
}

#[test]
fn a_tree_is_removed_with_all_that_is_in_it_and_nothing_else() {
    let store = store_with_tree();
    say(&store, &["mkdir", "-p", "/u/v", "/keep"]).done();
    say(&store, &["rm", "-r", "/"]).failed(2, &["--no-preserve-root"]);
    say(&store, &["rm", "/t/none", "/t/a", "/missing", "/t/one"]).failed(1, &["/t/a: is a directory", "/missing"]);
    assert_eq!(say(&store, &["ls", "/t"]).done().out, "a\nempty\nnowhere\ntwo\n");
    say(&store, &["rm", "-rf", "/t", "/u", "/missing"]).done();
    assert_eq!(say(&store, &["ls", "/"]).done().out, "keep\n");
    say(&store, &["rm", "-r", "--no-preserve-root", "/"]).done();
    assert_eq!(say(&store, &["ls", "-a", "/"]).done().out, "");
    // More names than fit in one request, and nested directories.
    let deep: Vec<String> =
        (0..1500).map(|i| format!("/many/{}/{}", i % 7, i)).chain((1..300).map(|i| format!("/deep{}", "/d".repeat(i)))).collect();
    let arguments: Vec<&str> = ["mkdir", "-p"].into_iter().chain(deep.iter().map(String::as_str)).collect();
    say(&store, &arguments).done();
    say(&store, &["rm", "-r", "/many", "/deep"]).done();
    assert_eq!(say(&store, &["ls", "-a", "/"]).done().out, "");
}

#[test]
fn a_recorded_listing_says_where_its_time_went() {
    let store = store_with_tree();
    let here = scratch();
    let recording = here.path().join("walk.thw");
    let listed = say(&store, &["ls", "-lR", "--record", text(&recording), "/t"]).done();
    assert!(listed.out.contains("x.txt"));
    let explained = run(["explain", "--json", text(&recording)]).done().json();
    let shares: f64 = explained["critical_path"].as_array().unwrap().iter().filter_map(|e| e["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 0.001, "{shares}");
    let said = say(&store, &["du", "-s", "--explain", "/t"]).done();
    assert!(said.out.ends_with("\t/t\n") && is_titled(&said.err, "du"), "{}{}", said.out, said.err);
    let said = say(&store, &["ls", "-l", "--json", "--explain", "/t"]).done().json();
    assert_eq!(said["schema"], "thalweg.explain/1");
    let said = say(&store, &["rm", "-r", "--explain", "/t"]).done();
    assert!(is_titled(&said.err, "rm") && said.err.lines().count() <= 15, "{}", said.err);
    say(&store, &["ls", "--record", text(&recording), "/"]).failed(1, &["walk.thw"]);
}

/// Returns whether an explanation starts with `thalweg VERB ... /t`, with any options omitted, and then gives the number of entries.
fn is_titled(explanation: &str, verb: &str) -> bool {
    let title = explanation.lines().find_map(|line| line.split_once(": ").filter(|(_, about)| about.contains("entries in")));
    title.is_some_and(|(command, _)| command.starts_with(&format!("thalweg {verb} ")) && command.ends_with(" t"))
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_listing_quietly() {
    let store = Up::start(1);
    // More than a pipe holds.
    let names: Vec<String> = (0..2000).map(|i| format!("/{i:0200}")).collect();
    let arguments: Vec<&str> = ["mkdir"].into_iter().chain(names.iter().map(String::as_str)).collect();
    say(&store, &arguments).done();
    for flags in [&["ls", "-U", "/"][..], &["ls", "-l", "/"], &["ls", "--json", "/"], &["find", "/"], &["du", "/"]] {
        let mut command = thalweg(flags);
        command.env("THALWEG_STORE", &store.address).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(!line.is_empty() && child.try_wait().unwrap().is_none(), "the first line is there before the last: {flags:?}");
        drop(out);
        let said = rest(child.stderr.take().unwrap());
        let status = child.wait_in_time(LIMIT).unwrap();
        // Like `ls | head -1` and all programs that do not handle the signal.
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGPIPE), "{flags:?}: {said}");
        assert_eq!(said, "", "{flags:?}");
    }
}

#[test]
fn a_terminal_is_shown_columns_and_no_control_characters() {
    if Command::new("script").arg("--version").output_in_time().is_err() {
        return skipped("script (package bsdutils) is not there to make a terminal");
    }
    let store = Up::start(1);
    say(&store, &["mkdir", "/a", "/b", "/c", "/evil\x1b[2J\n"]).done();
    let shown = |flags: &str| {
        let mut command = Command::new("script");
        command.args(["-qefc", &format!("exec {THALWEG} ls {flags} {}", store.path("/")), "/dev/null"]);
        let out = command.env("COLUMNS", "60").env("SHELL", "/bin/sh").stdin(Stdio::null()).output_in_time().unwrap();
        String::from_utf8(out.stdout).unwrap().replace('\r', "")
    };
    assert_eq!(shown(""), "a  b  c  evil\\x1b[2J\\n\n");
    assert_eq!(shown("-1"), "a\nb\nc\nevil\\x1b[2J\\n\n");
    // A pipe gets the names unchanged.
    assert_eq!(say(&store, &["ls", "/"]).done().out, "a\nb\nc\nevil\x1b[2J\n\n");
    assert_eq!(say(&store, &["ls", "-b", "/"]).done().out, "a\nb\nc\nevil\\x1b[2J\\n\n");
}

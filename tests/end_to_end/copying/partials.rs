//! Leftovers of killed copies: reported, removed on request, and nothing else with them.

use crate::common::{Running, Servers, content, file, run, scratch, stored_bytes, text, thalweg, wait_until};
use std::io::Write;
use std::process::Stdio;

/// Starts a copy from a pipe, with these bytes written and more expected.
fn begun(store: &str, name: &str, bytes: &[u8]) -> Running {
    let mut command = thalweg(["cp", "-q", "--request", "64Ki", "--store", store, "-", &format!("thal:/{name}")]);
    command.stdin(Stdio::piped());
    let mut copy = Running::start(command);
    copy.child().stdin.as_mut().unwrap().write_all(bytes).unwrap();
    copy
}

fn partials(store: &str) -> serde_json::Value {
    run(["df", "--json", "--store", store]).done().json()["partials"].clone()
}

fn listed(store: &str) -> Vec<String> {
    run(["ls", "--store", store, "/"]).done().out.lines().map(str::to_owned).collect()
}

#[test]
fn what_a_killed_copy_leaves_is_told_and_removed_and_no_other_partial_is_touched_not_even_over_a_restart() {
    let (mut servers, here) = (Servers::start(2), scratch());
    let store = text(&servers.store).to_owned();
    let half = content(1, 1 << 20);
    let mut killed = begun(&store, "big", &half);
    let mut live = begun(&store, "live", &half);
    let own = file(here.path(), "own", b"a person's own");
    run(["cp", "-q", "--store", &store, text(&own), "thal:/x.partial"]).done();
    // Everything that the copies were given is at the servers.
    wait_until("both copies have stored what they have", || stored_bytes(servers.directory()) >= 2 * half.len() as u64);
    killed.kill();
    wait_until("the copy counts as gone", || partials(&store)["abandoned"] == 1);
    let told = partials(&store);
    assert_eq!((&told["writing"], told["abandoned_bytes"].as_u64() >= Some(1 << 20)), (&1.into(), true), "{told}");
    let said = run(["df", "--store", &store]).done().out;
    assert!(said.contains("1 partial copy of clients that are gone, 1 MiB") && said.contains("1 partial copy being written"), "{said}");

    // A day is the default age; and a dry run removes nothing.
    assert_eq!(run(["rm", "--partials", "--store", &store]).done().out, "");
    let would = run(["rm", "--partials", "-n", "--older-than", "0s", "--store", &store]).done().out;
    assert!(would.starts_with("/big.partial: 1 MiB, abandoned ") && would.lines().count() == 1, "{would}");
    assert_eq!(run(["rm", "--partials", "--older-than", "0s", "--store", &store, "/elsewhere"]).done().out, "");
    assert_eq!(listed(&store), ["big.partial", "live.partial", "x.partial"]);

    servers.kill("metadata");
    servers.serve("metadata");
    let told = partials(&store);
    assert_eq!((&told["abandoned"], &told["writing"]), (&1.into(), &1.into()), "{told}");
    let before = stored_bytes(servers.directory());
    let removed = run(["rm", "--partials", "--older-than", "0s", "--store", &store]).done().out;
    assert!(removed.starts_with("/big.partial: ") && removed.ends_with(": removed\n") && removed.lines().count() == 1, "{removed}");
    assert_eq!(listed(&store), ["live.partial", "x.partial"]);
    wait_until("its datafiles are gone", || stored_bytes(servers.directory()) <= before - half.len() as u64);

    // The copy that kept running completes undisturbed.
    live.child().stdin.as_mut().unwrap().write_all(b"the end").unwrap();
    drop(live.child().stdin.take());
    assert_eq!(live.wait(), Some(0));
    let out = here.path().join("out");
    run(["cp", "-q", "--store", &store, "thal:/live", text(&out)]).done();
    assert_eq!(std::fs::read(&out).unwrap(), [&half[..], b"the end"].concat());
    assert_eq!(run(["cat", "--store", &store, "/x.partial"]).done().out, "a person's own");
    let told = partials(&store);
    assert_eq!((&told["abandoned"], &told["writing"]), (&0.into(), &0.into()), "{told}");
}

#[test]
fn a_file_that_no_copy_made_is_not_replaced_by_a_copy_that_would_have_its_name_meanwhile() {
    let (servers, here) = (Servers::start(1), scratch());
    let store = text(&servers.store).to_owned();
    let (own, new) = (file(here.path(), "own", b"a person's own"), file(here.path(), "new", b"new"));
    run(["cp", "-q", "--store", &store, text(&own), "thal:/x.partial"]).done();
    run(["cp", "-q", "-f", "--store", &store, text(&new), "thal:/x"]).failed(1, &["x.partial", "not made by a copy"]);
    std::fs::create_dir(here.path().join("tree")).unwrap();
    file(&here.path().join("tree"), "x", b"new");
    file(&here.path().join("tree"), "y", b"y");
    run(["cp", "-q", "-r", "-f", "--store", &store, text(&here.path().join("tree")), "thal:/"]).done();
    run(["mv", "--store", &store, "/x.partial", "/tree/x.partial"]).done();
    run(["cp", "-q", "-r", "-f", "--store", &store, text(&here.path().join("tree")), "thal:/"]).failed(1, &["x.partial"]);
    assert_eq!(run(["cat", "--store", &store, "/tree/x.partial"]).done().out, "a person's own");
    assert_eq!(run(["cat", "--store", &store, "/tree/y"]).done().out, "y");
}

#[test]
fn what_a_killed_copy_left_is_begun_anew_by_the_next_and_kept_by_whoever_renames_it() {
    let servers = Servers::start(1);
    let store = text(&servers.store).to_owned();
    for name in ["again", "kept"] {
        let mut copy = begun(&store, name, &content(2, 1 << 20));
        wait_until("the copy has begun", || listed(&store).contains(&format!("{name}.partial")));
        copy.kill();
    }
    wait_until("both count as gone", || partials(&store)["abandoned"] == 2);
    run(["mv", "--store", &store, "/kept.partial", "/kept"]).done();
    assert_eq!(partials(&store)["abandoned"], 1);
    run(["cp", "-q", "--source", "memory:3Mi", "--store", &store, "thal:/again"]).done();
    assert_eq!(partials(&store)["abandoned"], 0);
    run(["rm", "--partials", "--older-than", "0s", "--store", &store]).done();
    assert_eq!(listed(&store), ["again", "kept"]);
}

#[test]
fn what_was_beside_a_local_copy_is_named_and_left_alone_and_what_a_killed_one_left_is_not_in_the_way() {
    let (servers, here) = (Servers::start(1), scratch());
    let store = text(&servers.store).to_owned();
    let whole = content(3, 64 << 20);
    let source = file(here.path(), "source", &whole);
    run(["cp", "-q", "--store", &store, text(&source), "thal:/big"]).done();
    let (target, partial, other) = (here.path().join("big"), here.path().join("big.partial"), here.path().join("other"));
    std::fs::write(&other, "somebody's").unwrap();
    std::os::unix::fs::symlink(&other, &partial).unwrap();
    let said = run(["cp", "-q", "--store", &store, "thal:/big", text(&target)]).done();
    assert!(said.err.contains("big.partial") && said.err.contains("left alone"), "{}", said.err);
    assert!(partial.is_symlink() && std::fs::read(&other).unwrap() == b"somebody's" && std::fs::read(&target).unwrap() == whole);
    std::fs::remove_file(&partial).unwrap();
    std::fs::remove_file(&target).unwrap();
    if rustix::fs::setxattr(&other, "user.t", b"1", rustix::fs::XattrFlags::empty()).is_err() {
        println!("SKIPPED: this file system has no extended attributes");
        return;
    }
    // Stopped, so that it is reliably killed in the middle.
    let mut copy = Running::start(thalweg(["cp", "-q", "--requests", "1", "--store", &store, "thal:/big", text(&target)]));
    // (With the mark of its owner; until then it does not count as a partial copy.)
    let is_marked = || rustix::fs::listxattr(&partial, &mut [0_u8; 4096]).is_ok_and(|length| length > 0);
    wait_until("the copy has begun, or is done", || is_marked() || target.exists() || !copy.runs());
    copy.kill();
    let was_left = partial.exists();
    let said = run(["cp", "-q", "-f", "--store", &store, "thal:/big", text(&target)]).done();
    assert_eq!((said.err.as_str(), was_left && partial.exists()), ("", false));
    assert_eq!(std::fs::read(&target).unwrap(), whole);
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 3, "source, other, big");
}

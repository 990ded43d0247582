//! Jobs on this machine.

use super::{Place, below, copies_through};
use crate::common::{can_mount, listed, text};
use std::fs;

#[test]
fn a_job_finds_its_store_and_leaves_nothing_but_its_results() {
    let place = Place::new();
    let said = copies_through(&place, &["--hosts", "localhost,127.0.0.2"]);
    assert!(said.err.contains("io0") && said.err.contains("io1"), "a server for each host: {}", said.err);
    place.nothing_is_left();
}

#[test]
fn a_job_ends_as_its_program_did() {
    let place = Place::new();
    let of = |script: &str| place.run(&["--hosts", "localhost", "--", "sh", "-c", script]);
    assert_eq!(of("exit 7").code, Some(7));
    assert_eq!(of("kill -KILL $$").code, None, "by its signal");
    place.run(&["--hosts", "localhost", "--", "no-such-program"]).failed(127, &["no-such-program: not found"]);
    place.run(&["--hosts", "localhost", "--", "/etc/passwd"]).failed(126, &["/etc/passwd: not executable"]);
    place.nothing_is_left();
}

#[test]
fn a_program_works_on_a_mount_of_every_host_and_here() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mount = place.here("mnt");
    let script = "echo hello > mnt/greeting && mkdir mnt/more && cp mnt/greeting mnt/more/";
    let hosts = ["--hosts", "localhost,localhost", "--mount", "mnt", "--stage-out", "/more:more"];
    place.run(&[&hosts[..], &["--", "sh", "-c", script]].concat()).done();
    assert_eq!(fs::read_to_string(place.here("more/greeting")).unwrap(), "hello\n");
    assert!(listed(&mount).is_none() && !mount.exists(), "the mount and the directory that was made for it are gone");
    place.nothing_is_left();
}

#[test]
fn a_mount_that_somebody_still_uses_is_taken_away_all_the_same() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    // Left behind by the program, and working in the mount.
    place
        .run(&["--hosts", "localhost", "--mount", "mnt", "--", "sh", "-c", "cd mnt && { sleep 60 > /dev/null 2>&1 & echo $! > ../left; }"])
        .done();
    assert!(listed(&place.here("mnt")).is_none());
    let left: i32 = fs::read_to_string(place.here("left")).unwrap().trim().parse().unwrap();
    assert!(place.processes().iter().all(|(pid, _)| *pid == left), "{:?}", place.processes());
    // SAFETY: kill has no memory effects; the process is the one that the program has left.
    unsafe { libc::kill(left, libc::SIGKILL) };
    place.nobody_is_left();
}

#[test]
fn data_that_is_kept_is_served_again_with_its_bytes() {
    let place = Place::new();
    fs::write(place.here("f"), "kept").unwrap();
    let said = place.run(&["--hosts", "localhost,127.0.0.2", "--keep", "--stage-in", "f:/f", "--", "true"]).done();
    place.nobody_is_left();
    let store = said.err.split("--again ").nth(1).and_then(|rest| rest.split(' ').next()).expect("how it is served again").to_owned();
    assert_eq!(below(&place.targets()).len(), 1);
    let inspected = place.run(&["--again", &store, "--", "sh", "-c", "$THALWEG ls thal:/"]).done();
    assert_eq!(inspected.out, "f\n");
    assert_eq!(below(&place.targets()).len(), 1, "looking takes nothing away");
    let again = place.run(&["--again", &store, "--stage-out", "/f:g", "--", "sh", "-c", "$THALWEG cat thal:/f"]).done();
    assert_eq!((again.out.as_str(), fs::read_to_string(place.here("g")).unwrap().as_str()), ("kept", "kept"));
    place.nothing_is_left();
    place.run(&["--again", &store, "--", "true"]).failed(2, &["--again", &store, "has said it kept"]);
}

#[test]
fn what_was_not_copied_out_stays_and_the_command_that_is_said_gets_it() {
    let place = Place::new();
    fs::write(place.here("f"), "precious").unwrap();
    fs::write(place.here("in-the-way"), "").unwrap();
    let out = format!("/f:{}", text(&place.here("in-the-way/f")));
    let said = place.run(&["--hosts", "localhost", "--stage-in", "f:/f", "--stage-out", &out, "--", "true"]);
    let said = said.failed(1, &["not copied out", "in-the-way", "stays on its hosts"]);
    place.nobody_is_left();
    fs::remove_file(place.here("in-the-way")).unwrap();
    let command = said.err.split('`').find(|part| part.contains("--again")).expect("a command");
    let words: Vec<&str> = command.split(' ').skip(2).collect();
    place.run(&words).done();
    assert_eq!(fs::read_to_string(place.here("in-the-way/f")).unwrap(), "precious");
    place.nothing_is_left();
}

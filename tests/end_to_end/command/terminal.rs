//! Output on a terminal, and without one.

use crate::bounded::{Bounded, BoundedChild, LIMIT, rest};
use crate::common::{Running, Servers, THALWEG, content, file, run, scratch, skipped, stored_bytes, text, thalweg, wait_until};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// Timeout of a copy for the hello of a stopped server, before its first byte and again when it needs that server.
const HELD: &str = "10";

/// Starts a store with a stopped server, on which a copy stalls.
fn held() -> Servers {
    let mut servers = Servers::start(2);
    servers.process("io1").signal(libc::SIGSTOP);
    servers
}

/// Runs a command line in its own terminal. The shell between them execs the command: a remaining shell would get the terminal's signals
/// too, and which shells remain differs between systems.
fn terminal(line: &str) -> Command {
    let mut command = Command::new("script");
    command.args(["-qefc", &format!("exec {line}"), "/dev/null"]).stdout(Stdio::piped());
    command.env("SHELL", "/bin/sh").env("TERM", "xterm").env("COLUMNS", "100");
    command
}

/// A terminal, killed when dropped: any process left in it would keep the suite's output open.
struct Terminal(std::process::Child);

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_in_time(LIMIT);
    }
}

/// Collects a process's output while it runs.
fn listen(mut from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let heard = Arc::new(Mutex::new(String::new()));
    let said = Arc::clone(&heard);
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut piece) {
            said.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..n]));
        }
    });
    heard
}

/// Returns whether a bar shows a rate (`12.50 MiB/s`) and the remaining time (`ETA 3s`), each with its number.
fn shows_rate_and_time_left(bar: &str) -> bool {
    let words: Vec<&str> = bar.split_whitespace().collect();
    let number = |text: &str| text.trim_start_matches('(').parse::<f64>().is_ok();
    let is_rate = |pair: &[&str]| number(pair[0]) && ["B/s", "KiB/s", "MiB/s", "GiB/s"].iter().any(|unit| pair[1].starts_with(unit));
    let is_left = |pair: &[&str]| pair[0].ends_with("ETA") && pair[1].starts_with(|c: char| c.is_ascii_digit());
    words.windows(2).any(is_rate) && words.windows(2).any(is_left)
}

#[test]
fn a_terminal_shows_a_bar_with_rate_and_time_left() {
    if Command::new("script").arg("--version").output_in_time().is_err() {
        return skipped("script (package bsdutils) is not there to make a terminal");
    }
    let mut servers = held();
    let here = scratch();
    let source = file(here.path(), "source", &content(1, 16 << 20));
    let line = format!(
        "{THALWEG} cp --timeout {HELD} --request 1Mi --requests 1 --layout simple_stripe,strip_size=64Ki --store {} {} thal:/f",
        text(&servers.store),
        text(&source)
    );
    let mut terminal = Terminal(terminal(&line).stdin(Stdio::null()).spawn().unwrap());
    let heard = listen(terminal.0.stdout.take().unwrap());
    wait_until("there is a bar with both", || heard.lock().unwrap().split('\r').any(shows_rate_and_time_left));
    servers.process("io1").signal(libc::SIGCONT);
    assert!(terminal.0.wait_in_time(LIMIT).unwrap().success());
}

#[test]
fn a_bar_without_a_rate_or_without_the_time_left_is_seen() {
    assert!(shows_rate_and_time_left("f [=>   ] 1.00 MiB of 64.00 MiB, 12.50 MiB/s, ETA 5s"));
    for lacking in ["f [=>   ] 1.00 MiB of 64.00 MiB, 12.50 MiB/s", "f [=>   ] 1.00 MiB of 64.00 MiB, ETA 5s", "f, B/s, ETA ?"] {
        assert!(!shows_rate_and_time_left(lacking), "{lacking}");
    }
}

#[test]
fn without_a_terminal_progress_is_plain_lines() {
    let mut servers = held();
    let here = scratch();
    let source = file(here.path(), "source", &content(1, 16 << 20));
    let mut command = thalweg([
        "cp",
        "--timeout",
        HELD,
        "--request",
        "1Mi",
        "--requests",
        "1",
        "--layout",
        "simple_stripe,strip_size=64Ki",
        "--store",
        text(&servers.store),
        text(&source),
        "thal:/f",
    ]);
    command.stderr(Stdio::piped());
    let mut copy = Running::start(command);
    let heard = listen(copy.child().stderr.take().unwrap());
    wait_until("the copy has begun", || stored_bytes(&servers.directory().join("io0")) > 0);
    wait_until("there is a line", || heard.lock().unwrap().contains("of 16 MiB ("));
    servers.process("io1").signal(libc::SIGCONT);
    assert_eq!(copy.wait(), Some(0));
    let said = heard.lock().unwrap().clone();
    assert!(!said.contains('\r') && !said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn results_are_on_standard_output_and_nothing_else_is() {
    let store = crate::common::Up::start(2);
    let said = run(["cp", "--source", "memory:1Mi", &store.path("/f")]).done();
    assert_eq!(said.out, "", "what a copy did is a note");
    assert!(said.err.contains("1 MiB"), "{}", said.err);
    let said = run(["cp", "--json", "--force", "--source", "memory:1Mi", &store.path("/f")]).done();
    assert_eq!(said.json()["size_bytes"], 1 << 20);
    assert_eq!(said.err, "");
}

#[test]
fn a_reader_that_goes_away_is_no_reason_to_panic() {
    let store = crate::common::Up::start(2);
    run(["cp", "--quiet", "--source", "memory:32Mi", &store.path("/f")]).done();
    let mut child = thalweg(["cat", &store.path("/f")]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let err = rest(child.stderr.take().unwrap());
    assert!(!child.wait_in_time(LIMIT).unwrap().success());
    assert!(!err.contains("panicked"), "{err}");
}

#[test]
fn ctrl_c_reaches_a_recorded_command_once_and_ends_only_what_it_ends() {
    if Command::new("script").arg("--version").output_in_time().is_err() {
        return skipped("script (package bsdutils) is not there to make a terminal");
    }
    let here = scratch();
    let program = file(
        here.path(),
        "interactive.sh",
        // A shell blocked in `read` runs traps only afterwards, so it reads with a timeout.
        b"trap 'echo heard' INT\necho ready\nwhile read -t 0.2 line; [ $? -gt 128 ]; do :; done\ntrap - INT\necho line: $line\nread line\nexit 3\n",
    );
    let recording = here.path().join("a.thw");
    let line = format!("{THALWEG} record -o {} -- bash {}", text(&recording), text(&program));
    let mut terminal = Terminal(terminal(&line).stdin(Stdio::piped()).env("NO_COLOR", "1").spawn().unwrap());
    let mut keys = terminal.0.stdin.take().unwrap();
    let heard = listen(terminal.0.stdout.take().unwrap());
    let says = |what: &str| heard.lock().unwrap().contains(what);
    let mut press = |bytes: &[u8]| std::io::Write::write_all(&mut keys, bytes).unwrap();
    let wait_for = |what: &str| {
        let begun = std::time::Instant::now();
        while !says(what) {
            assert!(begun.elapsed() < LIMIT, "no {what:?} in {:?}", heard.lock().unwrap());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    };
    wait_for("ready");
    press(b"\x03");
    wait_for("heard");
    press(b"still here\n");
    wait_until("it went on", || says("line: still here"));
    press(b"\n");
    assert_eq!(terminal.0.wait_in_time(LIMIT).unwrap().code(), Some(3), "{}", heard.lock().unwrap());
    wait_until("all is said", || says("where the time went"));
    assert_eq!(heard.lock().unwrap().matches("heard").count(), 1, "{}", heard.lock().unwrap());
    run(["explain", text(&recording)]).done();
}

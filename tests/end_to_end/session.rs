//! `thalweg session`: frames on standard input and output, as a library uses them.

use crate::bounded::BoundedChild;
use crate::common::{Servers, Up, content, run, scratch, stored_bytes, text, thalweg, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Timeout for an answer. Not a promise of the product: it only ends tests that hang.
const SOON: Duration = Duration::from_secs(60);

/// A client of a session.
struct Client {
    process: Child,
    answers: Receiver<(Value, Vec<u8>)>,
    number: u64,
}

fn frame(head: &[u8], body: &[u8]) -> Vec<u8> {
    let lengths = [(head.len() as u32).to_le_bytes(), (body.len() as u32).to_le_bytes()].concat();
    [&lengths, head, body].concat()
}

fn receive(from: &mut ChildStdout) -> Option<(Value, Vec<u8>)> {
    let mut lengths = [0; 8];
    from.read_exact(&mut lengths).ok()?;
    let length = |at: usize| u32::from_le_bytes(lengths[at..at + 4].try_into().unwrap()) as usize;
    let (mut head, mut body) = (vec![0; length(0)], vec![0; length(4)]);
    from.read_exact(&mut head).ok()?;
    from.read_exact(&mut body).ok()?;
    Some((serde_json::from_slice(&head).expect("a head is JSON"), body))
}

impl Client {
    fn start(flags: &[&str]) -> Client {
        let mut command = thalweg(std::iter::once(&"session").chain(flags));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the command starts");
        let mut out = process.stdout.take().unwrap();
        let (give, answers) = channel();
        std::thread::spawn(move || while receive(&mut out).is_some_and(|answer| give.send(answer).is_ok()) {});
        Client { process, answers, number: 0 }
    }

    /// Starts a session and checks its greeting.
    fn greeted(flags: &[&str]) -> Client {
        let client = Client::start(flags);
        let (greeting, _) = client.next();
        assert_eq!(greeting["session"], "thalweg.session/1", "{greeting}");
        client
    }

    fn next(&self) -> (Value, Vec<u8>) {
        self.answers.recv_timeout(SOON).expect("an answer in time")
    }

    fn send(&mut self, bytes: &[u8]) {
        self.process.stdin.as_mut().unwrap().write_all(bytes).expect("the session reads");
    }

    /// Sends a request; returns its number.
    fn post(&mut self, mut request: Value, body: &[u8]) -> u64 {
        self.number += 1;
        request["id"] = json!(self.number);
        self.send(&frame(request.to_string().as_bytes(), body));
        self.number
    }

    /// Sends a request and returns its answer, with all pages of a listing.
    fn ask_with(&mut self, request: Value, body: &[u8]) -> (Value, Vec<u8>) {
        let number = self.post(request, body);
        let mut entries = Vec::new();
        loop {
            let (mut head, body) = self.next();
            assert_eq!(head["id"], number, "{head}");
            entries.extend(head["entries"].as_array().cloned().unwrap_or_default());
            if head["more"] != true {
                head["entries"] = json!(entries);
                return (head, body);
            }
        }
    }

    fn ask(&mut self, request: Value) -> Value {
        let (head, _) = self.ask_with(request, b"");
        assert!(head["error"].is_null(), "{head}");
        head
    }

    fn put(&mut self, path: &str, bytes: &[u8]) {
        let (head, _) = self.ask_with(json!({ "do": "put", "path": path }), bytes);
        assert!(head["error"].is_null(), "{head}");
    }

    /// Sends a request that fails; returns the kind of its error.
    fn refused(&mut self, request: Value) -> String {
        let (head, _) = self.ask_with(request, b"");
        assert!(head["error"]["errno"].is_i64() && head["error"]["text"].as_str().is_some_and(|text| text.len() > 5), "{head}");
        head["error"]["kind"].as_str().expect("a kind").to_owned()
    }

    /// Ends its input; returns its exit code and what it said on standard error.
    fn ends(mut self) -> (Option<i32>, String) {
        drop(self.process.stdin.take());
        let code = self.process.wait_in_time(SOON).unwrap().code();
        (code, crate::bounded::rest(self.process.stderr.take().unwrap()))
    }
}

fn listed(store: &str) -> String {
    run(["ls", "--store", store, "/"]).done().out
}

#[test]
fn files_are_written_listed_and_read_in_ranges_under_any_name() {
    let up = Up::start(2);
    let mut client = Client::greeted(&["--store", &up.address]);
    let bytes = content(1, 3 << 20);
    client.put("/a b\n", &bytes);
    client.put("/empty", b"");
    assert_eq!(client.ask(json!({ "do": "stat", "path": "/a b\n" }))["entry"]["size"], 3 << 20);
    let ranges = json!([[0, 10], [-5, null], [1_000_000, 1_000_100], [4_000_000, 5_000_000], [7, 3]]);
    let (head, body) = client.ask_with(json!({ "do": "open", "path": "/a b\n", "ranges": ranges }), b"");
    let expected = [&bytes[..10], &bytes[bytes.len() - 5..], &bytes[1_000_000..1_000_100]].concat();
    assert_eq!((&head["size"], &head["lengths"]), (&json!(3 << 20), &json!([10, 5, 100, 0, 0])), "{head}");
    assert!(body == expected);

    // An open file keeps its bytes, whatever becomes of its name.
    let file = head["file"].as_u64().unwrap();
    client.ask(json!({ "do": "remove", "path": "/a b\n", "what": "file" }));
    let (_, body) = client.ask_with(json!({ "do": "read", "file": file, "ranges": [[0, null]] }), b"");
    assert!(body == bytes);
    client.ask(json!({ "do": "close", "file": file }));
    assert_eq!(client.refused(json!({ "do": "read", "file": file, "ranges": [[0, 1]] })), "invalid");

    // Bytes that are no text are named by their digits.
    let odd = json!({ "hexadecimal": "2f6f6464ff" });
    client.ask(json!({ "do": "rename", "from": "/empty", "to": odd }));
    let listed = client.ask(json!({ "do": "list", "path": "/" }));
    assert_eq!(listed["entries"][0]["name"], json!({ "hexadecimal": "6f6464ff" }), "{listed}");
    assert_eq!(client.ask(json!({ "do": "open", "path": odd }))["size"], 0);
    assert_eq!(client.refused(json!({ "do": "put", "path": odd })), "unsupported");
    client.ask(json!({ "do": "remove", "path": odd, "what": "tree" }));
    assert_eq!(client.ends(), (Some(0), String::new()));
}

#[test]
fn trees_are_made_listed_in_pages_renamed_copied_and_removed() {
    let (up, here) = (Up::start(2), scratch());
    let mut client = Client::greeted(&["--store", &up.address]);
    client.ask(json!({ "do": "mkdir", "path": "/deep/er/est", "parents": true }));
    assert_eq!(client.refused(json!({ "do": "mkdir", "path": "/deep", "parents": true })), "exists");
    client.ask(json!({ "do": "mkdir", "path": "/deep", "exists": true }));
    // More than a page, several in flight.
    let numbers: Vec<u64> =
        (0..2500).map(|n| client.post(json!({ "do": "put", "path": format!("/many/{n:04}"), "parents": true }), b"x")).collect();
    let mut answered: Vec<u64> = numbers.iter().map(|_| client.next().0).map(|head| head["id"].as_u64().unwrap()).collect();
    answered.sort_unstable();
    assert_eq!(answered, numbers);
    let names = |head: &Value| -> Vec<String> {
        head["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    let many = client.ask(json!({ "do": "list", "path": "/many" }));
    assert_eq!(names(&many), (0..2500).map(|n| format!("{n:04}")).collect::<Vec<_>>());
    assert!(many["entries"].as_array().unwrap().iter().all(|entry| entry["size"] == 1 && entry["type"] == "file"));
    let all = client.ask(json!({ "do": "list", "path": "/", "depth": 3 }));
    let mut directories: Vec<String> = names(&all).into_iter().filter(|name| !name.contains("many/")).collect();
    directories.sort();
    assert_eq!(directories, ["deep", "deep/er", "deep/er/est", "many"]);

    client.ask(json!({ "do": "copy", "from": { "path": "/many/0001" }, "to": { "path": "/new/x" }, "parents": true }));
    let out = here.path().join("out");
    client.ask(json!({ "do": "copy", "from": { "path": "/new/x" }, "to": { "local": text(&out) } }));
    assert_eq!(std::fs::read(&out).unwrap(), b"x");
    assert_eq!(client.refused(json!({ "do": "copy", "from": { "local": text(&out) }, "to": { "path": "/new/x" } })), "exists");
    client.ask(json!({ "do": "rename", "from": "/many", "to": "/deep/er/est/many" }));
    assert_eq!(client.refused(json!({ "do": "remove", "path": "/deep", "what": "directory" })), "not_empty");
    client.ask(json!({ "do": "remove", "path": "/deep", "what": "tree" }));
    assert_eq!(client.refused(json!({ "do": "remove", "path": "/", "what": "tree" })), "refused");
    assert_eq!(names(&client.ask(json!({ "do": "list", "path": "/" }))), ["new"]);
}

#[test]
fn a_file_has_its_name_when_it_is_published_and_a_session_that_ends_leaves_nothing_half_made() {
    let up = Up::start(2);
    let bytes = content(2, 2 << 20);
    let begun = |name: &str| {
        let mut client = Client::greeted(&["--store", &up.address]);
        let file = client.ask(json!({ "do": "create", "path": name }))["file"].as_u64().unwrap();
        let (head, _) = client.ask_with(json!({ "do": "write", "file": file, "offset": 1 << 20 }), &bytes[1 << 20..]);
        assert!(head["error"].is_null(), "{head}");
        (client, file)
    };
    let (mut client, file) = begun("/whole");
    assert_eq!(listed(&up.address), "whole.partial\n");
    // Not while half of it is missing; and what was not published is gone.
    let (mut early, hasty) = begun("/hasty");
    assert_eq!(early.refused(json!({ "do": "publish", "file": hasty, "size": 2 << 20 })), "invalid");
    assert_eq!(early.refused(json!({ "do": "write", "file": hasty, "offset": 0 })), "invalid");
    client.ask_with(json!({ "do": "write", "file": file, "offset": 0 }), &bytes[..1 << 20]);
    client.ask(json!({ "do": "publish", "file": file, "size": 2 << 20, "sync": true }));
    assert_eq!(listed(&up.address), "whole\n");
    assert_eq!(early.refused(json!({ "do": "create", "path": "/whole" })), "exists");
    assert_eq!(client.ends().0, Some(0));

    let (ended, _) = begun("/ended");
    assert_eq!(ended.ends(), (Some(0), String::new()));
    let (mut stopped, _) = begun("/stopped");
    // SAFETY: kill has no memory effects; the child has not been waited for, so the id is still its own.
    unsafe { libc::kill(stopped.process.id() as i32, libc::SIGTERM) };
    assert_eq!(stopped.process.wait_in_time(SOON).unwrap().code(), Some(130));
    assert_eq!(listed(&up.address), "whole\n");
    assert!(stored_bytes(up.directory.path()) >= 2 << 20);
}

#[test]
fn answers_overtake_those_that_wait_for_a_server() {
    let mut servers = Servers::start(2);
    let store = text(&servers.store).to_owned();
    let mut client = Client::greeted(&["--store", &store]);
    client.put("/f", &content(3, 4 << 20));
    let file = client.ask(json!({ "do": "open", "path": "/f" }))["file"].as_u64().unwrap();
    servers.process("io0").signal(libc::SIGSTOP);
    let waiting = client.post(json!({ "do": "read", "file": file, "ranges": [[0, null]] }), b"");
    let quick = client.post(json!({ "do": "mkdir", "path": "/d" }), b"");
    assert_eq!(client.next().0["id"], quick);
    servers.process("io0").signal(libc::SIGCONT);
    let (head, body) = client.next();
    assert_eq!(head["id"], waiting, "{head}");
    assert!(body == content(3, 4 << 20));
}

#[test]
fn errors_have_a_kind_and_a_sentence() {
    let servers = Servers::start(1);
    let store = text(&servers.store).to_owned();
    let mut client = Client::greeted(&["--store", &store]);
    client.put("/f", &content(4, 1 << 20));
    for (request, kind) in [
        (json!({ "do": "stat", "path": "/nothing" }), "not_found"),
        (json!({ "do": "list", "path": "/f" }), "not_a_directory"),
        (json!({ "do": "open", "path": "/" }), "is_a_directory"),
        (json!({ "do": "create", "path": "/nowhere/f" }), "not_found"),
        (json!({ "do": "fly" }), "unsupported"),
        (json!({ "do": "stat" }), "invalid"),
        (json!({ "do": "close", "file": 77 }), "invalid"),
        (json!({ "do": "stat", "path": { "hexadecimal": "2" } }), "invalid"),
    ] {
        assert_eq!(client.refused(request.clone()), kind, "{request}");
    }
    // A datafile that lost its bytes.
    let mut cut = 0;
    each_file(&servers.directory().join("io0"), &mut |path| {
        if std::fs::metadata(path).unwrap().len() == 1 << 20 {
            std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap();
            cut += 1;
        }
    });
    assert_eq!(cut, 1);
    assert_eq!(client.refused(json!({ "do": "open", "path": "/f", "ranges": [[0, null]] })), "damaged");
    client.ends();

    let other = Up::start(1);
    let refused = Client::start(&["--store", &store, "--credential", text(&other.credential())]);
    let (greeting, _) = refused.next();
    assert_eq!(greeting["error"]["kind"], "refused", "{greeting}");
    let (code, said) = refused.ends();
    assert!(code == Some(1) && said.contains("thalweg session: "), "{said}");
    let mut reader = Client::greeted(&["--store", &store, "--credential", text(&servers.read_only())]);
    assert_eq!(reader.refused(json!({ "do": "mkdir", "path": "/d" })), "refused");
    drop(servers);
    assert_eq!(reader.refused(json!({ "do": "stat", "path": "/f" })), "unreachable");
    let (greeting, _) = Client::start(&["--store", "thal://127.0.0.1:1"]).next();
    assert_eq!(greeting["error"]["kind"], "unreachable", "{greeting}");
}

fn each_file(directory: &Path, seen: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.path().is_dir() { each_file(&entry.path(), seen) } else { seen(&entry.path()) }
    }
}

#[test]
fn input_that_is_no_frame_ends_a_session_with_a_sentence() {
    let up = Up::start(1);
    let told = |head: u32, body: u32| [head.to_le_bytes(), body.to_le_bytes()].concat();
    for (bytes, says) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "does the client speak thalweg.session/1?"),
        (told(10, u32::MAX), "whose body has 4294967295 bytes: expected at most 16777216"),
        (frame(b"not JSON", b""), "expected a JSON object with a number as its `id`"),
        (frame(b"{\"do\": \"stat\"}", b""), "no `id`"),
        (frame(b"{}", b"").split_off(3), "ended within a frame"),
    ] {
        let mut client = Client::greeted(&["--store", &up.address]);
        client.ask(json!({ "do": "stat", "path": "/" }));
        client.send(&bytes);
        // A frame that is cut is told from one that is still coming at the end only.
        let input = client.process.stdin.take();
        drop(input);
        let (head, _) = client.next();
        assert!(head["id"].is_null() && head["error"]["text"].as_str().unwrap().contains(says), "{head}");
        let (code, said) = client.ends();
        assert!(code == Some(1) && said.contains(says) && !said.contains("panicked"), "{said}");
    }
    // Without requests, and in a terminal's place, there is the greeting and nothing else.
    let mut client = Client::greeted(&["--store", &up.address]);
    client.process.stdin.take();
    wait_until("it has ended", || matches!(client.process.try_wait(), Ok(Some(_))));
    run(["session"]).failed(2, &["no store given"]);
}

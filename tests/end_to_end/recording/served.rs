//! `thalweg report --serve`: a directory of recordings in a browser, and nothing else for anyone else.

use crate::common::{Running, file, run, scratch, text, thalweg, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// A running server.
struct Served {
    process: Running,
    port: u16,
    /// The path of the list: `/KEY/`.
    root: String,
}

impl Served {
    fn start(directory: &Path) -> Served {
        let mut process = Running::start(thalweg(["report", "--serve", text(directory)]));
        let line = process.line();
        let rest = line.trim_end().strip_prefix("http://127.0.0.1:").expect("an address on the loopback interface");
        let (port, root) = rest.split_once('/').expect("a path");
        assert!(root.len() == 33 && root.ends_with('/'), "{line}");
        Served { process, port: port.parse().expect("a port"), root: format!("/{root}") }
    }

    /// Returns the status, the headers and the body.
    fn ask(&self, method: &str, target: &str, host: &str) -> (u16, String, String) {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).expect("the server accepts");
        write!(connection, "{method} {target} HTTP/1.0\r\nHost: {host}\r\n\r\n").expect("a request can be sent");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("an answer in UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, head.to_owned(), body.to_owned())
    }

    fn get(&self, below: &str) -> (u16, String, String) {
        self.ask("GET", &format!("{}{below}", self.root), &format!("127.0.0.1:{}", self.port))
    }

    /// Returns the list when nothing on it is awaited.
    fn settled_list(&self) -> String {
        let mut list = String::new();
        wait_until("every recording is explained", || {
            let (status, _, body) = self.get("");
            assert_eq!(status, 200, "{body}");
            list = body;
            !list.contains("not explained yet")
        });
        list
    }
}

/// Records a small copy.
fn recorded(directory: &Path, name: &str) -> PathBuf {
    let recording = directory.join(name);
    let (from, to) = (format!("if={}", text(&file(directory, "from", &[7; 100_000]))), format!("of={}", text(&directory.join("to"))));
    run(["record", "--method", "proc", "-o", text(&recording), "--", "dd", &from, &to, "bs=10k", "conv=fsync"]).done();
    recording
}

#[test]
fn recordings_are_listed_opened_and_compared() {
    let here = scratch();
    let (first, _) = (recorded(here.path(), "a.thw"), recorded(here.path(), "b c.thw"));
    std::fs::create_dir(here.path().join("broken.thw")).unwrap();
    file(&here.path().join("broken.thw"), "meta.json", b"{");
    file(here.path(), "no-recording.thw", b"");
    let served = Served::start(here.path());
    let list = served.settled_list();
    let sentence = run(["explain", "--json", text(&first)]).done().json()["verdict"]["sentence"].as_str().unwrap().to_owned();
    assert!(list.contains("recordings/a.thw") && list.contains("recordings/b%20c.thw") && list.contains("error:"), "{list}");
    assert!(!list.contains("no-recording") && !list.contains("<script") && sentence.len() > 10, "{list}");
    let (status, head, page) = served.get("recordings/b%20c.thw");
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("id=\"thalweg-header\"") && page.contains("id=\"thalweg-data\""));
    let policy = page.split_once("http-equiv=\"Content-Security-Policy\" content=\"").unwrap().1.split_once('"').unwrap().0;
    for header in [
        &*format!("Content-Security-Policy: {policy}; frame-ancestors 'none'"),
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
        "Content-Type: text/html; charset=utf-8",
    ] {
        assert!(head.contains(header), "{header} is in {head}");
    }
    assert!(!head.contains("Refresh:"), "a whole recording does not change");
    let (status, _, page) = served.get("diff?before=a.thw&after=b%2520c.thw");
    assert!(status == 200 && page.contains("id=\"thalweg-header-2\"") && page.contains("\"names\":[\"a\",\"b c\"]"), "{status}");
    let (status, _, page) = served.get("recordings/broken.thw");
    assert!(status == 500 && page.contains("meta.json"), "{status} {page}");
}

#[test]
fn nothing_is_served_to_others_or_from_outside() {
    let (here, outside) = (scratch(), scratch());
    let elsewhere = recorded(outside.path(), "secret.thw");
    recorded(here.path(), "a.thw");
    std::os::unix::fs::symlink(&elsewhere, here.path().join("link.thw")).unwrap();
    let within = recorded(here.path(), "within.thw");
    std::os::unix::fs::symlink(outside.path(), within.join("more")).unwrap();
    let served = Served::start(here.path());
    let ours = format!("127.0.0.1:{}", served.port);
    let root = &*served.root;
    for host in ["evil.example", &format!("evil.example:{}", served.port), "127.0.0.1:1", ""] {
        let (status, _, body) = served.ask("GET", root, host);
        assert!(status == 403 && !body.contains("a.thw"), "{host}: {status} {body}");
    }
    assert_eq!(served.ask("GET", root, &format!("localhost:{}", served.port)).0, 200);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let (status, head, _) = served.ask(method, root, &ours);
        assert!(status == 405 && head.contains("Allow: GET, HEAD"), "{method}: {head}");
    }
    let (status, head, body) = served.ask("HEAD", root, &ours);
    assert!(status == 200 && body.is_empty() && head.contains("text/html"), "{head}");
    for target in ["/", "/recordings/a.thw", "/0123456789abcdef0123456789abcdef/", "/../etc/passwd"] {
        assert_eq!(served.ask("GET", target, &ours).0, 404, "{target}");
    }
    let secret = outside.path().file_name().unwrap().to_str().unwrap().to_owned();
    let names = [format!("../{secret}/secret.thw"), format!("..%2f{secret}%2fsecret.thw"), "link.thw".into(), "within.thw".into()];
    for name in names.iter().map(String::as_str).chain([".", "..", "%2e%2e", "a.thw/meta.json", "a.thw%00", "nothing.thw"]) {
        for below in [format!("recordings/{name}"), format!("diff?before=a.thw&after={name}")] {
            let (status, _, body) = served.get(&below);
            assert!(status == 404 && !body.contains("thalweg-data"), "{below}: {status}");
        }
    }
    let list = served.settled_list();
    assert!(!list.contains("link.thw") && list.contains("symbolic link"), "{list}");
}

#[test]
fn names_are_text() {
    let here = scratch();
    let name = "<img src=x onerror=alert(1)>\"'&\u{202e}.thw";
    std::fs::rename(recorded(here.path(), "a.thw"), here.path().join(name)).unwrap();
    let served = Served::start(here.path());
    let list = served.settled_list();
    assert!(!list.contains("<img") && list.contains("&lt;img"), "{list}");
    let link = list.split_once("<a href=\"").unwrap().1.split_once('"').unwrap().0;
    let (status, _, page) = served.get(link);
    assert!(status == 200 && !page.contains("<img src=x"), "{status}");
}

#[test]
fn a_recording_in_progress_is_followed_until_it_is_whole() {
    let here = scratch();
    let (recording, stop, out) = (here.path().join("now.thw"), here.path().join("stop"), here.path().join("out"));
    let script = format!("until [ -e {} ]; do dd if=/dev/zero of={} bs=4k count=9 conv=fsync 2>/dev/null; done", text(&stop), text(&out));
    let mut recorder = Running::start(thalweg(["record", "--method", "proc", "-o", text(&recording), "--", "sh", "-c", &script]));
    wait_until("the recording has begun", || recording.join("meta.json").exists() && out.exists());
    let served = Served::start(here.path());
    wait_until("a recording in progress is explained so far", || {
        let (_, head, list) = served.get("");
        assert!(list.contains("being recorded") && head.contains("Refresh: "), "{head} {list}");
        !list.contains("not explained yet") && !list.contains("error:")
    });
    let (status, head, page) = served.get("recordings/now.thw");
    assert!(status == 200 && head.contains("Refresh: ") && page.contains("id=\"thalweg-data\""), "{status} {head}");
    file(here.path(), "stop", b"");
    assert_eq!(recorder.wait(), Some(0));
    wait_until("it is whole", || {
        let (_, head, list) = served.get("");
        !list.contains("being recorded") && !list.contains("not explained yet") && !head.contains("Refresh: ")
    });
    assert!(!served.get("recordings/now.thw").1.contains("Refresh: "));
}

#[test]
fn the_server_ends_in_order_and_says_what_is_wrong() {
    let here = scratch();
    let mut served = Served::start(here.path());
    assert!(served.get("").2.contains("There are none yet"));
    let port = served.port.to_string();
    run(["report", "--serve", text(here.path()), "--port", &port]).failed(1, &[&format!("127.0.0.1:{port}")]);
    served.process.signal(libc::SIGINT);
    assert_eq!(served.process.wait(), Some(0));
    assert!(TcpStream::connect(("127.0.0.1", served.port)).is_err());
    run(["report", "--serve", "/nonexistent"]).failed(1, &["/nonexistent"]);
    run(["report", "--serve", text(here.path()), "-o", "x.html"]).failed(2, &["--serve"]);
    run(["report", "--port", "1", "a.thw", "-o", "x.html"]).failed(2, &["--port"]);
}

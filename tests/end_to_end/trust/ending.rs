//! A credential whose time is over, or that is revoked, while it is in use.

use super::derived;
use crate::bounded::BoundedChild;
use crate::common::{Said, Up, content, run, scratch, stored_bytes, text, thalweg, wait_until};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn a_copy_whose_credential_expires_ends_with_one_clear_error_and_what_it_made_is_not_taken_for_whole() {
    let (store, here) = (Up::start(2), scratch());
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let credential = derived(&store.credential(), "ana", Some(now_s + 3), here.path().join("ana"));
    let mut command = thalweg(["cp", "--quiet", "--credential", text(&credential), "-", &store.path("/f")]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let piece = content(1, 64 << 10);
        while pipe.write_all(&piece).is_ok() {
            // What makes the writer slow.
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    wait_until("it writes", || stored_bytes(store.directory.path()) > 0);
    let said: Said = child.output_in_time().unwrap().into();
    crate::bounded::joined(writer);
    let said = said.failed(1, &["the credential of `ana`", "time is over"]);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    // Nothing has its name: what there is is called partial, as after a client that was killed.
    let listed = run(["ls", &store.path("/")]).done().out;
    assert!(["", "f.partial\n"].contains(&listed.as_str()), "{listed}");
    let said = run(["ls", "--credential", text(&credential), &store.path("/")]);
    said.failed(1, &["the time of the credential of `ana` is over"]);
    run(["cp", "--quiet", text(&store.credential()), &store.path("/f")]).done();
}

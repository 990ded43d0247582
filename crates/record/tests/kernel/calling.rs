//! Promises of the kernel recorder for unanswered connections: the wait names the silent peer, and retransmitted
//! requests are the caller's. Each test needs BPF, root and ip(8); skipped, with a message, without them.

use crate::common::{run, spans};
use crate::{PYTHON, alone};
use thalweg_trace::{MarkKind, ObjectKind, Recording, Source, Span, SpanKind};

/// Records in a network of its own in which every packet for 192.0.2.1 is lost.
fn record(program: &str) -> Option<(tempfile::TempDir, Recording)> {
    let lost = "ip link add lost type veth peer name nowhere && ip address add 192.0.2.2/24 dev lost && ip link set lost up \
        && ip link set nowhere up && ip neighbour add 192.0.2.1 lladdr 02:00:00:00:00:01 dev lost";
    let possible = std::process::Command::new("unshare").args(["-n", "sh", "-c", lost]).output();
    if !possible.as_ref().is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: no network namespace with an interface that loses all can be made: {possible:?}");
        return None;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let script = format!("{lost} && exec \"$@\"");
    let words = ["unshare", "-n", "sh", "-c", &script, "sh", PYTHON, "-c", program];
    let ran = run(directory.path(), &["--method", "bpf"], &words);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    let recording = ran.recording();
    Some((directory, recording))
}

/// Returns the waits of at least 100 ms on a connection to the silent address.
fn waits(recording: &Recording, address: &str) -> Vec<Span> {
    let named = |span: &Span| {
        let object = recording.objects().iter().find(|row| Some(row.object) == span.object && row.kind == ObjectKind::Connection);
        object.is_some_and(|row| row.name.starts_with("192.0.2.2:") && row.name.ends_with(&format!("> {address}")))
    };
    spans(recording).into_iter().map(|(_, span)| span).filter(|span| span.duration_ns >= 100_000_000 && named(span)).collect()
}

/// Returns the retransmitted requests, on the tracks of their callers.
fn asked_again(recording: &Recording, by: &[Span]) -> usize {
    let marks = recording.marks().expect("read");
    marks.iter().filter(|mark| mark.kind == MarkKind::TcpSynRetransmit && by.iter().any(|span| span.track == mark.track)).count()
}

#[test]
fn a_call_with_a_time_limit_that_nobody_answers_waits_for_that_connection() {
    let Some(_alone) = alone() else { return };
    let program = "
import socket
try: socket.create_connection(('192.0.2.1', 80), timeout=2.5)
except TimeoutError: pass";
    let Some((_directory, recording)) = record(program) else { return };
    let waits = waits(&recording, "192.0.2.1:80");
    assert!(waits.iter().map(|span| span.duration_ns).sum::<u64>() >= 2_400_000_000, "{waits:?}");
    assert!(waits.iter().all(|span| span.kind == SpanKind::WaitNetwork));
    assert!(asked_again(&recording, &waits) >= 1, "the first request is sent again after a second");
}

#[test]
fn a_wait_for_any_of_several_descriptors_is_for_the_connection_that_nobody_answers() {
    let Some(_alone) = alone() else { return };
    let program = "
import os, select, socket
calling = socket.socket(); calling.setblocking(False)
calling.connect_ex(('192.0.2.1', 81))
silent, writes = os.pipe()
epoll = select.epoll(); epoll.register(calling, select.EPOLLOUT); epoll.register(silent, select.EPOLLIN)
epoll.poll(0.5)
select.select([silent], [calling], [], 0.5)
poll = select.poll(); poll.register(calling, select.POLLOUT); poll.register(silent, select.POLLIN)
poll.poll(500)";
    let Some((_directory, recording)) = record(program) else { return };
    let waits = waits(&recording, "192.0.2.1:81");
    assert_eq!(waits.len(), 3, "{waits:?}");
    assert!(asked_again(&recording, &waits) >= 1);
}

#[test]
fn a_call_that_was_given_up_ends_with_the_reason() {
    let Some(_alone) = alone() else { return };
    let program = "
import socket
s = socket.socket(); s.settimeout(0.3)
try: s.connect(('192.0.2.1', 82))
except TimeoutError: pass
s.close()";
    let Some((_directory, recording)) = record(program) else { return };
    let ended = spans(&recording).into_iter().map(|(_, span)| span).find(|span| span.kind == SpanKind::NetConnect && span.result.is_some());
    assert_eq!(ended.and_then(|span| span.result), Some(-i64::from(libc::ECANCELED)));
}

#[test]
fn a_poll_of_one_descriptor_that_ends_by_its_limit_names_what_did_not_come() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let program = "
import os, select
silent, writes = os.pipe()
select.select([silent], [], [], 0.3)
poll = select.poll(); poll.register(silent, select.POLLIN)
poll.poll(300)";
    let ran = run(directory.path(), &["--method", "bpf"], &[PYTHON, "-c", program]);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    let recording = ran.recording();
    let pipes: Vec<_> = recording.objects().iter().filter(|row| row.kind == ObjectKind::Pipe).map(|row| row.object).collect();
    let waits = spans(&recording).into_iter().map(|(_, span)| span);
    let on_pipe = waits.filter(|span| span.duration_ns >= 290_000_000 && span.object.is_some_and(|object| pipes.contains(&object)));
    assert_eq!(on_pipe.count(), 2);
}

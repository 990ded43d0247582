//! Appends at the end of a file: a client stopped for longer than its turn overwrites nothing of others.

use crate::loopback;
use std::sync::{Arc, Barrier};
use std::time::Duration;
use thalweg_client::{DataClient, FileHandle, StoreFile};
use thalweg_layout::{Layout, Spec};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::protocol::io::{FileId, TargetId};

const STRIP: usize = 65536;

/// One file on two servers, opened by two clients.
fn two_clients(servers: &loopback::Servers) -> [StoreFile; 2] {
    let layout = Layout::new(&Spec::new("simple_stripe").with("strip_size", STRIP), Some(2), 2).unwrap();
    let handle = FileHandle::new(FileId(1), "/log".to_owned(), layout, vec![TargetId(0), TargetId(1)]).unwrap();
    [(), ()].map(|()| {
        let connect = Connect { timeout: Duration::from_secs(30), ..loopback::connect() };
        StoreFile::new(Arc::new(DataClient::new(servers.map.clone(), &connect)), handle.clone())
    })
}

fn content(file: &StoreFile) -> Vec<u8> {
    let mut bytes = vec![0; file.size_traced(&mut Tracer::off()).unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

#[test]
fn what_others_have_appended_is_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let servers = loopback::servers(directory.path(), 2, 1);
    let [late, other] = two_clients(&servers);
    let off = &mut Tracer::off();
    // Records within a strip, at its end, across both servers, and longer than a stripe.
    for (n, (first, second)) in
        [(1000, 500), (STRIP - 1500, 10), (100, 3 * STRIP), (5 * STRIP, 7), (40, 5 * STRIP + 11)].into_iter().enumerate()
    {
        let before = content(&other);
        let end = before.len() as u64;
        let (theirs, ours) = (vec![1 + 2 * n as u8; first], vec![2 + 2 * n as u8; second]);
        // The slow client has determined the end of the file and is stopped; its turn expires, and the other one appends.
        assert!(other.append_traced(off, &theirs, end).unwrap());
        assert!(!late.append_traced(off, &ours, end).unwrap(), "{n}: it went on there");
        let expected = [&before[..], &theirs[..]].concat();
        assert!(content(&late) == expected, "{n}: nothing of it is in the file, at no server");
        assert!(late.append_traced(off, &ours, expected.len() as u64).unwrap());
        assert!(content(&other) == [&expected[..], &ours[..]].concat(), "{n}");
    }
}

#[test]
fn of_records_that_are_appended_at_one_place_at_a_time_one_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let servers = loopback::servers(directory.path(), 2, 1);
    let files = two_clients(&servers);
    for round in 0..200_u64 {
        let (start, end) = (Barrier::new(2), round * 100);
        let append = |(n, file): (usize, &StoreFile)| {
            start.wait();
            file.append_traced(&mut Tracer::off(), &[n as u8 + 1; 100], end).unwrap()
        };
        let append = &append;
        let appended: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> = files.iter().enumerate().map(|of| scope.spawn(move || append(of))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_ne!(appended[0], appended[1], "round {round}");
        let byte = if appended[0] { 1 } else { 2 };
        assert!(content(&files[0])[end as usize..] == [byte; 100], "round {round}");
    }
}

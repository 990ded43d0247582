//! Many short reads and writes in one request, and sizes that are known without a system call.

use crate::loopback::{self, crc32c};
use std::io::IoSlice;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::{DatafileId, DatafileSize, Durability, FileId, IoReply, IoRequest, TargetId};
use thalweg_wire::{Connection, Kind, Reply};
use thalweg_wire::{ErrorKind, Result, limits};

fn id(file: u64, target: u32) -> DatafileId {
    DatafileId { file: FileId(file), index: 0, target: TargetId(target), lot: None }
}

fn connect(servers: &loopback::Servers) -> Connection {
    Connection::connect(&servers.map.servers[0].address, &loopback::connect()).unwrap()
}

type Part = (DatafileId, u64, u64);

fn write_with(connection: &mut Connection, writes: &[Part], payload: &[u8], durability: Durability, crc: u32) -> Result<Vec<i32>> {
    let request = IoRequest::WriteMany { writes: writes.to_vec(), durability };
    connection.post(&mut Tracer::off(), None, Kind::Io, &request, &[IoSlice::new(payload)], crc)?;
    let reply: Reply<IoReply> = connection.complete(&mut Tracer::off())?;
    let IoReply::WrittenMany { each, .. } = reply.body else { panic!("{:?}", reply.body) };
    Ok(each.into_iter().map(|done| done.map_or_else(|refusal| refusal.errno, |()| 0)).collect())
}

fn write(connection: &mut Connection, writes: &[Part], payload: &[u8]) -> Result<Vec<i32>> {
    write_with(connection, writes, payload, Durability::Returned, crc32c(payload))
}

/// The length or errno of each read; and all bytes.
type ReadResults = (Vec<std::result::Result<u64, i32>>, Vec<u8>);

fn read(connection: &mut Connection, reads: &[Part]) -> Result<ReadResults> {
    let request = IoRequest::ReadMany { reads: reads.to_vec() };
    let (reply, payload): (IoReply, _) = connection.call_with(&mut Tracer::off(), Kind::Io, &request, &[])?;
    let IoReply::ReadMany(each) = reply else { panic!("{reply:?}") };
    Ok((each.into_iter().map(|done| done.map_err(|refusal| refusal.errno)).collect(), payload))
}

fn glimpse(connection: &mut Connection, datafiles: Vec<DatafileId>) -> Vec<DatafileSize> {
    match connection.call(&mut Tracer::off(), Kind::Io, &IoRequest::Glimpse { datafiles }).unwrap() {
        IoReply::Sizes(sizes) => sizes,
        other => panic!("{other:?}"),
    }
}

fn size_of(connection: &mut Connection, datafile: DatafileId) -> u64 {
    glimpse(connection, vec![datafile])[0].size_bytes
}

#[test]
fn many_writes_come_back_in_many_reads_each_with_its_own_result() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 2);
    let mut connection = connect(&servers);
    for durability in [Durability::Returned, Durability::Underway, Durability::Synced] {
        let base = 1000 * (durability as u64 + 1);
        // 700 datafiles of 0 to 699 bytes, on both targets and a missing one; some not from their start.
        let many = if durability == Durability::Synced { 40 } else { 700 };
        let parts: Vec<Part> = (0..many).map(|n| (id(base + n, if n % 10 == 3 { 7 } else { n as u32 % 2 }), n % 5 * 4096, n)).collect();
        let payload = loopback::noise(parts.iter().map(|p| p.2 as usize).sum(), 1);
        let done = write_with(&mut connection, &parts, &payload, durability, crc32c(&payload)).unwrap();
        let (back, bytes) = read(&mut connection, &parts).unwrap();
        let (mut from, mut at) = (0, 0);
        for (n, (_, offset, length)) in parts.iter().enumerate() {
            let expected = &payload[from..from + *length as usize];
            from += *length as usize;
            if n % 10 == 3 {
                assert_eq!((done[n], back[n]), (ErrorKind::Absent.errno(), Err(ErrorKind::Absent.errno())), "{n}");
                continue;
            }
            assert_eq!((done[n], back[n]), (0, Ok(*length)), "{n}");
            assert!(bytes[at..at + *length as usize] == *expected, "{n} at {offset}");
            at += *length as usize;
        }
        assert_eq!(at, bytes.len());
    }
    // Unwritten datafiles do not exist; a read beyond the end, or of length 0, returns no bytes.
    let (back, bytes) = read(&mut connection, &[(id(1000, 0), 0, 100), (id(1001, 1), 4096, 100), (id(1006, 0), 4096, 0)]).unwrap();
    assert_eq!((back, bytes.len()), (vec![Ok(0), Ok(1), Ok(0)], 1));
}

#[test]
fn of_many_writes_with_a_wrong_checksum_none_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 1);
    let mut connection = connect(&servers);
    let old = loopback::noise(100, 1);
    write(&mut connection, &[(id(1, 0), 0, 100)], &old).unwrap();
    let lie = loopback::noise(300, 2);
    let parts = [(id(1, 0), 50, 100), (id(2, 0), 0, 200)];
    let error = write_with(&mut connection, &parts, &lie, Durability::Returned, crc32c(&lie) ^ 1).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.message().contains("not stored"), "{error}");
    let (back, bytes) = read(&mut connection, &[(id(1, 0), 0, 300), (id(2, 0), 0, 300)]).unwrap();
    assert_eq!((back, bytes), (vec![Ok(100), Ok(0)], old));
}

#[test]
fn too_many_too_large_and_those_whose_lengths_do_not_add_up_are_refused_and_the_connection_lives() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 1);
    let mut connection = connect(&servers);
    let one = (id(1, 0), 0, 1);
    let too_many = vec![one; limits::BATCH + 1];
    let too_large = vec![(id(1, 0), 0, limits::MANY_BYTES), one];
    for (parts, bytes) in [(too_many, limits::BATCH + 1), (too_large.clone(), limits::MANY_BYTES as usize + 1), (vec![one], 2)] {
        let error = write(&mut connection, &parts, &vec![0; bytes]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    for parts in [too_large, vec![(id(1, 0), 0, u64::MAX), one]] {
        assert_eq!(read(&mut connection, &parts).unwrap_err().kind(), ErrorKind::Invalid);
    }
    let past_the_end = [(id(1, 0), u64::MAX, 1), one];
    assert_eq!(write(&mut connection, &past_the_end, &[7, 8]).unwrap(), [ErrorKind::TooLarge.errno(), 0]);
    assert_eq!(read(&mut connection, &past_the_end).unwrap(), (vec![Err(ErrorKind::TooLarge.errno()), Ok(1)], vec![8]));
    assert_eq!(size_of(&mut connection, id(1, 0)), 1);
}

#[test]
fn a_size_that_is_known_follows_every_change_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 1);
    let (mut connection, mut other) = (connect(&servers), connect(&servers));
    let file = id(5, 0);
    let call = |connection: &mut Connection, request: IoRequest, payload: &[u8]| {
        connection.call_with::<_, IoReply>(&mut Tracer::off(), Kind::Io, &request, payload).unwrap();
    };
    use thalweg_wire::protocol::io::Allocate;
    let all = |how| IoRequest::Allocate { datafiles: vec![(file, 0, 30_000)], how };
    let datafile = file;
    let changes: Vec<(IoRequest, Vec<u8>, u64)> = vec![
        (IoRequest::Write { datafile, offset: 10, durability: Durability::Returned }, vec![1; 90], 100),
        (IoRequest::Write { datafile, offset: 0, durability: Durability::Synced }, vec![1; 50], 100),
        (IoRequest::Truncate { datafiles: vec![(file, 70)] }, vec![], 70),
        (IoRequest::WriteMany { writes: vec![(file, 70, 5)], durability: Durability::Returned }, vec![1; 5], 75),
        (all(Allocate::KeepSize), vec![], 75),
        (all(Allocate::Extend), vec![], 30_000),
        (IoRequest::Truncate { datafiles: vec![(file, 1 << 40)] }, vec![], 1 << 40),
        (IoRequest::Remove { datafiles: vec![file] }, vec![], 0),
        (IoRequest::Write { datafile, offset: 0, durability: Durability::Returned }, vec![1; 3], 3),
    ];
    assert_eq!(size_of(&mut connection, file), 0);
    for (request, payload, expected) in changes {
        call(&mut connection, request.clone(), &payload);
        // Asked of the file system first, and cached then; over another connection too.
        for _ in 0..2 {
            assert_eq!(size_of(&mut connection, file), expected, "{request:?}");
            assert_eq!(size_of(&mut other, file), expected, "{request:?}");
        }
    }
    let on_disk = std::fs::metadata(dir.path().join("t0/datafiles/05/0000000000000005.0")).unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!(glimpse(&mut connection, vec![file])[0].allocated_bytes, on_disk.blocks() * 512);
}

#[test]
fn a_glimpse_beside_writers_sees_at_least_what_was_answered_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 1);
    let written: Vec<std::sync::atomic::AtomicU64> = (0..8).map(|_| 0.into()).collect();
    let over = std::sync::atomic::AtomicBool::new(false);
    use std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut connection = connect(&servers);
                while !over.load(SeqCst) {
                    let least: Vec<u64> = written.iter().map(|size| size.load(SeqCst)).collect();
                    let seen = glimpse(&mut connection, (0..8).map(|n| id(n + 1, 0)).collect());
                    for (seen, least) in seen.iter().zip(least) {
                        assert!(seen.size_bytes >= least, "{} seen after {least} were answered", seen.size_bytes);
                    }
                }
            });
        }
        let mut connection = connect(&servers);
        for round in 1..300 {
            for n in 0..8 {
                write(&mut connection, &[(id(n + 1, 0), round - 1, 1)], &[1]).unwrap();
                written[n as usize].store(round, SeqCst);
            }
        }
        over.store(true, SeqCst);
    });
}

#[test]
fn datafiles_are_made_and_removed_by_many_connections_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 1);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let servers = &servers;
            scope.spawn(move || {
                let mut connection = connect(servers);
                for round in 0..200 {
                    // All threads use the same few datafiles, each its own bytes of them.
                    let datafile = id(round % 7 + 1, 0);
                    let request = IoRequest::Write { datafile, offset: thread * 8, durability: Durability::Returned };
                    connection.call_with::<_, IoReply>(&mut Tracer::off(), Kind::Io, &request, &round.to_le_bytes()).unwrap();
                    if round % 13 == 12 {
                        let request = IoRequest::Remove { datafiles: vec![datafile] };
                        connection.call::<_, IoReply>(&mut Tracer::off(), Kind::Io, &request).unwrap();
                    }
                }
                let own = id(100 + thread, 0);
                write(&mut connection, &[(own, 0, 8)], &thread.to_le_bytes()).unwrap();
                assert_eq!(read(&mut connection, &[(own, 0, 8)]).unwrap().1, thread.to_le_bytes());
            });
        }
    });
    // A datafile just removed is not found, not even through a cached descriptor.
    let mut connection = connect(&servers);
    let gone: Vec<_> = (1..8).map(|n| id(n, 0)).collect();
    connection.call::<_, IoReply>(&mut Tracer::off(), Kind::Io, &IoRequest::Remove { datafiles: gone.clone() }).unwrap();
    let reads: Vec<Part> = gone.iter().map(|id| (*id, 0, 100)).collect();
    assert_eq!(read(&mut connection, &reads).unwrap().0, vec![Ok(0); 7]);
    for datafile in gone {
        let request = IoRequest::Read { datafile, offset: 0, length: 100 };
        let (_, bytes): (IoReply, Vec<u8>) = connection.call_with(&mut Tracer::off(), Kind::Io, &request, &[]).unwrap();
        assert_eq!(bytes, b"");
    }
}

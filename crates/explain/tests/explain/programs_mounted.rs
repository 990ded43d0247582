//! Programs on a mounted store: their waits lead through the mount's threads to servers and their disks.

use crate::common::{Tale, assert_charged, charged_ms, check, place_of};
use thalweg_trace::{ObjectId, ObjectKind, Role, SpanKind as K, TrackId};

/// A program, its mount, and one server, all recorded; the mount existed before the program.
struct Mounted {
    tale: Tale,
    program: TrackId,
    mount: TrackId,
    server: TrackId,
    file: ObjectId,
    ends: (ObjectId, ObjectId),
    disk: TrackId,
    datafile: ObjectId,
    /// Since when mount and server wait for the next request.
    idle: (u64, u64),
}

const COMMAND: u32 = 300;

fn mounted(end_us: u64) -> Mounted {
    mounted_as(end_us, Role::Client, ["mount", "mount/fuse 3"])
}

fn mounted_as(end_us: u64, role: Role, names: [&str; 2]) -> Mounted {
    let mut tale = Tale::new(end_us, 4);
    tale.thread(role, names[0], 100, 100);
    let mount = tale.thread(role, names[1], 100, 103);
    let program = tale.thread(Role::Client, "dd", COMMAND, COMMAND);
    let server = tale.thread(Role::Server, "thalweg/io0 serve", 200, 205);
    tale.meta.attributes.push(("command.pid".into(), COMMAND.to_string()));
    let file = tale.object(ObjectKind::File, "/mnt/store/big", &[("device", ""), ("filesystem", "fuse.thalweg"), ("opened", "read")]);
    let ends = tale.two_ends("127.0.0.1:50000 > 127.0.0.1:7001");
    let disk = tale.device("sdb");
    let datafile = tale.object(ObjectKind::File, "/data/io0/17", &[("device", "sdb"), ("filesystem", "ext4"), ("opened", "read")]);
    Mounted { tale, program, mount, server, file, ends, disk, datafile, idle: (0, 0) }
}

impl Mounted {
    /// One read, requested at `at`, of which the disk takes `disk_us`, with 100 µs for each step between.
    fn read(&mut self, at: u64, disk_us: u64) -> u64 {
        let Mounted { program, mount, server, file, ends, disk, datafile, idle, .. } = *self;
        let tale = &mut self.tale;
        let (asked, sent, looked_up, read) = (at + 100, at + 200, at + 300, at + 300 + disk_us);
        let (replied, back, answered) = (read + 100, read + 200, read + 300);
        tale.wait(mount, K::WaitLock, idle.0, asked).woken_by(program).end();
        tale.span(mount, K::NetSend, sent - 50, sent).on(ends.0).bytes(600).end();
        tale.wait(server, K::NetReceive, idle.1, looked_up).on(ends.1).by_packet().end();
        tale.wait(server, K::FileRead, looked_up, read).on(datafile).by_device(disk).end();
        tale.span(disk, K::DiskRead, looked_up, read).bytes(1 << 20).end();
        tale.span(server, K::NetSend, replied - 50, replied).on(ends.1).bytes(1 << 20).end();
        tale.wait(mount, K::NetReceive, sent, back).on(ends.0).by_packet().end();
        tale.wait(program, K::FileRead, asked, answered).on(file).woken_by(mount).end();
        self.idle = (answered + 50, replied + 50);
        answered + 100
    }
}

#[test]
fn a_read_on_a_mount_is_followed_through_mount_and_server_to_the_disk() {
    let mut m = mounted(10_000);
    let next = m.read(1_000, 3_000);
    m.read(next, 3_000);
    let e = m.tale.explain();
    check(&e);
    assert_charged(&e, "server.read", 6.0);
    assert_eq!(e.verdict.cause.name(), "server.read");
    assert!(place_of(&e, "server.read").starts_with("server io0: file.read"), "{}", place_of(&e, "server.read"));
    assert!(place_of(&e, "server.read").ends_with("on sdb"), "{}", place_of(&e, "server.read"));
    assert!(charged_ms(&e, "unknown") < 0.01, "{:#?}", e.critical_path);
    // The program itself waited for nothing of its own.
    assert!(charged_ms(&e, "client.read") < 0.01, "{:#?}", e.critical_path);
}

#[test]
fn the_walk_begins_with_the_command_though_its_mount_is_older() {
    let mut m = mounted(20_000);
    m.read(1_000, 3_000);
    // Afterwards the program computes, and the mount sleeps.
    let (mount, program) = (m.mount, m.program);
    m.tale.wait(mount, K::WaitLock, 5_000, 20_000).end();
    m.tale.span(program, K::CpuRun, 6_000, 20_000).end();
    let e = m.tale.explain();
    check(&e);
    assert_eq!(e.verdict.cause.name(), "client.cpu", "{:#?}", e.critical_path);
    assert!(place_of(&e, "client.cpu").contains("client dd"), "{}", place_of(&e, "client.cpu"));
}

/// The mount computes for 10 ms, and answers: the client's work, at this place.
fn assert_computes(mut m: Mounted, place: &str) {
    let (mount, program, file) = (m.mount, m.program, m.file);
    m.tale.wait(mount, K::WaitLock, 0, 1_000).woken_by(program).end();
    m.tale.wait(program, K::FileRead, 1_000, 11_000).on(file).woken_by(mount).end();
    let e = m.tale.explain();
    check(&e);
    assert_eq!(e.verdict.cause.name(), "client.cpu", "{:#?}", e.critical_path);
    assert!(e.verdict.place.starts_with(place), "{}", e.verdict.place);
}

#[test]
fn a_mounts_own_work_is_called_the_mounts() {
    assert_computes(mounted(12_000), "mount/fuse: ");
}

#[test]
fn a_mount_that_was_reached_and_not_named_is_the_mount_too() {
    assert_computes(mounted_as(12_000, Role::Server, ["thalweg", "thalweg/mount 3"]), "mount: ");
}

/// The self-description of a mount of two servers, on a machine that runs one of them.
const TWO_SERVERS: &str = r#"{"store": "1", "metadata": "127.0.0.1:7000", "node": "a", "pid": 100, "strict": false,
    "servers": [{"name": "io0", "node": "a", "address": "127.0.0.1:7001"}, {"name": "io1", "node": "b", "address": "127.0.0.1:7002"}]}"#;

#[test]
fn a_file_on_one_server_of_two_is_proposed_to_be_on_both_in_the_words_that_do_it() {
    let mut m = mounted(20_000);
    m.tale.meta.attributes.push(("mount./mnt/store".into(), TWO_SERVERS.into()));
    let mut at = 500;
    while at < 16_000 {
        at = m.read(at, 3_000);
    }
    let e = m.tale.explain();
    check(&e);
    let wide = e.what_if.iter().find(|w| w.id == "layout.wide").unwrap_or_else(|| panic!("{:?} {:?}", e.what_if, e.model));
    assert!(wide.how.starts_with("setfattr -n user.thalweg.layout -v 'simple_stripe datafiles=2' /mnt/store"), "{}", wide.how);
    // Five reads of 3 ms at one disk are as long at half of it each.
    assert!((wide.predicted_wall_s - 0.0125).abs() < 0.001, "{wide:?}");
}

#[test]
fn a_file_that_is_on_all_servers_already_is_not_proposed_to_be() {
    let mut m = mounted(20_000);
    let one_server = TWO_SERVERS.replace(r#", {"name": "io1", "node": "b", "address": "127.0.0.1:7002"}"#, "");
    m.tale.meta.attributes.push(("mount./mnt/store".into(), one_server));
    let next = m.read(500, 3_000);
    m.read(next, 3_000);
    let e = m.tale.explain();
    assert!(!e.what_if.is_empty() && e.what_if.iter().all(|w| w.id != "layout.wide"), "{:?}", e.what_if);
}

//! Servers that stop and come back.

mod stand;

use rustix::fs::{XattrFlags, setxattr};
use stand::{Stand, bytes, wait_until};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const EIO: Option<i32> = Some(libc::EIO);

#[test]
fn a_server_that_is_gone_gives_an_error_at_once_and_works_again_when_it_is_back() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    for target in [0, 1] {
        fs::create_dir(m.at(&format!("d{target}"))).unwrap();
        let layout = format!("basic_dist place=targets:{target}");
        setxattr(m.at(&format!("d{target}")), "user.thalweg.layout", layout.as_bytes(), XattrFlags::empty()).unwrap();
        fs::write(m.at(&format!("d{target}/f")), "here").unwrap();
    }
    let open = File::open(m.at("d1/f")).unwrap();
    stand.stop_server("io1");
    let began = Instant::now();
    let mut found = [0; 4];
    let error = open.read_exact_at(&mut found, 0).and_then(|()| File::options().append(true).open(m.at("d1/f"))?.write_all(b"x"));
    assert_eq!(error.unwrap_err().raw_os_error(), EIO);
    assert!(began.elapsed() < Duration::from_secs(8), "an error within 2 s, with room for a busy machine: {:?}", began.elapsed());
    assert_eq!(fs::read_to_string(m.at("d0/f")).unwrap(), "here", "other files stay readable");
    let listed: Vec<_> = fs::read_dir(m.at("d1")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(listed, ["f"], "names are listed");
    stand.stop();
    stand.start();
    wait_until("the file to be readable again", || fs::read_to_string(m.at("d1/f")).is_ok_and(|text| text == "here"));
    fs::write(m.at("d1/f"), "again").unwrap();
    assert_eq!(fs::read_to_string(m.at("d1/f")).unwrap(), "again");
}

#[test]
fn without_the_metadata_service_names_fail_and_open_files_go_on() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    let content = bytes(1 << 20, 1);
    fs::write(m.at("f"), &content).unwrap();
    let file = File::options().read(true).write(true).open(m.at("f")).unwrap();
    // The I/O servers keep their addresses: restarting all of them is equivalent to restarting the service alone.
    stand.stop();
    assert_eq!(fs::create_dir(m.at("d")).unwrap_err().raw_os_error(), EIO);
    stand.start();
    wait_until("names to work", || fs::create_dir(m.at("d")).is_ok());
    let mut found = vec![0; 1 << 20];
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found == content);
    file.write_all_at(b"and on", 0).unwrap();
    drop(file);
    assert_eq!(&fs::read(m.at("f")).unwrap()[..6], b"and on");
}

/// With several connections, each closed by the server that stopped, a retry after the first failure does not use the next of them.
#[test]
fn a_write_after_a_restart_is_not_lost_however_many_connections_there_were() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    for round in 0..5_u8 {
        let large = bytes(32 << 20, round.into());
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (m, large) = (&m, &large);
                scope.spawn(move || fs::write(m.at(&format!("large{writer}")), large).unwrap());
            }
        });
        let file = File::create(m.at(&format!("f{round}"))).unwrap();
        stand.stop();
        stand.start();
        wait_until("names to work", || fs::create_dir(m.at(&format!("d{round}"))).is_ok());
        file.write_all_at(b"and on", 0).unwrap();
        file.sync_all().unwrap();
        drop(file);
        assert_eq!(fs::read(m.at(&format!("f{round}"))).unwrap(), b"and on");
    }
}

#[test]
fn bytes_that_a_restart_may_have_lost_are_an_error_of_sync_once() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    let file = File::create(m.at("f")).unwrap();
    file.write_all_at(b"not synced", 0).unwrap();
    let same = File::options().write(true).open(m.at("f")).unwrap();
    // At the server, in its page cache.
    drop(file.try_clone().unwrap());
    stand.stop();
    stand.start();
    wait_until("the service", || fs::metadata(m.path()).is_ok());
    file.write_all_at(b"more", 100).unwrap();
    let mut refused = 0;
    wait_until("syncs that succeed", || match file.sync_all() {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.raw_os_error(), EIO);
            refused += 1;
            false
        }
    });
    file.sync_all().unwrap();
    drop(same);
    println!("refused {refused} times");
}

#[test]
fn writes_that_fail_after_they_were_acknowledged_are_errors_of_sync_and_close() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    let mut file = File::create(m.at("f")).unwrap();
    file.write_all(b"first").unwrap();
    file.sync_all().unwrap();
    stand.stop_server("io0");
    // Acknowledged immediately, and lost.
    let _ = file.write_all(b"lost");
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), EIO);
    drop(file);
    stand.stop();
    stand.start();
    wait_until("a writer", || File::options().write(true).open(m.at("f")).is_ok());
    assert_eq!(fs::read_to_string(m.at("f")).unwrap_err().raw_os_error(), EIO, "bytes of it are lost");
    fs::write(m.at("f"), "first and more").unwrap();
    assert_eq!(fs::read_to_string(m.at("f")).unwrap(), "first and more");
}

#[test]
fn a_mount_of_a_store_that_is_away_can_be_unmounted() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    fs::write(m.at("f"), "x").unwrap();
    stand.stop();
    m.unmount().unwrap();
}

//! Targets that are unreachable, and return with the same, fewer or older shares.

use super::processes::Processes;
use super::*;
use thalweg_wire::protocol::lots::LotUse;

fn share_at(client: &Client, target: u32) -> Option<u64> {
    let report = client.show("run").ok()?;
    report.uses.iter().find(|used| used.target.0 == target).map(|used| used.share.share_bytes)
}

/// Starts servers in separate processes, with a lot of this size for files in `/run`.
fn with_a_lot(directory: &Path, size_bytes: u64) -> (Processes, Client) {
    let processes = Processes::start(directory);
    let client = processes.connect();
    let lot = client.create("run", size_bytes, HOUR_NS).unwrap().lot.id;
    client.directory("/run", lot).unwrap();
    (processes, client)
}

#[test]
fn use_is_exact_when_two_targets_were_away() {
    let directory = tempfile::tempdir().unwrap();
    let (mut processes, client) = with_a_lot(directory.path(), 64 * MIB);
    for n in 0..8 {
        fill(&client.laid_out(&format!("/run/{n}"), on_target(n % 4)).unwrap(), 1 << 16, MIB);
    }
    processes.kill("io1");
    processes.kill("io2");
    // Files removed meanwhile are deleted once the targets are back, and files created elsewhere count there.
    client.unlink("/run/1").unwrap();
    client.unlink("/run/2").unwrap();
    fill(&client.laid_out("/run/8", on_target(0)).unwrap(), 1 << 16, MIB);
    assert_eq!(client.show("run").unwrap().uses.len(), 2);
    assert!(client.resize("run", 32 * MIB).is_err(), "how much is used there nobody knows");
    processes.run("io1");
    processes.run("io2");
    wait_until("both are back, and without what was removed", || {
        client.show("run").is_ok_and(|report| report.uses.len() == 4 && used(&report) == 7 * MIB)
    });
    check(directory.path(), &client.show("run").unwrap());
    client.resize("run", 32 * MIB).unwrap();
    check(directory.path(), &client.show("run").unwrap());
}

#[test]
fn a_list_of_shares_that_is_gone_or_older_is_put_right_when_its_server_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let (mut processes, client) = with_a_lot(directory.path(), 16 * MIB);
    let list = directory.path().join("io1/thalweg-lots.toml");
    let older = std::fs::read(&list).unwrap();
    // Its promise moves away, and the lot is enlarged.
    let (written, refused) = fill(&client.laid_out("/run/f", on_target(2)).unwrap(), 1 << 16, 12 * MIB);
    assert_eq!((written, refused), (12 * MIB, None));
    client.resize("run", 24 * MIB).unwrap();
    let right = share_at(&client, 1).unwrap();
    for put_back in [None, Some(&older)] {
        processes.kill("io1");
        match put_back {
            None => std::fs::remove_file(&list).unwrap(),
            Some(older) => std::fs::write(&list, older).unwrap(),
        }
        processes.run("io1");
        wait_until("its share is right", || {
            let Ok(report) = client.show("run") else { return false };
            let is_right = |used: &LotUse| used.share.size_bytes == 24 * MIB && (used.target.0 != 1 || used.share.share_bytes == right);
            report.uses.len() == SERVERS && report.uses.iter().all(is_right)
        });
        check(directory.path(), &client.show("run").unwrap());
    }
    // The share of a lot removed meanwhile is released soon.
    client.remove("run", true).unwrap();
    processes.kill("io1");
    std::fs::write(&list, &older).unwrap();
    processes.run("io1");
    wait_until("it is forgotten", || !std::fs::read_to_string(&list).unwrap().contains("run"));
}

#[test]
fn what_was_written_to_a_share_that_was_too_large_is_covered_by_what_others_have_left() {
    let directory = tempfile::tempdir().unwrap();
    let (mut processes, client) = with_a_lot(directory.path(), 16 * MIB);
    let list = directory.path().join("io1/thalweg-lots.toml");
    let older = std::fs::read(&list).unwrap();
    let file = client.laid_out("/run/f", on_target(1)).unwrap();
    assert_eq!(fill(&file, 4096, 4096), (4096, None));
    let large = client.laid_out("/run/large", on_target(2)).unwrap();
    assert_eq!(fill(&large, 1 << 16, 14 * MIB), (14 * MIB, None));
    assert_eq!(share_at(&client, 1), Some(4096), "what it does not use has moved");
    drop(large);
    client.unlink("/run/large").unwrap();
    wait_until("its bytes are gone", || client.show("run").is_ok_and(|report| used(&report) == 4096));
    // It returns with all its earlier shares, while the metadata service is down, and is written to.
    processes.kill("metadata");
    processes.kill("io1");
    std::fs::write(&list, &older).unwrap();
    processes.run("io1");
    let (written, refused) = fill(&file, 1 << 16, 16 * MIB);
    assert_eq!((written, refused.as_ref().map(Error::kind)), (4 * MIB, Some(ErrorKind::Quota)), "{refused:?}");
    processes.run("metadata");
    wait_until("all shares come to the lot", || {
        let Ok(report) = client.show("run") else { return false };
        let of = |used: &LotUse| report.lot.shares.contains(&(used.target, used.share.share_bytes));
        report.uses.len() == 4
            && report.uses.iter().all(of)
            && report.uses.iter().map(|used| used.share.share_bytes).sum::<u64>() == 16 * MIB
    });
    check(directory.path(), &client.show("run").unwrap());
}

//! Privileges of files are copied only on request, in every direction.

use super::trees::{job, local, start, stored};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use thalweg_client::DataClient;
use thalweg_client::copy::{LeftOut, Quiet, TreeJob, TreeOutcome, TreeStore, copy_tree};
use thalweg_client::metadata::MetadataClient;
use thalweg_trace::{TraceHandle, Tracer};
use thalweg_wire::Connect;
use thalweg_wire::protocol::metadata::{FileKind, FilePath};
use thalweg_wire::trust::{Credential, Credentials, Rights};

fn copy(job: &TreeJob) -> TreeOutcome {
    let done = copy_tree(job, &Quiet, &TraceHandle::off()).unwrap();
    assert_eq!((done.failed, done.unread), (0, 0));
    done
}

/// Creates a tree with all kinds of privileges, in small and large files.
fn lending_tree(tree: &Path) {
    std::fs::create_dir_all(tree.join("shared")).unwrap();
    let mode = |name: &str, mode: u32| std::fs::set_permissions(tree.join(name), PermissionsExt::from_mode(mode)).unwrap();
    for (name, size, bits) in [("su", 10, 0o4755), ("shared/sg", 10, 0o2711), ("large", 3 << 20, 0o6755), ("plain", 10, 0o1644)] {
        std::fs::write(tree.join(name), vec![7_u8; size]).unwrap();
        mode(name, bits);
    }
    mode("shared", 0o2775);
    for (name, kind) in [("null", FileType::CharacterDevice), ("shared/disk", FileType::BlockDevice)] {
        mknodat(CWD, tree.join(name), kind, Mode::from_raw_mode(0o600), makedev(1, 3)).unwrap();
    }
    mknodat(CWD, tree.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn modes(tree: &Path) -> [u32; 5] {
    ["su", "shared/sg", "large", "plain", "shared"].map(|name| std::fs::metadata(tree.join(name)).unwrap().mode() & 0o7777)
}

#[test]
fn no_device_and_no_set_id_bit_goes_into_or_out_of_a_store_unless_it_is_asked_for() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: device nodes are made by root only");
    }
    let (dir, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_up, store) = start(dir.path(), 2);
    let tree = here.path().join("tree");
    lending_tree(&tree);
    let kept = |from, to| TreeJob { privileges: true, ..job(from, to) };
    let left_out = LeftOut { devices: 2, set_id_bits: 3, owners: 0 };
    assert_eq!(copy(&job(local(&tree), stored(&store, "/in"))).left_out, left_out);
    let all = copy(&kept(local(&tree), stored(&store, "/all")));
    assert_eq!((all.left_out, all.others), (LeftOut::default(), 3));
    let kind = |path: &str| store.names.stat(&mut Tracer::off(), &FilePath::at(path)).map(|found| found.kind);
    assert!(kind("/in/null").is_err() && kind("/all/null").unwrap() == FileKind::CharacterDevice);
    let out = here.path().join("out");
    let done = copy(&job(stored(&store, "/all"), local(&out)));
    assert_eq!((done.left_out, done.others), (left_out, 1));
    assert_eq!(modes(&out), [0o755, 0o711, 0o755, 0o1644, 0o2775]);
    assert!(!out.join("null").exists() && !out.join("shared/disk").exists() && out.join("pipe").exists());
    let plain = here.path().join("plain");
    let done = copy(&TreeJob { preserve: false, ..job(stored(&store, "/all"), local(&plain)) });
    assert_eq!(done.left_out, LeftOut { devices: 2, ..LeftOut::default() });
    assert!(modes(&plain).iter().take(4).all(|mode| mode & 0o7000 == 0));
    let whole = here.path().join("whole");
    copy(&kept(stored(&store, "/all"), local(&whole)));
    assert_eq!(modes(&whole), modes(&tree));
    assert!(std::fs::metadata(whole.join("shared/disk")).unwrap().file_type().is_block_device());
}

#[test]
fn a_tree_is_kept_with_an_owners_credential_as_far_as_the_store_takes_it() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: files are given away by root only");
    }
    let (dir, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (up, _) = start(dir.path(), 2);
    let tree = here.path().join("tree");
    lending_tree(&tree);
    std::os::unix::fs::chown(tree.join("plain"), Some(1234), Some(1234)).unwrap();
    std::os::unix::fs::chown(tree.join("shared"), Some(0), Some(77)).unwrap();
    std::fs::set_permissions(tree.join("shared"), PermissionsExt::from_mode(0o2775)).unwrap();
    let own = Credential::read(&dir.path().join("store.credential")).unwrap();
    let credentials = Credentials::given(own.derive("ana", Rights::Write, None).unwrap());
    let connect = Connect { credentials, ..Connect::default() };
    let names = MetadataClient::connect(&mut Tracer::off(), &up.address().service().unwrap(), &connect).unwrap();
    let data = Arc::new(DataClient::new(names.map().as_ref().clone(), &connect));
    let ana = TreeStore { names, data };
    let done = copy(&job(local(&tree), stored(&ana, "/in")));
    assert_eq!(done.left_out, LeftOut { devices: 2, set_id_bits: 3, owners: 1 });
    let found = |path: &str| ana.names.stat(&mut Tracer::off(), &FilePath::at(path)).unwrap();
    let (plain, shared) = (found("/in/plain"), found("/in/shared"));
    assert_eq!(
        (plain.uid, plain.mode, plain.modified_ns / 1_000_000_000),
        (65_534, 0o1644, std::fs::metadata(tree.join("plain")).unwrap().mtime())
    );
    assert_eq!((shared.uid, shared.gid, shared.mode), (65_534, 77, 0o2775));
    // The store refuses what the credential may not store, each with a reason.
    let asked = TreeJob { privileges: true, ..job(local(&tree), stored(&ana, "/asked")) };
    assert_eq!(copy_tree(&asked, &Quiet, &TraceHandle::off()).unwrap().failed, 5);
}

//! Ordinary programs in lots, on a mount.

use super::{credential_of, make, used};
use crate::bounded::Bounded;
use crate::common::{Mounted, Up, can_mount, content, run, scratch, text, wait_until};
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr, statvfs};
use rustix::io::Errno;
use std::path::Path;
use std::process::Command;

const LOT: &str = "user.thalweg.lot";

fn get(path: &Path, name: &str) -> Result<String, Errno> {
    let mut value = vec![0; 4096];
    let length = getxattr(path, name, &mut value)?;
    Ok(String::from_utf8_lossy(&value[..length]).into_owned())
}

fn set(path: &Path, lot: &str) -> Result<(), Errno> {
    setxattr(path, LOT, lot.as_bytes(), XattrFlags::empty())
}

fn shell(directory: &Path, script: &str) -> std::process::Output {
    Command::new("sh").args(["-ec", script]).current_dir(directory).env("LC_ALL", "C").output_in_time().unwrap()
}

#[test]
fn a_directorys_lot_is_an_extended_attribute_beside_its_layout() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(2), scratch());
    make(&store, "run", "8Mi");
    let mount = Mounted::new(&store, &here.path().join("m"), &[]);
    let d = mount.at("d");
    std::fs::create_dir(&d).unwrap();
    assert_eq!((get(&d, LOT), removexattr(&d, LOT)), (Err(Errno::NODATA), Err(Errno::NODATA)));
    setxattr(&d, "user.thalweg.layout", b"basic_dist", XattrFlags::empty()).unwrap();
    set(&d, "run").unwrap();
    std::fs::write(d.join("f"), content(1, 100_000)).unwrap();
    std::fs::create_dir(d.join("sub")).unwrap();
    for path in [d.clone(), d.join("f"), d.join("sub")] {
        assert_eq!(get(&path, LOT).as_deref(), Ok("run"), "{}", path.display());
        assert!(get(&path, "user.thalweg.layout").unwrap().starts_with("basic_dist"), "{}", path.display());
    }
    // It is not carried along by `mv` and `cp -a`.
    assert_eq!(listxattr(&d, &mut [0_u8; 100]), Ok(0));
    assert_eq!(set(&d, "none"), Err(Errno::INVAL));
    assert!(get(&d, "user.thalweg.error").unwrap().contains("none"));
    assert_eq!(set(&d.join("f"), "run"), Err(Errno::PERM));
    removexattr(&d, "user.thalweg.layout").unwrap();
    assert_eq!((get(&d, LOT).as_deref(), get(&d, "user.thalweg.layout")), (Ok("run"), Err(Errno::NODATA)));
    removexattr(&d, LOT).unwrap();
    assert_eq!(get(&d, LOT), Err(Errno::NODATA));
    assert_eq!(get(&d.join("f"), LOT).as_deref(), Ok("run"), "a file stays in the lot it was made in");
    mount.umount().done();
}

#[test]
fn ordinary_programs_work_in_a_lot_and_meet_its_end_as_edquot() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(2), scratch());
    for name in ["a", "b"] {
        make(&store, name, "8Mi");
    }
    let mount = Mounted::new(&store, &here.path().join("m"), &[]);
    for name in ["a", "b"] {
        std::fs::create_dir(mount.at(name)).unwrap();
        set(&mount.at(name), name).unwrap();
    }
    let root = mount.at("");
    let script = "mkdir -p a/tree/sub; dd if=/dev/urandom of=a/tree/one bs=64k count=16 status=none; cp a/tree/one a/tree/sub/two;
        cp -r a/tree a/copy; cmp a/copy/sub/two a/tree/one; mv a/tree/one a/tree/sub/one";
    let done = shell(&root, script);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(used(&store, "a") >= 4 << 20 && used(&store, "b") == 0);
    // rename(2) says EXDEV, and mv copies and removes.
    assert_eq!(rustix::fs::rename(mount.at("a/copy"), mount.at("b/copy")), Err(Errno::XDEV));
    assert_eq!(rustix::fs::link(mount.at("a/tree/sub/two"), mount.at("b/two")), Err(Errno::XDEV));
    let done = shell(&root, "mv a/copy b/copy; cmp b/copy/sub/two a/tree/sub/two; test ! -e a/copy");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!((get(&mount.at("b/copy"), LOT).as_deref(), get(&mount.at("b/copy/one"), LOT).as_deref()), (Ok("b"), Ok("b")));
    wait_until("what was moved is no longer in its old lot", || used(&store, "a") < 3 << 20);
    let said = shell(&root, "dd if=/dev/zero of=a/big bs=1M count=32 conv=fsync");
    assert!(!said.status.success() && String::from_utf8_lossy(&said.stderr).contains("quota exceeded"), "{said:?}");
    mount.umount().done();
}

#[test]
fn df_inside_a_lot_is_the_lots() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(2), scratch());
    make(&store, "run", "8Mi");
    let whole = Mounted::new(&store, &here.path().join("whole"), &[]);
    std::fs::create_dir(whole.at("d")).unwrap();
    set(&whole.at("d"), "run").unwrap();
    std::fs::write(whole.at("d/f"), content(1, 4 << 20)).unwrap();
    let size = |path: &Path| statvfs(path).map(|space| space.f_blocks * space.f_frsize).unwrap();
    let free = |path: &Path| statvfs(path).map(|space| space.f_bavail * space.f_frsize).unwrap();
    wait_until("the lot's size is seen", || size(&whole.at("d")) == 8 << 20 && free(&whole.at("d/f")) <= 4 << 20);
    assert!(size(&whole.at("")) != 8 << 20 && free(&whole.at("d")) > 3 << 20);
    let inside = Mounted::new(&store, &here.path().join("inside"), &["--lot", "run"]);
    assert_eq!(size(&inside.at("")), 8 << 20);
    std::fs::write(inside.at("new"), "x").unwrap();
    assert_eq!(get(&inside.at("new"), LOT).as_deref(), Ok("run"));
    let nowhere = here.path().join("nowhere");
    std::fs::create_dir(&nowhere).unwrap();
    run(["mount", "--lot", "none", &store.address, text(&nowhere)]).failed(1, &["--lot none"]);
    inside.umount().done();
    whole.umount().done();
}

#[test]
fn root_of_a_mount_with_another_owners_credential_is_kept_out_of_a_lot() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(1), scratch());
    make(&store, "run", "4Mi");
    run(["mkdir", "--lot", "run", &store.path("/d")]).done();
    let bob = credential_of(&store, "bob");
    let mount = Mounted::new(&store, &here.path().join("m"), &["--credential", text(&bob)]);
    // The directory's lot is for its owner's files: another's are made outside of it, and not refused.
    std::fs::write(mount.at("d/f"), "x").unwrap();
    assert_ne!(get(&mount.at("d/f"), LOT).as_deref(), Ok("#1"));
    std::fs::create_dir(mount.at("e")).unwrap();
    assert_eq!(set(&mount.at("e"), "run"), Err(Errno::ACCESS));
    assert!(get(&mount.at("e"), "user.thalweg.error").unwrap().contains("lot `run` is `store`'s"));
    assert_eq!(get(&mount.at("d"), LOT).as_deref(), Ok("#1"));
    mount.umount().done();
}

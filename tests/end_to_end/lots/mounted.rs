//! Ordinary programs in lots, on a mount.

use super::{credential_of, make, run_as, used};
use crate::bounded::Bounded;
use crate::common::{Mounted, Up, can_mount, content, file, run, scratch, text, wait_until};
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
    // `mv` and `cp -a` do not copy it.
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
    // rename(2) fails with EXDEV, and mv copies and removes.
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
fn root_of_a_mount_with_another_owners_credential_is_kept_out_of_a_lot_and_of_nothing_else() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(1), scratch());
    make(&store, "run", "4Mi");
    run(["mkdir", "--lot", "run", &store.path("/d")]).done();
    run(["cp", "-q", text(&file(here.path(), "source", b"the store's")), &store.path("/d/in")]).done();
    let bob = credential_of(&store, "bob");
    let mount = Mounted::new(&store, &here.path().join("m"), &["--credential", text(&bob)]);
    // What he creates there is in no lot; he may not read, write or remove the lot's files.
    std::fs::write(mount.at("d/f"), "x").unwrap();
    assert_eq!(get(&mount.at("d/f"), LOT), Err(Errno::NODATA));
    for refused in
        [std::fs::read(mount.at("d/in")).map(drop), std::fs::write(mount.at("d/in"), "x"), std::fs::remove_file(mount.at("d/in"))]
    {
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EACCES));
    }
    std::fs::remove_file(mount.at("d/f")).unwrap();
    std::fs::create_dir(mount.at("e")).unwrap();
    assert_eq!(set(&mount.at("e"), "run"), Err(Errno::ACCESS));
    assert!(get(&mount.at("e"), "user.thalweg.error").unwrap().contains("lot `run` is `store`'s"));
    assert_eq!(get(&mount.at("d"), LOT).as_deref(), Ok("#1"));
    mount.umount().done();
}

#[test]
fn an_owner_puts_no_lot_on_the_root_or_on_anothers_directory_and_undoes_what_stands_on_their_own() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(1), scratch());
    let (ana, bob) = (credential_of(&store, "ana"), credential_of(&store, "bob"));
    run_as(&store, &ana, &["lot", "create", "mine", "--size", "4Mi", "--for", "1h"]).done();
    let [of_ana, of_bob] =
        [("a", &ana), ("b", &bob)].map(|(name, who)| Mounted::new(&store, &here.path().join(name), &["--credential", text(who)]));
    std::fs::create_dir(of_bob.at("bobs")).unwrap();
    for (path, whose) in [(".", "the store's own credential"), ("bobs", "`bob`")] {
        assert_eq!(set(&of_ana.at(path), "mine"), Err(Errno::ACCESS), "{path}");
        assert!(get(&of_ana.at(path), "user.thalweg.error").unwrap().contains(whose), "{path}");
    }
    std::fs::create_dir(of_ana.at("anas")).unwrap();
    set(&of_ana.at("anas"), "mine").unwrap();
    std::fs::write(of_ana.at("anas/f"), "x").unwrap();
    assert_eq!(get(&of_ana.at("anas/f"), LOT).as_deref(), Ok("mine"));
    std::fs::write(of_bob.at("anas/f2"), "x").unwrap();
    // The store may set any lot on any directory; the directory's owner can remove it.
    let own = Mounted::new(&store, &here.path().join("s"), &[]);
    set(&own.at("bobs"), "mine").unwrap();
    std::fs::write(of_bob.at("bobs/f"), "x").unwrap();
    rustix::fs::removexattr(of_bob.at("bobs"), LOT).unwrap();
    assert_eq!(get(&own.at("bobs"), LOT), Err(Errno::NODATA));
    for mount in [of_ana, of_bob, own] {
        mount.umount().done();
    }
}

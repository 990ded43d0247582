//! Extended attributes: users' own, and synthetic ones.

mod stand;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, listxattr, mknodat, removexattr, setxattr};
use rustix::io::Errno;
use stand::Stand;
use std::fs;
use std::path::Path;

fn get(path: &Path, name: &str) -> Result<String, Errno> {
    let mut value = vec![0; 70_000];
    let length = getxattr(path, name, &mut value)?;
    value.truncate(length);
    Ok(String::from_utf8(value).unwrap())
}

#[test]
fn users_attributes_are_set_listed_and_removed_and_go_with_the_file() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount("m");
    fs::write(m.at("f"), "x").unwrap();
    let f = m.at("f");
    setxattr(&f, "user.one", b"1", XattrFlags::empty()).unwrap();
    setxattr(&f, "user.two", &[b'2'; 60_000], XattrFlags::CREATE).unwrap();
    assert_eq!(setxattr(&f, "user.one", b"x", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(setxattr(&f, "user.three", b"x", XattrFlags::REPLACE), Err(Errno::NODATA));
    fs::rename(&f, m.at("g")).unwrap();
    let other = stand.mount("other");
    let g = other.at("g");
    assert_eq!(get(&g, "user.one").unwrap(), "1");
    assert_eq!(get(&g, "user.two").unwrap().len(), 60_000);
    let mut list = vec![0; 100];
    let length = listxattr(&g, &mut list).unwrap();
    assert_eq!(&list[..length], b"user.one\0user.two\0");
    assert_eq!(getxattr(&g, "user.two", &mut [0_u8; 10]), Err(Errno::RANGE));
    removexattr(&g, "user.one").unwrap();
    assert_eq!(get(&g, "user.one"), Err(Errno::NODATA));
    assert_eq!(getxattr(&g, "system.posix_acl_access", &mut [0_u8; 100]), Err(Errno::OPNOTSUPP));
}

#[test]
fn a_directorys_layout_is_inherited_and_read_back() {
    needs_mounts!();
    let stand = Stand::new(4);
    let m = stand.mount("m");
    fs::create_dir(m.at("d")).unwrap();
    assert_eq!(get(&m.at("d"), "user.thalweg.layout"), Err(Errno::NODATA));
    let asked = "simple_stripe,strip_size=64Ki datafiles=2 place=targets:3,1";
    setxattr(m.at("d"), "user.thalweg.layout", asked.as_bytes(), XattrFlags::empty()).unwrap();
    fs::create_dir(m.at("d/sub")).unwrap();
    fs::write(m.at("d/sub/f"), vec![7; 100_000]).unwrap();
    let layout = "simple_stripe,strip_size=65536 datafiles=2 place=targets:3,1";
    assert_eq!(get(&m.at("d"), "user.thalweg.layout").unwrap(), layout);
    assert_eq!(get(&m.at("d/sub/f"), "user.thalweg.layout").unwrap(), layout);
    assert_eq!(get(&m.at("d/sub/f"), "user.thalweg.map").unwrap(), "0 3 io3 here 65536\n1 1 io1 here 34464\n");
    removexattr(m.at("d"), "user.thalweg.layout").unwrap();
    assert_eq!(get(&m.at("d"), "user.thalweg.layout"), Err(Errno::NODATA));
    assert_eq!(removexattr(m.at("d"), "user.thalweg.layout"), Err(Errno::NODATA));
}

#[test]
fn a_file_without_bytes_gets_a_layout_and_one_with_bytes_does_not() {
    needs_mounts!();
    let stand = Stand::new(3);
    let m = stand.mount("m");
    let f = m.at("f");
    mknodat(CWD, &f, FileType::RegularFile, Mode::from_raw_mode(0o644), 0).unwrap();
    let set = |text: &str| setxattr(&f, "user.thalweg.layout", text.as_bytes(), XattrFlags::empty());
    set("varstrip_dist,strips=0:2K;1:1K place=targets:2,0").unwrap();
    assert_eq!(get(&f, "user.thalweg.layout").unwrap(), "varstrip_dist,strips=0:2K;1:1K datafiles=2 place=targets:2,0");
    assert_eq!(set("varstrip_dist,strips=0:0"), Err(Errno::INVAL));
    let reason = get(&f, "user.thalweg.error").unwrap();
    assert!(!reason.is_empty());
    assert_eq!(set("nonsense"), Err(Errno::INVAL));
    assert_eq!(get(&f, "user.thalweg.layout").unwrap(), "varstrip_dist,strips=0:2K;1:1K datafiles=2 place=targets:2,0");
    let open = fs::File::open(&f).unwrap();
    assert_eq!(set("basic_dist"), Err(Errno::BUSY), "it is open");
    assert!(get(&f, "user.thalweg.error").unwrap().contains("open"));
    drop(open);
    // close(2) returns before the mount is notified.
    for _ in 0..100 {
        assert_eq!(set("basic_dist"), Ok(()), "not open anywhere");
        drop(fs::File::open(&f).unwrap());
    }
    assert_eq!(set("basic_dist"), Ok(()), "not open anywhere");
    fs::write(&f, "bytes").unwrap();
    assert_eq!(set("simple_stripe"), Err(Errno::BUSY), "it has bytes");
}

#[test]
fn the_store_describes_itself_and_no_virtual_attribute_is_listed_or_set() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    let document: serde_json::Value = serde_json::from_str(&get(m.path(), "user.thalweg.store").unwrap()).unwrap();
    assert_eq!(document["servers"].as_array().unwrap().len(), 2);
    assert_eq!((document["node"].as_str(), document["strict"].as_bool()), (Some("here"), Some(false)));
    assert_eq!(document["metadata"].as_str(), Some(stand.address.as_str()));
    assert_eq!(document["pid"].as_u64(), Some(u64::from(std::process::id())));
    assert_eq!(setxattr(m.path(), "user.thalweg.store", b"x", XattrFlags::empty()), Err(Errno::PERM));
    assert_eq!(listxattr(m.path(), &mut [0_u8; 100]).unwrap(), 0);
}

#[test]
fn a_mounts_own_layout_is_for_directories_without_a_default() {
    needs_mounts!();
    let stand = Stand::new(4);
    let layout = "simple_stripe,strip_size=131072 datafiles=1 place=targets:2".parse().unwrap();
    let m = stand.mount_with("m", |options| options.layout = layout);
    fs::create_dir(m.at("d")).unwrap();
    setxattr(m.at("d"), "user.thalweg.layout", b"basic_dist place=targets:0", XattrFlags::empty()).unwrap();
    fs::write(m.at("f"), "").unwrap();
    fs::write(m.at("d/f"), "").unwrap();
    assert_eq!(get(&m.at("f"), "user.thalweg.layout").unwrap(), "simple_stripe,strip_size=131072 datafiles=1 place=targets:2");
    assert_eq!(get(&m.at("d/f"), "user.thalweg.layout").unwrap(), "basic_dist datafiles=1 place=targets:0");
}

#[test]
fn a_file_without_attributes_is_not_asked_for_them_again_and_one_that_gets_some_shows_them_at_once() {
    needs_mounts!();
    let stand = Stand::new(1);
    let m = stand.mount_with("m", |options| options.lifetime = std::time::Duration::from_secs(3600));
    let other = stand.mount("other");
    std::fs::create_dir(other.at("d")).unwrap();
    for i in 0..20 {
        std::fs::write(other.at(&format!("d/f{i}")), "").unwrap();
    }
    setxattr(other.at("d/f7"), "user.has", b"one", XattrFlags::empty()).unwrap();
    std::os::unix::fs::symlink("to somewhere", other.at("d/link")).unwrap();
    let listed: Vec<_> = std::fs::read_dir(m.at("d")).unwrap().map(|e| e.unwrap().path()).collect();
    // Known values need no service.
    stand.stop();
    let room = || vec![0_u8; 100];
    for path in listed.iter().filter(|path| !path.ends_with("f7") && !path.ends_with("link")) {
        assert_eq!(rustix::fs::listxattr(path, &mut room()).unwrap(), 0);
        assert_eq!(get(path, "user.has"), Err(Errno::NODATA));
    }
    assert_eq!(std::fs::read_link(m.at("d/link")).unwrap().to_str(), Some("to somewhere"));
    assert_eq!(get(&m.at("d/f7"), "user.has"), Err(Errno::IO), "this one has to be asked for");
    stand.start();
    stand::wait_until("names to work", || get(&m.at("d/f7"), "user.has").as_deref() == Ok("one"));
    setxattr(m.at("d/f3"), "user.new", b"here", XattrFlags::empty()).unwrap();
    assert_eq!(get(&m.at("d/f3"), "user.new").as_deref(), Ok("here"));
    assert_eq!(get(&m.at("d/f3"), "security.selinux"), Err(Errno::OPNOTSUPP));
}

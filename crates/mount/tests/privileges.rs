//! Privileges in a store that a machine honours: none, unless root requests them.

mod stand;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, makedev, mknodat, setxattr};
use rustix::io::Errno;
use stand::{Mounted, Stand};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use thalweg_client::wire::trust::{Credential, Credentials, Rights};
use thalweg_mount::Honours;

const NOBODY: u32 = 65_534;
/// Capabilities of version 2, with nothing permitted.
const CAPABILITIES: [u8; 20] = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn mode(path: &Path, mode: u32) -> Result<(), Option<i32>> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|e| e.raw_os_error())
}

/// Makes a set-user copy of `id` owned by root, and two devices. Directories above are open to all.
fn filled(m: &Mounted) {
    fs::copy("/usr/bin/id", m.at("id")).unwrap();
    mode(&m.at("id"), 0o6755).unwrap();
    for (name, kind, device) in [("zero", FileType::CharacterDevice, makedev(1, 5)), ("ram", FileType::BlockDevice, makedev(1, 0))] {
        mknodat(CWD, m.at(name), kind, Mode::from_raw_mode(0o666), device).unwrap();
        mode(&m.at(name), 0o666).unwrap();
    }
}

/// Returns the effective user of a copy of `id` run by user 65534.
fn effective_user(program: &Path) -> u32 {
    let run = Command::new(program).arg("-u").uid(NOBODY).gid(NOBODY).output().unwrap();
    String::from_utf8(run.stdout).unwrap().trim().parse().unwrap()
}

/// Creates a stand whose mount directory is open to all users.
fn open_stand() -> Stand {
    let stand = Stand::new(2);
    mode(stand.directory.path(), 0o755).unwrap();
    stand
}

fn owners(stand: &Stand) -> Credentials {
    let own = Credential::read(&stand.directory.path().join("store/store.credential")).unwrap();
    Credentials::given(own.derive("ana", Rights::Write, None).unwrap())
}

#[test]
fn a_set_user_program_on_a_mount_by_root_runs_as_who_starts_it_and_devices_do_not_open() {
    needs_mounts!();
    let stand = open_stand();
    let m = stand.mount("m");
    filled(&m);
    assert_eq!(fs::metadata(m.at("id")).unwrap().mode() & 0o7777, 0o6755, "it is stored");
    assert_eq!(effective_user(&m.at("id")), NOBODY);
    for name in ["zero", "ram"] {
        assert_eq!(File::open(m.at(name)).unwrap_err().raw_os_error(), Some(libc::EACCES), "{name}");
    }
    // Each can be honoured separately.
    let suid = stand.mount_with("suid", |options| options.honours = Honours { suid: true, dev: false });
    assert_eq!(effective_user(&suid.at("id")), 0);
    assert!(File::open(suid.at("zero")).is_err());
    let dev = stand.mount_with("dev", |options| options.honours = Honours { suid: false, dev: true });
    assert_eq!(effective_user(&dev.at("id")), NOBODY);
    File::open(dev.at("zero")).unwrap();
    let here = thalweg_mount::mounts().unwrap();
    let honoured = |m: &Mounted| here.iter().find(|mounted| mounted.at == m.path()).unwrap().honours;
    assert_eq!([&m, &suid, &dev].map(|m| (honoured(m).suid, honoured(m).dev)), [(false, false), (true, false), (false, true)]);
}

#[test]
fn a_mount_with_an_owners_credential_stores_no_privileges_and_its_users_work_as_ever() {
    needs_mounts!();
    let stand = open_stand();
    let own = stand.mount("own");
    filled(&own);
    mode(own.path(), 0o1777).unwrap();
    let credentials = owners(&stand);
    let ana = stand.mount_with("ana", |options| {
        options.credentials = credentials;
        options.honours = Honours { suid: true, dev: true };
    });
    let eperm = Err(Some(libc::EPERM));
    fs::copy("/usr/bin/id", ana.at("mine")).unwrap();
    assert_eq!(fs::metadata(ana.at("mine")).unwrap().uid(), NOBODY, "root of this machine is mapped to nobody");
    for bits in [0o4755, 0o2755] {
        assert_eq!(mode(&ana.at("mine"), bits), eperm);
    }
    assert_eq!(mknodat(CWD, ana.at("d"), FileType::BlockDevice, Mode::from_raw_mode(0o666), makedev(8, 0)), Err(Errno::PERM));
    assert_eq!(setxattr(ana.at("mine"), "security.capability", &CAPABILITIES, XattrFlags::empty()), Err(Errno::PERM));
    assert_eq!(setxattr(ana.at("mine"), "trusted.x", b"x", XattrFlags::empty()), Err(Errno::PERM));
    assert_eq!(chown(ana.at("mine"), Some(1000), None).unwrap_err().raw_os_error(), Some(libc::EPERM));
    chown(ana.at("mine"), Some(0), Some(0)).unwrap();
    assert_eq!(mode(&ana.at("zero"), 0o600), eperm, "a device of the store's stays as it is");
    // A user of this machine, as on any file system.
    let script = "cd \"$1\" && mkdir d && chmod 2770 d && echo x > d/f && chmod 600 d/f && setfattr -n user.a -v 1 d/f; cp -a d e && mv e/f d/g && stat -c %u d/g";
    let said = Command::new("sh").args(["-c", script, "sh"]).arg(ana.path()).uid(1234).gid(1234).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "1234", "{}", String::from_utf8_lossy(&said.stderr));
    // Root of this machine copies and moves its own files.
    let script = "cd \"$1\" && mkdir r && echo x > r/f && cp -a r s && tar cf - r | (mkdir t && tar xf - -C t) && rm -r r s t";
    let said = Command::new("sh").args(["-c", script, "sh"]).arg(ana.path()).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn a_program_that_an_owner_opens_for_writing_is_set_user_no_more() {
    needs_mounts!();
    let stand = open_stand();
    let own = stand.mount_with("own", |options| options.honours = Honours { suid: true, dev: false });
    filled(&own);
    mode(&own.at("id"), 0o4777).unwrap();
    assert_eq!(effective_user(&own.at("id")), 0);
    let credentials = owners(&stand);
    let ana = stand.mount_with("ana", |options| options.credentials = credentials);
    drop(OpenOptions::new().write(true).open(ana.at("id")).unwrap());
    stand::wait_until("the other mount sees it", || fs::metadata(own.at("id")).unwrap().mode() & 0o7777 == 0o777);
    assert_eq!(effective_user(&own.at("id")), NOBODY);
}

#[test]
fn capabilities_go_when_a_user_writes_to_the_program() {
    needs_mounts!();
    let stand = open_stand();
    let m = stand.mount_with("m", |options| options.honours = Honours { suid: true, dev: false });
    fs::write(m.at("f"), "program").unwrap();
    mode(&m.at("f"), 0o777).unwrap();
    setxattr(m.at("f"), "security.capability", &CAPABILITIES, XattrFlags::empty()).unwrap();
    let said = Command::new("sh").args(["-c", "echo changed > \"$1\"", "sh"]).arg(m.at("f")).uid(NOBODY).gid(NOBODY).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    stand::wait_until("they are gone", || getxattr(m.at("f"), "security.capability", &mut [0_u8; 32]) == Err(Errno::NODATA));
}

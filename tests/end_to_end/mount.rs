//! Mounting and unmounting with the command: separate processes, unprivileged users, killed processes.

use crate::bounded::{Bounded, BoundedChild, LIMIT};
use crate::common::{
    CREDENTIAL, CommandOutput, Mounted, Running, Servers, Up, can_mount, content, credential_of, listed, run, scratch, text, thalweg,
    wait_until,
};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

impl Mounted {
    /// Returns one of its counters, by its path in the document.
    fn counter(&self, place: &str) -> u64 {
        let mut value = vec![0; 64 << 10];
        let length = rustix::fs::getxattr(&self.0, "user.thalweg.counters", &mut value).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&value[..length]).unwrap();
        document.pointer(place).and_then(serde_json::Value::as_u64).expect("the mount counts that")
    }
    /// Returns the mount's process ID.
    fn process(&self) -> i32 {
        let mut value = vec![0; 1 << 16];
        let length = rustix::fs::getxattr(&self.0, "user.thalweg.store", &mut value).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&value[..length]).unwrap();
        document["pid"].as_i64().unwrap() as i32
    }
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: kill has no memory effects; the process is the mount's that this test started.
    unsafe { libc::kill(pid, signal) };
}

/// Returns whether a process exists and is not a zombie.
fn runs(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_mount_is_there_when_the_command_returns_and_written_out_when_it_is_gone() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(3), scratch());
    let mount = Mounted::new(&store, &here.path().join("m"), &[]);
    let line = listed(&mount.0).expect("it is mounted");
    let fields: Vec<&str> = line.split(' ').collect();
    assert_eq!((fields[0], fields[2]), (store.path("/").as_str(), "fuse.thalweg"), "{line}");
    assert!(fields[3].contains("default_permissions") && fields[3].contains("allow_other"), "{line}");
    let bytes = content(1, 5 << 20);
    fs::write(mount.at("f"), &bytes).unwrap();
    let process = mount.process();
    mount.umount().done();
    assert!(listed(&mount.0).is_none() && !runs(process));
    assert_eq!(fs::read_dir(&mount.0).unwrap().count(), 0);
    let out = here.path().join("out");
    run(["cp", "--quiet", &store.path("/f"), text(&out)]).done();
    assert!(fs::read(&out).unwrap() == bytes);
}

#[test]
fn a_mount_honours_no_privileges_unless_root_asks_for_it_and_df_and_doctor_say_so() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(1), scratch());
    let plain = Mounted::new(&store, &here.path().join("plain"), &[]);
    let options = |mount: &Mounted| listed(&mount.0).expect("it is mounted").split(' ').nth(3).expect("options").to_owned();
    assert!(options(&plain).contains("nosuid") && options(&plain).contains("nodev"), "{}", options(&plain));
    let says = |verb: &[&str], what: &Path| {
        let said = run(verb).done();
        said.out.lines().find(|line| line.contains(&format!("{} honours", what.display()))).map(str::to_owned)
    };
    let (df, doctor) = (["df", &store.address], ["doctor"]);
    assert_eq!((says(&df, &plain.0), says(&doctor, &plain.0)), (None, None));
    let both = Mounted::new(&store, &here.path().join("both"), &["--allow-suid", "--allow-dev"]);
    assert!(!options(&both).contains("nosuid") && !options(&both).contains("nodev"), "{}", options(&both));
    for verb in [&df[..], &doctor] {
        let line = says(verb, &both.0).unwrap_or_else(|| panic!("{verb:?} says nothing of {}", both.0.display()));
        assert!(line.contains("set-user") && line.contains("device nodes"), "{line}");
    }
    both.umount().done();
    assert_eq!(says(&df, &both.0), None);
}

#[test]
fn what_cannot_be_mounted_is_said_with_its_reason() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(1), scratch());
    let file = here.path().join("file");
    fs::write(&file, "").unwrap();
    run(["mount", &store.address, text(&here.path().join("nowhere"))]).failed(1, &["nowhere", "No such file"]);
    run(["mount", &store.address, text(&file)]).failed(1, &["it is not a directory"]);
    run(["mount", "thal://127.0.0.1:1", text(here.path())]).failed(1, &["127.0.0.1:1", "refused"]);
    run(["mount", &store.path("/no/such"), text(here.path())]).failed(1, &["no"]);
    run(["mount", &store.address]).failed(2, &["expected a directory to mount it on"]);
    run(["umount", text(here.path())]).failed(1, &["no store is mounted here"]);
    assert!(listed(here.path()).is_none());
}

#[test]
fn who_keeps_a_mount_from_being_taken_away_is_named() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(1), scratch());
    let mount = Mounted::new(&store, &here.path().join("m"), &[]);
    let mut sleeper = Command::new("sleep").arg("60").current_dir(&mount.0).spawn().unwrap();
    let said = mount.umount();
    let _ = sleeper.kill();
    sleeper.wait_in_time(LIMIT).unwrap();
    said.failed(1, &["in use", &sleeper.id().to_string(), "sleep", "works in"]);
    mount.umount().done();
}

#[test]
fn a_mount_that_goes_on_in_another_namespace_is_said_to() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(1), scratch());
    let mount = Mounted::new(&store, &here.path().join("m"), &[]);
    let mut other = Command::new("unshare").args(["--mount", "--propagation", "private", "sleep", "60"]).spawn().unwrap();
    let has_copy = || fs::read_to_string(format!("/proc/{}/comm", other.id())).is_ok_and(|comm| comm.trim() == "sleep");
    wait_until("a namespace of its own", has_copy);
    fs::write(mount.at("f"), "written").unwrap();
    let said = mount.umount();
    let _ = other.kill();
    other.wait_in_time(LIMIT).unwrap();
    assert!(said.done().err.contains("still mounted in the mount namespace of process"));
    assert!(listed(&mount.0).is_none());
    assert_eq!(run(["cat", &store.path("/f")]).done().out, "written");
}

#[test]
fn a_mount_that_is_killed_leaves_nothing_locked_and_can_be_taken_away() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(1), scratch());
    let (a, b) = (Mounted::new(&store, &here.path().join("a"), &[]), Mounted::new(&store, &here.path().join("b"), &[]));
    let held = fs::File::create(a.at("f")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let other = fs::File::open(b.at("f")).unwrap();
    let free = || rustix::fs::flock(&other, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    assert!(free().is_err());
    kill(a.process(), libc::SIGKILL);
    wait_until("the lock is free", || free().is_ok());
    wait_until("the mount is dead", || fs::metadata(&a.0).is_err_and(|e| e.kind() == ErrorKind::NotConnected));
    run(["mount", &store.address, text(&a.0)]).failed(1, &["remove it with thalweg umount"]);
    a.umount().done();
    assert!(listed(&a.0).is_none());
    drop(held);
}

#[test]
fn a_mount_in_the_foreground_ends_with_a_signal() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(1), scratch());
    let at = here.path().join("m");
    fs::create_dir(&at).unwrap();
    let mut command = thalweg(["mount", "-f", &store.address, text(&at)]);
    command.stderr(Stdio::null());
    let mut process = Running::start(command);
    wait_until("it is mounted", || listed(&at).is_some());
    fs::write(at.join("f"), "x").unwrap();
    process.signal(libc::SIGINT);
    assert_eq!(process.wait(), Some(0));
    assert!(listed(&at).is_none());
}

/// The device with permissions for all users, as on most machines; restored when dropped.
struct DeviceForAll(fs::Permissions);

impl DeviceForAll {
    fn new() -> DeviceForAll {
        let before = fs::metadata("/dev/fuse").unwrap().permissions();
        fs::set_permissions("/dev/fuse", fs::Permissions::from_mode(0o666)).unwrap();
        DeviceForAll(before)
    }
}

impl Drop for DeviceForAll {
    fn drop(&mut self) {
        let _ = fs::set_permissions("/dev/fuse", self.0.clone());
    }
}

#[test]
fn a_person_without_privilege_mounts_for_nobody_else() {
    if !can_mount() {
        return;
    }
    if Command::new("fusermount3").arg("-V").output_in_time().is_err() {
        return println!("SKIPPED: fusermount3 is not there (package fuse3)");
    }
    // `nobody`: the helper requires a user name.
    const PERSON: u32 = 65534;
    let _device = DeviceForAll::new();
    let (store, here) = (Up::start(2), scratch());
    fs::set_permissions(here.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let all = Mounted::new(&store, &here.path().join("all"), &[]);
    fs::set_permissions(&all.0, fs::Permissions::from_mode(0o1777)).unwrap();
    let at = here.path().join("own");
    fs::create_dir(&at).unwrap();
    std::os::unix::fs::chown(&at, Some(PERSON), Some(PERSON)).unwrap();
    // The user may not be able to read the command's directory.
    let program = here.path().join("thalweg");
    // (Copied by a program: otherwise a child that another test starts meanwhile would have it open for writing, and it could not be
    // executed.)
    assert!(Command::new("cp").arg(crate::common::THALWEG).arg(&program).status_in_time().unwrap().success());
    let as_person = |program: &Path, arguments: &[&str]| -> CommandOutput {
        let mut command = Command::new(program);
        command.args(arguments).env_remove("THALWEG_STORE").uid(PERSON).gid(PERSON).current_dir("/").stdin(Stdio::null());
        command.output_in_time().unwrap().into()
    };
    let credential = credential_of(&store.credential(), PERSON, here.path());
    for lifted in ["--allow-suid", "--allow-dev"] {
        let refused = as_person(&program, &["mount", lifted, "--credential", text(&credential), &store.address, text(&at)]);
        refused.failed(1, &["only permitted for root", "mount without them"]);
    }
    let mounted = as_person(&program, &["mount", "--credential", text(&credential), &store.address, text(&at)]);
    if mounted.err.contains("no permission to open /dev/fuse") || mounted.err.contains("Operation not permitted") {
        return println!("SKIPPED: a person cannot mount here: {}", mounted.err.trim());
    }
    mounted.done();
    let script = "cd \"$0\" && echo mine > f && mkdir d && ln -s f d/l && cat f";
    let said = as_person(Path::new("/bin/sh"), &["-c", script, text(&at)]).done();
    assert_eq!(said.out, "mine\n");
    let line = listed(&at).unwrap();
    assert!(line.contains("nosuid") && line.contains("nodev") && !line.contains("allow_other"), "{line}");
    assert_eq!(fs::read(at.join("f")).unwrap_err().kind(), ErrorKind::PermissionDenied, "not even root");
    assert_eq!(fs::metadata(all.at("f")).unwrap().uid(), PERSON);
    as_person(&program, &["umount", text(&at)]).done();
    assert!(listed(&at).is_none());
}

#[test]
fn a_mount_records_itself_and_its_servers() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(2), scratch());
    let recording = here.path().join("m.thw");
    let mount = Mounted::new(&store, &here.path().join("m"), &["--record", text(&recording)]);
    let mut file = fs::File::create(mount.at("f")).unwrap();
    let bytes = content(3, 8 << 20);
    bytes.chunks(1 << 20).for_each(|piece| file.write_all(piece).unwrap());
    file.sync_all().unwrap();
    drop(file);
    assert!(fs::read(mount.at("f")).unwrap() == bytes);
    mount.umount().done();
    let roles_of = |document: &serde_json::Value| -> Vec<String> {
        document["tracks"].as_array().unwrap().iter().filter_map(|t| t["role"].as_str()).map(str::to_owned).collect()
    };
    // If another test's mount namespace still holds the mount, its process continues until that is gone.
    wait_until("the recording is whole", || {
        // Until then it may contain no threads, which is an error.
        let said = run(["explain", "--json", text(&recording)]);
        said.code == Some(0) && roles_of(&said.json()).iter().any(|role| role == "server")
    });
    let document = run(["explain", "--json", text(&recording)]).done().json();
    let shares: f64 = document["critical_path"].as_array().unwrap().iter().filter_map(|c| c["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() <= 0.001, "shares sum to {shares}");
    let roles = roles_of(&document);
    assert!(["client", "server"].iter().all(|role| roles.iter().any(|r| r == role)), "{roles:?}");
}

#[test]
fn a_program_that_waits_for_a_silent_server_ends_when_it_is_told_to() {
    if !can_mount() {
        return;
    }
    let (mut servers, here) = (Servers::start(2), scratch());
    let store = text(&servers.store).to_owned();
    for more in [&["--strict"][..], &[]] {
        let at = here.path().join(format!("m{}", more.len()));
        fs::create_dir(&at).unwrap();
        // The timeout for a silent server exceeds this test.
        run([&["mount", "--store", &store, "--timeout", "5m", text(&at)], more].concat()).done();
        let mount = Mounted(at);
        for target in [0, 1] {
            let directory = mount.at(&format!("d{target}"));
            fs::create_dir_all(&directory).unwrap();
            let layout = format!("basic_dist place=targets:{target}");
            rustix::fs::setxattr(&directory, "user.thalweg.layout", layout.as_bytes(), rustix::fs::XattrFlags::empty()).unwrap();
            fs::write(directory.join("f"), content(1, 300_000)).unwrap();
        }
        // The kernel has none of it cached.
        let file = fs::File::open(mount.at("d0/f")).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        drop(file);
        servers.process("io0").signal(libc::SIGSTOP);
        let mut reader = Command::new("cat").arg(mount.at("d0/f")).stdout(Stdio::null()).spawn().unwrap();
        let sleeps = |pid: u32| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| s.contains(") D ") || s.contains(") S "));
        wait_until("it waits", || sleeps(reader.id()));
        assert!(fs::read(mount.at("d1/f")).unwrap() == content(1, 300_000), "everything else goes on");
        // Not SIGINT: it may be ignored where the tests run in the background, and the program would inherit that.
        kill(reader.id() as i32, libc::SIGTERM);
        let mut ended = None;
        wait_until("it has ended", || {
            ended = reader.try_wait().unwrap();
            ended.is_some()
        });
        servers.process("io0").signal(libc::SIGCONT);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended.unwrap()), Some(libc::SIGTERM));
        mount.umount().done();
    }
}

/// Takes a file's lock, reports that, and writes on request.
const LOCKED_WRITER: &str = "
import fcntl, os, sys
f = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(f, fcntl.LOCK_EX)
print('locked', flush=True)
sys.stdin.readline()
os.pwrite(f, b'ghost', 0)
";

#[test]
fn a_lock_of_a_killed_program_is_free_only_when_what_it_was_writing_has_ended() {
    if !can_mount() {
        return;
    }
    let (mut servers, here) = (Servers::start(1), scratch());
    let store = text(&servers.store).to_owned();
    let mounts = ["a", "b"].map(|name| {
        let at = here.path().join(name);
        fs::create_dir(&at).unwrap();
        run(["mount", "--store", &store, "--timeout", "1m", "--strict", text(&at)]).done();
        Mounted(at)
    });
    fs::write(mounts[0].at("f"), "before").unwrap();
    let theirs = fs::File::options().read(true).write(true).open(mounts[1].at("f")).unwrap();
    let take = || rustix::fs::fcntl_lock(&theirs, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok();
    let mut writer = Command::new("python3");
    writer.args(["-c", LOCKED_WRITER, text(&mounts[0].at("f"))]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut writer = writer.spawn().expect("python3 runs");
    let mut said = [0; 7];
    writer.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert!(!take(), "the lock is the writer's");

    let writes = || mounts[0].counter("/asked/write");
    let before = writes();
    servers.process("io0").signal(libc::SIGSTOP);
    writer.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    wait_until("it writes", || writes() > before);
    writer.kill().unwrap();
    wait_until("it has ended, and does not wait for the server", || writer.try_wait().unwrap().is_some());
    let tries: Vec<bool> = (0..20).map(|_| take()).collect();
    assert!(!tries.contains(&true), "its write may still arrive, and the lock is given to another");

    servers.process("io0").signal(libc::SIGCONT);
    wait_until("its lock is free", take);
    assert_eq!(fs::read_to_string(mounts[1].at("f")).unwrap(), "ghoste");
    drop(theirs);
    mounts.iter().for_each(|mount| drop(mount.umount().done()));
}

/// Runs programs in sequence, each of which requests the lock of an open file; prints how many got it.
const NEXT_ONES: &str = "
import fcntl, os, sys
f, got = int(sys.argv[1]), 0
for _ in range(300):
    pid = os.fork()
    if pid == 0:
        try:
            fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os._exit(0)
        os._exit(1)
    got += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(got)
";

/// The kernel may reuse a lock owner's number after a killed program has ended, even before its locks are released.
#[test]
fn a_lock_of_a_killed_program_is_not_taken_for_the_next_ones() {
    if !can_mount() {
        return;
    }
    let (mut servers, here) = (Servers::start(1), scratch());
    let store = text(&servers.store).to_owned();
    let at = here.path().join("m");
    fs::create_dir(&at).unwrap();
    run(["mount", "--store", &store, "--timeout", "1m", "--strict", text(&at)]).done();
    let mount = Mounted(at);
    fs::write(mount.at("f"), "before").unwrap();
    let ours = fs::File::options().read(true).write(true).open(mount.at("f")).unwrap();
    let mut writer = Command::new("python3");
    writer.args(["-c", LOCKED_WRITER, text(&mount.at("f"))]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut writer = writer.spawn().expect("python3 runs");
    let mut said = [0; 7];
    writer.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    let writes = || mount.counter("/asked/write");
    let before = writes();
    servers.process("io0").signal(libc::SIGSTOP);
    writer.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    wait_until("it writes", || writes() > before);
    writer.kill().unwrap();
    wait_until("it has ended, and does not wait for the server", || writer.try_wait().unwrap().is_some());
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&ours);
    let mut next = Command::new("python3");
    next.args(["-c", NEXT_ONES, &descriptor.to_string()]);
    // For this program only: other children started meanwhile would keep the mount in use.
    // SAFETY: fcntl may be called between fork and exec; the descriptor is open until the program has ended.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut next, move || match libc::fcntl(descriptor, libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let next = next.output_in_time().unwrap();
    servers.process("io0").signal(libc::SIGCONT);
    assert_eq!(String::from_utf8_lossy(&next.stdout).trim(), "0", "{}", String::from_utf8_lossy(&next.stderr));
    wait_until("its lock is free", || rustix::fs::fcntl_lock(&ours, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok());
    drop(ours);
    mount.umount().done();
}

#[test]
fn a_tuned_mount_reads_what_was_written_and_says_what_it_tried_in_its_log() {
    if !can_mount() {
        return;
    }
    let (store, here) = (Up::start(2), scratch());
    let (log, at) = (here.path().join("log"), here.path().join("m"));
    fs::create_dir_all(&at).unwrap();
    let mount = Mounted(at);
    let arguments = ["mount", "--tune", "--log", text(&log), &store.address, text(&mount.0)];
    let said: CommandOutput = thalweg(arguments)
        .env("XDG_STATE_HOME", here.path().join("state"))
        .env(CREDENTIAL, store.credential())
        .output_in_time()
        .unwrap()
        .into();
    said.done();
    let bytes = content(6, 20 << 20);
    fs::write(mount.at("file"), &bytes).unwrap();
    assert!(fs::read(mount.at("file")).unwrap() == bytes);
    let process = mount.process();
    mount.umount().done();
    wait_until("the mount's process has ended", || !runs(process));
    let noted = fs::read_to_string(&log).unwrap();
    assert!(noted.contains("tuned"), "{noted}");
}

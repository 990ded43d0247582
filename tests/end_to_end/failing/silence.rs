//! Programs on a mount whose servers are silent: they get an error at the timeout, and end when they are killed.

use crate::bounded::Bounded;
use crate::common::{Running, Servers, content, is_root, run, scratch, skipped, text, wait_until};
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_wire::Connect;
use thalweg_wire::trust::Credentials;

/// Timeout for a silent server.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Limit of a call: the timeout and a tenth, with a margin for a busy machine; less than two timeouts.
const MOST: Duration = Duration::from_millis(4800);

/// A mounted store; files in `d0` are on io0.
struct Mounted {
    servers: Servers,
    at: PathBuf,
    _directory: tempfile::TempDir,
}

impl Mounted {
    /// Mounts it; `None` without permission.
    fn new(more: &[&str]) -> Option<Mounted> {
        if !is_root() || fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
            skipped("a store cannot be mounted here (needs root and /dev/fuse)");
            return None;
        }
        let (servers, directory) = (Servers::start(2), scratch());
        let at = directory.path().join("m");
        fs::create_dir(&at).unwrap();
        run([&["mount", "--store", text(&servers.store), text(&at)], more].concat()).done();
        let mounted = Mounted { servers, at, _directory: directory };
        fs::create_dir(mounted.at.join("d0")).unwrap();
        let layout = b"basic_dist place=targets:0";
        rustix::fs::setxattr(mounted.at.join("d0"), "user.thalweg.layout", layout, rustix::fs::XattrFlags::empty()).unwrap();
        Some(mounted)
    }

    fn all(&mut self, names: &[&str], signal: i32) {
        for name in names {
            let process = self.servers.process(name);
            process.signal(signal);
            let is_stopped = |stat: std::io::Result<String>| stat.map_or(true, |stat| stat.contains(") T "));
            let threads = || fs::read_dir(format!("/proc/{}/task", process.pid())).unwrap().flatten();
            if signal == libc::SIGSTOP {
                wait_until("it is stopped", || threads().all(|thread| is_stopped(fs::read_to_string(thread.path().join("stat")))));
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.all(&["metadata", "io0", "io1"], libc::SIGCONT);
        let taken_away = || run(["umount", text(&self.at)]).code == Some(0);
        if std::thread::panicking() {
            taken_away();
        } else {
            wait_until("the mount is taken away", taken_away);
        }
    }
}

/// A test program: it prepares, reports that, waits for a line, performs one operation, and prints its errno.
const PROGRAM: &str = r#"
import mmap, os, sys, time
what, path = sys.argv[1:]
file = None if what in ("create", "stat", "open") else os.open(path, os.O_RDONLY if what == "read" else os.O_RDWR)
if what == "read":
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
if what in ("close", "fsync"):
    os.write(file, b"x" * 100000)
if what == "open":
    os.stat(path)
print("ready", flush=True)
sys.stdin.readline()
longest = 0
def timed(call, *arguments):
    global longest
    begun = time.monotonic()
    try:
        return call(*arguments)
    finally:
        longest = max(longest, time.monotonic() - begun)
try:
    if what == "write":
        for _ in range(64):
            timed(os.write, file, b"x" * (1 << 20))
    elif what == "close":
        timed(os.close, file)
    elif what == "fsync":
        timed(os.fsync, file)
    elif what == "read":
        timed(os.read, file, 300000)
    elif what == "map":
        memory = mmap.mmap(file, 300000)
        memory[:] = b"z" * 300000
        timed(memory.flush)
        timed(os.fsync, file)
    elif what == "truncate":
        timed(os.ftruncate, file, 5)
    elif what == "open":
        timed(os.open, path, os.O_RDWR)
    elif what == "stat":
        timed(os.stat, path)
    elif what == "create":
        timed(os.open, path + "-new", os.O_CREAT | os.O_WRONLY)
    print(0, longest, flush=True)
except OSError as error:
    print(error.errno, longest, flush=True)
sys.stdin.readline()
"#;

fn program(what: &str, path: &Path) -> Running {
    let mut command = Command::new("python3");
    command.args(["-c", PROGRAM, what, text(path)]).stdin(Stdio::piped());
    let mut program = Running::start(command);
    assert_eq!(program.line(), "ready");
    program
}

fn go(program: &mut Running) {
    program.child().stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

fn sleeps(child: &Child) -> bool {
    fs::read_to_string(format!("/proc/{}/wchan", child.id())).is_ok_and(|at| at.contains("fuse") || at.contains("request_wait"))
        || fs::read_to_string(format!("/proc/{}/stat", child.id())).is_ok_and(|stat| stat.contains(") D "))
}

fn has_python() -> bool {
    let there = Command::new("python3").arg("--version").output_in_time().is_ok_and(|said| said.status.success());
    if !there {
        skipped("python3 is not there");
    }
    there
}

#[test]
fn a_silent_server_costs_a_program_on_a_mount_one_timeout_whatever_it_asks() {
    costs_one_timeout(&[]);
}

#[test]
fn a_silent_server_costs_a_program_on_a_strict_mount_one_timeout_whatever_it_asks() {
    costs_one_timeout(&["--strict"]);
}

fn costs_one_timeout(more: &[&str]) {
    let timeout = format!("{}s", TIMEOUT.as_secs());
    let Some(mut mounted) = has_python().then(|| Mounted::new(&[&["--timeout", &timeout], more].concat())).flatten() else { return };
    let all = ["write", "close", "fsync", "read", "truncate", "stat", "open", "create"];
    let at = mounted.at.clone();
    let path = |what: &str| at.join("d0").join(what);
    all.iter().for_each(|what| fs::write(path(what), content(1, 300_000)).unwrap());
    for silent in [&["io0"][..], &["metadata"], &["metadata", "io0", "io1"]] {
        let mut programs: Vec<(&str, Running)> = all.iter().map(|what| (*what, program(what, &path(what)))).collect();
        mounted.all(silent, libc::SIGSTOP);
        // Simultaneously, so that they also wait for each other.
        programs.iter_mut().for_each(|(_, program)| go(program));
        for (what, program) in &mut programs {
            let said = program.line();
            let (errno, longest) = said.split_once(' ').unwrap();
            let (errno, took): (i32, _) = (errno.parse().unwrap(), Duration::from_secs_f64(longest.parse().unwrap()));
            println!("{more:?} {silent:?} silent, {what}: errno {errno} after {took:?}");
            assert!(took < MOST, "{more:?} {silent:?} silent, {what}: {took:?}");
            assert!(errno == 0 || errno == libc::EIO, "{what}: errno {errno} after {took:?}");
            let needs_it = match *what {
                "create" | "truncate" | "open" => silent[0] == "metadata",
                "write" | "fsync" | "read" => silent.contains(&"io0"),
                _ => false,
            };
            assert!(!needs_it || errno == libc::EIO, "{more:?} {silent:?} silent, {what}: errno {errno}");
        }
        mounted.all(silent, libc::SIGCONT);
        drop(programs);
        wait_until("the servers are used again", || fs::write(path("again"), "x").is_ok() && fs::read(path("again")).is_ok());
        wait_until("their files are, too", || all.iter().all(|what| fs::write(path(what), content(1, 300_000)).is_ok()));
    }
}

#[test]
fn a_program_that_waits_for_a_silent_server_is_ended_by_sigkill_within_two_seconds() {
    for more in [&["--strict"][..], &[]] {
        // The timeout for a silent server exceeds this test.
        let Some(mut mounted) = has_python().then(|| Mounted::new(&[&["--timeout", "5m"], more].concat())).flatten() else { return };
        let at = mounted.at.clone();
        let path = |what: &str| at.join("d0").join(what);
        let (mut waited, mut cases) = (0, 0);
        for silent in ["io0", "metadata"] {
            let all = match (silent, more.is_empty()) {
                ("io0", true) => &["write", "close", "fsync", "map", "read", "truncate", "stat"][..],
                ("io0", false) => &["write", "map", "read", "truncate", "stat"],
                (_, true) => &["close", "truncate", "stat", "open", "create"],
                (_, false) => &["truncate", "stat", "open", "create"],
            };
            for what in all {
                fs::write(path(what), content(1, 300_000)).unwrap();
                let mut program = program(what, &path(what));
                mounted.all(&[silent], libc::SIGSTOP);
                // The kernel caches a file's attributes for a second.
                if *what == "stat" {
                    std::thread::sleep(Duration::from_millis(1200));
                }
                go(&mut program);
                let begun = Instant::now();
                while !sleeps(program.child()) && begun.elapsed() < Duration::from_secs(5) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                // Occasionally the kernel or the mount has the answer cached.
                waited += usize::from(sleeps(program.child()));
                cases += 1;
                program.signal(libc::SIGKILL);
                let killed = Instant::now();
                let mut ended = None;
                wait_until("it has ended", || {
                    ended = program.child().try_wait().unwrap();
                    ended.is_some()
                });
                let took = killed.elapsed();
                mounted.all(&[silent], libc::SIGCONT);
                println!("{more:?} {silent} silent, {what}: ended after {took:?}");
                assert_eq!(ended.unwrap().signal(), Some(libc::SIGKILL), "{what}");
                assert!(took < Duration::from_secs(2), "{more:?} {silent} silent, {what}: {took:?}");
                wait_until("the server is used again", || fs::write(path("again"), "x").is_ok());
            }
        }
        assert!(4 * waited >= 3 * cases, "only {waited} of {cases} programs had to wait");
    }
}

#[test]
fn what_a_killed_program_had_asked_for_leaves_nothing_open() {
    let Some(mut mounted) = has_python().then(|| Mounted::new(&["--timeout", "5m"])).flatten() else { return };
    let path = mounted.at.join("d0/f");
    fs::write(&path, "x").unwrap();
    let mut program = program("open", &path);
    mounted.all(&["metadata"], libc::SIGSTOP);
    go(&mut program);
    wait_until("it waits", || sleeps(program.child()));
    program.kill();
    mounted.all(&["metadata"], libc::SIGCONT);
    let config = thalweg_store::config::StoreConfig::read(&mounted.servers.store).unwrap();
    let off = &mut thalweg_trace::Tracer::off();
    // Its own credential: the user's directory has that of the test that last published the same store.
    let connect = Connect { credentials: Credentials::file(mounted.servers.credential()), ..Connect::default() };
    let service = thalweg_client::metadata::MetadataClient::connect(off, &config.metadata.address, &connect).unwrap();
    // It is opened now for a killed program, and for another, which closes it again.
    wait_until("the service is used again", || fs::read(&path).is_ok());
    wait_until("nothing is open at the service", || service.status(&mut thalweg_trace::Tracer::off()).unwrap().open_files == 0);
}

#[test]
fn commands_wait_for_several_silent_servers_once() {
    let mut servers = Servers::start(4);
    let here = scratch();
    for n in 0..20 {
        fs::write(here.path().join(format!("f{n}")), content(n, 1000)).unwrap();
    }
    let store = text(&servers.store).to_owned();
    let copy = |to: &str| run(["cp", "-r", "--quiet", "--timeout", "3s", "--store", &store, text(here.path()), to]);
    copy("thal:/t").done();
    run(["cp", "--quiet", "--store", &store, "--source", "memory:8Mi", "thal:/big"]).done();
    ["io0", "io1", "io2"].iter().for_each(|name| servers.process(name).signal(libc::SIGSTOP));
    let out = here.path().join("out");
    let commands: [&[&str]; 5] = [
        &["df", "--timeout", "3s", "--store", &store],
        &["ls", "-l", "--timeout", "3s", "--store", &store, "thal:/t"],
        &["stat", "--timeout", "3s", "--store", &store, "thal:/big"],
        &["cp", "--quiet", "--timeout", "3s", "--store", &store, "thal:/big", text(&out)],
        &["cp", "-r", "--quiet", "--timeout", "3s", "--store", &store, text(here.path()), "thal:/again"],
    ];
    for command in commands {
        let begun = Instant::now();
        run(command).failed(1, &["silent for 3.0 s"]);
        println!("{}: {:?}", command[0], begun.elapsed());
        assert!(begun.elapsed() < MOST, "{}: {:?}", command[0], begun.elapsed());
    }
}

//! Programs that give up privileges, system calls, their session or their file system behave the same when recorded, with each recorder:
//! equal output on both streams, equal exit code, equal signal.

use crate::bounded::Bounded;
use crate::common::{Running, THALWEG, file, is_root, no_bpf, run, scratch, skipped, text, thalweg, wait_until};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = include_str!("programs/confined.c");

/// Compiles the program in a directory; `None` without a compiler.
fn compiled(directory: &Path, flags: &[&str]) -> Option<PathBuf> {
    let source = file(directory, "confined.c", PROGRAM.as_bytes());
    let program = directory.join(if flags.is_empty() { "confined" } else { "confined-static" });
    let made = Command::new("cc").args(["-O1", "-pthread", "-o", text(&program), text(&source)]).args(flags).output_in_time();
    made.is_ok_and(|output| output.status.success()).then_some(program)
}

fn methods() -> Vec<&'static str> {
    if no_bpf().is_none() { vec!["bpf", "user", "preload", "proc"] } else { vec!["user", "preload", "proc"] }
}

/// A program's exit status and output, without the recorder's own messages.
#[derive(Debug, PartialEq)]
struct Ended {
    code: Option<i32>,
    signal: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        let said = String::from_utf8_lossy(&output.stderr);
        let err = said.lines().filter(|line| !line.starts_with("thalweg record: ")).map(|line| format!("{line}\n")).collect();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        Ended { code: output.status.code(), signal: output.status.signal(), out, err }
    }
}

/// Runs a command without and with each recorder, and compares.
#[track_caller]
fn the_same_with_each_recorder(words: &[&str]) -> Ended {
    let alone =
        Command::new(words[0]).args(&words[1..]).env("NO_COLOR", "1").stdin(Stdio::null()).output_in_time().expect("it starts").into();
    for method in methods() {
        let here = scratch();
        let recording = here.path().join("a.thw");
        let mut command = thalweg(["record", "--method", method, "-o", text(&recording), "--"]);
        let output = command.args(words).env_remove("LD_PRELOAD").output_in_time().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(Ended::from(output), alone, "{method}: {words:?}: {said}");
        run(["explain", text(&recording)]).done();
    }
    alone
}

#[test]
fn a_program_under_seccomp_is_the_same_with_each_recorder() {
    let here = scratch();
    let Some(program) = compiled(here.path(), &[]) else { return skipped("no C compiler") };
    let ways: [(&str, Option<i32>, Option<i32>); 12] = [
        ("strict", Some(7), None),
        ("strict-and-clock", None, Some(libc::SIGSEGV)),
        ("filter", Some(8), None),
        ("filter-and-exit", Some(9), None),
        ("filter-for-all-threads", Some(10), None),
        ("filter-and-forbidden", None, Some(libc::SIGSYS)),
        ("filter-that-cannot-be", Some(11), None),
        ("filter-and-handler", Some(12), None),
        ("no-clock", Some(13), None),
        ("filter-then-exec", Some(14), None),
        ("child-under-a-filter", Some(15), None),
        ("", Some(0), None),
    ];
    for (way, code, signal) in ways {
        let ended = the_same_with_each_recorder(&[text(&program), way]);
        // If reading the clock is a system call on this machine, the signal differs.
        if way != "strict-and-clock" {
            assert_eq!((ended.code, ended.signal), (code, signal), "{way}: {ended:?}");
        }
    }
}

#[test]
fn what_the_library_does_not_record_under_seccomp_is_in_the_explanation() {
    let here = scratch();
    let Some(program) = compiled(here.path(), &[]) else { return skipped("no C compiler") };
    for (way, is_told) in [("filter", true), ("child-under-a-filter", true), ("filter-that-cannot-be", false)] {
        let recording = here.path().join(format!("{way}.thw"));
        run(["record", "--method", "preload", "-o", text(&recording), "--", text(&program), way]);
        let document = run(["explain", "--json", text(&recording)]).done().json();
        assert_eq!(document["notes"].to_string().contains("gave up system calls"), is_told, "{way}: {}", document["notes"]);
    }
}

#[test]
fn a_program_sees_its_own_environment_and_hands_it_on() {
    let here = scratch();
    let Some(program) = compiled(here.path(), &[]) else { return skipped("no C compiler") };
    for (way, code) in [("environment", 16), ("exec", 0), ("exec-without-environment", 0)] {
        // What a shell prints about its own parent differs.
        let script = format!("unset _ OLDPWD; exec {} {way}", text(&program));
        let ended = the_same_with_each_recorder(&["sh", "-c", &script]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""), "{way}: {ended:?}");
    }
    let others = Command::new(THALWEG)
        .args(["record", "--method", "preload", "-o", text(&here.path().join("others.thw")), "--", "env"])
        .env("LD_PRELOAD", "libm.so.6")
        .output_in_time();
    let out = String::from_utf8(others.expect("it starts").stdout).unwrap();
    assert!(out.lines().any(|line| line == "LD_PRELOAD=libm.so.6"), "the user's own stays: {out}");
}

#[test]
fn a_program_in_a_file_system_of_its_own_is_the_same_with_each_recorder() {
    if !is_root() {
        return skipped("mount namespaces need root");
    }
    let works = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status_in_time().is_ok_and(|s| s.success());
    if !works {
        return skipped("no mount namespace");
    }
    let hide = "for d in /dev/shm /tmp /var/tmp; do mount -t tmpfs tmpfs $d || exit 99; done";
    let script = format!("{hide}; /bin/echo here; env | grep -c thalweg-preload; sh -c '/bin/echo and below'");
    let ended = the_same_with_each_recorder(&["unshare", "--mount", "--propagation", "private", "sh", "-c", &script]);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("here\n0\nand below\n", ""), "{ended:?}");
}

#[test]
fn a_program_that_becomes_another_user_is_the_same_with_each_recorder() {
    if !is_root() {
        return skipped("becoming another user needs root");
    }
    let say = "id -u; /bin/echo here; env | grep -c thalweg-preload";
    for words in [
        vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", say],
        vec!["su", "-s", "/bin/sh", "nobody", "-c", say],
        vec!["su", "-", "-s", "/bin/sh", "nobody", "-c", say],
    ] {
        if Command::new(words[0]).arg("--version").output_in_time().is_err() {
            skipped(&format!("{} is missing", words[0]));
            continue;
        }
        let ended = the_same_with_each_recorder(&words);
        assert!(ended.out.ends_with("65534\nhere\n0\n") && !ended.err.contains("ld.so"), "{words:?}: {ended:?}");
    }
}

#[test]
fn a_set_user_id_program_that_a_recorded_one_starts_is_the_same() {
    if !is_root() {
        return skipped("a set-user-ID program can be made by root only");
    }
    let here = scratch();
    std::fs::set_permissions(here.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let Some(program) = compiled(here.path(), &[]) else { return skipped("no C compiler") };
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let copy = here.path().join("thalweg");
    std::fs::hard_link(THALWEG, &copy).or_else(|_| std::fs::copy(THALWEG, &copy).map(drop)).expect("the command can be copied");
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(words).env("NO_COLOR", "1").env("HOME", "/nonexistent");
        command.current_dir(here.path()).stdin(Stdio::null()).output_in_time().map(Ended::from)
    };
    let script = format!("{} environment", text(&program));
    let Ok(alone) = as_nobody(&["sh", "-c", &script]) else { return skipped("setpriv is missing") };
    if !alone.out.contains("raised") {
        return skipped("set-user-ID programs are not honoured on this file system");
    }
    for method in ["user", "preload", "proc"] {
        let recording = here.path().join(format!("{method}.thw"));
        let recorded = as_nobody(&[text(&copy), "record", "--method", method, "-o", text(&recording), "--", "sh", "-c", &script]);
        assert_eq!(recorded.expect("it starts"), alone, "{method}");
    }
}

#[test]
fn a_program_with_limits_meets_none_of_them_earlier() {
    let here = scratch();
    let source = file(here.path(), "source", &[7; 3000]);
    let copy = format!("cp {} {}", text(&source), text(&here.path().join("copy")));
    for limit in ["ulimit -f 8", "ulimit -v 200000", "ulimit -n 10", "ulimit -f 1"] {
        // The copy itself reaches the last limit.
        let ended = the_same_with_each_recorder(&["sh", "-c", &format!("{limit}; {copy}; echo $?")]);
        assert_eq!(ended.out.trim() == "0", limit != "ulimit -f 1", "{limit}: {ended:?}");
    }
}

#[test]
fn a_recorder_removes_what_a_killed_one_left_and_nothing_that_is_not_its_own() {
    let here = scratch();
    // Names as a store or another program might use: with a process ID that does not exist.
    let nobodys = ["thalweg-4194303-store", "thalweg-preload-4194303-1"]
        .map(|name| Path::new("/dev/shm").join(format!("{name}-{}", std::process::id())));
    for directory in &nobodys {
        std::fs::create_dir(directory).unwrap();
        file(directory, "data", b"precious");
    }
    let mut command = thalweg([
        "record",
        "--method",
        "preload",
        "-o",
        text(&here.path().join("killed.thw")),
        "--",
        "sh",
        "-c",
        "echo $$; exec sleep 1000",
    ]);
    command.stderr(Stdio::null());
    let mut killed = Running::start(command);
    let sleeper: i32 = killed.line().trim().parse().expect("its number");
    let of_killed = || {
        let prefix = format!("thalweg-preload-{}-", killed.pid());
        let found = std::fs::read_dir("/dev/shm").unwrap().flatten().find(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
        found.map(|entry| entry.path())
    };
    let directory = of_killed();
    let record = |name: &str| run(["record", "--method", "preload", "-o", text(&here.path().join(name)), "--", "true"]).done();
    record("beside.thw");
    let lived = directory.as_ref().is_none_or(|directory| directory.join("recorder").exists());
    killed.signal(libc::SIGKILL);
    killed.wait();
    record("after.thw");
    let left = directory.as_ref().is_some_and(|directory| directory.exists());
    // SAFETY: a signal to the process that the recorded shell became, which nobody has waited for but init.
    unsafe { libc::kill(sleeper, libc::SIGKILL) };
    let kept: Vec<bool> = nobodys.iter().map(|directory| directory.join("data").exists()).collect();
    nobodys.iter().for_each(|directory| drop(std::fs::remove_dir_all(directory)));
    if directory.is_none() {
        return skipped("the recorder's directory is not in /dev/shm here");
    }
    assert!(lived && !left, "a living recorder's stays, a dead one's goes");
    assert_eq!(kept, [true, true]);
}

/// Starts a daemon that a recorded command leaves behind; returns its output when it continues after the recording.
fn daemon(method: Option<&str>, here: &Path, program: &Path) -> String {
    let (go, out) = (here.join("go"), here.join("out"));
    let _ = std::fs::remove_file(&go);
    let _ = std::fs::remove_file(&out);
    assert!(Command::new("mkfifo").arg(&go).status_in_time().is_ok_and(|status| status.success()));
    let script = format!("{} daemon {} {}", text(program), text(&go), text(&out));
    let status = match method {
        None => Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).status_in_time(),
        Some(method) => {
            let recording = here.join(format!("{method}-{}.thw", program.file_name().unwrap().to_string_lossy()));
            let mut command = thalweg(["record", "--method", method, "-o", text(&recording), "--", "sh", "-c", &script]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).status_in_time()
        }
    };
    assert!(status.expect("it starts").success());
    // A recording of another program starts, ends, and cleans up.
    run(["record", "--method", "preload", "-o", text(&here.join("between.thw")), "--", "true"]);
    let _ = std::fs::remove_dir_all(here.join("between.thw"));
    std::fs::write(&go, "g").expect("it reads");
    wait_until("the daemon is done", || std::fs::read_to_string(&out).is_ok_and(|said| said.contains("over\n")));
    std::fs::read_to_string(&out).unwrap()
}

#[test]
fn what_a_daemon_left_behind_starts_later_is_not_disturbed() {
    let here = scratch();
    let Some(dynamic) = compiled(here.path(), &[]) else { return skipped("no C compiler") };
    let statically = compiled(here.path(), &["-static"]);
    if statically.is_none() {
        skipped("no static C library: the static daemon is left out");
    }
    for program in std::iter::once(&dynamic).chain(&statically) {
        let alone = daemon(None, here.path(), program);
        assert!(alone.contains("by system") && alone.contains("by a system call"), "{alone}");
        for method in methods() {
            let said = daemon(Some(method), here.path(), program);
            // A static program's environment is that at its start.
            let counted = |text: &str| text.replace("by system\n1\n", "by system\n0\n");
            let (said, alone) = if program == &dynamic { (said, alone.clone()) } else { (counted(&said), counted(&alone)) };
            assert_eq!(said, alone, "{method}: {}", program.display());
        }
    }
    // Once no process can load it any more, the next recorder removes the library.
    run(["record", "--method", "preload", "-o", text(&here.path().join("last.thw")), "--", "true"]).done();
}

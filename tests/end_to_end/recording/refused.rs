//! Machines that refuse what recorders need: no types of the kernel, no BPF, an old kernel, security modules, file systems that are
//! read-only or allow no code. The command runs as it would alone, the recording opens, and one sentence says why a better one was not
//! possible.

use super::hard::{apart, for_anyone};
use crate::bounded::Bounded;
use crate::common::{CommandOutput, THALWEG, file, is_root, scratch, skipped, text};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = include_str!("programs/refuses.c");

/// Exit code of a script that could not make the machine it needs.
const IMPOSSIBLE: i32 = 99;

const MOUNTS: [&str; 3] = ["--mount", "--propagation", "private"];

/// Runs a script in its own mount namespace; `None`, with the reason printed, if that is impossible.
fn on_machine(script: &str) -> Option<CommandOutput> {
    if !is_root() {
        skipped("a machine with other mounts needs root");
        return None;
    }
    let ran = apart(&MOUNTS, script).filter(|said| said.code != Some(IMPOSSIBLE));
    if ran.is_none() {
        skipped("no mount namespace, or these mounts are not allowed");
    }
    ran
}

/// Compiles the program that refuses BPF; `None`, with the reason printed, without a compiler.
fn refuses(directory: &Path) -> Option<PathBuf> {
    let source = file(directory, "refuses.c", PROGRAM.as_bytes());
    let program = directory.join("refuses");
    let made = Command::new("cc").args(["-O1", "-o", text(&program), text(&source)]).output_in_time();
    let made = made.is_ok_and(|output| output.status.success()).then_some(program);
    if made.is_none() {
        skipped("no C compiler");
    }
    made
}

/// A command whose output and exit code must not change, recorded, explained and checked by `doctor`: the text of a script, after what
/// makes the machine, with `before` before each run of ours.
fn recorded(directory: &Path, before: &str) -> String {
    let recording = text(&directory.join("a.thw")).to_owned();
    let command = "sh -c 'echo out; echo err >&2; exit 5'";
    format!(
        "{before} {THALWEG} explain -- {command}; [ $? = 5 ] || exit 11\n\
         {before} {THALWEG} record -o {recording} -- {command} 2>{recording}.said; [ $? = 5 ] || exit 12\n\
         sed 's/^/recorded: /' {recording}.said >&2\n\
         {THALWEG} explain --json {recording} >/dev/null || exit 13\n\
         {before} {THALWEG} doctor | sed 's/^/doctor: /' >&2\n"
    )
}

/// Checks what a script of [`recorded`] printed: each of explain, record and doctor says why in one line that has all of these.
#[track_caller]
fn says_why(said: &CommandOutput, recorder: &str, why: &[&str]) {
    assert_eq!((said.code, said.out.as_str()), (Some(0), "out\nout\n"), "{}{}", said.out, said.err);
    let lines_of = |start: &str| said.err.lines().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    for start in [format!("thalweg explain: The recorder {recorder}"), format!("recorded: thalweg record: The recorder {recorder}")] {
        let lines = lines_of(&start);
        assert!(lines.len() == 1 && why.iter().all(|why| lines[0].contains(why)), "{start}: {why:?}: {}", said.err);
    }
    let doctor = lines_of(&format!("doctor: absent   recorder {recorder}:"));
    assert!(doctor.len() == 1 && why.iter().all(|why| doctor[0].contains(why)), "{why:?}: {}", said.err);
    assert_eq!(lines_of("err"), ["err"], "{}", said.err);
    assert_eq!(lines_of("recorded: err"), ["recorded: err"], "{}", said.err);
}

#[test]
fn a_kernel_without_its_types_is_recorded_from_within() {
    let here = scratch();
    let script = format!("mount -t tmpfs none /sys/kernel/btf || exit {IMPOSSIBLE}\n{}", recorded(here.path(), ""));
    let Some(said) = on_machine(&script) else { return };
    says_why(&said, "bpf", &["/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF"]);
    assert!(said.err.contains("by user") || said.err.contains("by preload"), "{}", said.err);
}

#[test]
fn a_kernel_that_refuses_bpf_is_recorded_from_within_and_the_refusal_is_told() {
    let here = scratch();
    let Some(refuses) = refuses(here.path()) else { return };
    let ways: [(i32, &str, &[&str]); 4] = [
        (libc::ENOSYS, "", &["no system call bpf", "CONFIG_BPF_SYSCALL"]),
        (libc::EPERM, "", &["although this process has CAP_BPF", "filter of system calls (seccomp"]),
        (libc::EACCES, "", &["Permission denied", "seccomp"]),
        (libc::EINVAL, "setarch --uname-2.6", &["Linux 2.6.", "came with Linux 5.8"]),
    ];
    for (error, older, why) in ways {
        let here = scratch();
        let script = recorded(here.path(), &format!("{older} {} {error}", text(&refuses)));
        let Some(said) = on_machine(&script) else { return };
        says_why(&said, "bpf", why);
        assert!(said.err.contains("by user") || said.err.contains("by preload"), "{}", said.err);
    }
}

#[test]
fn a_version_number_alone_is_no_reason_to_record_less() {
    if let Some(why) = crate::common::no_bpf() {
        return skipped(&why);
    }
    let here = scratch();
    let recording = here.path().join("a.thw");
    let mut older = Command::new("setarch");
    older.args(["--uname-2.6", THALWEG, "record", "-o", text(&recording), "--", "true"]);
    let Ok(said) = older.output_in_time().map(CommandOutput::from) else { return skipped("setarch is missing") };
    assert!(said.done().err.contains("by bpf"));
}

#[test]
fn an_active_security_module_is_named_with_its_log() {
    let here = scratch();
    let Some(refuses) = refuses(here.path()) else { return };
    let script = format!(
        "mount -t tmpfs none /sys/kernel/security && mount -t tmpfs none /sys/fs && mkdir /sys/fs/selinux || exit {IMPOSSIBLE}\n\
         echo lockdown,capability,selinux >/sys/kernel/security/lsm; echo 1 >/sys/fs/selinux/enforce\n{}",
        recorded(here.path(), &format!("{} {}", text(&refuses), libc::EACCES))
    );
    let Some(said) = on_machine(&script) else { return };
    says_why(&said, "bpf", &["SELinux", "enforcing", "ausearch -m avc"]);
}

/// Mounts that leave no place for code, except beside the command under test, which is made read-only.
fn no_place_for_code() -> String {
    let beside = text(Path::new(THALWEG).parent().unwrap()).to_owned();
    let all =
        ["/dev/shm", "/tmp", "/var/tmp"].map(|place| format!("mount -t tmpfs -o noexec,mode=1777 none {place} || exit {IMPOSSIBLE}\n"));
    format!(
        "{}mount --bind {beside} {beside} && mount -o remount,bind,ro {beside} || exit {IMPOSSIBLE}\n\
         export HOME=/nonexistent; unset XDG_RUNTIME_DIR XDG_CACHE_HOME TMPDIR; cd /tmp\n",
        all.concat()
    )
}

#[test]
fn the_library_goes_where_code_may_be_mapped_and_the_recording_where_files_may_be_written() {
    // Any place will do that the mounts do not cover.
    let Ok(free) = tempfile::Builder::new().prefix("thalweg-test-").tempdir_in("/run") else { return skipped("/run cannot be written") };
    std::fs::set_permissions(free.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for variable in ["XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "TMPDIR"] {
        let script = format!(
            "{}mount -t tmpfs -o mode=755 none {place} || exit {IMPOSSIBLE}\nexport {variable}={place}\n\
             {THALWEG} record --method preload -o /tmp/a.thw -- sh -c 'sleep 0.01; exit 5'; [ $? = 5 ] || exit 11\n\
             {THALWEG} explain /tmp/a.thw || exit 13\n[ -z \"$(ls -A {place})\" ] || exit 14\n{THALWEG} doctor",
            no_place_for_code(),
            place = text(free.path())
        );
        let Some(said) = on_machine(&script) else { return };
        assert_eq!(said.code, Some(0), "{variable}: {}{}", said.out, said.err);
        assert!(said.out.contains(&format!("its library goes to {}", text(free.path()))), "{variable}: {}", said.out);
    }
}

#[test]
fn without_a_place_for_the_library_it_is_recorded_through_proc() {
    let script =
        format!("{}mount -t tmpfs none /sys/kernel/btf || exit {IMPOSSIBLE}\n{}", no_place_for_code(), recorded(Path::new("/tmp"), ""));
    let Some(said) = on_machine(&script) else { return };
    says_why(&said, "preload", &["no directory from which programs can load the library", "/dev/shm", "noexec", "TMPDIR"]);
    says_why(&said, "bpf", &["/sys/kernel/btf/vmlinux"]);
    assert!(said.err.contains("by proc"), "{}", said.err);
}

/// Remounts everything read-only except /proc and the mounts on `but`.
fn read_only(but: &str) -> String {
    format!(
        "for at in $(cut -d' ' -f5 /proc/self/mountinfo | tac); do case $at in /proc*|/dev/pts{but}) ;; \
         *) mount -o remount,bind,ro $at 2>/dev/null;; esac; done\n\
         cd /; unset TMPDIR XDG_RUNTIME_DIR XDG_CACHE_HOME; touch /tmp/x /var/tmp/x 2>/dev/null && exit {IMPOSSIBLE}\n"
    )
}

#[test]
fn where_nothing_can_be_written_a_command_is_explained_from_memory() {
    let script =
        format!("{}touch /dev/shm/x 2>/dev/null && exit {IMPOSSIBLE}\n{THALWEG} explain -- sh -c 'echo out; exit 5'", read_only(""));
    let Some(said) = on_machine(&script) else { return };
    assert_eq!((said.code, said.out.as_str()), (Some(5), "out\n"), "{}", said.err);
    let note = said.err.lines().find(|line| line.contains("in memory")).unwrap_or_else(|| panic!("{}", said.err));
    assert!(note.contains("/tmp: Read-only file system"), "{note}");
    assert!(said.err.contains("sh -c"), "it is explained: {}", said.err);
}

#[test]
fn shared_memory_serves_where_disks_are_read_only() {
    let script = format!(
        "mount -t tmpfs none /dev/shm || exit {IMPOSSIBLE}\n{}{THALWEG} explain -- sh -c 'echo out; exit 5'; code=$?; [ -z \"$(ls -A /dev/shm)\" ] || exit 14; exit $code",
        read_only("|/dev/shm")
    );
    let Some(said) = on_machine(&script) else { return };
    assert_eq!((said.code, said.out.as_str()), (Some(5), "out\n"), "{}", said.err);
    assert!(said.err.lines().any(|line| line.contains("it is in /dev/shm")), "{}", said.err);
}

#[test]
fn a_user_who_can_write_nowhere_is_told_what_to_set_and_the_command_is_not_run() {
    let here = scratch();
    let thalweg = for_anyone(here.path());
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let script = format!(
        "command -v setpriv >/dev/null || exit {IMPOSSIBLE}\n{}\
         {nobody} {thalweg} explain -- echo ran; [ $? = 1 ] || exit 11\n{nobody} {thalweg} record -- echo ran; [ $? = 1 ] || exit 12",
        read_only(""),
        thalweg = text(&thalweg)
    );
    let Some(said) = on_machine(&script) else { return };
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{}", said.err);
    let lines: Vec<&str> = said.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", said.err);
    assert!(lines[0].contains("/tmp: Read-only file system") && lines[0].contains("set TMPDIR"), "{}", said.err);
    assert!(lines[1].contains("Read-only file system") && lines[1].contains("-o NAME.thw"), "{}", said.err);
}

//! `doctor --fix` and `--undo`, on a machine of the test's own: other mounts, files in place of settings, a `sudo` made for the test.

use crate::bounded::Bounded;
use crate::common::{CommandOutput, THALWEG, file, is_root, no_bpf, run, scratch, skipped, text, thalweg};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit code of a script that could not make the machine it needs.
const IMPOSSIBLE: i32 = 99;

/// A machine whose limit of receive buffers is a file, and whose /etc/sysctl.d is empty.
const SMALL_BUFFERS: &str = "mount -t tmpfs none /etc/sysctl.d || exit 99
echo 212992 >$HERE/rmem_max; mount --bind $HERE/rmem_max /proc/sys/net/core/rmem_max || exit 99
unset HOME; mkdir $HERE/state; export XDG_STATE_HOME=$HERE/state
value() { cat /proc/sys/net/core/rmem_max; }
kept() { ls /etc/sysctl.d; cat /etc/sysctl.d/* 2>/dev/null; }
";

/// Runs a script as root in its own mount namespace, with `$THALWEG` and `$HERE`; `None`, with the reason printed, if that is impossible.
fn on_machine(here: &Path, script: &str) -> Option<CommandOutput> {
    if !is_root() {
        skipped("a machine with other mounts needs root");
        return None;
    }
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--propagation", "private", "sh", "-c", script]).env("NO_COLOR", "1").stdin(Stdio::null());
    let ran = shell.env("THALWEG", THALWEG).env("HERE", here).output_in_time().ok().map(CommandOutput::from);
    let ran = ran.filter(|said| said.code != Some(IMPOSSIBLE) && !said.err.contains("unshare failed"));
    if ran.is_none() {
        skipped("no mount namespace, or these mounts are not allowed");
    }
    ran
}

#[test]
fn without_a_terminal_it_prints_what_it_would_do_and_changes_nothing() {
    let here = scratch();
    let script = format!("{SMALL_BUFFERS}$THALWEG doctor --fix=receive-buffer --persist; echo code $?; value; kept; ls -A $HERE/state");
    let Some(said) = on_machine(here.path(), &script) else { return };
    assert!(said.out.ends_with("code 2\n212992\n"), "{}{}", said.out, said.err);
    for part in ["net.core.rmem_max=4194304", "net.core.rmem_max=212992", "60-thalweg.conf", "adds", "affects   all programs", "undo"] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    assert!(said.err.contains("nothing was changed") && said.err.contains("--yes"), "{}", said.err);
}

#[test]
fn a_setting_is_made_checked_kept_and_undone_without_a_trace() {
    let here = scratch();
    let script = format!(
        "{SMALL_BUFFERS}$THALWEG doctor --fix=receive-buffer --yes || exit 11; value; kept\n$THALWEG doctor --fix=receive-buffer --yes\n\
         $THALWEG doctor --undo --yes || exit 12; value\n$THALWEG doctor --fix=receive-buffer --persist --yes || exit 13; kept\n\
         $THALWEG doctor --undo --yes || exit 14; value; kept; ls -A $HERE/state; $THALWEG doctor --undo"
    );
    let Some(said) = on_machine(here.path(), &script) else { return };
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let plain: Vec<&str> = said.out.lines().filter(|line| !line.starts_with(' ') && !line.starts_with("receive-buffer: socket")).collect();
    let kept = ["60-thalweg.conf", "net.core.rmem_max = 4194304"];
    let expected: Vec<&str> = [
        &["4194304", "receive-buffer: nothing to change here (`thalweg doctor` says what it found)", "receive-buffer", "212992"][..],
        &kept,
        &["receive-buffer", "212992", "nothing to undo: `doctor --fix` has made no change, or all are undone"],
    ]
    .concat();
    assert_eq!(plain, expected, "{}", said.out);
    assert_eq!(said.out.matches("it helped: socket receive buffer is good: at most 4 MiB").count(), 2, "{}", said.out);
}

#[test]
fn a_setting_that_somebody_changed_since_is_not_set_back() {
    let here = scratch();
    let script = format!(
        "{SMALL_BUFFERS}$THALWEG doctor --fix=receive-buffer --yes >&2 || exit 11; echo 8388608 >/proc/sys/net/core/rmem_max\n\
         $THALWEG doctor --undo --yes || exit 12; value; ls -A $HERE/state"
    );
    let Some(said) = on_machine(here.path(), &script) else { return };
    assert_eq!(said.out, "receive-buffer: no longer as doctor made it, so there is nothing to undo\n8388608\n", "{}", said.err);
}

#[test]
fn a_person_at_a_terminal_is_asked_and_only_yes_means_yes() {
    let here = scratch();
    let script = format!(
        "command -v script >/dev/null || exit 99\n{SMALL_BUFFERS}\
         for answer in '' n q y; do echo \"$answer\" | script -qec '$THALWEG doctor --fix=receive-buffer' /dev/null >$HERE/said\n\
         echo \"$answer: $? $(grep -c 'make this change? .y/N.' $HERE/said) $(value)\"; done"
    );
    let Some(said) = on_machine(here.path(), &script) else { return };
    assert_eq!(said.out, ": 0 1 212992\nn: 0 1 212992\nq: 0 1 212992\ny: 0 1 4194304\n", "{}", said.err);
}

#[test]
fn a_file_system_of_the_kernel_is_mounted_and_unmounted() {
    let here = scratch();
    let script = "mkdir $HERE/state; export XDG_STATE_HOME=$HERE/state; umount /sys/kernel/debug/tracing /sys/kernel/tracing 2>/dev/null\n\
         umount -l /sys/kernel/debug 2>/dev/null; [ -d /sys/kernel/tracing ] && [ ! -d /sys/kernel/tracing/events ] || exit 99\n\
         $THALWEG doctor --fix=tracefs --yes || exit 11; ls -d /sys/kernel/tracing/events\n\
         $THALWEG doctor --undo --yes || exit 12; ls -A /sys/kernel/tracing; ls -A $HERE/state; echo end";
    let Some(said) = on_machine(here.path(), script) else { return };
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("it helped: tracefs is good") && said.out.contains("\n/sys/kernel/tracing/events\n"), "{}", said.out);
    assert!(said.out.ends_with("  undone\nend\n"), "{}", said.out);
}

#[test]
fn a_change_that_fails_is_told_and_not_remembered() {
    let here = scratch();
    let script = format!(
        "{SMALL_BUFFERS}mkdir $HERE/bin; printf '#!/bin/sh\\nexit 7\\n' >$HERE/bin/sysctl; chmod +x $HERE/bin/sysctl; PATH=$HERE/bin:$PATH\n\
         $THALWEG doctor --fix=receive-buffer --yes; echo code $?; value; ls -A $HERE/state"
    );
    let Some(said) = on_machine(here.path(), &script) else { return };
    assert!(said.out.ends_with("code 1\n212992\n"), "{}{}", said.out, said.err);
    assert!(said.err.contains("sysctl") && said.err.contains("exit status: 7"), "{}", said.err);
}

/// Another user with a copy of the command and a directory for state, and with `sudo` in front of PATH if there is a program for it.
fn as_nobody(here: &Path, arguments: &[&str]) -> Option<CommandOutput> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", text(&here.join("thalweg"))]).args(arguments);
    command.env_clear().env("PATH", format!("{}/bin:/usr/bin:/bin", text(here))).env("XDG_STATE_HOME", here.join("state"));
    command.stdin(Stdio::null()).output_in_time().ok().map(CommandOutput::from)
}

/// Makes a place for [`as_nobody`]. A copy, since capabilities belong to a file whatever its name.
fn place_for_nobody() -> Option<tempfile::TempDir> {
    if !is_root() {
        skipped("becoming another user needs root");
        return None;
    }
    // Not in memory, which is usually mounted nosuid.
    let here = tempfile::Builder::new().prefix("thalweg-test-").tempdir_in("/var/tmp").expect("a directory on a disk");
    for directory in [here.path().to_owned(), here.path().join("state"), here.path().join("bin")] {
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
    }
    std::fs::copy(THALWEG, here.path().join("thalweg")).expect("the command can be copied");
    Some(here)
}

#[test]
fn a_user_without_sudo_gets_the_commands_for_an_administrator() {
    if Path::new("/usr/bin/sudo").exists() {
        return skipped("this machine has sudo");
    }
    let Some(here) = place_for_nobody() else { return };
    let Some(said) = as_nobody(here.path(), &["doctor", "--fix=capabilities", "--yes"]) else { return skipped("setpriv is missing") };
    let setcap = format!("as root   setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep {}/thalweg", text(here.path()));
    if said.out.contains("nothing to change") || !said.out.contains("setcap") {
        return skipped("capabilities of files have no effect here, or setcap is missing");
    }
    assert!(said.out.contains(&setcap) && said.out.contains("gives up  everyone who may execute"), "{}", said.out);
    said.failed(1, &["there is no sudo", "nothing was changed", "an administrator"]);
    assert_eq!(std::fs::read_dir(here.path().join("state")).unwrap().count(), 0);
}

/// A `sudo` that asks for nothing.
const SUDO: &str = "#include <string.h>\n#include <unistd.h>\nint main(int count, char **words) {\n    if (setgid(0) || setuid(0)) return 98;\n\
    words += count > 1 && !strcmp(words[1], \"-n\") ? 2 : 1;\n    execvp(words[0], words);\n    return 97;\n}\n";

#[test]
fn capabilities_let_a_user_record_with_bpf_until_they_are_undone() {
    if let Some(why) = no_bpf() {
        return skipped(&why);
    }
    let Some(here) = place_for_nobody() else { return };
    let source = file(here.path(), "sudo.c", SUDO.as_bytes());
    let sudo = here.path().join("bin/sudo");
    let made = Command::new("cc").args(["-o", text(&sudo), text(&source)]).output_in_time();
    if !made.is_ok_and(|output| output.status.success()) {
        return skipped("no C compiler");
    }
    std::fs::set_permissions(&sudo, PermissionsExt::from_mode(0o4755)).unwrap();
    let Some(said) = as_nobody(here.path(), &["doctor", "--fix=capabilities", "--yes"]) else { return skipped("setpriv is missing") };
    if said.err.contains("status: 98") || !said.out.contains("setcap") {
        return skipped("set-user-ID programs or capabilities of files have no effect here");
    }
    assert!(said.out.contains("sudo -n setcap") && said.out.contains("it helped: recorder bpf is good"), "{}{}", said.out, said.err);
    let recording = here.path().join("a.thw");
    let recorded = as_nobody(here.path(), &["record", "-o", text(&recording), "--", "true"]).unwrap().done();
    assert!(recorded.err.contains("by bpf"), "{}", recorded.err);
    run(["explain", "--json", text(&recording)]).done();
    let undone = as_nobody(here.path(), &["doctor", "--undo", "--yes"]).unwrap().done();
    assert!(undone.out.contains("undone"), "{}", undone.out);
    let doctor = as_nobody(here.path(), &["doctor"]).unwrap().done();
    assert!(doctor.out.contains("absent   recorder bpf"), "{}", doctor.out);
    assert_eq!(std::fs::read_dir(here.path().join("state")).unwrap().count(), 0);
}

#[test]
fn fixes_are_data_and_their_identifiers_are_accepted() {
    let document = run(["doctor", "--json"]).done().json();
    for finding in document["findings"].as_array().expect("findings") {
        let fix = &finding["fix"];
        if fix.is_null() {
            continue;
        }
        assert_ne!(finding["state"], "good", "{finding}");
        let filled =
            |list: &serde_json::Value| list.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(serde_json::Value::is_string));
        assert!(filled(&fix["commands"]) && filled(&fix["undo"]), "{fix}");
        assert!(["adds", "affects", "lasts"].iter().all(|field| fix[field].as_str().is_some_and(|text| !text.is_empty())), "{fix}");
        let id = fix["id"].as_str().expect("an identifier");
        let said = run(["doctor", &format!("--fix={id}")]);
        assert!(said.code == Some(2) || said.err.contains("there is no sudo"), "{}", said.err);
    }
    run(["doctor", "--fix=wings"]).failed(2, &["wings", "ptrace-scope"]);
    run(["doctor", "--yes"]).failed(2, &["--fix"]);
    run(["doctor", "--fix", "--json"]).failed(2, &["--json"]);
}

#[test]
fn what_was_made_cannot_be_forgotten() {
    let here = scratch();
    std::fs::create_dir(here.path().join("thalweg")).unwrap();
    let journal = file(&here.path().join("thalweg"), "doctor.json", b"{");
    let undo = |state: &Path| {
        let undo = thalweg(["doctor", "--undo"]).env("XDG_STATE_HOME", state).output_in_time().expect("it runs");
        CommandOutput::from(undo)
    };
    undo(here.path()).failed(1, &[text(&journal), "undo by hand"]);
    std::fs::write(&journal, r#"{"schema":"another","made":[]}"#).unwrap();
    undo(here.path()).failed(1, &["\"another\"", "thalweg.doctor.made/1"]);
    // Without a place to remember a change, none is made.
    let script = format!("{SMALL_BUFFERS}export XDG_STATE_HOME=/proc; $THALWEG doctor --fix=receive-buffer --yes; echo code $?; value");
    let Some(said) = on_machine(here.path(), &script) else { return };
    assert!(said.out.ends_with("code 1\n212992\n") && said.err.contains("cannot remember"), "{}{}", said.out, said.err);
}

//! `thalweg profile` by a user who may sample only the user's own programs.

use super::methods::Unprivileged;
use super::profile_counted::{host, shares};
use crate::bounded::Bounded;
use crate::common::{is_root, skipped, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{RwLock, RwLockReadGuard};

/// Held for writing while the machine's setting is another one.
pub(super) static SETTING: RwLock<()> = RwLock::new(());

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

fn paranoid() -> Option<i32> {
    std::fs::read_to_string(PARANOID).ok()?.trim().parse().ok()
}

/// An unprivileged user, with the program that spends its time in two functions.
struct Setting {
    nobody: Unprivileged,
    hot: String,
    /// The machine's setting stays.
    _held: Option<RwLockReadGuard<'static, ()>>,
}

/// Returns the setting, with the program compiled so; `None`, with the reason printed, if that is impossible.
fn setting(flags: &[&str]) -> Option<Setting> {
    let held = SETTING.read().ok();
    let setting = without_setting(flags)?;
    match paranoid() {
        Some(..=2) => Some(Setting { _held: held, ..setting }),
        level => {
            skipped(&format!("kernel.perf_event_paranoid is {level:?}: nothing may be sampled"));
            None
        }
    }
}

/// Returns it whatever the machine's setting is.
fn without_setting(flags: &[&str]) -> Option<Setting> {
    if !is_root() || !Command::new("setpriv").arg("--version").output_in_time().is_ok_and(|output| output.status.success()) {
        skipped("needs root and setpriv, to become nobody");
        return None;
    }
    let nobody = Unprivileged::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/end_to_end/recording/programs/hot.c");
    let hot = nobody.directory.path().join("hot");
    let compiled = Command::new("cc").args(["-O1", "-pthread"]).args(flags).args(["-o", text(&hot), text(&source)]).output_in_time();
    if !compiled.is_ok_and(|output| output.status.success()) {
        skipped(&format!("cc {flags:?} cannot make the program"));
        return None;
    }
    let hot = text(&hot).to_owned();
    Some(Setting { nobody, hot, _held: None })
}

impl Setting {
    fn run(&self, arguments: &[&str]) -> (Output, String, String) {
        let output = self.nobody.command(arguments).output_in_time().expect("it runs");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (said(&output.stdout), said(&output.stderr));
        (output, out, err)
    }

    /// Profiles the program; returns its user and system time, the profile, and the recording's path.
    fn profiled(&self, options: &[&str], words: &[&str]) -> ([f64; 2], Value, String) {
        let kept = self.nobody.directory.path().join("kept.thw");
        let arguments = [&["profile", "-o", text(&kept)][..], options, &["--", &self.hot], words].concat();
        let (output, out, err) = self.run(&arguments);
        assert_eq!(output.status.code(), Some(5), "{err}");
        let used: Vec<f64> = out.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let (again, json, err) = self.run(&["profile", "--json", text(&kept)]);
        assert!(again.status.success(), "{err}");
        ([used[0], used[1]], host(&json), text(&kept).to_owned())
    }
}

fn own(host: &Value, field: &str) -> f64 {
    host["counted"]["own"][field].as_f64().unwrap_or_else(|| panic!("{field}: {host}"))
}

/// Returns the part of all samples that a function has.
fn part(host: &Value, function: &str) -> f64 {
    let is = |row: &&Value| row["function"] == function;
    let samples: f64 = host["functions"].as_array().expect("a list").iter().filter(is).filter_map(|row| row["samples"].as_f64()).sum();
    samples / host["samples"].as_f64().expect("a number")
}

#[test]
fn functions_have_the_time_that_was_spent_in_them() {
    let Some(setting) = setting(&["-fno-omit-frame-pointer"]) else { return };
    let ([user_s, system_s], host, kept) = setting.profiled(&[], &["both"]);
    // 1,500 samples: a standard deviation of 1.2 %. The loop calls clock_gettime each millisecond, in the vDSO.
    assert!((part(&host, "twice") - 2.0 / 3.0).abs() < 0.06 && (part(&host, "once") - 1.0 / 3.0).abs() < 0.06, "{host}");
    let near = |found: f64, used: f64| (found - used).abs() < 0.05 + 0.1 * used;
    assert!(near(own(&host, "run_s"), user_s + system_s), "{user_s} + {system_s}: {host}");
    assert!(near(own(&host, "user_s") + own(&host, "kernel_s") + own(&host, "short_s"), own(&host, "run_s")), "{host}");
    assert!(own(&host, "user_s") > 0.9 * own(&host, "run_s"), "{host}");
    let all = shares(&host, "classes", |_| true, "share");
    assert!((all - 1.0).abs() < 1e-6, "{host}");
    let whole_s = shares(&host, "classes", |_| true, "seconds");
    let program_s = shares(&host, "classes", |row| row["class"] == "program", "share") * whole_s;
    assert!(near(program_s, own(&host, "user_s")), "{program_s}: {host}");
    let (_, table, _) = setting.run(&["profile", &kept]);
    for said in
        ["hottest functions", "twice", "samples of the code of own programs", "Samples of the kernel and of other programs: no CAP_BPF"]
    {
        assert!(table.split_whitespace().collect::<Vec<_>>().join(" ").contains(said), "{said}: {table}");
    }
    let page = setting.nobody.directory.path().join("page.html");
    let (output, _, err) = setting.run(&["profile", &kept, "-o", text(&page)]);
    assert!(output.status.success(), "{err}");
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("Flame graph") && page.contains("twice"), "a picture of the functions");
    let folded = setting.nobody.directory.path().join("folded");
    let (output, _, err) = setting.run(&["export", &kept, "--to", "folded", "-o", text(&folded)]);
    assert!(output.status.success(), "{err}");
    let folded = std::fs::read_to_string(folded).expect("stacks");
    assert!(folded.lines().any(|line| line.starts_with("hot;") && line.contains("main;work;twice ")), "{folded}");
}

#[test]
fn copied_stacks_lead_through_code_without_frame_pointers() {
    let Some(setting) = setting(&["-fomit-frame-pointer"]) else { return };
    let (_, host, kept) = setting.profiled(&["--user-stacks", "dwarf"], &["both"]);
    assert!((part(&host, "twice") - 2.0 / 3.0).abs() < 0.08, "{host}");
    let folded = setting.nobody.directory.path().join("folded");
    let (output, _, err) = setting.run(&["export", &kept, "--to", "folded", "-o", text(&folded)]);
    assert!(output.status.success(), "{err}");
    let folded = std::fs::read_to_string(folded).expect("stacks");
    let count = |is: &dyn Fn(&str) -> bool| -> f64 {
        folded.lines().filter(|line| is(line)).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    let (all, whole) = (count(&|line| line.contains(";twice")), count(&|line| line.contains(";main;work;twice")));
    assert!(whole > 0.9 * all && all > 0.0, "{folded}");
}

#[test]
fn a_static_program_has_its_functions_too() {
    let Some(setting) = setting(&["-static"]) else { return };
    let (_, host, _) = setting.profiled(&[], &["both"]);
    assert!((part(&host, "twice") - 2.0 / 3.0).abs() < 0.06, "{host}");
}

#[test]
fn a_program_that_executes_another_is_followed() {
    let Some(setting) = setting(&[]) else { return };
    let ([user_s, system_s], host, _) = setting.profiled(&[], &["exec"]);
    assert!((part(&host, "twice") - 2.0 / 3.0).abs() < 0.06 && (part(&host, "once") - 1.0 / 3.0).abs() < 0.06, "{host}");
    assert!((own(&host, "run_s") - user_s - system_s).abs() < 0.04, "{host}");
}

#[test]
fn two_thousand_threads_and_brief_processes_are_accounted_for() {
    let Some(setting) = setting(&[]) else { return };
    let ([user_s, system_s], host, _) = setting.profiled(&[], &["threads", "2000"]);
    assert!((own(&host, "run_s") - user_s - system_s).abs() < 0.1 + 0.05 * (user_s + system_s), "{user_s} + {system_s}: {host}");
    assert_eq!(host["lost"], 0, "{host}");
    assert!(part(&host, "once") > 0.5, "{host}");
    std::fs::remove_dir_all(setting.nobody.directory.path().join("kept.thw")).expect("a recording");
    let (_, host, _) = setting.profiled(&[], &["children", "600"]);
    // Such a process ends before its clock has expired.
    assert!(own(&host, "short_s") > 0.2 * own(&host, "run_s"), "{host}");
}

#[test]
fn compressors_interpreters_and_pipelines_are_named() {
    let Some(setting) = setting(&[]) else { return };
    let here = setting.nobody.directory.path();
    let kept = here.join("kept.thw");
    let command = "head -c 60000000 /dev/zero | tr '\\0' x | gzip -9 > /dev/null; /usr/bin/python3 -c 'sum(i * i for i in range(4000000))'";
    let (output, _, err) = setting.run(&["profile", "-o", text(&kept), "--", "sh", "-c", command]);
    if !output.status.success() {
        return skipped(&format!("gzip or /usr/bin/python3 is missing: {err}"));
    }
    let (output, _, err) = setting.run(&["export", text(&kept), "--to", "folded", "-o", text(&here.join("folded"))]);
    assert!(output.status.success(), "{err}");
    let folded = std::fs::read_to_string(here.join("folded")).expect("stacks");
    for program in ["gzip;", "python3;"] {
        let samples: u64 = folded
            .lines()
            .filter(|line| line.starts_with(program) && !line.contains("[unknown]"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum();
        assert!(samples > 50, "{program} has {samples} samples: {folded}");
    }
}

#[test]
fn a_recording_names_the_hottest_functions_of_what_computed() {
    let Some(setting) = setting(&[]) else { return };
    let kept = setting.nobody.directory.path().join("kept.thw");
    let (output, _, err) = setting.run(&["record", "--profile", "-o", text(&kept), "--", &setting.hot, "both"]);
    assert_eq!(output.status.code(), Some(5), "{err}");
    let (output, out, err) = setting.run(&["explain", "-v", text(&kept)]);
    assert!(output.status.success() && out.contains("twice") && out.contains("once"), "{out}{err}");
}

#[test]
fn recordings_at_the_same_time_share_what_a_user_may_lock() {
    let Some(setting) = setting(&[]) else { return };
    let here = setting.nobody.directory.path();
    let mut running = Vec::new();
    for n in 0..4 {
        let kept = here.join(format!("{n}.thw"));
        let words = ["profile", "--user-stacks", "dwarf", "-o", text(&kept), "--", &setting.hot, "both"].map(str::to_owned);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let child = setting.nobody.command(&words).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn();
        running.push((kept, child.expect("it runs")));
    }
    for (kept, child) in running {
        let output = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{err}");
        let (_, json, _) = setting.run(&["profile", "--json", text(&kept)]);
        let host = host(&json);
        // Samples, or counts with the reason.
        assert!(host["samples"].as_u64() > Some(0) || err.contains("kernel.perf_event_mlock_kb"), "{err}");
    }
}

/// Restores the setting.
struct Restored(String);

impl Drop for Restored {
    fn drop(&mut self) {
        std::fs::write(PARANOID, &self.0).expect("root may");
    }
}

#[test]
fn where_samples_are_refused_there_are_counts_and_one_sentence_says_which_setting() {
    let Some(setting) = without_setting(&[]) else { return };
    let Ok(before) = std::fs::read_to_string(PARANOID) else { return skipped("this kernel has no perf events") };
    let _held = SETTING.write();
    let _restored = Restored(before.trim().to_owned());
    if std::fs::write(PARANOID, "3").is_err() {
        return skipped("kernel.perf_event_paranoid cannot be changed here");
    }
    let (output, _, err) = setting.run(&["profile", "--", &setting.hot, "both"]);
    assert_eq!(output.status.code(), Some(5), "{err}");
    let said = err.split_whitespace().collect::<Vec<_>>().join(" ");
    if !said.contains("no samples") {
        return skipped("this kernel refuses nothing at kernel.perf_event_paranoid=3: distributions add that");
    }
    assert!(said.contains("no samples; counted by /proc") && said.contains("sysctl kernel.perf_event_paranoid=2"), "{err}");
    assert_eq!(said.matches("kernel.perf_event_paranoid=2").count(), 1, "{err}");
}

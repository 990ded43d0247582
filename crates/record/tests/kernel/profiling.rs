//! Promises of a profile, for programs that spend their time in known places. Each test needs BPF; skipped, with a
//! message, without it.

use crate::bounded::Bounded;
use crate::common::{Ran, compile, run};
use crate::{PYTHON, alone};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_record::symbols;
use thalweg_trace::{CounterName, CounterOf, Frame, Recording, Role, Source, TrackId, TrackKind};

/// The sampling period.
const PERIOD_NS: u64 = 1_003_009;

const FRAMES: &[&str] = &["-fno-omit-frame-pointer", "-fno-shrink-wrap", "-Wl,--build-id"];

/// A sample, with its thread's name and process.
pub struct Taken {
    track: TrackId,
    pub class: String,
    pub frames: Vec<Frame>,
}

pub struct Profile {
    pub recording: Recording,
    pub samples: Vec<Taken>,
    /// CPU time that each mode of the program reports, and its process.
    pub used: HashMap<String, (u32, f64)>,
}

pub fn number(recording: &Recording, name: &str) -> i64 {
    let found = recording.meta().attributes.iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("no {name}")).1.parse().expect("a number")
}

impl Profile {
    pub fn of(ran: &Ran) -> Profile {
        assert_eq!(ran.code(), Some(0), "{}", ran.said());
        let recording = ran.recording();
        let classes: HashMap<u16, String> = recording
            .meta()
            .attributes
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix("class.")?.parse().ok()?, value.clone())))
            .collect();
        let stacks: HashMap<u32, Vec<Frame>> = recording
            .stacks()
            .expect("read")
            .into_iter()
            .map(|stack| (stack.stack, stack.frames.iter().map(|frame| Frame::parse(frame)).collect()))
            .collect();
        let samples = recording.samples().expect("read").into_iter().filter_map(|sample| {
            let frames = stacks[&sample.profiled()?].clone();
            assert_eq!(sample.weight_ns, PERIOD_NS);
            Some(Taken { track: sample.track.expect("a thread"), class: classes[&sample.class].clone(), frames })
        });
        let samples: Vec<Taken> = samples.collect();
        let mut used = HashMap::new();
        for line in ran.out().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if let [mode, pid, ns] = words[..] {
                used.insert(mode.to_owned(), (pid.parse().expect("a process"), ns.parse().expect("a time")));
            }
        }
        assert_eq!((number(&recording, "profile.lost"), number(&recording, "profile.samples")), (0, samples.len() as i64));
        Profile { recording, samples, used }
    }

    /// Returns a mode's samples, except those of interrupts that borrowed its time for others.
    pub fn of_mode(&self, mode: &str) -> Vec<&Taken> {
        let pid = self.used[mode].0;
        let of: HashSet<TrackId> = self.recording.tracks().iter().filter(|t| t.pid == Some(pid)).map(|t| t.track).collect();
        self.samples.iter().filter(|sample| of.contains(&sample.track) && !is_of_interrupt(sample)).collect()
    }

    /// Returns the share of a mode's samples for which this holds.
    pub fn part(&self, mode: &str, holds: impl Fn(&Taken) -> bool) -> f64 {
        let all = self.of_mode(mode);
        assert!(all.len() >= 100, "{} samples of {mode}", all.len());
        all.iter().filter(|sample| holds(sample)).count() as f64 / all.len() as f64
    }

    /// Formats a mode's unexpected stacks.
    pub fn odd(&self, mode: &str, holds: impl Fn(&Taken) -> bool) -> String {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for sample in self.of_mode(mode).iter().filter(|sample| !holds(sample)) {
            *counts.entry(sample.frames.iter().map(Frame::to_string).collect::<Vec<_>>().join(" < ")).or_default() += 1;
        }
        format!("{mode}: {counts:#?}")
    }
}

pub fn symbols_of(sample: &Taken) -> Vec<&str> {
    sample.frames.iter().filter_map(|frame| frame.symbol.as_deref()).collect()
}

fn is_of_interrupt(sample: &Taken) -> bool {
    symbols_of(sample).iter().any(|symbol| symbol.starts_with("handle_softirqs") || symbol.starts_with("common_interrupt"))
}

fn has(sample: &Taken, symbol: &str) -> bool {
    symbols_of(sample).contains(&symbol)
}

fn is_chain(sample: &Taken) -> bool {
    sample.class == "profile.user" && symbols_of(sample).starts_with(&["innermost", "between", "outermost"])
}

fn profile(directory: &Path, words: &[&str]) -> Profile {
    Profile::of(&run(directory, &["--profile-alone"], words))
}

#[test]
fn each_place_has_the_samples_of_the_time_that_was_spent_there() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = compile(directory.path(), "profiled", FRAMES) else { return };
    let profile = profile(directory.path(), &[program.to_str().expect("text"), "500", "spin", "zeros", "faults", "clocks"]);
    for (mode, (_, used_ns)) in &profile.used {
        let sampled_ns = profile.of_mode(mode).len() as f64 * 1e6;
        assert!((sampled_ns / used_ns - 1.0).abs() < 0.06, "{mode}: {sampled_ns} ns of samples, {used_ns} ns used");
    }
    assert!(profile.part("spin", is_chain) > 0.95, "{}", profile.odd("spin", is_chain));
    let in_read = |sample: &Taken| sample.class != "profile.user" && has(sample, "ksys_read");
    assert!(profile.part("zeros", in_read) > 0.9, "{}", profile.odd("zeros", in_read));
    let in_fault = |sample: &Taken| has(sample, "exc_page_fault") || has(sample, "el0_da");
    assert!(profile.part("faults", in_fault) > 0.3, "{}", profile.odd("faults", in_fault));
    let on_memory = |sample: &Taken| in_fault(sample) || has(sample, "faults") || has(sample, "__vm_munmap");
    assert!(profile.part("faults", on_memory) > 0.9, "{}", profile.odd("faults", on_memory));
    let on_clock = |sample: &Taken| sample.frames[0].module == "vdso" || has(sample, "clocks") || has(sample, "clock_gettime");
    assert!(profile.part("clocks", on_clock) > 0.9, "{}", profile.odd("clocks", on_clock));
    let of_program = |role: Role| profile.recording.tracks().iter().filter(|t| t.role == role && t.kind == TrackKind::Thread).count();
    assert!(of_program(Role::Client) >= 4, "{:?}", profile.recording.tracks());
    assert!(of_program(Role::Recorder) >= 1, "{:?}", profile.recording.tracks());
}

#[test]
fn idle_and_what_ran_are_all_of_the_processors_time() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let profile = Profile::of(&run(directory.path(), &["--profile-alone"], &["sleep", "0.5"]));
    let recording = &profile.recording;
    let cpus: HashMap<TrackId, &str> =
        recording.tracks().iter().filter(|t| t.kind == TrackKind::Cpu).map(|t| (t.track, t.name.as_str())).collect();
    assert_eq!(cpus.len(), std::thread::available_parallelism().expect("processors").get());
    let wall_ns = number(recording, "profile.end_ns") - number(recording, "profile.start_ns");
    let mut all_ns = profile.samples.len() as i64 * PERIOD_NS as i64;
    for name in [CounterName::CpuIdleNs, CounterName::CpuHardirqNs, CounterName::CpuStealNs] {
        let counters = recording.counters(name).expect("read");
        for cpu in cpus.keys() {
            let of: Vec<_> = counters.iter().filter(|c| c.of == CounterOf::Track(*cpu)).collect();
            assert!(of.len() >= 5 && of[0].value == 0, "{name:?}: {of:?}");
            assert!(of.windows(2).all(|two| two[0].value <= two[1].value && two[0].at < two[1].at), "{name:?}: {of:?}");
            let grown = of[of.len() - 1].value;
            assert!((0..=wall_ns + 10_000_000).contains(&grown), "{name:?}: {grown} of {wall_ns}");
            if name == CounterName::CpuIdleNs || name == CounterName::CpuHardirqNs {
                all_ns += grown;
            }
        }
    }
    let whole_ns = wall_ns * cpus.len() as i64;
    assert!((all_ns as f64 / whole_ns as f64 - 1.0).abs() < 0.1, "{all_ns} of {whole_ns} ns");
}

/// Makes a stripped copy of a program.
fn stripped(program: &Path, to: &Path) -> Option<PathBuf> {
    let done = Command::new("strip").arg("-o").arg(to).arg(program).output_in_time();
    if done.is_ok_and(|output| output.status.success()) {
        return Some(to.to_owned());
    }
    println!("SKIPPED: strip cannot be run");
    None
}

/// Names frames as for another machine's recording: with each stack's samples.
fn named_from(samples: &[&Taken], dirs: &[PathBuf]) -> (Vec<Vec<Frame>>, Vec<symbols::MissingFile>) {
    let mut stacks: Vec<(Vec<Frame>, u64)> = samples.iter().map(|sample| (sample.frames.clone(), 1)).collect();
    let missing = symbols::resolve(&mut stacks, dirs);
    (stacks.into_iter().map(|(frames, _)| frames).collect(), missing)
}

#[test]
fn a_stripped_program_keeps_its_identifier_and_is_named_by_whoever_has_the_symbols() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let whole = directory.path().join("whole");
    std::fs::create_dir(&whole).expect("a directory");
    let Some(program) = compile(&whole, "profiled", FRAMES) else { return };
    let Some(bare) = stripped(&program, &directory.path().join("profiled")) else { return };
    let profile = profile(directory.path(), &[bare.to_str().expect("text"), "300", "spin"]);
    std::fs::remove_file(&bare).expect("removed");
    let is_kept = |frame: &Frame| frame.module == bare.to_str().expect("text") && frame.build_id.is_some() && frame.file_offset.is_some();
    let samples: Vec<&Taken> = profile.of_mode("spin").into_iter().filter(|sample| is_kept(&sample.frames[0])).collect();
    assert!(samples.len() > 250, "{}", profile.odd("spin", |sample| is_kept(&sample.frames[0])));
    assert!(samples.iter().all(|sample| sample.frames[0].symbol.is_none()));

    let (_, missing) = named_from(&samples, &[]);
    let [file] = &missing[..] else { panic!("{missing:?}") };
    assert_eq!((file.module.as_str(), file.samples), (bare.to_str().expect("text"), samples.len() as u64));
    let is_named =
        |frames: &Vec<Frame>| frames.iter().filter_map(|frame| frame.symbol.as_deref()).take(3).eq(["innermost", "between", "outermost"]);
    let (stacks, missing) = named_from(&samples, std::slice::from_ref(&whole));
    assert!(stacks.iter().filter(|frames| is_named(frames)).count() * 100 > 95 * stacks.len(), "{stacks:?}");
    assert_eq!(missing, []);

    let id = file.build_id.as_deref().expect("an identifier");
    let debug = directory.path().join("debug/.build-id").join(&id[..2]);
    std::fs::create_dir_all(&debug).expect("directories");
    let only =
        Command::new("objcopy").arg("--only-keep-debug").arg(&program).arg(debug.join(format!("{}.debug", &id[2..]))).output_in_time();
    if only.is_ok_and(|output| output.status.success()) {
        let (stacks, _) = named_from(&samples, &[directory.path().join("debug")]);
        assert!(stacks.iter().filter(|frames| is_named(frames)).count() * 100 > 95 * stacks.len(), "{stacks:?}");
    }
}

#[test]
fn code_that_a_program_made_is_named_by_the_map_it_leaves() {
    let Some(_alone) = alone() else { return };
    if !cfg!(target_arch = "x86_64") {
        return println!("SKIPPED: the program makes code for x86-64 only");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = compile(directory.path(), "profiled", FRAMES) else { return };
    let profile = profile(directory.path(), &[program.to_str().expect("text"), "300", "made"]);
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", profile.used["made"].0));
    let is_made = |sample: &Taken| sample.frames[0].module == "jit" && has(sample, "render(int) [tier 2]");
    assert!(profile.part("made", is_made) > 0.9, "{}", profile.odd("made", is_made));
}

#[test]
fn a_program_that_was_deleted_has_its_names() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = compile(directory.path(), "profiled", FRAMES) else { return };
    let profile = profile(directory.path(), &[program.to_str().expect("text"), "300", "unlink", "spin"]);
    assert!(!program.exists());
    assert!(profile.part("spin", is_chain) > 0.95, "{}", profile.odd("spin", is_chain));
    assert!(profile.part("spin", |sample| sample.frames[0].module == program.to_str().expect("text")) > 0.95);
}

#[test]
fn a_program_in_another_root_has_its_names() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("root");
    std::fs::create_dir_all(root.join("dev")).expect("directories");
    let flags: Vec<&str> = FRAMES.iter().copied().chain(["-static"]).collect();
    if compile(&root, "profiled", &flags).is_none() {
        return;
    }
    let profile = profile(directory.path(), &["chroot", root.to_str().expect("text"), "/profiled", "300", "spin"]);
    assert!(profile.part("spin", is_chain) > 0.95, "{}", profile.odd("spin", is_chain));
}

#[test]
fn processes_that_are_gone_at_once_are_known_by_their_files() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let profile = Profile::of(&run(directory.path(), &["--profile-alone"], &["sh", "-c", "for i in $(seq 400); do /bin/true; done"]));
    let ours: HashSet<TrackId> = profile.recording.tracks().iter().filter(|t| t.role == Role::Client).map(|t| t.track).collect();
    let frames = profile
        .samples
        .iter()
        .filter(|sample| ours.contains(&sample.track))
        .filter_map(|sample| sample.frames.iter().find(|f| f.is_user()));
    let (mut all, mut unknown) = (0, 0);
    frames.for_each(|frame| {
        all += 1;
        unknown += i32::from(frame.module == "unknown");
    });
    assert!(all >= 50, "{all} samples of the program");
    assert!(unknown * 20 <= all, "{unknown} of {all} are in no mapping");
}

#[test]
fn a_thread_that_two_recorders_record_has_one_track() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = compile(directory.path(), "profiled", FRAMES) else { return };
    let words = [program.to_str().expect("text"), "200", "spin", "zeros"];
    let profile = Profile::of(&run(directory.path(), &["--profile", "--method", "bpf"], &words));
    assert_eq!(profile.recording.meta().recorder, "bpf");
    let mut threads = HashSet::new();
    for track in profile.recording.tracks().iter().filter(|t| t.role == Role::Client && t.pid.is_some()) {
        // Numbers are not reused within a second.
        assert!(threads.insert((track.pid, track.tid)), "{track:?} has two");
    }
    let pid = profile.used["spin"].0;
    let of_program: Vec<_> = profile.recording.tracks().iter().filter(|t| t.pid == Some(pid)).collect();
    let [track] = of_program[..] else { panic!("{of_program:?}") };
    assert_eq!((track.role, track.name.as_str()), (Role::Client, "spin"));
    let marks = profile.recording.marks().expect("read");
    assert!(marks.iter().any(|mark| mark.track == track.track), "the other recorder records its life");
    assert!(profile.part("spin", is_chain) > 0.9, "{}", profile.odd("spin", is_chain));
    let of_reader: Vec<_> = profile.recording.tracks().iter().filter(|t| t.role == Role::Recorder && t.kind == TrackKind::Thread).collect();
    let mut threads: Vec<_> = of_reader.iter().map(|track| (track.pid, track.tid)).collect();
    threads.sort_unstable();
    threads.dedup();
    assert!(!threads.is_empty() && threads.len() == of_reader.len(), "a thread of the recorder has two tracks: {of_reader:?}");
    let mut lean = profile.recording.samples().expect("read").into_iter().filter(|sample| sample.profiled().is_none());
    assert!(lean.any(|sample| sample.track == Some(track.track)), "and takes its own samples");
}

#[test]
fn a_profile_of_everything_needs_no_command() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    for option in ["--profile", "--profile-alone"] {
        let of = directory.path().join(option);
        std::fs::create_dir(&of).expect("a directory");
        let profile = Profile::of(&run(&of, &[option, "--for", "300"], &[]));
        assert_eq!(profile.recording.meta().recorder, "profile");
        let wall_ns = number(&profile.recording, "profile.end_ns") - number(&profile.recording, "profile.start_ns");
        assert!(wall_ns >= 300_000_000, "{wall_ns}");
    }
}

#[test]
fn events_are_counted_where_they_happen() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = compile(directory.path(), "profiled", FRAMES) else { return };
    let options = ["--profile-alone", "--events", "page-faults,task-clock"];
    let words = [program.to_str().expect("text"), "500", "faults", "spin"];
    let profile = Profile::of(&run(directory.path(), &options, &words));
    let recording = &profile.recording;
    for (name, event) in [("event.0", "page-faults"), ("event.1", "task-clock")] {
        assert!(recording.meta().attributes.contains(&(name.to_owned(), event.to_owned())), "{:?}", recording.meta().attributes);
    }
    // A CPU's count since its previous sample belongs to the sample.
    let cpus: HashMap<TrackId, u32> =
        recording.tracks().iter().filter_map(|t| Some((t.track, t.name.strip_prefix("cpu")?.parse().ok()?))).collect();
    let mut counted: HashMap<(u32, i64), i64> = HashMap::new();
    let (mut last, mut all) = (HashMap::new(), 0);
    for counter in recording.counters(CounterName::Event0).expect("read") {
        let CounterOf::Track(track) = counter.of else { panic!("{counter:?}") };
        let before = last.insert(track, counter.value).unwrap_or(0);
        assert!(counter.value >= before, "{counter:?} after {before}");
        counted.insert((cpus[&track], counter.at.ns()), counter.value - before);
        all += counter.value - before;
    }
    let samples = recording.samples().expect("read");
    let start_ns = number(recording, "profile.start_ns");
    assert!(samples.iter().all(|sample| sample.at.ns() >= start_ns), "a sample is from before the beginning");
    let of_mode = |mode: &str| {
        let pid = profile.used[mode].0;
        let of: HashSet<TrackId> = recording.tracks().iter().filter(|t| t.pid == Some(pid)).map(|t| t.track).collect();
        let of_mode: Vec<_> = samples.iter().filter(|sample| sample.track.is_some_and(|track| of.contains(&track))).collect();
        let events: i64 = of_mode.iter().map(|sample| counted[&(sample.cpu, sample.at.ns())]).sum();
        (events, events as f64 / of_mode.len() as f64)
    };
    // One program takes faults as fast as it can for half a second, the other none; some samples include faults of
    // whatever had the CPU before.
    let ((faults, a_sample), (_, of_spin)) = (of_mode("faults"), of_mode("spin"));
    assert!(faults > 10_000 && faults <= all && a_sample > 4.0 * of_spin, "{faults} of {all}, {a_sample} a sample, {of_spin} of the other");
    let clock: i64 = recording.counters(CounterName::Event1).expect("read").iter().map(|counter| counter.value).max().expect("counted");
    let wall_ns = number(recording, "profile.end_ns") - number(recording, "profile.start_ns");
    assert!((wall_ns as f64 * 0.8..wall_ns as f64 * 1.2).contains(&(clock as f64)), "{clock} ns of {wall_ns} on one processor");
}

#[test]
fn a_command_that_ends_at_once_is_profiled() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let profile = Profile::of(&run(directory.path(), &["--profile-alone"], &["true"]));
    assert!(profile.recording.meta().end.is_some());
}

#[test]
fn who_may_not_count_events_beside_another_recorder_learns_which_right_is_missing() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    // A process without rights cannot write into root's directory.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).expect("opened to all");
    let script = "import os, sys; os.setgid(65534); os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])";
    let runner = directory.path().join("runner");
    std::fs::copy(crate::common::runner(), &runner).expect("copied");
    let mut command = Command::new(PYTHON);
    command.args(["-c", script]).arg(&runner).arg("-o").arg(directory.path().join("no.thw")).args([
        "--profile",
        "--events",
        "instructions",
        "--",
        "true",
    ]);
    let output = command.output_in_time().expect("python");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("CAP_PERFMON"), "{said}");
    assert!(!directory.path().join("no.thw").exists());
}

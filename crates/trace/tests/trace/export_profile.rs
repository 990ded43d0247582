//! Profiles in other profilers' formats, read back by third-party readers where available.

use crate::bounded::Bounded;
use crate::common::meta;
use crate::export::python;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_trace::*;

/// A profile of two programs: 5 samples of one stack, 2 of another, 1 of an unknown program.
fn source() -> MemorySource {
    let (clock, kernel) = ("monotonic:x".to_owned(), "k".to_owned());
    let mut events = vec![Event::Host(Host { host: HostId(0), name: "here".into(), node: "here".into(), clock, kernel, cpus: 2 })];
    let track = |n: u64, name: &str| {
        let (kind, role, id) = (TrackKind::Thread, Role::None, Some(n as u32 * 10));
        Event::Track(Track { track: TrackId::new(n).unwrap(), host: HostId(0), kind, role, pid: id, tid: id, name: name.into() })
    };
    events.extend([track(1, "gzip"), track(2, "cp;x/worker")]);
    let stack = |stack: u32, frames: &[&str]| Event::Stack(Stack { stack, frames: frames.iter().map(|f| (*f).to_owned()).collect() });
    events.push(stack(3, &["deflate+0x12 [/usr/lib/libz.so.1 ab01+0x9f]", "main+0x1 [/usr/bin/gzip cd02+0x5]"]));
    events.push(stack(4, &["copy_page+0x3 [kernel]", "ksys_write+0x1 [kernel]", "[/usr/bin/cp 77+0x5120]"]));
    let sample = |n: i64, track: Option<u64>, stack: u32| {
        let (at, track, stack) = (Time::from_monotonic_ns(n * 1_000_000), track.and_then(TrackId::new), Some(stack));
        Event::Sample(Sample {
            at,
            host: HostId(0),
            cpu: (n % 2) as u32,
            track,
            class: Sample::FIRST_PROFILE_CLASS,
            stack,
            weight_ns: 1_000_000,
        })
    };
    events.extend((0..5).map(|n| sample(n, Some(1), 3)));
    events.extend([sample(5, Some(2), 4), sample(6, Some(2), 4), sample(7, None, 4)]);
    // Another recorder's sample: without a stack.
    let Event::Sample(other) = sample(8, Some(1), 3) else { unreachable!() };
    events.push(Event::Sample(Sample { stack: None, ..other }));
    MemorySource::from_events(meta(), events)
}

#[test]
fn folded_stacks_have_every_sample_once() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("a.folded");
    export::folded::export(&source(), &out).unwrap();
    let expected = "cp:x;[cp];ksys_write_[k];copy_page_[k] 2\ngzip;main;deflate 5\nunknown;[cp];ksys_write_[k];copy_page_[k] 1\n";
    assert_eq!(std::fs::read_to_string(out).unwrap(), expected);
}

#[test]
fn speedscope_has_a_profile_for_each_program_with_all_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("a.json");
    export::speedscope::export(&source(), &out).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
    assert_eq!(document["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frame = |number: &serde_json::Value| document["shared"]["frames"][number.as_u64().unwrap() as usize]["name"].clone();
    let mut found = Vec::new();
    for profile in document["profiles"].as_array().unwrap() {
        assert_eq!((&profile["type"], &profile["unit"]), (&"sampled".into(), &"nanoseconds".into()));
        let weights: u64 = profile["weights"].as_array().unwrap().iter().map(|w| w.as_u64().unwrap()).sum();
        assert_eq!(profile["endValue"], weights);
        let stacks = profile["samples"].as_array().unwrap();
        assert_eq!(stacks.len(), profile["weights"].as_array().unwrap().len());
        let outermost_first: Vec<_> = stacks[0].as_array().unwrap().iter().map(frame).collect();
        found.push((profile["name"].as_str().unwrap().to_owned(), weights, outermost_first));
    }
    let of_cp = vec!["[cp]".into(), "ksys_write".into(), "copy_page".into()];
    let expected = [
        ("gzip".to_owned(), 5_000_000, vec!["main".into(), "deflate".into()]),
        ("cp;x".to_owned(), 2_000_000, of_cp.clone()),
        ("unknown".to_owned(), 1_000_000, of_cp),
    ];
    assert_eq!(found, expected);
}

#[test]
fn speedscope_has_stacks_in_the_order_of_time_and_the_same_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let written = |name: &str| {
        let out = directory.path().join(name);
        // Sorted by number, the order would differ.
        let stacks = [4, 4, 3, 4, 3, 3];
        let mut events: Vec<Event> = Vec::new();
        for stack in [3, 4] {
            events.push(Event::Stack(Stack { stack, frames: vec![format!("f{stack} [/bin/x]"), "main [/bin/x]".to_owned()] }));
        }
        let (kind, role, name) = (TrackKind::Thread, Role::None, "x".to_owned());
        let track = TrackId::new(1).unwrap();
        events.push(Event::Track(Track { track, host: HostId(0), kind, role, pid: Some(1), tid: Some(1), name }));
        for (n, stack) in stacks.into_iter().enumerate() {
            let (at, track, stack) = (Time::from_monotonic_ns(n as i64 * 1_000_000), Some(track), Some(stack));
            let class = Sample::FIRST_PROFILE_CLASS;
            events.push(Event::Sample(Sample { at, host: HostId(0), cpu: 0, track, class, stack, weight_ns: 1_000_000 }));
        }
        export::speedscope::export(&MemorySource::from_events(meta(), events), &out).unwrap();
        std::fs::read(out).unwrap()
    };
    let (first, second) = (written("a"), written("b"));
    assert_eq!(first, second);
    let document: serde_json::Value = serde_json::from_slice(&first).unwrap();
    let profile = &document["profiles"][0];
    let frame = |number: &serde_json::Value| document["shared"]["frames"][number.as_u64().unwrap() as usize]["name"].clone();
    let leaves: Vec<_> = profile["samples"].as_array().unwrap().iter().map(|stack| frame(&stack[1])).collect();
    assert_eq!(leaves, ["f4", "f3", "f4", "f3"]);
    assert_eq!(profile["weights"], serde_json::json!([2_000_000, 1_000_000, 1_000_000, 2_000_000]));
}

/// Returns Go's pprof if it comes with Go or is already built: building takes a minute.
fn built_pprof() -> Option<PathBuf> {
    let go = ["go", "/usr/local/go/bin/go"].into_iter().find(|go| Command::new(go).arg("version").output().is_ok())?;
    let said = String::from_utf8(Command::new(go).args(["env", "GOROOT", "GOCACHE"]).output_in_time().ok()?.stdout).ok()?;
    let mut folders = said.lines();
    let (root, cache) = (Path::new(folders.next()?), Path::new(folders.next()?));
    let below = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let tools = below(&root.join("pkg/tool")).map(|platform| platform.join("pprof"));
    let is_of_a_program = |path: &PathBuf| path.to_string_lossy().ends_with("-d");
    let cached =
        below(cache).filter(|path| path.is_dir()).flat_map(|path| below(&path)).filter(is_of_a_program).map(|path| path.join("pprof"));
    tools.chain(cached).find(|path| path.is_file())
}

#[test]
fn pprof_reads_every_stack_with_its_samples_and_time() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("a.pb.gz");
    export::pprof::export(&source(), &out).unwrap();
    let Some(pprof) = built_pprof() else { return println!("SKIPPED: no pprof is built here (go tool pprof builds it)") };
    let output = Command::new(pprof).arg("-raw").arg(&out).env("PPROF_TMPDIR", directory.path()).output_in_time().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    assert!(text.contains("samples/count cpu/nanoseconds"), "{text}");
    let squeezed: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let has = |part: &str| squeezed.iter().any(|line| line.contains(part));
    assert!(has("5 5000000: 1 2") && has("2 2000000: 3 4 5") && has("1 1000000: 3 4 5"), "{text}");
    assert!(has("program:[gzip]") && has("deflate") && has("/usr/lib/libz.so.1 ab01"), "{text}");
}

#[test]
fn perfetto_has_samples_with_their_stacks() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("a.pftrace");
    export::perfetto::export(&source(), &export::perfetto::CriticalPath::default(), &out).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perfetto_check.py");
    let output = Command::new(python).arg(script).arg(&out).output_in_time().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let samples = found["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 8, "{samples:?}");
    assert_eq!(samples[1], serde_json::json!([1_000_000, 1, 10, ["main in /usr/bin/gzip", "deflate in /usr/lib/libz.so.1"]]));
    assert_eq!(samples[7][2], 0, "nobody knows who it was");
}

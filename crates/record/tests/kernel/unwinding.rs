//! Promises of copied stacks: programs without frame pointers have complete stacks. Each test needs BPF; skipped,
//! with a message, without it.

use crate::alone;
use crate::common::{compile, run};
use crate::profiling::{Profile, Taken, number, symbols_of};
use std::path::{Path, PathBuf};

/// Flags that distributions compile with.
const BARE: &[&str] = &["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-Wl,--build-id"];

const DWARF: &[&str] = &["--profile-alone", "--dwarf", "16384"];

fn profile(directory: &Path, options: &[&str], words: &[&str]) -> Profile {
    let _ = std::fs::remove_dir_all(directory.join("run.thw"));
    Profile::of(&run(directory, options, words))
}

/// Whether a sample's innermost functions are these, each called by the next.
fn is_chain(sample: &Taken, chain: &[&str]) -> bool {
    sample.class == "profile.user" && symbols_of(sample).starts_with(chain)
}

/// Whether the stack reaches the start of its thread.
fn is_whole(sample: &Taken) -> bool {
    let outermost = sample.frames.iter().rev().take(2).filter_map(|frame| frame.symbol.as_deref());
    outermost.into_iter().any(|name| ["_start", "clone", "clone3", "__clone", "__clone3", "thread_start"].contains(&name))
}

fn is_truncated(sample: &Taken) -> bool {
    sample.frames.last().is_some_and(|frame| frame.module == "truncated")
}

fn size_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    entries.map(|entry| if entry.path().is_dir() { size_bytes(&entry.path()) } else { entry.metadata().map_or(0, |m| m.len()) }).sum()
}

fn chain(directory: &Path, more: &[&str]) -> Option<PathBuf> {
    let flags: Vec<&str> = BARE.iter().chain(more).copied().collect();
    compile(directory, "chain", &flags)
}

#[test]
fn a_chain_without_frame_pointers_is_broken_with_them_and_whole_with_unwind_tables() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = chain(directory.path(), &[]) else { return };
    let words = [program.to_str().expect("text"), "500", "calls"];
    let by_pointers = profile(directory.path(), &["--profile-alone"], &words);
    let expected = |sample: &Taken| is_chain(sample, &["third", "second", "first", "main"]);
    assert!(by_pointers.part("calls", expected) < 0.1, "{:?}", by_pointers.odd("calls", |sample| !expected(sample)));
    let by_tables = profile(directory.path(), DWARF, &words);
    let whole = |sample: &Taken| expected(sample) && is_whole(sample);
    assert!(by_tables.of_mode("calls").len() > 400);
    assert!(by_tables.part("calls", whole) >= 0.9, "{}", by_tables.odd("calls", whole));
    assert!(number(&by_tables.recording, "profile.stacks_whole") > 400);
    // The recording has stacks only as frames.
    let (bytes, samples) = (size_bytes(&directory.path().join("run.thw")), by_tables.samples.len() as u64);
    assert!(bytes < 200_000 + samples * 200, "{bytes} bytes of {samples} samples");
}

#[test]
fn a_stack_leads_through_a_shared_library_and_back() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let flags: Vec<&str> = BARE.iter().copied().chain(["-shared", "-fPIC"]).collect();
    let Some(library) = compile(directory.path(), "chain_library", &flags) else { return };
    let library = library.to_str().expect("text");
    let Some(program) = chain(directory.path(), &["-DLIBRARY", library]) else { return };
    let program = program.to_str().expect("text");
    let profile = profile(directory.path(), DWARF, &[program, "500", "library"]);
    let through = |sample: &Taken| {
        let modules: Vec<&str> = sample.frames.iter().take(3).map(|frame| frame.module.as_str()).collect();
        is_chain(sample, &["third", "chain_relay", "first", "main"]) && is_whole(sample) && modules == [program, library, program]
    };
    assert!(profile.part("library", through) >= 0.9, "{}", profile.odd("library", through));
}

#[test]
fn a_thread_s_stack_is_whole_where_the_thread_was_made() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = chain(directory.path(), &[]) else { return };
    let profile = profile(directory.path(), DWARF, &[program.to_str().expect("text"), "500", "thread"]);
    let expected = |sample: &Taken| is_chain(sample, &["third", "second", "first", "in_thread"]) && !is_truncated(sample);
    assert!(profile.part("thread", expected) >= 0.9, "{}", profile.odd("thread", expected));
}

#[test]
fn a_deleted_program_and_one_in_another_root_have_whole_stacks() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("root");
    std::fs::create_dir_all(root.join("dev")).expect("directories");
    let whole = |sample: &Taken| is_chain(sample, &["innermost", "between", "outermost", "spin", "main"]) && is_whole(sample);
    let flags: Vec<&str> = BARE.iter().copied().chain(["-fno-inline", "-static"]).collect();
    let Some(_) = compile(&root, "profiled", &flags) else { return };
    let elsewhere = profile(directory.path(), DWARF, &["chroot", root.to_str().expect("text"), "/profiled", "400", "spin"]);
    assert!(elsewhere.part("spin", whole) >= 0.9, "{}", elsewhere.odd("spin", whole));
    let Some(program) = compile(directory.path(), "profiled", &flags[..flags.len() - 1]) else { return };
    let deleted = profile(directory.path(), DWARF, &[program.to_str().expect("text"), "400", "unlink", "spin"]);
    assert!(!program.exists());
    assert!(deleted.part("spin", whole) >= 0.9, "{}", deleted.odd("spin", whole));
}

#[test]
fn the_program_s_part_is_whole_below_a_system_call_and_the_vdso() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let flags: Vec<&str> = BARE.iter().copied().chain(["-fno-inline"]).collect();
    let Some(program) = compile(directory.path(), "profiled", &flags) else { return };
    let profile = profile(directory.path(), DWARF, &[program.to_str().expect("text"), "400", "zeros", "clocks", "made"]);
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", profile.used["made"].0));
    let leads_to = |sample: &Taken, mode: &str| is_whole(sample) && symbols_of(sample).windows(2).any(|two| two == [mode, "main"]);
    let of_read = |sample: &Taken| leads_to(sample, "zeros");
    assert!(profile.part("zeros", of_read) >= 0.9, "{}", profile.odd("zeros", of_read));
    let of_clock = |sample: &Taken| leads_to(sample, "clocks");
    assert!(profile.part("clocks", of_clock) >= 0.9, "{}", profile.odd("clocks", of_clock));
    if cfg!(target_arch = "x86_64") {
        // Callers of run-time generated code are unknown: no frame is invented.
        let ends = |sample: &Taken| sample.frames.iter().map(|frame| frame.module.as_str()).eq(["jit", "truncated"]);
        assert!(profile.part("made", ends) >= 0.9, "{}", profile.odd("made", ends));
    }
}

#[test]
fn a_stack_that_is_longer_than_its_copy_keeps_its_innermost_frames() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = chain(directory.path(), &[]) else { return };
    let ran = run(directory.path(), &["--profile-alone", "--dwarf", "64"], &[program.to_str().expect("text"), "400", "calls"]);
    let said = ran.said();
    let profile = Profile::of(&ran);
    let cut = |sample: &Taken| is_chain(sample, &["third", "second"]) && is_truncated(sample) && sample.frames.len() == 3;
    assert!(profile.part("calls", cut) >= 0.9, "{}", profile.odd("calls", cut));
    assert!(said.contains("longer than the 64 bytes"), "{said}");
}

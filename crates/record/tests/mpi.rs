//! Recorded MPI jobs: both ends of every message and all ranks of every collective share a number, with both
//! implementations.

#[path = "../../../tests/bounded.rs"]
mod bounded;

use bounded::Bounded;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use thalweg_record::{Implementation, Method, Mpi, Options, Outcome, run};
use thalweg_trace::{Recording, RequestId, Source, Span, SpanKind};

/// An implementation, as installed by Debian.
struct Installed {
    implementation: Implementation,
    launcher: &'static str,
    arguments: &'static [&'static str],
    program: PathBuf,
}

/// Serialises the tests: a process records one thing at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the implementations found here, with the test's program compiled for each; prints which are missing.
fn installed(directory: &Path) -> Vec<Installed> {
    let mpi = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mpi");
    let built = Command::new("make").arg("-C").arg(&mpi).output_in_time();
    if !built.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: the library in mpi/ cannot be built here");
        return Vec::new();
    }
    let known: [(Implementation, &str, &str, &[&str]); 2] = [
        (Implementation::Mpich, "mpicc.mpich", "mpiexec.mpich", &[]),
        (Implementation::OpenMpi, "mpicc.openmpi", "mpiexec.openmpi", &["--oversubscribe", "--allow-run-as-root"]),
    ];
    let mut found = Vec::new();
    for (implementation, compiler, launcher, arguments) in known {
        let program = directory.join(format!("ranks-{}", implementation.name()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/ranks.c");
        let compiled = Command::new(compiler).args(["-w", "-o"]).arg(&program).arg(source).status_in_time();
        if compiled.is_ok_and(|status| status.success()) {
            found.push(Installed { implementation, launcher, arguments, program });
        } else {
            println!("SKIPPED: no {compiler}");
        }
    }
    found
}

/// Runs `ranks WHAT` with three ranks and records it.
fn recorded(installed: &Installed, what: &str, directory: &Path) -> (Outcome, Recording) {
    let mut command = vec![installed.launcher.into()];
    command.extend(installed.arguments.iter().map(Into::into));
    command.extend(["-n".into(), "3".into(), installed.program.clone().into(), what.into(), directory.join("file").into()]);
    let output = directory.join(format!("{what}-{}.thw", installed.implementation.name()));
    let options = Options { mpi: Some(Mpi::Auto), method: Method::Proc, ..Options::new(command, output.clone()) };
    let outcome = run(&options).expect("the command runs");
    let recording = Recording::open(&output).expect("the recording opens");
    (outcome, recording)
}

fn spans(recording: &Recording) -> Vec<Span> {
    let mut spans = Vec::new();
    for batch in recording.spans_backward() {
        let batch = batch.expect("the recording is whole");
        spans.extend((0..batch.len()).filter_map(|row| batch.row(row)));
    }
    spans
}

fn ranks(recording: &Recording) -> BTreeMap<u64, String> {
    let tracks = recording.tracks().iter().filter(|track| track.name.starts_with("rank "));
    tracks.map(|track| (track.track.number(), track.name.clone())).collect()
}

#[test]
fn both_ends_of_a_message_and_all_ranks_of_a_collective_have_one_number() {
    let (_alone, directory) = (alone(), tempfile::tempdir().expect("a directory"));
    for installed in installed(directory.path()) {
        let (outcome, recording) = recorded(&installed, "ring", directory.path());
        assert_eq!(outcome.exit, Some(thalweg_record::Exit::Code(0)), "{:?}", outcome.notes);
        let ranks = ranks(&recording);
        assert_eq!(ranks.values().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(["rank 0", "rank 1", "rank 2"]));
        let mut ends: BTreeMap<u64, (BTreeSet<u64>, BTreeSet<u64>)> = BTreeMap::new();
        let mut collectives: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for span in spans(&recording) {
            let Some(request) = span.request.filter(|request| request.is_common()) else { continue };
            match span.kind {
                SpanKind::MpiSend => drop(ends.entry(request.number()).or_default().0.insert(span.track.number())),
                SpanKind::MpiReceive => drop(ends.entry(request.number()).or_default().1.insert(span.track.number())),
                _ => drop(collectives.entry(request.number()).or_default().insert(span.track.number())),
            }
        }
        // Six messages of each of three ranks: one by Isend, one by Sendrecv, three by a persistent request, one more
        // by Isend.
        assert_eq!(ends.len(), 18, "{}", installed.launcher);
        for (senders, receivers) in ends.values() {
            assert_eq!((senders.len(), receivers.len()), (1, 1), "{}: a message without one of its ends", installed.launcher);
            assert_ne!(senders, receivers);
        }
        let sizes: Vec<usize> = collectives.values().map(BTreeSet::len).collect();
        // Init, split, broadcast and finalize of all ranks; the sum over each half.
        assert_eq!(sizes.iter().filter(|&&size| size == 3).count(), 4, "{sizes:?}");
        assert_eq!(sizes.iter().filter(|&&size| size < 3).count(), 2, "{sizes:?}");
    }
}

#[test]
fn where_ranks_write_is_known_from_offsets_and_their_views() {
    let (_alone, directory) = (alone(), tempfile::tempdir().expect("a directory"));
    for installed in installed(directory.path()) {
        let (_, recording) = recorded(&installed, "together", directory.path());
        let views: BTreeMap<u64, &str> = recording
            .objects()
            .iter()
            .filter_map(|o| Some((o.object.number(), o.attributes.iter().find(|(name, _)| name == "view")?.1.as_str())))
            .collect();
        let ranks = ranks(&recording);
        let written: Vec<Span> = spans(&recording).into_iter().filter(|span| span.kind == SpanKind::MpiWrite).collect();
        assert_eq!(written.len(), 3);
        for span in written {
            let rank: u64 = ranks[&span.track.number()]["rank ".len()..].parse().expect("a number");
            assert_eq!((span.offset_bytes, span.size_bytes), (Some(rank * 4096), Some(8 << 20)), "{}", installed.launcher);
            let view = views[&span.object.expect("a file").number()];
            assert!(view.starts_with(&format!("{},", rank * 4096)) && view.contains(":0+4096,12288+4096,"), "{view:.80}");
            assert!(span.request.is_some_and(RequestId::is_common), "it is a collective");
        }
    }
}

#[test]
fn a_killed_rank_leaves_what_it_did_and_the_command_its_own_exit() {
    let (_alone, directory) = (alone(), tempfile::tempdir().expect("a directory"));
    for installed in installed(directory.path()) {
        let (outcome, recording) = recorded(&installed, "killed", directory.path());
        assert_ne!(outcome.exit, Some(thalweg_record::Exit::Code(0)));
        assert!(outcome.notes.iter().any(|note| note.contains("without MPI_Finalize")), "{:?}", outcome.notes);
        assert_eq!(ranks(&recording).len(), 3, "{:?}", outcome.notes);
        assert!(spans(&recording).iter().any(|span| span.kind == SpanKind::MpiOther));
        assert!(!outcome.path.join("mpi").exists(), "the ranks' own files are gone");
    }
}

#[test]
fn a_command_without_mpi_runs_all_the_same_and_it_is_said() {
    let (_alone, directory) = (alone(), tempfile::tempdir().expect("a directory"));
    let Some(installed) = installed(directory.path()).into_iter().next() else { return };
    let output = directory.path().join("true.thw");
    let mpi = Some(Mpi::Of(installed.implementation));
    let outcome = run(&Options { mpi, method: Method::Proc, ..Options::new(vec!["true".into()], output) }).expect("it runs");
    assert_eq!(outcome.exit, Some(thalweg_record::Exit::Code(0)));
    assert!(outcome.notes.iter().any(|note| note.starts_with("No rank was recorded")), "{:?}", outcome.notes);
    let unknown = Options { mpi: Some(Mpi::Auto), ..Options::new(vec!["true".into()], directory.path().join("other.thw")) };
    let error = run(&unknown).expect_err("nobody knows which MPI");
    assert!(error.to_string().contains("--mpi=mpich"), "{error}");
    assert!(!directory.path().join("other.thw").exists());
}

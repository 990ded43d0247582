//! Readers of bytes from anywhere, given bytes that are nearly right: captures, RPCs, events, recordings.
//!
//! **In:** a target, a seed, and the corpus (real captures and what is made of them). **Out:** nothing, or the case that made a
//! reader panic, take more memory than it may, or not come back. Cases are made by changing right ones a little ([`mutate`]),
//! from a seed, so that every one can be made again. It needs no special compiler: `make fuzz` runs it for minutes, and the tests
//! for seconds. What was found once is kept in `regressions/` and tried by every test run.

#![warn(unreachable_pub)]

pub mod memory;
pub mod mutate;
pub mod targets;

#[allow(dead_code, missing_docs)]
#[path = "../../crates/record/tests/record/capture/made.rs"]
pub mod made;

use mutate::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use targets::Target;

/// One case may hold so many bytes at once.
const MOST_MEMORY_BYTES: usize = 1 << 30;

/// One case may take so long. It bounds a hang, and is far above what any case needs.
const MOST_TIME: Duration = Duration::from_secs(60);

/// How a run went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Cases tried.
    pub cases: u64,
    /// The most memory that one took.
    pub peak_bytes: usize,
    /// What went wrong, if something did: a sentence, and where the case is kept.
    pub found: Option<String>,
}

/// The case at work, for the watch over time.
type Current = Arc<(AtomicU64, Mutex<Vec<u8>>)>;

/// Tries cases of a target until the time is over, or one goes wrong.
pub fn run(target: &dyn Target, seed: u64, time: Duration, found_in: &Path) -> Outcome {
    let begun = Instant::now();
    let mut outcome = Outcome::default();
    let corpus = target.corpus();
    let current = watched(target.name(), found_in);
    let mut case = seed;
    while begun.elapsed() < time {
        let mut random = Random::new(case);
        let bytes = mutate::mutated(&corpus, &mut random);
        outcome.cases += 1;
        if let Some(problem) = tried(target, &bytes, &current, &mut outcome.peak_bytes) {
            let kept = keep(target.name(), &bytes, found_in);
            outcome.found = Some(format!("{}: case {case}: {problem}; kept in {}", target.name(), kept.display()));
            break;
        }
        case = case.wrapping_add(1);
    }
    current.0.store(0, Ordering::SeqCst);
    outcome
}

/// Tries what was found before.
pub fn regressions(target: &dyn Target, directory: &Path) -> Outcome {
    let mut outcome = Outcome::default();
    let current: Current = Arc::default();
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path()).collect();
    files.sort();
    let ours = |path: &&PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{}-", target.name())));
    for path in files.iter().filter(ours) {
        let bytes = std::fs::read(path).expect("a committed case can be read");
        outcome.cases += 1;
        if let Some(problem) = tried(target, &bytes, &current, &mut outcome.peak_bytes) {
            outcome.found = Some(format!("{}: {problem}", path.display()));
            break;
        }
    }
    outcome
}

fn tried(target: &dyn Target, bytes: &[u8], current: &Current, peak_bytes: &mut usize) -> Option<String> {
    *current.1.lock().unwrap_or_else(PoisonError::into_inner) = bytes.to_vec();
    current.0.store(now_ms(), Ordering::SeqCst);
    let before = memory::begin();
    let ended = catch_unwind(AssertUnwindSafe(|| target.run(bytes)));
    let taken = memory::peak().saturating_sub(before);
    *peak_bytes = taken.max(*peak_bytes);
    match ended {
        Err(panic) => Some(format!("panicked: {}", text_of(panic.as_ref()))),
        Ok(Err(problem)) => Some(problem),
        Ok(Ok(())) if taken > MOST_MEMORY_BYTES => Some(format!("took {taken} bytes of memory")),
        Ok(Ok(())) => None,
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_else(|| "without a word".to_owned())
}

fn keep(name: &str, bytes: &[u8], directory: &Path) -> PathBuf {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    let path = directory.join(format!("{name}-{hash:016x}"));
    let written = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, bytes));
    if let Err(error) = written {
        eprintln!("{}: {error}", path.display());
    }
    path
}

/// Milliseconds since this process began to ask.
fn now_ms() -> u64 {
    use std::sync::OnceLock;
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

/// A thread that ends the process when a case does not come back. A case that hangs cannot be stopped in any other way.
fn watched(name: &'static str, found_in: &Path) -> Current {
    let current: Current = Arc::default();
    let (watched, found_in) = (Arc::downgrade(&current), found_in.to_owned());
    std::thread::spawn(move || {
        while let Some(current) = watched.upgrade() {
            let begun = current.0.load(Ordering::SeqCst);
            if begun != 0 && now_ms().saturating_sub(begun) > MOST_TIME.as_millis() as u64 {
                let bytes = current.1.lock().unwrap_or_else(PoisonError::into_inner).clone();
                eprintln!("{name}: a case does not come back; kept in {}", keep(name, &bytes, &found_in).display());
                std::process::abort();
            }
            drop(current);
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    current
}

//! The tuner's thread: polls a controller ten times a second, and applies the changes the rules return.
//!
//! Tuning is optional for the data path: if it fails, bytes keep moving as before. It has its own thread rather than using a copy's tick,
//! so that a copy, a tree's copy and a mount share one implementation.

use super::observation::{Observation, Options, Step};
use super::tuner::Tuner;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_client::{Controller, Decision};
use thalweg_trace::Time;

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A running tuner; ends when dropped, or when its outcome is taken.
pub struct Tuning {
    thread: Option<JoinHandle<Outcome>>,
    ending: Arc<(Mutex<bool>, Condvar)>,
}

/// Result of a tuner.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Changes tried, in order.
    pub steps: Vec<Step>,
    /// Final values of the parameters it may change.
    pub values: BTreeMap<&'static str, u64>,
    /// Values worth remembering; see [`Tuner::found`].
    pub found: Option<BTreeMap<&'static str, u64>>,
}

/// Starts tuning. If no thread can be started, does nothing.
pub fn start(controller: Arc<dyn Controller>, options: Options) -> Tuning {
    let ending = Arc::new((Mutex::new(false), Condvar::new()));
    let until = Arc::clone(&ending);
    let thread = std::thread::Builder::new().name("tuner".to_owned()).spawn(move || tune(&*controller, options, &until)).ok();
    Tuning { thread, ending }
}

impl Tuning {
    /// Ends tuning and returns the result.
    pub fn end(mut self) -> Outcome {
        self.stop()
    }

    fn stop(&mut self) -> Outcome {
        *self.ending.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ending.1.notify_all();
        // A panic of the tuner must not fail the operation being tuned.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Tuning {
    fn drop(&mut self) {
        self.stop();
    }
}

fn tune(controller: &dyn Controller, options: Options, (ending, ended): &(Mutex<bool>, Condvar)) -> Outcome {
    let (begun, mut tuner) = (Instant::now(), Tuner::new(options));
    loop {
        let guard = ending.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = ended.wait_timeout_while(guard, POLL_INTERVAL, |ending| !*ending);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            tuner.finish(begun.elapsed());
            return Outcome { steps: tuner.steps().to_vec(), values: tuner.values().clone(), found: tuner.found() };
        }
        let known = tuner.steps().len();
        look(controller, &mut tuner, begun.elapsed());
        tuner.steps()[known..].iter().for_each(|step| controller.note(decision(step)));
    }
}

fn look(controller: &dyn Controller, tuner: &mut Tuner, now: Duration) {
    let parameters = controller.parameters();
    let seen = Observation {
        now,
        moved_bytes: controller.moved_bytes(),
        left_bytes: controller.left_bytes(),
        stages: controller.stages(),
        parameters: &parameters,
        memory_bytes: &|name, value| controller.memory_bytes(name, value),
        may_rest: controller.may_rest(),
    };
    for change in tuner.look(&seen) {
        // Names and ranges come from the controller; a refused change is dropped.
        let _ = controller.set(change.parameter, change.value);
    }
}

fn decision(step: &Step) -> Decision {
    Decision {
        at: Time::now(),
        parameter: step.parameter.to_owned(),
        from: step.from,
        to: step.to,
        before_bytes_per_s: step.before_bytes_per_s,
        after_bytes_per_s: step.after_bytes_per_s,
        kept: step.kept,
        why: step.why.clone(),
    }
}

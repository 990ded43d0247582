//! Requests to the metadata service when local space does not suffice, one at a time.

use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Finally, Mutex, MutexGuard};
use thalweg_wire::limits;
use thalweg_wire::protocol::io::{LotId, TargetId};
use thalweg_wire::{Error, Result};

/// Knows the other targets' shares, and the expired lots.
pub(crate) trait More: Send + Sync {
    /// Moves at least `bytes` of a lot's unused promise to the share at this target, before returning.
    ///
    /// # Errors
    /// When there is none, or the service does not answer.
    fn move_here(&self, lot: LotId, target: TargetId, bytes: u64) -> Result<()>;

    /// Waits for removals in progress; if there are none, removes expired lots with files at this target, until `bytes` are free
    /// there.
    ///
    /// # Errors
    /// When nothing was removed, or the service does not answer.
    fn reclaim(&self, target: TargetId, bytes: u64) -> Result<()>;
}

/// A question asked by one thread at a time. Others with the same question wait; a refusal may predate freed room, so after one,
/// a waiting thread asks again for all of them. A refused question is repeated only after [`limits::LOT_REST`], so that a program
/// that keeps writing into a full lot costs the service next to nothing.
#[derive(Default)]
pub(super) struct Question {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    is_asked: bool,
    /// Answers so far.
    answers: u64,
    /// Threads waiting for one.
    waiting: u64,
    last: Option<(Instant, Result<()>)>,
}

impl Question {
    /// Returns the number of answers so far.
    pub(super) fn answers(&self) -> u64 {
        self.state.lock().answers
    }

    /// Asks, or waits for another thread's answer.
    pub(super) fn ask(&self, question: impl FnOnce() -> Result<()>) -> Result<()> {
        self.put(self.state.lock(), question)
    }

    /// Asks, unless there were further answers since the caller counted `answers`: they may have brought enough.
    pub(super) fn ask_after(&self, answers: u64, question: impl FnOnce() -> Result<()>) -> Result<()> {
        let state = self.state.lock();
        if state.answers == answers { self.put(state, question) } else { Ok(()) }
    }

    fn put(&self, mut state: MutexGuard<'_, State>, question: impl FnOnce() -> Result<()>) -> Result<()> {
        // The answer to an earlier question does not cover later removals.
        let own = state.answers + if state.is_asked { 2 } else { 1 };
        while state.is_asked || state.answers >= own {
            let answers = state.answers;
            state.waiting += 1;
            while state.is_asked && state.answers == answers {
                self.answered.wait(&mut state);
            }
            state.waiting -= 1;
            match &state.last {
                Some((_, Err(refused))) if state.answers >= own => return Err(refused.clone()),
                Some((_, Err(_))) => {}
                _ => return Ok(()),
            }
        }
        state.is_asked = true;
        let rest = match &state.last {
            Some((at, Err(_))) => limits::LOT_REST.saturating_sub(at.elapsed()),
            _ => Duration::ZERO,
        };
        drop(state);
        let _answered = Finally(|| {
            let mut state = self.state.lock();
            state.is_asked = false;
            state.answers += 1;
            self.answered.notify_all();
        });
        std::thread::sleep(rest);
        let answer: Result<(), Error> = question();
        self.state.lock().last = Some((Instant::now(), answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;
    use thalweg_wire::ErrorKind;

    #[test]
    fn those_who_come_while_one_is_refused_ask_once_for_all_of_them_and_a_refusal_is_not_asked_for_again_at_once() {
        const OTHERS: u64 = 4;
        let (question, asked) = (Question::default(), AtomicU32::new(0));
        let (answer, wait) = mpsc::channel::<()>();
        let refuse = || {
            asked.fetch_add(1, Ordering::SeqCst);
            Err(Error::new(ErrorKind::Quota, "no more"))
        };
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| question.ask(move || wait.recv().map_or(Ok(()), |()| Err(Error::new(ErrorKind::Quota, "before")))));
            while !question.state.lock().is_asked {
                std::thread::yield_now();
            }
            let others: Vec<_> = (0..OTHERS).map(|_| scope.spawn(|| question.ask(refuse))).collect();
            while question.state.lock().waiting < OTHERS {
                std::thread::yield_now();
            }
            answer.send(()).unwrap();
            assert!(first.join().unwrap().is_err_and(|e| e.message() == "before"));
            assert!(others.into_iter().all(|other| other.join().unwrap().is_err_and(|e| e.message() == "no more")));
        });
        assert_eq!(asked.load(Ordering::SeqCst), 1, "the first answer is older than what they know");
        question.ask(|| Ok(())).unwrap();
        assert!(begun.elapsed() >= 2 * limits::LOT_REST, "a refusal rests for a moment");
    }

    #[test]
    fn who_looked_before_another_was_answered_looks_again_and_does_not_ask() {
        let question = Question::default();
        let before = question.answers();
        question.ask(|| Ok(())).unwrap();
        question.ask_after(before, || panic!("what came may suffice")).unwrap();
        assert!(question.ask_after(question.answers(), || Err(Error::new(ErrorKind::Quota, "no more"))).is_err());
        question.ask_after(before, || panic!("nor where the last answer is a refusal")).unwrap();
    }
}

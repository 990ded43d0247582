//! What is asked of the metadata service when the space here does not suffice, and by one at a time.

use crate::error::{Error, Result};
use crate::limits;
use crate::protocol::io::{LotId, TargetId};
use crate::sync::{Condvar, Finally, Mutex, MutexGuard};
use std::time::Instant;

/// What knows the other targets' shares, and which lots are over.
pub(in crate::io) trait More: Send + Sync {
    /// Moves at least so much of what others have not used of a lot to the share at this target: it was kept here when this returns.
    ///
    /// # Errors
    /// When there is none, or the service does not answer.
    fn move_here(&self, lot: LotId, target: TargetId, bytes: u64) -> Result<()>;

    /// Removes lots that are over and have files at this target, until so much is free there.
    ///
    /// # Errors
    /// When nothing was removed, or the service does not answer.
    fn reclaim(&self, target: TargetId, bytes: u64) -> Result<()>;
}

/// A question that one asks at a time: others who have it wait for that answer. One that was refused is not put again at once, so that a
/// program that goes on writing into a full lot costs the service nothing.
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
    last: Option<(Instant, Result<()>)>,
}

impl Question {
    /// How many answers there were so far.
    pub(super) fn answers(&self) -> u64 {
        self.state.lock().answers
    }

    /// Asks, or waits for the answer that another gets.
    pub(super) fn ask(&self, question: impl FnOnce() -> Result<()>) -> Result<()> {
        self.put(self.state.lock(), question)
    }

    /// The same for one who looked when there were so many answers and found too little: where another answer has come since, what it brought may
    /// suffice, and nothing is asked.
    pub(super) fn ask_after(&self, answers: u64, question: impl FnOnce() -> Result<()>) -> Result<()> {
        let state = self.state.lock();
        if state.answers == answers { self.put(state, question) } else { Ok(()) }
    }

    fn put(&self, mut state: MutexGuard<'_, State>, question: impl FnOnce() -> Result<()>) -> Result<()> {
        if state.is_asked {
            let answers = state.answers;
            while state.answers == answers {
                self.answered.wait(&mut state);
            }
            return state.last.as_ref().map_or(Ok(()), |(_, answer)| answer.clone());
        }
        if let Some((at, Err(refused))) = &state.last
            && at.elapsed() < limits::LOT_REST
        {
            return Err(refused.clone());
        }
        state.is_asked = true;
        state.last = None;
        drop(state);
        let _answered = Finally(|| {
            let mut state = self.state.lock();
            state.is_asked = false;
            state.answers += 1;
            self.answered.notify_all();
        });
        let answer: Result<(), Error> = question();
        self.state.lock().last = Some((Instant::now(), answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;

    #[test]
    fn those_who_come_while_one_asks_get_its_answer_and_a_refusal_is_not_asked_for_again_at_once() {
        let (question, asked) = (Question::default(), AtomicU32::new(0));
        let (answer, wait) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let first = scope.spawn({
                let (question, asked) = (&question, &asked);
                move || {
                    question.ask(|| {
                        asked.fetch_add(1, Ordering::SeqCst);
                        wait.recv().unwrap();
                        Err(Error::new(ErrorKind::Quota, "no more"))
                    })
                }
            });
            while asked.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let others: Vec<_> = (0..4).map(|_| scope.spawn(|| question.ask(|| panic!("it is asked already")))).collect();
            answer.send(()).unwrap();
            assert!(first.join().unwrap().is_err());
            assert!(others.into_iter().all(|other| other.join().unwrap().is_err()));
        });
        assert!(question.ask(|| Ok(())).is_err(), "it was refused a moment ago");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
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

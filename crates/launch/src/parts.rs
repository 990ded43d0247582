//! All parts of a job, as the job sees them: started, spoken to, and stopped.
//!
//! Everything that happens comes through one channel: words of parts, their ends, signals, the end of a child. So a wait for one thing
//! hears of all others.

use crate::child;
use crate::error::{LaunchError, Result};
use crate::starter::Starter;
use crate::words::{ToJob, ToPart, heard, say};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The words by which this command is a part.
const PART: &[&str] = &["launch", "--part"];
/// Lines of a part's standard error that an error may quote.
const TAIL_LINES: usize = 3;
/// How long a starter may take to end once its part has.
const ENDING: Duration = Duration::from_secs(10);

/// How long what an ended starter wrote may take to be read.
const REMARKING: Duration = Duration::from_secs(1);

/// How long one may that has never said a word.
const UNHEARD: Duration = Duration::from_secs(1);

/// What happens to a job.
pub(crate) enum Event {
    /// A part says something.
    Said(usize, ToJob),
    /// A part says what is no word.
    Strange(usize, LaunchError),
    /// A part says nothing more.
    Silent(usize),
    /// A signal came.
    Signal(i32),
    /// The child that is waited for has ended.
    ChildEnded,
}

/// What a part writes to its standard error: kept while it starts, noted once it serves.
struct Remarks {
    last: Mutex<VecDeque<String>>,
    is_live: AtomicBool,
}

struct One {
    host: String,
    starter: Starter,
    process: Child,
    input: Option<ChildStdin>,
    remarks: Arc<Remarks>,
    /// Disconnected once its standard error has been read to the end.
    remarked: Receiver<()>,
    /// It has said something: there is somebody who can be asked to stop.
    is_there: bool,
    is_gone: bool,
}

/// See the module.
pub(crate) struct Parts {
    all: Vec<One>,
    events: Receiver<Event>,
    send: Sender<Event>,
    note: fn(&str),
    wait: Duration,
}

impl Parts {
    /// None yet. `wait`: how long they may take to start.
    pub(crate) fn new(note: fn(&str), wait: Duration) -> Parts {
        let (send, events) = channel();
        Parts { all: Vec::new(), events, send, note, wait }
    }

    /// Where events of others go.
    pub(crate) fn sender(&self) -> Sender<Event> {
        self.send.clone()
    }

    /// Starts one on a host.
    pub(crate) fn start(&mut self, host: &str, starter: &Starter, program: &Path) -> Result<()> {
        let mut command = starter.command(host, program, PART);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |e: std::io::Error| LaunchError::failed(format!("host `{host}`: {} cannot be started: {e}", shown(starter)));
        let mut process = child::spawn(command, true).map_err(failed)?;
        let index = self.all.len();
        let (input, output, errors) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let remarks = Arc::new(Remarks { last: Mutex::default(), is_live: AtomicBool::new(false) });
        if let Some(output) = output {
            let send = self.send.clone();
            std::thread::spawn(move || hear(index, output, &send));
        }
        let (reading, remarked) = channel();
        if let Some(errors) = errors {
            let (remarks, note, host) = (Arc::clone(&remarks), self.note, host.to_owned());
            std::thread::spawn(move || {
                let _reading: Sender<()> = reading;
                keep(errors, &remarks, note, &host);
            });
        }
        let (host, starter) = (host.to_owned(), starter.clone());
        self.all.push(One { host, starter, process, input, remarks, remarked, is_there: false, is_gone: false });
        Ok(())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The host of one.
    pub(crate) fn host(&self, index: usize) -> &str {
        &self.all[index].host
    }

    /// Says something to one. A part that is gone is noticed by its silence.
    pub(crate) fn say(&mut self, index: usize, word: &ToPart) {
        if let Some(input) = &mut self.all[index].input
            && say(input, word).is_err()
        {
            self.all[index].input = None;
        }
    }

    /// Whether what they write to standard error is noted at once from now on.
    pub(crate) fn note_remarks(&self, notes: bool) {
        self.all.iter().for_each(|one| one.remarks.is_live.store(notes, Ordering::Relaxed));
    }

    /// The next event, or `None` when there is none until then. That a part is gone is said once.
    pub(crate) fn next(&mut self, until: Option<Instant>) -> Option<Event> {
        loop {
            let event = match until {
                None => self.events.recv().ok()?,
                Some(until) => match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(event) => event,
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
                },
            };
            if let Event::Said(index, _) = &event {
                self.all[*index].is_there = true;
            }
            let gone = match &event {
                Event::Silent(index) | Event::Strange(index, _) | Event::Said(index, ToJob::Failed { .. }) => *index,
                _ => return Some(event),
            };
            if !std::mem::replace(&mut self.all[gone].is_gone, true) {
                return Some(event);
            }
        }
    }

    /// Whether one has ended, as far as is known.
    pub(crate) fn is_gone(&self, index: usize) -> bool {
        self.all[index].is_gone
    }

    /// An answer of each of these, in their order; within the time that parts have to start.
    ///
    /// # Errors
    /// The first that cannot, ends, or does not answer; a signal.
    pub(crate) fn answers<T>(&mut self, whom: &[usize], take: impl Fn(ToJob) -> Option<T>) -> Result<Vec<T>> {
        let until = Instant::now() + self.wait;
        let mut answers: Vec<Option<T>> = whom.iter().map(|_| None).collect();
        while let Some(place) = answers.iter().position(Option::is_none) {
            let waited_for = whom[place];
            if self.all[waited_for].is_gone {
                return Err(self.ended(waited_for));
            }
            match self.next(Some(until)) {
                None => return Err(self.late(whom, &answers)),
                Some(Event::Signal(signal)) => {
                    return Err(LaunchError::Interrupted(format!("signal {signal} before the program was started")));
                }
                Some(Event::ChildEnded) => {}
                Some(Event::Silent(index)) => return Err(self.ended(index)),
                Some(Event::Strange(index, error)) => return Err(LaunchError::failed(format!("host `{}`: {error}", self.host(index)))),
                Some(Event::Said(index, ToJob::Failed { reason })) => {
                    return Err(LaunchError::failed(format!("host `{}`: {reason}", self.host(index))));
                }
                Some(Event::Said(index, word)) => {
                    if let Some(at) = whom.iter().position(|i| *i == index) {
                        answers[at] = take(word).or(answers[at].take());
                    }
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Why one has ended without a word.
    fn ended(&mut self, index: usize) -> LaunchError {
        let one = &mut self.all[index];
        one.input = None;
        let status =
            ended_within(&mut one.process, ENDING).map_or_else(|| "does not end".to_owned(), |status| format!("ended with {status}"));
        // What it wrote last may still be in the pipe, and somebody else may hold the other end.
        let _ = one.remarked.recv_timeout(REMARKING);
        let last = one.remarks.last.lock().iter().cloned().collect::<Vec<_>>().join("; ");
        let said = if last.is_empty() { String::new() } else { format!(" ({last})") };
        LaunchError::failed(format!(
            "host `{}`: no server was started there: {} {status}{said}: expected it to run `thalweg {PART}`; try `{} {} true`, and \
             --program if thalweg is elsewhere there",
            one.host,
            shown(&one.starter),
            one.starter.name(),
            one.host,
            PART = PART.join(" "),
        ))
    }

    fn late<T>(&self, whom: &[usize], answers: &[Option<T>]) -> LaunchError {
        let missing: Vec<usize> = whom.iter().zip(answers).filter(|(_, answer)| answer.is_none()).map(|(index, _)| *index).collect();
        let first = &self.all[missing[0]];
        let others = if missing.len() > 1 { format!(" (and {} others)", missing.len() - 1) } else { String::new() };
        LaunchError::failed(format!(
            "host `{}`{others} does not serve after {} s, started by {}: expected it to within --wait; is it up, and does it let you in? --wait 5m waits longer",
            first.host,
            self.wait.as_secs_f64(),
            shown(&first.starter)
        ))
    }

    /// Stops them: the first, which serves names, before the others. What each failed at is noted. Nothing of them runs afterwards.
    ///
    /// # Errors
    /// How many could not remove or close what they stored.
    pub(crate) fn stop(&mut self, removes: bool, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        let mut failed = Vec::new();
        // Some starters complain when the pipe to them is closed.
        self.note_remarks(false);
        let first = usize::from(!self.all.is_empty());
        for range in [0..first, first..self.all.len()] {
            range.clone().for_each(|index| self.say(index, &ToPart::Stop { removes }));
            let mut running: Vec<usize> = range.filter(|index| self.all[*index].is_there && !self.all[*index].is_gone).collect();
            while !running.is_empty() {
                let done = match self.next(Some(until)) {
                    None => break,
                    Some(Event::Said(index, ToJob::Stopped)) => index,
                    Some(Event::Said(index, ToJob::Failed { reason })) => {
                        failed.push(format!("host `{}`: {reason}", self.host(index)));
                        index
                    }
                    Some(Event::Silent(index) | Event::Strange(index, _)) => index,
                    // It is on its way already.
                    Some(Event::Said(..) | Event::Signal(_) | Event::ChildEnded) => continue,
                };
                running.retain(|index| *index != done);
            }
            failed.extend(running.iter().map(|index| format!("host `{}`: its servers did not stop", self.host(*index))));
        }
        self.end();
        failed.iter().for_each(|problem| (self.note)(problem));
        if failed.is_empty() { Ok(()) } else { Err(LaunchError::failed(format!("{} of {} hosts", failed.len(), self.all.len()))) }
    }
}

impl Parts {
    /// Closes all pipes, and ends what does not end by that. Who has said nothing yet has nothing to put in order.
    fn end(&mut self) {
        self.all.iter_mut().for_each(|one| one.input = None);
        let begun = Instant::now();
        for one in &mut self.all {
            let limit = if one.is_there { ENDING } else { UNHEARD };
            let _ = ended_within(&mut one.process, limit.saturating_sub(begun.elapsed()));
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.end();
    }
}

fn shown(starter: &Starter) -> String {
    if *starter == Starter::Local { "its process".to_owned() } else { format!("`{}`", starter.name()) }
}

/// How a starter ended; it is killed, with all that it started here, if it does not.
fn ended_within(process: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let begun = Instant::now();
    loop {
        match process.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if begun.elapsed() < limit => std::thread::sleep(Duration::from_millis(2)),
            _ => break,
        }
    }
    if let Some(group) = Pid::from_raw(process.id() as i32) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = process.wait();
    None
}

fn hear(index: usize, from: impl Read, send: &Sender<Event>) {
    let mut from = BufReader::new(from);
    loop {
        let event = match heard(&mut from) {
            Ok(Some(word)) => Event::Said(index, word),
            Ok(None) => Event::Silent(index),
            Err(error) => Event::Strange(index, error),
        };
        let goes_on = matches!(event, Event::Said(..));
        if send.send(event).is_err() || !goes_on {
            return;
        }
    }
}

fn keep(from: impl Read, remarks: &Remarks, note: fn(&str), host: &str) {
    for line in BufReader::new(from).split(b'\n').map_while(std::result::Result::ok) {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if remarks.is_live.load(Ordering::Relaxed) {
            note(&format!("host `{host}`: {line}"));
        }
        let mut last = remarks.last.lock();
        last.push_back(line);
        if last.len() > TAIL_LINES {
            last.pop_front();
        }
    }
}

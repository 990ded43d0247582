//! All parts of a job, as the job sees them: started, sent messages, stopped.
//!
//! All events arrive on one channel: messages of parts, their ends, signals, the end of a child. So waiting for one event handles all
//! others.

use crate::child;
use crate::error::{LaunchError, Result};
use crate::messages::{ToJob, ToPart, read_message, write_message};
use crate::starter::Starter;
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

/// The arguments that run this command as a part.
const PART: &[&str] = &["launch", "--part"];
/// Bound: lines of a part's standard error that an error may quote.
const TAIL_LINES: usize = 3;
/// Timeout for a starter to end after its part.
const ENDING: Duration = Duration::from_secs(10);

/// Timeout for reading the output of an ended starter.
const REMARKING: Duration = Duration::from_secs(1);

/// Timeout for a starter whose part has never sent a message.
const UNHEARD: Duration = Duration::from_secs(1);

/// An event of a job.
pub(crate) enum Event {
    /// A message from a part.
    Message(usize, ToJob),
    /// A part sent an invalid message.
    Malformed(usize, LaunchError),
    /// A part closed its output.
    Closed(usize),
    /// A signal arrived.
    Signal(i32),
    /// The child being waited for has ended.
    ChildEnded,
}

/// The standard error of a part: kept while it starts, passed on as notes once it serves.
struct Remarks {
    last: Mutex<VecDeque<String>>,
    is_live: AtomicBool,
}

struct PartProcess {
    host: String,
    starter: Starter,
    process: Child,
    input: Option<ChildStdin>,
    remarks: Arc<Remarks>,
    /// Disconnected once its standard error has been read to the end.
    remarked: Receiver<()>,
    /// It has sent a message, so it can be asked to stop.
    is_there: bool,
    is_gone: bool,
}

/// The parts of a job and the channel of its events.
pub(crate) struct Parts {
    all: Vec<PartProcess>,
    events: Receiver<Event>,
    send: Sender<Event>,
    note: fn(&str),
    wait: Duration,
}

impl Parts {
    /// Creates an empty set. `wait`: the timeout for parts to start.
    pub(crate) fn new(note: fn(&str), wait: Duration) -> Parts {
        let (send, events) = channel();
        Parts { all: Vec::new(), events, send, note, wait }
    }

    /// Returns a sender for events from other sources.
    pub(crate) fn sender(&self) -> Sender<Event> {
        self.send.clone()
    }

    /// Starts a part on a host.
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
        self.all.push(PartProcess { host, starter, process, input, remarks, remarked, is_there: false, is_gone: false });
        Ok(())
    }

    /// Returns the number of parts.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns a part's host.
    pub(crate) fn host(&self, index: usize) -> &str {
        &self.all[index].host
    }

    /// Sends a message to a part. A part that has ended is detected by its closed output.
    pub(crate) fn send(&mut self, index: usize, word: &ToPart) {
        if let Some(input) = &mut self.all[index].input
            && write_message(input, word).is_err()
        {
            self.all[index].input = None;
        }
    }

    /// Sets whether the parts' standard error is passed on as notes from now on.
    pub(crate) fn note_remarks(&self, notes: bool) {
        self.all.iter().for_each(|one| one.remarks.is_live.store(notes, Ordering::Relaxed));
    }

    /// Returns the next event, or `None` at the deadline. The end of a part is reported once.
    pub(crate) fn next(&mut self, until: Option<Instant>) -> Option<Event> {
        loop {
            let event = match until {
                None => self.events.recv().ok()?,
                Some(until) => match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(event) => event,
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
                },
            };
            if let Event::Message(index, _) = &event {
                self.all[*index].is_there = true;
            }
            let gone = match &event {
                Event::Closed(index) | Event::Malformed(index, _) | Event::Message(index, ToJob::Failed { .. }) => *index,
                _ => return Some(event),
            };
            if !std::mem::replace(&mut self.all[gone].is_gone, true) {
                return Some(event);
            }
        }
    }

    /// Returns whether a part is known to have ended.
    pub(crate) fn is_gone(&self, index: usize) -> bool {
        self.all[index].is_gone
    }

    /// Waits for an answer from each of these parts, within the timeout for starting; returns the answers in order.
    ///
    /// # Errors
    /// The first part that fails, ends or does not answer in time; or a signal.
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
                Some(Event::Closed(index)) => return Err(self.ended(index)),
                Some(Event::Malformed(index, error)) => return Err(LaunchError::failed(format!("host `{}`: {error}", self.host(index)))),
                Some(Event::Message(index, ToJob::Failed { reason })) => {
                    return Err(LaunchError::failed(format!("host `{}`: {reason}", self.host(index))));
                }
                Some(Event::Message(index, word)) => {
                    if let Some(at) = whom.iter().position(|i| *i == index) {
                        answers[at] = take(word).or(answers[at].take());
                    }
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Describes how a part ended that sent no message.
    fn ended(&mut self, index: usize) -> LaunchError {
        let one = &mut self.all[index];
        one.input = None;
        let status =
            ended_within(&mut one.process, ENDING).map_or_else(|| "is still running".to_owned(), |status| format!("ended with {status}"));
        // Its last output may still be in the pipe; another process may hold the other end.
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
            "host `{}`{others} does not serve after {} s, started by {}: check that it is up and that you can log in there, or wait longer with --wait 5m",
            first.host,
            self.wait.as_secs_f64(),
            shown(&first.starter)
        ))
    }

    /// Stops the parts, the first one, which runs the metadata service, before the others. Failures are reported as notes. No process is
    /// left afterwards.
    ///
    /// # Errors
    /// Some hosts could not remove or close their data; gives their number.
    pub(crate) fn stop(&mut self, removes: bool, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        let mut failed = Vec::new();
        // Some starters print errors when their pipe is closed.
        self.note_remarks(false);
        let first = usize::from(!self.all.is_empty());
        for range in [0..first, first..self.all.len()] {
            range.clone().for_each(|index| self.send(index, &ToPart::Stop { removes }));
            let mut running: Vec<usize> = range.filter(|index| self.all[*index].is_there && !self.all[*index].is_gone).collect();
            while !running.is_empty() {
                let done = match self.next(Some(until)) {
                    None => break,
                    Some(Event::Message(index, ToJob::Stopped)) => index,
                    Some(Event::Message(index, ToJob::Failed { reason })) => {
                        failed.push(format!("host `{}`: {reason}", self.host(index)));
                        index
                    }
                    Some(Event::Closed(index) | Event::Malformed(index, _)) => index,
                    // The part is already stopping.
                    Some(Event::Message(..) | Event::Signal(_) | Event::ChildEnded) => continue,
                };
                running.retain(|index| *index != done);
            }
            failed.extend(running.iter().map(|index| format!("host `{}`: its servers did not stop", self.host(*index))));
        }
        self.end();
        failed.iter().for_each(|problem| (self.note)(problem));
        if failed.is_empty() {
            Ok(())
        } else {
            Err(LaunchError::failed(format!("{} of {} hosts failed to stop cleanly", failed.len(), self.all.len())))
        }
    }
}

impl Parts {
    /// Closes all pipes, and kills starters that do not end. A part that has sent no message has nothing to clean up.
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

/// Waits for a starter to end; kills it and everything it started here at the limit.
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
        let event = match read_message(&mut from) {
            Ok(Some(word)) => Event::Message(index, word),
            Ok(None) => Event::Closed(index),
            Err(error) => Event::Malformed(index, error),
        };
        let continues = matches!(event, Event::Message(..));
        if send.send(event).is_err() || !continues {
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

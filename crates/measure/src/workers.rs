//! Workers: processes on other machines (or on this one) that carry out orders.
//!
//! A worker reads orders from its standard input and answers on its standard output, one line of JSON each, so it is reached by whatever
//! starts a command there: `ssh`, `ip netns exec`, `srun`. Each order has one answer, or the reason why there is none. What orders and
//! answers say is the caller's: this knows how workers are started, how they end, and what their silence means.
//!
//! An order goes to every worker before any answer is waited for, so that they work at the same time. Answers are read by a thread for
//! each, so that a silent worker is noticed and a person who wants to stop is heard.

use crate::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often a wait looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a process has to end by itself once no more orders can come: what it has mounted is flushed first, over slow links too.
const END_WITHIN: Duration = Duration::from_secs(120);
/// What is said of a worker whose process is gone.
const ENDED: &str = "its process has ended; what it wrote to standard error says why";

/// What a worker answers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply<A> {
    Done(A),
    Failed(String),
}

/// How workers are started.
#[derive(Clone, Debug)]
pub struct Start {
    /// The program and the words that make it a worker.
    pub words: Vec<String>,
    /// After so long without an answer a worker is given up.
    pub silence: Duration,
}

/// Where a worker runs.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name, for errors.
    pub name: String,
    /// The words that start a command there, `{node}` standing for the name; absent: on this machine.
    pub run_on: Option<String>,
}

/// One of them.
struct Worker {
    host: Host,
    /// It has ended, or was silent for too long: what it answers now would be to something else.
    is_lost: bool,
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<String>,
}

/// Workers that take orders `O` and give answers `A`.
pub struct Workers<'a, O, A> {
    workers: Vec<Worker>,
    start: Start,
    cancelled: &'a dyn Fn() -> bool,
    speaks: PhantomData<fn(O) -> A>,
}

/// The other end: reads orders until there are no more, does them, and answers. What goes wrong in an order is its answer.
///
/// # Errors
/// When answers cannot be written or orders not read.
pub fn serve<O: DeserializeOwned, A: Serialize, E: std::fmt::Display>(
    orders: impl BufRead,
    mut answers: impl Write,
    mut obey: impl FnMut(O) -> std::result::Result<A, E>,
) -> Result<()> {
    let pipe = Path::new("the pipe to a worker");
    for line in orders.lines() {
        let line = line.map_err(Error::file(pipe, "reading an order"))?;
        let reply = match serde_json::from_str::<O>(&line) {
            Ok(order) => obey(order).map_or_else(|error| Reply::Failed(error.to_string()), Reply::Done),
            Err(error) => Reply::Failed(format!("an order that is none ({error}): are all nodes' programs of one version?")),
        };
        let mut text = serde_json::to_string(&reply).expect("an answer always serialises");
        text.push('\n');
        answers.write_all(text.as_bytes()).and_then(|()| answers.flush()).map_err(Error::file(pipe, "answering"))?;
    }
    Ok(())
}

impl<'a, O: Serialize, A: DeserializeOwned> Workers<'a, O, A> {
    /// Starts one on each host.
    ///
    /// # Errors
    /// Which could not be started.
    pub fn start(start: Start, hosts: impl IntoIterator<Item = Host>, cancelled: &'a dyn Fn() -> bool) -> Result<Workers<'a, O, A>> {
        let mut started = Workers { workers: Vec::new(), start, cancelled, speaks: PhantomData };
        for host in hosts {
            let worker = start_one(&started.start, host)?;
            started.workers.push(worker);
        }
        Ok(started)
    }

    /// Starts those anew that have ended or were silent for too long; their places.
    ///
    /// # Errors
    /// One could not be started.
    pub fn revive(&mut self) -> Result<Vec<usize>> {
        let lost: Vec<usize> = (0..self.workers.len()).filter(|at| self.workers[*at].is_lost).collect();
        for &at in &lost {
            let worker = &mut self.workers[at];
            let _ = worker.child.kill();
            let _ = worker.child.wait();
            *worker = start_one(&self.start, worker.host.clone())?;
        }
        Ok(lost)
    }

    /// Gives one worker an order, and waits for its answer.
    ///
    /// # Errors
    /// The worker's, or that it is gone or silent.
    pub fn one(&mut self, at: usize, order: &O) -> Result<A> {
        self.send(at, order)?;
        self.receive(at)
    }

    /// Gives each worker its order, and then waits for all answers.
    ///
    /// # Errors
    /// The first worker's that failed; all answers have been waited for.
    pub fn each(&mut self, order: impl Fn(usize) -> O) -> Result<Vec<A>> {
        let sent: Vec<Result<()>> = (0..self.workers.len()).map(|at| self.send(at, &order(at))).collect();
        let answers: Vec<Result<A>> = sent.into_iter().enumerate().map(|(at, sent)| sent.and_then(|()| self.receive(at))).collect();
        answers.into_iter().collect()
    }

    fn send(&mut self, at: usize, order: &O) -> Result<()> {
        let worker = &mut self.workers[at];
        let mut line = serde_json::to_string(order).expect("an order always serialises");
        line.push('\n');
        match worker.orders.as_mut().map(|pipe| pipe.write_all(line.as_bytes()).and_then(|()| pipe.flush())) {
            Some(Ok(())) => Ok(()),
            _ => Err(worker.lost(ENDED)),
        }
    }

    fn receive(&mut self, at: usize) -> Result<A> {
        let begun = Instant::now();
        let worker = &mut self.workers[at];
        loop {
            match worker.answers.recv_timeout(LOOK_EVERY) {
                Ok(line) => {
                    return match serde_json::from_str(&line) {
                        Ok(Reply::Done(answer)) => Ok(answer),
                        Ok(Reply::Failed(problem)) => Err(Error::worker(&worker.host.name, problem)),
                        Err(e) => Err(Error::worker(&worker.host.name, format!("an answer that is none ({e}): {}", line.trim()))),
                    };
                }
                Err(RecvTimeoutError::Disconnected) => return Err(worker.lost(ENDED)),
                Err(RecvTimeoutError::Timeout) if (self.cancelled)() => return Err(Error::Stopped),
                Err(RecvTimeoutError::Timeout) if begun.elapsed() > self.start.silence => {
                    return Err(worker.lost(&format!("no answer for {} s", self.start.silence.as_secs())));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Worker {
    fn lost(&mut self, problem: &str) -> Error {
        self.is_lost = true;
        Error::worker(&self.host.name, problem)
    }
}

impl<O, A> Drop for Workers<'_, O, A> {
    fn drop(&mut self) {
        // With no more orders to come, a worker cleans up and ends.
        self.workers.iter_mut().for_each(|worker| worker.orders = None);
        let begun = Instant::now();
        for worker in &mut self.workers {
            // Its answers end when it does.
            while begun.elapsed() < END_WITHIN {
                match worker.answers.recv_timeout(LOOK_EVERY) {
                    Err(RecvTimeoutError::Disconnected) => break,
                    Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                }
            }
            if worker.child.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() >= END_WITHIN {
                let _ = worker.child.kill();
            }
            let _ = worker.child.wait();
        }
    }
}

fn start_one(start: &Start, host: Host) -> Result<Worker> {
    let prefix = host.run_on.iter().flat_map(|text| text.split_whitespace()).map(|word| word.replace("{node}", &host.name));
    let words: Vec<String> = prefix.chain(start.words.iter().cloned()).collect();
    let mut command = Command::new(&words[0]);
    // In a process group of its own: Ctrl-C is for us, and it ends when we have no more orders for it.
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let failed = |e: std::io::Error| Error::worker(&host.name, format!("cannot start `{}`: {e}", words.join(" ")));
    let mut child = command.spawn().map_err(failed)?;
    let orders = child.stdin.take();
    let (sender, answers) = channel();
    let output = child.stdout.take().ok_or_else(|| Error::worker(&host.name, "its output is not ours: a bug"))?;
    let thread = std::thread::Builder::new().name(format!("worker {}", host.name));
    let heard = thread.spawn(move || {
        for line in BufReader::new(output).lines().map_while(std::io::Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    heard.map_err(Error::file(Path::new("a thread for a worker"), "starting it"))?;
    Ok(Worker { host, is_lost: false, child, orders, answers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(script: &str) -> Result<Workers<'static, u32, u32>> {
        let words = ["sh", "-c", script].map(String::from).to_vec();
        Workers::start(Start { words, silence: Duration::from_millis(300) }, [Host { name: "a".into(), run_on: None }], &|| false)
    }

    #[test]
    fn an_order_has_one_answer_or_the_reason_why_there_is_none() {
        let mut answers = Vec::new();
        let halved = |n: u32| if n.is_multiple_of(2) { Ok(n / 2) } else { Err(format!("{n} is odd")) };
        serve("8\n7\nseven\n".as_bytes(), &mut answers, halved).unwrap();
        let text = String::from_utf8(answers).unwrap();
        assert!(text.starts_with("{\"done\":4}\n{\"failed\":\"7 is odd\"}\n{\"failed\":\"an order that is none ("), "{text}");
        let mut workers = worker(&format!("while read order; do echo '{}'; done", "{\"done\":4}")).unwrap();
        assert_eq!((workers.one(0, &8).unwrap(), workers.each(|_| 8).unwrap()), (4, vec![4]));
    }

    #[test]
    fn a_worker_that_ends_or_is_silent_is_named_and_started_anew() {
        let mut workers = worker("read order").unwrap();
        assert!(workers.one(0, &1).unwrap_err().to_string().starts_with("node a: its process has ended"));
        assert_eq!(workers.revive().unwrap(), [0]);
        let mut workers = worker("read order; read more").unwrap();
        assert_eq!(workers.one(0, &1).unwrap_err().to_string(), "node a: no answer for 0 s");
        let failed = worker("echo '{\"failed\":\"no disk\"}'; cat >/dev/null").unwrap().one(0, &1).unwrap_err();
        assert_eq!(failed.to_string(), "node a: no disk");
    }
}

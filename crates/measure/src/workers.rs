//! Workers: processes on other machines (or on this one) that carry out orders.
//!
//! A worker reads orders from its standard input and writes answers to its standard output, one line of JSON each, so any command that
//! starts a remote command can reach it: `ssh`, `ip netns exec`, `srun`. Each order has one answer, or an error. The caller defines orders
//! and answers; this module starts and ends workers, and handles timeouts.
//!
//! Orders are sent to all workers before any answer is awaited, so that they work concurrently. A thread for each worker reads its answers,
//! so that timeouts and requests to stop are noticed.

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

/// Interval at which a wait checks for a request to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time for a worker to end by itself after its last order: it may have to flush a mount over a slow link.
const END_WITHIN: Duration = Duration::from_secs(120);
/// The error of a worker whose process has ended.
const ENDED: &str = "its process has ended; see its standard error for the reason";

/// An answer of a worker.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply<A> {
    Done(A),
    Failed(String),
}

/// How to start workers.
#[derive(Clone, Debug)]
pub struct Start {
    /// The program, and the arguments that make it a worker.
    pub words: Vec<String>,
    /// Timeout for a worker's answer.
    pub silence: Duration,
}

/// The host of a worker.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name, for errors.
    pub name: String,
    /// Prefix that starts a command there, with `{node}` for the name; absent: this machine.
    pub run_on: Option<String>,
}

/// A worker.
struct Worker {
    host: Host,
    /// Whether it has ended or timed out: a late answer would be to an earlier order.
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

/// Runs the worker's side: reads orders until there are no more, executes them, and answers. An error of an order is its answer.
///
/// # Errors
/// Answers cannot be written, or orders not read.
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
            Err(error) => Reply::Failed(format!("invalid order ({error}): are all nodes' programs of the same version?")),
        };
        let mut text = serde_json::to_string(&reply).expect("an answer always serialises");
        text.push('\n');
        answers.write_all(text.as_bytes()).and_then(|()| answers.flush()).map_err(Error::file(pipe, "answering"))?;
    }
    Ok(())
}

impl<'a, O: Serialize, A: DeserializeOwned> Workers<'a, O, A> {
    /// Starts a worker on each host.
    ///
    /// # Errors
    /// A worker could not be started.
    pub fn start(start: Start, hosts: impl IntoIterator<Item = Host>, cancelled: &'a dyn Fn() -> bool) -> Result<Workers<'a, O, A>> {
        let mut started = Workers { workers: Vec::new(), start, cancelled, speaks: PhantomData };
        for host in hosts {
            let worker = start_one(&started.start, host)?;
            started.workers.push(worker);
        }
        Ok(started)
    }

    /// Restarts workers that have ended or timed out; returns their indexes.
    ///
    /// # Errors
    /// A worker could not be started.
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

    /// Sends an order to one worker, and waits for its answer.
    ///
    /// # Errors
    /// The worker's error, or it has ended or timed out.
    pub fn one(&mut self, at: usize, order: &O) -> Result<A> {
        self.send(at, order)?;
        self.receive(at)
    }

    /// Sends each worker its order, then waits for all answers.
    ///
    /// # Errors
    /// The error of the first worker that failed, after all answers.
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
                        Err(e) => Err(Error::worker(&worker.host.name, format!("invalid answer ({e}): {}", line.trim()))),
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
        // At the end of its orders, a worker cleans up and ends.
        self.workers.iter_mut().for_each(|worker| worker.orders = None);
        let begun = Instant::now();
        for worker in &mut self.workers {
            // The end of its answers is its end.
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
    // In its own process group: Ctrl-C is for this process, and the worker ends when there are no more orders.
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let failed = |e: std::io::Error| Error::worker(&host.name, format!("cannot start `{}`: {e}", words.join(" ")));
    let mut child = command.spawn().map_err(failed)?;
    let orders = child.stdin.take();
    let (sender, answers) = channel();
    let output = child.stdout.take().ok_or_else(|| Error::worker(&host.name, "its output is not piped: a bug"))?;
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
        assert!(text.starts_with("{\"done\":4}\n{\"failed\":\"7 is odd\"}\n{\"failed\":\"invalid order ("), "{text}");
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

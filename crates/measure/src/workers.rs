//! The processes on the nodes, and talking to all of them.
//!
//! An order goes to every node before any answer is waited for, so that they work at the same time. Answers are read by a thread for
//! each node, so that a silent one is noticed and a person who wants to stop is heard.

use crate::protocol::{Answer, Order};
use crate::{Error, Result};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often a wait looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a process has to end by itself once it is told nothing more: what it has mounted is flushed first, over slow links too.
const END_WITHIN: Duration = Duration::from_secs(120);

/// The words with which the process on a node is started.
pub const WORKER_WORDS: &[&str] = &["bench", "node"];

/// One node's process.
struct Node {
    name: String,
    run_on: Option<String>,
    /// It has ended, or was silent for too long: what it answers now would be to something else.
    is_lost: bool,
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<String>,
}

/// How the processes are started.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The `thalweg` of the nodes.
    pub program: &'a Path,
    /// Ten times this, and at least a minute, is how long a node may be silent.
    pub timeout_s: f64,
}

/// All of them.
pub struct Nodes<'a> {
    nodes: Vec<Node>,
    program: PathBuf,
    silence: Duration,
    cancelled: &'a dyn Fn() -> bool,
}

impl<'a> Nodes<'a> {
    /// Starts a process on each node: its name, and the words that start a command there, `{node}` standing for the name; none: it is
    /// this machine.
    ///
    /// # Errors
    /// Which could not be started.
    pub fn start<'n>(
        start: &Start<'_>,
        nodes: impl IntoIterator<Item = (&'n str, Option<&'n str>)>,
        cancelled: &'a dyn Fn() -> bool,
    ) -> Result<Nodes<'a>> {
        let silence = Duration::from_secs_f64((start.timeout_s * 10.0).max(60.0));
        let mut started = Nodes { nodes: Vec::new(), program: start.program.to_owned(), silence, cancelled };
        for (name, run_on) in nodes {
            started.nodes.push(start_one(start.program, name, run_on)?);
        }
        Ok(started)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Starts those anew that have ended or were silent for too long; which.
    ///
    /// # Errors
    /// One could not be started.
    pub fn revive(&mut self) -> Result<Vec<usize>> {
        let lost: Vec<usize> = (0..self.len()).filter(|node| self.nodes[*node].is_lost).collect();
        for &at in &lost {
            let node = &mut self.nodes[at];
            let _ = node.child.kill();
            let _ = node.child.wait();
            let (name, run_on) = (node.name.clone(), node.run_on.clone());
            self.nodes[at] = start_one(&self.program, &name, run_on.as_deref())?;
        }
        Ok(lost)
    }

    /// Gives one node an order, and waits for its answer.
    ///
    /// # Errors
    /// The node's, or that it is gone or silent.
    pub fn one(&mut self, node: usize, order: &Order) -> Result<Answer> {
        self.send(node, order)?;
        self.receive(node)
    }

    /// Gives each node its order, and then waits for all answers.
    ///
    /// # Errors
    /// The first node's that failed; all answers have been waited for.
    pub fn each(&mut self, order: impl Fn(usize) -> Order) -> Result<Vec<Answer>> {
        let sent: Vec<Result<()>> = (0..self.len()).map(|node| self.send(node, &order(node))).collect();
        let answers: Vec<Result<Answer>> =
            sent.into_iter().enumerate().map(|(node, sent)| sent.and_then(|()| self.receive(node))).collect();
        answers.into_iter().collect()
    }

    fn send(&mut self, node: usize, order: &Order) -> Result<()> {
        let node = &mut self.nodes[node];
        let mut line = serde_json::to_string(order).expect("an order always serialises");
        line.push('\n');
        let written = node.orders.as_mut().map(|pipe| pipe.write_all(line.as_bytes()).and_then(|()| pipe.flush()));
        match written {
            Some(Ok(())) => Ok(()),
            _ => {
                node.is_lost = true;
                Err(Error::node(&node.name, "its process has ended; what it wrote to standard error says why"))
            }
        }
    }

    fn receive(&mut self, node: usize) -> Result<Answer> {
        let begun = Instant::now();
        let node = &mut self.nodes[node];
        loop {
            match node.answers.recv_timeout(LOOK_EVERY) {
                Ok(line) => {
                    let answer = serde_json::from_str(&line);
                    return match answer.map_err(|e| Error::node(&node.name, format!("an answer that is none ({e}): {}", line.trim())))? {
                        Answer::Failed(problem) => Err(Error::node(&node.name, problem)),
                        answer => Ok(answer),
                    };
                }
                Err(RecvTimeoutError::Disconnected) => {
                    node.is_lost = true;
                    return Err(Error::node(&node.name, "its process has ended; what it wrote to standard error says why"));
                }
                Err(RecvTimeoutError::Timeout) if (self.cancelled)() => return Err(Error::Stopped),
                Err(RecvTimeoutError::Timeout) if begun.elapsed() > self.silence => {
                    node.is_lost = true;
                    return Err(Error::node(&node.name, format!("no answer for {} s", self.silence.as_secs())));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Drop for Nodes<'_> {
    fn drop(&mut self) {
        // Told nothing more, a process takes down what it has mounted, and ends.
        self.nodes.iter_mut().for_each(|node| node.orders = None);
        let begun = Instant::now();
        for node in &mut self.nodes {
            // Its answers end when it does.
            while begun.elapsed() < END_WITHIN {
                match node.answers.recv_timeout(LOOK_EVERY) {
                    Err(RecvTimeoutError::Disconnected) => break,
                    Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                }
            }
            if node.child.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() >= END_WITHIN {
                let _ = node.child.kill();
            }
            let _ = node.child.wait();
        }
    }
}

fn start_one(program: &Path, name: &str, run_on: Option<&str>) -> Result<Node> {
    let prefix: Vec<String> = run_on.iter().flat_map(|text| text.split_whitespace()).map(|word| word.replace("{node}", name)).collect();
    let program = program.to_string_lossy().into_owned();
    let words: Vec<String> = prefix.into_iter().chain([program]).chain(WORKER_WORDS.iter().map(|word| (*word).to_owned())).collect();
    let mut command = Command::new(&words[0]);
    // In a process group of its own: Ctrl-C is for us, and it ends when we have nothing more to tell it.
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let failed = |e: std::io::Error| Error::node(name, format!("cannot start `{}`: {e}", words.join(" ")));
    let mut child = command.spawn().map_err(failed)?;
    let orders = child.stdin.take();
    let (told, answers) = channel();
    let output = child.stdout.take().ok_or_else(|| Error::node(name, "its output is not ours: a bug"))?;
    let thread = std::thread::Builder::new().name(format!("node {name}"));
    let heard = thread.spawn(move || {
        for line in BufReader::new(output).lines().map_while(std::io::Result::ok) {
            if told.send(line).is_err() {
                break;
            }
        }
    });
    heard.map_err(Error::file(Path::new("a thread for a node"), "starting it"))?;
    Ok(Node { name: name.to_owned(), run_on: run_on.map(String::from), is_lost: false, child, orders, answers })
}

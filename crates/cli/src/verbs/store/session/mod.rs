//! `thalweg session`: serves one store's files to a library over standard input and output, as sftp-server does.
//!
//! So a library in any language needs no code of ours, and this process is the one that holds the credential.
//!
//! **A frame** is two little-endian 32-bit numbers, a JSON head of as many bytes as the first says, and as many raw bytes as the second
//! says. The session begins with a greeting. Each request has a number, its `id`, and is answered by a frame with that number; a listing
//! by several, of which all but the last have `more`. Requests are carried out in parallel, and answers come as they are ready: a request
//! that depends on another is sent when that one was answered. A client that sends without receiving stops the session, and so itself.
//!
//! **The end.** When standard input ends, the requests received are carried out and answered, files that were not published are removed,
//! and the session ends. It also ends at a frame that is none, with an answer without a number.
//!
//! | file | what is in it |
//! |---|---|
//! | [`frames`] | frames, and their bounds |
//! | [`requests`] | what can be asked |
//! | [`answers`] | errors and entries, as answers have them |
//! | [`opened`] | the files that are open |
//! | [`served`] | what requests work on |
//! | [`names`] | requests about names |
//! | [`bytes`] | requests about bytes |
//! | [`workers`] | the threads that carry out requests |

mod answers;
mod bytes;
mod frames;
mod names;
mod opened;
mod requests;
mod served;
mod workers;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::operand::StoreFlags;
use crate::session::Session;
use answers::problem;
use frames::{Output, PROTOCOL, Unreadable};
use serde_json::json;
use served::Served;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::Arc;
use thalweg_wire::Error;
use workers::Workers;

/// Arguments of `thalweg session`.
#[derive(clap::Args)]
#[command(after_help = "For programs: thalweg.fs of the Python package runs it. crates/cli/SESSION.md describes frames and requests.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    store: StoreFlags,
}

/// Serves until standard input ends.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if std::io::stdin().is_terminal() || std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "standard input and output are for a program that reads and writes frames (crates/cli/SESSION.md); in a terminal, use thalweg ls, cp and cat",
        ));
    }
    let interrupt = Interrupt::listen()?;
    let output = Arc::new(Output::standard()?);
    let store = arguments.store.path("/")?.store;
    let session = match Session::open(&store, &arguments.store) {
        Ok(session) => session,
        Err(error) => {
            output.send(&json!({ "session": PROTOCOL, "error": problem(&error) }), &[]);
            return Err(Failure::failed(error));
        }
    };
    output.send(&greeting(&session), &[]);
    let served = Arc::new(Served { session, opened: Default::default(), flags: arguments.store.clone(), stopping: interrupt.flag() });
    let receiving = {
        let (served, output, interrupt) = (Arc::clone(&served), Arc::clone(&output), interrupt.clone());
        let receive = move || {
            let received = receive(&served, &output);
            // Ends the wait below.
            interrupt.wake();
            received
        };
        std::thread::Builder::new().name("requests".to_owned()).spawn(receive)
    };
    let receiving = receiving.map_err(|e| Failure::failed(format!("a thread for requests: {e}")))?;
    interrupt.wait();
    if interrupt.is_raised() {
        served.opened.close_all();
        return Err(Failure::Interrupted("interrupted: files that were not published are removed".to_owned()));
    }
    let received = receiving.join().unwrap_or_else(|_| Err(Failure::failed("a panic in the thread of requests: a bug")));
    served.opened.close_all();
    received
}

fn greeting(session: &Session) -> serde_json::Value {
    json!({
        "session": PROTOCOL,
        "version": env!("CARGO_PKG_VERSION"),
        "store": format!("{:016x}", session.map().store),
        "address": session.names().address(),
        "head_bytes": frames::HEAD_BYTES,
        "body_bytes": frames::BODY_BYTES,
        "requests": requests::NAMES,
    })
}

/// Receives requests until standard input ends, and waits until all are answered.
fn receive(served: &Arc<Served>, output: &Arc<Output>) -> Result<(), Failure> {
    let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| Failure::failed(format!("standard input: {e}")))?;
    let mut input = std::fs::File::from(input);
    let mut workers = Workers::new(Arc::clone(served), Arc::clone(output));
    let ended = loop {
        if output.is_broken() {
            break Err(Failure::NobodyReads);
        }
        let asked = frames::receive(&mut input).and_then(|frame| frame.map(requests::number).transpose());
        match asked {
            Ok(None) => break Ok(()),
            Ok(Some(asked)) => workers.give(asked),
            Err(unreadable) => break Err(refuse(output, &unreadable)),
        }
    };
    workers.finish();
    ended
}

/// Answers a frame that is none, after which no other can be found.
fn refuse(output: &Output, unreadable: &Unreadable) -> Failure {
    let error = Error::new(unreadable.kind(), unreadable.to_string());
    output.send(&json!({ "error": problem(&error) }), &[]);
    Failure::failed(error)
}

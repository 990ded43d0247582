//! The server's end: accepts connections, one thread each, and hands their requests to a [`Service`] one by one.
//!
//! A thread per connection and requests in their order: a client that wants two things at once opens two connections,
//! and pipelines on each. The number of connections is bounded; the next client is refused when it says hello. Those that have not
//! said hello are few, short-lived and cheap, and take no client's place ([`newcomers`]).

mod burst;
mod connection;
mod failure;
mod newcomers;
mod requests;
mod service;
mod sessions;

pub use newcomers::{Client, Clients};
pub use service::{ServeOptions, Service, Session};
pub use sessions::Budget;

use self::connection::Served;
use self::service::{Open, Shared};
use super::channel::Channel;
use super::descriptors::{self, Shares};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// A server that runs. Stops gracefully when dropped: requests being worked on are finished.
pub struct Running {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: TcpListener,
    acceptor: Option<JoinHandle<()>>,
}

/// Serves `service` on `listener` until the returned handle is stopped or dropped.
///
/// # Errors
/// When the listener is not on loopback and may not be, or no thread can be started.
pub fn serve(listener: TcpListener, service: Arc<dyn Service>, options: ServeOptions) -> Result<Running> {
    let address = listener.local_addr().map_err(|e| Error::system("listening address", e))?;
    if !address.ip().is_loopback() && !options.beyond_loopback {
        return Err(Error::new(
            ErrorKind::Access,
            format!("{address} is not a loopback address: the store listens beyond loopback only when it is asked to"),
        ));
    }
    descriptors::raise();
    // Again, now with room for many who come at a time.
    rustix::net::listen(&listener, limits::BACKLOG).map_err(|e| Error::system("listening", e))?;
    let name = options.name.clone();
    let shared = Arc::new(Shared::new(service, options));
    let weak = Arc::downgrade(&shared);
    shared.options.gate.on_revoked(move |ids| {
        weak.upgrade().iter().for_each(|shared| shared.end_of(ids));
    });
    let ours = listener.try_clone().map_err(|e| Error::system("listener", e))?;
    let acceptor = spawn(&format!("{name} accept"), {
        let shared = Arc::clone(&shared);
        move || accept(&listener, &shared)
    })?;
    Ok(Running { address, shared, listener: ours, acceptor: Some(acceptor) })
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections of clients being served now.
    pub fn connections(&self) -> usize {
        self.shared.clients.all()
    }

    /// Recordings that clients have asked for since it started.
    pub fn recordings(&self) -> u64 {
        self.shared.sessions.begun()
    }

    /// Why nothing is answered any more, if a request panicked and the service may be half-changed. It is still to be stopped.
    pub fn failure(&self) -> Option<Error> {
        self.shared.failure.reason().cloned()
    }

    /// Calls `notify` when there is a [`Running::failure`]: on a connection's thread, or at once.
    pub fn on_failure(&self, notify: impl FnOnce() + Send + 'static) {
        self.shared.failure.notify(Box::new(notify));
    }

    /// Finishes what is being worked on, closes all connections, and waits for the threads.
    pub fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.service.stopping();
        // On Linux this ends an accept that is waiting. An error means that it has ended already.
        let _ = rustix::net::shutdown(self.listener.as_fd(), rustix::net::Shutdown::Both);
        let _ = acceptor.join();
        let threads: Vec<_> = self
            .shared
            .open()
            .values_mut()
            .filter_map(|open| {
                let _ = open.stream.shutdown(Shutdown::Read);
                open.thread.take()
            })
            .collect();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(|e| Error::system("starting a thread", e))
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let stopping = || shared.stopping.load(Ordering::SeqCst);
    while !stopping() {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(_) if stopping() => return,
            // It has gone again while it waited for us.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
            Err(_) => {
                // Descriptors or memory are used up, as far as may be known. Trying at once would spin.
                shared.newcomers.make_room();
                continue;
            }
        };
        let (stream, number) = (Arc::new(stream), shared.next.fetch_add(1, Ordering::Relaxed));
        let most = limits::NEWCOMERS.min(Shares::now().newcomers);
        if shared.newcomers.enter(number, &stream, peer.ip(), most, stopping) && begin(number, stream, peer, shared).is_err() {
            // No thread can be started. The next client may have more luck.
            shared.newcomers.leave(number);
        }
    }
}

fn begin(number: u64, stream: Arc<TcpStream>, peer: SocketAddr, shared: &Arc<Shared>) -> Result<()> {
    // In the table before the thread runs, so that the thread can take itself out of it.
    shared.burst.came({
        let mut open = shared.open();
        open.insert(number, Open { stream: Arc::clone(&stream), thread: None, of: None });
        open.len()
    });
    let thread = spawn(&format!("{} serve", shared.options.name), {
        let shared = Arc::clone(shared);
        move || {
            let serving = || {
                if let Ok(mut served) = Served::new(number, Channel::plain(Arc::clone(&stream)), peer, &shared) {
                    served.run();
                }
            };
            // Such as in what a session leaves to do when its client goes.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(serving)) {
                shared.panicked(&*panic);
            }
            let _ = stream.shutdown(Shutdown::Both);
            let open = {
                let mut open = shared.open();
                open.remove(&number);
                open.len()
            };
            // Who waits for a place, or a descriptor, finds it: nobody else holds this one.
            drop(stream);
            shared.newcomers.leave(number);
            shared.burst.left(open);
        }
    });
    match thread {
        Ok(thread) => {
            if let Some(entry) = shared.open().get_mut(&number) {
                entry.thread = Some(thread);
            }
            Ok(())
        }
        Err(error) => {
            shared.open().remove(&number);
            Err(error)
        }
    }
}

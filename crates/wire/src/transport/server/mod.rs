//! The server's end: accepts connections, one thread each, and passes their requests to a [`Service`] one by one.
//!
//! One thread per connection, and requests in order: a client that wants two things simultaneously opens two connections, and
//! pipelines on each. The number of connections is limited; further clients are refused at their greeting. Connections before
//! their greeting are few, short-lived and cheap, and never displace a client ([`newcomers`]).

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

/// A running server. Drop stops it gracefully: requests in progress are finished.
pub struct Running {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: TcpListener,
    acceptor: Option<JoinHandle<()>>,
}

/// Serves `service` on `listener` until the returned handle is stopped or dropped.
///
/// # Errors
/// When the address is not loopback without `beyond_loopback`, or no thread can be started.
pub fn serve(listener: TcpListener, service: Arc<dyn Service>, options: ServeOptions) -> Result<Running> {
    let address = listener.local_addr().map_err(|e| Error::system("listening address", e))?;
    if !address.ip().is_loopback() && !options.beyond_loopback {
        return Err(Error::new(
            ErrorKind::Access,
            format!("{address} is not a loopback address: the store listens beyond loopback only on request"),
        ));
    }
    descriptors::raise();
    // Listens again, with a larger backlog.
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
    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of client connections being served.
    pub fn connections(&self) -> usize {
        self.shared.clients.all()
    }

    /// Returns the number of recordings requested by clients since the start.
    pub fn recordings(&self) -> u64 {
        self.shared.sessions.begun()
    }

    /// Returns why requests are no longer answered, if one panicked and may have left the service half-changed. The server must
    /// still be stopped.
    pub fn failure(&self) -> Option<Error> {
        self.shared.failure.reason().cloned()
    }

    /// Calls `notify` on a [`Running::failure`]: from a connection's thread, or immediately if it has happened.
    pub fn on_failure(&self, notify: impl FnOnce() + Send + 'static) {
        self.shared.failure.notify(Box::new(notify));
    }

    /// Finishes requests in progress, closes all connections, and joins the threads.
    pub fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.service.stopping();
        // On Linux this ends a blocked accept. An error means that accept has already ended.
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
            // The client gave up while it was queued.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
            Err(_) => {
                // Descriptors or memory are probably exhausted. Retrying immediately would spin.
                shared.newcomers.make_room();
                continue;
            }
        };
        let (stream, number) = (Arc::new(stream), shared.next.fetch_add(1, Ordering::Relaxed));
        let most = limits::NEWCOMERS.min(Shares::now().newcomers);
        if shared.newcomers.enter(number, &stream, peer.ip(), most, stopping) && begin(number, stream, peer, shared).is_err() {
            // No thread could be started. The next client may succeed.
            shared.newcomers.leave(number);
        }
    }
}

fn begin(number: u64, stream: Arc<TcpStream>, peer: SocketAddr, shared: &Arc<Shared>) -> Result<()> {
    // Inserted before the thread runs, so that the thread can remove itself.
    shared.burst.opened({
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
            // For instance in a session's clean-up when its client disconnects.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(serving)) {
                shared.panicked(&*panic);
            }
            let _ = stream.shutdown(Shutdown::Both);
            let open = {
                let mut open = shared.open();
                open.remove(&number);
                open.len()
            };
            // Close the descriptor before waking those who wait for a place or a descriptor.
            drop(stream);
            shared.newcomers.leave(number);
            shared.burst.closed(open);
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

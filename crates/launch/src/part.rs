//! The part of a job on one host: its servers and its mount.
//!
//! It executes the messages on its standard input, and stops when that is closed, on a signal, or when a server fails. A signal never ends
//! it directly: servers are stopped in order, and their data is removed or kept as `Serve` requires.

use crate::error::{LaunchError, Result};
use crate::messages::{Begin, Listens, Serve, ToJob, ToPart, of_this_release, read_message, write_message};
use crate::mounting::Mounting;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use thalweg_base::machine;
use thalweg_base::private;
use thalweg_store::config::{METADATA_NAME, StoreConfig};
use thalweg_store::start::{RunningStore, StartOptions, serve_listening};
use thalweg_store::wire::raise_descriptors;

enum Event {
    Message(ToPart),
    Wrong(LaunchError),
    /// The pipe was closed, a signal arrived, or a server failed.
    End(Option<String>),
}

/// Runs a part until the job or a failure ends it. `note` receives the servers' notes.
///
/// # Errors
/// Why a message could not be executed; it was reported to the job.
pub fn part(note: fn(&str)) -> Result<()> {
    raise_descriptors();
    let (send, events) = channel();
    listen(&send)?;
    let mut part = Part {
        send,
        note,
        listeners: Vec::new(),
        stores: Vec::new(),
        directories: Vec::new(),
        credential: PathBuf::new(),
        removes: true,
        mounting: None,
    };
    let done = part.follow(&events);
    if let Err(error) = &done {
        let _ = answer(&ToJob::Failed { reason: error.to_string() });
    }
    let stopped = part.end();
    if done.is_ok() {
        let last = match &stopped {
            Ok(()) => ToJob::Stopped,
            Err(error) => ToJob::Failed { reason: error.to_string() },
        };
        let _ = answer(&last);
    }
    done.and(stopped)
}

/// Delivers messages from the job and signals as events.
fn listen(send: &Sender<Event>) -> Result<()> {
    let failed = |e: std::io::Error| LaunchError::failed(format!("signals: {e}"));
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let said = send.clone();
    std::thread::spawn(move || {
        let mut job = BufReader::new(std::io::stdin());
        loop {
            let event = match read_message(&mut job) {
                Ok(Some(word)) => Event::Message(word),
                Ok(None) => Event::End(None),
                Err(error) => Event::Wrong(error),
            };
            let continues = matches!(event, Event::Message(_));
            if said.send(event).is_err() || !continues {
                return;
            }
        }
    });
    let ended = send.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let _ = ended.send(Event::End(Some(format!("signal {signal}"))));
        }
    });
    Ok(())
}

fn answer(word: &ToJob) -> Result<()> {
    write_message(&mut std::io::stdout().lock(), word).map_err(|e| LaunchError::failed(format!("the job: {e}")))
}

struct Part {
    send: Sender<Event>,
    note: fn(&str),
    listeners: Vec<TcpListener>,
    stores: Vec<RunningStore>,
    /// Directories to remove with the store.
    directories: Vec<PathBuf>,
    credential: PathBuf,
    removes: bool,
    mounting: Option<Mounting>,
}

impl Part {
    fn follow(&mut self, events: &Receiver<Event>) -> Result<()> {
        loop {
            match events.recv() {
                Ok(Event::Message(ToPart::Begin(begin))) => answer(&ToJob::Listens(self.begin(&begin)?))?,
                Ok(Event::Message(ToPart::Serve(serve))) => answer(&ToJob::Serves { address: self.serve(&serve)? })?,
                Ok(Event::Message(ToPart::Mount { address, directory })) => {
                    self.mounting = Some(Mounting::start(&address, &self.credential, &directory)?);
                    answer(&ToJob::Mounted)?;
                }
                Ok(Event::Message(ToPart::Unmount)) => {
                    self.mounting.take().map_or(Ok(()), Mounting::end)?;
                    answer(&ToJob::Unmounted)?;
                }
                Ok(Event::Message(ToPart::Stop { removes })) => {
                    self.removes = removes;
                    return Ok(());
                }
                Ok(Event::End(None)) | Err(_) => return Ok(()),
                Ok(Event::End(Some(why))) => return Err(LaunchError::failed(why)),
                Ok(Event::Wrong(error)) => return Err(error),
            }
        }
    }

    fn begin(&mut self, begin: &Begin) -> Result<Listens> {
        of_this_release(&begin.version)?;
        let mut ports = Vec::new();
        for _ in 0..begin.listeners {
            let listener = TcpListener::bind((begin.address, 0)).map_err(|e| {
                LaunchError::failed(format!("cannot listen on {}: {e}: expected an address of that machine", begin.address))
            })?;
            ports.push(listener.local_addr().map_err(|e| LaunchError::failed(format!("listening: {e}")))?.port());
            self.listeners.push(listener);
        }
        let given = if begin.targets.is_empty() { vec![std::env::temp_dir()] } else { begin.targets.clone() };
        let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|e| LaunchError::failed(format!("{}: {e}", path.display())));
        let targets = given.iter().map(absolute).collect::<Result<_>>()?;
        Ok(Listens { ports, machine: this_machine(), node: machine::node(), targets })
    }

    /// Starts the servers; returns the store's address as this part knows it.
    fn serve(&mut self, serve: &Serve) -> Result<String> {
        let path = serve.home.join("store.toml");
        let config = StoreConfig::parse(&path, &serve.store)?;
        self.removes = serve.removes;
        if serve.again && !serve.home.is_dir() {
            let problem = format!("{} does not exist: expected the store's data on this host", serve.home.display());
            return Err(LaunchError::failed(problem));
        }
        for name in serve.names.iter().filter(|name| *name != METADATA_NAME) {
            let places = config.server(name)?.targets.iter().filter_map(|(_, target)| target.parent());
            self.directories.extend(places.map(Path::to_owned));
        }
        for directory in self.directories.iter().chain([&serve.home]) {
            private_directory(directory)?;
        }
        self.credential = serve.home.join("store.credential");
        write_private(&self.credential, &serve.credential)?;
        write_private(&path, &serve.store)?;
        let is_loopback = |listener: &TcpListener| listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let beyond_loopback = !self.listeners.iter().all(is_loopback);
        let start = StartOptions { initialise: !serve.again, beyond_loopback, plain: config.plain, ..StartOptions::default() };
        // The metadata service queries the I/O servers: start it last, stop it first.
        let mut servers: Vec<(&String, TcpListener)> = serve.names.iter().zip(self.listeners.drain(..)).collect();
        servers.sort_by_key(|(name, _)| *name == METADATA_NAME);
        for (name, listener) in servers {
            let mut store = serve_listening(&config, name, listener, start)?;
            if serve.publishes && name != METADATA_NAME {
                store.publish();
            }
            store.gate().on_refused(self.note);
            let broken = self.send.clone();
            store.on_failure(move || drop(broken.send(Event::End(Some("a server failed".to_owned())))));
            self.stores.insert(0, store);
        }
        self.stores.first().map(|store| store.address().to_string()).ok_or_else(|| LaunchError::failed("no server to start"))
    }

    /// Stops everything, and removes the data if required.
    fn end(&mut self) -> Result<()> {
        let mut done = self.mounting.take().map_or(Ok(()), Mounting::end);
        for store in self.stores.drain(..) {
            done = done.and(store.stop().map_err(LaunchError::from));
        }
        if self.removes {
            for directory in &self.directories {
                let removed = std::fs::remove_dir_all(directory).or_else(|e| if directory.exists() { Err(e) } else { Ok(()) });
                done = done.and(removed.map_err(|e| LaunchError::failed(format!("{} cannot be removed: {e}", directory.display()))));
                // Fails if other servers of the host still have data there.
                directory.parent().map(std::fs::remove_dir);
            }
        }
        done
    }
}

/// Returns an identity that is equal for all processes in the same mount namespace.
pub(crate) fn this_machine() -> String {
    let mounts = std::fs::read_link("/proc/self/ns/mnt").map(|link| link.display().to_string()).unwrap_or_default();
    format!("{} {mounts}", machine::boot_id())
}

fn private_directory(directory: &Path) -> Result<()> {
    private::make_directory(directory).map_err(|e| {
        LaunchError::failed(format!("{}: {e}: expected a directory that servers can write to (--targets)", directory.display()))
    })
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    let opened = private::files().create(true).write(true).truncate(true).open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|e| LaunchError::failed(format!("{}: {e}", path.display())))
}

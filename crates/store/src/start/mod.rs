//! Starting a whole store in one process from directories ([`up`]), or one of its servers ([`serve`]). Servers use TCP in both cases, so
//! measurements in one process hold for a network.
//!
//! A start opens existing targets and metadata. It creates them only for a new store or with [`StartOptions::initialise`]: a missing
//! directory is far more often a file system that is not mounted.

mod credentials;
mod database;

pub use self::credentials::init as init_credential;
pub use self::database::stand_by;
use crate::config::{METADATA_NAME, MetadataConfig, ServerConfig, StoreAddress, StoreConfig};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thalweg_base::machine;
use thalweg_base::private;
use thalweg_io::{IoServer, IoServerOptions, Target, TargetIdentity};
use thalweg_metadata::io_servers::Remote;
use thalweg_metadata::lineage::WitnessReports;
use thalweg_metadata::namespace::Namespace;
use thalweg_metadata::service::{MetadataOptions, MetadataService};
use thalweg_wire::address::resolve;
use thalweg_wire::emulate::Emulation;
use thalweg_wire::protocol::common::{Witnessed, random_u64};
use thalweg_wire::protocol::metadata::{Owner, ServerEntry, TargetId};
use thalweg_wire::trust::{Credential, Credentials, Gate, Published};
use thalweg_wire::{Connect, Connection, Fingerprint, Running, ServeOptions, ServerTls, serve as serve_on};
use thalweg_wire::{Error, ErrorKind, Result};

/// The file that describes a store.
pub const STORE_FILE: &str = "store.toml";
/// Silence after which the metadata service gives up on an I/O server; it retries later.
const PEER_SILENCE: Duration = Duration::from_secs(5);
/// How long a start of the metadata service waits for I/O servers to report what they witnessed.
const LOOKING_ROUND: Duration = Duration::from_secs(2);

/// Options of a start.
#[derive(Clone, Copy, Debug, Default)]
pub struct StartOptions {
    /// Listen on addresses other than loopback.
    pub beyond_loopback: bool,
    /// Do not encrypt there.
    pub plain: bool,
    /// Create missing targets and metadata, empty.
    pub initialise: bool,
    /// Continue with metadata that is older than the targets have witnessed.
    pub accept_older_metadata: bool,
    /// Continue without the entries after a damaged place in the metadata's log; the damaged file is set aside.
    pub drop_damaged_log: bool,
    /// Emulated devices.
    pub emulated: Option<Emulation>,
    /// The epoch that [`stand_by`] returned, to take over from a metadata service that shows no sign of life.
    pub take_over: Option<i64>,
}

/// Options of [`up`].
#[derive(Clone, Debug)]
pub struct UpOptions {
    /// One I/O server for each directory; or a single directory, divided by `servers`.
    pub directories: Vec<PathBuf>,
    /// The number of I/O servers in a single directory, in its subdirectories `io0`, `io1`, ...
    pub servers: Option<usize>,
    /// The number of targets per server, in its subdirectories `target0`, ... `None`: the server's directory is the target.
    pub targets: Option<usize>,
    /// The host to listen on.
    pub host: String,
    /// The metadata service's port; `None`: the previous one if it is free, or any.
    pub port: Option<u16>,
    /// The node label of this machine; `None`: [`machine::node`].
    pub node: Option<String>,
    /// The address of a PostgreSQL database for the metadata: `postgresql://…`. `None`: as before, or in the first directory.
    pub database: Option<String>,
    /// Options shared with [`serve`].
    pub start: StartOptions,
}

impl UpOptions {
    /// Creates options for a server over each of these directories, on loopback.
    pub fn new(directories: impl IntoIterator<Item = impl Into<PathBuf>>) -> UpOptions {
        UpOptions {
            directories: directories.into_iter().map(Into::into).collect(),
            servers: None,
            targets: None,
            host: "127.0.0.1".into(),
            port: None,
            node: None,
            database: None,
            start: StartOptions::default(),
        }
    }
}

/// Servers running in this process, until stopped or dropped.
pub struct RunningStore {
    config: StoreConfig,
    metadata: Option<(Running, Arc<MetadataService>)>,
    io: Vec<(String, Running)>,
    notes: Vec<String>,
    credential: Credential,
    gate: Arc<Gate>,
    /// The published copy of the credential, for the user who started the store.
    published: Option<Published>,
}

impl RunningStore {
    /// Returns the description of the store, with its current addresses.
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// Returns the store's address: `thal://HOST:PORT`.
    pub fn address(&self) -> StoreAddress {
        StoreAddress::Service(self.config.service())
    }

    /// Returns the store's credential.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Returns the gate, which checks the servers' clients.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Returns notes for the user who started it, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the number of recordings that clients have requested from these servers.
    pub fn recordings(&self) -> u64 {
        self.running().map(Running::recordings).sum()
    }

    fn running(&self) -> impl Iterator<Item = &Running> {
        self.metadata.iter().map(|(running, _)| running).chain(self.io.iter().map(|(_, running)| running))
    }

    /// Returns why a server no longer answers, if a request left the server's state in doubt. The store should then be stopped.
    pub fn failure(&self) -> Option<Error> {
        let ended = self.metadata.as_ref().and_then(|(_, service)| service.namespace().database().ended());
        let ended = ended.map(|error| Error::from(error).at_server(METADATA_NAME));
        self.running().find_map(Running::failure).or(ended)
    }

    /// Calls `notify` once there is a [`RunningStore::failure`].
    pub fn on_failure(&self, notify: impl Fn() + Clone + Send + 'static) {
        self.running().for_each(|running| running.on_failure(notify.clone()));
        if let Some((_, service)) = &self.metadata {
            service.namespace().database().on_end(Box::new(notify));
        }
    }

    /// Returns the names of the servers that run here, including `metadata`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let metadata = self.metadata.is_some().then_some(METADATA_NAME);
        metadata.into_iter().chain(self.io.iter().map(|(name, _)| name.as_str()))
    }

    /// Returns the listening address of a server that runs here.
    pub fn listens(&self, name: &str) -> Option<SocketAddr> {
        if name == METADATA_NAME {
            return self.metadata.as_ref().map(|(running, _)| running.address());
        }
        self.io.iter().find(|(n, _)| n == name).map(|(_, running)| running.address())
    }

    /// Stops one I/O server gracefully; returns whether it ran here.
    pub fn stop_server(&mut self, name: &str) -> bool {
        let before = self.io.len();
        self.io.retain(|(n, _)| n != name);
        self.io.len() < before
    }

    /// Finishes requests in progress and stops all servers. Metadata is on stable storage afterwards.
    ///
    /// # Errors
    /// The metadata could not be written out, or there is a [`RunningStore::failure`]; everything is stopped nevertheless.
    pub fn stop(mut self) -> Result<()> {
        self.stop_all()
    }

    fn stop_all(&mut self) -> Result<()> {
        let failure = self.failure();
        let closed = match self.metadata.take() {
            None => Ok(()),
            Some((mut running, service)) => {
                // The memory of a service in doubt is not written out: its answers are in the log, as after a kill.
                let reported = if failure.is_none() { service.before_stop() } else { Ok(()) };
                running.stop();
                running.failure().or(failure.clone()).map_or_else(|| service.close().and(reported), Err)
            }
        };
        self.io.clear();
        failure.map_or(closed, Err).map_err(|e| e.at_server(METADATA_NAME))
    }
}

impl Drop for RunningStore {
    fn drop(&mut self) {
        let _ = self.stop_all();
    }
}

/// Checks that the emulated devices are those of the store's targets, on this machine.
fn can_be_emulated(config: &StoreConfig, start: StartOptions) -> Result<()> {
    let Some(emulation) = start.emulated else { return Ok(()) };
    if start.beyond_loopback {
        let problem = "an emulated link is local to this machine: --emulate cannot be combined with --beyond-loopback";
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    let targets: usize = config.servers.iter().map(|server| server.targets.len()).sum();
    match emulation.odd_disk {
        Some(odd) if odd.target as usize >= targets => Err(Error::new(
            ErrorKind::Invalid,
            format!("--emulate disk.{}: the targets of this store are 0 to {}", odd.target, targets.saturating_sub(1)),
        )),
        _ => Ok(()),
    }
}

/// Starts a whole store in this process. Opens an existing store; otherwise creates one, with its `store.toml` in the first directory.
///
/// # Errors
/// The directories belong to another store or are divided differently, or a port is in use. [`ErrorKind::Absent`] if a target or the
/// metadata of an existing store is missing, or the metadata is older than its targets.
pub fn up(options: &UpOptions) -> Result<RunningStore> {
    let planned = plan(options)?;
    let path = planned.path.clone();
    let (mut start, mut moved) = (options.start, None);
    let mut config = if path.exists() {
        let config = StoreConfig::read(&path)?;
        same_parts(&config, &planned)?;
        // Repairs a file that `up` wrote.
        moved = config.move_password()?;
        if moved.is_some() { StoreConfig::read(&path)? } else { config }
    } else {
        let foreign =
            planned.servers.iter().flat_map(|s| &s.targets).find(|(_, d)| matches!(TargetIdentity::read(d), Ok(Some(_)) | Err(_)));
        if let Some((_, directory)) = foreign {
            return Err(Error::new(
                ErrorKind::Exists,
                format!(
                    "{} belongs to a store already, but {} is missing: restore it, or give other directories",
                    directory.display(),
                    path.display()
                ),
            ));
        }
        start.initialise = true;
        planned
    };
    if options.database.is_some() {
        config.metadata.database.clone_from(&options.database);
        // Detects problems before a store is half created.
        database::check(&config, start.initialise).map_err(|e| e.at_server(METADATA_NAME))?;
    }
    if let Some(node) = &options.node {
        config.servers.iter_mut().for_each(|s| s.node.clone_from(node));
        config.metadata.node = Some(node.clone());
    }
    can_be_emulated(&config, start)?;
    private::make_directory(path.parent().unwrap_or(Path::new("."))).map_err(|e| Error::system(path.display(), e))?;
    let metadata = listen_again(&options.host, options.port, &config.metadata.address)?;
    config.metadata.address = local_address(&metadata)?;
    let mut listeners = Vec::new();
    for server in &mut config.servers {
        let listener = listen_again(&options.host, None, &server.address)?;
        server.address = local_address(&listener)?;
        listeners.push(listener);
    }
    config.plain = start.plain;
    let mut store = RunningStore::of(&config, true, |_| true)?;
    store
        .notes
        .extend(moved.map(|to| format!("moved the password of the metadata's database from {} to {}", path.display(), to.display())));
    store.publish();
    for (server, listener) in config.servers.iter().zip(listeners) {
        store.start_io(server, listener, start)?;
    }
    store.config.write()?;
    store.start_metadata(metadata, start)?;
    Ok(store)
}

/// Starts one server of a `store.toml`: `metadata`, `standby1` and so on, or an I/O server by its name. It listens on its address in the
/// file; the other servers need not be running.
///
/// # Errors
/// There is no such server, its directory belongs to another, or its port is in use. [`ErrorKind::Absent`] as for [`up`];
/// [`ErrorKind::Busy`] if another metadata service is active.
pub fn serve(config: &StoreConfig, name: &str, start: StartOptions) -> Result<RunningStore> {
    if start.plain && !config.plain {
        let problem = format!(
            "{}: all servers of a store encrypt, or none do: put `plain = true` into this file, above [metadata]",
            config.path.display()
        );
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    let of_metadata = config.metadata_address(name);
    let address = of_metadata.map_or_else(|| config.server(name).map(|server| server.address.as_str()), Ok)?;
    let listener = listen(address)?;
    serve_listening(config, name, listener, start)
}

/// Starts one server of a store on an existing listener, for stores whose ports are known only once their servers listen.
///
/// # Errors
/// As for [`serve`].
pub fn serve_listening(config: &StoreConfig, name: &str, listener: TcpListener, start: StartOptions) -> Result<RunningStore> {
    let name = if config.metadata_address(name).is_some() { METADATA_NAME } else { name };
    // The metadata service needs all other addresses; the others need the metadata service's.
    let needs = |server: &str| name == METADATA_NAME || server == METADATA_NAME || server == name;
    let mut store = RunningStore::of(config, start.initialise, needs)?;
    if name == METADATA_NAME {
        store.start_metadata(listener, start)?;
        // A standby does not publish, so dropping it removes nothing.
        store.publish();
    } else {
        store.start_io(config.server(name)?, listener, start)?;
    }
    Ok(store)
}

/// Describes the store of these options, without addresses.
fn plan(options: &UpOptions) -> Result<StoreConfig> {
    let invalid = |problem: String| Err(Error::new(ErrorKind::Invalid, problem));
    let Some(first) = options.directories.first() else { return invalid("no directory to put a store in".into()) };
    if options.servers.is_some() && options.directories.len() != 1 {
        return invalid(
            "a number of servers applies to a single directory: give one directory, or one for each server without a number".into(),
        );
    }
    if options.servers == Some(0) || options.targets == Some(0) {
        return invalid("a store needs at least one server, and a server at least one target".into());
    }
    let absolute = |path: &Path| std::path::absolute(path).map_err(|e| Error::system(path.display(), e));
    let base = absolute(first)?;
    let mut directories = Vec::new();
    match options.servers {
        Some(servers) => directories.extend((0..servers).map(|i| base.join(format!("io{i}")))),
        None => {
            for directory in &options.directories {
                let directory = absolute(directory)?;
                if directories.contains(&directory) {
                    return invalid(format!("{} is given twice", directory.display()));
                }
                directories.push(directory);
            }
        }
    }
    let node = options.node.clone().unwrap_or_else(machine::node);
    let mut numbers = (0..).map(TargetId);
    let mut server = |(i, directory): (usize, &PathBuf)| {
        let directories = match options.targets.unwrap_or(1) {
            1 => vec![directory.clone()],
            many => (0..many).map(|t| directory.join(format!("target{t}"))).collect(),
        };
        let targets = directories.into_iter().map(|d| (numbers.next().expect("an endless range"), d)).collect();
        ServerConfig { name: format!("io{i}"), node: node.clone(), address: String::new(), targets, key: None }
    };
    let servers: Vec<ServerConfig> = directories.iter().enumerate().map(&mut server).collect();
    if servers.iter().map(|s| s.targets.len()).max() > Some(thalweg_wire::limits::TARGETS) {
        return invalid(format!("a server has at most {} targets", thalweg_wire::limits::TARGETS));
    }
    Ok(StoreConfig {
        path: base.join(STORE_FILE),
        store: random_u64() | 1,
        metadata: MetadataConfig {
            address: String::new(),
            directory: base.join("metadata"),
            database: None,
            standby: Vec::new(),
            node: Some(node),
            key: None,
        },
        servers,
        credential: StoreConfig::usual_credential(&base.join(STORE_FILE))?,
        plain: false,
    })
}

/// Checks that an existing store has the requested servers and targets.
fn same_parts(found: &StoreConfig, planned: &StoreConfig) -> Result<()> {
    let targets = |config: &StoreConfig| config.servers.iter().map(|s| s.targets.clone()).collect::<Vec<_>>();
    if targets(found) == targets(planned) {
        return Ok(());
    }
    let shown = |config: &StoreConfig| {
        let server = |s: &ServerConfig| s.targets.iter().map(|(_, d)| d.display().to_string()).collect::<Vec<_>>().join(" ");
        config.servers.iter().map(server).collect::<Vec<_>>().join(", ")
    };
    Err(Error::new(
        ErrorKind::Exists,
        format!(
            "{} is a store of {} servers ({}), not of {} ({}): start it with its own directories, or give others",
            found.path.display(),
            found.servers.len(),
            shown(found),
            planned.servers.len(),
            shown(planned)
        ),
    ))
}

impl RunningStore {
    /// Creates a store without running servers. `makes`: create a missing credential. `needs`: the servers whose keys must be known here.
    fn of(config: &StoreConfig, makes: bool, needs: impl Fn(&str) -> bool) -> Result<RunningStore> {
        let (credential, note) = credentials::find(config, makes)?;
        let gate = Arc::new(Gate::new(&credential)?);
        let notes = note.into_iter().collect();
        let mut config = config.clone();
        credentials::pin_servers(&mut config, &credential, needs)?;
        Ok(RunningStore { config, metadata: None, io: Vec::new(), notes, credential, gate, published: None })
    }

    /// Returns a server's TLS settings, if it has a key.
    fn tls(&self, server: &str, key: Option<Fingerprint>) -> Result<Option<ServerTls>> {
        key.map(|_| ServerTls::new(&credentials::key_of(&self.credential, server)?)).transpose()
    }

    /// Publishes the credential until the store stops, so that clients of the user who starts it need no flag.
    pub fn publish(&mut self) {
        match Published::publish(&self.credential) {
            Ok(published) => self.published = Some(published),
            Err(error) => self.notes.push(format!(
                "cannot publish the store's credential ({error}): give it to clients with --credential {}",
                self.config.credential.display()
            )),
        }
    }

    fn start_io(&mut self, server: &ServerConfig, listener: TcpListener, start: StartOptions) -> Result<()> {
        let mut targets = Vec::new();
        for (number, directory) in &server.targets {
            let open = if start.initialise { Target::initialise } else { Target::open };
            let mut target = open(directory, self.config.store, *number).map_err(|e| e.at_server(&server.name))?;
            if target.is_adopted() {
                self.notes.push(format!(
                    "{}: target {number} was made by an earlier release and is adopted: it has files up to start {} of the metadata service",
                    directory.display(),
                    target.seen().start.epoch
                ));
            }
            self.notes.extend(Target::close_to_others(directory));
            start.emulated.iter().for_each(|emulation| target.emulate(emulation));
            targets.push(target);
        }
        let mut options = IoServerOptions::new(&server.name, &server.node, &self.credential, &self.gate);
        options.metadata = self.config.service();
        options.serve.beyond_loopback = start.beyond_loopback;
        options.serve.emulated = start.emulated;
        options.serve.tls = self.tls(&server.name, self.config.server(&server.name)?.key)?;
        self.io.push((server.name.clone(), IoServer::start(listener, targets, options)?));
        Ok(())
    }

    fn start_metadata(&mut self, listener: TcpListener, start: StartOptions) -> Result<()> {
        let begin = || -> Result<(Running, Arc<MetadataService>)> {
            let config = &self.config;
            let node = config.metadata.node.clone().unwrap_or_else(machine::node);
            database::check(config, start.initialise)?;
            let peers = Connect {
                timeout: PEER_SILENCE,
                client: METADATA_NAME.into(),
                node: node.clone(),
                store: Some(config.store),
                credentials: Credentials::given(self.credential.clone()),
                ..Connect::default()
            };
            let seen = WitnessReports { servers: seen_by(config, &peers), accepts_older: start.accept_older_metadata };
            let (database, notes) = database::open(config, (start.initialise, start.drop_damaged_log, start.take_over))?;
            self.notes.extend(notes);
            let owner = Owner { mode: 0o755, uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
            let namespace = Arc::new(Namespace::open(Arc::clone(&database), config.map(), owner, &seen)?);
            let options = MetadataOptions {
                gate: Arc::clone(&self.gate),
                name: METADATA_NAME.into(),
                node: node.clone(),
                directory: database::directory(config),
                recovery: thalweg_wire::limits::RECOVERY,
                boot_id: database.boot_id().unwrap_or_else(machine::boot_id),
            };
            self.notes.extend(namespace.accepted().iter().map(|older| format!("metadata: accepted: {}", older.missing())));
            if !namespace.told().is_empty() {
                let (servers, start) = (namespace.told().join(", "), namespace.service_start().epoch);
                self.notes.push(format!("metadata: restored from a backup: {servers} go on from start {start}"));
            }
            let service = Arc::new(MetadataService::new(namespace, Arc::new(Remote::new(peers)), options)?);
            let mut serving = ServeOptions::new(METADATA_NAME, node, Arc::clone(&self.gate));
            serving.beyond_loopback = start.beyond_loopback;
            serving.emulated = start.emulated;
            serving.tls = self.tls(METADATA_NAME, config.metadata.key)?;
            let running = serve_on(listener, Arc::clone(&service) as _, serving)?;
            if !service.namespace().accepted().is_empty() || !service.namespace().told().is_empty() {
                // These servers refuse clients until they have continued from here.
                let servers: Vec<String> = seen.servers.into_iter().map(|(server, _)| server).collect();
                service.wait_for_witnesses(&servers, LOOKING_ROUND);
            }
            Ok((running, service))
        };
        self.metadata = Some(begin().map_err(|e| e.at_server(METADATA_NAME))?);
        Ok(())
    }
}

/// Collects what the responding servers have witnessed. The others report later, when they connect.
fn seen_by(config: &StoreConfig, peers: &Connect) -> Vec<(String, Witnessed)> {
    let options = Connect { timeout: LOOKING_ROUND, ..peers.clone() };
    let map = config.map();
    let ask = |server: &ServerEntry| {
        let connection = Connection::connect(&server.address, &options).ok()?;
        let hello = connection.hello();
        Some((server.name.clone(), Witnessed { start: hello.service_start, change: hello.change }))
    };
    std::thread::scope(|scope| {
        let asked: Vec<_> = map.servers.iter().map(|server| scope.spawn(|| ask(server))).collect();
        asked.into_iter().filter_map(|asked| asked.join().ok().flatten()).collect()
    })
}

/// Listens on the requested port, or the previous one, or any.
fn listen_again(host: &str, port: Option<u16>, before: &str) -> Result<TcpListener> {
    let at = |port: u16| if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    if let Some(port) = port {
        return listen(&at(port));
    }
    let last = before.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    match last.map(|port| listen(&at(port))) {
        Some(Ok(listener)) => Ok(listener),
        Some(Err(e)) if e.kind() != ErrorKind::AddressInUse => Err(e),
        _ => listen(&at(0)),
    }
}

fn listen(address: &str) -> Result<TcpListener> {
    TcpListener::bind(resolve(address)?).map_err(|e| {
        let error = Error::system(format!("cannot listen on {address}"), e);
        match error.kind() {
            ErrorKind::AddressInUse => {
                Error::new(ErrorKind::AddressInUse, format!("{address} is in use by another process: stop it, or choose another port"))
            }
            _ => error,
        }
    })
}

fn local_address(listener: &TcpListener) -> Result<String> {
    listener.local_addr().map(|a| a.to_string()).map_err(|e| Error::system("listening address", e))
}

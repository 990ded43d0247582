//! Starting: a whole store in one process over the directories there are ([`up`]), or one of its servers
//! ([`serve`]). Either way the servers speak TCP, so what is seen in one process is what a network gives.
//!
//! Starting finds what is there; only a store that is new, or somebody who asks for it ([`StartOptions::initialise`]), makes targets and
//! metadata. What is missing is far more often a file system that is not mounted.

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
use thalweg_metadata::lineage::Seen;
use thalweg_metadata::namespace::Namespace;
use thalweg_metadata::service::{MetadataOptions, MetadataService};
use thalweg_wire::address::resolve;
use thalweg_wire::emulate::Emulation;
use thalweg_wire::protocol::common::{Witnessed, random_u64};
use thalweg_wire::protocol::metadata::{Owner, ServerEntry, TargetId};
use thalweg_wire::trust::{Credential, Credentials, Gate, Published};
use thalweg_wire::{Connect, Connection, Fingerprint, Running, ServeOptions, ServerTls, serve as serve_on};
use thalweg_wire::{Error, ErrorKind, Result};

/// The file that says what a store consists of.
pub const STORE_FILE: &str = "store.toml";
/// Silence after which the metadata service gives an I/O server up; it tries again later.
const PEER_SILENCE: Duration = Duration::from_secs(5);
/// How long a start of the metadata service waits for I/O servers to say what they have seen.
const LOOKING_ROUND: Duration = Duration::from_secs(2);

/// What a start may do besides starting.
#[derive(Clone, Copy, Debug, Default)]
pub struct StartOptions {
    /// Listen on another address than loopback.
    pub beyond_loopback: bool,
    /// Bytes go in clear there.
    pub plain: bool,
    /// Make targets and metadata that are not there, anew and empty.
    pub initialise: bool,
    /// Go on with metadata that is older than what the targets have seen.
    pub accept_older_metadata: bool,
    /// Go on without what is behind damage in the metadata's log; it is put aside.
    pub drop_damaged_log: bool,
    /// The devices that the store pretends to have.
    pub emulated: Option<Emulation>,
    /// Take over from a metadata service that gives no sign of life: the epoch that [`stand_by`] has found it in.
    pub take_over: Option<i64>,
}

/// What store to start.
#[derive(Clone, Debug)]
pub struct UpOptions {
    /// One I/O server for each; or a single one, divided by `servers`.
    pub directories: Vec<PathBuf>,
    /// I/O servers in a single directory: `io0`, `io1`, ... become directories in it.
    pub servers: Option<usize>,
    /// Targets of each server: `target0`, ... become directories. One: the server's directory is the target.
    pub targets: Option<usize>,
    /// The host to listen on.
    pub host: String,
    /// The metadata service's port. Otherwise the last one, if it is free, or any.
    pub port: Option<u16>,
    /// The label of this machine; otherwise [`machine::node`].
    pub node: Option<String>,
    /// Where the metadata's database is, if it is on a PostgreSQL server: `postgresql://…`. Otherwise as before, or in the first directory.
    pub database: Option<String>,
    /// What else it may do.
    pub start: StartOptions,
}

impl UpOptions {
    /// A server over each of these directories, on loopback.
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

/// Servers that run in this process, until this is stopped or dropped.
pub struct RunningStore {
    config: StoreConfig,
    metadata: Option<(Running, Arc<MetadataService>)>,
    io: Vec<(String, Running)>,
    notes: Vec<String>,
    credential: Credential,
    gate: Arc<Gate>,
    /// The credential among those of the user who started the store.
    published: Option<Published>,
}

impl RunningStore {
    /// What the store consists of, with the addresses it now has.
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// The store's address: `thal://HOST:PORT`.
    pub fn address(&self) -> StoreAddress {
        StoreAddress::Service(self.config.service())
    }

    /// The store's own credential.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// What is checked of those who come.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// What the person who started it should know: a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Recordings that clients have asked these servers for.
    pub fn recordings(&self) -> u64 {
        self.running().map(Running::recordings).sum()
    }

    fn running(&self) -> impl Iterator<Item = &Running> {
        self.metadata.iter().map(|(running, _)| running).chain(self.io.iter().map(|(_, running)| running))
    }

    /// Why one of its servers answers nothing more, if a request left it in doubt. What is left to do is to stop it.
    pub fn failure(&self) -> Option<Error> {
        let ended = self.metadata.as_ref().and_then(|(_, service)| service.namespace().database().ended());
        let ended = ended.map(|error| Error::from(error).at_server(METADATA_NAME));
        self.running().find_map(Running::failure).or(ended)
    }

    /// Calls `notify` when there is a [`RunningStore::failure`].
    pub fn on_failure(&self, notify: impl Fn() + Clone + Send + 'static) {
        self.running().for_each(|running| running.on_failure(notify.clone()));
        if let Some((_, service)) = &self.metadata {
            service.namespace().database().on_end(Box::new(notify));
        }
    }

    /// The names of the servers that run here, `metadata` among them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let metadata = self.metadata.is_some().then_some(METADATA_NAME);
        metadata.into_iter().chain(self.io.iter().map(|(name, _)| name.as_str()))
    }

    /// Where a server that runs here listens.
    pub fn listens(&self, name: &str) -> Option<SocketAddr> {
        if name == METADATA_NAME {
            return self.metadata.as_ref().map(|(running, _)| running.address());
        }
        self.io.iter().find(|(n, _)| n == name).map(|(_, running)| running.address())
    }

    /// Stops one I/O server gracefully; whether it ran here.
    pub fn stop_server(&mut self, name: &str) -> bool {
        let before = self.io.len();
        self.io.retain(|(n, _)| n != name);
        self.io.len() < before
    }

    /// Finishes what is being worked on, and stops all servers. Names are on stable storage afterwards.
    ///
    /// # Errors
    /// When the metadata could not be put there, or there is a [`RunningStore::failure`]; everything is stopped all the same.
    pub fn stop(mut self) -> Result<()> {
        self.stop_all()
    }

    fn stop_all(&mut self) -> Result<()> {
        let failure = self.failure();
        let closed = match self.metadata.take() {
            None => Ok(()),
            Some((mut running, service)) => {
                // What a service in doubt has in memory is not put in order: what it answered is in the log, as after a kill.
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

/// Whether the devices that the store is to pretend to have are those of its targets, on this machine.
fn can_be_emulated(config: &StoreConfig, start: StartOptions) -> Result<()> {
    let Some(emulation) = start.emulated else { return Ok(()) };
    if start.beyond_loopback {
        let problem = "a link that is emulated is this machine's own: --emulate and --beyond-loopback do not go together";
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

/// Starts a whole store in this process. A store that is there already is opened again; otherwise one is
/// made, and its `store.toml` stands in the first directory.
///
/// # Errors
/// When the directories belong to another store or are divided otherwise, or a port is in use; [`ErrorKind::Absent`] when a target or the
/// metadata of a store that was made before is not there, or the metadata is older than its targets.
pub fn up(options: &UpOptions) -> Result<RunningStore> {
    let planned = plan(options)?;
    let path = planned.path.clone();
    let (mut start, mut moved) = (options.start, None);
    let mut config = if path.exists() {
        let config = StoreConfig::read(&path)?;
        same_parts(&config, &planned)?;
        // What `up` writes it mends.
        moved = config.move_password()?;
        if moved.is_some() { StoreConfig::read(&path)? } else { config }
    } else {
        let foreign =
            planned.servers.iter().flat_map(|s| &s.targets).find(|(_, d)| matches!(TargetIdentity::read(d), Ok(Some(_)) | Err(_)));
        if let Some((_, directory)) = foreign {
            return Err(Error::new(
                ErrorKind::Exists,
                format!(
                    "{} belongs to a store already, and {} is not there to say which: give other directories",
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
        // What is wrong with it is found before there is half a store.
        database::look(&config, start.initialise).map_err(|e| e.at_server(METADATA_NAME))?;
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
    store.notes.extend(
        moved.map(|to| format!("the password of the metadata's database is no longer in {}, but in {}", path.display(), to.display())),
    );
    store.publish();
    for (server, listener) in config.servers.iter().zip(listeners) {
        store.start_io(server, listener, start)?;
    }
    store.config.write()?;
    store.start_metadata(metadata, start)?;
    Ok(store)
}

/// Starts one server of a `store.toml`: `metadata`, `standby1` and so on, or an I/O server by its name. It listens on the
/// address that the file gives it; the others need not be there.
///
/// # Errors
/// When there is no such server, its directory is another's, or its port is in use; [`ErrorKind::Absent`] as for [`up`]; [`ErrorKind::Busy`]
/// when another metadata service is active.
pub fn serve(config: &StoreConfig, name: &str, start: StartOptions) -> Result<RunningStore> {
    if start.plain && !config.plain {
        let problem =
            format!("{}: the servers of a store encrypt or none does: put `plain = true` there, above [metadata]", config.path.display());
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    let of_metadata = config.metadata_address(name);
    let address = of_metadata.map_or_else(|| config.server(name).map(|server| server.address.as_str()), Ok)?;
    let listener = listen(address)?;
    serve_listening(config, name, listener, start)
}

/// Starts one server of a store on a listener that is there already: of a store whose ports are not known before its servers have them.
///
/// # Errors
/// As for [`serve`].
pub fn serve_listening(config: &StoreConfig, name: &str, listener: TcpListener, start: StartOptions) -> Result<RunningStore> {
    let name = if config.metadata_address(name).is_some() { METADATA_NAME } else { name };
    // Who serves names says where all others are; the others need to know where the names are.
    let needs = |server: &str| name == METADATA_NAME || server == METADATA_NAME || server == name;
    let mut store = RunningStore::of(config, start.initialise, needs)?;
    if name == METADATA_NAME {
        store.start_metadata(listener, start)?;
        // One that stands by instead takes nothing away when it is dropped.
        store.publish();
    } else {
        store.start_io(config.server(name)?, listener, start)?;
    }
    Ok(store)
}

/// What the options describe, without addresses.
fn plan(options: &UpOptions) -> Result<StoreConfig> {
    let invalid = |problem: String| Err(Error::new(ErrorKind::Invalid, problem));
    let Some(first) = options.directories.first() else { return invalid("no directory to put a store in".into()) };
    if options.servers.is_some() && options.directories.len() != 1 {
        return invalid("a number of servers divides one directory: give one, or give a directory for each server".into());
    }
    if options.servers == Some(0) || options.targets == Some(0) {
        return invalid("a store has at least one server, and a server one target".into());
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

/// Whether a store that is there is the one that is asked for.
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
            "{} is a store of {} servers ({}), not of {} ({}): start it as it is, or give other directories",
            found.path.display(),
            found.servers.len(),
            shown(found),
            planned.servers.len(),
            shown(planned)
        ),
    ))
}

impl RunningStore {
    /// Nothing of it runs yet. `makes`: a credential where there is none. `needs`: the servers whose keys have to be known here.
    fn of(config: &StoreConfig, makes: bool, needs: impl Fn(&str) -> bool) -> Result<RunningStore> {
        let (credential, note) = credentials::find(config, makes)?;
        let gate = Arc::new(Gate::new(&credential)?);
        let notes = note.into_iter().collect();
        let mut config = config.clone();
        credentials::pin_servers(&mut config, &credential, needs)?;
        Ok(RunningStore { config, metadata: None, io: Vec::new(), notes, credential, gate, published: None })
    }

    /// A server's part in encrypting, if it is to have this key.
    fn tls(&self, server: &str, key: Option<Fingerprint>) -> Result<Option<ServerTls>> {
        key.map(|_| ServerTls::new(&credentials::key_of(&self.credential, server)?)).transpose()
    }

    /// Puts the credential where the user who starts the store finds it without a flag, until the store stops.
    pub fn publish(&mut self) {
        match Published::publish(&self.credential) {
            Ok(published) => self.published = Some(published),
            Err(error) => self.notes.push(format!(
                "the store's credential is not among yours ({error}): give it with --credential {}",
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
            database::look(config, start.initialise)?;
            let peers = Connect {
                timeout: PEER_SILENCE,
                client: METADATA_NAME.into(),
                node: node.clone(),
                store: Some(config.store),
                credentials: Credentials::given(self.credential.clone()),
                ..Connect::default()
            };
            let seen = Seen { servers: seen_by(config, &peers), accepts_older: start.accept_older_metadata };
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
            let service = Arc::new(MetadataService::new(namespace, Arc::new(Remote::new(peers)), options)?);
            let mut serving = ServeOptions::new(METADATA_NAME, node, Arc::clone(&self.gate));
            serving.beyond_loopback = start.beyond_loopback;
            serving.emulated = start.emulated;
            serving.tls = self.tls(METADATA_NAME, config.metadata.key)?;
            let running = serve_on(listener, Arc::clone(&service) as _, serving)?;
            if !service.namespace().accepted().is_empty() {
                // Until they go on from here, they refuse clients.
                let servers: Vec<String> = seen.servers.into_iter().map(|(server, _)| server).collect();
                service.wait_for_witnesses(&servers, LOOKING_ROUND);
            }
            Ok((running, service))
        };
        self.metadata = Some(begin().map_err(|e| e.at_server(METADATA_NAME))?);
        Ok(())
    }
}

/// What the servers have been notified of, of those that answer: the others say so when they come.
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

/// Listens on the port that is asked for; else on the one it had; else on any.
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
                Error::new(ErrorKind::AddressInUse, format!("{address} is in use by another process: stop that, or choose another port"))
            }
            _ => error,
        }
    })
}

fn local_address(listener: &TcpListener) -> Result<String> {
    listener.local_addr().map(|a| a.to_string()).map_err(|e| Error::system("listening address", e))
}

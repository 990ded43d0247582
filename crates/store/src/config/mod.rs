//! `store.toml`, the description of a store, and the addresses of stores and of paths in them.
//!
//! ```toml
//! store = "5f0c1d2e3a4b5968"
//! credential = "store.credential"     # the file with the store's own credential
//! plain = false                       # true: bytes go in clear beyond loopback, too
//!
//! [metadata]
//! address = "127.0.0.1:7400"
//! directory = "metadata"
//! database = "postgresql://thalweg@db/names"   # instead of a directory
//! standby = ["10.0.0.2:7400"]         # services that take over, where the names are in such a database
//!
//! [[servers]]
//! name = "io0"
//! node = "n0"
//! address = "127.0.0.1:7401"
//! targets = ["io0/target0", "io0/target1"]
//! key = "90c4..."                     # the fingerprint of its key, where it encrypts
//! ```
//!
//! Relative directories are relative to the file's directory. Targets are numbered from 0 in the order of the file, so new servers and
//! targets are appended at the end.

mod address;
mod secret;

pub use self::address::{STORE_VARIABLE, StoreAddress, StorePath};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thalweg_base::durable;
use thalweg_base::machine;
use thalweg_base::release::unknown_key;
use thalweg_metadata::database::postgresql::Server;
use thalweg_wire::Fingerprint;
use thalweg_wire::address::{Pin, check_address, pinned};
use thalweg_wire::limits;
use thalweg_wire::protocol::metadata::{ServerEntry, StoreMap, TargetEntry, TargetId};
use thalweg_wire::protocol::names::is_label;
use thalweg_wire::{Error, ErrorKind, Result};

/// The name by which `serve` starts the metadata service.
pub const METADATA_NAME: &str = "metadata";
/// The prefix of the names by which `serve` starts standby metadata services.
pub const STANDBY_NAME: &str = "standby";
/// Bound: maximum bytes of a `store.toml`.
const FILE_BYTES: u64 = 4 << 20;
/// Bound: maximum I/O servers of a store.
const SERVERS: usize = 4096;

/// The description of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The path of the file, read or to be written.
    pub path: PathBuf,
    /// The store's identifier.
    pub store: u64,
    /// The metadata service.
    pub metadata: MetadataConfig,
    /// The I/O servers, in order.
    pub servers: Vec<ServerConfig>,
    /// The file with the store's credential.
    pub credential: PathBuf,
    /// Do not encrypt beyond loopback.
    pub plain: bool,
}

/// The metadata service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataConfig {
    /// `HOST:PORT`.
    pub address: String,
    /// The directory of the embedded database.
    pub directory: PathBuf,
    /// The address of a PostgreSQL database to use instead: `postgresql://…`.
    pub database: Option<String>,
    /// The addresses of standby services, which are named `standby1` and so on, in this order.
    pub standby: Vec<String>,
    /// The node label of its machine.
    pub node: Option<String>,
    /// The fingerprint of its key, if it encrypts.
    pub key: Option<Fingerprint>,
}

/// An I/O server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its name.
    pub name: String,
    /// The node label of its machine.
    pub node: String,
    /// `HOST:PORT`.
    pub address: String,
    /// Its targets: numbers and directories.
    pub targets: Vec<(TargetId, PathBuf)>,
    /// The fingerprint of its key, if it encrypts.
    pub key: Option<Fingerprint>,
}

/// The file's contents, with the position of every value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    store: toml::Spanned<String>,
    credential: Option<toml::Spanned<PathBuf>>,
    #[serde(default)]
    plain: bool,
    metadata: FileMetadata,
    servers: Vec<FileServer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMetadata {
    address: toml::Spanned<String>,
    directory: Option<toml::Spanned<PathBuf>>,
    database: Option<toml::Spanned<String>>,
    #[serde(default)]
    standby: Vec<toml::Spanned<String>>,
    node: Option<toml::Spanned<String>>,
    key: Option<toml::Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileServer {
    name: toml::Spanned<String>,
    node: Option<toml::Spanned<String>>,
    address: toml::Spanned<String>,
    targets: Vec<toml::Spanned<PathBuf>>,
    key: Option<toml::Spanned<String>>,
}

#[derive(Serialize)]
struct Written<'a> {
    store: String,
    credential: &'a Path,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    plain: bool,
    metadata: WrittenMetadata<'a>,
    servers: Vec<WrittenServer<'a>>,
}

#[derive(Serialize)]
struct WrittenMetadata<'a> {
    address: &'a str,
    directory: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    database: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    standby: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

#[derive(Serialize)]
struct WrittenServer<'a> {
    name: &'a str,
    node: &'a str,
    address: &'a str,
    targets: Vec<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl StoreConfig {
    /// Reads a `store.toml`.
    ///
    /// # Errors
    /// The file cannot be read or is invalid; names the file, line and field.
    pub fn read(path: &Path) -> Result<StoreConfig> {
        let shown = path.display();
        let size = std::fs::metadata(path).map_err(|e| Error::system(&shown, e))?.len();
        if size > FILE_BYTES {
            return Err(Error::new(ErrorKind::Invalid, format!("{shown}: {size} bytes are too many for a store.toml")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| Error::system(&shown, e))?;
        StoreConfig::parse(path, &text)
    }

    /// Parses the text of a `store.toml` at `path`.
    ///
    /// # Errors
    /// The text is invalid; names the file, line and field.
    pub fn parse(path: &Path, text: &str) -> Result<StoreConfig> {
        let file: File = toml::from_str(text).map_err(|e| {
            let place = e.span().map_or_else(String::new, |span| format!(":{}", line_of(text, span.start)));
            let problem = e.message().trim();
            // A later release may have more keys, and what they ask for must not be left undone.
            let unknown = problem.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
            let problem = unknown
                .map_or_else(|| problem.to_owned(), |(key, rest)| format!("{} ({})", unknown_key(key), rest.trim_start_matches(", ")));
            Error::new(ErrorKind::Invalid, format!("{}{place}: {problem}", path.display()))
        })?;
        Checker { path, text }.check(file)
    }

    /// Returns the default path of the store's credential, beside the file at `path`.
    pub(crate) fn usual_credential(path: &Path) -> Result<PathBuf> {
        let beside = path.with_file_name("store.credential");
        std::path::absolute(&beside).map_err(|e| Error::system(beside.display(), e))
    }

    /// Writes the file to [`StoreConfig::path`], atomically and durably.
    ///
    /// # Errors
    /// An I/O error.
    pub fn write(&self) -> Result<()> {
        let base = self.path.parent().unwrap_or(Path::new(""));
        let short = |path: &'_ PathBuf| -> PathBuf {
            match path.strip_prefix(base) {
                Ok(same) if same.as_os_str().is_empty() => PathBuf::from("."),
                Ok(below) => below.to_owned(),
                Err(_) => path.clone(),
            }
        };
        let (directory, credential) = (short(&self.metadata.directory), short(&self.credential));
        // The password first: it must be in at least one of the files.
        let database = self.database_without_password()?;
        let key = |key: &Option<Fingerprint>| key.map(|key| key.to_string());
        let targets: Vec<Vec<PathBuf>> = self.servers.iter().map(|s| s.targets.iter().map(|(_, d)| short(d)).collect()).collect();
        let written = Written {
            store: format!("{:016x}", self.store),
            credential: &credential,
            plain: self.plain,
            metadata: WrittenMetadata {
                address: &self.metadata.address,
                directory: &directory,
                database: database.as_deref(),
                standby: &self.metadata.standby,
                node: self.metadata.node.as_deref(),
                key: key(&self.metadata.key),
            },
            servers: self
                .servers
                .iter()
                .zip(&targets)
                .map(|(s, targets)| WrittenServer {
                    name: &s.name,
                    node: &s.node,
                    address: &s.address,
                    targets: targets.iter().map(PathBuf::as_path).collect(),
                    key: key(&s.key),
                })
                .collect(),
        };
        let text = toml::to_string(&written).map_err(|e| Error::new(ErrorKind::Invalid, format!("{}: {e}", self.path.display())))?;
        if durable::is_there(&text, &self.path) {
            return Ok(());
        }
        let draft = self.path.with_extension("toml.partial");
        // Keeps read permissions that the operator has given to others, but not write permissions.
        let mode = std::fs::metadata(&self.path).map_or(0o600, |about| about.mode() & 0o755);
        let written = durable::write(&text, &draft, &self.path);
        let shared = written.and_then(|()| std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(mode)));
        shared.map_err(|e| Error::system(self.path.display(), e))
    }

    /// Returns the pin of a server with this key.
    fn pin(&self, key: Option<Fingerprint>) -> Pin {
        match key {
            _ if self.plain => Pin::Plain,
            Some(key) => Pin::Key(key),
            None => Pin::None,
        }
    }

    /// Returns the address of the metadata service, with its pin.
    pub fn service(&self) -> String {
        let mut places = vec![self.metadata.address.as_str()];
        places.extend(self.metadata.standby.iter().map(String::as_str));
        pinned(&places.join(","), self.pin(self.metadata.key))
    }

    /// Returns the listening address of a metadata service: `metadata`, or `standby1` and so on.
    pub(crate) fn metadata_address(&self, name: &str) -> Option<&str> {
        if name == METADATA_NAME {
            return Some(&self.metadata.address);
        }
        let number: usize = name.strip_prefix(STANDBY_NAME)?.parse().ok()?;
        self.metadata.standby.get(number.checked_sub(1)?).map(String::as_str)
    }

    /// Returns whether there are standby metadata services.
    pub fn has_standbys(&self) -> bool {
        !self.metadata.standby.is_empty()
    }

    /// Returns the store map for clients.
    pub fn map(&self) -> StoreMap {
        let servers = self.servers.iter();
        let address = |s: &ServerConfig| pinned(&s.address, self.pin(s.key));
        let entry = |s: &ServerConfig| ServerEntry { name: s.name.clone(), node: s.node.clone(), address: address(s) };
        let targets = (0..).zip(servers.clone()).flat_map(|(server, s)| {
            let entry = move |(target, directory): &(TargetId, PathBuf)| TargetEntry {
                target: *target,
                server,
                directory: directory.display().to_string(),
            };
            s.targets.iter().map(entry)
        });
        StoreMap { store: self.store, servers: servers.clone().map(entry).collect(), targets: targets.collect() }
    }

    /// Returns the I/O server of this name.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], with the existing names.
    pub fn server(&self, name: &str) -> Result<&ServerConfig> {
        self.servers.iter().find(|s| s.name == name).ok_or_else(|| {
            let mut names = vec![METADATA_NAME];
            let standbys: Vec<String> = (1..=self.metadata.standby.len()).map(|number| format!("{STANDBY_NAME}{number}")).collect();
            names.extend(standbys.iter().map(String::as_str));
            names.extend(self.servers.iter().map(|s| s.name.as_str()));
            Error::new(ErrorKind::NotFound, format!("{} has no server `{name}`: it has {}", self.path.display(), names.join(", ")))
        })
    }
}

/// Checks the file's values; errors name the line.
struct Checker<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Checker<'_> {
    fn check(&self, file: File) -> Result<StoreConfig> {
        let store = u64::from_str_radix(file.store.get_ref(), 16)
            .ok()
            .filter(|id| *id != 0 && file.store.get_ref().len() == 16)
            .ok_or_else(|| self.error(&file.store, "store", "expected 16 hexadecimal digits"))?;
        let base = self.path.parent().unwrap_or(Path::new(""));
        let mut addresses = vec![self.address("metadata.address", &file.metadata.address)?];
        for standby in &file.metadata.standby {
            let address = self.address("metadata.standby", standby)?;
            if addresses.contains(&address) {
                return Err(self.error(standby, "metadata.standby", "two servers have this address"));
            }
            if file.metadata.database.is_none() {
                let problem = "expected a `database` on a PostgreSQL server too: an embedded database serves a single service";
                return Err(self.error(standby, "metadata.standby", problem));
            }
            addresses.push(address);
        }
        let mut directories = vec![self.metadata_directory(base, &file.metadata)?];
        let metadata = MetadataConfig {
            address: addresses[0].clone(),
            directory: directories[0].clone(),
            database: file.metadata.database.as_ref().map(|database| self.database(database)).transpose()?,
            standby: addresses[1..].to_vec(),
            node: file.metadata.node.as_ref().map(|n| self.label("metadata.node", n)).transpose()?,
            key: self.key("metadata.key", file.metadata.key.as_ref())?,
        };
        if file.servers.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, format!("{}: servers: a store needs at least one I/O server", self.path.display())));
        }
        if file.servers.len() > SERVERS {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("{}: {} servers: at most {SERVERS} are possible", self.path.display(), file.servers.len()),
            ));
        }
        let mut servers: Vec<ServerConfig> = Vec::new();
        let mut numbers = (0..).map(TargetId);
        for server in &file.servers {
            let name = self.label("servers.name", &server.name)?;
            if name == METADATA_NAME || servers.iter().any(|s| s.name == name) {
                return Err(self.error(&server.name, "servers.name", "two servers have this name"));
            }
            let address = self.address("servers.address", &server.address)?;
            if addresses.contains(&address) {
                return Err(self.error(&server.address, "servers.address", "two servers have this address"));
            }
            addresses.push(address.clone());
            if server.targets.is_empty() || server.targets.len() > limits::TARGETS {
                let expected = format!("expected 1 to {} targets, there are {}", limits::TARGETS, server.targets.len());
                return Err(self.error(&server.name, "servers.targets of", &expected));
            }
            let mut targets = Vec::new();
            for target in &server.targets {
                let directory = self.directory(base, "servers.targets", target)?;
                if directories.contains(&directory) {
                    return Err(self.error_at(target.span(), "servers.targets", &directory.display(), "used twice"));
                }
                directories.push(directory.clone());
                targets.push((numbers.next().expect("an endless range"), directory));
            }
            let node = server.node.as_ref().map_or_else(|| Ok(machine::host_name()), |n| self.label("servers.node", n))?;
            let key = self.key("servers.key", server.key.as_ref())?;
            servers.push(ServerConfig { name, node, address, targets, key });
        }
        let credential = file.credential.as_ref().map(|c| self.directory(base, "credential", c)).transpose()?;
        let credential = credential.map_or_else(|| StoreConfig::usual_credential(self.path), Ok)?;
        Ok(StoreConfig { path: self.path.to_owned(), store, metadata, servers, credential, plain: file.plain })
    }

    fn label(&self, field: &str, value: &toml::Spanned<String>) -> Result<String> {
        let label = value.get_ref();
        if !is_label(label, 64) {
            return Err(self.error(value, field, "expected 1 to 64 letters, digits, `.`, `_` and `-`"));
        }
        Ok(label.clone())
    }

    fn address(&self, field: &str, value: &toml::Spanned<String>) -> Result<String> {
        check_address(value.get_ref()).map_err(|problem| self.error(value, field, &problem))?;
        Ok(value.get_ref().clone())
    }

    fn key(&self, field: &str, value: Option<&toml::Spanned<String>>) -> Result<Option<Fingerprint>> {
        let read =
            |value: &toml::Spanned<String>| value.get_ref().parse().map_err(|problem: Error| self.error(value, field, problem.message()));
        value.map(read).transpose()
    }

    /// The directory is optional if there is a `database`.
    fn metadata_directory(&self, base: &Path, metadata: &FileMetadata) -> Result<PathBuf> {
        match &metadata.directory {
            Some(directory) => self.directory(base, "metadata.directory", directory),
            None if metadata.database.is_some() => std::path::absolute(base.join("metadata")).map_err(|e| Error::system(base.display(), e)),
            None => {
                let problem = "metadata: expected a `directory`, or a `database` on a PostgreSQL server";
                Err(Error::new(ErrorKind::Invalid, format!("{}: {problem}", self.path.display())))
            }
        }
    }

    fn database(&self, value: &toml::Spanned<String>) -> Result<String> {
        // The error shows the address without its password.
        let line = line_of(self.text, value.span().start);
        Server::parse(value.get_ref())
            .map_err(|error| Error::new(ErrorKind::Invalid, format!("{}:{line}: metadata.database: {error}", self.path.display())))?;
        Ok(value.get_ref().clone())
    }

    fn directory(&self, base: &Path, field: &str, value: &toml::Spanned<PathBuf>) -> Result<PathBuf> {
        if value.get_ref().as_os_str().is_empty() {
            return Err(self.error_at(value.span(), field, &"", "expected a directory"));
        }
        let joined = base.join(value.get_ref());
        std::path::absolute(&joined).map_err(|e| Error::system(joined.display(), e))
    }

    fn error(&self, value: &toml::Spanned<String>, field: &str, problem: &str) -> Error {
        self.error_at(value.span(), field, value.get_ref(), problem)
    }

    fn error_at(&self, span: std::ops::Range<usize>, field: &str, value: &dyn std::fmt::Display, problem: &str) -> Error {
        let line = line_of(self.text, span.start);
        Error::new(ErrorKind::Invalid, format!("{}:{line}: {field} `{value}`: {problem}", self.path.display()))
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"store = "00000000000000a1"

[metadata]
address = "127.0.0.1:7400"
directory = "metadata"

[[servers]]
name = "io0"
node = "n0"
address = "127.0.0.1:7401"
targets = ["a", "b"]

[[servers]]
name = "io1"
address = "[::1]:7402"
targets = ["/x/c"]
"#;

    fn error(text: &str) -> String {
        StoreConfig::parse(Path::new("/s/store.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn targets_are_numbered_in_the_order_of_the_file() {
        let config = StoreConfig::parse(Path::new("/s/store.toml"), GOOD).unwrap();
        let map = config.map();
        let targets: Vec<_> = map.targets.iter().map(|t| (t.target.0, t.server, t.directory.as_str())).collect();
        assert_eq!(targets, [(0, 0, "/s/a"), (1, 0, "/s/b"), (2, 1, "/x/c")]);
        assert_eq!(map.target(TargetId(2)).unwrap().1.name, "io1");
        assert_eq!(config.server("io7").unwrap_err().message(), "/s/store.toml has no server `io7`: it has metadata, io0, io1");
    }

    #[test]
    fn a_password_is_written_nowhere_but_into_a_file_of_mode_600_and_an_older_file_says_how_that_is_mended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.toml");
        let text = GOOD.replace("[metadata]", "[metadata]\ndatabase = \"postgresql://me:secret@db/names\"");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let config = StoreConfig::read(&path).unwrap();
        let said = config.password_warning().expect("it is there");
        assert!(said.contains("thalweg credential password") && !said.contains("secret"), "{said}");
        let moved = config.move_password().unwrap().expect("it was there");
        assert_eq!(
            (std::fs::read_to_string(&moved).unwrap().as_str(), std::fs::metadata(&moved).unwrap().mode() & 0o777),
            ("secret\n", 0o600)
        );
        let written = StoreConfig::read(&path).unwrap();
        assert_eq!(written.metadata.database.as_deref(), Some("postgresql://me@db/names"));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o644, "who could read it still can");
        assert!(written.password_warning().is_none() && written.move_password().unwrap().is_none());
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.toml");
        let mut config = StoreConfig::parse(&path, GOOD).unwrap();
        // The store's first directory is a target, and holds the file.
        config.servers[0].targets[0].1 = directory.path().to_owned();
        config.metadata.database = Some("postgresql://me@db/names".into());
        config.metadata.standby = vec!["10.0.0.2:7400".into(), "10.0.0.3:7400".into()];
        assert_eq!(config.service(), "127.0.0.1:7400,10.0.0.2:7400,10.0.0.3:7400");
        let listens = ["metadata", "standby1", "standby2", "standby3", "standby0"].map(|name| config.metadata_address(name));
        assert_eq!(listens, [Some("127.0.0.1:7400"), Some("10.0.0.2:7400"), Some("10.0.0.3:7400"), None, None]);
        config.write().unwrap();
        assert_eq!(StoreConfig::read(&path).unwrap(), config);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn each_mistake_is_named_with_its_line() {
        let wrong = |from: &str, to: &str| error(&GOOD.replace(from, to));
        assert_eq!(wrong("\"io1\"", "\"io0\""), "/s/store.toml:14: servers.name `io0`: two servers have this name");
        assert_eq!(wrong("\"/x/c\"", "\"b\""), "/s/store.toml:16: servers.targets `/s/b`: used twice");
        assert_eq!(
            wrong("[::1]:7402", "127.0.0.1:7401"),
            "/s/store.toml:15: servers.address `127.0.0.1:7401`: two servers have this address"
        );
        assert!(wrong("127.0.0.1:7400", "127.0.0.1").starts_with("/s/store.toml:4: metadata.address `127.0.0.1`: expected HOST:PORT"));
        assert!(wrong("node = \"n0\"", "nod = \"n0\"").starts_with("/s/store.toml:9: `nod` is not known to thalweg"));
        assert!(wrong("name = \"io1\"\n", "").contains("missing field `name`"));
        assert!(wrong("[\"a\", \"b\"]", "[]").contains("expected 1 to 256 targets, there are 0"));
        assert!(wrong("00000000000000a1", "a1").starts_with("/s/store.toml:1: store `a1`: expected 16"));
        assert!(
            error("store = \"00000000000000a1\"\nservers = []\n[metadata]\naddress = \"h:1\"\ndirectory = \"m\"\n")
                .contains("at least one")
        );
        assert!(wrong("directory = \"metadata\"\n", "").contains("expected a `directory`, or a `database`"));
        let standby = wrong("directory = \"metadata\"", "directory = \"metadata\"\nstandby = [\"h:1\"]");
        assert!(standby.starts_with("/s/store.toml:6: metadata.standby `h:1`: expected a `database`"), "{standby}");
        let database = wrong("directory = \"metadata\"", "database = \"mysql://me:secret@host/names\"");
        assert!(database.starts_with("/s/store.toml:5: metadata.database: ") && !database.contains("secret"), "{database}");
        assert!(error("store = ").starts_with("/s/store.toml:1: "));
    }
}

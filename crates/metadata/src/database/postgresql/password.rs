//! Finding the password of a PostgreSQL server outside its address.
//!
//! The sources, in order: the address, `PGPASSWORD`, `database.password` beside `store.toml`, and PostgreSQL's own password file
//! (`PGPASSFILE`, by default `~/.pgpass`), as in libpq. libpq ignores a password file that others can read, with a warning; here it is an
//! error, since otherwise the session would be refused for a less obvious reason. Clients get `store.toml`, so no password is written to
//! it.

use postgres::Config;
use postgres::config::Host;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thalweg_wire::{Error, ErrorKind, Result};

/// The environment variable for a password.
const VARIABLE: &str = "PGPASSWORD";
/// The password file beside `store.toml`.
const BESIDE: &str = "database.password";
/// Bound: maximum bytes of a password file.
const FILE_BYTES: u64 = 64 << 10;

/// Returns the path of the password file beside a `store.toml`.
pub fn file_beside(store_toml: &Path) -> PathBuf {
    store_toml.with_file_name(BESIDE)
}

/// Adds a password to the configuration if the address has none and one is found.
///
/// # Errors
/// [`ErrorKind::Access`] if others can read a password file; or an I/O error.
pub(super) fn find(config: &mut Config, store_toml: Option<&Path>) -> Result<()> {
    if config.get_password().is_some() {
        return Ok(());
    }
    if let Some(password) = std::env::var_os(VARIABLE) {
        config.password(password.as_bytes());
        return Ok(());
    }
    if let Some(text) = store_toml.map(|path| read(&file_beside(path))).transpose()?.flatten() {
        config.password(text.lines().next().unwrap_or("").as_bytes());
        return Ok(());
    }
    if let Some(text) = passfile().map(|path| read(&path)).transpose()?.flatten()
        && let Some(password) = in_passfile(&text, &asked(config))
    {
        config.password(password.as_bytes());
    }
    Ok(())
}

/// Returns the path of PostgreSQL's own password file.
fn passfile() -> Option<PathBuf> {
    let named = std::env::var_os("PGPASSFILE").filter(|path| !path.is_empty());
    named.map(PathBuf::from).or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".pgpass")))
}

/// Reads a file that must be readable by its user only; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<String>> {
    let shown = path.display();
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(Error::system(shown, e)),
    };
    let about = file.metadata().map_err(|e| Error::system(&shown, e))?;
    if about.is_file() && about.mode() & 0o077 != 0 {
        let problem =
            format!("{shown}: other users can read or change these passwords (mode {:o}): run chmod 600 {shown}", about.mode() & 0o777);
        return Err(Error::new(ErrorKind::Access, problem));
    }
    let mut text = String::new();
    file.take(FILE_BYTES).read_to_string(&mut text).map_err(|e| Error::system(&shown, e))?;
    Ok(Some(text))
}

/// Returns the fields that a line of the password file is matched against: host, port, database and user.
fn asked(config: &Config) -> [String; 4] {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        // libpq calls its default directory `localhost`.
        Some(Host::Unix(path)) if path == Path::new("/var/run/postgresql") => "localhost".to_owned(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => config.get_hostaddrs().first().map_or_else(String::new, ToString::to_string),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().map(str::to_owned);
    let user = user.or_else(|| std::env::var("USER").ok()).unwrap_or_default();
    let database = config.get_dbname().map_or_else(|| user.clone(), str::to_owned);
    [host, port, database, user]
}

/// Returns the password of the first line that matches this server: `HOST:PORT:DATABASE:USER:PASSWORD`, where `*` matches anything, and `\`
/// escapes `:` and `\`.
fn in_passfile(text: &str, asked: &[String; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let is_about = fields.len() == 5 && asked.iter().zip(&fields).all(|(asked, field)| field == "*" || field == asked);
        is_about.then(|| fields.into_iter().next_back())?
    })
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let more = fields.len() < 5;
        let last = fields.last_mut().expect("there is one from the beginning");
        match letter {
            '\\' => last.extend(letters.next()),
            ':' if more => fields.push(String::new()),
            other => last.push(other),
        }
    }
    fields
}

/// Returns the password in an address, in any notation.
fn of_address(address: &str) -> Option<String> {
    Some(String::from_utf8_lossy(address.parse::<Config>().ok()?.get_password()?).into_owned())
}

/// Returns whether an address contains a password.
pub fn is_in(address: &str) -> bool {
    of_address(address).is_some()
}

/// Splits an address into the address without a password and the password; `None` if it has none, or one that cannot be separated.
pub fn split(address: &str) -> Option<(String, String)> {
    let password = of_address(address)?;
    let (scheme, rest) = address.split_once("://")?;
    let (location, query) = rest.split_once('?').map_or((rest, None), |(location, query)| (location, Some(query)));
    let location = match location.split_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split_once(':').map_or(user, |(name, _)| name)),
        None => location.to_owned(),
    };
    // The parser decides what is a password: `%70assword=` is one too.
    let kept: Vec<&str> =
        query.into_iter().flat_map(|query| query.split('&')).filter(|part| !is_in(&format!("{scheme}:///?{part}"))).collect();
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    let without = format!("{scheme}://{location}{query}");
    (!is_in(&without)).then_some((without, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_its_password_are_parted_wherever_the_password_stands() {
        for (address, without, password) in [
            ("postgresql://me:se%3Acret@db:5433/names", "postgresql://me@db:5433/names", "se:cret"),
            ("postgresql://me@db/names?password=x&user=me", "postgresql://me@db/names?user=me", "x"),
            ("postgresql:///names?host=/run/pg&password=x", "postgresql:///names?host=/run/pg", "x"),
            ("postgres://me:a@one,two/names?password=b", "postgres://me@one,two/names", "b"),
            ("postgresql://me@db/names?%70assw%6Frd=x&port=5433", "postgresql://me@db/names?port=5433", "x"),
        ] {
            assert_eq!(split(address), Some((without.to_owned(), password.to_owned())), "{address}");
        }
        assert_eq!(split("postgresql://me@db/names"), None);
    }

    #[test]
    fn a_file_of_passwords_is_read_as_libpq_reads_it() {
        let text = "# a comment\nother:5432:names:me:no\ndb:*:names:me:with\\:colon\\\\\n*:*:*:*:any\n";
        let asked = |host: &str, user: &str| [host, "5432", "names", user].map(str::to_owned);
        assert_eq!(in_passfile(text, &asked("db", "me")).unwrap(), "with:colon\\");
        assert_eq!(in_passfile(text, &asked("db", "you")).unwrap(), "any");
        assert_eq!(in_passfile("db:5432:names:me", &asked("db", "me")), None);
        assert_eq!(in_passfile("db:5432:names:me:a:b", &asked("db", "me")).unwrap(), "a:b");
    }

    #[test]
    fn a_file_of_passwords_that_others_can_read_is_refused_with_the_command_that_mends_it() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let (store, path) = (directory.path().join("store.toml"), directory.path().join(BESIDE));
        let parse = || "postgresql://me@db/names".parse::<Config>().unwrap();
        std::fs::write(&path, "secret\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let error = find(&mut parse(), Some(&store)).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Access && error.message().contains("chmod 600") && !error.message().contains("secret"),
            "{error}"
        );
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let mut config = parse();
        find(&mut config, Some(&store)).unwrap();
        assert_eq!(config.get_password(), Some(b"secret".as_slice()));
    }
}

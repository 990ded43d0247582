//! The store's credential at a start: found, or created with a new store.

use crate::config::{METADATA_NAME, StoreConfig};
use thalweg_base::private;
use thalweg_wire::address::resolve;
use thalweg_wire::trust::{Credential, Rights};
use thalweg_wire::{Error, ErrorKind, Result};
use thalweg_wire::{Fingerprint, ServerKey};

/// The name of the read-only credential, beside the store's own.
const READ_ONLY: &str = "read-only.credential";

/// Finds the store's credential, or creates one if there is none and `makes` is set; then returns a note for the user, too.
///
/// # Errors
/// [`ErrorKind::Absent`] if there is none; an error if it is another store's, or one issued to a user of this store.
pub(super) fn find(config: &StoreConfig, makes: bool) -> Result<(Credential, Option<String>)> {
    let (path, mut note) = (&config.credential, None);
    let shown = path.display();
    if makes && !path.exists() {
        if let Some(directory) = path.parent() {
            private::make_directory(directory).map_err(|e| Error::system(directory.display(), e))?;
        }
        if Credential::new_store(config.store).write_new(path)? {
            note = Some(format!("{shown} opens this store; only its owner can read it"));
        }
    }
    let credential = Credential::read(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let problem = format!(
                "{shown} is not there, the store's own credential: copy it from where the store was made (mode 600). If it never had one, \
                 `thalweg credential init {}` makes it",
                config.path.display()
            );
            Error::new(ErrorKind::Absent, problem)
        }
        _ => error,
    })?;
    if credential.store != config.store {
        let problem =
            format!("{shown} is a credential of store {:016x}, and this is {:016x}: give this store's own", credential.store, config.store);
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    if credential.identity.rights != Rights::Store {
        let problem = format!("{shown} is the credential of `{}`: servers need the store's own credential", credential.identity.owner);
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    if makes {
        credential.read_only()?.write(&path.with_file_name(READ_ONLY))?;
    }
    Ok((credential, note))
}

/// Returns a server's key, derived from the store's secret and the server's name, so that it need not be stored.
///
/// # Errors
/// An error of the TLS library.
pub(super) fn key_of(credential: &Credential, server: &str) -> Result<ServerKey> {
    let root = credential.root().ok_or_else(|| Error::new(ErrorKind::Access, "only the store's own credential has its servers' keys"))?;
    ServerKey::from_seed(&root.server_seed(server))
}

/// Sets the fingerprints of those servers among `needed` that encrypt, which are all whose addresses are not known to be loopback.
///
/// # Errors
/// An error of the TLS library.
pub(super) fn pin_servers(config: &mut StoreConfig, credential: &Credential, needed: impl Fn(&str) -> bool) -> Result<()> {
    let plain = config.plain;
    let key = |name: &str, address: &str| -> Result<Option<Fingerprint>> {
        let encrypts = !plain && !resolve(address).is_ok_and(|address| address.ip().is_loopback());
        encrypts.then(|| key_of(credential, name).map(|key| key.fingerprint())).transpose()
    };
    if needed(METADATA_NAME) {
        config.metadata.key = key(METADATA_NAME, &config.metadata.address)?;
    }
    config.servers.iter_mut().filter(|server| needed(&server.name)).try_for_each(|server| {
        server.key = key(&server.name, &server.address)?;
        Ok(())
    })
}

/// Creates the credential of a store that has none.
///
/// # Errors
/// [`ErrorKind::Exists`] if it has one.
pub fn init(config: &StoreConfig) -> Result<String> {
    match find(config, true)? {
        (_, Some(note)) => Ok(note),
        (_, None) => Err(Error::new(ErrorKind::Exists, format!("{} exists: the store has a credential", config.credential.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_given_a_credential_once_and_is_not_started_with_anybody_elses() {
        let directory = tempfile::tempdir().unwrap();
        let text = "store = \"00000000000000a1\"\n[metadata]\naddress = \"127.0.0.1:1\"\ndirectory = \"m\"\n[[servers]]\nname = \"io0\"\naddress = \
                    \"127.0.0.1:2\"\ntargets = [\"a\"]\n";
        let config = StoreConfig::parse(&directory.path().join("store.toml"), text).unwrap();
        let error = find(&config, false).unwrap_err();
        assert!(error.kind() == ErrorKind::Absent && error.message().contains("credential init"), "{error}");
        let (first, note) = find(&config, true).unwrap();
        assert!(note.is_some());
        assert_eq!(find(&config, true).unwrap(), (first.clone(), None));
        assert_eq!(Credential::read(&directory.path().join(READ_ONLY)).unwrap(), first.read_only().unwrap());
        assert_eq!(init(&config).unwrap_err().kind(), ErrorKind::Exists);
        for wrong in [first.read_only().unwrap(), Credential::new_store(9)] {
            wrong.write(&config.credential).unwrap();
            assert_eq!(find(&config, true).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
}

//! A credential: its owner's identity, and the secret that proves it. Stored in a file of its own, readable by its owner only.
//!
//! ```toml
//! store = "5f0c1d2e3a4b5968"
//! owner = "ana"
//! rights = "write"                            # read, write, or store: the store's own
//! id = "7b1f..."                              # 32 hexadecimal digits
//! until = 1798761600                          # seconds since 1970; left out: never expires
//! lots = 107374182400                         # bytes that the owner may reserve in lots together; left out: the store's default
//! lots_for = 2592000                          # seconds that a lot may last; left out: the store's default
//! secret = "90c4..."                          # 64 hexadecimal digits
//! ```
//!
//! The store's own credential holds the secret from which all others are derived: servers check any credential of their store
//! without a list. (Rejected: a list at each server, which must be distributed before a credential works; signed tokens, which do
//! not prove who sends them unless bound to a connection.)

use super::hex;
use super::identity::{CredentialId, Identity, LotBounds, NAME_BYTES, Rights};
use super::secret::Secret;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::names::is_label;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;
use thalweg_base::durable;
use thalweg_base::private;
use thalweg_base::random;
use thalweg_base::release;

/// Maximum size of a credential file.
const FILE_BYTES: u64 = 16 << 10;
/// The comment at the top of the file.
const NOTE: &str = "# A credential of a Thalweg store. It opens the store: keep it to yourself, and readable by you alone (mode 600).\n";

/// A credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The store it opens.
    pub store: u64,
    /// Its owner and claims.
    pub identity: Identity,
    /// For the store's own credential, the secret from which all others are derived; for others, their own.
    secret: Secret,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    store: String,
    owner: String,
    rights: String,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lots: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lots_for: Option<u64>,
    secret: String,
}

impl Credential {
    /// Makes a new store's own credential.
    pub fn new_store(store: u64) -> Credential {
        Credential { store, identity: Identity::store(), secret: Secret::random() }
    }

    /// Derives an owner's credential from the store's own.
    ///
    /// # Errors
    /// [`ErrorKind::Access`] if this is not the store's own; [`ErrorKind::Invalid`] for an invalid name.
    pub fn derive(&self, owner: &str, rights: Rights, until_s: Option<u64>) -> Result<Credential> {
        self.derive_bounded(owner, rights, until_s, LotBounds::default())
    }

    /// Derives a credential with limits on its owner's lots.
    ///
    /// # Errors
    /// See [`Credential::derive`].
    pub fn derive_bounded(&self, owner: &str, rights: Rights, until_s: Option<u64>, lots: LotBounds) -> Result<Credential> {
        check_name(owner)?;
        // The store's own owner acts for the store: a credential of that name would too.
        if owner == super::STORE_OWNER {
            let problem = format!("`{owner}` is the owner's name in the store's own credential: choose another name");
            return Err(Error::new(ErrorKind::Invalid, problem));
        }
        let id = CredentialId(random::bytes());
        self.derived(Identity { id, owner: owner.to_owned(), rights, until_s, lots })
    }

    /// Derives the store's read-only credential: always the same for one store.
    ///
    /// # Errors
    /// See [`Credential::derive`].
    pub fn read_only(&self) -> Result<Credential> {
        let full = self.secret.sign("thalweg read-only", &[]);
        let id = CredentialId(full[..16].try_into().expect("16 of 32 bytes"));
        let lots = LotBounds::default();
        self.derived(Identity { id, owner: super::STORE_OWNER.to_owned(), rights: Rights::Read, until_s: None, lots })
    }

    fn derived(&self, identity: Identity) -> Result<Credential> {
        if self.identity.rights != Rights::Store {
            let problem = format!("only the store's own credential makes others: this one is `{}`'s", self.identity.owner);
            return Err(Error::new(ErrorKind::Access, problem));
        }
        Ok(Credential { store: self.store, secret: self.secret.of(&identity), identity })
    }

    /// Returns the secret to prove.
    pub(crate) fn proving(&self) -> Secret {
        if self.identity.rights == Rights::Store { self.secret.of(&self.identity) } else { self.secret.clone() }
    }

    /// Returns the store's secret, if this is the store's own credential.
    pub fn root(&self) -> Option<&Secret> {
        (self.identity.rights == Rights::Store).then_some(&self.secret)
    }

    /// Reads a credential file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Access`] when others can read the file, with the command that fixes it; other
    /// problems, without a byte of the contents.
    pub fn read(path: &Path) -> Result<Credential> {
        let shown = path.display();
        // Non-blocking, because opening a pipe without a writer would block.
        let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let file = opened.map_err(|e| Error::system(format!("credential {shown}"), e))?;
        let about = file.metadata().map_err(|e| Error::system(format!("credential {shown}"), e))?;
        if !about.is_file() || about.len() > FILE_BYTES {
            return Err(Error::new(ErrorKind::Invalid, format!("{shown}: not a credential: expected a file of a few lines")));
        }
        if about.mode() & 0o077 != 0 {
            let problem =
                format!("{shown}: others may read or change this credential (mode {:o}): chmod 600 {shown}", about.mode() & 0o777);
            return Err(Error::new(ErrorKind::Access, problem));
        }
        let mine = rustix::process::geteuid().as_raw();
        if about.uid() != mine && mine != 0 {
            let problem = format!("{shown}: this credential belongs to user {}, not to you ({mine}): copy it with mode 600", about.uid());
            return Err(Error::new(ErrorKind::Access, problem));
        }
        let mut text = String::new();
        file.take(FILE_BYTES).read_to_string(&mut text).map_err(|e| Error::system(format!("credential {shown}"), e))?;
        Credential::parse(&text).map_err(|problem| Error::new(ErrorKind::Invalid, format!("{shown}: not a credential: {problem}")))
    }

    fn parse(text: &str) -> std::result::Result<Credential, String> {
        // The parser's message may quote the line, including the secret.
        let written: Written = toml::from_str(text).map_err(|e| {
            // (Of an unknown key, only its name.)
            let unknown = e.message().strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
            let wrong = || "expected store, owner, rights, id and secret, as `credential create` writes them".to_owned();
            unknown.map_or_else(wrong, release::unknown_key)
        })?;
        let store = u64::from_str_radix(&written.store, 16).map_err(|_| "store: expected 16 hexadecimal digits")?;
        let rights =
            Rights::ALL.into_iter().find(|rights| rights.name() == written.rights).ok_or("rights: expected read, write or store")?;
        let id = CredentialId(hex::from_hex(&written.id).ok_or("id: expected 32 hexadecimal digits")?);
        let secret = Secret::parse(&written.secret).ok_or("secret: expected 64 hexadecimal digits")?;
        check_name(&written.owner).map_err(|_| "owner: expected 1 to 63 of A-Z a-z 0-9 . _ -")?;
        let lots =
            LotBounds::new(written.lots, written.lots_for.map(Duration::from_secs)).map_err(|_| "lots: expected bytes and seconds")?;
        let identity = Identity { id, owner: written.owner, rights, until_s: written.until, lots };
        let is_store = rights == Rights::Store || id == CredentialId::default();
        if is_store != (identity == Identity::store()) {
            return Err("rights: only the store's own credential has `store`".to_owned());
        }
        Ok(Credential { store, identity, secret })
    }

    fn text(&self) -> Result<String> {
        let written = Written {
            store: format!("{:016x}", self.store),
            owner: self.identity.owner.clone(),
            rights: self.identity.rights.name().to_owned(),
            id: self.identity.id.to_string(),
            until: self.identity.until_s,
            lots: self.identity.lots.most_bytes(),
            lots_for: self.identity.lots.longest().map(|time| time.as_secs()),
            secret: self.secret.reveal(),
        };
        let body = toml::to_string(&written).map_err(|_| Error::new(ErrorKind::Invalid, "the credential cannot be written as text"))?;
        Ok(format!("{NOTE}{body}"))
    }

    /// Writes the credential atomically to a file readable by its owner only, replacing any file of that name.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = self.text()?;
        if durable::is_there(&text, path) && Credential::read(path).is_ok() {
            return Ok(());
        }
        self.put(path, &text, |file, draft| durable::publish(file, draft, path))
    }

    /// Writes the credential with a comment line in front, replacing any file of that name.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn write_with(&self, comment: &str, path: &Path) -> Result<()> {
        let text = format!("# {comment}\n{}", self.text()?);
        self.put(path, &text, |file, draft| durable::publish(file, draft, path))
    }

    /// Writes the credential unless a file of that name exists; returns whether it was written. Of several concurrent calls, one
    /// succeeds.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_new(&self, path: &Path) -> Result<bool> {
        let mut is_new = true;
        self.put(path, &self.text()?, |file, draft| {
            file.sync_data()?;
            let linked = std::fs::hard_link(draft, path);
            let _ = std::fs::remove_file(draft);
            match linked {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => is_new = false,
                other => other?,
            }
            durable::sync_parent(path)
        })?;
        Ok(is_new)
    }

    fn put(&self, path: &Path, text: &str, publish: impl FnOnce(&File, &Path) -> std::io::Result<()>) -> Result<()> {
        let draft = path.with_file_name(format!(
            ".{}.{}",
            path.file_name().unwrap_or_default().to_string_lossy(),
            hex::to_hex(&random::bytes::<8>())
        ));
        let written = || -> std::io::Result<()> {
            let mut file = private::files().write(true).create_new(true).open(&draft)?;
            file.write_all(text.as_bytes()).and_then(|()| publish(&file, &draft)).inspect_err(|_| drop(std::fs::remove_file(&draft)))
        };
        written().map_err(|e| Error::system(format!("credential {}", path.display()), e))
    }
}

/// Checks an owner's name.
///
/// # Errors
/// The expected syntax.
pub fn check_name(name: &str) -> Result<()> {
    if is_label(name, NAME_BYTES) && !name.starts_with('-') {
        return Ok(());
    }
    let problem =
        format!("`{}` is not an owner's name: expected 1 to {NAME_BYTES} of A-Z a-z 0-9 . _ -, not beginning with -", name.escape_debug());
    Err(Error::new(ErrorKind::Invalid, problem))
}

#[cfg(test)]
mod tests {
    use super::super::STORE_OWNER;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_credential_is_written_for_its_owner_alone_and_reads_back_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c");
        let store = Credential::new_store(7);
        let ana = store.derive("ana", Rights::Write, Some(12)).unwrap();
        let bounds = LotBounds::new(Some(100 << 30), Some(Duration::from_secs(30 * 86_400))).unwrap();
        let bob = store.derive_bounded("bob", Rights::Write, None, bounds).unwrap();
        assert_eq!((bob.identity.lots.most_bytes(), bounds.longest()), (Some(100 << 30), Some(Duration::from_secs(30 * 86_400))));
        for credential in [&store, &ana, &bob, &store.read_only().unwrap()] {
            credential.write(&path).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
            assert_eq!(&Credential::read(&path).unwrap(), credential);
            assert!(!format!("{credential:?}").contains(&credential.secret.reveal()[..8]));
        }
        assert!(!store.write_new(&path).unwrap(), "what is there stays");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "no draft is left");
        assert_eq!(store.read_only().unwrap(), store.read_only().unwrap());
        assert_eq!(ana.derive("bob", Rights::Write, None).unwrap_err().kind(), ErrorKind::Access);
    }

    #[test]
    fn nobody_is_given_a_credential_in_the_name_of_the_store_itself() {
        let error = Credential::new_store(7).derive(STORE_OWNER, Rights::Write, None).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.message().contains("choose another name"), "{error}");
    }

    #[test]
    fn a_credential_that_others_can_read_is_refused_with_the_command_that_mends_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c");
        Credential::new_store(7).write(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Credential::read(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Access);
        assert!(error.message().contains(&format!("chmod 600 {}", path.display())), "{error}");
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_is_no_credential_and_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        let error = Credential::read(&path).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.message().contains("expected a file of a few lines"), "{error}");
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named_without_its_secret() {
        let store = Credential::new_store(7);
        let (text, secret) = (store.text().unwrap(), store.secret.reveal());
        for wrong in [
            text.replace("rights = \"store\"", "rights = \"write\""),
            text.replace("owner = \"store\"", "owner = \"\""),
            text.replace("id = \"0", "id = \"x"),
            text.replace("secret = \"", "secret = \"\""),
            text.replace("secret", "sekret"),
            text.replace(&secret, &secret[1..]),
        ] {
            let problem = Credential::parse(&wrong).unwrap_err();
            assert!(!problem.contains(&secret[8..16]), "{problem}");
        }
    }
}

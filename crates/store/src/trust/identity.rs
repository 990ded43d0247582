//! Who a client is: what its credential says, once it has proven that it has it.

use crate::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The owner's name in the store's own credential.
pub const STORE_OWNER: &str = "store";
/// An owner's name is at most this long, in bytes.
pub const NAME_BYTES: usize = 63;

/// A credential's number: random, so that nobody guesses one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CredentialId(pub [u8; 16]);

impl CredentialId {
    /// Its bytes as two numbers, for what is kept under a number.
    pub(crate) fn halves(self) -> [u64; 2] {
        let number = u128::from_le_bytes(self.0);
        [number as u64, (number >> 64) as u64]
    }
}

impl std::fmt::Display for CredentialId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for CredentialId {
    type Err = ();

    fn from_str(digits: &str) -> Result<CredentialId, ()> {
        super::hex::from_hex(digits).map(CredentialId).ok_or(())
    }
}

/// What a credential allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rights {
    /// Reading.
    Read,
    /// Reading and changing files; lots of its owner.
    Write,
    /// Everything: the store's own credential.
    Store,
}

impl Rights {
    /// All there are.
    pub(crate) const ALL: [Rights; 3] = [Rights::Read, Rights::Write, Rights::Store];

    /// As it is written in credentials, and shown.
    pub fn name(self) -> &'static str {
        match self {
            Rights::Read => "read",
            Rights::Write => "write",
            Rights::Store => "store",
        }
    }
}

/// What a credential says of its owner. Fixed when it is made: its secret is derived from this.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// Its number; the store's own has number 0.
    pub id: CredentialId,
    /// The owner: whose lots it may use.
    pub owner: String,
    /// What it allows.
    pub rights: Rights,
    /// Seconds since 1970 after which it is refused; `None`: never.
    pub until_s: Option<u64>,
}

impl Identity {
    /// The store's own.
    pub fn store() -> Identity {
        Identity { id: CredentialId::default(), owner: STORE_OWNER.to_owned(), rights: Rights::Store, until_s: None }
    }

    /// Whether this may use and change what belongs to `owner`: it is the owner's, or the store's own.
    pub fn acts_for(&self, owner: &str) -> bool {
        self.rights == Rights::Store || self.owner == owner
    }

    /// Refuses who is no server of the store: they have the store's own.
    ///
    /// # Errors
    /// [`ErrorKind::Access`].
    pub fn may_serve(&self) -> Result<()> {
        if self.rights == Rights::Store {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Access,
            format!("only servers say this, with the store's own credential, and this is `{}`'s", self.owner),
        ))
    }

    /// Refuses who may only read.
    ///
    /// # Errors
    /// [`ErrorKind::Access`].
    pub fn may_write(&self) -> Result<()> {
        match self.rights {
            Rights::Write | Rights::Store => Ok(()),
            Rights::Read => {
                let problem = format!("the credential of `{}` is for reading only: give one that may write with --credential", self.owner);
                Err(Error::new(ErrorKind::Access, problem))
            }
        }
    }
}

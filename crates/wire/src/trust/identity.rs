//! Who a client is: what its credential says, once it has proven that it has it.

use crate::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The owner's name in the store's own credential.
pub const STORE_OWNER: &str = "store";
/// An owner's name is at most this long, in bytes.
pub const NAME_BYTES: usize = 63;

/// A credential's number: random, so that nobody guesses one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CredentialId(pub [u8; 16]);

impl CredentialId {
    /// Its bytes as two numbers, for what is kept under a number.
    pub fn halves(self) -> [u64; 2] {
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

/// How much an owner may reserve in lots, and for how long at a time, as a credential says it: in whole MiB and minutes, few enough bytes for the
/// claims that are proven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LotBounds {
    /// One more than the MiB of all lots together; 0: it is not said.
    pub(super) size: u32,
    /// The minutes of one lot, from now on; 0: it is not said. Less than 2^24.
    pub(super) minutes: u32,
}

/// Bytes of what sizes are counted in.
const MIB: u64 = 1 << 20;
/// The largest number of MiB, and of minutes.
const MOST_MIB: u64 = u32::MAX as u64 - 1;
const MOST_MINUTES: u64 = (1 << 24) - 1;

impl LotBounds {
    /// As much as can be said, which is more than any lot asks for.
    pub const MOST: LotBounds = LotBounds { size: u32::MAX, minutes: MOST_MINUTES as u32 };

    /// So many bytes together, and so long; `None`: not said.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for what cannot be said.
    pub fn new(bytes: Option<u64>, time: Option<Duration>) -> Result<LotBounds> {
        let invalid = |problem: &str| Error::new(ErrorKind::Invalid, problem);
        let mib = bytes.map(|bytes| bytes / MIB);
        if bytes.is_some_and(|bytes| 0 < bytes && bytes < MIB) || mib.is_some_and(|mib| mib > MOST_MIB) {
            return Err(invalid("the size of all lots together is 0 (no lots), or 1 MiB to 4 PiB"));
        }
        let minutes = time.map(|time| time.as_secs() / 60);
        if minutes.is_some_and(|minutes| minutes == 0 || minutes > MOST_MINUTES) {
            return Err(invalid("the time of a lot is 1 minute to 31 years"));
        }
        Ok(LotBounds { size: mib.map_or(0, |mib| mib as u32 + 1), minutes: minutes.unwrap_or(0) as u32 })
    }

    /// Of all lots of the owner together; `None`: as for those whose credentials do not say.
    pub fn most_bytes(self) -> Option<u64> {
        (self.size > 0).then(|| u64::from(self.size - 1) * MIB)
    }

    /// Of one lot, from now on; `None`: as for those whose credentials do not say.
    pub fn longest(self) -> Option<Duration> {
        (self.minutes > 0).then(|| Duration::from_secs(u64::from(self.minutes) * 60))
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
    /// How much it may reserve.
    pub lots: LotBounds,
}

impl Identity {
    /// The store's own.
    pub fn store() -> Identity {
        Identity {
            id: CredentialId::default(),
            owner: STORE_OWNER.to_owned(),
            rights: Rights::Store,
            until_s: None,
            lots: LotBounds::default(),
        }
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

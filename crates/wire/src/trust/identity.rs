//! A client's identity: what its credential says, once proven.

use crate::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The owner's name in the store's own credential.
pub const STORE_OWNER: &str = "store";
/// Maximum length of an owner's name, bytes.
pub const NAME_BYTES: usize = 63;

/// A credential's random, unguessable number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CredentialId(pub [u8; 16]);

impl CredentialId {
    /// Returns the number as two halves, for tables keyed by `u64`.
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
    /// Reading, changing files, and the owner's lots.
    Write,
    /// Everything: the store's own credential.
    Store,
}

impl Rights {
    /// All rights.
    pub(crate) const ALL: [Rights; 3] = [Rights::Read, Rights::Write, Rights::Store];

    /// Returns the name used in credentials and shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Rights::Read => "read",
            Rights::Write => "write",
            Rights::Store => "store",
        }
    }
}

/// How much space an owner may reserve in lots, and for how long, in whole MiB and minutes so that both fit into the claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LotBounds {
    /// MiB of all lots together, plus one; 0: not set.
    pub(super) size: u32,
    /// Minutes one lot may last, from now; 0: not set. Less than 2^24.
    pub(super) minutes: u32,
}

/// The unit of sizes, bytes.
const MIB: u64 = 1 << 20;
/// The largest number of MiB, and of minutes.
const MOST_MIB: u64 = u32::MAX as u64 - 1;
const MOST_MINUTES: u64 = (1 << 24) - 1;

impl LotBounds {
    /// The largest bounds that can be encoded, beyond any lot's request.
    pub const MOST: LotBounds = LotBounds { size: u32::MAX, minutes: MOST_MINUTES as u32 };

    /// Makes bounds of `bytes` for all lots together and `time` for one; `None`: not set.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for bounds that cannot be encoded.
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

    /// Returns the maximum bytes of the owner's lots together; `None`: the store's default.
    pub fn most_bytes(self) -> Option<u64> {
        (self.size > 0).then(|| u64::from(self.size - 1) * MIB)
    }

    /// Returns the maximum duration of a lot, from now; `None`: the store's default.
    pub fn longest(self) -> Option<Duration> {
        (self.minutes > 0).then(|| Duration::from_secs(u64::from(self.minutes) * 60))
    }
}

/// The claims of a credential. Fixed when it is made: its secret is derived from them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The credential's number; 0 for the store's own.
    pub id: CredentialId,
    /// The owner, whose lots it may use.
    pub owner: String,
    /// What the credential allows.
    pub rights: Rights,
    /// Expiry in seconds since 1970; `None`: never.
    pub until_s: Option<u64>,
    /// Limits on the owner's lots.
    pub lots: LotBounds,
}

impl Identity {
    /// Returns the identity in the store's own credential.
    pub fn store() -> Identity {
        Identity {
            id: CredentialId::default(),
            owner: STORE_OWNER.to_owned(),
            rights: Rights::Store,
            until_s: None,
            lots: LotBounds::default(),
        }
    }

    /// Whether this identity may use and change what belongs to `owner`: as the owner, or as the store.
    pub fn acts_for(&self, owner: &str) -> bool {
        self.rights == Rights::Store || self.owner == owner
    }

    /// Refuses everyone but the store's servers, which have its own credential.
    ///
    /// # Errors
    /// [`ErrorKind::Access`].
    pub fn may_serve(&self) -> Result<()> {
        if self.rights == Rights::Store {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Access,
            format!(
                "only servers and who runs the store may do this, with the store's own credential; this credential is `{}`'s: give store.credential",
                self.owner
            ),
        ))
    }

    /// Refuses read-only credentials.
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

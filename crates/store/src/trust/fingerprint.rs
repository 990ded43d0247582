//! What a server's key is known by.

use super::secret::{from_hex, to_hex};

/// SHA-256 of a server's public key (its SubjectPublicKeyInfo, RFC 7250), as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Fingerprint, &'static str> {
        from_hex(text).map(Fingerprint).ok_or("expected 64 hexadecimal digits")
    }
}

//! A server's key, and the fingerprint by which clients know it.

use crate::error::{Error, ErrorKind, Result};
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Prefix of an Ed25519 public key's SPKI (RFC 8410), up to the key.
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Prefix of an Ed25519 private key's PKCS #8 version 1 (RFC 8410), up to the seed.
const PKCS8: [u8; 16] = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/// RFC 4648 base32, lower case.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Digits of a fingerprint's text: 256 bits, five each.
const TEXT_BYTES: usize = 52;

/// A server's key pair.
#[derive(Clone)]
pub struct ServerKey {
    pub(super) certified: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

impl ServerKey {
    /// Derives the key pair from 32 secret bytes, deterministically.
    ///
    /// # Errors
    /// The TLS library's; no seed is known to cause one.
    pub fn from_seed(seed: &[u8; 32]) -> Result<ServerKey> {
        let unusable =
            |problem: &dyn std::fmt::Display| Error::new(ErrorKind::Invalid, format!("cannot make a key from this seed: {problem}"));
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|e| unusable(&e))?;
        let spki = [&SPKI[..], pair.public_key().as_ref()].concat();
        let private = [&PKCS8[..], seed].concat();
        let signing = rustls::crypto::ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(private)).map_err(|e| unusable(&e))?;
        let fingerprint = Fingerprint::of(&spki);
        let certified = Arc::new(CertifiedKey::new(vec![CertificateDer::from(spki)], signing));
        Ok(ServerKey { certified, fingerprint })
    }

    /// Returns the fingerprint by which clients know the key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

impl std::fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerKey({})", self.fingerprint)
    }
}

/// SHA-256 of a server's public key (its SPKI). Written as 52 base32 digits in lower case, `a`–`z` and `2`–`7`; upper case is
/// accepted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Computes the fingerprint of a public key.
    pub(super) fn of(spki: &[u8]) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, spki).as_ref());
        Fingerprint(bytes)
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bit = |at: usize| self.0.get(at / 8).is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0);
        let digit = |number: usize| DIGITS[(number * 5..number * 5 + 5).fold(0, |value, at| value << 1 | usize::from(bit(at)))];
        let text: String = (0..TEXT_BYTES).map(|number| char::from(digit(number))).collect();
        f.pad(&text)
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Fingerprint> {
        let wrong = |problem: String| {
            let expected = "expected 52 letters a-z and digits 2-7, as `thalweg up` prints after `#`";
            Error::new(ErrorKind::Invalid, format!("`{text}` is not a server's fingerprint: {problem}; {expected}"))
        };
        if text.len() != TEXT_BYTES {
            return Err(wrong(format!("it has {} characters", text.chars().count())));
        }
        let mut bytes = [0_u8; 32];
        for (number, letter) in text.bytes().enumerate() {
            let value = DIGITS.iter().position(|digit| *digit == letter.to_ascii_lowercase());
            let value = value.ok_or_else(|| wrong(format!("character {} is not a base32 digit", number + 1)))?;
            for (at, bit) in (number * 5..).zip((0..5).rev()) {
                let is_set = value >> bit & 1 == 1;
                match bytes.get_mut(at / 8) {
                    Some(byte) => *byte |= u8::from(is_set) << (7 - at % 8),
                    None if is_set => return Err(wrong("its last character is invalid".to_owned())),
                    None => {}
                }
            }
        }
        Ok(Fingerprint(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_same_seed_gives_the_same_key_and_another_seed_another() {
        let of = |seed: u8| ServerKey::from_seed(&[seed; 32]).unwrap().fingerprint();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        // The text is part of addresses that people store: it never changes.
        assert_eq!(of(0).to_string(), "gopc76ixmmcqpnveeo244ccofbor7js5soz6e6tbsxj3x26jvyrq");
    }

    #[test]
    fn neither_seed_nor_private_key_is_in_what_debug_shows() {
        let seed: [u8; 32] = std::array::from_fn(|i| 0xa0 + i as u8);
        let shown = format!("{0:?} {0:#?}", ServerKey::from_seed(&seed).unwrap());
        for secret in ["a0a1a2", "160, 161", "A0, A1", "a0, a1"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    #[test]
    fn what_is_not_a_fingerprint_is_refused_with_what_it_should_be() {
        let good = Fingerprint([7; 32]).to_string();
        let of = |text: &str| text.parse::<Fingerprint>().unwrap_err().to_string();
        assert!(of("abc").contains("it has 3 characters; expected 52 letters"));
        assert!(of(&good.replacen(&good[..1], "1", 1)).contains("character 1 "));
        assert!(of(&format!("{}b", &good[..51])).contains("last character"), "one text for each");
        assert_eq!(good.to_uppercase().parse::<Fingerprint>().unwrap(), Fingerprint([7; 32]));
    }

    proptest! {
        #[test]
        fn a_fingerprint_is_read_back_from_its_text(bytes: [u8; 32]) {
            let text = Fingerprint(bytes).to_string();
            prop_assert_eq!(text.parse::<Fingerprint>().unwrap(), Fingerprint(bytes));
        }
    }
}

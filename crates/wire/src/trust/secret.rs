//! Secrets and values derived from them. HMAC-SHA256 throughout (RFC 2104, RFC 6234).

use super::hex::{from_hex, to_hex};
use super::identity::{CredentialId, Identity, LotBounds, NAME_BYTES, Rights};
use ring::hmac;
use thalweg_base::random;

/// Length of a secret, a nonce and a proof, bytes.
pub(crate) const SECRET_BYTES: usize = 32;
/// Length of an encoded identity, bytes.
pub(crate) const CLAIMS_BYTES: usize = 96;

/// 32 secret random bytes. Never printed; overwritten on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; SECRET_BYTES]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0 = [0; SECRET_BYTES];
        // Without this, the compiler would omit the overwriting of a value that is not read again.
        std::hint::black_box(&self.0);
    }
}

impl Secret {
    /// Makes a random secret.
    pub(crate) fn random() -> Secret {
        Secret(random::bytes())
    }

    /// Parses 64 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Secret> {
        Some(Secret(from_hex(text)?))
    }

    /// Returns the secret as 64 hexadecimal digits, for its credential file only.
    pub(crate) fn reveal(&self) -> String {
        to_hex(&self.0)
    }

    /// Returns the HMAC of `parts` under a label; different labels give different values.
    pub(crate) fn sign(&self, label: &str, parts: &[&[u8]]) -> [u8; SECRET_BYTES] {
        let mut bytes = [0; SECRET_BYTES];
        bytes.copy_from_slice(self.context(label, parts).sign().as_ref());
        bytes
    }

    /// Whether `value` is the result of [`Secret::sign`]; in constant time.
    pub(crate) fn verifies(&self, label: &str, parts: &[&[u8]], value: &[u8; SECRET_BYTES]) -> bool {
        hmac::verify(&self.key(), &message(label, parts), value).is_ok()
    }

    /// Derives a secret from which this one cannot be found.
    pub(crate) fn derive(&self, label: &str, parts: &[&[u8]]) -> Secret {
        Secret(self.sign(label, parts))
    }

    /// Derives the secret of an identity from the store's.
    pub(crate) fn of(&self, identity: &Identity) -> Secret {
        self.derive("thalweg credential", &[&encode(identity)])
    }

    /// Derives the seed of a server's TLS key from the store's secret.
    pub fn server_seed(&self, server: &str) -> [u8; SECRET_BYTES] {
        self.sign("thalweg server key", &[server.as_bytes()])
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }

    fn context(&self, label: &str, parts: &[&[u8]]) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.key());
        context.update(&message(label, parts));
        context
    }
}

/// Concatenates label and parts, each with its length: different lists give different bytes.
fn message(label: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut message = Vec::with_capacity(512);
    for part in std::iter::once(label.as_bytes()).chain(parts.iter().copied()) {
        message.extend_from_slice(&(part.len() as u64).to_le_bytes());
        message.extend_from_slice(part);
    }
    message
}

/// Encodes an identity in its fixed form: number (16 bytes), rights, length of the owner's name, the name (63), expiry (8; all
/// ones: never), and the lot bounds: MiB plus one (4) and minutes (3), each 0 if not set, as in credentials of earlier releases.
pub(crate) fn encode(identity: &Identity) -> [u8; CLAIMS_BYTES] {
    let mut bytes = [0; CLAIMS_BYTES];
    let name = &identity.owner.as_bytes()[..identity.owner.len().min(NAME_BYTES)];
    bytes[..16].copy_from_slice(&identity.id.0);
    bytes[16] = match identity.rights {
        Rights::Read => 1,
        Rights::Write => 2,
        Rights::Store => 3,
    };
    bytes[17] = name.len() as u8;
    bytes[18..18 + name.len()].copy_from_slice(name);
    bytes[81..89].copy_from_slice(&identity.until_s.unwrap_or(u64::MAX).to_le_bytes());
    bytes[89..93].copy_from_slice(&identity.lots.size.to_le_bytes());
    bytes[93..96].copy_from_slice(&identity.lots.minutes.to_le_bytes()[..3]);
    bytes
}

/// Decodes an identity; `None`: invalid. Only the canonical encoding is accepted.
pub(crate) fn decode(bytes: &[u8; CLAIMS_BYTES]) -> Option<Identity> {
    let rights = match bytes[16] {
        1 => Rights::Read,
        2 => Rights::Write,
        3 => Rights::Store,
        _ => return None,
    };
    let name = bytes.get(18..18 + usize::from(bytes[17]))?;
    let until = u64::from_le_bytes(bytes[81..89].try_into().ok()?);
    let identity = Identity {
        id: CredentialId(bytes[..16].try_into().ok()?),
        owner: std::str::from_utf8(name).ok()?.to_owned(),
        rights,
        until_s: (until != u64::MAX).then_some(until),
        lots: LotBounds {
            size: u32::from_le_bytes(bytes[89..93].try_into().ok()?),
            minutes: u32::from_le_bytes([bytes[93], bytes[94], bytes[95], 0]),
        },
    };
    let is_store = rights == Rights::Store || identity.id == CredentialId::default();
    (encode(&identity) == *bytes && is_store == (identity == Identity::store())).then_some(identity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_identity_comes_back_as_it_was(id in any::<[u8; 16]>(), owner in "[a-zA-Z0-9._-]{0,63}", until in any::<Option<u64>>(), write in any::<bool>(), size in any::<u32>(), minutes in 0..1_u32 << 24) {
            let rights = if write { Rights::Write } else { Rights::Read };
            let identity = Identity { id: CredentialId(id), owner, rights, until_s: until.filter(|u| *u != u64::MAX), lots: LotBounds { size, minutes } };
            let expected = (id != [0; 16]).then(|| identity.clone());
            prop_assert_eq!(decode(&encode(&identity)), expected);
        }

        #[test]
        fn bytes_that_are_no_identity_are_refused_and_no_panic(bytes in prop::collection::vec(any::<u8>(), CLAIMS_BYTES)) {
            let bytes: [u8; CLAIMS_BYTES] = bytes.try_into().unwrap();
            if let Some(identity) = decode(&bytes) {
                prop_assert_eq!(encode(&identity), bytes);
            }
        }
    }

    #[test]
    fn every_claim_changes_the_secret_and_a_secret_is_never_printed() {
        let root = Secret::random();
        let mut seen = std::collections::HashSet::new();
        let one =
            Identity { id: CredentialId([1; 16]), owner: "ana".into(), rights: Rights::Read, until_s: None, lots: Default::default() };
        let changed = [
            Identity::store(),
            one.clone(),
            Identity { rights: Rights::Write, ..one.clone() },
            Identity { until_s: Some(5), ..one.clone() },
            Identity { lots: LotBounds { size: 5, minutes: 0 }, ..one.clone() },
            Identity { lots: LotBounds { size: 0, minutes: 5 }, ..one.clone() },
            Identity { owner: "anb".into(), ..one.clone() },
            Identity { id: CredentialId([2; 16]), ..one },
        ];
        assert!(changed.iter().all(|identity| seen.insert(root.of(identity).reveal())));
        assert!(!format!("{root:?}").contains(&root.reveal()[..8]));
        assert_eq!(Secret::parse(&root.reveal()), Some(root));
        assert_eq!(Secret::parse("12"), None);
    }

    #[test]
    fn credentials_of_earlier_releases_have_the_secret_they_had_and_say_nothing_of_lots() {
        // Derived as by releases that had zeros there.
        let identity = Identity {
            id: CredentialId([0x11; 16]),
            owner: "ana".into(),
            rights: Rights::Write,
            until_s: Some(5),
            lots: LotBounds::default(),
        };
        let mut claims = [0; CLAIMS_BYTES];
        claims[..16].fill(0x11);
        claims[16..21].copy_from_slice(b"\x02\x03ana");
        claims[81] = 5;
        assert_eq!(encode(&identity), claims);
        assert_eq!(decode(&claims), Some(identity.clone()));
        let root = Secret::parse(&"07".repeat(32)).unwrap();
        assert_eq!(root.of(&identity), root.derive("thalweg credential", &[&claims]));
    }
}

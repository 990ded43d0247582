//! The channel binding of a credential's proof: 32 bytes known to both ends of a session, and to nobody with a separate session
//! to each end (RFC 8446, section 7.5).
//!
//! The rustls connections for applications that encrypt records themselves have no exporter. rustls does pass the secret from
//! which exporters are computed to its key log: here it goes no further than its connection, and is wiped.

use super::protocol;
use crate::error::Result;
use rustls::crypto::tls13::OkmBlock;
use rustls::{KeyLog, Tls13CipherSuite};
use thalweg_base::sync::Mutex;

/// The exporter's label.
const LABEL: &[u8] = b"EXPORTER-thalweg-credential";

/// A connection's exporter secret, once the handshake has derived it.
#[derive(Default)]
pub(super) struct ExporterSecret(Mutex<Option<OkmBlock>>);

impl ExporterSecret {
    /// Computes the 32 bytes and discards the secret.
    pub(super) fn binding(&self, suite: &'static Tls13CipherSuite) -> Result<[u8; 32]> {
        let secret = self.0.lock().take().ok_or_else(|| protocol("a TLS session without an exporter"))?;
        let of_nothing = suite.common.hash_provider.hash(&[]);
        let for_label = {
            let mut derived = [0; OkmBlock::MAX_LEN];
            let derived = &mut derived[..of_nothing.as_ref().len()];
            expand(suite, &secret, LABEL, of_nothing.as_ref(), derived)?;
            OkmBlock::new(derived)
        };
        let mut binding = [0; 32];
        expand(suite, &for_label, b"exporter", of_nothing.as_ref(), &mut binding)?;
        Ok(binding)
    }
}

/// HKDF-Expand-Label (RFC 8446, section 7.1).
fn expand(suite: &'static Tls13CipherSuite, secret: &OkmBlock, label: &[u8], context: &[u8], into: &mut [u8]) -> Result<()> {
    const PREFIX: &[u8] = b"tls13 ";
    let length = (into.len() as u16).to_be_bytes();
    let (label_bytes, context_bytes) = ([(PREFIX.len() + label.len()) as u8], [context.len() as u8]);
    let info = [&length[..], &label_bytes, PREFIX, label, &context_bytes, context];
    suite.hkdf_provider.expander_for_okm(secret).expand_slice(&info, into).map_err(|_| protocol("a TLS exporter of this length"))
}

impl KeyLog for ExporterSecret {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        if self.will_log(label) {
            *self.0.lock() = Some(OkmBlock::new(secret));
        }
    }

    fn will_log(&self, label: &str) -> bool {
        label == "EXPORTER_SECRET"
    }
}

impl std::fmt::Debug for ExporterSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExporterSecret")
    }
}

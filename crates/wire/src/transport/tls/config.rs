//! The TLS configuration of a process, as client and as server. Made once, shared by all connections.

use super::exporter::ExporterSecret;
use super::key::{Fingerprint, ServerKey};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::{cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::{ClientConfig, DigitallySignedStruct, PeerMisbehaved, ServerConfig, SignatureScheme};
use std::net::SocketAddr;
use std::sync::Arc;

/// The client's configuration. Clones share session tickets.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
}

impl ClientTls {
    /// Makes a configuration without tickets.
    ///
    /// # Errors
    /// The TLS library's.
    pub fn new() -> Result<ClientTls> {
        let provider = Arc::new(provider());
        let verifier = AnyKey(provider.signature_verification_algorithms);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        // The server name serves only to look up tickets, and is not sent.
        config.enable_sni = false;
        config.enable_secret_extraction = true;
        config.resumption = Resumption::in_memory_sessions(limits::TLS_TICKETS);
        Ok(ClientTls { config: Arc::new(config) })
    }

    /// Returns a connection's configuration, which delivers its exporter secret to `exporter`.
    pub(super) fn one(&self, exporter: &Arc<ExporterSecret>) -> Arc<ClientConfig> {
        let mut config = (*self.config).clone();
        config.key_log = Arc::clone(exporter) as _;
        Arc::new(config)
    }
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientTls")
    }
}

/// The server's configuration.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    fingerprint: Fingerprint,
}

impl ServerTls {
    /// Makes a configuration with this key. Its tickets are valid while it exists, for at most half a day.
    ///
    /// # Errors
    /// The TLS library's.
    pub fn new(key: &ServerKey) -> Result<ServerTls> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&key.certified))));
        config.enable_secret_extraction = true;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(unusable)?;
        Ok(ServerTls { config: Arc::new(config), fingerprint: key.fingerprint() })
    }

    /// Returns the fingerprint of the server's key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns a connection's configuration, which delivers its exporter secret to `exporter`.
    pub(super) fn one(&self, exporter: &Arc<ExporterSecret>) -> Arc<ServerConfig> {
        let mut config = (*self.config).clone();
        config.key_log = Arc::clone(exporter) as _;
        Arc::new(config)
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerTls({})", self.fingerprint)
    }
}

fn unusable(error: rustls::Error) -> Error {
    Error::new(ErrorKind::Invalid, format!("TLS cannot be set up: {error}"))
}

/// Returns ring's provider, reduced to what is used; the cipher that is fastest with AES instructions comes first.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![kx_group::X25519],
        ..rustls::crypto::ring::default_provider()
    }
}

/// Returns the name under which a server's tickets are stored: its key if known, else its address. Never sent.
pub(super) fn tickets_of(expected: Option<Fingerprint>, address: SocketAddr) -> Result<ServerName<'static>> {
    let name = match (expected, address) {
        (Some(fingerprint), _) => format!("{fingerprint}.key"),
        (None, SocketAddr::V4(address)) => format!("{:08x}-{}.address", address.ip().to_bits(), address.port()),
        (None, SocketAddr::V6(address)) => format!("{:032x}-{}.address", address.ip().to_bits(), address.port()),
    };
    ServerName::try_from(name).map_err(|e| Error::new(ErrorKind::Invalid, format!("{address}: {e}")))
}

/// Accepts any server key that signs the handshake. The key is compared with the expected one afterwards ([`super::handshake`]),
/// also for a resumed session, in which nothing is signed.
#[derive(Debug)]
struct AnyKey(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature_with_raw_key(message, &SubjectPublicKeyInfoDer::from(key.as_ref()), signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

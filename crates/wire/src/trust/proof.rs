//! The handshake that opens a connection: both ends prove that they have the credential before anything else of the peer is
//! parsed.
//!
//! ```text
//! client                                      server
//!   first: magic, store, claims, nonce   ──►
//!                                        ◄──  answer: magic, status, store, nonce, proof of the server
//!   proof of the client                  ──►
//!                                        ◄──  verdict: magic, status
//! ```
//!
//! Challenge and response over both nonces: HMAC-SHA256 with the credential's secret over all bytes exchanged so far and over the
//! name of the TLS session ([`Binding`], RFC 8446 section 7.5), under a different label at each end. A proof is therefore useless
//! on another connection (replay), at the other end (reflection), to a man in the middle of two TLS sessions, or after a byte was
//! changed (downgrade). All lengths are fixed; nothing is allocated. A client that does not know its store sends store 0 first,
//! and the server answers with its store's number alone.
//!
//! The server proves itself first: a client sends no file name to a peer without the credential.

use super::credential::Credential;
use super::find::Credentials;
use super::gate::{Gate, Refused};
use super::identity::Identity;
use super::secret::{self, CLAIMS_BYTES, SECRET_BYTES, Secret};
use crate::error::{Error, ErrorKind, Result};
use std::sync::Arc;
use thalweg_base::random;
use thalweg_base::release::RELEASE;

/// First bytes of every handshake message; the last is the version of the proof.
pub(crate) const MAGIC: [u8; 8] = *b"THALWEG\x01";
/// Length of the client's first message.
pub(crate) const FIRST_BYTES: usize = 8 + 8 + CLAIMS_BYTES + SECRET_BYTES;
/// Length of the server's answer.
pub(crate) const ANSWER_BYTES: usize = 8 + 8 + 8 + SECRET_BYTES + SECRET_BYTES;
/// Length of the client's proof.
pub(crate) const PROOF_BYTES: usize = 8 + SECRET_BYTES;
/// Length of the server's verdict.
pub(crate) const VERDICT_BYTES: usize = 16;

/// Identifies the TLS session to which the proof is bound; `None`: in clear.
pub(crate) type Binding = Option<[u8; 32]>;

/// The server's status: the byte behind the magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Status {
    Accepted = 0,
    /// The answer has the store's number: try again with its credential.
    Which = 1,
    OtherStore = 2,
    Revoked = 3,
    Expired = 4,
    NotTls = 5,
    Wrong = 6,
    Version = 7,
}

impl Status {
    fn from(byte: u8) -> Option<Status> {
        use Status::*;
        [Accepted, Which, OtherStore, Revoked, Expired, NotTls, Wrong, Version].into_iter().find(|status| *status as u8 == byte)
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("fixed lengths")
}

/// Returns the bytes by which both proofs are bound to the TLS session.
fn bound(binding: &Binding) -> &[u8] {
    binding.as_ref().map_or(&[], |bytes| bytes)
}

const OF_SERVER: &str = "thalweg proof of the server";
const OF_CLIENT: &str = "thalweg proof of the client";

/// The client's end.
pub(crate) struct Client {
    credentials: Credentials,
    /// The credential being proven; `None`: the client asks which store this is.
    proving: Option<(Arc<Credential>, Secret)>,
    first: [u8; FIRST_BYTES],
}

/// The client's next step.
pub(crate) enum Next {
    /// Send [`Client::first`] again.
    Again,
    /// Send this proof, and any requests behind it.
    Prove([u8; PROOF_BYTES]),
}

impl Client {
    /// Begins a handshake with `store`, if that is known.
    ///
    /// # Errors
    /// When there is no credential for that store.
    pub(crate) fn new(credentials: &Credentials, store: Option<u64>) -> Result<Client> {
        let store = match store {
            Some(store) => Some(store),
            None => credentials.store()?,
        };
        let mut client = Client { credentials: credentials.clone(), proving: None, first: [0; FIRST_BYTES] };
        client.begin(store)?;
        Ok(client)
    }

    fn begin(&mut self, store: Option<u64>) -> Result<()> {
        self.proving = store.map(|store| self.credentials.for_store(store)).transpose()?.map(|c| (Arc::clone(&c), c.proving()));
        self.first[..8].copy_from_slice(&MAGIC);
        self.first[8 + 8 + CLAIMS_BYTES..].copy_from_slice(&random::bytes::<SECRET_BYTES>());
        if let Some((credential, _)) = &self.proving {
            self.first[8..16].copy_from_slice(&credential.store.to_le_bytes());
            self.first[16..16 + CLAIMS_BYTES].copy_from_slice(&secret::encode(&credential.identity));
        }
        Ok(())
    }

    /// Returns the first message.
    pub(crate) fn first(&self) -> &[u8; FIRST_BYTES] {
        &self.first
    }

    /// Reads the server's answer.
    ///
    /// # Errors
    /// [`ErrorKind::Access`] when the server refuses or does not prove itself; [`ErrorKind::Encrypted`] when it requires TLS.
    pub(crate) fn answered(&mut self, answer: &[u8; ANSWER_BYTES], binding: &Binding) -> Result<Next> {
        let status = read_status(answer)?;
        let store = u64::from_le_bytes(array(answer, 16));
        if status == Status::Which && self.proving.is_none() {
            self.begin(Some(store))?;
            return Ok(Next::Again);
        }
        if status == Status::NotTls {
            return Err(Error::new(ErrorKind::Encrypted, "the server requires encryption: leave `#plain` out of its address"));
        }
        let Some((credential, secret)) = &self.proving else {
            return Err(Error::new(ErrorKind::Protocol, "the server did not say which store it belongs to"));
        };
        if status != Status::Accepted {
            return Err(refused(status, credential, store));
        }
        let (said, proof) = answer.split_at(ANSWER_BYTES - SECRET_BYTES);
        if !secret.verifies(OF_SERVER, &[&self.first, said, bound(binding)], &array(proof, 0)) {
            let problem = format!(
                "the server does not prove that it belongs to store {:016x}: the credential of `{}` is for an \
                 earlier store there, or another program has its address",
                credential.store, credential.identity.owner
            );
            return Err(Error::new(ErrorKind::Access, problem));
        }
        let mut bytes = [0; PROOF_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..].copy_from_slice(&secret.sign(OF_CLIENT, &[&self.first, answer, bound(binding)]));
        Ok(Next::Prove(bytes))
    }

    /// Reads the verdict on the proof.
    ///
    /// # Errors
    /// See [`Client::answered`].
    pub(crate) fn judged(&self, verdict: &[u8; VERDICT_BYTES]) -> Result<()> {
        match (read_status(verdict)?, &self.proving) {
            (Status::Accepted, _) => Ok(()),
            (status, Some((credential, _))) => Err(refused(status, credential, credential.store)),
            (_, None) => Err(Error::new(ErrorKind::Protocol, "the server sent a verdict before any proof")),
        }
    }
}

/// Checks that the bytes begin a server's message.
///
/// # Errors
/// [`ErrorKind::Protocol`].
pub(crate) fn check_magic(magic: &[u8]) -> Result<()> {
    if magic[..7] != MAGIC[..7] {
        let problem = format!(
            "the peer does not speak thalweg's protocol: it begins with {:02x?}, expected {:02x?} (\"THALWEG\")",
            &magic[..4],
            &MAGIC[..4]
        );
        return Err(Error::new(ErrorKind::Protocol, problem));
    }
    Ok(())
}

fn read_status(message: &[u8]) -> Result<Status> {
    let magic: [u8; 8] = array(message, 0);
    check_magic(&magic)?;
    let status = Status::from(message[8]).filter(|_| magic == MAGIC);
    status.filter(|status| *status != Status::Version).ok_or_else(|| {
        let problem = format!(
            "the server is another release, which proves credentials by version {}; this is {RELEASE}, which does by version {}: use one release at both ends",
            magic[7], MAGIC[7]
        );
        Error::new(ErrorKind::Version, problem)
    })
}

fn refused(status: Status, credential: &Credential, store: u64) -> Error {
    let owner = &credential.identity.owner;
    let access = |problem: String| Error::new(ErrorKind::Access, problem);
    match status {
        Status::Revoked => access(format!("the credential of `{owner}` was revoked: ask the store's administrator for another")),
        Status::Expired => access(format!("the credential of `{owner}` has expired: ask the store's administrator for another")),
        Status::OtherStore => access(format!(
            "this is the store {store:016x}, and the credential is for {:016x}: another store took over its address",
            credential.store
        )),
        _ => access(format!("the store does not accept this credential of `{owner}`: it is for an earlier store there, or damaged")),
    }
}

/// The server's end, after the first message.
pub(crate) struct Server {
    identity: Identity,
    secret: Secret,
    said: Vec<u8>,
}

impl Server {
    /// Reads the first message; returns the answer, and the state that awaits the client's proof. `None`: the answer refuses the
    /// peer. `encrypts`: peers in clear are refused.
    pub(crate) fn begin(gate: &Gate, encrypts: bool, first: &[u8; FIRST_BYTES], binding: &Binding) -> ([u8; ANSWER_BYTES], Option<Server>) {
        let mut answer = [0; ANSWER_BYTES];
        answer[..8].copy_from_slice(&MAGIC);
        answer[16..24].copy_from_slice(&gate.store().to_le_bytes());
        let judged = judge(gate, first, encrypts && binding.is_none());
        answer[8] = judged.as_ref().map_or_else(|status| *status, |_| Status::Accepted) as u8;
        let identity = match judged {
            Ok(identity) => identity,
            Err(_) => return (answer, None),
        };
        answer[24..24 + SECRET_BYTES].copy_from_slice(&random::bytes::<SECRET_BYTES>());
        let secret = gate.root().of(&identity);
        let (said, proof) = answer.split_at_mut(ANSWER_BYTES - SECRET_BYTES);
        proof.copy_from_slice(&secret.sign(OF_SERVER, &[first, said, bound(binding)]));
        let said = [&first[..], &answer[..]].concat();
        (answer, Some(Server { identity, secret, said }))
    }

    /// Checks the client's proof; returns the verdict to send, and the client's identity if the proof is right.
    pub(crate) fn prove(self, proof: &[u8; PROOF_BYTES], binding: &Binding) -> ([u8; VERDICT_BYTES], Option<Identity>) {
        let (first, answer) = self.said.split_at(FIRST_BYTES);
        let right = proof[..8] == MAGIC && self.secret.verifies(OF_CLIENT, &[first, answer, bound(binding)], &array(proof, 8));
        let mut verdict = [0; VERDICT_BYTES];
        verdict[..8].copy_from_slice(&MAGIC);
        verdict[8] = if right { Status::Accepted } else { Status::Wrong } as u8;
        (verdict, right.then_some(self.identity))
    }
}

/// Returns why an answer refused a first message, for the server's log.
pub(crate) fn reason(answer: &[u8; ANSWER_BYTES]) -> &'static str {
    match Status::from(answer[8]) {
        Some(Status::OtherStore) => "a credential of another store",
        Some(Status::Revoked) => "a revoked credential",
        Some(Status::Expired) => "an expired credential",
        Some(Status::NotTls) => "the connection is in clear",
        Some(Status::Version) => "another version of the proof",
        _ => "no credential",
    }
}

/// Whether an answer asks for another first message.
pub(crate) fn asks_again(answer: &[u8; ANSWER_BYTES]) -> bool {
    answer[8] == Status::Which as u8
}

fn judge(gate: &Gate, first: &[u8; FIRST_BYTES], is_in_clear: bool) -> std::result::Result<Identity, Status> {
    if first[..8] != MAGIC {
        return Err(Status::Version);
    }
    if is_in_clear {
        return Err(Status::NotTls);
    }
    let store = u64::from_le_bytes(array(first, 8));
    if store == 0 {
        return Err(Status::Which);
    }
    if store != gate.store() {
        return Err(Status::OtherStore);
    }
    let identity = secret::decode(&array(first, 16)).ok_or(Status::Wrong)?;
    match gate.check(&identity) {
        Ok(()) => Ok(identity),
        Err(Refused::Revoked) => Err(Status::Revoked),
        Err(Refused::Expired) => Err(Status::Expired),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::Rights;

    fn gate() -> (Gate, Credential) {
        let credential = Credential::new_store(7);
        (Gate::new(&credential).unwrap(), credential)
    }

    /// Returns who is let in when this client meets this server, and the bytes on the wire.
    fn meet(gate: &Gate, client: &mut Client, bindings: [Binding; 2]) -> Result<(Option<Identity>, Vec<Vec<u8>>)> {
        meet_at(gate, false, client, bindings)
    }

    fn meet_at(gate: &Gate, encrypts: bool, client: &mut Client, bindings: [Binding; 2]) -> Result<(Option<Identity>, Vec<Vec<u8>>)> {
        let mut wire = Vec::new();
        loop {
            wire.push(client.first().to_vec());
            let (answer, server) = Server::begin(gate, encrypts, client.first(), &bindings[1]);
            wire.push(answer.to_vec());
            match client.answered(&answer, &bindings[0])? {
                Next::Again => assert!(asks_again(&answer)),
                Next::Prove(proof) => {
                    wire.push(proof.to_vec());
                    let (verdict, who) = server.expect("it has answered").prove(&proof, &bindings[1]);
                    client.judged(&verdict)?;
                    return Ok((who, wire));
                }
            }
        }
    }

    #[test]
    fn both_ends_prove_their_credential_and_a_client_finds_out_which_store_it_speaks_to() {
        let (gate, store) = gate();
        let ana = store.derive("ana", Rights::Write, None).unwrap();
        for credential in [store.clone(), store.read_only().unwrap(), ana] {
            for known in [Some(7), None] {
                let mut client = Client::new(&Credentials::given(credential.clone()), known).unwrap();
                let (who, _) = meet(&gate, &mut client, [None, None]).unwrap();
                assert_eq!(who.as_ref(), Some(&credential.identity));
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c");
        store.write(&path).unwrap();
        let mut client = Client::new(&Credentials::searched().near(&path), None).unwrap();
        let (who, wire) = meet(&gate, &mut client, [None, None]).unwrap();
        assert_eq!((who, wire.len()), (Some(Identity::store()), 5), "it was asked for its store first");
    }

    #[test]
    fn wrong_missing_revoked_and_expired_credentials_are_refused_with_the_reason() {
        let (gate, store) = gate();
        let stranger = Credential::new_store(7);
        let ana = store.derive("ana", Rights::Write, None).unwrap();
        let old = store.derive("bob", Rights::Write, Some(1)).unwrap();
        gate.revoke(&[ana.identity.id]);
        let elsewhere = Credential::new_store(8);
        for (credential, reason) in [
            (stranger, "does not prove that it belongs to store"),
            (ana, "revoked"),
            (old, "has expired"),
            (elsewhere, "another store took over"),
        ] {
            let error = meet(&gate, &mut Client::new(&Credentials::given(credential), None).unwrap(), [None, None]).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Access);
            assert!(error.message().contains(reason), "{error}");
        }
    }

    #[test]
    fn a_proof_is_of_no_use_on_another_connection_at_the_other_end_or_in_another_tls_session() {
        let (gate, store) = gate();
        let new = || Client::new(&Credentials::given(store.clone()), None).unwrap();
        let (_, wire) = meet(&gate, &mut new(), [None, None]).unwrap();
        // Replay: the same first message and proof.
        let (_, server) = Server::begin(&gate, false, &array(&wire[0], 0), &None);
        let (verdict, who) = server.unwrap().prove(&array(&wire[2], 0), &None);
        assert_eq!((verdict[8], who), (Status::Wrong as u8, None));
        // The server's answer from another connection.
        assert_eq!(new().answered(&array(&wire[1], 0), &None).err().unwrap().kind(), ErrorKind::Access);
        // Reflection: the server's own proof sent back.
        let client = new();
        let (answer, server) = Server::begin(&gate, false, client.first(), &None);
        let mut reflected = [0; PROOF_BYTES];
        reflected[..8].copy_from_slice(&MAGIC);
        reflected[8..].copy_from_slice(&answer[ANSWER_BYTES - SECRET_BYTES..]);
        assert_eq!(server.unwrap().prove(&reflected, &None).1, None);
        // An interceptor between two sessions.
        assert!(meet(&gate, &mut new(), [Some([1; 32]), Some([2; 32])]).is_err());
        assert!(meet(&gate, &mut new(), [Some([1; 32]), None]).is_err());
        assert!(meet(&gate, &mut new(), [Some([1; 32]), Some([1; 32])]).is_ok());
    }

    #[test]
    fn every_byte_that_is_changed_on_the_way_is_noticed() {
        let (gate, store) = gate();
        for at in 0..FIRST_BYTES {
            let mut client = Client::new(&Credentials::given(store.clone()), None).unwrap();
            let mut first = *client.first();
            first[at] ^= 1;
            let (answer, server) = Server::begin(&gate, false, &first, &None);
            let accepted = client.answered(&answer, &None);
            let in_spite = match (accepted, server) {
                (Ok(Next::Prove(proof)), Some(server)) => server.prove(&proof, &None).1,
                _ => None,
            };
            assert_eq!(in_spite, None, "byte {at} of the first message");
        }
        for at in 0..ANSWER_BYTES {
            let mut client = Client::new(&Credentials::given(store.clone()), None).unwrap();
            let (answer, _) = Server::begin(&gate, false, client.first(), &None);
            let mut answer = answer;
            answer[at] ^= 1;
            assert!(client.answered(&answer, &None).is_err(), "byte {at} of the answer");
        }
    }

    #[test]
    fn a_server_that_encrypts_refuses_who_speaks_in_clear() {
        let store = Credential::new_store(7);
        let gate = Gate::new(&store).unwrap();
        let error = meet_at(&gate, true, &mut Client::new(&Credentials::given(store), None).unwrap(), [None, None]).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Encrypted);
    }
}

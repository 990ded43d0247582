//! The store's side: the production services, without their sockets and threads.

use super::host::Turn;
use super::setting::{Setting, Storm};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_io::Target;
use thalweg_layout::{Distribution, Layout};
use thalweg_metadata::database::Unwatched;
use thalweg_metadata::database::in_memory::InMemory;
use thalweg_metadata::io_servers::IoServers;
use thalweg_metadata::lineage::WitnessReports;
use thalweg_metadata::namespace::Namespace;
use thalweg_metadata::service::{ClientSession, MetadataOptions, MetadataService};
use thalweg_wire::protocol::io::{DatafileId, IoReply, IoRequest, LotId, TargetId, TargetSpace};
use thalweg_wire::protocol::lots::{Level, LotShare, LotUse};
use thalweg_wire::protocol::metadata::*;
use thalweg_wire::trust::Identity;
use thalweg_wire::{Error, ErrorKind, Result};
use thalweg_wire::{HEADER_BYTES, Header, Kind, decode, encode, request_header};

pub(super) const OWNER: Owner = Owner { mode: 0o755, uid: 1, gid: 2 };
const STORE: u64 = 1;

/// Encodes a message as on the wire.
pub(super) fn pack<T: Serialize>(kind: Kind, number: u64, body: &T) -> Vec<u8> {
    let mut message = Vec::new();
    encode(request_header(kind, number, 0, 0, 0), body, &mut message).expect("it is within limits");
    message
}

/// Decodes a message; returns its number and body.
pub(super) fn unpack<T: DeserializeOwned>(message: &[u8]) -> Result<(u64, T)> {
    let (number, body) = verified(message)?;
    Ok((number, decode(body)?))
}

/// Verifies a message as a receiver does; returns its number and the bytes of its body, or the server's refusal.
pub(super) fn verified(message: &[u8]) -> Result<(u64, &[u8])> {
    let head: &[u8; HEADER_BYTES] = message.first_chunk().expect("a whole message");
    let (header, body) = (Header::decode(head)?, &message[HEADER_BYTES..]);
    Header::verify(head, body)?;
    if header.status != 0 {
        return Err(Error::from_wire(header.status, decode(body)?));
    }
    Ok((header.request, body))
}

fn reply<T: Serialize>(kind: Kind, number: u64, done: Result<T>) -> Vec<u8> {
    let header = Header { reply: true, ..request_header(kind, number, 0, 0, 0) };
    let mut message = Vec::new();
    let packed = match done {
        Ok(body) => encode(header, &body, &mut message),
        Err(error) => {
            let (status, body) = error.to_wire();
            encode(Header { status, ..header }, &body, &mut message)
        }
    };
    packed.expect("services keep their answers within limits");
    message
}

/// An answer and its costs.
pub(super) struct Answered {
    pub(super) reply: Vec<u8>,
    pub(super) cost_ns: u64,
    pub(super) turn: Turn,
}

/// Round-robin from a given first target, not a random one, so that runs are reproducible.
pub(super) fn layout(first: u64, datafiles: u64, servers: u64) -> LayoutChoice {
    let placement = Placement::RoundRobin { first: Some(TargetId((first % servers) as u32)) };
    LayoutChoice { datafiles: Some(datafiles as u32), placement: Some(placement), ..LayoutChoice::default() }
}

/// The targets' side of the metadata service's requests.
struct Targets(Arc<Vec<Target>>);

impl Targets {
    fn of(&self, id: DatafileId) -> &Target {
        &self.0[id.target.0 as usize]
    }
}

impl IoServers for Targets {
    fn remove(&self, _: &ServerEntry, datafiles: &[DatafileId]) -> Result<()> {
        datafiles.iter().try_for_each(|id| self.of(*id).remove(*id))
    }
    fn truncate(&self, _: &ServerEntry, datafiles: &[(DatafileId, u64)]) -> Result<()> {
        datafiles.iter().try_for_each(|(id, size)| self.of(*id).truncate(*id, *size))
    }
    fn sizes(&self, _: &ServerEntry, datafiles: &[DatafileId]) -> Result<Vec<u64>> {
        datafiles.iter().map(|id| Ok(self.of(*id).glimpse(*id)?.size_bytes)).collect()
    }
    fn sync_all(&self, _: &ServerEntry) -> Result<()> {
        Ok(())
    }
    fn keep_share(&self, _: &ServerEntry, _: TargetId, _: &LotShare, _: Option<Level>, _: i64) -> Result<LotUse> {
        Err(Error::new(ErrorKind::Unsupported, "no lots here"))
    }
    fn release_share(&self, _: &ServerEntry, _: TargetId, _: LotId) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "no lots here"))
    }
    fn list_shares(&self, _: &ServerEntry) -> Result<Vec<LotUse>> {
        Ok(Vec::new())
    }
    fn space(&self, _: &ServerEntry) -> Result<Vec<TargetSpace>> {
        Ok(Vec::new())
    }
    fn boots(&self, servers: &[ServerEntry]) -> Vec<Option<String>> {
        servers.iter().map(|_| Some("boot".into())).collect()
    }
}

pub(super) struct Site {
    pub(super) map: StoreMap,
    /// The size of each existing file.
    pub(super) sizes: HashMap<FileId, u64>,
    service: Arc<MetadataService>,
    targets: Arc<Vec<Target>>,
    _directory: tempfile::TempDir,
}

impl Site {
    /// Creates a store with the files that the storm needs.
    pub(super) fn new(setting: &Setting) -> Site {
        let directory = tempfile::tempdir().expect("a directory for targets");
        let target = |number: u64| {
            let path = directory.path().join(format!("{number}"));
            std::fs::create_dir(&path).expect("a directory for a target");
            Target::initialise(&path, STORE, TargetId(number as u32)).expect("a new target")
        };
        let targets: Arc<Vec<Target>> = Arc::new((0..setting.servers).map(target).collect());
        // As long as real addresses.
        let address = |n: u64| format!("10.{}.{}.{}:33334/{}", n >> 16, n >> 8 & 255, n & 255, "k".repeat(43));
        let server = |n: u64| ServerEntry { name: format!("io{n}"), node: format!("node{n:04}"), address: address(n) };
        let on = |n: u64| TargetEntry { target: TargetId(n as u32), server: n as u32, directory: format!("/scratch/thalweg/io{n}") };
        let map =
            StoreMap { store: STORE, servers: (0..setting.servers).map(server).collect(), targets: (0..setting.servers).map(on).collect() };
        let namespace =
            Namespace::open(Arc::new(InMemory::default()), map.clone(), OWNER, &WitnessReports::default()).expect("a new namespace");
        let servers = Arc::new(Targets(Arc::clone(&targets)));
        let options = MetadataOptions::of_a_test("boot");
        let service = Arc::new(MetadataService::new(Arc::new(namespace), servers, options).expect("a service"));
        let mut site = Site { map, sizes: HashMap::new(), service, targets, _directory: directory };
        site.fill(setting);
        site
    }

    pub(super) fn session(&self) -> ClientSession {
        ClientSession::new(Arc::clone(&self.service), Arc::new(Identity::store()))
    }

    fn fill(&mut self, setting: &Setting) {
        let start = self.service.namespace().service_start();
        self.targets.iter().for_each(|target| target.witness(start, 0).expect("a target learns of the service"));
        let mut session = self.session();
        let ask = |session: &mut ClientSession, closed, operation| {
            session
                .request(MetadataRequest { closed, directory: None, number: None, operation }, &mut Unwatched)
                .expect("the store is being filled")
        };
        ask(&mut session, Vec::new(), Operation::MakeDirectory { place: FilePath::at("/here"), owner: OWNER, parents: false });
        let on_all = u64::from(setting.storm == Storm::Each);
        let files = match setting.storm {
            Storm::List | Storm::Glimpse => setting.files,
            _ => 0,
        };
        let names = (0..files).map(|n| format!("/here/file-{n:07}")).chain(["/one".to_owned()]);
        for (number, name) in names.enumerate() {
            let is_one = name == "/one";
            let datafiles = if is_one && on_all == 1 { setting.servers } else { setting.datafiles.min(setting.servers) };
            let layout = layout(number as u64 * datafiles, datafiles, setting.servers);
            let place = FilePath::at(name);
            let create = Operation::Create { place, owner: OWNER, existing: Existing::Refuse, layout, node: String::new() };
            let MetadataReply::Attributes(made) = ask(&mut session, Vec::new(), create) else { panic!("a file is made") };
            let size_bytes = self.write(&made, number as u64 % 7 + 1);
            self.sizes.insert(made.id, size_bytes);
            let closed = vec![Closed { file: made.id, write: true, end: End::whole(size_bytes, true) }];
            ask(&mut session, closed, Operation::StoreMap);
        }
        if setting.storm == Storm::Glimpse {
            self.wait_until_quiet();
        }
    }

    /// Writes the first bytes of each datafile; returns the file's size.
    fn write(&self, made: &Attributes, bytes: u64) -> u64 {
        let of = made.layout.as_deref().expect("a file has a layout");
        let many = of.targets.len() as u32;
        for (index, target) in (0..).zip(&of.targets) {
            let id = DatafileId { file: made.id, index, target: *target, lot: None };
            let datafile = self.targets[target.0 as usize].created(id).expect("a datafile");
            datafile.write(&vec![7; bytes as usize], 0).expect("bytes");
        }
        let layout = Layout::new(&of.spec, Some(many), many).expect("a layout");
        layout.logical_file_size(&vec![bytes; many as usize]).expect("a size")
    }

    /// Waits until the last writes are old enough to be reported as stable; earlier glimpses would be repeated.
    fn wait_until_quiet(&self) {
        let begun = Instant::now();
        let found = |id: &FileId| {
            let place = self.service.namespace().stat(&FilePath::of(*id)).expect("it is there");
            let of = place.layout.expect("a file has a layout");
            (0..).zip(of.targets.clone()).all(|(index, target)| {
                let id = DatafileId { file: *id, index, target, lot: None };
                self.targets[target.0 as usize].glimpse(id).expect("a size").quiet
            })
        };
        while !self.sizes.keys().all(found) {
            assert!(begun.elapsed() < Duration::from_secs(60), "without writers, datafiles are not quiet");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Answers a message to the metadata service.
    pub(super) fn metadata(&self, setting: &Setting, session: &mut ClientSession, message: &[u8]) -> Answered {
        let (number, request) = unpack::<MetadataRequest>(message).expect("what a client packs can be unpacked");
        let (makes, opens) = (matches!(request.operation, Operation::Create { .. }), matches!(request.operation, Operation::Open { .. }));
        let (reads, closes) = (matches!(request.operation, Operation::List { .. }), !request.closed.is_empty());
        let done = session.request(request, &mut Unwatched);
        let more_ns = match &done {
            Ok(MetadataReply::Page { entries, .. }) => entries.len() as u64 * setting.entry_ns,
            Ok(MetadataReply::Map(map)) => map.servers.len() as u64 * setting.map_server_ns,
            _ => 0,
        };
        let opened_ns = if opens { setting.open_ns } else { 0 };
        let written_ns = if makes || closes { setting.create_ns / 2 } else { 0 };
        let turn = match (makes || closes, reads) {
            (true, _) => Turn::Write,
            (_, true) => Turn::Read,
            _ => Turn::Nothing,
        };
        let cost_ns = setting.metadata_ns + more_ns + opened_ns + written_ns;
        Answered { reply: reply(Kind::Metadata, number, done), cost_ns, turn }
    }

    /// Answers a message to an I/O server.
    pub(super) fn io(&self, setting: &Setting, server: usize, message: &[u8]) -> Answered {
        let (number, request) = unpack::<IoRequest>(message).expect("what a client packs can be unpacked");
        let IoRequest::Glimpse { datafiles } = request else { panic!("nothing else is asked here") };
        let sizes = datafiles.iter().map(|id| {
            assert_eq!(id.target.0 as usize, server, "each server has one target, of its number");
            self.targets[server].glimpse(*id)
        });
        let done = sizes.collect::<Result<Vec<_>>>().map(IoReply::Sizes);
        let cost_ns = setting.io_ns + datafiles.len() as u64 * setting.glimpse_ns;
        Answered { reply: reply(Kind::Io, number, done), cost_ns, turn: Turn::Nothing }
    }
}

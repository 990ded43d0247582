//! A simulated client: the walker's core for walks, and the few steps around it.
//!
//! The client sends in the order of [`thalweg_client::metadata::MetadataClient::connect`], [`thalweg_client::Store`] and
//! [`thalweg_client::DataClient::glimpse`]: it connects to the metadata service and fetches the store map; then it walks over the walker's
//! own connections, or opens a file and requests its datafiles' sizes from all servers in parallel.

use super::setting::{Setting, Storm};
use super::site::{OWNER, Site, layout, pack, unpack, verified};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;
use thalweg_client::metadata::nothing_more;
use thalweg_client::walk::{Answer, Core, Message, Peer, Taken, WalkId, WalkMode, WalkOptions, answer, message};
use thalweg_layout::{Distribution, Layout};
use thalweg_wire::Kind;
use thalweg_wire::Result;
use thalweg_wire::pipe::Arrived;
use thalweg_wire::protocol::io::{DatafileId, IoReply, IoRequest};
use thalweg_wire::protocol::metadata::*;

/// The connection numbers of a client: to the metadata service, the walker's to it, and to each I/O server.
pub(super) const NAMES: usize = 0;
pub(super) const WALKER: usize = 1;
pub(super) const FIRST_IO: usize = 2;

/// What the client is waiting for.
pub(super) enum Doing {
    Mapping,
    Walking(Box<Core>, WalkId),
    Opening,
    /// Sizes of the file's datafiles.
    Sizing(Box<Attributes>, Vec<Option<u64>>),
    Creating,
    Closing,
    Done,
    /// The reason.
    Failed(String),
}

pub(super) struct Client {
    pub(super) number: u64,
    pub(super) doing: Doing,
    pub(super) entries: u64,
    /// Requests that the walker has reported as sent.
    pub(super) walk_requests: u64,
    pub(super) ended_ns: u64,
}

/// A message to send: connection number and bytes.
pub(super) type Sending = (usize, Vec<u8>);

impl Client {
    pub(super) fn new(number: u64) -> Client {
        Client { number, doing: Doing::Mapping, entries: 0, walk_requests: 0, ended_ns: 0 }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.doing, Doing::Done | Doing::Failed(_))
    }

    pub(super) fn fail(&mut self, why: impl Into<String>, now_ns: u64) {
        self.end(Doing::Failed(why.into()), now_ns);
    }

    fn end(&mut self, doing: Doing, now_ns: u64) {
        self.doing = doing;
        self.ended_ns = now_ns;
    }

    /// Returns the client's first message.
    pub(super) fn first() -> Sending {
        (NAMES, ask(0, Operation::StoreMap))
    }

    /// Handles an answer; returns the client's CPU time for it and the messages to send.
    pub(super) fn answered(&mut self, site: &Site, setting: &Setting, connection: usize, reply: &[u8], now_ns: u64) -> (u64, Vec<Sending>) {
        let (count, sending) = match self.take_in(site, setting, connection, reply, now_ns) {
            Ok(done) => done,
            Err(error) => {
                self.fail(error.to_string(), now_ns);
                (0, Vec::new())
            }
        };
        (count, sending)
    }

    fn take_in(&mut self, site: &Site, setting: &Setting, connection: usize, reply: &[u8], now_ns: u64) -> Result<(u64, Vec<Sending>)> {
        if connection >= FIRST_IO && !matches!(self.doing, Doing::Walking(..)) {
            return self.size_came(site, connection - FIRST_IO, reply, now_ns);
        }
        match &mut self.doing {
            Doing::Mapping => {
                let (_, MetadataReply::Map(map)) = unpack(reply)? else { panic!("who is who") };
                assert_eq!(map, site.map);
                Ok((map.servers.len() as u64, self.begin(setting, &map, now_ns)))
            }
            Doing::Walking(core, _) => {
                let peer = connection.checked_sub(FIRST_IO).map_or(Peer::Metadata, Peer::Io);
                let (token, body) = verified(reply)?;
                let answer = answer(peer, Arrived { token, body: Ok(body) });
                let count = match &answer {
                    Ok(Answer::Page(entries, _)) => entries.len(),
                    Ok(Answer::Sizes(sizes)) => sizes.len(),
                    _ => 1,
                } as u64;
                core.answered(token, answer, now_ns);
                Ok((count, self.walk_on(site, now_ns)))
            }
            Doing::Opening => {
                let (_, MetadataReply::Attributes(file)) = unpack(reply)? else { panic!("a file was opened") };
                Ok((1, self.ask_sizes(file)))
            }
            Doing::Creating => {
                let (_, MetadataReply::Attributes(file)) = unpack(reply)? else { panic!("a file was made") };
                let closed = vec![Closed { file: file.id, write: true, end: End::Read }];
                self.doing = Doing::Closing;
                let report = MetadataRequest { closed, directory: None, number: None, operation: nothing_more() };
                Ok((1, vec![(NAMES, pack(Kind::Metadata, 2, &report))]))
            }
            Doing::Closing => {
                self.end(Doing::Done, now_ns);
                Ok((1, Vec::new()))
            }
            Doing::Sizing(..) | Doing::Done | Doing::Failed(_) => Ok((0, Vec::new())),
        }
    }

    /// Starts the storm once the store map is known.
    fn begin(&mut self, setting: &Setting, map: &StoreMap, now_ns: u64) -> Vec<Sending> {
        let to_names = |operation| vec![(NAMES, ask(1, operation))];
        match setting.storm {
            Storm::Connect => {
                self.end(Doing::Done, now_ns);
                Vec::new()
            }
            Storm::List | Storm::Glimpse => {
                let mode = if setting.storm == Storm::List { WalkMode::SizesFromMetadata } else { WalkMode::GlimpseAhead };
                let mut core = Core::new(map, WalkOptions { mode, ..WalkOptions::default() }, Instant::now());
                let group = core.new_group();
                let walk = core.open(FilePath::at("/here"), None, group, 0);
                self.doing = Doing::Walking(Box::new(core), walk);
                self.walk_sends(now_ns)
            }
            Storm::Open | Storm::Each => {
                self.doing = Doing::Opening;
                to_names(Operation::Open { place: FilePath::at("/one"), write: false })
            }
            Storm::Create => {
                self.doing = Doing::Creating;
                to_names(Operation::Create {
                    place: FilePath::at(format!("/here/own-{:07}", self.number)),
                    owner: OWNER,
                    existing: Existing::Refuse,
                    layout: layout(self.number, 1, setting.servers),
                    node: String::new(),
                })
            }
        }
    }

    /// Starts a walk; no entries are available yet.
    fn walk_sends(&mut self, now_ns: u64) -> Vec<Sending> {
        let Doing::Walking(core, walk) = &mut self.doing else { return Vec::new() };
        let taken = core.take(*walk, 64, &mut VecDeque::new(), now_ns);
        assert!(matches!(taken, Taken::Wait), "{taken:?}");
        next_requests(core, now_ns)
    }

    /// Reads available entries, as a listing program does, and sends the walker's requests.
    fn walk_on(&mut self, site: &Site, now_ns: u64) -> Vec<Sending> {
        let Doing::Walking(core, walk) = &mut self.doing else { return Vec::new() };
        let (mut sending, mut read) = (Vec::new(), VecDeque::new());
        let ended = loop {
            let taken = core.take(*walk, 64, &mut read, now_ns);
            sending.extend(next_requests(core, now_ns));
            for entry in read.drain(..) {
                let size = entry.size.expect("sizes were asked for").map(|size| size.size_bytes);
                assert_eq!(size.ok().as_ref(), site.sizes.get(&entry.id), "the size of {}", String::from_utf8_lossy(&entry.name));
                self.entries += 1;
            }
            match taken {
                Taken::Some => {}
                Taken::Wait => break None,
                Taken::End => break Some(Doing::Done),
                Taken::Failed(error) => break Some(Doing::Failed(error.to_string())),
            }
        };
        self.walk_requests = core.counters().requests;
        if let Some(ended) = ended {
            self.end(ended, now_ns);
        }
        sending
    }

    /// Requests the sizes of a file's datafiles, once from each of its servers.
    fn ask_sizes(&mut self, file: Attributes) -> Vec<Sending> {
        let targets = file.layout.as_ref().expect("a file has a layout").targets.clone();
        let mut by_server: BTreeMap<usize, Vec<DatafileId>> = BTreeMap::new();
        for (index, target) in (0..).zip(&targets) {
            by_server.entry(target.0 as usize).or_default().push(DatafileId { file: file.id, index, target: *target, lot: None });
        }
        self.doing = Doing::Sizing(Box::new(file), vec![None; targets.len()]);
        let each = by_server.into_iter().map(|(server, datafiles)| {
            let number = datafiles[0].index.into();
            (FIRST_IO + server, pack(Kind::Io, number, &IoRequest::Glimpse { datafiles }))
        });
        each.collect()
    }

    fn size_came(&mut self, site: &Site, server: usize, reply: &[u8], now_ns: u64) -> Result<(u64, Vec<Sending>)> {
        let Doing::Sizing(file, sizes) = &mut self.doing else { return Ok((0, Vec::new())) };
        let (_, IoReply::Sizes(came)) = unpack(reply)? else { panic!("sizes") };
        let of = file.layout.as_deref().expect("a file has a layout");
        let here = of.targets.iter().enumerate().filter(|(_, target)| target.0 as usize == server).map(|(index, _)| index);
        here.zip(&came).for_each(|(index, size)| sizes[index] = Some(size.size_bytes));
        if let Some(all) = sizes.iter().copied().collect::<Option<Vec<u64>>>() {
            let many = all.len() as u32;
            let layout = Layout::new(&of.spec, Some(many), many).expect("a layout");
            assert_eq!(layout.logical_file_size(&all).ok().as_ref(), site.sizes.get(&file.id), "the file's size");
            self.end(Doing::Done, now_ns);
        }
        Ok((came.len() as u64, Vec::new()))
    }
}

fn ask(number: u64, operation: Operation) -> Vec<u8> {
    pack(Kind::Metadata, number, &MetadataRequest::of(operation))
}

fn next_requests(core: &mut Core, now_ns: u64) -> Vec<Sending> {
    let mut sending = Vec::new();
    while let Some(request) = core.next_request(now_ns) {
        let connection = match request.peer {
            Peer::Metadata => WALKER,
            Peer::Io(server) => FIRST_IO + server,
        };
        let packed = match message(request.ask) {
            Message::Io(body) => pack(Kind::Io, request.token, &body),
            Message::Metadata(body) => pack(Kind::Metadata, request.token, &body),
        };
        sending.push((connection, packed));
    }
    sending
}

//! One storm, from the common start to the end of the last client.

use super::client::{Client, Doing, FIRST_IO, NAMES, Sending};
use super::events::Events;
use super::host::{Host, Turn};
use super::setting::Setting;
use super::site::Site;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use thalweg_metadata::service::ClientSession;
use thalweg_wire::descriptors::Shares;
use thalweg_wire::server::{Client as Admitted, Clients};

/// TCP's first retransmission timeout for a connection request; doubles each time.
const CONNECT_AGAIN_NS: u64 = 1_000_000_000;
/// Number of retransmissions.
const CONNECT_TRIES: u32 = 6;

enum Event {
    /// A client starts.
    Begins,
    /// Its connection request arrives at a server; holds the attempt's number.
    Syn(u16, u32),
    /// Its credential is verified, and its hello has arrived.
    Hello(u16),
    /// A message arrives at the server, or at the client.
    Asked(u16, Vec<u8>),
    Answered(u16, Vec<u8>),
}

/// A client's connection.
#[derive(Default)]
struct Line {
    state: LineState,
    /// Messages to send once it is open.
    held: Vec<Vec<u8>>,
    /// When the server's thread finishes its earlier requests.
    busy_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LineState {
    #[default]
    None,
    Opening,
    Open,
}

/// The results of a storm.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) first_s: f64,
    pub(super) median_s: f64,
    pub(super) last_s: f64,
    pub(super) failed: u64,
    /// The reason of the first failure.
    pub(super) why: String,
    pub(super) entries: u64,
    pub(super) metadata_messages: u64,
    pub(super) io_messages: u64,
    pub(super) walk_requests: u64,
    /// Connections of the metadata service, and of the busiest I/O server.
    pub(super) metadata_connections: u64,
    pub(super) io_connections: u64,
    /// Connections of the busiest client.
    pub(super) client_connections: u64,
    /// Connection requests dropped because of a full queue.
    pub(super) dropped: u64,
    pub(super) metadata_busy_s: f64,
    pub(super) io_busy_s: f64,
    pub(super) metadata_out_bytes: u64,
}

pub(super) struct World<'a> {
    setting: &'a Setting,
    site: Site,
    now_ns: u64,
    events: Events<(u32, Event)>,
    hosts: Vec<Host>,
    clients: Vec<Client>,
    lines: Vec<Vec<Line>>,
    sessions: Vec<[Option<ClientSession>; FIRST_IO]>,
    /// Per server, the metadata service first: admitted clients, and those waiting to be accepted with the time of their acceptance.
    admitted: Vec<Clients>,
    queues: Vec<VecDeque<u64>>,
    most: (usize, usize),
    outcome: Outcome,
}

impl World<'_> {
    pub(super) fn run(setting: &Setting) -> Outcome {
        let servers = setting.servers as usize;
        let clients = setting.clients as usize;
        let hosts = if setting.one_machine > 0 { 1 } else { 1 + servers + clients };
        let processors = |host: usize| if setting.one_machine > 0 || host <= servers { setting.processors } else { 1 };
        let mut world = World {
            setting,
            site: Site::new(setting),
            now_ns: 0,
            events: Events::new(),
            hosts: (0..hosts).map(|host| Host::new(processors(host))).collect(),
            clients: (0..setting.clients).map(Client::new).collect(),
            lines: (0..clients).map(|_| (0..FIRST_IO + servers).map(|_| Line::default()).collect()).collect(),
            sessions: (0..clients).map(|_| [None, None]).collect(),
            admitted: (0..=servers).map(|_| Clients::default()).collect(),
            queues: (0..=servers).map(|_| VecDeque::new()).collect(),
            // Each server is a separate process with one target.
            most: (Shares::of(setting.descriptors, 1, 0).connections, Shares::of(setting.descriptors, 1, 1).connections),
            outcome: Outcome::default(),
        };
        world.most = (world.most.0.min(setting.connections as usize), world.most.1.min(setting.connections as usize));
        world.servers_are_connected();
        (0..setting.clients as u32).for_each(|client| world.events.at(0, (client, Event::Begins)));
        while let Some((at_ns, (client, event))) = world.events.next() {
            world.now_ns = at_ns;
            world.happens(client, event);
        }
        world.sum_up()
    }

    /// Connects each I/O server to the metadata service, on which it waits for starts to witness, and the service to each of them.
    fn servers_are_connected(&mut self) {
        for server in 0..self.setting.servers as usize {
            let at_names = self.admitted[0].enter(&admitted_as(u32::MAX, format!("io{server}")), self.most.0);
            let from_names = self.admitted[1 + server].enter(&admitted_as(u32::MAX, "metadata".into()), self.most.1);
            if let Err(error) = at_names.and(from_names) {
                self.outcome.why = error.to_string();
            }
        }
    }

    fn server_host(&self, line: u16) -> usize {
        if self.setting.one_machine > 0 { 0 } else { server_of(line) }
    }

    fn client_host(&self, client: u32) -> usize {
        if self.setting.one_machine > 0 { 0 } else { 1 + self.setting.servers as usize + client as usize }
    }

    fn happens(&mut self, client: u32, event: Event) {
        match event {
            Event::Begins => {
                let (line, message) = Client::first();
                self.send(client, vec![(line, message)], self.now_ns);
            }
            Event::Syn(line, tries) => self.syn(client, line, tries),
            Event::Hello(line) => self.hello(client, line),
            Event::Asked(line, message) => self.asked(client, line, &message, self.now_ns),
            Event::Answered(line, message) => self.answered(client, line, &message),
        }
    }

    fn send(&mut self, client: u32, sending: Vec<Sending>, from_ns: u64) {
        for (line, message) in sending {
            let host = self.client_host(client);
            let to = &mut self.lines[client as usize][line];
            match to.state {
                LineState::None => {
                    (to.state, to.held) = (LineState::Opening, vec![message]);
                    let begun_ns = self.hosts[host].work(from_ns, self.setting.client_connect_ns, Turn::Nothing);
                    self.events.at(begun_ns + self.setting.latency_ns, (client, Event::Syn(line as u16, 0)));
                }
                LineState::Opening => to.held.push(message),
                LineState::Open => {
                    let sent_ns = self.hosts[host].send(from_ns, message.len(), self.setting.link_bits_per_s);
                    self.events.at(sent_ns + self.setting.latency_ns, (client, Event::Asked(line as u16, message)));
                }
            }
        }
    }

    fn syn(&mut self, client: u32, line: u16, tries: u32) {
        let (now_ns, way_ns) = (self.now_ns, self.setting.latency_ns);
        let queue = &mut self.queues[server_of(line)];
        while queue.front().is_some_and(|until_ns| *until_ns <= now_ns) {
            queue.pop_front();
        }
        if queue.len() as u64 > self.setting.backlog {
            self.outcome.dropped += 1;
            if tries == CONNECT_TRIES {
                return self.clients[client as usize].fail("it was never accepted", now_ns);
            }
            return self.events.at(now_ns + (CONNECT_AGAIN_NS << tries), (client, Event::Syn(line, tries + 1)));
        }
        let host = self.server_host(line);
        let accepted_ns = self.hosts[host].work(now_ns, self.setting.accept_ns, Turn::Accept);
        self.queues[server_of(line)].push_back(accepted_ns);
        // The client's first message, and its proof after the answer.
        let proven_ns = accepted_ns.max(now_ns + 2 * way_ns) + 2 * way_ns;
        self.events.at(proven_ns, (client, Event::Hello(line)));
    }

    fn hello(&mut self, client: u32, line: u16) {
        let server = server_of(line);
        let most = if server == 0 { self.most.0 } else { self.most.1 };
        let who = admitted_as(client, format!("client {client}"));
        if let Err(error) = self.admitted[server].enter(&who, most) {
            return self.clients[client as usize].fail(error.to_string(), self.now_ns);
        }
        if server == 0 {
            self.sessions[client as usize][usize::from(line)] = Some(self.site.session());
        }
        let host = self.server_host(line);
        let greeted_ns = self.hosts[host].work(self.now_ns, self.setting.greet_ns, Turn::Nothing);
        let here = &mut self.lines[client as usize][usize::from(line)];
        (here.state, here.busy_ns) = (LineState::Open, greeted_ns);
        let held = std::mem::take(&mut here.held);
        // A pipe's requests accompany its hello; a client that waits for the greeting sends them a round trip later.
        let waits = usize::from(line) == NAMES || !matches!(self.clients[client as usize].doing, Doing::Walking(..));
        for message in held {
            if waits {
                self.events.at(greeted_ns + 2 * self.setting.latency_ns, (client, Event::Asked(line, message)));
            } else {
                self.asked(client, line, &message, greeted_ns);
            }
        }
    }

    fn asked(&mut self, client: u32, line: u16, message: &[u8], from_ns: u64) {
        let host = self.server_host(line);
        let bits_per_s = self.setting.link_bits_per_s;
        let here_ns = self.hosts[host].receive(from_ns, message.len(), bits_per_s);
        let answered = match server_of(line) {
            0 => {
                self.outcome.metadata_messages += 1;
                let session = self.sessions[client as usize][usize::from(line)].as_mut().expect("it has said hello");
                self.site.metadata(self.setting, session, message)
            }
            server => {
                self.outcome.io_messages += 1;
                self.site.io(self.setting, server - 1, message)
            }
        };
        let begun_ns = here_ns.max(self.lines[client as usize][usize::from(line)].busy_ns);
        let done_ns = self.hosts[host].work(begun_ns, answered.cost_ns, answered.turn);
        self.lines[client as usize][usize::from(line)].busy_ns = done_ns;
        let sent_ns = self.hosts[host].send(done_ns, answered.reply.len(), bits_per_s);
        self.events.at(sent_ns + self.setting.latency_ns, (client, Event::Answered(line, answered.reply)));
    }

    fn answered(&mut self, client: u32, line: u16, message: &[u8]) {
        let host = self.client_host(client);
        let here_ns = self.hosts[host].receive(self.now_ns, message.len(), self.setting.link_bits_per_s);
        let one = &mut self.clients[client as usize];
        if one.has_ended() {
            return;
        }
        let (count, sending) = one.answered(&self.site, self.setting, line.into(), message, here_ns);
        let cost_ns = self.setting.client_message_ns + count * self.setting.client_entry_ns;
        let done_ns = self.hosts[host].work(here_ns, cost_ns, Turn::Nothing);
        if one.has_ended() {
            one.ended_ns = done_ns;
        }
        self.send(client, sending, done_ns);
    }

    fn sum_up(mut self) -> Outcome {
        let mut ended: Vec<u64> =
            self.clients.iter().filter(|client| matches!(client.doing, Doing::Done)).map(|client| client.ended_ns).collect();
        ended.sort_unstable();
        let seconds = |ns: Option<&u64>| ns.map_or(0.0, |ns| *ns as f64 / 1e9);
        let outcome = &mut self.outcome;
        (outcome.first_s, outcome.last_s) = (seconds(ended.first()), seconds(ended.last()));
        outcome.median_s = seconds(ended.get(ended.len() / 2));
        outcome.failed = (self.clients.len() - ended.len()) as u64;
        for client in &self.clients {
            outcome.entries += client.entries;
            outcome.walk_requests += client.walk_requests;
            match &client.doing {
                Doing::Failed(why) if outcome.why.is_empty() => outcome.why.clone_from(why),
                Doing::Failed(_) | Doing::Done => {}
                _ => panic!("client {} waits for something that never comes", client.number),
            }
        }
        outcome.metadata_connections = self.admitted[0].all() as u64;
        outcome.io_connections = self.admitted[1..].iter().map(Clients::all).max().unwrap_or(0) as u64;
        let open = |lines: &Vec<Line>| lines.iter().filter(|line| line.state == LineState::Open).count();
        outcome.client_connections = self.lines.iter().map(open).max().unwrap_or(0) as u64;
        outcome.metadata_busy_s = self.hosts[0].busy_ns as f64 / 1e9;
        let servers = 1..(1 + self.setting.servers as usize).min(self.hosts.len());
        outcome.io_busy_s = self.hosts[servers].iter().map(|host| host.busy_ns).max().unwrap_or(0) as f64 / 1e9;
        outcome.metadata_out_bytes = self.hosts[0].out_bytes;
        self.outcome
    }
}

/// Returns a connection's server: 0 for the metadata service, then the I/O servers.
fn server_of(line: u16) -> usize {
    (usize::from(line) + 1).saturating_sub(FIRST_IO)
}

/// Returns the client's identity at servers: each is a separate machine.
fn admitted_as(client: u32, says: String) -> Admitted {
    Admitted::Own(IpAddr::V4(Ipv4Addr::from_bits(client)), says)
}

//! Bursts and gaps against packets: over a link of known rate, channels say what tcpdump saw at the receiving side.

use crate::bounded::{Bounded, BoundedChild, LIMIT};
use crate::common::{is_root, no_bpf, run, scratch, skipped, text, wait_until};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PYTHON: &str = "/usr/bin/python3";
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/end_to_end/recording/programs/over_a_link.py");

/// Each profile with the link's bits per second and its bucket: one packet would make the link slower by the grain of its timer, where packets follow
/// each other in less than a tenth of a millisecond; several would let a small message pass at the speed of memory.
const PROFILES: [(&str, f64, u32); 6] = [
    ("pulses", 2e9, 37_000),
    ("steady", 1e9, 18_500),
    ("several", 1e9, 18_500),
    ("replies", 2e8, 9_500),
    ("slow-sender", 2e8, 9_500),
    ("slow-receiver", 2e8, 9_500),
];

const CLIENT: &str = "10.93.0.1";
const SERVER: &str = "10.93.0.2";

/// Two network namespaces and the link between them; they go away with it.
struct Link {
    ends: [String; 2],
}

fn tool(words: &str) -> bool {
    let mut words = words.split_whitespace();
    let program = words.next().expect("a program");
    Command::new(program).args(words).stderr(Stdio::null()).status_in_time().is_ok_and(|status| status.success())
}

impl Link {
    fn new() -> Option<Link> {
        let own = std::process::id();
        let link = Link { ends: [format!("thw{own}c"), format!("thw{own}s")] };
        let [client, server] = &link.ends;
        let mut made = tool(&format!("ip netns add {client}")) && tool(&format!("ip netns add {server}"));
        made = made && tool(&format!("ip -n {client} link add eth0 type veth peer name eth0 netns {server}"));
        for (end, address) in [(client, CLIENT), (server, SERVER)] {
            made = made && tool(&format!("ip -n {end} address add {address}/24 dev eth0"));
            made = made && tool(&format!("ip -n {end} link set eth0 mtu 9000 up")) && tool(&format!("ip -n {end} link set lo up"));
        }
        (made && link.shape(1e9, 18_500)).then_some(link)
    }

    fn shape(&self, rate: f64, burst: u32) -> bool {
        let shaped = |end| format!("ip netns exec {end} tc qdisc replace dev eth0 root tbf rate {rate}bit burst {burst} limit 8000000");
        self.ends.iter().all(|end| tool(&shaped(end)))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.ends.iter().for_each(|end| {
            tool(&format!("ip netns delete {end}"));
        });
    }
}

fn within(end: &str, words: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", end]).args(words);
    command
}

/// Ends what it holds, by its own process id.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_in_time(LIMIT);
    }
}

/// When packets with payload came, and how many bytes of it, in seconds.
fn packets(path: &Path, from: &str) -> Vec<(f64, f64)> {
    let bytes = std::fs::read(path).expect("a capture");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let from: Vec<u8> = from.split('.').map(|part| part.parse().expect("an address")).collect();
    let (mut at, mut found) = (24, Vec::new());
    while at + 16 <= bytes.len() && at + 16 + word(at + 8) as usize <= bytes.len() {
        let (seconds, kept, length) = (f64::from(word(at)) + f64::from(word(at + 4)) * 1e-9, word(at + 8) as usize, word(at + 12) as usize);
        let packet = &bytes[at + 16 + 14..at + 16 + kept];
        at += 16 + kept;
        if packet.len() < 40 || packet[12..16] != from[..] {
            continue;
        }
        let ip = usize::from(packet[0] & 15) * 4;
        let payload = length - 14 - ip - usize::from(packet[ip + 12] >> 4) * 4;
        if payload > 0 {
            found.push((seconds, payload as f64));
        }
    }
    found
}

/// How long the link carried payload, and how long it did not, between its first byte and its last: each packet takes what it takes at the
/// link's rate, and of several that came at once each was carried before the next.
fn truth(packets: &[(f64, f64)], link: f64) -> (f64, f64) {
    const HEADERS: f64 = 66.0;
    let (mut busy, mut next) = (0.0, f64::MAX);
    let last = packets.last().expect("packets").0;
    for &(at, bytes) in packets.iter().rev() {
        let took = (bytes + HEADERS) * 8.0 / link;
        next = at.min(next) - took;
        busy += took;
    }
    (busy, last - next - busy)
}

/// A transfer under recording and tcpdump: what the explanation says of the channel, and what packets say.
fn transfer(link: &Link, directory: &Path, profile: &str) -> (serde_json::Value, Vec<(f64, f64)>) {
    let [client_end, server_end] = &link.ends;
    let replies = profile == "replies";
    let (receiver, sender) = if replies { (client_end, SERVER) } else { (server_end, CLIENT) };
    let capture = directory.join(format!("{profile}.pcap"));
    let words = [
        "tcpdump",
        "-i",
        "eth0",
        "-s",
        "80",
        "-B",
        "65536",
        "-U",
        "--immediate-mode",
        "--time-stamp-precision=nano",
        "-w",
        text(&capture),
        "tcp",
    ];
    let _tcpdump = Ended(within(receiver, &words).stderr(Stdio::null()).spawn().expect("tcpdump starts"));
    wait_until("tcpdump listens", || std::fs::metadata(&capture).is_ok_and(|file| file.len() >= 24));
    let mut server =
        Ended(within(server_end, &[PYTHON, PROGRAM, "server", SERVER, profile]).stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut port = String::new();
    BufReader::new(server.0.stdout.as_mut().expect("its output")).read_line(&mut port).expect("its port");
    let recording = directory.join(format!("{profile}.thw"));
    let command = ["ip", "netns", "exec", client_end, PYTHON, PROGRAM, "client", SERVER, port.trim(), profile];
    let mut words = vec!["record", "--method", "bpf", "--output", text(&recording), "--"];
    words.extend(command);
    run(words).done();
    let document = run(["explain", "--json", text(&recording)]).json();
    let sums = document["channels"].as_array().expect("channels").iter().filter(|c| c["aggregate"] == true);
    let largest = sums.max_by_key(|c| c["size_bytes"].as_u64()).expect("a channel").clone();
    let wall_s = document["wall_s"].clone();
    let mut channel = largest;
    channel["wall_s"] = wall_s;
    let arrived = channel["size_bytes"].as_f64().expect("bytes") * 0.99;
    wait_until("tcpdump has written all packets", || packets(&capture, sender).iter().map(|p| p.1).sum::<f64>() >= arrived);
    (channel, packets(&capture, sender))
}

#[test]
fn bursts_and_gaps_are_what_packets_show() {
    if !is_root() || [PYTHON, "/usr/sbin/tc", "/usr/bin/tcpdump"].iter().any(|program| !Path::new(program).exists()) {
        return skipped("links need root, python3, iproute2 and tcpdump");
    }
    if let Some(why) = no_bpf() {
        return skipped(&why);
    }
    let Some(link) = Link::new() else { return skipped("network namespaces or shaped links cannot be made here") };
    let directory = scratch();
    let mut missed: Vec<String> = Vec::new();
    for (profile, rate_of_link, burst) in PROFILES {
        assert!(link.shape(rate_of_link, burst));
        let (channel, packets) = transfer(&link, directory.path(), profile);
        assert!(packets.len() > 100, "{profile}: {} packets", packets.len());
        let (busy_s, idle_s) = truth(&packets, rate_of_link);
        let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("{profile}: {channel:#}"));
        let wall_s = number(&channel["wall_s"]);
        let said = (number(&channel["busy_share"]) * wall_s, number(&channel["gaps"]["total_s"]));
        let rate = number(&channel["burst_bytes_per_s"]) * 8.0;
        println!(
            "{profile}: busy {:.1} ms (packets {:.1}), gaps {:.1} ms (packets {:.1}), {:.0} Mb/s, wall {:.1} ms",
            said.0 * 1e3,
            busy_s * 1e3,
            said.1 * 1e3,
            idle_s * 1e3,
            rate / 1e6,
            wall_s * 1e3
        );
        assert_eq!(channel["basis"], "received", "{profile}");
        let mut judge = |holds: bool, what: &str| {
            if !holds {
                missed.push(format!("{profile}: {what}"))
            }
        };
        judge(rate <= rate_of_link * 1.05, "the burst rate is above the link's");
        judge((said.0 - busy_s).abs() <= 0.05 * wall_s, "the busy share");
        judge((said.1 - idle_s).abs() <= 0.05 * wall_s, "the time in gaps");
    }
    assert!(missed.is_empty(), "{missed:?}");
}

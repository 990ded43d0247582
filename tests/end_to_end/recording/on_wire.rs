//! Bursts and gaps compared with packets: over a link of known rate, channels match tcpdump at the receiving side.

use crate::bounded::{Bounded, BoundedChild, LIMIT};
use crate::common::{THALWEG, is_root, no_bpf, run, scratch, skipped, text, wait_until};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const PYTHON: &str = "/usr/bin/python3";
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/end_to_end/recording/programs/over_a_link.py");

/// Each profile with the link's bits per second and its bucket. A bucket of one packet would slow the link by its timer's granularity, if
/// packets follow each other in less than a tenth of a millisecond; several would let a small message pass at memory speed.
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

/// Two network namespaces and the link between them, removed when dropped.
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
        // Tests of one process run concurrently.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let own = format!("thw{}x{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let link = Link { ends: [format!("{own}c"), format!("{own}s")] };
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

/// A process, ended by its process ID when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_in_time(LIMIT);
    }
}

/// Reads the times of packets with payload, in seconds, and their bytes.
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

/// Computes how long the link was busy with payload, and idle, between its first and last byte: each packet takes its time at the link's
/// rate, and of several that arrived together each was carried before the next.
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

/// Captures packets at this end until dropped.
fn capturing(receiver: &str, capture: &Path) -> Ended {
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
        text(capture),
        "tcp",
    ];
    let tcpdump = Ended(within(receiver, &words).stderr(Stdio::null()).spawn().expect("tcpdump starts"));
    wait_until("tcpdump listens", || std::fs::metadata(capture).is_ok_and(|file| file.len() >= 24));
    tcpdump
}

/// Describes differences between a channel and its packets above this share of the wall time.
fn differences(profile: &str, channel: &serde_json::Value, packets: &[(f64, f64)], rate_of_link: f64, most: f64) -> Vec<String> {
    let (busy_s, idle_s) = truth(packets, rate_of_link);
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
    let judged = [
        (rate <= rate_of_link * 1.05, "the burst rate is above the link's"),
        ((said.0 - busy_s).abs() <= most * wall_s, "the busy share"),
        ((said.1 - idle_s).abs() <= most * wall_s, "the time in gaps"),
    ];
    judged.iter().filter(|(holds, _)| !holds).map(|(_, what)| format!("{profile}: {what}")).collect()
}

/// Returns the channel with the most bytes from the explanation of a recording, with the total time.
fn channel_of(recording: &Path) -> serde_json::Value {
    let document = run(["explain", "--json", text(recording)]).json();
    let sums = document["channels"].as_array().expect("channels").iter().filter(|c| c["aggregate"] == true);
    let mut channel = sums.max_by_key(|c| c["size_bytes"].as_u64()).expect("a channel").clone();
    channel["wall_s"] = document["wall_s"].clone();
    channel
}

/// Records and captures a transfer; returns the explained channel, and the packets.
fn transfer(link: &Link, directory: &Path, profile: &str) -> (serde_json::Value, Vec<(f64, f64)>) {
    let [client_end, server_end] = &link.ends;
    let replies = profile == "replies";
    let (receiver, sender) = if replies { (client_end, SERVER) } else { (server_end, CLIENT) };
    let capture = directory.join(format!("{profile}.pcap"));
    let _tcpdump = capturing(receiver, &capture);
    let mut server =
        Ended(within(server_end, &[PYTHON, PROGRAM, "server", SERVER, profile]).stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut port = String::new();
    BufReader::new(server.0.stdout.as_mut().expect("its output")).read_line(&mut port).expect("its port");
    let recording = directory.join(format!("{profile}.thw"));
    let command = ["ip", "netns", "exec", client_end, PYTHON, PROGRAM, "client", SERVER, port.trim(), profile];
    let mut words = vec!["record", "--method", "bpf", "--output", text(&recording), "--"];
    words.extend(command);
    run(words).done();
    let channel = channel_of(&recording);
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
        assert_eq!(channel["basis"], "received", "{profile}");
        missed.extend(differences(profile, &channel, &packets, rate_of_link, 0.05));
    }
    assert!(missed.is_empty(), "{missed:?}");
}

/// Eight requests of 4 MiB from a pipe whose writer sleeps after each, so that the wire is idle in between.
const PULSES: &str = "for n in 1 2 3 4 5 6 7 8; do head -c 4194304 /dev/zero; sleep 0.04; done";

#[test]
fn a_copys_own_recording_knows_the_rate_of_the_link_and_its_gaps() {
    if !is_root() || ["/usr/sbin/tc", "/usr/bin/tcpdump"].iter().any(|program| !Path::new(program).exists()) {
        return skipped("links need root, iproute2 and tcpdump");
    }
    let Some(link) = Link::new() else { return skipped("network namespaces or shaped links cannot be made here") };
    let rate_of_link = 1e9;
    assert!(link.shape(rate_of_link, 18_500));
    let directory = scratch();
    let [client_end, server_end] = &link.ends;
    let store = directory.path().join("store");
    let up = [THALWEG, "up", "--print-address", "--plain", "--host", SERVER, "--beyond-loopback", "--port", "0", text(&store)];
    let mut server = Ended(within(server_end, &up).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts"));
    let mut address = String::new();
    BufReader::new(server.0.stdout.as_mut().expect("its output")).read_line(&mut address).expect("its address");
    let capture = directory.path().join("own.pcap");
    let _tcpdump = capturing(server_end, &capture);
    let recording = directory.path().join("own.thw");
    let flags = "--quiet --requests 1 --request 4Mi --buffer 1Mi --streams 1";
    let copy = format!("{{ {PULSES}; }} | {THALWEG} cp {flags} --record {} - {}/copy", text(&recording), address.trim());
    let mut command = within(client_end, &["sh", "-c", &copy]);
    let done = command.env("THALWEG_CREDENTIAL", store.join("store.credential")).output_in_time().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let channel = channel_of(&recording);
    assert_ne!(channel["basis"], "handed_over", "{channel:#}");
    let sent = f64::from(8 << 22) * 0.99;
    wait_until("tcpdump has written all packets", || packets(&capture, CLIENT).iter().map(|p| p.1).sum::<f64>() >= sent);
    // The data is preceded and followed by metadata requests. (The recorder is a thread among others: on a busy machine it is late.)
    let data: Vec<(f64, f64)> = packets(&capture, CLIENT).into_iter().filter(|&(_, bytes)| bytes > 1000.0).collect();
    let differ = differences("own", &channel, &data, rate_of_link, 0.15);
    assert!(differ.is_empty(), "{differ:?}: {channel:#}");
}

//! Captures: the RPCs are the same in whatever format, link layer and order packets come, and what is missing is
//! counted.

mod made;

use made::*;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use thalweg_record::capture::{Capture, Options, Summary};
use thalweg_trace::{CounterName, Event, MarkKind, Memory, Sink, Span, SpanKind};

/// The rows read from a capture.
struct Read {
    events: Vec<Event>,
    summary: Summary,
}

fn try_read(bytes: &[u8], ports: &[u16]) -> Result<Read, String> {
    let memory = Arc::new(Memory::new(1 << 20));
    let capture =
        Capture::from_reader(Path::new("made.pcap"), Box::new(std::io::Cursor::new(bytes.to_vec()))).map_err(|e| e.to_string())?;
    let options = Options { ports: ports.to_vec(), ..Options::default() };
    let summary = capture.read(&options, &(Arc::clone(&memory) as Arc<dyn Sink>)).map_err(|e| e.to_string())?;
    Ok(Read { events: memory.drain().0, summary })
}

fn read(packets: &[Packet]) -> Read {
    let format = Format::Pcap { big: false, nanoseconds: true };
    try_read(&write(packets, format, Link::Ethernet, usize::MAX), &[]).expect("a capture")
}

impl Read {
    fn spans(&self, kind: SpanKind) -> Vec<Span> {
        let spans = self.events.iter().filter_map(|e| if let Event::Span(s) = e { Some(*s) } else { None });
        spans.filter(|s| s.kind == kind).collect()
    }

    /// Returns start, duration, bytes and result of each call, relative to the capture's start.
    fn calls(&self) -> Vec<(i64, u64, u64, Option<i64>)> {
        let calls = self.spans(SpanKind::RpcCall).into_iter();
        let mut calls: Vec<_> = calls.map(|s| (s.start.ns() - BEGIN_NS, s.duration_ns, s.size_bytes.unwrap_or(0), s.result)).collect();
        calls.sort_unstable();
        calls
    }

    /// Returns the bytes of all messages from the client, and to it.
    fn moved_bytes(&self) -> [u64; 2] {
        [SpanKind::NetSend, SpanKind::NetReceive].map(|kind| self.spans(kind).iter().map(|s| s.size_bytes.unwrap_or(0)).sum())
    }

    /// Returns the number of calls for each result.
    fn results(&self) -> Vec<(Option<i64>, usize)> {
        let mut results: Vec<Option<i64>> = self.calls().iter().map(|c| c.3).collect();
        results.sort_unstable();
        results.chunk_by(|a, b| a == b).map(|same| (same[0], same.len())).collect()
    }

    fn marks(&self, kind: MarkKind) -> usize {
        self.events.iter().filter(|e| matches!(e, Event::Mark(m) if m.kind == kind)).count()
    }

    fn procedures(&self) -> Vec<String> {
        let named = self.events.iter().filter_map(|e| match e {
            Event::Object(o) => o.attributes.iter().find(|(n, _)| n == "procedure").map(|(_, v)| v.clone()),
            _ => None,
        });
        let mut all: Vec<String> = named.collect();
        all.sort();
        all
    }
}

/// Ten writes of 20,000 bytes and a commit that fails; each reply comes 1 ms after its call.
fn copy(v6: bool) -> Talk {
    let mut talk = Talk::new(v6, 700);
    talk.connect();
    for xid in 1..=10 {
        talk.send(CLIENT, &record(call(xid, 7, 20_000)));
        talk.wait(1_000_000);
        talk.send(SERVER, &record(reply(xid, 0, 100)));
        talk.wait(500_000);
    }
    talk.send(CLIENT, &record(call(11, 21, 40)));
    talk.wait(5_000_000);
    talk.send(SERVER, &record(reply(11, 5, 40)));
    talk
}

#[test]
fn every_format_and_link_layer_gives_the_same_rpcs() {
    for v6 in [false, true] {
        let talk = copy(v6);
        let expected = read(&talk.packets).calls();
        assert_eq!(expected.len(), 11);
        assert_eq!(expected[10].3, Some(-5));
        assert_eq!(expected[0].2, 20_000 + 60 + 4 + 28 + 100 + 4);
        for link in Link::ALL {
            for big in [false, true] {
                let formats = [
                    Format::Pcap { big, nanoseconds: false },
                    Format::Pcap { big, nanoseconds: true },
                    Format::Pcapng { big, resolution: 6 },
                    Format::Pcapng { big, resolution: 9 },
                    Format::Pcapng { big, resolution: 0x80 | 30 },
                ];
                for format in formats {
                    let read = try_read(&write(&talk.packets, format, link, usize::MAX), &[]).expect("a capture");
                    let calls = read.calls();
                    let near = |a: u64, b: u64| a.abs_diff(b) <= 1000;
                    let same = calls.len() == expected.len()
                        && calls
                            .iter()
                            .zip(&expected)
                            .all(|(a, b)| near(a.1, b.1) && near(a.0 as u64, b.0 as u64) && (a.2, a.3) == (b.2, b.3));
                    assert!(same, "{format:?} {link:?} v6 {v6}: {calls:?}");
                    let lost = if matches!(format, Format::Pcapng { .. }) { 3 } else { 0 };
                    assert_eq!(read.summary.dropped_packets, lost, "{format:?}");
                }
            }
        }
    }
}

#[test]
fn messages_have_their_way_over_the_wire_and_their_place_in_the_stream() {
    let read = read(&copy(false).packets);
    let (sends, receives) = (read.spans(SpanKind::NetSend), read.spans(SpanKind::NetReceive));
    assert_eq!((sends.len(), receives.len()), (11, 11));
    assert_eq!(sends[0].duration_ns, 13 * 10_000, "fourteen segments, 10 µs apart");
    assert_eq!(sends[1].offset_bytes, Some(20_064));
    assert!(sends.iter().zip(&receives).all(|(s, r)| s.request == r.request && s.request.is_some()));
    assert_eq!(read.procedures(), ["COMMIT", "WRITE"]);
    let name = read.events.iter().find_map(|e| if let Event::Track(t) = e { Some(t.name.clone()) } else { None });
    assert_eq!(name.as_deref(), Some("10.0.0.1:700 > 10.0.0.2:2049"));
    let most = read.events.iter().filter_map(|e| match e {
        Event::Counter(c) if c.name == CounterName::RpcPending => Some(c.value),
        _ => None,
    });
    assert_eq!(most.max(), Some(1));
}

#[test]
fn a_capture_that_begins_in_the_middle_joins_at_the_next_call() {
    let talk = copy(false);
    for skip in 1..talk.packets.len() - 40 {
        let read = read(&talk.packets[skip..]);
        let whole: Vec<_> = talk.packets.iter().take(skip).filter(|p| p.ip.len() > 41).collect();
        let begun = whole.iter().map(|p| p.ip.len() - 40).sum::<usize>() / 20_064;
        assert!(read.calls().len() + 1 >= 11 - begun.min(10), "{skip}: {:?}", read.calls());
        assert!(read.spans(SpanKind::NetSend).iter().all(|s| skip < 1 || s.offset_bytes.is_none() || skip < 3), "{skip}");
        let name = read.events.iter().find_map(|e| if let Event::Track(t) = e { Some(t.name.clone()) } else { None });
        assert_eq!(name.as_deref(), Some("10.0.0.1:700 > 10.0.0.2:2049"), "the client is known by what it sends");
    }
}

#[test]
fn packets_that_the_capture_lost_cost_only_their_own_rpcs() {
    let talk = copy(false);
    let complete = read(&talk.packets).calls();
    for lost in 3..talk.packets.len() - 3 {
        let mut packets = talk.packets.clone();
        packets.remove(lost);
        let read = read(&packets);
        let found = read.calls();
        assert!(found.len() >= complete.len() - 2, "without packet {lost}: {found:?}");
        let wrong = found
            .iter()
            .filter(|c| !matches!(c.3, Some(-110 | -61)) && !complete.iter().any(|w| w.1.abs_diff(c.1) < 300_000 && w.2 == c.2));
        assert_eq!(wrong.count(), 0, "without packet {lost}: {found:?}");
    }
}

#[test]
fn packets_out_of_order_and_sent_again_change_nothing_but_counts() {
    let talk = copy(false);
    let complete: Vec<_> = read(&talk.packets).calls().iter().map(|c| (c.2, c.3)).collect();
    let mut packets = talk.packets.clone();
    // Two neighbours of one message swapped, one segment retransmitted immediately, and one after the timer.
    packets.swap(5, 6);
    let mut again = packets[9].clone();
    again.ip[5] = again.ip[5].wrapping_add(100);
    packets.insert(10, again);
    let found = read(&packets);
    assert_eq!(found.calls().iter().map(|c| (c.2, c.3)).collect::<Vec<_>>(), complete);
    assert_eq!((found.summary.counts.reordered, found.marks(MarkKind::TcpRetransmit)), (1, 1));
    // A packet captured twice is not a retransmission.
    let twice: Vec<Packet> = talk.packets.iter().flat_map(|p| [p.clone(), p.clone()]).collect();
    let found = read(&twice);
    assert_eq!(found.calls().iter().map(|c| (c.2, c.3)).collect::<Vec<_>>(), complete);
    assert_eq!((found.marks(MarkKind::TcpRetransmit), found.summary.counts.captured_twice as usize), (0, talk.packets.len()));
}

#[test]
fn snapped_packets_still_show_their_rpcs() {
    let mut talk = copy(false);
    talk.packets.retain(|p| p.ip.len() >= 40);
    let format = Format::Pcap { big: false, nanoseconds: true };
    let complete = read(&talk.packets).calls();
    for snaplen in [160, 200, 256, 1000] {
        let read = try_read(&write(&talk.packets, format, Link::Ethernet, snaplen), &[]).expect("a capture");
        assert_eq!(read.calls(), complete, "snapped at {snaplen}");
        assert!(read.summary.counts.cut_packets > 100);
    }
}

/// Header bytes before the payload of a packet on Ethernet without TCP options.
const HEADS: usize = 14 + 20 + 20;

/// Returns how many of `count` consecutive messages of `bytes` bytes have their first `needed` bytes captured, if
/// segments of `segment` bytes are truncated at `snaplen`.
fn heads_captured(count: usize, bytes: usize, needed: usize, segment: usize, snaplen: usize) -> usize {
    (0..count).filter(|i| i * bytes % segment + needed <= snaplen - HEADS).count()
}

#[test]
fn of_segments_that_were_cut_all_bytes_and_calls_are_counted() {
    const CALLS: usize = 200;
    for snaplen in [96, 512] {
        // Calls are coalesced in large segments, as by offload; replies come one by one.
        let mut writes = Talk::new(false, 700);
        writes.segment_bytes = 60_000;
        writes.connect();
        let calls: Vec<Vec<u8>> = (1..=CALLS as u32).map(|xid| record(call(xid, 7, 2_936))).collect();
        writes.send(CLIENT, &calls.concat());
        (1..=CALLS as u32).for_each(|xid| writes.send(SERVER, &record(reply(xid, 0, 10))));
        let sent = [calls.concat().len() as u64, (CALLS * record(reply(1, 0, 10)).len()) as u64];
        let format = Format::Pcap { big: false, nanoseconds: true };
        let read = try_read(&write(&writes.packets, format, Link::Ethernet, snaplen), &[]).expect("a capture");
        // A call is recognised by the words up to its credentials' length.
        let seen = heads_captured(CALLS, calls[0].len(), 28, 60_000, snaplen);
        assert!((1..CALLS).contains(&seen), "{seen}");
        assert_eq!(read.results(), [(Some(-61), CALLS - seen), (Some(0), seen)], "cut at {snaplen}");
        assert_eq!(read.moved_bytes(), sent, "cut at {snaplen}");
        assert_eq!(read.summary.counts.calls_not_captured as usize, CALLS - seen);
        assert!(read.summary.notes.iter().any(|n| n.contains(&format!("of {} calls the head is missing", CALLS - seen))));

        // The other way round: replies are coalesced.
        let mut reads = Talk::new(false, 700);
        reads.segment_bytes = 60_000;
        reads.connect();
        (1..=CALLS as u32).for_each(|xid| reads.send(CLIENT, &record(call(xid, 6, 20))));
        let replies: Vec<Vec<u8>> = (1..=CALLS as u32).map(|xid| record(reply(xid, 0, 2_968))).collect();
        reads.send(SERVER, &replies.concat());
        let read = try_read(&write(&reads.packets, format, Link::Ethernet, snaplen), &[]).expect("a capture");
        let seen = heads_captured(CALLS, replies[0].len(), 24, 60_000, snaplen);
        let answered: usize = read.results().iter().filter(|(result, _)| *result != Some(-61)).map(|(_, count)| count).sum();
        assert_eq!((read.calls().len(), answered), (CALLS, seen), "cut at {snaplen}: {:?}", read.results());
        assert_eq!(read.moved_bytes(), [(CALLS * record(call(1, 6, 20)).len()) as u64, replies.concat().len() as u64]);
        assert_eq!((read.summary.counts.unanswered, read.summary.counts.replies_not_captured as usize), (0, CALLS - seen));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However packets are truncated, and whichever the capture loses in the middle, every byte sent is in some
    /// message.
    #[test]
    fn no_byte_is_lost_or_counted_twice(
        calls in prop::collection::vec((0_usize..9_000, 0_usize..4_000), 1..30),
        segment_bytes in 200_usize..70_000,
        snaplen in 60_usize..3_000,
        lost in prop::collection::vec(0_usize..1_000, 0..4),
    ) {
        let mut talk = Talk::new(false, 700);
        talk.segment_bytes = segment_bytes.min(60_000);
        talk.connect();
        let (mut sent, mut last) = ([0, 0], 0);
        // The first message is small and complete, so that the connection is recognised as RPC.
        for (xid, (out, back)) in std::iter::once((8, 8)).chain(calls).enumerate() {
            let (call, reply) = (record(call(xid as u32 + 1, 7, out)), record(reply(xid as u32 + 1, 0, back)));
            last = talk.packets.len();
            talk.send(CLIENT, &call);
            talk.send(SERVER, &reply);
            (sent[0], sent[1]) = (sent[0] + call.len() as u64, sent[1] + reply.len() as u64);
        }
        // Neither the first message, nor the last call and reply: nothing after them would show their bytes.
        let first = 7;
        let lost: Vec<usize> = lost.into_iter().filter(|_| first < last).map(|lost| first + lost % (last - first)).collect();
        let kept: Vec<Packet> = talk.packets.iter().enumerate().filter(|(i, _)| !lost.contains(i)).map(|(_, p)| p.clone()).collect();
        let bytes = write(&kept, Format::Pcap { big: false, nanoseconds: true }, Link::Ethernet, snaplen.max(HEADS + 68));
        let read = try_read(&bytes, &[]).expect("a capture");
        prop_assert_eq!(read.moved_bytes(), sent);
    }
}

#[test]
fn what_is_no_rpc_is_counted_apart_and_the_axis_is_that_of_the_rpcs() {
    let mut stray = Talk::new(false, 900);
    stray.sides[SERVER].port = 80;
    stray.connect();
    stray.send(CLIENT, b"GET / HTTP/1.0\r\n\r\n");
    let before = stray.packets.len();
    let mut talk = copy(false);
    talk.packets.iter_mut().for_each(|p| p.at_ns += 10_000_000_000);
    stray.at_ns += 30_000_000_000;
    stray.send(SERVER, b"HTTP/1.0 404 Not Found\r\n\r\n");
    let after = stray.packets.split_off(before);
    let calls = read(&talk.packets).calls();
    let first_ns = talk.packets[3].at_ns;
    let last_ns = calls.last().map(|c| BEGIN_NS + c.0 + c.1 as i64).unwrap_or_default();
    let strays = (stray.packets.len() + after.len()) as u64;
    let all: Vec<Packet> = stray.packets.into_iter().chain(talk.packets).chain(after).collect();
    let read = read(&all);
    assert_eq!(read.calls(), calls);
    assert_eq!(read.summary.counts.other_segments, strays);
    let said = |name: &str| read.summary.attributes.iter().find(|(n, _)| n == name).and_then(|(_, v)| v.parse::<i64>().ok());
    assert_eq!((said("rpc.first_ns"), said("rpc.last_ns")), (Some(first_ns), Some(last_ns)));
    assert!(read.summary.notes.iter().any(|n| n.starts_with(&format!("{strays} of "))), "{:?}", read.summary.notes);
}

#[test]
fn a_call_without_an_answer_is_pending_until_its_connection_or_the_capture_ends() {
    let mut talk = Talk::new(false, 700);
    talk.connect();
    talk.send(CLIENT, &record(call(1, 7, 100)));
    let asked_ns = talk.packets[3].at_ns;
    let mut other = Talk::new(false, 701);
    other.at_ns = talk.at_ns + 3_000_000_000;
    other.connect();
    let of_open: Vec<Packet> = talk.packets.iter().chain(&other.packets).cloned().collect();
    let ends = of_open.last().unwrap().at_ns;
    assert_eq!(read(&of_open).calls(), [(asked_ns - BEGIN_NS, (ends - asked_ns) as u64, 164, Some(-110))]);
    talk.wait(1_000_000_000);
    talk.segment(SERVER, RST, &[], &[]);
    let closed_ns = talk.packets.last().unwrap().at_ns;
    let of_closed: Vec<Packet> = talk.packets.iter().chain(&other.packets).cloned().collect();
    assert_eq!(read(&of_closed).calls(), [(asked_ns - BEGIN_NS, (closed_ns - asked_ns) as u64, 164, Some(-110))]);
}

#[test]
fn a_call_back_is_the_clients_to_answer() {
    let mut talk = Talk::new(false, 700);
    talk.connect();
    talk.send(CLIENT, &record(call(1, 7, 100)));
    talk.send(SERVER, &record(call_of(9, 0x4000_0000, 1, 1)));
    talk.send(CLIENT, &record(reply(9, 0, 10)));
    talk.send(SERVER, &record(reply(1, 0, 10)));
    let read = read(&talk.packets);
    let objects: Vec<(String, Vec<(String, String)>)> = read
        .events
        .iter()
        .filter_map(|e| if let Event::Object(o) = e { Some((o.name.clone(), o.attributes.clone())) } else { None })
        .filter(|(_, attributes)| attributes.iter().any(|(n, _)| n == "callback"))
        .collect();
    let [(name, attributes)] = &objects[..] else { panic!("{objects:?}") };
    assert_eq!(name, "10.0.0.1:700");
    assert!(attributes.contains(&("program".to_owned(), "1073741824".to_owned())), "{attributes:?}");
    assert_eq!(read.results(), [(None, 1), (Some(0), 1)]);
}

#[test]
fn large_segments_hold_several_rpcs_and_parts_of_others() {
    let mut talk = Talk::new(false, 700);
    talk.segment_bytes = 60_000;
    talk.connect();
    let all: Vec<u8> = (1..=100).flat_map(|xid| record(call(xid, 7, 3000))).collect();
    talk.send(CLIENT, &all);
    talk.wait(1_000_000);
    let replies: Vec<u8> = (1..=100).rev().flat_map(|xid| record(reply(xid, 0, 10))).collect();
    talk.send(SERVER, &replies);
    let read = read(&talk.packets);
    assert_eq!(read.calls().len(), 100);
    let window = read.events.iter().filter_map(|e| match e {
        Event::Counter(c) if c.name == CounterName::RpcWindow => Some(c.value),
        _ => None,
    });
    assert_eq!(window.max(), Some(100));
}

#[test]
fn calls_sent_again_are_one_call_on_their_connection_and_on_the_next() {
    let mut talk = Talk::new(false, 700);
    talk.connect();
    talk.send(CLIENT, &record(call(1, 7, 100)));
    talk.wait(1_000_000_000);
    talk.send(CLIENT, &record(call(1, 7, 100)));
    talk.wait(500_000_000);
    talk.send(SERVER, &record(reply(1, 0, 10)));
    talk.send(SERVER, &record(reply(1, 0, 10)));
    talk.send(CLIENT, &record(call(2, 7, 100)));
    talk.wait(1_000_000_000);
    talk.segment(CLIENT, RST, &[], &[]);
    let mut next = Talk::new(false, 701);
    next.at_ns = talk.at_ns + 1_000_000;
    next.connect();
    next.send(CLIENT, &record(call(2, 7, 100)));
    next.wait(1_000_000);
    next.send(SERVER, &record(reply(2, 0, 10)));
    next.send(CLIENT, &record(call(3, 7, 100)));
    next.wait(10_000_000);
    next.segment(CLIENT, ACK, &[], &[]);
    let read = read(&[talk.packets, next.packets].concat());
    let counts = &read.summary.counts;
    assert_eq!((read.marks(MarkKind::RpcRetransmit), read.marks(MarkKind::RpcTimeout)), (2, 1));
    assert_eq!((counts.duplicate_replies, counts.unmatched_replies, counts.unanswered), (1, 0, 1));
    let calls = read.calls();
    assert_eq!(calls.len(), 3);
    assert!(calls[0].1 > 1_500_000_000 && calls[1].1 > 1_000_000_000, "a call begins when it was first sent: {calls:?}");
    assert_eq!(calls[2].3, Some(-110));
}

#[test]
fn datagrams_are_rpcs_too_and_other_traffic_is_none() {
    let mut talk = Talk::new(false, 700);
    talk.datagram(CLIENT, &call(1, 1, 40));
    talk.wait(300_000);
    talk.datagram(SERVER, &reply(1, 0, 60));
    talk.datagram(CLIENT, b"\0\0\0\x01 no rpc at all, but long enough to be one");
    talk.datagram(CLIENT, &call(2, 1, 40));
    talk.wait(700_000_000);
    talk.datagram(CLIENT, &call(2, 1, 40));
    talk.wait(300_000);
    talk.datagram(SERVER, &reply(2, 0, 60));
    let read = read(&talk.packets);
    assert_eq!((read.calls().len(), read.marks(MarkKind::RpcTimeout)), (2, 1));
    assert_eq!(read.calls()[0].1, 310_000);
}

#[test]
fn a_connection_without_rpcs_has_bursts() {
    let mut talk = Talk::new(false, 700);
    talk.connect();
    for _ in 0..5 {
        talk.send(CLIENT, &[b'x'; 50_000]);
        talk.wait(50_000_000);
    }
    let read = read(&talk.packets);
    let sends = read.spans(SpanKind::NetSend);
    assert_eq!(sends.iter().map(|s| s.size_bytes).collect::<Vec<_>>(), [Some(50_000); 5]);
    assert_eq!(sends[4].offset_bytes, Some(200_000));
    assert!(read.calls().is_empty());
}

#[test]
fn other_ports_are_left_out_and_counted() {
    let bytes = write(&copy(false).packets, Format::Pcap { big: false, nanoseconds: false }, Link::Raw, usize::MAX);
    assert_eq!(try_read(&bytes, &[2049]).unwrap().calls().len(), 11);
    let none = try_read(&bytes, &[2050]).unwrap();
    assert!(none.calls().is_empty() && none.summary.counts.other_ports == none.summary.counts.packets);
}

#[test]
fn a_closed_window_is_a_mark_of_the_sender() {
    let mut talk = Talk::new(false, 700);
    talk.connect();
    talk.send(CLIENT, &record(call(1, 7, 5000)));
    let mut closed = talk.packets.last().unwrap().clone();
    (closed.ip[34], closed.ip[35], closed.ip[5]) = (0, 0, 200);
    talk.packets.push(Packet { at_ns: closed.at_ns + 1000, ..closed });
    assert_eq!(read(&talk.packets).marks(MarkKind::TcpZeroWindow), 1);
}

#[test]
fn what_is_no_capture_or_only_part_of_one_is_said_in_a_sentence() {
    let error = |bytes: &[u8]| try_read(bytes, &[]).err().unwrap_or_default();
    assert!(error(b"").contains("is empty"), "{}", error(b""));
    assert!(error(b"abc").contains("too short"));
    assert!(error(&[7; 100]).contains("not a capture"));
    assert!(error(&[0x1f, 0x8b, 8, 0, 0, 0]).contains("in the middle of its compressed data"));
    let whole = write(&copy(false).packets, Format::Pcap { big: true, nanoseconds: false }, Link::Raw, usize::MAX);
    assert!(error(&whole[..24]).contains("holds no packets"), "{}", error(&whole[..24]));
    assert!(error(&whole[..30]).contains("middle of the packet"));
    let part = try_read(&whole[..whole.len() / 2], &[]).expect("half of it");
    assert!(part.calls().len() >= 4 && part.summary.notes[0].contains("in the middle of the packet"), "{:?}", part.summary.notes);
    let mut damaged = whole.clone();
    let at = damaged.len() / 2;
    // There is a record's head somewhere in the middle; everything after it becomes garbage.
    damaged[at..].fill(0xff);
    let part = try_read(&damaged, &[]).expect("half of it");
    assert!(part.summary.notes.iter().any(|n| n.contains("is damaged at byte")), "{:?}", part.summary.notes);
    let odd = write(&copy(false).packets, Format::Pcap { big: false, nanoseconds: false }, Link::Raw, usize::MAX);
    let odd = [&odd[..20], &147_u32.to_le_bytes(), &odd[24..]].concat();
    assert!(try_read(&odd, &[]).unwrap().summary.notes[0].contains("link type 147"));
}

#[test]
fn a_datagram_that_nobody_answers_is_waited_for_a_minute_at_the_longest() {
    const MINUTE: u64 = 60_000_000_000;
    let mut talk = Talk::new(false, 700);
    talk.datagram(CLIENT, &call(1, 1, 40));
    talk.wait(2_000_000_000);
    talk.datagram(CLIENT, &call(1, 1, 40));
    talk.wait(25 * 60_000_000_000);
    // Its XID is reused for the same procedure, so late that this is another call.
    talk.datagram(CLIENT, &call(1, 1, 40));
    talk.datagram(SERVER, &reply(1, 0, 60));
    talk.datagram(CLIENT, &call(2, 1, 40));
    talk.wait(25 * 60_000_000_000);
    talk.datagram(SERVER, &reply(2, 0, 60));
    let read = read(&talk.packets);
    let calls: Vec<(u64, Option<i64>)> = read.calls().iter().map(|c| (c.1, c.3)).collect();
    assert_eq!(calls, [(2_000_010_000 + MINUTE, Some(-110)), (10_000, Some(0)), (MINUTE, Some(-110))]);
    assert_eq!((read.summary.counts.unanswered, read.summary.counts.unmatched_replies), (2, 1));
}

impl Read {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.summary.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

const YEAR_NS: i64 = 31_536_000_000_000_000;

#[test]
fn a_silence_is_noted_unless_a_connection_outlived_it() {
    let first = copy(false).packets;
    // Other sequence numbers, as of another connection on the same ports.
    let later = |packet: &Packet| {
        let mut packet = Packet { at_ns: packet.at_ns + 19 * YEAR_NS, ..packet.clone() };
        packet.ip[24] ^= 0x55;
        packet.ip[28] ^= 0x55;
        packet
    };
    // Two captures of one pair of ports, 19 years apart, in either order; the later one's beginning is missing.
    let second: Vec<Packet> = first[10..].iter().map(later).collect();
    let silence = format!("{}-{}", first[first.len() - 1].at_ns, second[0].at_ns);
    for both in [[first.clone(), second.clone()].concat(), [second, first.clone()].concat()] {
        let read = read(&both);
        assert_eq!(read.attribute("packets.silences"), Some(silence.as_str()));
        assert_eq!(read.calls().iter().map(|c| c.1).max(), Some(5_020_000), "no call lasts for years");
    }
    // A connection that is idle for a day is still one connection.
    let mut talk = copy(false);
    talk.wait(24 * 3_600_000_000_000);
    talk.send(CLIENT, &record(call(12, 1, 40)));
    talk.send(SERVER, &record(reply(12, 0, 40)));
    assert_eq!(read(&talk.packets).attribute("packets.silences"), None);
}

#[test]
fn of_packets_cut_before_any_head_nothing_is_claimed_about_calls() {
    let cut =
        try_read(&write(&copy(false).packets, Format::Pcap { big: false, nanoseconds: true }, Link::Ethernet, 60), &[]).expect("a capture");
    let notes = cut.summary.notes.join(" ");
    assert_eq!(cut.summary.counts.calls, 0);
    assert!(notes.contains("whether there were RPCs is unknown") && notes.contains("60 B of each"), "{notes}");
    assert!(!notes.contains("complete"), "{notes}");
}

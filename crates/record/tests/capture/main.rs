//! Captures: whatever format, link layer and order packets come in, the RPCs are the same; and what is not there is counted.

mod made;

use made::*;
use std::path::Path;
use std::sync::Arc;
use thalweg_record::capture::{Capture, Options, Summary};
use thalweg_trace::{CounterName, Event, MarkKind, Memory, Sink, Span, SpanKind};

/// What a capture becomes.
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

    /// Start, length, bytes and result of each call, from the capture's beginning.
    fn calls(&self) -> Vec<(i64, u64, u64, Option<i64>)> {
        let calls = self.spans(SpanKind::RpcCall).into_iter();
        let mut calls: Vec<_> = calls.map(|s| (s.start.ns() - BEGIN_NS, s.duration_ns, s.size_bytes.unwrap_or(0), s.result)).collect();
        calls.sort_unstable();
        calls
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
    // Two neighbours of one message in the wrong order, one segment again at once, and one after the timer.
    packets.swap(5, 6);
    let mut again = packets[9].clone();
    again.ip[5] = again.ip[5].wrapping_add(100);
    packets.insert(10, again);
    let found = read(&packets);
    assert_eq!(found.calls().iter().map(|c| (c.2, c.3)).collect::<Vec<_>>(), complete);
    assert_eq!((found.summary.counts.reordered, found.marks(MarkKind::TcpRetransmit)), (1, 1));
    // The same packet captured twice is no retransmission.
    let twice: Vec<Packet> = talk.packets.iter().flat_map(|p| [p.clone(), p.clone()]).collect();
    let found = read(&twice);
    assert_eq!(found.calls().iter().map(|c| (c.2, c.3)).collect::<Vec<_>>(), complete);
    assert_eq!((found.marks(MarkKind::TcpRetransmit), found.summary.counts.captured_twice as usize), (0, talk.packets.len()));
}

#[test]
fn snapped_packets_still_tell_their_rpcs() {
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
fn what_is_no_capture_or_only_part_of_one_is_told_in_a_sentence() {
    let error = |bytes: &[u8]| try_read(bytes, &[]).err().unwrap_or_default();
    assert!(error(b"").contains("is empty"), "{}", error(b""));
    assert!(error(b"abc").contains("too short"));
    assert!(error(&[7; 100]).contains("no capture"));
    assert!(error(&[0x1f, 0x8b, 8, 0, 0, 0]).contains("gzip"));
    let whole = write(&copy(false).packets, Format::Pcap { big: true, nanoseconds: false }, Link::Raw, usize::MAX);
    assert!(error(&whole[..24]).contains("holds no packets"), "{}", error(&whole[..24]));
    assert!(error(&whole[..30]).contains("middle of the packet"));
    let part = try_read(&whole[..whole.len() / 2], &[]).expect("half of it");
    assert!(part.calls().len() >= 4 && part.summary.notes[0].contains("in the middle of the packet"), "{:?}", part.summary.notes);
    let mut damaged = whole.clone();
    let at = damaged.len() / 2;
    // Somewhere in the middle there is a record's head; make all that follows garbage.
    damaged[at..].fill(0xff);
    let part = try_read(&damaged, &[]).expect("half of it");
    assert!(part.summary.notes.iter().any(|n| n.contains("is damaged at byte")), "{:?}", part.summary.notes);
    let odd = write(&copy(false).packets, Format::Pcap { big: false, nanoseconds: false }, Link::Raw, usize::MAX);
    let odd = [&odd[..20], &147_u32.to_le_bytes(), &odd[24..]].concat();
    assert!(try_read(&odd, &[]).unwrap().summary.notes[0].contains("link type 147"));
}

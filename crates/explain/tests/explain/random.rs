//! Any recording is explained without a panic, with every instant charged once.

use crate::common::*;
use proptest::prelude::*;
use thalweg_trace::{Role, SpanKind};

#[derive(Clone, Debug)]
struct Random {
    track: usize,
    kind: usize,
    from: u64,
    length: u64,
    connection: usize,
    request: u64,
    waker: usize,
    cpu: Option<u64>,
    runqueue: u64,
    bytes: u64,
    /// What the kernel saw end it: a thread, a device, a packet, a timer; 4 and above: not seen.
    ended: usize,
    offset: Option<u64>,
    result: Option<i64>,
    within: bool,
}

fn spans() -> impl Strategy<Value = Vec<Random>> {
    let one = (
        (0_usize..8, 0_usize..SpanKind::ALL.len(), 0_u64..12_000, 0_u64..4_000, 0_usize..3),
        (0_u64..6, 0_usize..10, prop::option::of(prop_oneof![Just(0), 0_u64..5_000]), 0_u64..2_000, 0_u64..3_000_000),
        (0_usize..6, prop::option::of(0_u64..10_000_000), prop::option::of(-20_i64..10), any::<bool>()),
    );
    let one = one.prop_map(|((track, kind, from, length, connection), (request, waker, cpu, runqueue, bytes), more)| Random {
        track,
        kind,
        from,
        length,
        connection,
        request,
        waker,
        cpu,
        runqueue,
        bytes,
        ended: more.0,
        offset: more.1,
        result: more.2,
        within: more.3,
    });
    prop::collection::vec(one, 0..120)
}

/// For each thread: start, length, and maker (0: it existed before).
fn lives() -> impl Strategy<Value = Vec<Option<(u64, u64, usize)>>> {
    prop::collection::vec(prop::option::of((0_u64..12_000, 0_u64..9_000, 0_usize..7)), 7)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_recording_is_charged_exactly_once_and_within_lives(spans in spans(), end in 1_u64..12_000, lives in lives()) {
        let mut tale = Tale::new(end, 2);
        let roles = [Role::Client, Role::Client, Role::Server, Role::Server, Role::None, Role::Recorder, Role::Kernel];
        let mut tracks: Vec<_> = roles.iter().enumerate().map(|(i, &r)| tale.track(r, &format!("track {i}"))).collect();
        tracks.push(tale.device("vda"));
        let connections = [tale.connection("127.0.0.1:0 > 127.0.0.1:9"), tale.two_ends("127.0.0.1:1 > 127.0.0.1:9")];
        let mut last = None;
        for r in spans {
            let track = tracks[r.track];
            let mut line = tale.span(track, SpanKind::ALL[r.kind], r.from, r.from + r.length).bytes(r.bytes);
            line = match r.cpu {
                Some(cpu) => line.ran(cpu).runnable(r.runqueue),
                None => line.observed(),
            };
            if let Some(&(near, far)) = connections.get(r.connection) {
                line = line.on(if roles.get(r.track) == Some(&Role::Server) { far } else { near });
            }
            if r.request > 0 {
                line = line.request(r.request);
            }
            line = match (tracks.get(r.waker), r.ended) {
                (Some(&waker), 0) => line.woken_by(waker),
                (_, 1) => line.by_device(*tracks.last().unwrap()),
                (_, 2) => line.by_packet(),
                (_, 3) => line.by_timer(),
                (Some(&waker), 4) => line.held_by(waker),
                _ => line,
            };
            if let Some(offset) = r.offset {
                line = line.offset(offset);
            }
            if let Some(result) = r.result {
                line = line.result(result);
            }
            if let Some(parent) = last.filter(|_| r.within) {
                line = line.within(parent);
            }
            last = Some(line.id());
            line.end();
        }
        for (track, life) in tracks.iter().take(roles.len()).zip(&lives) {
            match *life {
                Some((from, length, 0)) => (tale.seen(*track, from), tale.ended(*track, from + length)),
                Some((from, length, by)) => (tale.made(*track, from, tracks[by]), tale.ended(*track, from + length)),
                None => continue,
            };
        }
        let e = tale.explain();
        // The command's own thread, the first client's, lives as long as the recording.
        for segment in e.path.iter().filter(|s| !s.cause.name().ends_with("unknown")) {
            let Some(at) = segment.track.and_then(|id| tracks.iter().position(|t| t.number() == id)) else { continue };
            let Some(Some((from, length, _))) = lives.get(at).filter(|_| at != 0) else { continue };
            let within = segment.start_s >= *from as f64 / 1e6 - 1e-9 && segment.end_s <= (from + length) as f64 / 1e6 + 1e-9;
            prop_assert!(within, "{segment:?} lies outside of {from} to {} µs", from + length);
        }
    }
}

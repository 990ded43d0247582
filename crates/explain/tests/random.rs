//! Whatever is in a recording, it is explained without a panic, and every instant is charged once.

mod common;
use common::*;
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
}

fn spans() -> impl Strategy<Value = Vec<Random>> {
    let one = (
        (0_usize..6, 0_usize..SpanKind::ALL.len(), 0_u64..12_000, 0_u64..4_000, 0_usize..3),
        (0_u64..6, 0_usize..8, prop::option::of(0_u64..5_000), 0_u64..2_000, 0_u64..3_000_000),
    );
    let one = one.prop_map(|((track, kind, from, length, connection), (request, waker, cpu, runqueue, bytes))| Random {
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
    });
    prop::collection::vec(one, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_recording_is_charged_exactly_once(spans in spans(), end in 1_u64..12_000) {
        let mut tale = Tale::new(end, 2);
        let roles = [Role::Client, Role::Client, Role::Server, Role::Server, Role::None, Role::Recorder];
        let tracks: Vec<_> = roles.iter().enumerate().map(|(i, &r)| tale.track(r, &format!("track {i}"))).collect();
        let connections: Vec<_> = (0..2).map(|i| tale.connection(&format!("127.0.0.1:{i} > 127.0.0.1:9"))).collect();
        for r in spans {
            let track = tracks[r.track];
            let mut line = tale.span(track, SpanKind::ALL[r.kind], r.from, r.from + r.length).bytes(r.bytes);
            line = match r.cpu {
                Some(cpu) => line.ran(cpu).runnable(r.runqueue),
                None => line.observed(),
            };
            if let Some(&(near, far)) = connections.get(r.connection) {
                line = line.on(if roles[r.track] == Role::Server { far } else { near });
            }
            if r.request > 0 {
                line = line.request(r.request);
            }
            if let Some(&waker) = tracks.get(r.waker) {
                line = line.woken_by(waker);
            }
            line.end();
        }
        tale.explain();
    }
}

//! Makes a long profile: `long_profile OUT.thw [SECONDS [PROCESSORS [STACKS]]]` (600, 2, 20,000): a sample each millisecond and processor.
//! What reading one takes is measured with it.

use std::path::Path;
use thalweg_trace::{
    Counter, CounterName, CounterOf, Ending, Event, FORMAT_VERSION, Host, HostId, Meta, RecordingWriter, Role, Sample, Sink, Stack, Time,
    Track, TrackId, TrackKind,
};

/// Functions of each kind; numbers make more of them.
const KERNEL: [&str; 8] =
    ["tcp_recvmsg", "_copy_to_iter", "ext4_map_blocks", "skb_release", "kmem_cache_alloc", "unknown_function", "__schedule", "vfs_write"];
const MODULES: [&str; 4] = ["/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/server", "/usr/lib/libz.so.1", "/usr/bin/other"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().ok_or("expected the recording's name")?;
    let mut number = |default: u32| arguments.next().map_or(Ok(default), |text| text.parse());
    let (seconds, cpus, stacks) = (number(600)?, number(2)?, number(20_000)?);
    let end = Time::from_monotonic_ns(i64::from(seconds) * 1_000_000_000);
    let meta = Meta {
        format: FORMAT_VERSION,
        command: vec!["server".into()],
        recorder: "profile".into(),
        start: Time::from_monotonic_ns(0),
        end: None,
        exit_code: None,
        dropped_events: 0,
        attributes: vec![("class.0".into(), "profile.kernel".into()), ("profile.period_ns".into(), "1000000".into())],
    };
    let writer = RecordingWriter::create(Path::new(&out), meta)?;
    let (clock, kernel) = ("monotonic:x".into(), "k".into());
    let mut events = vec![Event::Host(Host { host: HostId(0), name: "here".into(), node: "here".into(), clock, kernel, cpus })];
    let track = |n: u64, kind, role, id, name: String| Track {
        track: TrackId::new(n).expect("not 0"),
        host: HostId(0),
        kind,
        role,
        pid: id,
        tid: id,
        name,
    };
    events.extend((1..=200).map(|n| {
        let role = if n % 5 == 0 { Role::None } else { Role::Server };
        Event::Track(track(n, TrackKind::Thread, role, Some(n as u32), format!("server{}/worker", n % 7)))
    }));
    events.extend((0..cpus).map(|cpu| Event::Track(track(1_000 + u64::from(cpu), TrackKind::Cpu, Role::None, None, format!("cpu{cpu}")))));
    events.extend((0..stacks).map(|n| Event::Stack(Stack { stack: n + 1, frames: frames(n) })));
    writer.take(&mut events);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for ms in 0..u64::from(seconds) * 1_000 {
        let at = Time::from_monotonic_ns(ms as i64 * 1_000_000);
        for cpu in 0..cpus {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (stack, track) = (((random >> 33) % u64::from(stacks)) as u32 + 1, TrackId::new((random >> 20) % 200 + 1));
            events.push(Event::Sample(Sample { at, host: HostId(0), cpu, track, class: 0, stack: Some(stack), weight_ns: 1_000_000 }));
            if ms % 100 == 0 {
                let of = CounterOf::Track(TrackId::new(1_000 + u64::from(cpu)).expect("not 0"));
                let names = [(CounterName::CpuIdleNs, 0), (CounterName::CpuHardirqNs, ms as i64 * 10_000)];
                events.extend(names.map(|(name, value)| Event::Counter(Counter { of, name, at, value })));
            }
        }
        if events.len() > 8_192 {
            writer.take(&mut events);
        }
    }
    writer.take(&mut events);
    writer.finish(Ending::at(end))?;
    Ok(())
}

/// Thirty functions, most of them the same in many stacks, as stacks are.
fn frames(n: u32) -> Vec<String> {
    let mut frames: Vec<String> =
        (0..12).map(|d| format!("{}_{}+{:#x} [kernel]", KERNEL[((n + d) % 8) as usize], (n / 8 + d) % 200, n % 64)).collect();
    frames.extend((0..18).map(|d| {
        let module = MODULES[((n / 3 + d / 6) % 4) as usize];
        format!("function_{}+{:#x} [{module} ab01+{:#x}]", (n / 5 + d) % 500, n % 32, 0x1000 + d * 16)
    }));
    frames
}

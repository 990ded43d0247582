//! What a glimpse costs: `glimpses [DATAFILES]` starts an I/O server in a process of its own, makes so many small datafiles with `WriteMany`, and
//! asks for their sizes, 4096 in a message: first of the file system, then as they are known. Prints processor time of both ends for
//! each datafile.

#[path = "../tests/store/loopback.rs"]
mod loopback;
#[path = "served/mod.rs"]
mod served;

use thalweg_client::{DataClient, Outgoing};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::{DatafileId, Durability, FileId, IoReply, IoRequest, TargetId};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "serve") {
        return served::serve(std::path::Path::new(&arguments[2]), 1);
    }
    let many: u64 = arguments.get(1).map_or(100_000, |text| text.parse().expect("how many datafiles"));
    let directory = std::env::temp_dir().join(format!("thalweg-glimpses-{}", std::process::id()));
    let (mut child, map) = served::start(&arguments[0], &directory, 1);
    let data = DataClient::new(map, &loopback::connect());
    let ids: Vec<DatafileId> =
        (0..many).map(|n| DatafileId { file: FileId(1 << 40 | n), index: 0, target: TargetId(0), lot: None }).collect();
    let measure = |what: &str, work: &dyn Fn()| {
        let before = (processor_ns("self"), processor_ns(&child.id().to_string()));
        work();
        let after = (processor_ns("self"), processor_ns(&child.id().to_string()));
        let each = |before: u64, after: u64| (after - before) as f64 / 1e3 / many as f64;
        println!("{what:<22} client {:>6.2} us, server {:>6.2} us each", each(before.0, after.0), each(before.1, after.1));
    };
    let bytes = vec![7_u8; 4096];
    measure("write 4 KiB", &|| {
        for some in ids.chunks(256) {
            let writes = some.iter().map(|id| (*id, 0, 4096)).collect();
            let request = IoRequest::WriteMany { writes, durability: Durability::Returned };
            let payload = some.iter().map(|_| std::io::IoSlice::new(&bytes)).collect();
            let reply = data.exchange(&mut Tracer::off(), None, &[Outgoing { server: 0, request, payload }]);
            assert!(matches!(&reply[0], Ok((IoReply::WrittenMany { each, .. }, _)) if each.iter().all(Result::is_ok)), "{reply:?}");
        }
    });
    for what in ["glimpse, looked up", "glimpse, known", "glimpse, known"] {
        measure(what, &|| {
            for some in ids.chunks(4096) {
                let requests = [(0, IoRequest::Glimpse { datafiles: some.to_vec() })];
                let replies = data.call_each(&mut Tracer::off(), &requests).expect("sizes");
                assert!(matches!(&replies[0], IoReply::Sizes(sizes) if sizes.iter().all(|size| size.size_bytes == 4096)));
            }
        });
    }
    measure("read 4 KiB", &|| {
        for some in ids.chunks(256) {
            let request = IoRequest::ReadMany { reads: some.iter().map(|id| (*id, 0, 4096)).collect() };
            let reply = data.exchange(&mut Tracer::off(), None, &[Outgoing { server: 0, request, payload: Vec::new() }]);
            assert!(matches!(&reply[0], Ok((_, payload)) if payload.len() == 4096 * some.len()));
        }
    });
    drop(child.stdin.take());
    child.wait().expect("the server ends");
    std::fs::remove_dir_all(&directory).expect("its directory goes");
}

/// Processor time of all threads of a process so far, those that have ended included.
fn processor_ns(process: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    let fields: Vec<&str> = text.rsplit(')').next().expect("its state").split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<u64>().expect("ticks");
    (ticks(11) + ticks(12)) * 1_000_000_000 / rustix::param::clock_ticks_per_second()
}

//! What a lot costs: `lots [ROUNDS] [DIRECTORY]` starts an I/O server in a process of its own, keeps a share, and writes into it and outside
//! in turn, over loopback: pieces of 1 MiB and of 4 KiB into a datafile, and small datafiles of 4 KiB each, many in a message. Prints the rate
//! outside, and the median of the ratios, pair by pair, of inside to outside.

#[path = "../tests/store/loopback.rs"]
mod loopback;
#[path = "served/mod.rs"]
mod served;

use std::time::Instant;
use thalweg_store::client::{DataClient, Outgoing};
use thalweg_store::protocol::io::{DatafileId, Durability, FileId, IoReply, IoRequest, LotId, TargetId};
use thalweg_store::protocol::lots::{LotShare, ShareRequest};
use thalweg_store::wire::Connect;
use thalweg_trace::Tracer;

const LOT: LotId = LotId(5);

/// One kind of work: its name, bytes of a piece, pieces, and whether each is a datafile.
const WORK: [(&str, u64, u64, bool); 3] =
    [("1 MiB", 1 << 20, 64, false), ("4 KiB", 4096, 2000, false), ("new 4 KiB files", 4096, 2048, true)];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "serve") {
        return served::serve(std::path::Path::new(&arguments[2]), 1);
    }
    let rounds: u64 = arguments.get(1).map_or(30, |text| text.parse().expect("how many rounds"));
    let scratch = arguments.get(2).map_or_else(std::env::temp_dir, Into::into);
    let directory = scratch.join(format!("thalweg-lots-{}", std::process::id()));
    let (mut child, map) = served::start(&arguments[0], &directory, 1);
    let data = DataClient::new(map, &Connect::default());
    let share = LotShare {
        lot: LOT,
        name: "measured".into(),
        owner: "store".into(),
        share_bytes: 1 << 30,
        size_bytes: 1 << 30,
        until_ns: i64::MAX,
        elastic: false,
    };
    let kept = ask(&data, IoRequest::Share(ShareRequest::Keep { target: TargetId(0), share, least: None }));
    println!("{kept:?}");
    for (name, bytes, pieces, is_many) in WORK {
        let mut pairs: Vec<(f64, f64)> = (0..rounds)
            .map(|round| {
                let once = |lot| seconds(&data, round, lot, (bytes, pieces, is_many));
                // Which comes first changes from round to round.
                if round % 2 == 0 {
                    let inside = once(Some(LOT));
                    (inside, once(None))
                } else {
                    let outside = once(None);
                    (once(Some(LOT)), outside)
                }
            })
            .collect();
        pairs.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
        let ratio =
            |at: u64| pairs[((pairs.len() - 1) as u64 * at / 100) as usize].1 / pairs[((pairs.len() - 1) as u64 * at / 100) as usize].0;
        let outside = pairs.iter().map(|pair| pair.1).fold(f64::INFINITY, f64::min);
        println!(
            "{name:<16} outside {:>9.1} us each; inside at {:.3} of that rate ({:.3} to {:.3} of half the pairs)",
            outside * 1e6 / pieces as f64,
            ratio(50),
            ratio(25),
            ratio(75)
        );
    }
    drop(child.stdin.take());
    child.wait().expect("the server ends");
    let _ = std::fs::remove_dir_all(directory);
}

fn ask(data: &DataClient, request: IoRequest) -> IoReply {
    data.call_each(&mut Tracer::off(), &[(0, request)]).expect("an answer").remove(0)
}

/// Writes, and removes what was written, which is not measured.
fn seconds(data: &DataClient, round: u64, lot: Option<LotId>, (bytes, pieces, is_many): (u64, u64, bool)) -> f64 {
    let id = |n: u64| DatafileId { file: FileId(round * 10_000 + n + 100), index: 0, target: TargetId(0), lot };
    let content = vec![7_u8; bytes as usize];
    let begun = Instant::now();
    let send = |request, many: u64| {
        let payload = (0..many).map(|_| std::io::IoSlice::new(&content)).collect();
        let reply = data.exchange(&mut Tracer::off(), None, &[Outgoing { server: 0, request, payload }]);
        match &reply[0] {
            Ok((IoReply::WrittenMany { each, .. }, _)) => assert!(each.iter().all(Result::is_ok), "{each:?}"),
            other => assert!(other.is_ok(), "{other:?}"),
        }
    };
    for piece in 0..if is_many { pieces / 256 } else { pieces } {
        if is_many {
            let writes = (0..256).map(|n| (id(piece * 256 + n), 0, bytes)).collect();
            send(IoRequest::WriteMany { writes, durability: Durability::Returned }, 256);
        } else {
            send(IoRequest::Write { datafile: id(0), offset: piece * bytes, durability: Durability::Returned }, 1);
        }
    }
    let took = begun.elapsed().as_secs_f64();
    let datafiles: Vec<_> = (0..if is_many { pieces } else { 1 }).map(id).collect();
    ask(data, IoRequest::Remove { datafiles });
    took
}

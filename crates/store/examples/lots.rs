//! What a lot costs: `lots [ROUNDS] [DIRECTORY]` starts an I/O server in a process of its own, keeps a share, and writes into it and outside
//! in turn, over loopback: pieces of 1 MiB and of 4 KiB into a datafile, and small datafiles of 4 KiB each, many in a message. Then a whole
//! store of four servers, likewise, and a tree of 4 KiB files copied into a directory of a lot and into another. Prints what a piece takes
//! outside, and the median of the ratios, pair by pair, of the rate inside to that outside.

#[path = "../tests/store/loopback.rs"]
mod loopback;
#[path = "served/mod.rs"]
mod served;

use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;
use thalweg_client::copy::{Quiet, Sparse, TreeEnd, TreeJob, TreeStore, Tuning, copy_tree};
use thalweg_client::metadata::MetadataClient;
use thalweg_client::{DataClient, Outgoing};
use thalweg_store::start::{UpOptions, up};
use thalweg_trace::{TraceHandle, Tracer};
use thalweg_wire::Connect;
use thalweg_wire::protocol::io::{DatafileId, Durability, FileId, IoReply, IoRequest, LotId, TargetId};
use thalweg_wire::protocol::lots::{LotOperation, LotShare, ShareRequest};
use thalweg_wire::protocol::metadata::{LayoutChoice, Owner, Place, SetAttributes};
use thalweg_wire::trust::{Credential, Credentials};

const LOT: LotId = LotId(5);

/// One kind of work: its name, bytes of a piece, pieces, and whether each is a datafile.
const WORK: [(&str, u64, u64, bool); 3] =
    [("1 MiB", 1 << 20, 64, false), ("4 KiB", 4096, 2000, false), ("new 4 KiB files", 4096, 2048, true)];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "serve") {
        return served::serve(std::path::Path::new(&arguments[2]), 1);
    }
    if arguments.get(1).is_some_and(|word| word == "up") {
        return serve_store(Path::new(&arguments[2]));
    }
    let rounds: u64 = arguments.get(1).map_or(30, |text| text.parse().expect("how many rounds"));
    let scratch = arguments.get(2).map_or_else(std::env::temp_dir, Into::into);
    let directory = scratch.join(format!("thalweg-lots-{}", std::process::id()));
    let (mut child, map) = served::start(&arguments[0], &directory, 1);
    let data = DataClient::new(map, &loopback::connect());
    let share = LotShare {
        lot: LOT,
        name: "measured".into(),
        owner: "store".into(),
        share_bytes: 1 << 30,
        size_bytes: 1 << 30,
        until_ns: i64::MAX,
        elastic: false,
    };
    let kept = ask(&data, IoRequest::Share(ShareRequest::Keep { target: TargetId(0), share, least: None, now_ns: 0 }));
    println!("{kept:?}");
    for (name, bytes, pieces, is_many) in WORK {
        in_pairs(name, rounds, pieces, |round, inside| seconds(&data, round, inside.then_some(LOT), (bytes, pieces, is_many)));
    }
    drop(child.stdin.take());
    child.wait().expect("the server ends");
    let _ = std::fs::remove_dir_all(&directory);
    trees(&arguments[0], rounds, &directory);
    let _ = std::fs::remove_dir_all(directory);
}

/// Has `seconds` do the same inside and outside, in turn; which comes first changes from round to round.
fn in_pairs(name: &str, rounds: u64, pieces: u64, mut seconds: impl FnMut(u64, bool) -> f64) {
    let mut pairs: Vec<(f64, f64)> = (0..rounds)
        .map(|round| {
            let inside_first = round % 2 == 0;
            let (first, second) = (seconds(2 * round, inside_first), seconds(2 * round + 1, !inside_first));
            if inside_first { (first, second) } else { (second, first) }
        })
        .collect();
    pairs.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let ratio = |at: usize| {
        let pair = pairs[(pairs.len() - 1) * at / 100];
        pair.1 / pair.0
    };
    let outside = pairs.iter().map(|pair| pair.1).fold(f64::INFINITY, f64::min);
    println!(
        "{name:<20} outside {:>9.1} us each; inside at {:.3} of that rate ({:.3} to {:.3} of half the pairs)",
        outside * 1e6 / pieces as f64,
        ratio(50),
        ratio(25),
        ratio(75)
    );
}

/// A whole store, until standard input ends.
fn serve_store(directory: &Path) {
    let store = up(&UpOptions { servers: Some(4), ..UpOptions::new([directory]) }).expect("a store");
    println!("{}", store.address().service().expect("an address"));
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Copies a tree of small files into a lot, and beside it.
fn trees(program: &str, rounds: u64, directory: &Path) {
    const FILES: u64 = 2000;
    let (tree, stored) = (directory.join("tree"), directory.join("store"));
    std::fs::create_dir_all(&tree).expect("a directory");
    (0..FILES).for_each(|n| std::fs::write(tree.join(format!("{n:04}")), [7; 4096]).expect("a file"));
    let command = &mut Command::new(program);
    let mut child = command.arg("up").arg(&stored).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a store");
    let mut address = String::new();
    std::io::BufReader::new(child.stdout.take().expect("piped")).read_line(&mut address).expect("its address");
    let config = thalweg_store::config::StoreConfig::read(&stored.join("store.toml")).expect("a store.toml");
    let credential = Credential::read(&config.credential).expect("a credential");
    let options = Connect { credentials: Credentials::given(credential), ..Connect::default() };
    let tracer = &mut Tracer::off();
    let names = MetadataClient::connect(tracer, address.trim(), &options).expect("a connection");
    let store = TreeStore { data: Arc::new(DataClient::new(names.map().as_ref().clone(), &options)), names: names.clone() };
    let (name, targets) = ("measured".to_owned(), Vec::new());
    let create = LotOperation::Create { name, owner: None, size_bytes: 1 << 30, for_ns: 1 << 50, elastic: false, least: None, targets };
    let lot = names.lots(tracer, create).expect("a lot").remove(0).lot.id;
    let owner = Owner { mode: 0o755, uid: 1, gid: 1 };
    for path in ["/inside", "/outside"] {
        names.make_directory(tracer, &Place::at(path), owner, false).expect("a directory");
    }
    let choice = LayoutChoice { lot: Some(lot), ..LayoutChoice::default() };
    let set = SetAttributes { default_layout: Some(Some(choice)), ..SetAttributes::default() };
    names.set_attributes(tracer, &Place::at("/inside"), &set).expect("its lot");
    in_pairs("cp -r of 4 KiB files", 3 * rounds, FILES, |round, inside| {
        let to = format!("/{}/{round}", if inside { "inside" } else { "outside" });
        let job = TreeJob {
            from: TreeEnd::Local(tree.clone()),
            to: TreeEnd::Store(store.clone(), to.clone().into()),
            layout: LayoutChoice::default(),
            workers: 3,
            tuning: Tuning::default(),
            sync: false,
            force: false,
            preserve: true,
            privileges: false,
            follow: false,
            control: Arc::default(),
            sparse: Sparse::Auto,
        };
        let begun = Instant::now();
        let done = copy_tree(&job, &Quiet, &TraceHandle::off()).expect("a copy");
        let took = begun.elapsed().as_secs_f64();
        assert_eq!(done.failed, 0);
        for n in 0..FILES {
            names.unlink(tracer, &Place::at(format!("{to}/{n:04}"))).expect("it is there");
        }
        // So that the next copy has the machine for itself.
        names.report_closed(tracer).expect("an answer");
        while names.status(tracer).expect("an answer").pending_intents > 0 {
            std::thread::yield_now();
        }
        took
    });
    drop(child.stdin.take());
    child.wait().expect("the store ends");
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

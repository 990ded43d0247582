//! Measures a backup of a busy store: `backup [NAMES [SECONDS [DIRECTORY]]]` makes a store of NAMES files (default 1,000,000), has eight clients
//! make names for SECONDS (default 15) without a backup, then while one is taken, then without again. Restores the backup and compares it
//! with what the clients had made. Prints the time of the backup, the clients' rates and their ratio, and the time of the restore.
//!
//! Fails if the backup takes more than 30 s, the ratio is below 0.8, or the restored names differ.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_client::metadata::MetadataClient;
use thalweg_store::backup::{self, Source};
use thalweg_store::config::StoreConfig;
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::metadata::{Existing, FilePath, LayoutChoice, Owner, Small};
use thalweg_wire::trust::Credentials;
use thalweg_wire::{Connect, Result};

const OWNER: Owner = Owner { mode: 0o644, uid: 0, gid: 0 };
const CLIENTS: usize = 8;
const BATCH: usize = 512;
/// The bars: the backup's time, and the clients' rate beside it.
const MOST_S: f64 = 30.0;
const LEAST: f64 = 0.8;

fn own(store: &RunningStore) -> Connect {
    Connect { credentials: Credentials::given(store.credential().clone()), ..Connect::default() }
}

fn connect(store: &RunningStore) -> Result<MetadataClient> {
    MetadataClient::connect(&mut Tracer::off(), &store.address().service()?, &own(store))
}

fn start(directory: &Path) -> Result<RunningStore> {
    up(&UpOptions { servers: Some(2), ..UpOptions::new([directory]) })
}

fn fill(store: &RunningStore, names: usize) -> Result<()> {
    let (client, off, choice) = (connect(store)?, &mut Tracer::off(), LayoutChoice::default());
    for first in (0..names).step_by(BATCH) {
        if first % (200 * BATCH) == 0 {
            client.make_directory(off, &FilePath::at(format!("/{:04}", first / (200 * BATCH))), OWNER, false)?;
        }
        let path = |i: usize| FilePath::at(format!("/{:04}/file-{i:07}", first / (200 * BATCH)));
        let file = |i| Small::MakeFile(client.new_file(path(i), OWNER, Existing::Refuse, &choice));
        let files: Vec<Small> = (first..names.min(first + BATCH)).map(file).collect();
        client.many(off, &files, Vec::new()).into_iter().try_for_each(|done| done.map(drop))?;
    }
    Ok(())
}

/// What eight clients do while `work` runs: names per second, and how many each had made when it began and ended.
fn beside(store: &RunningStore, made: &[AtomicU64; CLIENTS], work: impl FnOnce() -> Result<()>) -> Result<(f64, Vec<(u64, u64)>)> {
    let stop = AtomicBool::new(false);
    let counts = || made.iter().map(|made| made.load(Ordering::SeqCst)).collect::<Vec<u64>>();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (stop, made) = (&stop, &made[client]);
                scope.spawn(move || -> Result<()> {
                    let (names, off, choice) = (connect(store)?, &mut Tracer::off(), LayoutChoice::default());
                    names.make_directory(off, &FilePath::at(format!("/client{client}")), OWNER, true)?;
                    while !stop.load(Ordering::SeqCst) {
                        let n = made.load(Ordering::SeqCst);
                        names.make_file(off, &FilePath::at(format!("/client{client}/{n:08}")), OWNER, Existing::Refuse, &choice)?;
                        made.store(n + 1, Ordering::SeqCst);
                    }
                    Ok(())
                })
            })
            .collect();
        // Not counted: connecting.
        std::thread::sleep(Duration::from_millis(500));
        let (before, begun) = (counts(), Instant::now());
        let done = work();
        let (after, took_s) = (counts(), begun.elapsed().as_secs_f64());
        stop.store(true, Ordering::SeqCst);
        clients.into_iter().try_for_each(|client| client.join().expect("a client"))?;
        done?;
        let sum: u64 = after.iter().zip(&before).map(|(after, before)| after - before).sum();
        Ok((sum as f64 / took_s, before.into_iter().zip(after).map(|(before, after)| (before, after + 1)).collect()))
    })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let names: usize = arguments.next().map_or(Ok(1_000_000), |a| a.parse())?;
    let seconds: f64 = arguments.next().map_or(Ok(15.0), |a| a.parse())?;
    let scratch = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let here = tempfile::tempdir_in(&scratch)?;
    let (place, file) = (here.path().join("store"), here.path().join("backup"));
    let store = start(&place)?;
    fill(&store, names)?;
    let made = [const { AtomicU64::new(0) }; CLIENTS];
    let pause = || {
        std::thread::sleep(Duration::from_secs_f64(seconds));
        Ok(())
    };
    let (first, _) = beside(&store, &made, pause)?;
    let mut took_s = 0.0;
    let (with, seen) = beside(&store, &made, || {
        let begun = Instant::now();
        let taken = backup::take(&store.address().service()?, &own(&store), &file, 0, &|_| ())?;
        took_s = begun.elapsed().as_secs_f64();
        println!("backup: {} names, {} MiB, {took_s:.1} s", taken.names, taken.size_bytes >> 20);
        Ok(())
    })?;
    let (second, _) = beside(&store, &made, pause)?;
    let ratio = with / f64::midpoint(first, second);
    println!("eight clients: {first:.0}/s without, {with:.0}/s beside the backup, {second:.0}/s without: {ratio:.2}");
    let path = store.config().path.clone();
    store.stop()?;
    let config = StoreConfig::read(&path)?;
    let begun = Instant::now();
    backup::restore(&config, &file)?;
    println!("restore: {:.1} s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let (checked, _) = backup::check(&Source::Stopped(&config))?;
    println!("check: {:.1} s, {} findings", begun.elapsed().as_secs_f64(), checked.findings.len());
    let (store, mut is_equal) = (start(&place)?, checked.findings.is_empty());
    let client = connect(&store)?;
    for (number, (before, after)) in seen.iter().enumerate() {
        let found = client.entries(&mut Tracer::off(), &FilePath::at(format!("/client{number}")), false)?;
        let has_no_gaps = (0_u64..).zip(&found).all(|(n, entry)| *entry.name == *format!("{n:08}").as_bytes());
        is_equal &= has_no_gaps && (*before..=*after).contains(&(found.len() as u64));
    }
    let mut kept = 0;
    for entry in client.entries(&mut Tracer::off(), &FilePath::at("/"), false)? {
        if entry.name.len() == 4 {
            let path = format!("/{}", String::from_utf8_lossy(&entry.name));
            kept += client.entries(&mut Tracer::off(), &FilePath::at(path), false)?.len();
        }
    }
    is_equal &= kept == names;
    println!("the restored store is {}", if is_equal { "equal" } else { "different" });
    store.stop()?;
    if is_equal && took_s <= MOST_S && ratio >= LEAST { Ok(()) } else { Err("a bar is missed".into()) }
}

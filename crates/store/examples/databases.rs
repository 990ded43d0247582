//! Compares metadata in PostgreSQL with redb on loopback: `databases [ENTRIES [ROUNDS [DIRECTORY]]]` alternates between a store on each,
//! and starts its own PostgreSQL server if one is installed. Prints one line per kind of work: files per second and the ratio, medians of
//! the rounds.
//!
//! `THALWEG_POSTGRESQL_SETTINGS="NAME=VALUE ..."` replaces the default settings of that server.
//!
//! Fails if a ratio is below its threshold: 0.8 for listings with attributes, 0.5 for files created in batches, 0.25 for single creates.

#[path = "../../../tests/postgresql.rs"]
mod postgresql;

use std::path::Path;
use std::time::Instant;
use thalweg_client::metadata::MetadataClient;
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::protocol::metadata::{Existing, FilePath, LayoutChoice, Owner, Small};

const OWNER: Owner = Owner { mode: 0o644, uid: 0, gid: 0 };
/// Files created one by one.
const SINGLE: usize = 3000;
/// Files per batch request.
const BATCH: usize = 512;
/// The kinds of work, with the minimum ratio to redb.
const WORK: [(&str, f64); 5] = [
    ("single creates", 0.25),
    ("single creates, 8 clients at once", 0.25),
    ("creates in a batch", 0.5),
    ("ls -l", 0.8),
    ("ls -l after a start of the service", 0.8),
];
/// Clients that create files one by one simultaneously, each in its own directory.
const CLIENTS: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let entries: usize = arguments.next().map_or(Ok(100_000), |a| a.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(3), |a| a.parse())?;
    let scratch = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let settings = std::env::var("THALWEG_POSTGRESQL_SETTINGS").unwrap_or_default();
    let settings: Vec<&str> = settings.split_whitespace().collect();
    let Some(server) = postgresql::Server::start_in(&scratch, &settings) else { return Ok(()) };
    let mut measured = vec![(Vec::new(), Vec::new()); WORK.len()];
    for round in 0..rounds.max(1) {
        let name = format!("round{round}");
        server.create(&name);
        let redb = one_store(&scratch, entries, None)?;
        let postgresql = one_store(&scratch, entries, Some(server.address(&name)))?;
        for ((of, a), b) in measured.iter_mut().zip(redb).zip(postgresql) {
            of.0.push(a);
            of.1.push(b);
        }
        server.sql("postgres", &format!("DROP DATABASE {name} WITH (FORCE)"));
    }
    let heading = format!("{entries} entries, {} rounds", rounds.max(1));
    println!("{heading:<36} {:>12} {:>12} {:>7} {:>5}  least to greatest ratio", "redb", "PostgreSQL", "ratio", "bar");
    let mut missed = false;
    for ((what, bar), (redb, postgresql)) in WORK.iter().zip(measured) {
        let mut ratios: Vec<f64> = redb.iter().zip(&postgresql).map(|(a, b)| b / a).collect();
        ratios.sort_by(f64::total_cmp);
        let (ratio, least, greatest) = (median(ratios.clone()), ratios[0], ratios[ratios.len() - 1]);
        let rates = format!("{:>10.0}/s {:>10.0}/s", median(redb), median(postgresql));
        println!("{what:<36} {rates} {ratio:>7.2} {bar:>5}  {least:.2} to {greatest:.2}");
        missed |= ratio < *bar;
    }
    if missed { Err("a ratio is below its bar".into()) } else { Ok(()) }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn start(directory: &Path, database: Option<&String>) -> Result<(RunningStore, MetadataClient), thalweg_wire::Error> {
    let store = up(&UpOptions { servers: Some(1), database: database.cloned(), ..UpOptions::new([directory]) })?;
    let names = MetadataClient::connect(&mut Tracer::off(), &store.address().service()?, &Connect::default())?;
    Ok((store, names))
}

/// Measures each kind of work, in files per second.
fn one_store(scratch: &Path, entries: usize, database: Option<String>) -> Result<[f64; WORK.len()], Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir_in(scratch)?;
    let (store, names) = start(directory.path(), database.as_ref())?;
    let off = &mut Tracer::off();
    for each in ["/single", "/many"] {
        names.make_directory(off, &FilePath::at(each), OWNER, false)?;
    }
    let choice = LayoutChoice::default();
    let begun = Instant::now();
    for i in 0..SINGLE {
        names.make_file(off, &FilePath::at(format!("/single/{i:07}")), OWNER, Existing::Refuse, &choice)?;
    }
    let single = SINGLE as f64 / begun.elapsed().as_secs_f64();
    let at_once = at_once(&store)?;
    let begun = Instant::now();
    for first in (0..entries).step_by(BATCH) {
        let file = |i| Small::MakeFile(names.new_file(FilePath::at(format!("/many/file-{i:07}")), OWNER, Existing::Refuse, &choice));
        let files: Vec<Small> = (first..entries.min(first + BATCH)).map(file).collect();
        names.many(off, &files, Vec::new()).into_iter().try_for_each(|done| done.map(drop))?;
    }
    let batch = entries as f64 / begun.elapsed().as_secs_f64();
    let list = |names: &MetadataClient| -> Result<f64, thalweg_wire::Error> {
        let begun = Instant::now();
        let found = names.entries(&mut Tracer::off(), &FilePath::at("/many"), true)?.len();
        assert_eq!(found, entries);
        Ok(entries as f64 / begun.elapsed().as_secs_f64())
    };
    let warm = list(&names)?;
    drop(names);
    store.stop()?;
    let (store, names) = start(directory.path(), database.as_ref())?;
    let cold = list(&names)?;
    drop(names);
    store.stop()?;
    Ok([single, at_once, batch, warm, cold])
}

/// Measures simultaneous single creates by several clients; returns their total files per second.
fn at_once(store: &RunningStore) -> Result<f64, Box<dyn std::error::Error>> {
    let connect = |client: usize| -> Result<MetadataClient, thalweg_wire::Error> {
        let names = MetadataClient::connect(&mut Tracer::off(), &store.address().service()?, &Connect::default())?;
        names.make_directory(&mut Tracer::off(), &FilePath::at(format!("/client{client}")), OWNER, false)?;
        Ok(names)
    };
    let clients: Vec<MetadataClient> = (0..CLIENTS).map(connect).collect::<Result<_, _>>()?;
    let make = |client: usize, names: &MetadataClient| {
        let (off, choice) = (&mut Tracer::off(), LayoutChoice::default());
        let path = |i| FilePath::at(format!("/client{client}/{i:07}"));
        (0..SINGLE).try_for_each(|i| names.make_file(off, &path(i), OWNER, Existing::Refuse, &choice).map(drop))
    };
    let begun = Instant::now();
    std::thread::scope(|scope| -> Result<(), Box<dyn std::error::Error>> {
        let working: Vec<_> = clients.iter().enumerate().map(|(client, names)| scope.spawn(move || make(client, names))).collect();
        working.into_iter().try_for_each(|client| client.join().map_err(|_| "a client panicked")?.map_err(Into::into))
    })?;
    Ok((CLIENTS * SINGLE) as f64 / begun.elapsed().as_secs_f64())
}

//! What a walk costs: `walk [--files N] [--datafiles N] [--servers N] [--targets N] [--mode M] [--window N] [--detail D] [--runs N] [--store DIR]`
//! starts a store in a process of its own (in a temporary directory, TMPDIR), makes files with a byte in each datafile, and lists
//! them; for each run, the processor time that both ends took, by entry and by datafile. With `--store`, what was
//! made is kept there for the next time.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;
use thalweg_client::DataClient;
use thalweg_client::metadata::{MetadataClient, SmallDone};
use thalweg_client::walk::{Detail, WalkMode, WalkOptions, Walker};
use thalweg_layout::Distribution;
use thalweg_store::start::{UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::protocol::io::{DatafileId, Durability, IoRequest};
use thalweg_wire::protocol::metadata::{End, Existing, LayoutChoice, Owner, Place, Small};

type Anything = Box<dyn std::error::Error>;

struct Arguments {
    files: usize,
    datafiles: u32,
    servers: usize,
    targets: usize,
    runs: usize,
    detail: Detail,
    options: WalkOptions,
    store: Option<std::path::PathBuf>,
}

fn arguments(mut all: impl Iterator<Item = String>) -> Result<Arguments, Anything> {
    let options = WalkOptions::default();
    let mut found =
        Arguments { files: 100_000, datafiles: 4, servers: 4, targets: 1, runs: 3, detail: Detail::Sizes, options, store: None };
    while let Some(name) = all.next() {
        let value = all.next().ok_or("an option without a value")?;
        match name.as_str() {
            "--files" => found.files = value.parse()?,
            "--datafiles" => found.datafiles = value.parse()?,
            "--servers" => found.servers = value.parse()?,
            "--targets" => found.targets = value.parse()?,
            "--runs" => found.runs = value.parse()?,
            "--window" => found.options.window_most = value.parse()?,
            "--page" => found.options.page_names = value.parse()?,
            "--batch" => found.options.datafiles_per_request = value.parse()?,
            "--requests" => found.options.requests_per_server = value.parse()?,
            "--mode" => found.options.mode = WalkMode::named(&value).ok_or("no such mode")?,
            "--detail" => {
                found.detail = match value.as_str() {
                    "names" => Detail::Names,
                    "attributes" => Detail::Attributes,
                    _ => Detail::Sizes,
                }
            }
            "--store" => found.store = Some(value.into()),
            _ => return Err(format!("{name} is not known").into()),
        }
    }
    found.options.detail = found.detail;
    Ok(found)
}

fn main() -> Result<(), Anything> {
    let mut all = std::env::args().skip(1).peekable();
    if all.peek().is_some_and(|first| first == "serve") {
        let all: Vec<String> = all.skip(1).collect();
        let store = up(&UpOptions { servers: Some(all[1].parse()?), targets: Some(all[2].parse()?), ..UpOptions::new([&all[0]]) })?;
        println!("{}", store.address().service()?);
        std::io::stdin().read_line(&mut String::new())?;
        return Ok(store.stop()?);
    }
    let arguments = arguments(all)?;
    let directory = arguments.store.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("thalweg-walk-{}", std::process::id())));
    std::fs::create_dir_all(&directory)?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("serve")
        .arg(&directory)
        .args([arguments.servers.to_string(), arguments.targets.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut address = String::new();
    BufReader::new(child.stdout.take().ok_or("piped")?).read_line(&mut address)?;
    let done = listings(&arguments, address.trim(), child.id());
    drop(child.stdin.take());
    child.wait()?;
    if arguments.store.is_none() {
        std::fs::remove_dir_all(&directory)?;
    }
    done
}

fn listings(arguments: &Arguments, address: &str, server: u32) -> Result<(), Anything> {
    let names = MetadataClient::connect(&mut Tracer::off(), address, &Connect::default())?;
    let data = Arc::new(DataClient::new((*names.map()).clone(), &Connect::default()));
    let path = format!("/{}x{}", arguments.files, arguments.datafiles);
    if names.stat(&mut Tracer::off(), &Place::at(&path)).is_err() {
        make(arguments, &names, &data, &path)?;
    }
    for _ in 0..arguments.runs {
        let walker = Walker::new(names.clone(), Arc::clone(&data), arguments.options.clone());
        let (ours, theirs, start) = (processor_s(std::process::id())?, processor_s(server)?, Instant::now());
        let mut walk = walker.directory(&Place::at(&path));
        let (mut entries, mut bytes) = (0_u64, 0);
        while let Some(entry) = walk.next(&mut Tracer::off()) {
            bytes += entry?.size.transpose()?.map_or(0, |size| size.size_bytes);
            entries += 1;
        }
        let wall = start.elapsed().as_secs_f64();
        let (ours, theirs) = (processor_s(std::process::id())? - ours, processor_s(server)? - theirs);
        let each = |seconds: f64| seconds * 1e6 / entries.max(1) as f64;
        let c = walker.counters();
        println!(
            "{entries} entries, {bytes} bytes: {:.2} us each; processor time {:.2} us here, {:.2} us there; {} requests, {} in a row, {} \
             glimpsed, {} proved, window {}",
            each(wall),
            each(ours),
            each(theirs),
            c.requests,
            c.round_trips,
            c.glimpsed,
            c.from_metadata,
            c.window
        );
    }
    Ok(())
}

/// Files with a byte in each of their datafiles.
fn make(arguments: &Arguments, names: &MetadataClient, data: &DataClient, path: &str) -> Result<(), Anything> {
    let owner = Owner { mode: 0o755, uid: 0, gid: 0 };
    names.make_directory(&mut Tracer::off(), &Place::at(path), owner, false)?;
    let layout = LayoutChoice { datafiles: Some(arguments.datafiles.max(1)), ..LayoutChoice::default() };
    let all: Vec<usize> = (0..arguments.files).collect();
    for some in all.chunks(512) {
        let new = |i: &usize| Small::Create(names.new_file(Place::at(format!("{path}/file-{i:07}")), owner, Existing::Refuse, &layout));
        let made = names.many(&mut Tracer::off(), &some.iter().map(new).collect::<Vec<_>>(), Vec::new());
        let mut ended = Vec::new();
        let mut writes: Vec<Vec<(DatafileId, u64, u64)>> = vec![Vec::new(); data.links().len()];
        for done in made {
            let SmallDone::Opened(file) = done? else { return Err("not made".into()) };
            let mut end_bytes = 0;
            if arguments.datafiles > 0 {
                for (index, target) in (0..).zip(file.targets.iter().copied()) {
                    writes[data.server_of(target)?].push((DatafileId { file: file.id(), index, target, lot: None }, 0, 1));
                }
                end_bytes = file.layout.logical_file_size(&vec![1; file.targets.len()])?;
            }
            ended.push((file, End::whole(end_bytes, false)));
        }
        for (server, writes) in writes.into_iter().enumerate() {
            for some in writes.chunks(4096) {
                let request = IoRequest::WriteMany { writes: some.to_vec(), durability: Durability::Returned };
                data.links()[server].call(&mut Tracer::off(), &request, &vec![7; some.len()])?;
            }
        }
        names.many(&mut Tracer::off(), &[], ended);
    }
    names.report_closed(&mut Tracer::off())?;
    Ok(())
}

/// Processor time of a process so far, threads that have ended included, in seconds.
fn processor_s(process: u32) -> Result<f64, Anything> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // After the program's name, which is in parentheses: user and system time are the 12th and 13th, in ticks of 10 ms.
    let rest = text.rsplit_once(')').ok_or("stat")?.1;
    let ticks = rest.split_ascii_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / 100.0)
}

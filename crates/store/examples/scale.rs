//! Storms on real servers: `scale STORM CLIENTS SERVERS [TIMES]` starts a store in its own process (in a temporary directory, TMPDIR) and
//! the clients here, one thread each, which all act simultaneously. Prints one line of JSON: time until the first and the last client
//! finished, CPU time of each side, and memory, connections and threads at the end; then voluntary context switches of the store's threads
//! in 5 s with all connections open and idle, and its memory once they are closed.
//!
//! | storm | what each client does |
//! |---|---|
//! | `connect` | connects to the metadata service, and fetches the store map |
//! | `stat` | fetches a file's attributes TIMES times |
//! | `list` | lists one directory of TIMES files with attributes and sizes that the service can prove |
//! | `glimpse` | as `list`, but only the I/O servers know the sizes |
//! | `open` | opens the same file on 4 servers, fetches its size, and closes it, TIMES times |
//! | `sizes` | opens it, and fetches its size TIMES times |
//! | `create` | creates a file in a shared directory, and closes it, TIMES times |
//! | `each` | opens a file with a datafile on every server, and fetches its size |
//! | `write` | writes 64 KiB of a file to every server |
//! | `together` | half of the clients list a directory of TIMES files, the others create a file each there and write 4 KiB to it |
//! | `locks` | takes a lock on its own byte of a shared file, and holds it |
//!
//! The store's CPU time and memory are sums over one process. Comparing lines of several sizes separates the parts.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use thalweg_base::proc::stat::Stat;
use thalweg_base::proc::status;
use thalweg_client::locks::{LockClient, Wait};
use thalweg_client::metadata::MetadataClient;
use thalweg_client::walk::{WalkMode, WalkOptions, Walker};
use thalweg_client::{DataClient, Store};
use thalweg_layout::Spec;
use thalweg_store::start::{UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::locks::{LockKind, LockRange, LockRequest, LockSpace};
use thalweg_wire::protocol::metadata::{Existing, FilePath, LayoutChoice, Owner, Small};
use thalweg_wire::{Connect, raise_descriptors};

type Anything = Box<dyn std::error::Error + Send + Sync>;

const OWNER: Owner = Owner { mode: 0o755, uid: 0, gid: 0 };
/// How long the wake-ups of an idle store are counted.
const IDLE: Duration = Duration::from_secs(5);
/// Strip size of a file on every server: one strip per server.
const STRIP: u64 = 64 << 10;

fn main() -> Result<(), Anything> {
    let all: Vec<String> = std::env::args().skip(1).collect();
    raise_descriptors();
    if let [serve, directory, servers] = &all[..]
        && serve == "serve"
    {
        let store = up(&UpOptions { servers: Some(servers.parse()?), ..UpOptions::new([directory]) })?;
        println!("{}", store.address().service()?);
        std::io::stdin().read_line(&mut String::new())?;
        return Ok(store.stop()?);
    }
    let [storm, clients, servers, rest @ ..] = &all[..] else { return Err("scale STORM CLIENTS SERVERS [TIMES]".into()) };
    let times = rest.first().map_or(Ok(1), |times| times.parse())?;
    let directory = tempfile::tempdir()?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["serve".as_ref(), directory.path().as_os_str(), servers.as_ref()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut address = String::new();
    BufReader::new(child.stdout.take().ok_or("piped")?).read_line(&mut address)?;
    let setting = Setting { storm: storm.clone(), clients: clients.parse()?, servers: servers.parse()?, times };
    let done = setting.run(address.trim(), &child);
    drop(child.stdin.take());
    child.wait()?;
    done
}

struct Setting {
    storm: String,
    clients: usize,
    servers: usize,
    times: usize,
}

/// What a client holds until all have finished.
#[allow(dead_code, reason = "held only to be dropped")]
enum Held {
    Store(Store),
    Walker(Walker),
    Locks(LockClient),
}

impl Setting {
    fn run(&self, address: &str, child: &Child) -> Result<(), Anything> {
        self.prepare(address)?;
        let (ours, theirs) = (Process::now(std::process::id())?, Process::now(child.id())?);
        let (barrier, slowest_us, first_us) = (Barrier::new(self.clients + 1), AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let (wall_s, failed, after, idle) = std::thread::scope(|scope| {
            let one = |number: usize| {
                let (barrier, slowest_us, first_us) = (&barrier, &slowest_us, &first_us);
                move || {
                    barrier.wait();
                    let begun = Instant::now();
                    let held = self.client(address, number);
                    let took = begun.elapsed().as_micros() as u64;
                    slowest_us.fetch_max(took, Ordering::Relaxed);
                    first_us.fetch_min(took, Ordering::Relaxed);
                    // All have finished; the memory is measured before the connections close.
                    barrier.wait();
                    barrier.wait();
                    held.map(drop::<Held>).err()
                }
            };
            let threads: Vec<_> = (0..self.clients)
                .map(|number| std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, one(number)))
                .collect::<Result<_, _>>()?;
            let before = Process::now(std::process::id())?;
            // (The clients may finish before this thread runs again.)
            let begun = Instant::now();
            barrier.wait();
            barrier.wait();
            let wall_s = begun.elapsed().as_secs_f64();
            let after = (before, Process::now(std::process::id())?, Process::now(child.id())?);
            let idle = switches(child.id())?;
            std::thread::sleep(IDLE);
            let idle = switches(child.id())? - idle;
            barrier.wait();
            let failed: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect();
            Ok::<_, Anything>((wall_s, failed, after, idle))
        })?;
        let (started, our_end, their_end) = after;
        let left = Process::when_left(child.id(), theirs.threads)?;
        let us = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64 / 1e6;
        println!(
            "{{\"storm\":\"{}\",\"clients\":{},\"servers\":{},\"times\":{},\"wall_s\":{wall_s:.4},\"first_s\":{:.4},\"slowest_s\":{:.4},\
             \"failed\":{},\"client_cpu_s\":{:.2},\"server_cpu_s\":{:.2},\"client_kib\":{},\"server_kib\":{},\"client_descriptors\":{},\
             \"server_descriptors\":{},\"server_threads\":{},\"idle_switches\":{idle},\"server_kib_before\":{},\"server_kib_left\":{}}}",
            self.storm,
            self.clients,
            self.servers,
            self.times,
            us(&first_us),
            us(&slowest_us),
            failed.len(),
            our_end.processor_s - started.processor_s,
            their_end.processor_s - theirs.processor_s,
            our_end.resident_kib - started.resident_kib,
            their_end.resident_kib - theirs.resident_kib,
            our_end.descriptors - ours.descriptors,
            their_end.descriptors - theirs.descriptors,
            their_end.threads - theirs.threads,
            theirs.resident_kib,
            left.resident_kib - theirs.resident_kib,
        );
        if let Some(error) = failed.first() {
            eprintln!("{} of {} clients failed, the first: {error}", failed.len(), self.clients);
        }
        Ok(())
    }

    /// Creates the files that the storm needs.
    fn prepare(&self, address: &str) -> Result<(), Anything> {
        let off = &mut Tracer::off();
        let names = MetadataClient::connect(off, address, &Connect::default())?;
        names.make_directory(off, &FilePath::at("/here"), OWNER, false)?;
        let store = self.store(names.clone(), &Connect::default());
        for (path, datafiles) in [("/each", self.servers), ("/one", self.servers.min(4))] {
            let spec = Some(Spec::new("simple_stripe").with("strip_size", STRIP));
            let layout = LayoutChoice { spec, datafiles: Some(datafiles as u32), ..LayoutChoice::default() };
            let file = store.create(path, 0o644, Existing::Refuse, &layout)?;
            file.write_at(&vec![7; STRIP as usize * self.servers], 0)?;
        }
        if ["list", "glimpse", "together"].contains(&self.storm.as_str()) {
            let layout = LayoutChoice { datafiles: Some(self.servers.min(4) as u32), ..LayoutChoice::default() };
            let all: Vec<usize> = (0..self.times).collect();
            for some in all.chunks(512) {
                let file = |i: &usize| {
                    Small::MakeFile(names.new_file(FilePath::at(format!("/here/file-{i:07}")), OWNER, Existing::Refuse, &layout))
                };
                names.many(off, &some.iter().map(file).collect::<Vec<_>>(), Vec::new()).into_iter().try_for_each(|done| done.map(drop))?;
            }
        }
        names.report_closed(off)?;
        Ok(())
    }

    fn store(&self, names: MetadataClient, options: &Connect) -> Store {
        let data = DataClient::new((*names.map()).clone(), options);
        Store { names: Arc::new(names), data: Arc::new(data) }
    }

    fn has_size(&self, found: u64) -> Result<(), Anything> {
        let expected = STRIP * self.servers as u64;
        if found == expected { Ok(()) } else { Err(format!("{found} bytes, and there are {expected}").into()) }
    }

    fn list(&self, names: MetadataClient, store: Store, mode: WalkMode) -> Result<Held, Anything> {
        let off = &mut Tracer::off();
        let walker = Walker::new(names, store.data, WalkOptions { mode, ..WalkOptions::default() });
        let mut walk = walker.directory(&FilePath::at("/here"));
        let mut entries = 0;
        while let Some(entry) = walk.next(off) {
            entry?.size.transpose()?;
            entries += 1;
        }
        drop(walk);
        // Concurrent writers' files may be listed too.
        let right = if self.storm == "together" { entries >= self.times } else { entries == self.times };
        if right { Ok(Held::Walker(walker)) } else { Err(format!("{entries} entries").into()) }
    }

    fn write_own(names: &MetadataClient, store: Store, number: usize) -> Result<Held, Anything> {
        let layout = LayoutChoice { datafiles: Some(1), ..LayoutChoice::default() };
        let file = store.create(&format!("/here/own-{number:07}"), 0o644, Existing::Refuse, &layout)?;
        file.write_at(&[7; 4096], 0)?;
        drop(file);
        names.report_closed(&mut Tracer::off())?;
        Ok(Held::Store(store))
    }

    /// Runs one client of the storm.
    fn client(&self, address: &str, number: usize) -> Result<Held, Anything> {
        let off = &mut Tracer::off();
        // Each client appears to the servers as a separate process.
        let options = Connect { client: format!("client {number}"), ..Connect::default() };
        let names = MetadataClient::connect(off, address, &options)?;
        let store = self.store(names.clone(), &options);
        match self.storm.as_str() {
            "together" if number.is_multiple_of(2) => self.list(names, store, WalkMode::SizesFromMetadata),
            "together" => Self::write_own(&names, store, number),
            "list" => self.list(names, store, WalkMode::SizesFromMetadata),
            "glimpse" => self.list(names, store, WalkMode::GlimpseAhead),
            "connect" => Ok(Held::Store(store)),
            "stat" => {
                (0..self.times).try_for_each(|_| names.stat(off, &FilePath::at("/one")).map(drop))?;
                Ok(Held::Store(store))
            }
            "open" | "each" => {
                let path = if self.storm == "open" { "/one" } else { "/each" };
                (0..self.times).try_for_each(|_| self.has_size(store.open(path)?.size()?))?;
                Ok(Held::Store(store))
            }
            "sizes" => {
                let file = store.open("/one")?;
                (0..self.times).try_for_each(|_| self.has_size(file.size()?))?;
                drop(file);
                Ok(Held::Store(store))
            }
            "create" => {
                for time in 0..self.times {
                    let path = format!("/here/own-{number:07}-{time}");
                    drop(store.create(&path, 0o644, Existing::Refuse, &LayoutChoice::default())?);
                    names.report_closed(off)?;
                }
                Ok(Held::Store(store))
            }
            "write" => {
                let file = store.open_to_write("/each")?;
                let bytes = vec![7; STRIP as usize];
                (0..self.servers as u64).try_for_each(|server| file.write_at(&bytes, server * STRIP))?;
                drop(file);
                Ok(Held::Store(store))
            }
            "locks" => {
                let file = names.stat(off, &FilePath::at("/each"))?.id;
                let range = LockRange { file, space: LockSpace::Record, owner: 1, start: number as u64, end: number as u64 };
                let locks = names.locks();
                locks.lock(off, &LockRequest { range, kind: LockKind::Exclusive, pid: 1 }, Wait::No)?;
                Ok(Held::Locks(locks))
            }
            other => Err(format!("{other} is no storm").into()),
        }
    }
}

/// Returns the voluntary context switches of all threads of a process.
fn switches(id: u32) -> Result<u64, Anything> {
    let mut all = 0;
    for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
        let tid = task?.file_name().to_string_lossy().parse()?;
        all += status::of(tid)?.number::<u64>("voluntary_ctxt_switches").ok_or("status")?;
    }
    Ok(all)
}

/// Resource use of a process, from /proc.
struct Process {
    processor_s: f64,
    resident_kib: i64,
    threads: i64,
    descriptors: i64,
}

impl Process {
    /// Reads the process once it has at most `threads` threads, that is, once all connections are closed; or after a timeout.
    fn when_left(id: u32, threads: i64) -> Result<Process, Anything> {
        let begun = Instant::now();
        loop {
            let now = Process::now(id)?;
            if now.threads <= threads || begun.elapsed() > IDLE {
                return Ok(now);
            }
            std::thread::sleep(IDLE / 100);
        }
    }

    fn now(id: u32) -> Result<Process, Anything> {
        let used = Stat::of(id).ok_or("stat")?.used.duration();
        let status = status::of(id)?;
        Ok(Process {
            processor_s: used.as_secs_f64(),
            resident_kib: status.number("VmRSS").ok_or("status")?,
            threads: status.number("Threads").ok_or("status")?,
            descriptors: std::fs::read_dir(format!("/proc/{id}/fd"))?.count() as i64,
        })
    }
}

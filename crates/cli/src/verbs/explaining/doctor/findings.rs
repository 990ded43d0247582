//! The findings besides those of the recorders: this machine, the network's settings, mounts, a store.
//!
//! Each is one small probe and one line in [`all`]. A probe only reads.

use crate::emulation;
use crate::honoured;
use crate::scrubbed;
use crate::session::IN_CLEAR;
use std::path::Path;
use std::time::Duration;
use thalweg_base::machine::has_program;
use thalweg_base::numbers;
use thalweg_client::DataClient;
use thalweg_client::metadata::MetadataClient;
use thalweg_record::probe::fix::{self, Fix};
use thalweg_record::probe::{self, Finding, State, good, less};
use thalweg_store::config::StoreAddress;
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::address::{is_plain, without_pin};
use thalweg_wire::emulate::Emulation;

/// Timeout for a store's answer.
const STORE_SILENCE: Duration = Duration::from_secs(3);

/// The addresses of a store, its service's first; what it emulates; and the line on its scrubs.
type Reached = (Vec<String>, Option<Emulation>, Option<String>);

/// Checks whether a store answers, and whether its traffic is encrypted.
pub(super) fn store(address: &str) -> Finding {
    let name = "store".to_owned();
    let reached = || -> Result<Reached, String> {
        let store = StoreAddress::parse(address).map_err(|e| e.to_string())?;
        let credentials = store.credentials(None).map_err(|e| e.to_string())?;
        let service = store.service().map_err(|e| e.to_string())?;
        let options = Connect { timeout: STORE_SILENCE, credentials, ..Connect::default() };
        let names = MetadataClient::connect(&mut Tracer::off(), &service, &options).map_err(|e| e.to_string())?;
        let connect = Connect { store: Some(names.map().store), ..options };
        let (space, _) = DataClient::new(names.map().as_ref().clone(), &connect).space(&mut Tracer::off());
        let scrubs: Vec<_> = space.into_iter().filter(|space| space.checksums.is_some()).map(|space| space.scrub).collect();
        let servers = names.map().servers.iter().map(|server| server.address.clone()).collect::<Vec<_>>();
        Ok((std::iter::once(service).chain(servers).collect(), names.emulated(), scrubbed::line(&scrubs, scrubbed::now_ns())))
    };
    match reached() {
        Err(problem) => less(name, State::Absent, problem, "verbs that use the store fail", "start the store, or give its credential"),
        Ok((addresses, ..)) if addresses.iter().any(|address| is_plain(address)) => {
            less(name, State::Limited, format!("{address} answers, and was started with --plain"), IN_CLEAR, "start it without --plain")
        }
        Ok((addresses, emulated, scrubs)) => {
            let scrubs = scrubs.map_or_else(String::new, |scrubs| format!("; {scrubs}"));
            let found = format!("{} answers, with {} I/O servers{scrubs}", without_pin(&addresses[0]), addresses.len() - 1);
            match emulated {
                Some(emulated) => {
                    less(name, State::Limited, found, &emulation::of_store(&emulated), "start it without --emulate for real devices")
                }
                None => good(name, found),
            }
        }
    }
}

/// Returns all findings, of recorders first.
pub(super) fn all() -> Vec<Finding> {
    let mut findings = probe::probe();
    findings.extend(kernel_facts());
    findings.extend([
        machine(),
        memory(),
        clock(),
        page_cache(),
        socket_buffer("socket receive buffer", "net.core.rmem_max", "receive-buffer"),
        socket_buffer("socket send buffer", "net.core.wmem_max", "send-buffer"),
        open_files(),
        namespaces(),
        mounting(),
        mounts(),
        picture_viewer(),
    ]);
    findings
}

/// Returns findings on the kernel facilities that the BPF recorder uses: one for each missing, and one for all others.
fn kernel_facts() -> Vec<Finding> {
    let (there, missing): (Vec<_>, Vec<_>) = probe::kernel_facts().into_iter().partition(|(_, found)| found.is_ok());
    let mut findings = Vec::new();
    if !there.is_empty() {
        let tracepoints = there.iter().filter(|(name, _)| name.starts_with("tracepoint ")).count();
        let others: Vec<&str> = there.iter().map(|(name, _)| name.as_str()).filter(|name| !name.starts_with("tracepoint ")).collect();
        findings.push(good("kernel facilities", format!("{tracepoints} tracepoints; {}", others.join(", "))));
    }
    let missed = |(name, found): (String, Result<String, String>)| {
        let found = found.err().unwrap_or_default();
        less(name, State::Absent, found, "recordings lack what it would record", "a newer kernel, or more privilege")
    };
    findings.extend(missing.into_iter().map(missed));
    findings
}

fn machine() -> Finding {
    let machine = thalweg_measure::Machine::describe(&[std::env::temp_dir()]);
    if machine.cpus < 2 {
        let costs = "client and servers of the demo share one processor: overlap gains little";
        return less("machine", State::Limited, machine.sentence(), costs, "");
    }
    good("machine", machine.sentence())
}

fn memory() -> Finding {
    let available_bytes = proc_number("/proc/meminfo", "MemAvailable:").map(|kib| kib << 10);
    match available_bytes {
        None => {
            let costs = "the demo cannot check that its files stay in the page cache";
            less("memory", State::Absent, "/proc/meminfo does not have MemAvailable", costs, "")
        }
        Some(bytes) if bytes < 2 << 30 => less(
            "memory",
            State::Limited,
            format!("{} available", numbers::size(bytes)),
            "the demo's two copies of a 256 MiB file may leave the page cache and be measured from the disk",
            "",
        ),
        Some(bytes) => good("memory", format!("{} available", numbers::size(bytes))),
    }
}

fn clock() -> Finding {
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default();
    let begun = std::time::Instant::now();
    let reads = 10_000_u32;
    for _ in 0..reads {
        std::hint::black_box(thalweg_trace::Time::now());
    }
    let read_ns = begun.elapsed().as_nanos() / u128::from(reads);
    let found = format!("{}, {read_ns} ns per reading", if source.trim().is_empty() { "unknown source" } else { source.trim() });
    if read_ns > 300 {
        let costs = "every span takes two readings: recording slows a copy by more than 1 %";
        return less("clock source", State::Limited, found, costs, "a machine whose clock source is tsc or kvm-clock");
    }
    good("clock source", found)
}

fn page_cache() -> Finding {
    let name = "page cache contents (cachestat)";
    // Queried on a file that surely exists: this program.
    let asked = std::fs::File::open("/proc/self/exe").and_then(|file| thalweg_measure::residency(&file));
    match asked.map(|residency| residency.by) {
        Ok("cachestat") => good(name, "cachestat works"),
        other => less(
            name,
            State::Absent,
            other.map_or_else(|e| e.to_string(), |by| format!("only {by} works")),
            "measurements with cold caches are verified with mincore, or reported as not verified",
            "Linux 6.5 or newer, and no filter on system call 451",
        ),
    }
}

fn socket_buffer(name: &'static str, setting: &str, id: &'static str) -> Finding {
    const ENOUGH: u64 = 4 << 20;
    match fix::value_of(setting).and_then(|text| text.parse::<u64>().ok()) {
        None => less(
            name,
            State::Absent,
            format!("{setting} is not readable"),
            "the limit is unknown; the size that the kernel grants is recorded with each connection",
            "",
        ),
        Some(bytes) if bytes < ENOUGH => less(
            name,
            State::Limited,
            format!("at most {}", numbers::size(bytes)),
            "one stream cannot fill a path whose bandwidth-delay product is larger; use --streams",
            &format!("sysctl -w {setting}={ENOUGH}"),
        )
        .with(Fix::setting(
            id,
            setting,
            &ENOUGH.to_string(),
            "streams that fill long fast paths",
            "all programs: each socket may then take as much memory if it asks for it",
        )),
        Some(bytes) => good(name, format!("at most {}", numbers::size(bytes))),
    }
}

fn open_files() -> Finding {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let found = limit.current.map_or("no limit".to_owned(), |n| format!("at most {n}"));
    if limit.current.is_some_and(|n| n < 1024) {
        return less("open files", State::Limited, found, "many simultaneous connections or targets may fail", "ulimit -n 4096");
    }
    good("open files", found)
}

fn namespaces() -> Finding {
    let name = "network namespaces";
    if !rustix::process::geteuid().is_root() {
        return less(name, State::Limited, "not root", "tests of servers with their own addresses are skipped; nothing else needs it", "");
    }
    if has_program("ip") {
        good(name, "root, and ip is installed")
    } else {
        less(name, State::Absent, "ip is missing", "tests of servers with their own addresses are skipped", "apt-get install iproute2")
            .with(Fix::package("iproute", "iproute2", "tests of servers with their own addresses"))
    }
}

/// Checks whether this user can mount a store, and let other users use the mount.
fn mounting() -> Finding {
    const NAME: &str = "mounting a store";
    const CONFIGURATION: &str = "/etc/fuse.conf";
    const CANNOT: &str = "`thalweg mount` fails";
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    if let Err(error) = device {
        let is_loaded = Path::new("/sys/module/fuse").exists();
        let fix = if is_loaded { None } else { Fix::modules("fuse", &["fuse"], "mounts of stores") };
        let get = "`modprobe fuse` as root; in a container, give it the device (--device /dev/fuse --cap-add SYS_ADMIN)";
        return less(NAME, State::Absent, format!("/dev/fuse: {error}"), CANNOT, get).with(fix);
    }
    if rustix::process::geteuid().is_root() {
        return good(NAME, "root, and /dev/fuse is there");
    }
    if !has_program("fusermount3") {
        let fix = Fix::package("fusermount", "fuse3", "mounts of stores by users");
        return less(NAME, State::Absent, "fusermount3 is missing, with which users mount", CANNOT, "apt-get install fuse3").with(fix);
    }
    let allows = |text: String| text.lines().any(|line| line.trim() == "user_allow_other");
    if std::fs::read_to_string(CONFIGURATION).is_ok_and(allows) {
        return good(NAME, "by fusermount3, also for other users (--allow-other)");
    }
    let adds = "`thalweg mount --allow-other`: mounts that other users can use";
    let fix = Fix::line("allow-other", CONFIGURATION, "user_allow_other", adds, "users who are given such a mount")
        .giving_up("any user may then show file systems of his own to other users and to root's programs");
    let get = format!("add the line user_allow_other to {CONFIGURATION}");
    less(NAME, State::Limited, "by fusermount3, for this user alone", "other users cannot use a mount of this user", &get).with(Some(fix))
}

/// Checks whether a mount honours privileges of a store on this machine.
fn mounts() -> Finding {
    let (name, honoured) = ("mounts", honoured::lines(None));
    if honoured.is_empty() {
        return good(name, "none honours set-user bits or device nodes of a store");
    }
    let costs = "anyone who may write to files of that store that are in no lot can become root on this machine";
    less(name, State::Limited, honoured.join("; "), costs, "mount it again without --allow-suid and --allow-dev")
}

fn picture_viewer() -> Finding {
    // Pictures are SVG and HTML: any browser shows them, and making them needs nothing on this machine.
    good("pictures and exports", "SVG and HTML for a browser, Perfetto files for https://ui.perfetto.dev")
}

fn proc_number(path: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key))?.split_ascii_whitespace().next()?.parse().ok()
}

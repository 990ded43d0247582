//! `thalweg doctor`: checks what this machine supports for recordings, copies and the demo, what each absence costs, and how to get it.
//!
//! Each finding is one small probe and one line in [`findings`], or comes from a recorder's own probes. A probe only reads.
//! `--ceilings` measures the throughput of devices and the loopback instead.

use crate::emulation;
use crate::failure::Failure;
use crate::honoured;
use crate::output;
use crate::session::IN_CLEAR;
use serde::Serialize;
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_client::metadata::MetadataClient;
use thalweg_record::probe::{self, Finding, State, good, less};
use thalweg_store::config::StoreAddress;
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::address::{is_plain, without_pin};
use thalweg_wire::emulate::Emulation;

/// Arguments of `thalweg doctor`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print the findings as JSON (thalweg.doctor/1)
    #[arg(long)]
    json: bool,
    /// In a checkout of the sources, also list the missing packages that only `make bench` and `make lab` need
    #[arg(long, conflicts_with = "ceilings")]
    develop: bool,
    /// A store to check: thal://HOST:PORT, or its store.toml
    #[arg(long, env = "THALWEG_STORE", value_name = "STORE")]
    store: Option<String>,
    /// Measure the throughput of the devices under --path and of the loopback, and print it as JSON for `record --ceilings`
    #[arg(long, conflicts_with = "json")]
    ceilings: bool,
    /// A directory on a device to measure (default: the current one). May be repeated
    #[arg(long, value_name = "DIRECTORY", requires = "ceilings")]
    path: Vec<std::path::PathBuf>,
}

/// Timeout for a store's answer.
const STORE_SILENCE: Duration = Duration::from_secs(3);

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    findings: Vec<Finding>,
    packages: Vec<Package>,
}

/// A package that a target of the source tree needs and this machine lacks.
#[derive(Serialize)]
struct Package {
    target: String,
    package: String,
    left_out: String,
}

/// Checks everything, and prints the findings.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.ceilings {
        return ceilings(&arguments.path);
    }
    let mut document = Document { schema: "thalweg.doctor/1", findings: findings(), packages: missing_packages(arguments.develop) };
    document.findings.extend(arguments.store.as_deref().filter(|store| !store.is_empty()).map(store));
    if arguments.json {
        return output::json(&document);
    }
    let mut text = String::new();
    for finding in &document.findings {
        let sign = match finding.state {
            State::Good => "good   ",
            State::Limited => "limited",
            State::Absent => "absent ",
        };
        text.push_str(&format!("{sign}  {}: {}\n", finding.name, finding.found));
        if !finding.costs.is_empty() {
            text.push_str(&format!("         {}\n", finding.costs));
        }
        if !finding.get.is_empty() {
            text.push_str(&format!("         to get it: {}\n", finding.get));
        }
    }
    for package in &document.packages {
        text.push_str(&format!(
            "absent   {}: without it `make {}` leaves out {}\n         to get it: apt-get install {}\n",
            package.package, package.target, package.left_out, package.package
        ));
    }
    output::result(&text)
}

/// Measures ceilings and prints them as one JSON object; notes progress on standard error.
fn ceilings(paths: &[std::path::PathBuf]) -> Result<(), Failure> {
    use thalweg_measure::ceiling;
    let here = [std::path::PathBuf::from(".")];
    let paths = if paths.is_empty() { &here } else { paths };
    let mut devices = std::collections::BTreeMap::new();
    for path in paths {
        devices.entry(ceiling::device_name(path).map_err(Failure::failed)?).or_insert(path);
    }
    let mut all = ceiling::loopback().map_err(Failure::failed)?;
    for (device, path) in devices {
        output::note(&format!("thalweg doctor: measuring {device}, through {}", path.display()));
        all.extend(ceiling::device(path).map_err(Failure::failed)?);
    }
    let rounded: std::collections::BTreeMap<String, u64> = all.into_iter().map(|(name, rate)| (name, rate.round() as u64)).collect();
    output::json(&rounded)
}

/// Checks whether a store answers, and whether its traffic is encrypted.
fn store(address: &str) -> Finding {
    let name = "store".to_owned();
    let reached = || -> Result<(Vec<String>, Option<Emulation>), String> {
        let store = StoreAddress::parse(address).map_err(|e| e.to_string())?;
        let credentials = store.credentials(None).map_err(|e| e.to_string())?;
        let service = store.service().map_err(|e| e.to_string())?;
        let options = Connect { timeout: STORE_SILENCE, credentials, ..Connect::default() };
        let names = MetadataClient::connect(&mut Tracer::off(), &service, &options).map_err(|e| e.to_string())?;
        let servers = names.map().servers.iter().map(|server| server.address.clone()).collect::<Vec<_>>();
        Ok((std::iter::once(service).chain(servers).collect(), names.emulated()))
    };
    match reached() {
        Err(problem) => less(name, State::Absent, problem, "verbs that use the store fail", "start the store, or give its credential"),
        Ok((addresses, _)) if addresses.iter().any(|address| is_plain(address)) => {
            less(name, State::Limited, format!("{address} answers, and was started with --plain"), IN_CLEAR, "start it without --plain")
        }
        Ok((addresses, emulated)) => {
            let found = format!("{} answers, with {} I/O servers", without_pin(&addresses[0]), addresses.len() - 1);
            match emulated {
                Some(emulated) => {
                    less(name, State::Limited, found, &emulation::of_store(&emulated), "start it without --emulate for real devices")
                }
                None => good(name, found),
            }
        }
    }
}

fn findings() -> Vec<Finding> {
    let mut findings = probe::probe();
    findings.extend(kernel_facts());
    findings.extend([
        machine(),
        memory(),
        clock(),
        page_cache(),
        socket_buffer("socket receive buffer", "/proc/sys/net/core/rmem_max", "net.core.rmem_max"),
        socket_buffer("socket send buffer", "/proc/sys/net/core/wmem_max", "net.core.wmem_max"),
        open_files(),
        namespaces(),
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

fn socket_buffer(name: &'static str, path: &str, setting: &str) -> Finding {
    const ENOUGH: u64 = 4 << 20;
    match std::fs::read_to_string(path).ok().and_then(|t| t.trim().parse::<u64>().ok()) {
        None => less(
            name,
            State::Absent,
            format!("{path} is not readable"),
            "the limit is unknown; the size that the kernel grants is recorded with each connection",
            "",
        ),
        Some(bytes) if bytes < ENOUGH => less(
            name,
            State::Limited,
            format!("at most {}", numbers::size(bytes)),
            "one stream cannot fill a path whose bandwidth-delay product is larger; use --streams",
            &format!("sysctl -w {setting}={ENOUGH}"),
        ),
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
    if find_program("ip") {
        good(name, "root, and ip is installed")
    } else {
        less(name, State::Absent, "ip is missing", "tests of servers with their own addresses are skipped", "apt-get install iproute2")
    }
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

fn find_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).any(|dir| dir.join(name).is_file())
}

/// Targets of the Makefile that only developers run.
const DEVELOPMENT_TARGETS: [&str; 2] = ["bench", "lab"];

/// Returns the packages of tools/packages that are missing here; those needed only for [`DEVELOPMENT_TARGETS`] if `develop` is set.
fn missing_packages(develop: bool) -> Vec<Package> {
    let is_installed = |probe: &str| if probe.starts_with('/') { std::path::Path::new(probe).exists() } else { find_program(probe) };
    missing_of(include_str!("../../../../../tools/packages"), develop, is_installed)
}

/// Returns the packages of `list` whose probe is not installed. A package that another target needs too is listed for that target.
fn missing_of(list: &str, develop: bool, is_installed: impl Fn(&str) -> bool) -> Vec<Package> {
    list.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut fields = line.split('|').map(str::trim);
            let (target, probe, package, left_out) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            let is_listed = develop || !DEVELOPMENT_TARGETS.contains(&target);
            let left_out = if left_out == "need" { "everything" } else { left_out };
            let missing = || Package { target: target.into(), package: package.into(), left_out: left_out.into() };
            (is_listed && !is_installed(probe)).then(missing)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_for_bench_and_lab_alone_are_listed_for_developers_only() {
        let list = "# comment\nbuild | cc | gcc | need\nbench | fio | fio | tuners\nlab | perl | perl-base | polls\n\
                    test | fio | fio | the gate\nlab | tar | tar | pipelines\n";
        let missing = |develop: bool| {
            let missing = missing_of(list, develop, |probe| probe == "tar");
            missing.into_iter().map(|package| format!("{} {}", package.target, package.package)).collect::<Vec<_>>()
        };
        assert_eq!(missing(false), ["build gcc", "test fio"]);
        assert_eq!(missing(true), ["build gcc", "bench fio", "lab perl-base", "test fio"]);
        assert_eq!(missing_of(list, false, |_| false)[0].left_out, "everything");
    }
}

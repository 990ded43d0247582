//! A recording for a bug report: times and numbers unchanged, private names replaced.
//!
//! **Kept:** every number, time and identifier; the closed sets (kinds, roles, counters); words from a list that
//! reveals nothing about who made the recording (`public.txt`: common programs, file systems, standard directories,
//! file name extensions); enumerated names (`sda1`, `io3`); names of options; functions of the kernel and of public
//! libraries. **Replaced:** everything else, each name by the same substitute everywhere, so that `explain` finds the
//! same ends, paths and devices. Loopback addresses are kept, others become addresses of `10.0.0.0/8` and `fd00::/8`.
//! **Removed:** sentences (notes), replaced by a sentence that says so.
//!
//! The list names what may stay, not what must go: a column, attribute or word that is not on it is replaced.

mod names;

use crate::frame::{Frame, JIT, TRUNCATED, UNKNOWN, VDSO};
use crate::recording::rewrite::{Rewriting, rewrite};
use crate::{Host, Meta, MountDescription, Object, Stack, TraceError, Track};
use names::Names;
use std::path::Path;

/// Attribute that marks an anonymous recording.
pub const ANONYMOUS: &str = "anonymous";

/// Replaces sentences.
const LEFT_OUT: &str = "Sentences of the recorder were left out, to make this recording anonymous.";

/// Attributes whose values are sentences.
const SENTENCES: &[&str] = &["notes", "not_seen", "ended.said", "ended.failed"];

/// Attribute names that end in a private name: the prefix is kept, the rest replaced.
const OPEN_NAMES: &[&str] = &[
    "mount.",
    "ceiling.device.",
    "ceiling.path.",
    "cgroup.memory.limit.",
    "cgroup.memory.high.",
    "cgroup.memory.reached.",
    "cgroup.memory.refaults.",
    "cgroup.memory.killed.",
    "cgroup.memory.gone.",
    "cgroup.memory.stalled_us.",
    "cgroup.io.limit.",
    "cgroup.io.done.",
    "cgroup.io.stalled_us.",
];

/// Dot-separated parts of attribute names that are kept.
const KNOWN_PARTS: &str = "again anonymous asked attributes blkio buffer buffer_bytes busy call callback capture cgroup class clock collective command connections \
    count counted cpu cpu_ns cpu_quota cpus cut data_path datafile datafiles datafiles_per_request depth device direct direction distribution \
    dropped_packets emulated end end_ns ended failed entries file file_bytes filesystem files first_ns flags from full how in_part interface io io_uring kept killed kind knob \
    last_ns launcher library link look_ns looks loss lost made memory mode mpi names no_samples notes not_seen opened other own own_kernel_ns own_run_ns own_short_ns own_user_ns packets page_names period_ns pid procedure \
    processors profile program programs_cpu_ns queue rank ranks readdirplus reader_cpu_ns reader_ns reads recorded_ns recorder request_bytes requests \
    requests_per_server resolution_ns root rpc said said_by samples server servers signal size size_bytes socket_buffer source stacks_broken stacks_longer stacks_untabled \
    stacks_whole start_ns streams symbols sync target targets tcp_retransmissions tcp_segments tcp_timeouts tick_ns tier to torn_bytes tracepoints tune udp_datagrams \
    unanswered unknown_link unmatched_replies unrecorded unrecorded_servers user_stacks version waits waits_left_out wakers walk window windows wire_bytes \
    bpf_ns program_runs_counted workers written_by written_bytes zero_windows";

/// Prefixes of the file names of libraries whose function names are public.
const PUBLIC_LIBRARIES: &[&str] = &[
    "libc.",
    "libc-",
    "libm.",
    "libm-",
    "libpthread",
    "libstdc++",
    "libgcc_s",
    "ld-linux",
    "ld-musl",
    "libcrypto",
    "libssl",
    "libz.",
    "libzstd",
    "liblzma",
    "libbz2",
    "liblz4",
    "libcurl",
    "libgnutls",
    "libpython",
    "libjvm",
    "libssh",
    "libnfs",
    "libfuse",
    "libuv",
    "libgio",
    "libglib",
    "libpq",
    "libmpi",
    "libmpich",
    "libopen-pal",
    "libfabric",
    "libibverbs",
    "libhdf5",
    "libnetcdf",
    "libblas",
    "liblapack",
    "libopenblas",
    "libcudart",
    "libcuda",
];

/// Writes the recording at `from` as an anonymous one to `to`, which must not exist or be an empty directory.
///
/// # Errors
/// The source cannot be read, or the destination written; nothing of it is then left.
pub fn export(from: &Path, to: &Path) -> Result<(), TraceError> {
    rewrite(from, to, &mut Anonymous::default())
}

#[derive(Default)]
struct Anonymous {
    names: Names,
}

impl Anonymous {
    /// Returns the anonymous name of an attribute.
    fn key(&mut self, key: &str) -> String {
        if let Some(begin) = OPEN_NAMES.iter().find(|begin| key.starts_with(*begin)) {
            return format!("{begin}{}", self.open_name(&key[begin.len()..]));
        }
        let is_number = |part: &str| !part.is_empty() && part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
        let has_name = !key.starts_with(|c: char| c.is_ascii_digit());
        let is_known = |part: &&str| KNOWN_PARTS.split_whitespace().any(|known| known == *part) || has_name && is_number(part);
        // From the first unknown part on, it may be private.
        let known_bytes = key.split_inclusive('.').take_while(|part| is_known(&part.trim_end_matches('.'))).map(str::len).sum();
        let (known, rest) = key.split_at(known_bytes);
        format!("{known}{}", self.names.text(rest))
    }

    /// Replaces the private parts of `DEVICE.read`, `DISK./GROUP`, `A>B`, `/a/path`.
    fn open_name(&mut self, rest: &str) -> String {
        if let Some((disk, group)) = rest.split_once("./") {
            return format!("{}./{}", self.names.text(disk), self.names.text(group));
        }
        match rest.rsplit_once('.') {
            Some((device, way @ ("read" | "write"))) => format!("{}.{way}", self.names.text(device)),
            _ => self.names.text(rest),
        }
    }

    fn value(&mut self, key: &str, value: &str) -> String {
        if SENTENCES.contains(&key) {
            return LEFT_OUT.to_owned();
        }
        if key.starts_with("class.") && value.split('.').all(is_plain) && value.len() <= 24 {
            return value.to_owned();
        }
        if let Some((said, server, path)) = of_http(key, value) {
            let path = path.map_or_else(String::new, |path| format!(" path={}", self.names.text(path)));
            return format!("{said} server={}{path}", self.names.text(server));
        }
        if let Some(description) = value.starts_with('{').then(|| serde_json::from_str::<MountDescription>(value).ok()).flatten() {
            return self.mount(description);
        }
        self.names.text(value)
    }

    fn mount(&mut self, mut said: MountDescription) -> String {
        let mut replace = |text: &mut String| *text = self.names.text(text);
        [&mut said.store, &mut said.metadata, &mut said.node].into_iter().for_each(&mut replace);
        for server in &mut said.servers {
            [&mut server.name, &mut server.node, &mut server.address].into_iter().for_each(&mut replace);
        }
        for target in &mut said.targets {
            target.server.iter_mut().for_each(&mut replace);
            replace(&mut target.directory);
        }
        serde_json::to_string(&said).unwrap_or_default()
    }

    fn attributes(&mut self, attributes: &mut [(String, String)]) {
        for (key, value) in attributes {
            *value = self.value(key, value);
            *key = self.key(key);
        }
    }
}

/// Splits the attribute of a repeated HTTP request, or of its counted responses, into numbers, server and path.
fn of_http<'a>(key: &str, value: &'a str) -> Option<(&'a str, &'a str, Option<&'a str>)> {
    let is_known = key.starts_with("asked.again.") || key.starts_with("answered.");
    let (said, of) = value.split_once(" server=").filter(|_| is_known)?;
    let is_said = |word: &str| word.split_once('=').is_some_and(|(name, value)| is_plain(name) && is_plain(&value.to_ascii_lowercase()));
    let (server, path) = of.split_once(" path=").map_or((of, None), |(server, path)| (server, Some(path)));
    said.split(' ').all(is_said).then_some((said, server, path))
}

/// Whether `word` belongs to a closed set: lower-case letters, digits and hyphens.
fn is_plain(word: &str) -> bool {
    word.len() <= 20 && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

impl Rewriting for Anonymous {
    fn meta(&mut self, meta: &mut Meta) {
        meta.command.iter_mut().for_each(|word| *word = self.names.text(word));
        meta.recorder = meta.recorder.split('+').map(|name| self.names.text(name)).collect::<Vec<_>>().join("+");
        self.attributes(&mut meta.attributes);
        meta.attributes.push((ANONYMOUS.to_owned(), "yes".to_owned()));
    }

    fn host(&mut self, host: &mut Host) {
        host.name = self.names.text(&host.name);
        host.node = self.names.text(&host.node);
        host.clock = self.names.text(&host.clock);
        // Distributions and sites put their own name after the version.
        host.kernel.truncate(host.kernel.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(host.kernel.len()));
    }

    fn track(&mut self, track: &mut Track) {
        track.name = self.names.text(&track.name);
    }

    fn object(&mut self, object: &mut Object) {
        object.name = self.names.text(&object.name);
        self.attributes(&mut object.attributes);
    }

    fn stack(&mut self, stack: &mut Stack) {
        for text in &mut stack.frames {
            let mut frame = Frame::parse(text);
            let file = frame.module.rsplit('/').next().unwrap_or_default();
            let is_public = frame.module.starts_with('/') && PUBLIC_LIBRARIES.iter().any(|begin| file.starts_with(begin));
            let is_kernel = !frame.module.is_empty() && !frame.is_user();
            let in_memory = [VDSO, UNKNOWN, TRUNCATED].contains(&frame.module.as_str());
            if !is_public && !is_kernel && !in_memory {
                frame.symbol = frame.symbol.map(|symbol| self.names.text(&symbol));
            }
            // A build identifier identifies the file.
            frame.build_id = frame.build_id.filter(|_| is_public);
            if !is_public && !is_kernel && !in_memory && frame.module != JIT {
                frame.module = self.names.text(&frame.module);
            } else if is_public {
                frame.module = format!("/usr/lib/{file}");
            }
            *text = frame.to_string();
        }
    }
}

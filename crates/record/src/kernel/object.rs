//! Loads programs into the kernel, several in parallel, and gives access to them and their maps.
//!
//! Most of the time before a recorded command can run goes to the kernel's verifier, which explores each path through
//! each program; libbpf loads programs one after another. So libbpf creates the maps and relocates the programs for
//! the kernel's structures, and they are loaded and attached here, by as many threads as there are CPUs, the slowest
//! first.

use super::tracepoints::Tracepoints;
use super::types::{BtfFile, Types, of_object};
use crate::RecordError;
use libbpf_rs::{
    AsRawLibbpf, Map, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenMapMut, OpenObject, ProgramType, libbpf_sys,
};
use rustix::fs::MemfdFlags;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The licence in the programs' section `license`.
const LICENSE: &CStr = c"Dual MIT/GPL";

/// Size of the verifier's log for a rejected program, where one is requested.
const LOG_BYTES: usize = 16 << 20;

/// The key of a map with a single entry.
const FIRST: [u8; 4] = [0; 4];

/// More threads than slow programs are useless.
const MOST_THREADS: usize = 8;

/// A program in the kernel.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) fd: OwnedFd,
    /// Attached while this is open; the error if attaching failed. `None`: attached later, or run directly.
    pub(crate) link: Option<std::io::Result<OwnedFd>>,
}

/// Programs ready to be loaded, and their maps.
#[derive(Debug)]
pub(crate) struct Prepared {
    object: Object,
    who: &'static str,
}

/// Loaded programs.
pub(crate) struct Loaded {
    /// Owns the maps.
    object: Object,
    pub(crate) programs: Vec<Program>,
    /// Programs loaded on demand; they must not outlive the object.
    pub(crate) later: Vec<Later>,
}

/// When a program is loaded, and whether it is attached then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Attached,
    Loaded,
    Later,
}

/// A program loaded on demand.
pub(crate) struct Later {
    job: Job,
    types: i32,
}

impl Later {
    /// The program's name.
    pub(crate) fn name(&self) -> &str {
        self.job.name.to_str().unwrap_or_default()
    }

    /// Loads it; must not be called after its object is gone.
    pub(crate) fn load(&self) -> Result<Program, RecordError> {
        self.job.run(self.types)
    }
}

/// The parsed object file, before anything is created.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    pub(crate) open: OpenObject,
    types: Option<Fitting<'a>>,
    /// Owner of the programs, in messages.
    who: &'static str,
}

/// Types for relocation: `file` gets those of the kernel's types that the programs' own declarations can refer to.
#[derive(Debug)]
struct Fitting<'a> {
    kernel: &'a Types<BtfFile>,
    own: Types<&'a [u8]>,
    file: File,
}

/// How a section's programs are loaded.
struct Sort {
    kind: libbpf_sys::bpf_prog_type,
    attach: libbpf_sys::bpf_attach_type,
    flags: u32,
}

fn sort(section: &str) -> Option<Sort> {
    let tracing = |attach| Sort { kind: libbpf_sys::BPF_PROG_TYPE_TRACING, attach, flags: 0 };
    Some(match section.split('/').next()? {
        "tp_btf" => tracing(libbpf_sys::BPF_TRACE_RAW_TP),
        "fentry" => tracing(libbpf_sys::BPF_TRACE_FENTRY),
        "iter" => tracing(libbpf_sys::BPF_TRACE_ITER),
        "perf_event" => Sort { kind: libbpf_sys::BPF_PROG_TYPE_PERF_EVENT, attach: 0, flags: 0 },
        "uprobe" => Sort { kind: libbpf_sys::BPF_PROG_TYPE_KPROBE, attach: 0, flags: 0 },
        "raw_tp" => Sort { kind: libbpf_sys::BPF_PROG_TYPE_RAW_TRACEPOINT, attach: 0, flags: 0 },
        "syscall" => Sort { kind: libbpf_sys::BPF_PROG_TYPE_SYSCALL, attach: 0, flags: libbpf_sys::BPF_F_SLEEPABLE },
        _ => return None,
    })
}

/// Converts a libbpf error into an error of `who`.
pub(crate) fn failed<'a>(who: &'a str, what: &'a str) -> impl Fn(libbpf_rs::Error) -> RecordError + 'a {
    move |error| RecordError::Failed(format!("{who} {what}: {error:#}"))
}

/// Map types whose memory is allocated on creation.
const LARGE: [MapType; 2] = [MapType::LruHash, MapType::RingBuf];

/// Creates the large maps, each in a thread of its own, while `meanwhile` runs.
fn make_large_maps(open: &mut OpenObject, who: &str, meanwhile: impl FnOnce() -> std::io::Result<()>) -> Result<(), RecordError> {
    let mut maps: Vec<_> = open.maps_mut().filter(|map| LARGE.contains(&map.map_type())).collect();
    let make = |(kind, name, [key, value, entries]): (MapType, OsString, [u32; 3])| {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        MapHandle::create(kind, Some(name), key, value, entries, &options)
    };
    let (made, done) = std::thread::scope(|scope| {
        let shape = |map: &OpenMapMut<'_>| (map.map_type(), map.name().to_owned(), [map.key_size(), map.value_size(), map.max_entries()]);
        let makers: Vec<_> = maps.iter().map(shape).map(|shape| scope.spawn(move || make(shape))).collect();
        let done = meanwhile();
        (makers.into_iter().filter_map(|maker| maker.join().ok()).collect::<Vec<_>>(), done)
    });
    done.map_err(|error| RecordError::Failed(format!("{who} cannot write the types of its programs: {error}")))?;
    for (map, made) in maps.iter_mut().zip(made) {
        let made = made.map_err(failed(who, "cannot create a map"))?;
        map.reuse_fd(made.as_fd()).map_err(failed(who, "cannot use its maps"))?;
    }
    Ok(())
}

/// Silences libbpf's messages on standard error; the recorder reports what matters itself.
fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let level = std::env::var_os("THALWEG_BPF_DEBUG").map(|_| libbpf_rs::PrintLevel::Debug);
        fn print(_: libbpf_rs::PrintLevel, text: String) {
            eprint!("{text}");
        }
        libbpf_rs::set_print(level.map(|level| (level, print as fn(libbpf_rs::PrintLevel, String))));
    });
}

impl<'a> Opened<'a> {
    /// Reads an object file with the programs of `who`.
    pub(crate) fn new(object: &'a [u8], tracepoints: &'a Tracepoints, who: &'static str) -> Result<Opened<'a>, RecordError> {
        quiet();
        let file = || rustix::fs::memfd_create(c"thalweg-types", MemfdFlags::CLOEXEC).ok().map(File::from);
        let types = tracepoints.types().and_then(|kernel| Some(Fitting { kernel, own: of_object(object)?, file: file()? }));
        let mut builder = ObjectBuilder::default();
        if let Some(Fitting { file, .. }) = &types {
            // (Read when the programs are prepared.)
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            builder.btf_custom_path(path).map_err(failed(who, "cannot name its types"))?;
        }
        let open = builder.open_memory(object).map_err(failed(who, "cannot read its own programs"))?;
        Ok(Opened { open, types, who })
    }

    /// Creates the maps, and relocates the programs for the kernel's structures.
    pub(crate) fn prepare(mut self) -> Result<Prepared, RecordError> {
        for mut program in self.open.progs_mut() {
            // For a BTF-attached program libbpf would read all of the kernel's types, to find what is known here.
            program.set_prog_type(ProgramType::SocketFilter);
        }
        let who = self.who;
        make_large_maps(&mut self.open, who, || match &mut self.types {
            Some(Fitting { kernel, own, file }) => match kernel.reduced_to(&own.names()) {
                Some(reduced) => file.write_all(&reduced),
                None => file.write_all(kernel.bytes()),
            },
            None => Ok(()),
        })?;
        // SAFETY: the object is open, and not prepared yet.
        let result = unsafe { libbpf_sys::bpf_object__prepare(self.open.as_libbpf_object().as_ptr()) };
        if result != 0 {
            let error = std::io::Error::from_raw_os_error(-result);
            return Err(RecordError::Failed(format!("{who} was rejected by the kernel: {error}")));
        }
        // SAFETY: its maps are created, which is all that a loaded object needs here; its programs are loaded below.
        Ok(Prepared { object: unsafe { Object::from_ptr(self.open.take_ptr()) }, who })
    }
}

/// A program to be loaded.
struct Job {
    name: CString,
    sort: Sort,
    target: u32,
    attached: bool,
    program: *const libbpf_sys::bpf_program,
    instructions: usize,
    who: &'static str,
}

// SAFETY: the program that it points to is only read while it is loaded.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

/// Wraps the descriptor returned by a libbpf call, or its negative error number.
pub(crate) fn descriptor(result: i32) -> std::io::Result<OwnedFd> {
    if result < 0 {
        return Err(std::io::Error::from_raw_os_error(-result));
    }
    // SAFETY: the call made this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// Attaches a program to the target of its section, until the descriptor is closed.
pub(crate) fn attach(program: BorrowedFd<'_>, section: &str) -> std::io::Result<OwnedFd> {
    let sort = sort(section).ok_or(std::io::ErrorKind::InvalidInput)?;
    link(program, 0, sort.attach)
}

/// Attaches a program to a descriptor, if there is one.
fn link(program: BorrowedFd<'_>, to: i32, how: libbpf_sys::bpf_attach_type) -> std::io::Result<OwnedFd> {
    // SAFETY: numbers and no options.
    descriptor(unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), to, how, std::ptr::null()) })
}

/// Attaches this program to an event of perf until the link is closed.
pub(crate) fn run_by(program: &Program, event: &OwnedFd) -> std::io::Result<OwnedFd> {
    link(program.fd.as_fd(), event.as_raw_fd(), libbpf_sys::BPF_PERF_EVENT)
}

impl Job {
    fn load(&self, types: i32, log: Option<&mut Vec<u8>>) -> std::io::Result<OwnedFd> {
        // SAFETY: libbpf keeps what these say until the object is closed, and nothing changes the program meanwhile.
        let (instructions, functions, count) = unsafe {
            let functions: *const libbpf_sys::bpf_func_info = libbpf_sys::bpf_program__func_info(self.program);
            let count = libbpf_sys::bpf_program__func_info_cnt(self.program);
            (libbpf_sys::bpf_program__insns(self.program), functions, count)
        };
        // (Line information is useful only in the verifier's log, and costs time.)
        let mut options = libbpf_sys::bpf_prog_load_opts {
            sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
            expected_attach_type: self.sort.attach,
            attach_btf_id: self.target,
            prog_flags: self.sort.flags,
            ..Default::default()
        };
        if let (Ok(types), true) = (u32::try_from(types), count > 0) {
            options.prog_btf_fd = types;
            options.func_info = functions.cast();
            options.func_info_cnt = count;
            options.func_info_rec_size = size_of::<libbpf_sys::bpf_func_info>() as u32;
        }
        if let Some(log) = log {
            log.resize(LOG_BYTES, 0);
            (options.log_level, options.log_size, options.log_buf) = (1, LOG_BYTES as u32, log.as_mut_ptr().cast());
        }
        let (kind, name, license) = (self.sort.kind, self.name.as_ptr(), LICENSE.as_ptr());
        // SAFETY: the instructions and what the options point to live as long as the object, and are as long as said.
        descriptor(unsafe {
            libbpf_sys::bpf_prog_load(kind, name, license, instructions, self.instructions as libbpf_sys::size_t, &raw mut options)
        })
    }

    fn run(&self, types: i32) -> Result<Program, RecordError> {
        let name = self.name.to_string_lossy().into_owned();
        let fd = self.load(types, None).map_err(|error| {
            if std::env::var_os("THALWEG_BPF_DEBUG").is_some() {
                let mut log = Vec::new();
                let _ = self.load(types, Some(&mut log));
                eprintln!("{name}: {}", String::from_utf8_lossy(log.split(|byte| *byte == 0).next().unwrap_or_default()));
            }
            RecordError::Failed(format!("{} was rejected by the kernel: {name}: {error}", self.who))
        })?;
        let link = self.attached.then(|| link(fd.as_fd(), 0, self.sort.attach));
        Ok(Program { name, fd, link })
    }
}

impl Prepared {
    /// Loads the wanted programs; `when` decides for each, by name and section.
    pub(crate) fn load(self, tracepoints: &Tracepoints, when: impl Fn(&str, &str) -> When) -> Result<Loaded, RecordError> {
        // SAFETY: the object is open.
        let types = unsafe { libbpf_sys::bpf_object__btf_fd(self.object.as_libbpf_object().as_ptr()) };
        let (mut jobs, mut later, who) = (Vec::new(), Vec::new(), self.who);
        for program in self.object.progs_mut().filter(|program| program.autoload()) {
            let (name, section) = (program.name().to_string_lossy().into_owned(), program.section().to_string_lossy().into_owned());
            let unknown = || RecordError::Failed(format!("{who} cannot load {name}: unknown section {section}"));
            let when = when(&name, &section);
            let job = Job {
                sort: sort(&section).ok_or_else(unknown)?,
                target: if section.contains('/') { tracepoints.target(&section).ok_or_else(unknown)? } else { 0 },
                attached: when == When::Attached,
                program: program.as_libbpf_object().as_ptr().cast_const(),
                instructions: program.insn_cnt(),
                name: CString::new(name.clone()).map_err(|_| unknown())?,
                who,
            };
            if when == When::Later { later.push(Later { job, types }) } else { jobs.push(job) }
        }
        jobs.sort_by_key(|job| std::cmp::Reverse(job.instructions));
        let programs = at_once(&jobs, |job| job.run(types))?;
        Ok(Loaded { object: self.object, programs, later })
    }
}

impl Loaded {
    /// Returns a program by name.
    pub(crate) fn program(&self, name: &str) -> Option<&Program> {
        self.programs.iter().find(|program| program.name == name)
    }

    /// Returns a map by name.
    pub(crate) fn map(&self, name: &str) -> Option<Map<'_>> {
        self.object.maps().find(|map| map.name() == OsStr::new(name))
    }

    /// Returns the bytes of the programs' global variables.
    pub(crate) fn variables(&self) -> Option<Vec<u8>> {
        self.variable_map()?.lookup(&FIRST, MapFlags::ANY).ok().flatten()
    }

    /// Sets the first global variable.
    pub(crate) fn set_first_variable(&self, to: u32) {
        if let (Some(map), Some(mut value)) = (self.variable_map(), self.variables())
            && let Some(first) = value.get_mut(..4)
        {
            first.copy_from_slice(&to.to_ne_bytes());
            let _ = map.update(&FIRST, &value, MapFlags::ANY);
        }
    }

    fn variable_map(&self) -> Option<Map<'_>> {
        self.object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"))
    }

    /// Returns each CPU's value in a per-CPU map of one entry.
    pub(crate) fn of_processors(&self, map: &str) -> Vec<Vec<u8>> {
        self.map(map).and_then(|map| map.lookup_percpu(&FIRST, MapFlags::ANY).ok().flatten()).unwrap_or_default()
    }

    /// Attaches this program to an event of perf until the link is closed.
    pub(crate) fn run_by(&self, program: &str, event: &OwnedFd) -> std::io::Result<OwnedFd> {
        let program = self.program(program).ok_or_else(|| std::io::Error::other(format!("no such program: {program}")))?;
        run_by(program, event)
    }
}

/// Runs all jobs in roughly this order, as many in parallel as there are CPUs; stops at the first error.
fn at_once<J: Sync, R: Send, E: Send>(jobs: &[J], run: impl Fn(&J) -> Result<R, E> + Sync) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = run(job);
            if result.is_err() {
                next.store(jobs.len(), Ordering::Relaxed);
            }
            done.push(result);
        }
        done
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS).min(jobs.len());
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let own = work();
        own.into_iter()
            .chain(helpers.into_iter().flat_map(|helper| helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
            .collect()
    })
}

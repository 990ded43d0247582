//! A server that uses the protocol and lies: every verb that uses a store, and the mount, against answers that no correct server gives.
//!
//! The server is the crate's own, with answers changed after they were encoded. Whatever it answers, the command must report an error,
//! write nothing outside of the target, not panic, end, and stay within its memory limit.

use crate::bounded::Bounded;
use crate::common::{CommandOutput, content, file, run, scratch, text, thalweg};
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use thalweg_layout::Spec;
use thalweg_wire::Result;
use thalweg_wire::protocol::common::{BootVerifier, Hello, HelloReply, ServiceKind};
use thalweg_wire::protocol::io::{DatafileSize, IoReply, IoRequest, TargetSpace};
use thalweg_wire::protocol::lots::Level;
use thalweg_wire::protocol::metadata::{
    Attributes, DirectoryEntry, FileId, FileKind, FileLayout, MetadataReply, MetadataRequest, Name, Operation, ServerEntry, SmallReply,
    Status, StoreMap, TargetEntry, TargetId,
};
use thalweg_wire::trust::{Credential, Gate, Identity};
use thalweg_wire::{Exchange, Kind, Running, ServeOptions, Service, Session, serve};

const STORE: u64 = 0xa1;
const CONTENT: &[u8] = b"stolen";
/// Replaced after encoding by a name of this length, the number of a field.
const PLACEHOLDER: &[u8] = b"placeholder-name";
const EXTENDED: u32 = 0x00ab_cdef;

/// The false part of the server's answers. Everything else is answered correctly.
#[derive(Clone, Debug)]
enum Lie {
    /// A page of the root with an invalid name, of an object of this kind.
    Name(Vec<u8>, FileKind),
    /// The same name twice.
    Twice,
    /// Names in the wrong order.
    Disorder,
    /// A directory that contains itself.
    OwnChild,
    /// Endless pages, all equal.
    Forever,
    /// A file's size, from the metadata service.
    Size(u64),
    /// A file of this many datafiles, as the list's length claims.
    Datafiles(u64),
    /// An unknown layout.
    Layout,
    /// An entry whose layout is not in the page's table.
    OutOfTable,
    /// Two answers to one request.
    TwoAnswers,
    /// No answer.
    NoAnswer,
    /// A link target that is not a valid path.
    Target,
    /// A target at a server that does not exist.
    MapServer,
    /// A server whose name has a zero byte and an escape sequence in it.
    MapName,
    /// Fewer sizes than requested, and sizes that are too large.
    FewSizes,
    HugeSizes,
    /// More bytes than requested, and than exist.
    ManyBytes,
    /// A reply of another kind.
    OtherReply,
    /// An error whose text contains escape codes.
    Escapes,
}

/// Unencoded bytes.
struct Raw(Vec<u8>);

impl serde::Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        use serde::ser::SerializeTuple;
        let mut tuple = to.serialize_tuple(self.0.len())?;
        self.0.iter().try_for_each(|byte| tuple.serialize_element(byte))?;
        tuple.end()
    }
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Returns `bytes` with every `from` replaced by `to`.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(from) {
            out.extend_from_slice(to);
            at += from.len();
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

fn attributes(id: u64, kind: FileKind) -> Attributes {
    let layout = FileLayout { spec: Spec::new("simple_stripe"), targets: vec![TargetId(0)], lot: None };
    let is_file = kind == FileKind::File;
    Attributes {
        id: FileId(id),
        kind,
        mode: 0o755,
        uid: 0,
        gid: 0,
        links: 2,
        accessed_ns: 0,
        modified_ns: 0,
        changed_ns: 0,
        created_ns: 0,
        change: 1,
        device: 0,
        target_bytes: 0,
        extended_bytes: EXTENDED,
        target: (kind == FileKind::Symlink).then(|| b"/etc/passwd".to_vec()),
        size_bytes: is_file.then_some(CONTENT.len() as u64),
        settled: None,
        lost: None,
        layout: is_file.then(|| Arc::new(layout)),
        default_layout: None,
    }
}

fn entry(name: &[u8], id: u64, kind: FileKind) -> DirectoryEntry {
    DirectoryEntry { name: Name::new(name).unwrap(), id: FileId(id), kind, attributes: Some(attributes(id, kind)) }
}

/// The metadata service or the I/O server.
struct Hostile {
    lie: Lie,
    map: Option<StoreMap>,
}

struct Asked(Arc<Hostile>);

impl Service for Hostile {
    fn hello(&self, _: &Hello, _: &Arc<Identity>) -> Result<HelloReply> {
        let (server, service) = if self.map.is_some() { ("metadata", ServiceKind::Metadata) } else { ("io0", ServiceKind::Io) };
        let (server, node) = (server.to_owned(), "here".to_owned());
        Ok(HelloReply {
            version: 0,
            server,
            service,
            node,
            boot_id: "b".into(),
            verifier: BootVerifier(1),
            store: STORE,
            service_start: Default::default(),
            change: 0,
            emulated: None,
        })
    }

    fn kind(&self) -> Kind {
        if self.map.is_some() { Kind::Metadata } else { Kind::Io }
    }

    fn session(self: Arc<Self>, _: &Hello, _: &Arc<Identity>) -> Box<dyn Session> {
        Box::new(Asked(self))
    }
}

impl Session for Asked {
    fn serve(&mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        if self.0.map.is_none() {
            let (reply, payload) = self.0.bytes(exchange.body()?);
            return exchange.reply_with(&reply, &payload);
        }
        let request: MetadataRequest = exchange.body()?;
        if matches!(self.0.lie, Lie::Escapes) && !matches!(request.operation, Operation::StoreMap) {
            return Err(thalweg_wire::Error::new(thalweg_wire::ErrorKind::Access, "\u{1b}]0;owned\u{7}\u{1b}[2Jno"));
        }
        let reply = self.0.answer(request.operation);
        exchange.reply(&Raw(self.0.tampered(&postcard::to_stdvec(&reply).unwrap())))
    }
}

impl Hostile {
    fn root(&self) -> Vec<DirectoryEntry> {
        use FileKind::{Directory, File, Symlink};
        match &self.lie {
            Lie::Name(_, kind) => vec![entry(b"good", 10, File), entry(PLACEHOLDER, 11, *kind)],
            Lie::Twice => vec![entry(b"good", 10, File), entry(b"good", 11, Symlink)],
            Lie::Disorder => vec![entry(b"good", 10, File), entry(b"a", 11, File)],
            Lie::OwnChild => vec![entry(b"down", 20, Directory), entry(b"good", 10, File)],
            Lie::Target => vec![entry(b"good", 10, File), entry(b"link", 30, Symlink)],
            _ => vec![entry(b"good", 10, File)],
        }
    }

    fn of(&self, path: &[u8], from: FileId) -> Attributes {
        match (path.rsplit(|b| *b == b'/').next(), from.0) {
            (Some(b"good"), _) | (_, 10) => attributes(10, FileKind::File),
            (Some(b"link"), _) | (_, 30) => attributes(30, FileKind::Symlink),
            (Some(b"down"), _) | (_, 20) => attributes(20, FileKind::Directory),
            (_, id) => attributes(id, FileKind::Directory),
        }
    }

    fn answer(&self, operation: Operation) -> MetadataReply {
        match operation {
            _ if matches!((&self.lie, &operation), (Lie::OtherReply, Operation::List { .. } | Operation::Stat { .. })) => {
                MetadataReply::Synced(BootVerifier(3))
            }
            Operation::StoreMap => MetadataReply::Map(self.map.clone().unwrap()),
            Operation::Stat { places, .. } => {
                let mut each: Vec<_> = places.iter().map(|place| Ok(self.of(&place.path, place.from))).collect();
                match self.lie {
                    Lie::TwoAnswers => each.extend_from_within(..),
                    Lie::NoAnswer => each.clear(),
                    _ => {}
                }
                MetadataReply::Many(each)
            }
            Operation::List { after, .. } => {
                let is_first = matches!(after, thalweg_wire::protocol::metadata::After::Nothing);
                let is_forever = matches!(self.lie, Lie::Forever);
                let entries = if is_first || is_forever { self.root() } else { Vec::new() };
                MetadataReply::Page { entries, more: is_forever }
            }
            Operation::Open { place, .. } => MetadataReply::Attributes(self.of(&place.path, place.from)),
            Operation::Rename { from, .. } => MetadataReply::Attributes(self.of(&from.path, from.from)),
            Operation::ReadSymlink { .. } => MetadataReply::Bytes(match self.lie {
                Lie::Target => b"a/".repeat(100_000),
                _ => b"/etc/passwd".to_vec(),
            }),
            Operation::Many { operations } => {
                let many = if matches!(self.lie, Lie::TwoAnswers) { operations.len() * 2 } else { operations.len() };
                let many = if matches!(self.lie, Lie::NoAnswer) { 0 } else { many };
                MetadataReply::Each((0..many).map(|_| Ok(SmallReply::Done)).collect())
            }
            Operation::Sync => MetadataReply::Synced(BootVerifier(1)),
            Operation::Status => MetadataReply::Status(Status::default()),
            Operation::GetExtended { .. } => MetadataReply::Value(None),
            Operation::ListExtended { .. } => MetadataReply::ExtendedNames(vec![b"a\0/../b".to_vec()]),
            _ => MetadataReply::Done,
        }
    }

    /// Changes the encoding to what the types cannot express.
    fn tampered(&self, encoded: &[u8]) -> Vec<u8> {
        let told = |bytes: &[u8]| [&varint(bytes.len() as u64), bytes].concat();
        let extended = |size: u64| [&varint(EXTENDED.into())[..], &[1], &varint(size)].concat();
        let before = extended(CONTENT.len() as u64);
        match &self.lie {
            Lie::Name(name, _) => replaced(encoded, &told(PLACEHOLDER), &told(name)),
            // In a page the size follows; elsewhere an absent link target comes between.
            Lie::Size(size) => {
                let elsewhere = |size: u64| [&varint(EXTENDED.into())[..], &[0, 1], &varint(size)].concat();
                let page = replaced(encoded, &before, &extended(*size));
                replaced(&page, &elsewhere(CONTENT.len() as u64), &elsewhere(*size))
            }
            Lie::OutOfTable => replaced(encoded, &[&before[..], &[1, 0]].concat(), &[&before[..], &[1, 7]].concat()),
            Lie::Datafiles(many) => {
                // One parameter, strip_size's default, or none; then the list of one target.
                let spec = postcard::to_stdvec(&Spec::new("simple_stripe")).unwrap();
                replaced(encoded, &[&spec[..], &[1]].concat(), &[&spec[..], &varint(*many)].concat())
            }
            Lie::Layout => replaced(encoded, b"simple_stripe", b"simple_\x1b[2Jpe"),
            _ => encoded.to_vec(),
        }
    }

    fn bytes(&self, request: IoRequest) -> (IoReply, Vec<u8>) {
        let size = |size_bytes| DatafileSize { size_bytes, allocated_bytes: u64::MAX, quiet: false };
        match request {
            IoRequest::Glimpse { datafiles } => match self.lie {
                Lie::FewSizes => (IoReply::Sizes(Vec::new()), Vec::new()),
                Lie::HugeSizes => (IoReply::Sizes(datafiles.iter().map(|_| size(i64::MAX as u64)).collect()), Vec::new()),
                _ => (IoReply::Sizes(datafiles.iter().map(|_| size(CONTENT.len() as u64)).collect()), Vec::new()),
            },
            IoRequest::ReadMany { reads } => match self.lie {
                Lie::ManyBytes => (IoReply::ReadMany(reads.iter().map(|_| Ok(u64::MAX)).collect()), CONTENT.to_vec()),
                Lie::FewSizes => (IoReply::ReadMany(Vec::new()), Vec::new()),
                _ => (IoReply::ReadMany(reads.iter().map(|_| Ok(CONTENT.len() as u64)).collect()), CONTENT.repeat(reads.len())),
            },
            IoRequest::Read { length, .. } => match self.lie {
                Lie::ManyBytes => (IoReply::Read, CONTENT.repeat(1000)),
                _ => (IoReply::Read, CONTENT[..CONTENT.len().min(length as usize)].to_vec()),
            },
            IoRequest::Statfs => {
                let directory = "\u{1b}[2J".to_owned();
                let (total_bytes, available_bytes, available_files, file_system) = (u64::MAX, u64::MAX, u64::MAX, 1);
                let (target, promised_bytes, level) = (TargetId(0), u64::MAX, Level::Own);
                let space = TargetSpace {
                    target,
                    directory,
                    total_bytes,
                    available_bytes,
                    available_files,
                    file_system,
                    promised_bytes,
                    level,
                    checksums: None,
                    scrub: None,
                };
                (IoReply::Space(vec![space]), Vec::new())
            }
            IoRequest::Sync { .. } => (IoReply::Synced { verifier: BootVerifier(1) }, Vec::new()),
            _ => (IoReply::Done, Vec::new()),
        }
    }
}

/// The lying server still has its store's credential: this one, in a file.
static TRUSTED: LazyLock<(tempfile::TempDir, Credential)> = LazyLock::new(|| {
    let (directory, credential) = (tempfile::tempdir().unwrap(), Credential::new_store(STORE));
    credential.write(&directory.path().join("credential")).unwrap();
    (directory, credential)
});

/// A store with one lie.
struct Stand {
    _running: [Running; 2],
    address: String,
}

impl Stand {
    fn new(lie: &Lie) -> Stand {
        let start = |map: Option<StoreMap>| {
            let service = Arc::new(Hostile { lie: lie.clone(), map });
            let gate = Arc::new(Gate::new(&TRUSTED.1).unwrap());
            serve(TcpListener::bind("127.0.0.1:0").unwrap(), service, ServeOptions::new("hostile", "here", gate)).unwrap()
        };
        let io = start(None);
        let name = if matches!(lie, Lie::MapName) { "io\0\u{1b}[2J" } else { "io0" };
        let server = u32::from(matches!(lie, Lie::MapServer)) * 77;
        let map = StoreMap {
            store: STORE,
            servers: vec![ServerEntry { name: name.into(), node: "here".into(), address: io.address().to_string() }],
            targets: vec![TargetEntry { target: TargetId(0), server, directory: "t0".into() }],
        };
        let metadata = start(Some(map));
        let address = metadata.address().to_string();
        Stand { _running: [metadata, io], address }
    }

    fn path(&self, path: &str) -> String {
        format!("thal://{}{path}", self.address)
    }
}

/// Runs a command with 4 GiB of address space and a minute of time.
fn bounded(arguments: &[&str]) -> CommandOutput {
    let mut command = thalweg(arguments);
    command.env("THALWEG_CREDENTIAL", TRUSTED.0.path().join("credential"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: setrlimit is safe between fork and exec, and reads a structure on the stack.
    unsafe {
        command.pre_exec(|| {
            let most = libc::rlimit { rlim_cur: 4 << 30, rlim_max: 4 << 30 };
            libc::setrlimit(libc::RLIMIT_AS, &most);
            libc::alarm(60);
            Ok(())
        });
    }
    let begun = Instant::now();
    let said = CommandOutput::from(command.output_in_time().expect("the command starts"));
    assert!(begun.elapsed() < Duration::from_secs(60), "{arguments:?} did not end: {}", said.err);
    said
}

fn names_that_are_none() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = ["../../x", "/abs", "a/b", "", ".", "..", "a\0b", "x/../../../x"].map(|n| n.as_bytes().to_vec()).into();
    names.push(vec![b'n'; 256]);
    names
}

fn every_lie() -> Vec<Lie> {
    let mut lies: Vec<Lie> = Vec::new();
    for name in names_that_are_none() {
        lies.extend([FileKind::File, FileKind::Directory, FileKind::Symlink].map(|kind| Lie::Name(name.clone(), kind)));
    }
    lies.extend([1 << 63, u64::MAX, (1 << 63) - 1].map(Lie::Size));
    lies.extend([5000, 1 << 32].map(Lie::Datafiles));
    lies.extend([
        Lie::Twice,
        Lie::Disorder,
        Lie::OwnChild,
        Lie::Forever,
        Lie::Layout,
        Lie::OutOfTable,
        Lie::TwoAnswers,
        Lie::NoAnswer,
        Lie::Target,
        Lie::MapServer,
        Lie::MapName,
        Lie::FewSizes,
        Lie::HugeSizes,
        Lie::ManyBytes,
        Lie::OtherReply,
        Lie::Escapes,
    ]);
    lies
}

/// Reads the names below a directory, and the files' contents.
fn tree_of(directory: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(tree_of(&entry.path())),
            false => all.push((entry.path(), std::fs::read(entry.path()).unwrap_or_default())),
        }
    }
    all.sort();
    all
}

#[test]
fn whatever_a_server_says_every_verb_ends_and_nothing_is_written_outside_of_the_target() {
    let here = scratch();
    let (outside, deep) = (here.path().join("outside"), here.path().join("outside/a/b/c"));
    std::fs::create_dir_all(&deep).unwrap();
    file(&outside, "x", b"mine");
    file(&deep, "local", &content(1, 1000));
    let lies = every_lie();
    let problems = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (number, lies) in lies.chunks(lies.len().div_ceil(4)).enumerate() {
            let (deep, problems) = (&deep, &problems);
            scope.spawn(move || {
                for (at, lie) in lies.iter().enumerate() {
                    let found = one_lie(lie, &deep.join(format!("target-{number}-{at}")));
                    problems.lock().unwrap().extend(found);
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{} of them:\n{}", problems.len(), problems.join("\n"));
    for entry in std::fs::read_dir(&deep).unwrap().flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("target-")) {
        std::fs::remove_dir_all(entry.path()).unwrap();
    }
    let left: Vec<_> = tree_of(&outside).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, [deep.join("local"), outside.join("x")], "nothing is outside of the targets");
    assert_eq!(std::fs::read(outside.join("x")).unwrap(), b"mine");
}

/// Runs every verb against a lie; returns the violations.
fn one_lie(lie: &Lie, target: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    let stand = Stand::new(lie);
    let (root, good, local) = (stand.path("/"), stand.path("/good"), target.parent().unwrap().join("local"));
    std::fs::create_dir(target).unwrap();
    let into = |name: &str| format!("{}/{name}", text(target));
    let (tree, whole) = (into("tree"), into("file"));
    let verbs: Vec<Vec<&str>> = vec![
        vec!["cp", "-q", "-r", &root, &tree],
        vec!["cp", "-q", "-r", "-p", "-f", &root, &tree],
        vec!["cp", "-q", &good, &whole],
        vec!["cp", "-q", text(&local), &root],
        vec!["ls", "-l", &root],
        vec!["ls", "-R", &root],
        vec!["ls", "-l", "--json", &root],
        vec!["find", &root],
        vec!["du", &root],
        vec!["stat", &good],
        vec!["cat", &good],
        vec!["mv", &good, "/other"],
        vec!["df", &root],
        vec!["layout", "show", &good],
        vec!["layout", "map", &good],
        vec!["rm", "-r", "--no-preserve-root", &root],
    ];
    for verb in verbs {
        // The largest file ends too late to wait for, as with any sparse file.
        if verb[0] == "cat" && matches!(lie, Lie::HugeSizes | Lie::Size(0x7fff_ffff_ffff_ffff)) {
            continue;
        }
        let said = bounded(&verb);
        let mut wrong = Vec::new();
        let mut expect = |holds: bool, what: &str| {
            if !holds {
                wrong.push(what.to_owned());
            }
        };
        let has_controls = |text: &str| text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
        expect(matches!(said.code, Some(0..=2)), "ends with an exit code");
        expect(!said.err.contains("panicked") && !said.err.contains("a bug"), "no panic");
        expect(!has_controls(&said.err), "no control characters in messages");
        expect(!matches!(verb[0], "df" | "layout") || !has_controls(&said.out), "no control characters in tables");
        let reads_root = verb.contains(&&*root) && !verb.contains(&text(&local)) && verb[0] != "df";
        if matches!(lie, Lie::Name(..)) && reads_root {
            expect(said.code == Some(1), "fails");
            expect(said.err.contains(&stand.address), "names the server");
            expect(said.err.contains("name"), "says what was wrong");
        }
        if !wrong.is_empty() {
            problems.push(format!("{wrong:?}: {lie:?} {verb:?}: {:?}\n{:.600}\n{:.600}", said.code, said.out, said.err));
        }
    }
    problems
}

/// A mount, removed when dropped.
struct Mount<'a>(&'a Path);

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = run(["umount", "--lazy", text(self.0)]);
    }
}

#[test]
fn names_that_are_none_do_not_come_out_of_a_mount() {
    if !(std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok() && rustix::process::geteuid().is_root()) {
        println!("SKIPPED: a store cannot be mounted here (needs root and /dev/fuse)");
        return;
    }
    let here = scratch();
    let mut lies: Vec<Lie> = names_that_are_none().into_iter().map(|name| Lie::Name(name, FileKind::File)).collect();
    lies.extend([Lie::Twice, Lie::OwnChild, Lie::Forever, Lie::Size(1 << 63), Lie::Datafiles(1 << 32), Lie::OutOfTable, Lie::Target]);
    lies.extend([Lie::TwoAnswers, Lie::NoAnswer, Lie::FewSizes, Lie::HugeSizes, Lie::ManyBytes, Lie::OtherReply, Lie::Layout]);
    for (number, lie) in lies.iter().enumerate() {
        let stand = Stand::new(lie);
        let at = here.path().join(number.to_string());
        std::fs::create_dir(&at).unwrap();
        let credential = TRUSTED.0.path().join("credential");
        let mounted = run(["mount", "--credential", text(&credential), &stand.path("/"), text(&at)]);
        let _mount = Mount(&at);
        assert!(!mounted.err.contains("credential"), "{}", mounted.err);
        if mounted.code != Some(0) {
            assert!(!mounted.err.contains("panicked"), "{lie:?}: {}", mounted.err);
            continue;
        }
        let listed: Vec<std::io::Result<Vec<u8>>> = std::fs::read_dir(&at).map_or_else(
            |e| vec![Err(e)],
            |names| names.take(1000).map(|n| n.map(|n| std::os::unix::ffi::OsStringExt::into_vec(n.file_name()))).collect(),
        );
        let known: [&[u8]; 4] = [b"good", b"down", b"link", b"a"];
        for name in listed.iter().flatten() {
            assert!(known.contains(&name.as_slice()), "{lie:?}: {listed:?}");
        }
        assert!(!matches!(lie, Lie::Name(..)) || listed.iter().any(Result::is_err), "{lie:?} {listed:?}");
        let read = std::fs::File::open(at.join("good")).and_then(|file| file.take(1 << 16).read_to_end(&mut Vec::new()));
        let _ = (read, std::fs::read_link(at.join("link")), std::fs::metadata(at.join("down/down")));
        // It is still mounted.
        assert!(std::fs::read_to_string("/proc/mounts").unwrap().contains(text(&at)), "{lie:?}");
    }
}

//! Finds the mounted stores that a command works in, each mount's process, and its servers on this machine.
//!
//! A program on a mount waits for the mount's process, which waits for I/O servers, which wait for their disks: a
//! recording of the program alone ends at the first of these. This module finds the rest, so that the user need not
//! name it: the mounts that contain the command's words or its working directory (type `fuse.thalweg` in
//! /proc/self/mountinfo), each one's description (its extended attribute `user.thalweg.store`: its process, its
//! servers' addresses), and the processes of this machine that listen at those addresses.
//!
//! A query to a mount can block for ever if its process hangs, so all of this runs on a thread that is given up after
//! [`PATIENCE`].

use crate::proc::listeners::{Listeners, namespace};
use crate::proc::processes;
use crate::proc::serving::serves_files;
use crate::{RecordError, WatchedProcess};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use thalweg_base::proc::mounts::{self, Mount};
use thalweg_trace::{MountDescription, MountedServer, Role};

/// The file system type of a mounted store in /proc/self/mountinfo.
const FILE_SYSTEM: &str = "fuse.thalweg";

/// Timeout for queries to mounts.
const PATIENCE: Duration = Duration::from_secs(2);

/// A mounted store, and its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// Its mount point.
    pub point: PathBuf,
    /// `thal://HOST:PORT/dir`, as mounted.
    pub source: String,
    /// Its description, verbatim.
    pub description: String,
    /// The mount's process.
    pub pid: u32,
    /// Its servers on this machine: names by process.
    pub servers: BTreeMap<u32, BTreeSet<String>>,
    /// Its other servers: name and address.
    pub elsewhere: Vec<(String, String)>,
}

/// The mounted stores to be recorded along with a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MountedStores {
    /// The mounts, sorted by mount point.
    pub mounts: Vec<Mounted>,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

impl MountedStores {
    /// Returns the processes: mounts are clients, servers are servers.
    pub(crate) fn processes(&self) -> Vec<WatchedProcess> {
        let mounts = self.mounts.iter().map(|mount| WatchedProcess { pid: mount.pid, role: Role::Client });
        let servers = self.mounts.iter().flat_map(|mount| mount.servers.keys()).collect::<BTreeSet<_>>();
        mounts.chain(servers.into_iter().map(|&pid| WatchedProcess { pid, role: Role::Server })).collect()
    }

    /// Returns display names of processes, replacing their command names; `mount` for a mount.
    pub(crate) fn names(&self) -> BTreeMap<u32, String> {
        let name = |mount: &Mounted| match self.mounts.len() {
            1 => "mount".to_owned(),
            _ => format!("mount:{}", mount.point.file_name().unwrap_or(mount.point.as_os_str()).to_string_lossy().replace(['/', ' '], "_")),
        };
        self.mounts.iter().map(|mount| (mount.pid, name(mount))).collect()
    }

    /// Returns attributes for the recording: `mount.POINT` is the description of the mount at this point.
    pub(crate) fn attributes(&self) -> Vec<(String, String)> {
        self.mounts.iter().map(|mount| (format!("mount.{}", mount.point.display()), mount.description.clone())).collect()
    }
}

/// Finds the mounts that `command` works in: it names something in them, or starts there. Failures become notes.
pub(crate) fn of_command(command: &[OsString]) -> MountedStores {
    let command = command.to_vec();
    let here = std::env::current_dir().unwrap_or_default();
    patiently(move || {
        let points = points(mounts::here().unwrap_or_default());
        let chosen: Vec<&Point> = points.iter().filter(|point| works_in(&point.at, &command, &here)).collect();
        look(&chosen)
    })
}

/// Finds the mount that contains a path.
///
/// # Errors
/// The path is in no mounted store.
pub(crate) fn of_path(path: &Path) -> Result<MountedStores, RecordError> {
    let looked = path.to_owned();
    let found = patiently(move || {
        let points = points(mounts::here().unwrap_or_default());
        // If mounts are nested, the innermost counts.
        let chosen = points.iter().filter(|point| looked.starts_with(&point.at)).max_by_key(|point| point.at.as_os_str().len());
        chosen.map_or_else(MountedStores::default, |point| look(&[point]))
    });
    match (found.mounts.is_empty(), found.notes.first()) {
        (false, _) => Ok(found),
        (true, Some(note)) => Err(RecordError::Failed(note.clone())),
        (true, None) => Err(RecordError::Usage(format!("{} is in no mounted store (file system {FILE_SYSTEM})", path.display()))),
    }
}

/// Runs `look` on a thread of its own, which is abandoned if a mount does not answer.
fn patiently(look: impl FnOnce() -> MountedStores + Send + 'static) -> MountedStores {
    let (sender, answer) = mpsc::channel();
    let started = std::thread::Builder::new().name("mounts".to_owned()).spawn(move || sender.send(look()));
    let problem =
        |what: &str| MountedStores { notes: vec![format!("Mounted stores are not recorded: {what}.")], ..MountedStores::default() };
    match started {
        Err(error) => problem(&format!("a thread cannot be started ({error})")),
        Ok(_) => answer.recv_timeout(PATIENCE).unwrap_or_else(|_| problem("a mount does not answer")),
    }
}

/// The mount point and source of a mounted store.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Point {
    at: PathBuf,
    source: String,
}

/// Returns the mounted stores among these, each mount point once: the topmost of stacked mounts.
fn points(mounts: Vec<Mount>) -> Vec<Point> {
    let stores = mounts.into_iter().filter(|mount| mount.kind == FILE_SYSTEM);
    let last: BTreeMap<PathBuf, String> = stores.map(|mount| (mount.point, mount.source)).collect();
    last.into_iter().map(|(at, source)| Point { at, source }).collect()
}

/// Whether a command that starts in `here` works in the mount at `point`, judging by its words: a word contains a
/// path in it (`of=/mnt/x/big`, a shell command line), or leads there from `here`, or `here` is in it.
fn works_in(point: &Path, command: &[OsString], here: &Path) -> bool {
    here.starts_with(point) || command.iter().any(|word| holds(word, point) || leads_to(word, here, point))
}

/// Whether a word contains the path of `point`, or a path in it.
fn holds(word: &OsStr, point: &Path) -> bool {
    let (word, point) = (word.as_bytes(), point.as_os_str().as_bytes());
    let is_part_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') || *byte >= 0x80;
    let starts = (0..word.len()).filter(|&at| word[at..].starts_with(point));
    let mut whole = starts.map(|at| (word[..at].last(), word.get(at + point.len())));
    whole.any(|(before, after)| {
        let begins = before.is_none_or(|byte| !is_part_of_name(byte) && *byte != b'/') || word.starts_with(b"file://");
        begins && after.is_none_or(|byte| *byte == b'/' || !is_part_of_name(byte))
    })
}

/// Whether a word is a path from `here` into `point`, even through a symbolic link; or contains one, as a shell
/// command line does.
fn leads_to(word: &OsStr, here: &Path, point: &Path) -> bool {
    let bytes = word.as_bytes();
    let value = bytes.iter().position(|byte| *byte == b'=').map(|at| &bytes[at + 1..]);
    let parts = bytes.split(|byte| byte.is_ascii_whitespace() || b"'\"`;|&<>()=".contains(byte));
    let paths: BTreeSet<&[u8]> = [bytes].into_iter().chain(value).chain(parts).filter(|path| !path.is_empty()).collect();
    paths.into_iter().any(|path| {
        let path = here.join(OsStr::from_bytes(path));
        plain(&path).starts_with(point) || fs::canonicalize(&path).is_ok_and(|path| path.starts_with(point))
    })
}

/// Resolves `.` and `..` in a path.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Queries each mount, and finds its servers on this machine.
fn look(points: &[&Point]) -> MountedStores {
    let mut found = MountedStores::default();
    if points.is_empty() {
        return found;
    }
    let table = processes::all();
    let listeners = Listeners::read(&table);
    for point in points {
        match mounted(point, &listeners) {
            Ok(mounted) => {
                found.notes.push(note_of(&mounted));
                found.mounts.push(mounted);
            }
            Err(problem) => found.notes.push(format!("The mount at {} is not recorded: {problem}.", point.at.display())),
        }
    }
    found
}

fn mounted(point: &Point, listeners: &Listeners) -> Result<Mounted, String> {
    let mut text = vec![0; MountDescription::MOST_BYTES];
    let bytes = rustix::fs::getxattr(&point.at, MountDescription::ATTRIBUTE, &mut text)
        .map_err(|error| format!("its description cannot be read ({error})"))?;
    text.truncate(bytes);
    let description = String::from_utf8(text).map_err(|_| "its description is not text".to_owned())?;
    let said = MountDescription::read(description.as_bytes()).map_err(|error| format!("its description is not understood ({error})"))?;
    let namespace =
        namespace(said.pid).ok_or_else(|| format!("its process ({}) is not on this machine, or not visible to you", said.pid))?;
    if !serves_a_mount(said.pid) {
        return Err(format!("process {} is not a mount; it may be in another namespace", said.pid));
    }
    let mut mounted = Mounted {
        point: point.at.clone(),
        source: point.source.clone(),
        description,
        pid: said.pid,
        servers: BTreeMap::new(),
        elsewhere: Vec::new(),
    };
    let metadata = MountedServer { name: "metadata".to_owned(), address: said.metadata, ..MountedServer::default() };
    for server in std::iter::once(metadata).chain(said.servers) {
        let here = listeners.at(&server.address, &namespace);
        if here.is_empty() {
            mounted.elsewhere.push((server.name, server.address));
        } else {
            for pid in here {
                mounted.servers.entry(pid).or_default().insert(server.name.clone());
            }
        }
    }
    Ok(mounted)
}

/// Whether a process serves a FUSE file system; assumed if its descriptors may not be read.
fn serves_a_mount(pid: u32) -> bool {
    processes::numbers_in(&format!("/proc/{pid}/fd")).is_empty() || serves_files(pid)
}

fn note_of(mounted: &Mounted) -> String {
    let names: BTreeSet<&str> = mounted.servers.values().flatten().map(String::as_str).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let point = mounted.point.display();
    let mut note = format!("The command works in {point} ({}), so its mount is recorded too (process {})", mounted.source, mounted.pid);
    if !names.is_empty() {
        note.push_str(&format!(", and its servers on this machine: {names}"));
    }
    note.push_str("; --no-also leaves them out.");
    if let Some((_, address)) = mounted.elsewhere.first() {
        let ports: BTreeSet<&str> = mounted.elsewhere.iter().filter_map(|(_, address)| address.rsplit(':').next()).collect();
        let ports: String = ports.into_iter().map(|port| format!(" --port {port}")).collect();
        let all: Vec<String> = mounted.elsewhere.iter().map(|(name, address)| format!("{name} ({address})")).collect();
        note.push_str(&format!(
            " Not on this machine, or not visible to you: {}. Their part is server.unknown unless they are recorded where they run \
             (at {address}: `thalweg record --server{ports} --for 60s -o servers.thw`) and merged with this recording.",
            all.join(", ")
        ));
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<OsString> {
        text.iter().map(OsString::from).collect()
    }

    #[test]
    fn mounted_stores_are_distinguished_from_other_file_systems() {
        let text = b"21 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
            90 21 0:55 / /mnt/my\\040store rw,nosuid shared:3 - fuse.thalweg thal://127.0.0.1:7000/ rw,user_id=0\n\
            91 21 0:56 / /mnt/photos rw - fuse.sshfs host:/ rw\n\
            92 21 0:57 / /mnt/my\\040store rw - fuse.thalweg thal://10.0.0.1:7000/jobs rw\n";
        let expected = Point { at: PathBuf::from("/mnt/my store"), source: "thal://10.0.0.1:7000/jobs".to_owned() };
        assert_eq!(points(mounts::parse(text)), vec![expected]);
    }

    #[test]
    fn a_command_works_where_its_words_lead() {
        let (point, here) = (Path::new("/mnt/store"), Path::new("/home/me/job"));
        let yes: &[&[&str]] = &[
            &["cp", "/mnt/store/a", "/tmp/a"],
            &["ls", "/mnt/store"],
            &["dd", "if=/dev/zero", "of=/mnt/store/big"],
            &["sh", "-c", "cd /mnt/store; tar xf ../a.tar"],
            &["app", "--out=/mnt/store/x:/mnt/other"],
            &["curl", "-o", "x", "file:///mnt/store/x"],
            &["cat", "../../../mnt/store/x"],
            &["cp", "if=../../../mnt/./store"],
            &["sh", "-c", "find ../../../mnt/store/x -type f|xargs md5sum>sums"],
            &["bash", "-c", "cat <'../../../mnt/store/x' >a"],
        ];
        for command in yes {
            assert!(works_in(point, &words(command), here), "{command:?}");
        }
        let no: &[&[&str]] = &[
            &["cp", "/mnt/store2/a", "/tmp"],
            &["cp", "/srv/mnt/store/a", "/tmp"],
            &["cp", "/mnt/stor", "mnt/store"],
            &["cp", "/mnt/store-old/x", "/mnt/store.bak"],
            &["cat", "../../mnt/store/x"],
            &["sh", "-c", "cd ../../mnt/store; ls ../../../mnt/store2"],
            &["true"],
        ];
        for command in no {
            assert!(!works_in(point, &words(command), here), "{command:?}");
        }
        assert!(works_in(point, &words(&["make"]), Path::new("/mnt/store/src")));
    }

    #[test]
    fn a_symbolic_link_leads_into_a_mount_too() {
        let directory = tempfile::tempdir().expect("a directory");
        let point = directory.path().join("point");
        fs::create_dir(&point).expect("made");
        std::os::unix::fs::symlink(&point, directory.path().join("link")).expect("linked");
        assert!(works_in(&point.canonicalize().expect("there"), &words(&["ls", "link"]), directory.path()));
    }

    #[test]
    fn what_is_found_is_watched_named_and_noted() {
        let mount = |point: &str, pid: u32| Mounted {
            point: PathBuf::from(point),
            source: "thal://10.0.0.1:7000/".to_owned(),
            description: "{}".to_owned(),
            pid,
            servers: BTreeMap::from([(20, BTreeSet::from(["io0".to_owned(), "metadata".to_owned()]))]),
            elsewhere: vec![("io1".to_owned(), "10.0.0.2:7002".to_owned())],
        };
        let one = MountedStores { mounts: vec![mount("/mnt/a", 10)], notes: Vec::new() };
        assert_eq!(one.names(), BTreeMap::from([(10, "mount".to_owned())]));
        let watched = [WatchedProcess { pid: 10, role: Role::Client }, WatchedProcess { pid: 20, role: Role::Server }];
        assert_eq!(one.processes(), watched);
        let note = note_of(&one.mounts[0]);
        for part in ["/mnt/a", "process 10", "io0, metadata", "--no-also", "io1 (10.0.0.2:7002)", "--port 7002"] {
            assert!(note.contains(part), "{part}: {note}");
        }
        let two = MountedStores { mounts: vec![mount("/mnt/a", 10), mount("/mnt/b", 11)], notes: Vec::new() };
        assert_eq!(two.names(), BTreeMap::from([(10, "mount:a".to_owned()), (11, "mount:b".to_owned())]));
        assert_eq!(two.processes().len(), 3);
    }
}

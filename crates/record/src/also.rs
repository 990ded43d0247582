//! Resolves further processes to watch: by number, command name, listening port, or mounted store.

use crate::mounted::{self, MountedStores};
use crate::proc::listeners::Listeners;
use crate::proc::processes::{all, names, with_descendants};
use crate::proc::serving::serves_files;
use crate::{RecordError, WatchedProcess};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use thalweg_base::proc::stat::Stat;
use thalweg_trace::Role;

/// Kernel threads that serve NFS, for the in-kernel server.
const KERNEL_SERVERS: &[(u16, &str)] = &[(2049, "nfsd")];

/// Finds the processes that `names` refer to: a process number (`4711`, `pid:4711`), a listening port (`2049`,
/// `:2049`), a command name (`nginx`), or a path in a mounted store (`/mnt/store`: its mount, and its servers on this
/// machine). Each comes with its descendants. Its role is `server` if it or an ancestor in its session listens or
/// serves a file system.
///
/// # Errors
/// A name matches nothing; a number is both a process and a port; the listener cannot be seen.
pub(crate) fn resolve(names: &[String]) -> Result<Others, RecordError> {
    let mut others = Others::default();
    let (paths, names): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.starts_with('/'));
    if !names.is_empty() {
        others.processes = processes(&names)?;
    }
    for path in paths {
        others.add(mounted::of_path(Path::new(path))?);
    }
    Ok(others)
}

/// Processes to watch besides the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Others {
    /// The processes.
    pub processes: Vec<WatchedProcess>,
    /// Display names of some processes, by number.
    pub names: BTreeMap<u32, String>,
    /// Attributes of them for the recording.
    pub attributes: Vec<(String, String)>,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

impl Others {
    /// Adds mounts, with their servers on this machine.
    pub(crate) fn add(&mut self, mounts: MountedStores) {
        let ours = std::process::id();
        for process in mounts.processes().into_iter().filter(|process| process.pid != ours) {
            match self.processes.iter_mut().find(|known| known.pid == process.pid) {
                // Also named explicitly; its role is known better here.
                Some(known) => known.role = process.role,
                None => self.processes.push(process),
            }
        }
        self.names.extend(mounts.names());
        for (name, value) in mounts.attributes() {
            if !self.attributes.iter().any(|(known, _)| *known == name) {
                self.attributes.push((name, value));
            }
        }
        self.notes.extend(mounts.notes.into_iter().filter(|note| !self.notes.contains(note)).collect::<Vec<_>>());
    }
}

fn processes(names: &[&String]) -> Result<Vec<WatchedProcess>, RecordError> {
    let table = all();
    let machine = Machine { listeners: Listeners::read(&table), table };
    let mut found = BTreeMap::new();
    for name in names {
        for pid in machine.find(name)? {
            for member in with_descendants(&machine.table, pid) {
                found.entry(member).or_insert_with(|| machine.role(member));
            }
        }
    }
    found.remove(&std::process::id());
    Ok(found.into_iter().map(|(pid, role)| WatchedProcess { pid, role }).collect())
}

/// Finds the processes that listen on `ports`, and their descendants: all of them servers.
///
/// # Errors
/// As [`resolve`].
pub(crate) fn resolve_ports(ports: &[u16]) -> Result<Vec<WatchedProcess>, RecordError> {
    let names: Vec<String> = ports.iter().map(|port| format!(":{port}")).collect();
    let found = processes(&names.iter().collect::<Vec<_>>())?;
    Ok(found.into_iter().map(|process| WatchedProcess { role: Role::Server, ..process }).collect())
}

struct Machine {
    table: BTreeMap<u32, Stat>,
    listeners: Listeners,
}

impl Machine {
    fn find(&self, name: &str) -> Result<Vec<u32>, RecordError> {
        if let Some(port) = name.strip_prefix(':') {
            let port = port.parse().map_err(|_| usage(format!("`{name}`: a port is a number from 1 to 65535")))?;
            return self.on_port(port);
        }
        if let Some(pid) = name.strip_prefix("pid:") {
            let pid = pid.parse().map_err(|_| usage(format!("`{name}`: expected a process number after `pid:`")))?;
            return self.process(pid).ok_or_else(|| usage(format!("there is no process {pid}")));
        }
        match name.parse::<u32>() {
            Ok(number) => self.numbered(number),
            Err(_) => self.named(name),
        }
    }

    fn process(&self, pid: u32) -> Option<Vec<u32>> {
        self.table.contains_key(&pid).then(|| vec![pid])
    }

    fn numbered(&self, number: u32) -> Result<Vec<u32>, RecordError> {
        let port = u16::try_from(number).ok().filter(|port| self.listeners.is_open(*port));
        match (self.process(number), port) {
            (Some(_), Some(port)) => Err(usage(format!(
                "{number} is a process ({}) and also a listening port: write `pid:{number}` or `:{port}`",
                self.table[&number].name
            ))),
            (Some(pids), None) => Ok(pids),
            (None, Some(port)) => self.on_port(port),
            (None, None) => Err(usage(format!("{number} is neither a process nor a port that anything here listens on"))),
        }
    }

    fn on_port(&self, port: u16) -> Result<Vec<u32>, RecordError> {
        let pids = self.listeners.processes(port);
        if !pids.is_empty() {
            return Ok(pids.into_iter().collect());
        }
        if !self.listeners.is_open(port) {
            return Err(usage(format!("nothing listens on TCP port {port} here; start the server first, or check the port")));
        }
        let kernel_name = KERNEL_SERVERS.iter().find(|(known, _)| *known == port).map(|(_, name)| *name);
        let threads: Vec<u32> =
            self.table.values().filter(|p| p.is_kernel() && kernel_name == Some(p.name.as_str())).map(|p| p.pid).collect();
        if threads.is_empty() {
            let text = format!("something listens on TCP port {port}, but its process cannot be seen: record as root, or as its user");
            return Err(RecordError::NotAllowed(text));
        }
        Ok(threads)
    }

    fn named(&self, name: &str) -> Result<Vec<u32>, RecordError> {
        let ours = std::process::id();
        let candidates = self.table.values().filter(|process| process.pid != ours);
        let found: BTreeSet<u32> = candidates.filter(|process| names(process).contains(name)).map(|process| process.pid).collect();
        if found.is_empty() {
            return Err(usage(format!("no process is called `{name}`; give its number, or the port it listens on")));
        }
        Ok(found.into_iter().collect())
    }

    /// Returns `Server` for a process that listens or serves a file system, or was started by one in its own session
    /// or under its own name: a login shell is not a server because the login service listens, but a database's
    /// process for one client, with a session to itself, is. A process that has itself recorded (the parent of this one), and what it starts, is
    /// what the recording is about, even if it listens: the kernel of a notebook does.
    fn role(&self, pid: u32) -> Role {
        let asked = std::os::unix::process::parent_id();
        let Some(mut process) = self.table.get(&pid) else { return Role::Client };
        let session = process.session;
        if process.is_kernel() {
            return Role::Server;
        }
        for _ in 0..self.table.len() {
            if process.pid == asked {
                return Role::Client;
            }
            if self.listeners.has(process.pid) || serves_files(process.pid) {
                return Role::Server;
            }
            match self.table.get(&process.parent) {
                Some(parent) if parent.pid > 1 && (parent.session == session || is_of_its_kind(process, parent)) => process = parent,
                _ => break,
            }
        }
        Role::Client
    }
}

/// Whether a process has the same name as its parent.
fn is_of_its_kind(process: &Stat, parent: &Stat) -> bool {
    names(process).iter().any(|name| names(parent).contains(name))
}

fn usage(text: String) -> RecordError {
    RecordError::Usage(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    struct Ends(Child);

    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_process_is_found_by_number_and_by_name_with_what_it_started() {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("sleeper-to-find");
        std::fs::copy("/bin/sleep", &program).expect("copied");
        let script = format!("{} 1000 & echo ready; wait", program.display());
        let mut shell = Ends(Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().expect("started"));
        let mut line = String::new();
        let mut out = std::io::BufReader::new(shell.0.stdout.take().expect("piped"));
        std::io::BufRead::read_line(&mut out, &mut line).expect("ready");
        let pid = shell.0.id();
        // Between fork and exec the sleeper has another name.
        let by_name = loop {
            if let Ok(found) = resolve(&["sleeper-to-find".to_owned()]) {
                break found.processes;
            }
        };
        assert_eq!(by_name.len(), 1);
        assert_eq!(by_name[0].role, Role::Client);
        let family = resolve(&[format!("pid:{pid}")]).expect("found").processes;
        assert_eq!(family.iter().map(|p| p.pid).collect::<BTreeSet<_>>(), BTreeSet::from([pid, by_name[0].pid]));
        // SAFETY: a signal to the sleeper we started.
        unsafe { libc::kill(by_name[0].pid as i32, libc::SIGKILL) };
    }

    #[test]
    fn a_servers_process_with_a_session_to_itself_is_a_server() {
        // Like PostgreSQL: one process listens, and forks one with a new session for each client.
        let server = "import os,socket,sys\ns=socket.create_server(('127.0.0.1',0))\nr,w=os.pipe()\npid=os.fork()\n\
                      if pid==0:\n os.setsid(); s.close(); os.write(w,b'x'); sys.stdin.read(); os._exit(0)\n\
                      os.read(r,1)\nprint(pid,flush=True)\nsys.stdin.read()";
        let mut command = Command::new("python3");
        command.args(["-c", server]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = Ends(command.spawn().expect("python3 runs"));
        let mut line = String::new();
        let mut out = std::io::BufReader::new(python.0.stdout.take().expect("piped"));
        std::io::BufRead::read_line(&mut out, &mut line).expect("a number");
        let worker: u32 = line.trim().parse().expect("a number");
        let found = resolve(&[format!("pid:{worker}")]).expect("found").processes;
        assert_eq!(found, vec![WatchedProcess { pid: worker, role: Role::Server }]);
        // SAFETY: a signal to the process that ours started.
        unsafe { libc::kill(worker as i32, libc::SIGKILL) };
    }

    #[test]
    fn what_listens_is_a_server_and_names_that_mean_nothing_are_reported() {
        let server = "import socket,sys\ns=socket.create_server(('127.0.0.1',0))\nprint(s.getsockname()[1],flush=True)\nsys.stdin.read()";
        let mut command = Command::new("python3");
        command.args(["-c", server]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = Ends(command.spawn().expect("python3 runs"));
        let mut line = String::new();
        let mut out = std::io::BufReader::new(python.0.stdout.take().expect("piped"));
        std::io::BufRead::read_line(&mut out, &mut line).expect("a port");
        let port: u16 = line.trim().parse().expect("a number");
        let found = resolve_ports(&[port]).expect("found");
        assert_eq!(found, vec![WatchedProcess { pid: python.0.id(), role: Role::Server }]);
        assert_eq!(resolve(&[format!("pid:{}", python.0.id())]).expect("found").processes, found);
        for (name, part) in [
            ("no-such-name-here", "no process is called"),
            (":1", "nothing listens"),
            ("4294967295", "neither"),
            ("/proc", "no mounted store"),
        ] {
            let error = resolve(&[name.to_owned()]).expect_err(name).to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
    }
}

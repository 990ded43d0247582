//! How a change is made with this very program: its own flags, where they are known.

use crate::replay::mounts::Mount;
use thalweg_trace::Meta;

/// Commands that only start others.
const STARTERS: &[&str] = &["env", "nice", "ionice", "time", "timeout", "stdbuf", "sudo", "taskset", "chrt", "numactl"];

/// The program's name: of the first word that is not a starter's or for one.
pub(crate) fn program(command: &[String]) -> &str {
    command.get(program_at(command)).map_or("", |word| name(word))
}

/// The words behind the program's name.
pub(crate) fn words_of_program(command: &[String]) -> &[String] {
    command.get(program_at(command) + 1..).unwrap_or_default()
}

/// Where the program's name stands.
fn program_at(command: &[String]) -> usize {
    let mut at = 0;
    while command.get(at).is_some_and(|word| STARTERS.contains(&name(word))) {
        let is_next = |w: &str| !w.starts_with('-') && !w.contains('=') && !w.starts_with(|c: char| c.is_ascii_digit());
        let Some(next) = command[at + 1..].iter().position(|word| is_next(name(word))) else { break };
        at += 1 + next;
    }
    at
}

fn name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The words for a change of a program whose flags are known, or that works in a mounted store.
pub(crate) fn how(id: &str, meta: &Meta, mounts: &[Mount]) -> Option<&'static str> {
    if let Some(how) = mounts.first().and_then(|mount| in_mount(id, mount)) {
        return Some(how);
    }
    let has = |flag: &str| meta.command.iter().any(|w| w == flag || w.starts_with(flag));
    Some(match (program(&meta.command), id) {
        ("dd", "no_sync") if has("oflag=sync") || has("oflag=dsync") => {
            "leave out oflag=sync or oflag=dsync; conv=fsync syncs once, at the end"
        }
        ("dd", "no_sync") => "leave out conv=fsync or conv=fdatasync, if the data need not survive a power loss",
        ("dd", "overlap.read_send") => {
            "dd reads and writes in turn: use cp, or two of them with a pipe between (dd if=A bs=1M | dd of=B bs=1M)"
        }
        ("cp", "overlap.read_send") => {
            "cp reads and writes in turn: two dd with a pipe between overlap them (dd if=A bs=1M | dd of=B bs=1M)"
        }
        ("nfs-cp", "overlap.read_send" | "requests.x4") => {
            "nfs-cp has one request in flight and no flag for more: a kernel mount (mount -t nfs -o nconnect=4) or an asynchronous client has"
        }
        ("globus-url-copy", "streams.x4") => "globus-url-copy -p 4 (or four times the streams it has now)",
        ("globus-url-copy", "window.x4") => "globus-url-copy -tcp-bs with four times the bytes",
        ("globus-url-copy", "requests.x4") => "globus-url-copy -pp -cc 4: four files at once, requests pipelined",
        ("xrdcp", "streams.x4") => "xrdcp --streams 4 (or four times the streams it has now)",
        ("xrdcp", "requests.x4") => "XRD_CPPARALLELCHUNKS=16 in the environment of xrdcp, or larger XRD_CPCHUNKSIZE",
        ("xrdcp", "window.x4") => "XRD_TCPBUFFERSIZE is not settable: raise sysctl net.ipv4.tcp_rmem and tcp_wmem at both ends",
        ("curl", "streams.x4") => "curl --parallel with ranges (-r) of the file, or several files at once",
        ("curl" | "wget", "link.x2") if has("--limit-rate") => "leave out --limit-rate",
        ("rsync", "link.x2") if has("--bwlimit") => "leave out --bwlimit; -z sends less",
        ("rsync", "link.x2") => "rsync -z, where the data compresses; or a link of twice the rate",
        ("rsync", "no_sync") => "leave out --fsync",
        ("rsync", "cpu.client.x2" | "cpu.server.x2") => {
            "rsync --whole-file leaves out its checksums where the link is fast; without -z nothing is compressed"
        }
        ("nfs-client", "requests.x4") => "nfs-client --depth with four times the number (and --window, where it is smaller)",
        ("nfs-client", "walk.window.8") => "nfs-client walk --depth 8",
        ("nfs-client", "walk.window.32") => "nfs-client walk --depth 32",
        ("nfs-client", "walk.window.128") => "nfs-client walk --depth 128",
        ("nfs-client", "walk.readdirplus") => "nfs-client walk --how readdirplus",
        ("nfs-client", "no_think") => "leave out --think",
        ("nfs-client", "no_sync") => "nfs-client --stable unstable, with one commit at the end",
        _ => return None,
    })
}

/// What is done on a mount whatever the program.
fn in_mount(id: &str, mount: &Mount) -> Option<&'static str> {
    Some(match id {
        "requests.x4" if mount.store.strict => "mount it without --strict: then the mount reads ahead and writes behind",
        "requests.x4" => "larger reads and writes (for dd: bs=16M), or several files at once: the mount then has more requests in flight",
        "no_lock" => "its holder has the lock for less, or only for the part of the file that it works on (fcntl ranges)",
        _ => return None,
    })
}

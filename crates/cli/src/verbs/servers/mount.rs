//! `thalweg mount`: mounts a store on a directory.
//!
//! The mount is a separate process. Without `--foreground` this process starts it, waits until it reports that the directory is mounted,
//! and exits; if mounting fails, it prints that process's reason.

use crate::interrupt::Interrupt;
use crate::lots::LotFlag;
use crate::operand::StoreFlags;
use crate::terminal::detached;
use crate::tuning::{self, Tuned};
use crate::{failure::Failure, layout_flags::LayoutFlags, output};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use thalweg_client::Controller;
use thalweg_mount::{Honours, Mount, Options};

/// Arguments of `thalweg mount`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The store or a directory in it, like thal://HOST:PORT/dir (default: --store or THALWEG_STORE), and the directory to mount it on
    #[arg(value_name = "[STORE] MOUNTPOINT", num_args = 1..=2, required = true)]
    operands: Vec<String>,
    /// Stay in the foreground until Ctrl-C
    #[arg(short, long)]
    foreground: bool,
    /// Cache nothing: every read sees all earlier writes from any machine, at the cost of a round trip for every operation
    #[arg(long)]
    strict: bool,
    /// Refuse all changes
    #[arg(long)]
    read_only: bool,
    /// Let other users access the mount, as far as file modes allow (always on for root's mounts)
    #[arg(long)]
    allow_other: bool,
    /// Honour set-user and set-group bits and capabilities of the store's files on this machine (root only; otherwise they are ignored)
    #[arg(long)]
    allow_suid: bool,
    /// Honour the store's device nodes on this machine (root only; otherwise none can be opened)
    #[arg(long)]
    allow_dev: bool,
    /// Report the space that files use as if they had no holes, if the metadata service knows their sizes: listings then ask no I/O server
    #[arg(long)]
    estimate_space: bool,
    /// Tune read-ahead and write-behind while programs read and write; the steps are listed in the log at the end
    #[arg(long)]
    tune: bool,
    /// Record the mount and its servers until it is unmounted
    #[arg(long, value_name = "NAME.thw")]
    record: Option<PathBuf>,
    /// Log file for notes once the store is mounted (default: none; with --foreground: standard error)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Report on standard output that the store is mounted, or why it is not
    #[arg(long, hide = true)]
    notify: bool,
    #[command(flatten)]
    layout: LayoutFlags,
    #[command(flatten)]
    lot: LotFlag,
    #[command(flatten)]
    store: StoreFlags,
}

/// The mount process's report that the directory is mounted.
const WORD: &str = "mounted";

/// Mounts the store.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = arguments.options()?;
    if arguments.foreground { stay(arguments, options) } else { start_process() }
}

impl Arguments {
    fn options(&self) -> Result<Options, Failure> {
        let (store, mountpoint) = match self.operands.as_slice() {
            [mountpoint] => ("/", mountpoint),
            [store, mountpoint] => (store.as_str(), mountpoint),
            _ => return Err(Failure::usage("expected [STORE] MOUNTPOINT")),
        };
        if mountpoint.starts_with("thal:") {
            return Err(Failure::usage(format!("{mountpoint} is a store: expected a directory to mount it on after it")));
        }
        let path = self.store.path(store)?;
        let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|e| Failure::failed(format!("{}: {e}", path.display())));
        let command = std::env::args().filter(|a| a != "--notify" && a != "--foreground" && a != "-f").collect();
        let record = self.record.as_ref().map(absolute).transpose()?.map(|path| (path, command));
        let mut options = Options::new(path.store.service().map_err(Failure::failed)?, mountpoint);
        options.directory = path.path;
        options.strict = self.strict;
        options.read_only = self.read_only;
        options.allow_other |= self.allow_other;
        options.honours = Honours { suid: self.allow_suid, dev: self.allow_dev };
        options.estimate_space = self.estimate_space;
        options.node = self.store.node();
        options.credentials = self.store.credentials(&path.store).map_err(Failure::failed)?;
        options.timeout = self.store.timeout;
        options.layout = self.layout.choice()?;
        options.lot.clone_from(&self.lot.lot);
        options.record = record;
        options.log = self.log.as_ref().map(absolute).transpose()?;
        Ok(options)
    }
}

/// Runs the mount until it is unmounted.
fn stay(arguments: &Arguments, options: Options) -> Result<(), Failure> {
    // Each waiting program uses a connection.
    thalweg_wire::raise_descriptors();
    let interrupt = Interrupt::listen()?;
    let log = options.log.clone();
    let mount = match Mount::start(options) {
        Ok(mount) => mount,
        Err(error) => {
            if arguments.notify {
                output::line(&error.to_string())?;
            }
            return Err(Failure::failed(error));
        }
    };
    if arguments.notify {
        let _ = std::env::set_current_dir("/");
        output::line(WORD)?;
    } else {
        output::note(&format!("mounted on {}; Ctrl-C or `thalweg umount` unmounts it", mount.mountpoint().display()));
    }
    let data = mount.data();
    let tuned = arguments.tune.then(|| tuning::begin(Arc::clone(data) as Arc<dyn Controller>, BTreeSet::new(), data, "mount"));
    let unmounter = mount.unmounter();
    let waiting = std::thread::Builder::new().name("unmount".to_owned()).spawn(move || {
        interrupt.wait();
        if let Err(error) = unmounter.unmount(false) {
            output::note(&format!("thalweg mount: {error}; the mount ends when they end, or immediately on a second signal"));
            let _ = unmounter.unmount(true);
        }
    });
    waiting.map_err(|e| Failure::failed(format!("a thread for signals: {e}")))?;
    let ended = mount.wait().map_err(Failure::failed);
    if let Some(report) = tuned.map(Tuned::end) {
        note_in(log.as_deref(), &report.text());
    }
    ended
}

/// Writes a note to the log, or to standard error. Ignores a log that cannot be written.
fn note_in(log: Option<&Path>, text: &str) {
    let file = log.and_then(|path| std::fs::File::options().create(true).append(true).open(path).ok());
    match file {
        Some(mut file) => drop(writeln!(file, "{text}")),
        None => output::note(text),
    }
}

/// Starts the mount process and waits for its report.
fn start_process() -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::failed(format!("this program's path: {e}")))?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).args(["--foreground", "--notify"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // A new session: the terminal's signals do not reach it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = detached::spawn(&mut command).map_err(|e| Failure::failed(format!("cannot start the mount process: {e}")))?;
    let mut word = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut word)?;
    }
    match word.trim_end() {
        WORD => Ok(()),
        "" => Err(Failure::failed(format!("the mount process ended without a message ({})", child.wait()?))),
        reason => {
            child.wait()?;
            Err(Failure::failed(reason))
        }
    }
}

//! The flags that `record` and `explain -- COMMAND` share, and the recorder's options made from them.

use jiff::Timestamp;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_record::{Implementation, Method, Mpi, Options, Profile, Tier, UserStacks};

/// Id of the group of all recording flags.
pub(crate) const RECORDING_FLAGS: &str = "recording-flags";

/// Flags that say how to record. They form one group, so that a verb that also takes recordings can refuse all of them, including ones
/// added later.
#[derive(clap::Args)]
#[group(id = RECORDING_FLAGS)]
#[command(next_help_heading = "Recording")]
pub(crate) struct RecordFlags {
    /// Also record this process, given by PID, command name or listening port (`:2049`), and its children; or, given a path in a
    /// mounted store, the store's mount and its servers on this machine. May be repeated
    #[arg(long, value_name = "PID|NAME|PORT|PATH")]
    pub also: Vec<String>,
    /// Do not record the mount and servers of the store that the command's working directory is in
    #[arg(long)]
    pub no_also: bool,
    /// Record only the command and what --also names, not the other processes on this machine that the command communicates with
    #[arg(long)]
    pub only: bool,
    /// How much to record
    #[arg(long, value_enum, default_value_t = TierFlag::Lean)]
    pub tier: TierFlag,
    /// Also profile the whole machine: sample the stack running on each processor 1000 times a second (without privilege: the code of your own programs)
    #[arg(long)]
    pub profile: bool,
    /// How --profile unwinds user stacks
    #[arg(long, value_enum, default_value_t = UserStacksFlag::Fp, requires = "profile")]
    pub user_stacks: UserStacksFlag,
    /// With --user-stacks dwarf: bytes copied from each stack, at most 64Ki
    #[arg(long, value_name = "SIZE", default_value = "16Ki", value_parser = stack_size, requires = "user_stacks")]
    pub stack_bytes: u32,
    /// Which recorder to use
    #[arg(long, value_enum, default_value_t = MethodFlag::Auto)]
    pub method: MethodFlag,
    /// Stop recording after this time; the command continues
    #[arg(long = "for", value_name = "TIME", value_parser = numbers::parse_duration)]
    pub duration: Option<Duration>,
    /// Maximum disk space for the recording while it is made; events beyond it are dropped and counted
    #[arg(long, value_name = "SIZE", default_value = "4Gi", value_parser = numbers::parse_positive_size)]
    pub limit: u64,
    /// Interval at which events are fetched from the recorder; 0: continuously
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = pause)]
    pub drain: Duration,
    /// Throughput ceilings of devices and the loopback, as printed by `thalweg doctor --ceilings`
    #[arg(long, value_name = "FILE")]
    pub ceilings: Option<PathBuf>,
    /// Also record the MPI calls of every rank on this machine. The MPI implementation is detected unless given (--mpi=mpich,
    /// --mpi=openmpi). Under mpirun (`mpirun ... thalweg record --mpi -o job.thw -- PROGRAM`), each rank makes its own recording, named
    /// with its rank
    #[arg(long, value_enum, value_name = "MPI", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub mpi: Option<MpiFlag>,
    /// Do not replace words of the command that look like secrets (passwords, tokens, keys) with `[secret]`
    #[arg(long)]
    pub keep_command: bool,
}

/// An MPI implementation.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MpiFlag {
    /// The one that the launcher or the program uses (detected)
    Auto,
    /// MPICH
    Mpich,
    /// Open MPI
    Openmpi,
}

/// The amount of detail recorded.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TierFlag {
    /// Record waits, devices and sockets, but no system calls: cheap enough for any run
    Lean,
    /// Record all of that, and every system call
    Syscall,
}

/// How a profile unwinds user stacks.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum UserStacksFlag {
    /// Follow frame pointers: cheap, but stacks end early in code built without them, as in most distributions
    Fp,
    /// Follow unwind tables in a copy of the top of each stack: whole stacks of C, C++ and Rust, at several times the cost
    Dwarf,
}

impl UserStacksFlag {
    /// Converts to the recorder's setting.
    pub(crate) fn with(self, stack_bytes: u32) -> UserStacks {
        match self {
            UserStacksFlag::Fp => UserStacks::FramePointers,
            UserStacksFlag::Dwarf => UserStacks::Dwarf { stack_bytes },
        }
    }
}

/// Parses the bytes to copy of each stack: room for a frame or two at least, and no more than the recorder's buffer.
pub(crate) fn stack_size(text: &str) -> Result<u32, String> {
    let bytes = numbers::parse_positive_size(text)?;
    u32::try_from(bytes).ok().filter(|bytes| (512..=64 << 10).contains(bytes)).ok_or_else(|| "expected a size from 512 to 64Ki".to_owned())
}

/// A recorder.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MethodFlag {
    /// The most detailed one that this machine allows
    Auto,
    /// Kernel tracepoints through BPF; needs privilege
    Bpf,
    /// Context switches, calls of a preloaded library, and /proc: what an ordinary user may record
    User,
    /// A library preloaded into the program
    Preload,
    /// Sampling of /proc
    Proc,
}

fn pause(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { numbers::parse_duration(text) }
}

impl RecordFlags {
    /// Returns the recording's name, with the MPI rank of this process if it has one: all ranks get the same command line.
    fn of_rank(&self, output: &Path) -> PathBuf {
        let Some(rank) = self.mpi.and_then(|_| thalweg_record::rank_here()) else { return output.to_owned() };
        let stem = output.file_stem().unwrap_or_default().to_string_lossy();
        let extension = output.extension().map_or_else(|| "thw".into(), |extension| extension.to_string_lossy());
        output.with_file_name(format!("{stem}-rank-{rank}.{extension}"))
    }

    /// Whether no flag was given that says what to record, or how.
    pub(crate) fn are_defaults(&self) -> bool {
        let picks = !self.also.is_empty() || self.no_also || self.only || self.duration.is_some() || self.ceilings.is_some();
        let how = self.tier != TierFlag::Lean || self.method != MethodFlag::Auto || self.profile || self.mpi.is_some();
        !picks && !how
    }

    /// Returns the recorder's options.
    pub(crate) fn options(&self, command: &[OsString], output: &Path) -> Options {
        Options {
            also: self.also.clone(),
            also_mounts: !self.no_also,
            only: self.only,
            tier: match self.tier {
                TierFlag::Lean => Tier::Lean,
                TierFlag::Syscall => Tier::Syscall,
            },
            method: match self.method {
                MethodFlag::Auto => Method::Auto,
                MethodFlag::Bpf => Method::Bpf,
                MethodFlag::User => Method::User,
                MethodFlag::Preload => Method::Preload,
                MethodFlag::Proc => Method::Proc,
            },
            profile: if self.profile { Profile::Beside } else { Profile::No },
            user_stacks: self.user_stacks.with(self.stack_bytes),
            limit_bytes: self.limit,
            duration: self.duration,
            drain: self.drain,
            ceilings: self.ceilings.clone(),
            mpi: self.mpi.map(|mpi| match mpi {
                MpiFlag::Auto => Mpi::Auto,
                MpiFlag::Mpich => Mpi::Of(Implementation::Mpich),
                MpiFlag::Openmpi => Mpi::Of(Implementation::OpenMpi),
            }),
            keep_command: self.keep_command,
            ..Options::new(command.to_vec(), self.of_rank(output))
        }
    }
}

/// Returns a default name for a recording in the current directory: what is recorded, and the start time.
pub(crate) fn default_name(of: &str) -> PathBuf {
    let of = Path::new(of).file_name().map_or_else(|| "recording".into(), |name| name.to_string_lossy());
    let plain: String = of.chars().map(|c| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '_' }).collect();
    let stem = format!("{}-{}", plain.trim_start_matches(['.', '-']), instant(Timestamp::now()));
    let free = |path: &PathBuf| !path.exists();
    let numbered = (2..1000).map(|n| PathBuf::from(format!("{stem}-{n}.thw")));
    std::iter::once(PathBuf::from(format!("{stem}.thw"))).chain(numbered).find(free).unwrap_or_else(|| PathBuf::from(format!("{stem}.thw")))
}

/// Formats a UTC instant for a file name: `20261121T235102Z`.
fn instant(at: Timestamp) -> String {
    at.strftime("%Y%m%dT%H%M%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_named_for_what_and_when() {
        for (unix_s, expected) in [(0, "19700101T000000Z"), (951_782_399, "20000228T235959Z"), (1_709_164_800, "20240229T000000Z")] {
            assert_eq!(instant(Timestamp::from_second(unix_s).unwrap()), expected);
        }
        let name = default_name("/usr/bin/nfs-cp");
        let name = name.to_str().unwrap();
        assert!(name.starts_with("nfs-cp-2") && name.ends_with("Z.thw"), "{name}");
        assert!(default_name("/bin/[ x").to_str().unwrap().starts_with("__x-2"));
    }
}

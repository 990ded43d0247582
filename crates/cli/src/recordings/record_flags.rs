//! The flags that `record` and `explain -- COMMAND` share, and what they become.

use jiff::Timestamp;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_record::{Implementation, Method, Mpi, Options, Profile, Tier, UserStacks};

/// The group of all flags that say how to record.
pub(crate) const RECORDING_FLAGS: &str = "recording-flags";

/// How to record. That only makes sense with a command: the flags are one group, so that a verb that also takes recordings can refuse all of
/// them there, also those that are added later.
#[derive(clap::Args)]
#[group(id = RECORDING_FLAGS)]
#[command(next_help_heading = "Recording")]
pub(crate) struct RecordFlags {
    /// Record this too: a process by number, command name or the port it listens on (`:2049`), with all that it starts; or, by a path in a
    /// mounted store, its mount and its servers on this machine. May be repeated
    #[arg(long, value_name = "PID|NAME|PORT|PATH")]
    pub also: Vec<String>,
    /// Do not record the mount and servers of the store that the command works in
    #[arg(long)]
    pub no_also: bool,
    /// Record the command and what --also names alone; nobody that it talks to on this machine
    #[arg(long)]
    pub only: bool,
    /// How much to record
    #[arg(long, value_enum, default_value_t = TierFlag::Lean)]
    pub tier: TierFlag,
    /// Profile the whole machine too: the stack of whatever runs on each processor, a thousand times a second. Needs privilege
    #[arg(long)]
    pub profile: bool,
    /// How --profile finds the frames of programs
    #[arg(long, value_enum, default_value_t = UserStacksFlag::Fp, requires = "profile")]
    pub user_stacks: UserStacksFlag,
    /// With --user-stacks dwarf: how much of each stack is copied, at most 64Ki
    #[arg(long, value_name = "SIZE", default_value = "16Ki", value_parser = stack_size, requires = "user_stacks")]
    pub stack_bytes: u32,
    /// Which recorder to use
    #[arg(long, value_enum, default_value_t = MethodFlag::Auto)]
    pub method: MethodFlag,
    /// Stop recording after this time; the command goes on
    #[arg(long = "for", value_name = "TIME", value_parser = numbers::parse_duration)]
    pub duration: Option<Duration>,
    /// Disk space for the recording while it is made; later events are dropped and counted
    #[arg(long, value_name = "SIZE", default_value = "4Gi", value_parser = numbers::parse_positive_size)]
    pub limit: u64,
    /// How often events are fetched; 0: without pause
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = pause)]
    pub drain: Duration,
    /// What devices and paths can reach, as measured by `thalweg doctor --ceilings`
    #[arg(long, value_name = "FILE")]
    pub ceilings: Option<PathBuf>,
    /// Record the MPI calls of every rank on this machine too. The MPI is detected, unless it is given: --mpi=mpich, --mpi=openmpi. Started as
    /// a rank itself (`mpirun ... thalweg record --mpi -o job.thw -- PROGRAM`), each rank makes a recording with its number in the name
    #[arg(long, value_enum, value_name = "MPI", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub mpi: Option<MpiFlag>,
    /// Record words of the command that look like secrets (passwords, tokens, keys) as they are; otherwise `[secret]` stands for each
    #[arg(long)]
    pub keep_command: bool,
}

/// Which MPI.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MpiFlag {
    /// The one that the launcher or the program uses
    Auto,
    /// MPICH
    Mpich,
    /// Open MPI
    Openmpi,
}

/// How much is recorded.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TierFlag {
    /// Waits, devices and sockets, no system calls: cheap enough for any run
    Lean,
    /// Every system call as well
    Syscall,
}

/// How a profile finds the frames of programs.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum UserStacksFlag {
    /// By frame pointers: cheap, and broken off in code without them, as most distributions' is
    Fp,
    /// By unwind tables, from a copy of the top of each stack: whole stacks of C, C++ and Rust, at several times the cost
    Dwarf,
}

impl UserStacksFlag {
    /// The same for the recorder.
    pub(crate) fn with(self, stack_bytes: u32) -> UserStacks {
        match self {
            UserStacksFlag::Fp => UserStacks::FramePointers,
            UserStacksFlag::Dwarf => UserStacks::Dwarf { stack_bytes },
        }
    }
}

/// How much of a stack is copied: a frame or two at least, and no more than the recorder has room for.
pub(crate) fn stack_size(text: &str) -> Result<u32, String> {
    let bytes = numbers::parse_positive_size(text)?;
    u32::try_from(bytes).ok().filter(|bytes| (512..=64 << 10).contains(bytes)).ok_or_else(|| "give a size from 512 to 64Ki".to_owned())
}

/// Which recorder.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MethodFlag {
    /// The best one allowed here
    Auto,
    /// The kernel's tracepoints; needs privilege
    Bpf,
    /// A library that is loaded into the program
    Preload,
    /// Samples of /proc
    Proc,
}

fn pause(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { numbers::parse_duration(text) }
}

impl RecordFlags {
    /// The recording's name, with the number of the rank that we were started as, if we were: all ranks are given the same words.
    fn of_rank(&self, output: &Path) -> PathBuf {
        let Some(rank) = self.mpi.and_then(|_| thalweg_record::rank_here()) else { return output.to_owned() };
        let stem = output.file_stem().unwrap_or_default().to_string_lossy();
        let extension = output.extension().map_or_else(|| "thw".into(), |extension| extension.to_string_lossy());
        output.with_file_name(format!("{stem}-rank-{rank}.{extension}"))
    }

    /// Whether none of them was given that says what to record, or how.
    pub(crate) fn are_defaults(&self) -> bool {
        let picks = !self.also.is_empty() || self.no_also || self.only || self.duration.is_some() || self.ceilings.is_some();
        let how = self.tier != TierFlag::Lean || self.method != MethodFlag::Auto || self.profile || self.mpi.is_some();
        !picks && !how
    }

    /// What to record, and where to.
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

/// A name for a recording that was given none, in the current directory: of what is recorded, and when it began.
pub(crate) fn default_name(of: &str) -> PathBuf {
    let of = Path::new(of).file_name().map_or_else(|| "recording".into(), |name| name.to_string_lossy());
    let plain: String = of.chars().map(|c| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '_' }).collect();
    let stem = format!("{}-{}", plain.trim_start_matches(['.', '-']), instant(Timestamp::now()));
    let free = |path: &PathBuf| !path.exists();
    let numbered = (2..1000).map(|n| PathBuf::from(format!("{stem}-{n}.thw")));
    std::iter::once(PathBuf::from(format!("{stem}.thw"))).chain(numbered).find(free).unwrap_or_else(|| PathBuf::from(format!("{stem}.thw")))
}

/// An instant of UTC as it can stand in a file's name: `20261121T235102Z`.
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

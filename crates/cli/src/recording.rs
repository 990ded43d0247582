//! The flags that `record` and `explain -- COMMAND` share, and what they become.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_record::mpi::{Implementation, Mpi};
use thalweg_record::{Method, Options, Tier};
use thalweg_trace::numbers;

/// How to record.
#[derive(clap::Args)]
#[command(next_help_heading = "Recording")]
pub struct RecordFlags {
    /// Watch this too: a process number, a command name, a port that is listened on (`:2049`), with all it starts; or a path in a mounted
    /// store: its mount, and its servers on this machine. Repeat it for more
    #[arg(long, value_name = "PID|NAME|PORT|PATH")]
    pub also: Vec<String>,
    /// Leave out the mount and servers of a store that the command works in (they are recorded with it otherwise)
    #[arg(long)]
    pub no_also: bool,
    /// How much to record
    #[arg(long, value_enum, default_value_t = TierFlag::Lean)]
    pub tier: TierFlag,
    /// With what: the kernel's tracepoints (needs privilege), a library put into the program, or looks at /proc
    #[arg(long, value_enum, default_value_t = MethodFlag::Auto)]
    pub method: MethodFlag,
    /// Stop recording after this time; the command goes on
    #[arg(long = "for", value_name = "TIME", value_parser = numbers::parse_duration)]
    pub duration: Option<Duration>,
    /// The most the recording may take on disk while it is made; what comes after is counted as lost
    #[arg(long, value_name = "SIZE", default_value = "4Gi", value_parser = numbers::parse_positive_size)]
    pub limit: u64,
    /// How often events are fetched; 0: without a pause
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = pause)]
    pub drain: Duration,
    /// What the devices and paths reach, as `thalweg doctor --ceilings` measures it
    #[arg(long, value_name = "FILE")]
    pub ceilings: Option<PathBuf>,
    /// The command's MPI calls too, of every rank on this machine. Which MPI it is is found out, or said: --mpi=mpich, --mpi=openmpi. Started as
    /// a rank itself (`mpirun ... thalweg record --mpi -o job.thw -- PROGRAM`), each rank's recording has its number in its name
    #[arg(long, value_enum, value_name = "MPI", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub mpi: Option<MpiFlag>,
}

/// Which MPI.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MpiFlag {
    /// The one that the launcher or the program is of
    Auto,
    /// MPICH
    Mpich,
    /// Open MPI
    Openmpi,
}

/// How much is recorded.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TierFlag {
    /// Waits, devices, sockets; no system calls. What a run can bear always
    Lean,
    /// And every system call
    Syscall,
    /// And packets, where a recorder has them (the kernel's has not: use `thalweg rpcstat --interface` beside it)
    Packet,
}

/// Which recorder.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MethodFlag {
    /// The best that is allowed here
    Auto,
    /// The kernel's tracepoints
    Bpf,
    /// A library in the program
    Preload,
    /// Looks at /proc
    Proc,
}

fn pause(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { numbers::parse_duration(text) }
}

impl RecordFlags {
    /// Whether any is given that only makes sense with a command.
    pub fn any_given(&self) -> bool {
        let plain = self.mpi.is_none() && self.also.is_empty() && self.duration.is_none() && self.ceilings.is_none();
        !plain || self.tier != TierFlag::Lean || self.method != MethodFlag::Auto
    }

    /// The recording's name, with the number of the rank that we were started as, if we were: all ranks are given the same words.
    fn of_rank(&self, output: &Path) -> PathBuf {
        let Some(rank) = self.mpi.and_then(|_| thalweg_record::mpi::rank_here()) else { return output.to_owned() };
        let stem = output.file_stem().unwrap_or_default().to_string_lossy();
        let extension = output.extension().map_or_else(|| "thw".into(), |extension| extension.to_string_lossy());
        output.with_file_name(format!("{stem}-rank-{rank}.{extension}"))
    }

    /// What to record, and where to.
    pub fn options(&self, command: &[OsString], output: &Path) -> Options {
        Options {
            also: self.also.clone(),
            also_mounts: !self.no_also,
            tier: match self.tier {
                TierFlag::Lean => Tier::Lean,
                TierFlag::Syscall => Tier::Syscall,
                TierFlag::Packet => Tier::Packet,
            },
            method: match self.method {
                MethodFlag::Auto => Method::Auto,
                MethodFlag::Bpf => Method::Bpf,
                MethodFlag::Preload => Method::Preload,
                MethodFlag::Proc => Method::Proc,
            },
            limit_bytes: self.limit,
            duration: self.duration,
            drain: self.drain,
            ceilings: self.ceilings.clone(),
            mpi: self.mpi.map(|mpi| match mpi {
                MpiFlag::Auto => Mpi::Auto,
                MpiFlag::Mpich => Mpi::Of(Implementation::Mpich),
                MpiFlag::Openmpi => Mpi::Of(Implementation::OpenMpi),
            }),
            ..Options::new(command.to_vec(), self.of_rank(output))
        }
    }
}

/// A name for a recording that was given none, in the current directory: of what is recorded, and when it began.
pub fn default_name(of: &str) -> PathBuf {
    let of = Path::new(of).file_name().map_or_else(|| "recording".into(), |name| name.to_string_lossy());
    let plain: String = of.chars().map(|c| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '_' }).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let stem = format!("{}-{}", plain.trim_start_matches(['.', '-']), instant(now));
    let free = |path: &PathBuf| !path.exists();
    let numbered = (2..1000).map(|n| PathBuf::from(format!("{stem}-{n}.thw")));
    std::iter::once(PathBuf::from(format!("{stem}.thw"))).chain(numbered).find(free).unwrap_or_else(|| PathBuf::from(format!("{stem}.thw")))
}

/// An instant of UTC as it can stand in a file's name: `20261121T235102Z`.
fn instant(unix_s: u64) -> String {
    // Days to a date of the Gregorian calendar, by counting from 1 March of year 0: leap days come last.
    let days = (unix_s / 86_400) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let seconds = unix_s % 86_400;
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_named_for_what_and_when() {
        for (unix_s, expected) in [(0, "19700101T000000Z"), (951_782_399, "20000228T235959Z"), (1_709_164_800, "20240229T000000Z")] {
            assert_eq!(instant(unix_s), expected);
        }
        let name = default_name("/usr/bin/nfs-cp");
        let name = name.to_str().unwrap();
        assert!(name.starts_with("nfs-cp-2") && name.ends_with("Z.thw"), "{name}");
        assert!(default_name("/bin/[ x").to_str().unwrap().starts_with("__x-2"));
    }
}

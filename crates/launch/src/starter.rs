//! Starting a part on a host, through the site's own means.
//!
//! A starter is a command line to which a host and a program are appended. It must forward standard input and output, and end when the
//! program does. The scheduler's own starter is used in its allocation, so that it accounts, limits and cleans up processes; none on this
//! machine; otherwise `ssh`, then `mpirun`.

use crate::error::{LaunchError, Result};
use crate::hosts::{Host, Source};
use std::path::Path;
use std::process::Command;
use thalweg_base::shell;

/// A command that starts programs on hosts. The words after its name are its own flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starter {
    /// None: the host is this machine.
    Local,
    /// `ssh`, or a program with the same arguments.
    Ssh(Vec<String>),
    /// Slurm's `srun`.
    Srun(Vec<String>),
    /// `mpirun` or `mpiexec` of Open MPI or MPICH.
    Mpirun(Vec<String>),
}

/// The accepted values of `--start`.
const EXPECTED: &str = "expected local, ssh, srun, mpirun or mpiexec, optionally with its own flags, as in 'ssh -p 2222'";

/// Flags of `srun`: share the job's resources (`--overlap`), and override what the job requested as a whole.
const SRUN: &[&str] =
    &["--overlap", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--cpu-bind=none", "--mpi=none", "--unbuffered", "--quiet"];

impl Starter {
    /// Parses a command line; the name of its program determines the kind.
    ///
    /// # Errors
    /// The kind is unknown.
    pub fn parse(text: &str) -> Result<Starter> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let name = words.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        // Debian's names are mpirun.openmpi and mpiexec.mpich.
        match name.split('.').next().unwrap_or_default() {
            "local" if words.len() == 1 => Ok(Starter::Local),
            "ssh" => Ok(Starter::Ssh(words)),
            "srun" => Ok(Starter::Srun(words)),
            "mpirun" | "mpiexec" => Ok(Starter::Mpirun(words)),
            _ => Err(LaunchError::usage(format!("--start `{text}`: {EXPECTED}"))),
        }
    }

    /// Returns its name for messages.
    pub fn name(&self) -> &str {
        match self {
            Starter::Local => "local",
            Starter::Ssh(words) | Starter::Srun(words) | Starter::Mpirun(words) => words.first().map_or("", String::as_str),
        }
    }

    /// Builds the command that runs a program with these arguments on a host.
    pub(crate) fn command(&self, host: &str, program: &Path, arguments: &[&str]) -> Command {
        let words = match self {
            Starter::Local => {
                let mut command = Command::new(program);
                command.args(arguments);
                return command;
            }
            Starter::Ssh(words) | Starter::Srun(words) | Starter::Mpirun(words) => words,
        };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        match self {
            Starter::Local => {}
            Starter::Ssh(_) => {
                // Never prompts, since no user is present. The remote shell splits the words.
                command
                    .args(["-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", host])
                    .arg(shell::word(&program.to_string_lossy()))
                    .args(arguments);
            }
            Starter::Srun(_) => {
                command.args(SRUN).arg(format!("--nodelist={host}")).arg(program).args(arguments);
            }
            Starter::Mpirun(_) => {
                command.args(["-n", "1", "-host", host]).arg(program).args(arguments);
                // Within an MPI job, its variables would make this process a member of that job.
                let inherited = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
                inherited.filter(|name| is_of_a_job(name)).for_each(|name| {
                    command.env_remove(name);
                });
            }
        }
        command
    }
}

/// Returns whether an MPI sets this variable for the processes of a job; variables by which a user configures the MPI are not included.
fn is_of_a_job(variable: &str) -> bool {
    const OF_A_JOB: [&str; 10] = [
        "PMI_",
        "PMIX_",
        "HYDI_",
        "OMPI_COMM_",
        "OMPI_MCA_orte_",
        "OMPI_MCA_ess",
        "OMPI_MCA_pmix",
        "PRTE_LAUNCHED",
        "OMPI_FILE_LOCATION",
        "MPI_LOCAL",
    ];
    OF_A_JOB.iter().any(|prefix| variable.starts_with(prefix))
}

/// Chooses the starter for each host.
///
/// # Errors
/// No available command starts a program on a host.
pub(crate) fn choose(hosts: &[Host], from: Source, asked: Option<&Starter>, is_there: &dyn Fn(&str) -> bool) -> Result<Vec<Starter>> {
    if let Some(Starter::Local) = asked
        && let Some(far) = hosts.iter().find(|host| !host.is_here)
    {
        return Err(LaunchError::usage(format!("--start local: host `{}` ({}) is not this machine; {EXPECTED}", far.name, far.address)));
    }
    if let Some(starter) = asked {
        return Ok(vec![starter.clone(); hosts.len()]);
    }
    let order: &[&str] = match from {
        Source::Slurm => &["srun"],
        Source::OpenMpi | Source::Hydra => &["mpirun", "mpiexec", "ssh"],
        Source::Given | Source::Pbs => &["ssh", "mpirun", "mpiexec"],
    };
    let found = order.iter().copied().find(|name| is_there(name)).map(Starter::parse).transpose()?;
    let one = |host: &Host| match &found {
        Some(srun @ Starter::Srun(_)) => Ok(srun.clone()),
        _ if host.is_here => Ok(Starter::Local),
        Some(starter) => Ok(starter.clone()),
        None => Err(LaunchError::failed(format!(
            "no command found to start a server on host `{}`: expected {} in PATH; install one, or name another with --start",
            host.name,
            order.join(" or ")
        ))),
    };
    hosts.iter().map(one).collect()
}

/// Returns whether a program is in `PATH`.
pub(crate) fn is_in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> [Host; 2] {
        let host = |name: &str, address: [u8; 4], is_here| Host { name: name.into(), address: address.into(), is_here };
        [host("here", [127, 0, 0, 1], true), host("far", [10, 9, 9, 9], false)]
    }

    #[test]
    fn the_sites_own_starter_is_taken_and_this_machine_needs_none() {
        let names = |from, there: &'static [&'static str]| {
            let chosen = choose(&hosts(), from, None, &|name| there.contains(&name)).unwrap();
            chosen.iter().map(|starter| starter.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(Source::Slurm, &["srun", "ssh", "mpirun"]), ["srun", "srun"]);
        assert_eq!(names(Source::Given, &["srun", "ssh", "mpirun"]), ["local", "ssh"]);
        assert_eq!(names(Source::Pbs, &["mpirun"]), ["local", "mpirun"]);
        assert_eq!(names(Source::Hydra, &["ssh", "mpiexec"]), ["local", "mpiexec"]);
        assert_eq!(choose(&hosts()[..1], Source::Given, None, &|_| false).unwrap(), [Starter::Local]);
    }

    #[test]
    fn where_nothing_starts_a_server_that_is_said() {
        let error = choose(&hosts(), Source::Given, None, &|_| false).unwrap_err().to_string();
        assert!(error.contains("host `far`") && error.contains("ssh or mpirun or mpiexec in PATH"), "{error}");
        let error = choose(&hosts(), Source::Slurm, None, &|name| name == "ssh").unwrap_err().to_string();
        assert!(error.contains("host `far`") && error.contains("expected srun in PATH"), "{error}");
        let error = choose(&hosts(), Source::Given, Some(&Starter::Local), &|_| true).unwrap_err().to_string();
        assert!(error.contains("host `far` (10.9.9.9) is not this machine"), "{error}");
        for wrong in ["rsh", "", "local -x"] {
            assert!(Starter::parse(wrong).unwrap_err().to_string().contains("expected local, ssh, srun, mpirun"));
        }
    }

    #[test]
    fn a_starters_own_flags_stand_before_the_host() {
        let words = |text: &str| {
            let command = Starter::parse(text).unwrap().command("n1", Path::new("/a b/thalweg"), &["launch", "--part"]);
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert!(words("/x/ssh -p 2222").starts_with("/x/ssh -p 2222 -T -o BatchMode=yes"));
        assert!(words("ssh").ends_with("n1 '/a b/thalweg' launch --part"));
        assert!(words("srun --partition=x").ends_with("--nodelist=n1 /a b/thalweg launch --part"));
        assert_eq!(words("mpirun.mpich"), "mpirun.mpich -n 1 -host n1 /a b/thalweg launch --part");
        assert_eq!(words("local"), "/a b/thalweg launch --part");
    }
}

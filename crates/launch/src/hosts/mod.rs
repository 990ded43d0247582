//! The hosts of a job: given, or those of the allocation that it runs in.
//!
//! An allocation names its hosts in the environment: Slurm as a list with ranges, the others as a file with a line per host or per slot.
//! The first variable set counts, in the order of [`SOURCES`]: a scheduler is more reliable than an MPI that runs under it.

mod address;
mod file;
mod list;

pub use address::{Host, addressed};

use crate::error::{LaunchError, Result};
use std::path::Path;

/// The origin of the list of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Given by the user.
    Given,
    /// Slurm.
    Slurm,
    /// PBS Pro, OpenPBS, Torque.
    Pbs,
    /// Open MPI.
    OpenMpi,
    /// MPICH and its derivatives, whose starter is Hydra.
    Hydra,
}

/// Variables that hold hosts, or the path of a file of hosts.
const SOURCES: &[(&str, Source)] = &[
    ("SLURM_JOB_NODELIST", Source::Slurm),
    ("SLURM_NODELIST", Source::Slurm),
    ("PBS_NODEFILE", Source::Pbs),
    ("OMPI_MCA_orte_default_hostfile", Source::OpenMpi),
    ("PRTE_MCA_prte_default_hostfile", Source::OpenMpi),
    ("HYDRA_HOST_FILE", Source::Hydra),
];

/// Variables with the number of processes that a starter started together.
const COPIES: &[(&str, &str)] = &[("OMPI_COMM_WORLD_SIZE", "mpirun"), ("PMI_SIZE", "mpirun"), ("SLURM_STEP_NUM_TASKS", "srun")];

/// A function that reads an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Expands the hosts of `--hosts`: names separated by commas, with ranges as Slurm writes them. A host that is given twice gets two
/// servers.
///
/// # Errors
/// [`LaunchError::Usage`] with the position.
pub fn given(text: &str) -> Result<Vec<String>> {
    list::expand(text).map_err(|problem| LaunchError::usage(format!("--hosts `{text}`: {problem}")))
}

/// Returns the hosts of the allocation that this environment belongs to, each once.
///
/// # Errors
/// [`LaunchError::Usage`]: there is no allocation, or its hosts cannot be read.
pub fn of_allocation(environment: Environment<'_>) -> Result<(Vec<String>, Source)> {
    let value = |variable: &str| environment(variable).filter(|value| !value.is_empty());
    let found = SOURCES.iter().find_map(|(variable, source)| Some((*variable, *source, value(variable)?)));
    let Some((variable, source, value)) = found else { return Err(none(environment)) };
    let hosts = if source == Source::Slurm {
        list::expand(&value).map_err(|problem| LaunchError::usage(format!("{variable} `{value}`: {problem}; or give --hosts")))?
    } else {
        let wrong = |problem: String| LaunchError::usage(format!("{variable}: {value}: {problem}; or give --hosts"));
        let text = std::fs::read_to_string(Path::new(&value)).map_err(|e| wrong(e.to_string()))?;
        file::hosts(&text).map_err(wrong)?
    };
    let mut once: Vec<String> = Vec::new();
    for host in hosts {
        if !once.contains(&host) {
            once.push(host);
        }
    }
    Ok((once, source))
}

/// Returns the scheduler or MPI of this environment, which determines how servers are started on given hosts.
pub fn source(environment: Environment<'_>) -> Source {
    let is_set = |variable: &&(&str, Source)| environment(variable.0).is_some_and(|value| !value.is_empty());
    SOURCES.iter().find(is_set).map_or(Source::Given, |(_, source)| *source)
}

/// Refuses to run as one process of several, each of which would start its own store.
///
/// # Errors
/// [`LaunchError::Usage`] if this is one process of several.
pub fn started_once(environment: Environment<'_>) -> Result<()> {
    let copies = COPIES.iter().find_map(|(variable, by)| Some((environment(variable)?.parse::<u32>().ok().filter(|n| *n > 1)?, *by)));
    match copies {
        None => Ok(()),
        Some((copies, by)) => Err(LaunchError::usage(format!(
            "this is one of {copies} processes that {by} started, and each would start a store of its own: expected to be started once; write \
             `thalweg launch -- {by} PROGRAM`, not `{by} thalweg launch -- PROGRAM`"
        ))),
    }
}

fn none(environment: Environment<'_>) -> LaunchError {
    let names: Vec<&str> = SOURCES.iter().map(|(variable, _)| *variable).collect();
    let of_mpi = environment("OMPI_MCA_orte_num_nodes").and_then(|n| n.parse::<u32>().ok()).filter(|n| *n > 0);
    let seen = match of_mpi {
        Some(nodes) => {
            format!("this is a job of Open MPI on {nodes} hosts, which publishes their names only with --default-hostfile")
        }
        None => format!("there is no allocation: none of {} is set", names.join(", ")),
    };
    LaunchError::usage(format!("no --hosts, and {seen}; give --hosts a,b,c, or --hosts localhost for this machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<(Vec<String>, Source)> {
        of_allocation(&|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
    }

    fn file(text: &str) -> (tempfile::TempDir, String) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (directory, path)
    }

    #[test]
    fn each_allocation_says_its_hosts_in_its_own_way() {
        assert_eq!(found(&[("SLURM_JOB_NODELIST", "n[01-02]")]).unwrap(), (vec!["n01".into(), "n02".into()], Source::Slurm));
        let of = |text: &str, variable: &str| {
            let (_directory, path) = file(text);
            found(&[(variable, &path)]).unwrap()
        };
        let pbs = of("n1\nn1\nn2\nn2\nn1\n", "PBS_NODEFILE");
        assert_eq!(pbs, (vec!["n1".into(), "n2".into()], Source::Pbs), "a line for each slot is one host");
        let open = of("# the cluster\nn1 slots=4 max_slots=8\n\nn2\tslots = 2 # slow\n", "OMPI_MCA_orte_default_hostfile");
        assert_eq!(open, (vec!["n1".into(), "n2".into()], Source::OpenMpi));
        let five = of("n1 slots=4\n", "PRTE_MCA_prte_default_hostfile");
        assert_eq!(five, (vec!["n1".into()], Source::OpenMpi));
        let hydra = of("n1:2 # two\nn2:1 binding=socket\n10.0.0.3\n", "HYDRA_HOST_FILE");
        assert_eq!(hydra, (vec!["n1".into(), "n2".into(), "10.0.0.3".into()], Source::Hydra));
    }

    #[test]
    fn a_scheduler_comes_before_an_mpi_that_runs_under_it() {
        let (_directory, path) = file("other\n");
        assert_eq!(found(&[("HYDRA_HOST_FILE", &path), ("SLURM_JOB_NODELIST", "n1")]).unwrap().1, Source::Slurm);
        assert_eq!(found(&[("SLURM_JOB_NODELIST", ""), ("PBS_NODEFILE", &path)]).unwrap().1, Source::Pbs);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_what_to_do() {
        let says = |variables: &[(&str, &str)], parts: &[&str]| {
            let error = found(variables).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        says(&[], &["no --hosts", "SLURM_JOB_NODELIST", "PBS_NODEFILE", "give --hosts a,b,c"]);
        says(&[("OMPI_MCA_orte_num_nodes", "3")], &["Open MPI on 3 hosts", "--default-hostfile"]);
        says(&[("SLURM_JOB_NODELIST", "n[01-")], &["SLURM_JOB_NODELIST `n[01-`", "`]`", "give --hosts"]);
        says(&[("PBS_NODEFILE", "/nowhere/hosts")], &["PBS_NODEFILE: /nowhere/hosts", "No such file", "give --hosts"]);
        let (_directory, path) = file("n1\nn 2\n");
        says(&[("PBS_NODEFILE", &path)], &["line 2 `n 2`", "expected a host"]);
        let (_directory, path) = file("# nobody\n");
        says(&[("HYDRA_HOST_FILE", &path)], &["no host in it"]);
    }

    #[test]
    fn one_of_many_copies_is_refused() {
        let of = |variable: &'static str, value: &'static str| started_once(&move |name| (name == variable).then(|| value.to_owned()));
        assert!(of("OMPI_COMM_WORLD_SIZE", "1").is_ok());
        assert!(of("OMPI_COMM_WORLD_SIZE", "4").unwrap_err().to_string().contains("one of 4 processes that mpirun started"));
        assert!(of("SLURM_STEP_NUM_TASKS", "2").unwrap_err().to_string().contains("srun PROGRAM"));
    }
}

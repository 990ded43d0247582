//! The profiles of the hosts, where the recording has samples of processors.

use crate::Result;
use thalweg_explain::ExplainError;
use thalweg_explain::profile::{Profile, Rules, profile};
use thalweg_trace::Source;

/// Returns a document for each host with samples, as `thalweg profile --json` prints for a recording of that host alone.
pub(super) fn of_hosts(source: &dyn Source) -> Result<Vec<Profile>> {
    let whole = match profile(source, &Rules::default()) {
        Ok(whole) => whole,
        Err(ExplainError::Nothing(_)) => return Ok(Vec::new()),
        Err(ExplainError::Source(error)) => return Err(error.into()),
    };
    let hosts = whole.hosts.iter().filter(|host| host.samples > 0);
    Ok(hosts.map(|host| Profile { hosts: vec![host.clone()], ..whole.clone() }).collect())
}

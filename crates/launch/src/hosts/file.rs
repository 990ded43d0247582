//! Host files of MPI implementations and PBS: one host per line, followed by settings, which are ignored.
//!
//! Open MPI writes `n1 slots=4`, Hydra `n1:4 binding=socket`, PBS the host once per slot. All use `#` for comments.

use super::list::is_host;

/// Parses the hosts, in order, with repetitions.
pub(super) fn hosts(text: &str) -> Result<Vec<String>, String> {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let said = line.split('#').next().unwrap_or_default().trim();
        if !said.is_empty() {
            hosts.push(host(said).ok_or_else(|| format!("line {number} `{said}`: expected a host, then nothing or NAME=VALUE"))?);
        }
    }
    if hosts.is_empty() { Err("no host in it: expected one on each line".to_owned()) } else { Ok(hosts) }
}

fn host(line: &str) -> Option<String> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    // Treats `slots = 4` as `slots=4`.
    let settings = rest.split('=').map(str::trim).collect::<Vec<_>>().join("=");
    if !settings.split_whitespace().all(|word| word.contains('=')) {
        return None;
    }
    let is_count = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let name = match name.rsplit_once(':') {
        Some((name, count)) if is_count(count) && !name.contains(':') => name,
        _ => name,
    };
    is_host(name).then(|| name.to_owned())
}

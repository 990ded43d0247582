//! Addresses of hosts: the one address at which all others reach a host's servers.

use crate::error::{LaunchError, Result};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

/// A host of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name, as given.
    pub name: String,
    /// The address its servers listen on.
    pub address: IpAddr,
    /// The address belongs to this machine.
    pub is_here: bool,
}

/// Resolves these hosts. This machine's name may resolve to loopback (`127.0.1.1` on Debian), which other hosts cannot reach; if there are
/// others, this machine gets the address from which it reaches them.
///
/// # Errors
/// A host cannot be resolved.
pub fn addressed(names: &[String]) -> Result<Vec<Host>> {
    let mut hosts = Vec::new();
    for name in names {
        hosts.push((name, resolved(name)?));
    }
    let other = hosts.iter().map(|(_, address)| *address).find(|address| !address.is_loopback());
    let seen_by_others = other.and_then(source_towards);
    let host = |(name, address): (&String, IpAddr)| {
        let address = match seen_by_others {
            Some(outer) if address.is_loopback() => outer,
            _ => address,
        };
        Host { name: name.clone(), address, is_here: UdpSocket::bind((address, 0)).is_ok() }
    };
    Ok(hosts.into_iter().map(host).collect())
}

fn resolved(name: &str) -> Result<IpAddr> {
    let unknown = |problem: &dyn std::fmt::Display| {
        LaunchError::failed(format!(
            "host `{name}` is not known here ({problem}): expected a name that this machine resolves, or an address; check the spelling"
        ))
    };
    let found: Vec<IpAddr> = (name, 0).to_socket_addrs().map_err(|e| unknown(&e))?.map(|address| address.ip()).collect();
    // Loopback last, and IPv4 first, as clusters use it.
    found.into_iter().min_by_key(|ip| (ip.is_loopback(), ip.is_ipv6())).ok_or_else(|| unknown(&"it has no address"))
}

/// Returns the source address that this machine uses towards another. Sends nothing.
fn source_towards(other: IpAddr) -> Option<IpAddr> {
    let any: SocketAddr = if other.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect((other, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_on_loopback_stay_there_and_unknown_ones_are_named() {
        let hosts = addressed(&["localhost".into(), "127.0.0.2".into()]).unwrap();
        assert!(hosts.iter().all(|host| host.is_here && host.address.is_loopback() && host.address.is_ipv4()), "{hosts:?}");
        let error = addressed(&["no-such-host.invalid".into()]).unwrap_err().to_string();
        assert!(error.contains("host `no-such-host.invalid` is not known here") && error.contains("check the spelling"), "{error}");
    }
}

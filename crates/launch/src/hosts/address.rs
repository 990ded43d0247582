//! Where hosts are: the one address at which everybody reaches a host's servers.

use crate::error::{LaunchError, Result};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

/// A host of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// As it was named.
    pub name: String,
    /// Where its servers listen.
    pub address: IpAddr,
    /// The address is one of this machine's.
    pub is_here: bool,
}

/// The addresses of these hosts. The name of this machine may lead to loopback (`127.0.1.1` on Debian), which is nothing to the others: where
/// there are others, it is the address from which this machine reaches them.
///
/// # Errors
/// A host that is not known.
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
    // Loopback last, and IPv4 first: it is what clusters have.
    found.into_iter().min_by_key(|ip| (ip.is_loopback(), ip.is_ipv6())).ok_or_else(|| unknown(&"it has no address"))
}

/// This machine's address on the way to another. Nothing is sent.
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

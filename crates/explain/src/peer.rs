//! The registered service of a server's port, and a server's address with the service's name.
//!
//! A port says what is usual there, not what was spoken. So the number is always printed, with the name behind it, and only for ports with
//! one usual service: 8080 or 9000 may be anything.

/// Well-known ports of servers and their services.
const PORTS: [(u16, &str); 41] = [
    (21, "FTP"),
    (22, "SSH"),
    (25, "SMTP"),
    (53, "DNS"),
    (80, "HTTP"),
    (88, "Kerberos"),
    (111, "portmap"),
    (139, "SMB"),
    (143, "IMAP"),
    (389, "LDAP"),
    (443, "TLS"),
    (445, "SMB"),
    (548, "AFP"),
    (587, "SMTP"),
    (636, "LDAP"),
    (873, "rsync"),
    (988, "Lustre"),
    (993, "IMAP"),
    (1094, "XRootD"),
    (1433, "SQL Server"),
    (2049, "NFS"),
    (2379, "etcd"),
    (2811, "GridFTP"),
    (3260, "iSCSI"),
    (3300, "Ceph"),
    (3306, "MySQL"),
    (3334, "PVFS2"),
    (4420, "NVMe/TCP"),
    (5201, "iperf3"),
    (5432, "PostgreSQL"),
    (5672, "AMQP"),
    (6379, "Redis"),
    (6789, "Ceph"),
    (8080, "HTTP"),
    (8443, "TLS"),
    (9000, "HTTP"),
    (9092, "Kafka"),
    (10809, "NBD"),
    (11211, "memcached"),
    (24007, "GlusterFS"),
    (27017, "MongoDB"),
];

/// Whether a port has no usual service: people use it for servers of their own.
fn has_no_usual_service(port: u16) -> bool {
    matches!(port, 3334 | 8080 | 8443 | 9000)
}

/// The usual service at a port.
pub(crate) fn usual_at(port: u16) -> Option<&'static str> {
    PORTS.iter().find(|(known, _)| *known == port).map(|(_, name)| *name)
}

/// The port of an address.
pub(crate) fn port_of(address: &str) -> Option<u16> {
    address.rsplit_once(':')?.1.parse().ok()
}

/// A server's address, with the service its port is registered for: `10.0.0.2:873 (rsync)`.
pub(crate) fn peer(address: &str) -> String {
    let name = port_of(address).filter(|port| !has_no_usual_service(*port)).and_then(usual_at);
    name.map_or_else(|| address.to_owned(), |name| format!("{address} ({name})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_its_name_behind_it_where_that_means_one_thing() {
        assert_eq!(peer("10.0.0.2:873"), "10.0.0.2:873 (rsync)");
        assert_eq!(peer("[::1]:5432"), "[::1]:5432 (PostgreSQL)");
        assert_eq!(peer("127.0.0.1:8080"), "127.0.0.1:8080");
        assert_eq!(peer("127.0.0.1:51721"), "127.0.0.1:51721");
        assert_eq!(peer("the far end"), "the far end");
    }
}

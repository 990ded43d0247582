//! What a connection carries: what its recorder saw in its first bytes, else what its server's port is registered for.

use thalweg_trace::Object;

/// Ports that servers have, and what is spoken there.
const PORTS: [(u16, &str); 31] = [
    (21, "FTP"),
    (22, "SSH"),
    (25, "SMTP"),
    (53, "DNS"),
    (80, "HTTP"),
    (88, "Kerberos"),
    (111, "portmap"),
    (139, "SMB"),
    (389, "LDAP"),
    (443, "TLS"),
    (445, "SMB"),
    (548, "AFP"),
    (873, "rsync"),
    (988, "Lustre"),
    (1094, "XRootD"),
    (2049, "NFS"),
    (2811, "GridFTP"),
    (3260, "iSCSI"),
    (3300, "Ceph"),
    (3306, "MySQL"),
    (3334, "PVFS2"),
    (4420, "NVMe/TCP"),
    (5201, "iperf3"),
    (5432, "PostgreSQL"),
    (6379, "Redis"),
    (6789, "Ceph"),
    (8080, "HTTP"),
    (8443, "TLS"),
    (9000, "HTTP"),
    (10809, "NBD"),
    (24007, "GlusterFS"),
];

/// A connection's protocol, and whether its first bytes say so; of a port alone it is what is usual there.
pub(super) fn protocol(object: &Object) -> Option<(String, bool)> {
    if let Some((_, seen)) = object.attributes.iter().find(|(name, _)| name == "application") {
        return Some((seen.clone(), true));
    }
    let port: u16 = object.name.rsplit_once(':')?.1.parse().ok()?;
    PORTS.iter().find(|(known, _)| *known == port).map(|(_, name)| ((*name).to_owned(), false))
}

//! Recognises a connection's protocol from the first bytes of either end. Protocols that cannot be recognised are
//! left open; the port may show it.

/// Returns the protocol that begins with these bytes.
pub(super) fn protocol(bytes: &[u8]) -> Option<&'static str> {
    const METHODS: [&[u8]; 9] = [b"GET ", b"PUT ", b"POST ", b"HEAD ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT ", b"PROPFIND "];
    match bytes {
        _ if METHODS.iter().any(|method| bytes.starts_with(method)) => Some("HTTP"),
        [b'H', b'T', b'T', b'P', b'/', ..] | [b'P', b'R', b'I', b' ', b'*', b' ', b'H', b'T', b'T', b'P', ..] => Some("HTTP"),
        [b'S', b'S', b'H', b'-', ..] => Some("SSH"),
        [b'c', b'e', b'p', b'h', b' ', b'v', ..] => Some("Ceph"),
        // A TLS 1.0 to 1.3 handshake record with a hello.
        [0x16, 3, 0..=4, _, _, 1 | 2, ..] => Some("TLS"),
        // After NetBIOS's length.
        [0, _, _, _, 0xfe | 0xff, b'S', b'M', b'B', ..] => Some("SMB"),
        // A login request: immediate, version 0, and a multiple of 4 bytes of text after a head of 48.
        [0x43, 0x00..=0x87, 0, 0, 0, ..] if bytes.len() >= 48 && bytes[48..].starts_with(b"InitiatorName=") => Some("iSCSI"),
        // An NVMe/TCP connection request: a head of exactly 128 bytes.
        [0, 0, 128, 0, 128, 0, 0, 0, ..] => Some("NVMe/TCP"),
        [b'r', b's', b'y', b'n', b'c', b'd', b':', ..] | [b'@', b'R', b'S', b'Y', b'N', b'C', b'D', ..] => Some("rsync"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_name_their_protocol_and_others_none() {
        let cases: [(&[u8], Option<&str>); 8] = [
            (b"GET / HTTP/1.1\r\n", Some("HTTP")),
            (b"SSH-2.0-OpenSSH_9.2\r\n", Some("SSH")),
            (&[0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3], Some("TLS")),
            (&[0, 0, 0, 108, 0xfe, b'S', b'M', b'B', 64, 0], Some("SMB")),
            (b"ceph v2\n", Some("Ceph")),
            (b"@RSYNCD: 31.0\n", Some("rsync")),
            (b"GETTING", None),
            (b"", None),
        ];
        for (bytes, name) in cases {
            assert_eq!(protocol(bytes), name, "{bytes:?}");
        }
        let login = [&[0x43, 0x87, 0, 0, 0][..], &[0; 43], b"InitiatorName=iqn.1993-08.org.debian:01:a"].concat();
        assert_eq!(protocol(&login), Some("iSCSI"));
    }
}

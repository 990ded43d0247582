//! How the two ends move the bytes, and where each reads them to make its checksum.

use std::fmt;
use std::str::FromStr;

/// How the sender gets a unit from the file into the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Send {
    /// `sendfile`: the pages themselves.
    Sendfile,
    /// `pread` of a small part into a buffer that stays in the CPU's cache, then `send`.
    Read,
    /// `send` from a mapping of the unit.
    Mmap,
}

/// How the receiver gets a unit from the socket into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receive {
    /// `splice` through a pipe.
    Splice,
    /// `recv` of a small part into a buffer that stays in the CPU's cache, then `pwrite`.
    Write,
    /// `recv` into a mapping of the file.
    Mmap,
}

/// Where an end that never holds the bytes itself reads them to checksum them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Through a populated mapping of the unit.
    Mmap,
    /// Through `pread` into a small buffer.
    Read,
}

/// One way to stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// The sending end.
    pub send: Send,
    /// The receiving end.
    pub receive: Receive,
    /// Checksums at both ends, and how an end that does not hold the bytes looks at them.
    pub checksum: Option<Look>,
}

impl Variant {
    /// Every variant; those whose ends both hold the bytes need no second way to look at them.
    pub fn all() -> Vec<Variant> {
        let mut all = Vec::new();
        for checksum in [None, Some(Look::Mmap), Some(Look::Read)] {
            for send in [Send::Sendfile, Send::Read, Send::Mmap] {
                for receive in [Receive::Splice, Receive::Write, Receive::Mmap] {
                    let looks = send == Send::Sendfile || receive == Receive::Splice;
                    if looks || checksum != Some(Look::Read) {
                        all.push(Variant { send, receive, checksum });
                    }
                }
            }
        }
        all
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let send = match self.send {
            Send::Sendfile => "sendfile",
            Send::Read => "read",
            Send::Mmap => "mmap",
        };
        let receive = match self.receive {
            Receive::Splice => "splice",
            Receive::Write => "write",
            Receive::Mmap => "mmap",
        };
        let looks = self.send == Send::Sendfile || self.receive == Receive::Splice;
        let checksum = match self.checksum {
            None => "",
            Some(_) if !looks => "-crc",
            Some(Look::Mmap) => "-crc-by-mmap",
            Some(Look::Read) => "-crc-by-read",
        };
        write!(f, "{send}-{receive}{checksum}")
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(name: &str) -> Result<Variant, String> {
        let known = Variant::all();
        known.iter().find(|variant| variant.to_string() == name).copied().ok_or_else(|| {
            let names: Vec<String> = known.iter().map(Variant::to_string).collect();
            format!("unknown variant: expected one of {}", names.join(", "))
        })
    }
}

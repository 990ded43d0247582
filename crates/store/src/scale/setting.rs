//! The parameters of a simulation, and its CPU costs.

use thalweg_wire::limits;
use thalweg_wire::{Error, ErrorKind, Result};

/// What all clients do simultaneously.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storm {
    /// Connect, and fetch the store map.
    Connect,
    /// List one directory with sizes that the metadata service proves.
    List,
    /// List it with sizes that only the I/O servers know.
    Glimpse,
    /// Open the same file, and fetch its size.
    Open,
    /// Create a file each in one directory, and close it.
    Create,
    /// Open a file that is on every server, and fetch its size.
    Each,
}

impl Storm {
    pub(super) const ALL: [(&'static str, Storm); 6] = [
        ("connect", Storm::Connect),
        ("list", Storm::List),
        ("glimpse", Storm::Glimpse),
        ("open", Storm::Open),
        ("create", Storm::Create),
        ("each", Storm::Each),
    ];
}

/// Parameters of a simulation, each named in a line of settings: `clients=10000 servers=1000 …`.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident = $default:expr,)*) => {
        #[derive(Clone, Debug)]
        pub(super) struct Setting {
            pub(super) storm: Storm,
            $($(#[$doc])* pub(super) $name: u64,)*
        }

        impl Setting {
            pub(super) fn of(storm: Storm) -> Setting {
                Setting { storm, $($name: $default,)* }
            }

            fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

numbers! {
    clients = 16,
    servers = 4,
    /// Files in the directory.
    files = 100,
    /// Datafiles of each file in it, and of the file that all open.
    datafiles = 4,
    /// Maximum connections of a server.
    connections = limits::CONNECTIONS as u64,
    /// Descriptor limit of a server's process.
    descriptors = 1 << 20,
    /// Maximum connections waiting to be accepted: `net.core.somaxconn` by default.
    backlog = 4096,
    /// 1: all hosts are one machine, whose `processors` are shared by both ends.
    one_machine = 0,
    /// CPUs of the metadata service's machine, and of each I/O server's.
    processors = 2,
    /// One-way latency.
    latency_ns = 50_000,
    /// Rate of each host's link in each direction.
    link_bits_per_s = 10_000_000_000,
    /// Accepting a connection and starting its thread; serialised.
    accept_ns = 40_000,
    /// Verifying credentials and the greeting, at the server.
    greet_ns = 60_000,
    /// A message of any kind to the metadata service, and its answer.
    metadata_ns = 15_000,
    /// Each entry of a page.
    entry_ns = 700,
    /// Each server in the store map.
    map_server_ns = 200,
    /// Opening a file, in addition to the message.
    open_ns = 5_000,
    /// Creating and closing a file, in addition to the messages; serialised.
    create_ns = 15_000,
    /// A message to an I/O server, and its answer.
    io_ns = 12_000,
    /// Each datafile in such a message.
    glimpse_ns = 500,
    /// Connecting, at the client.
    client_connect_ns = 80_000,
    /// A message and its answer, at the client.
    client_message_ns = 12_000,
    /// Each entry or size in an answer, at the client.
    client_entry_ns = 700,
}

impl Setting {
    /// Parses `storm=NAME` and parameters as NAME=NUMBER.
    pub(super) fn read(line: &str) -> Result<Setting> {
        let invalid = |word: &str| Error::new(ErrorKind::Invalid, format!("`{word}`: expected storm=NAME, or NAME=NUMBER of a setting"));
        let words: Vec<(&str, &str)> =
            line.split_ascii_whitespace().map(|word| word.split_once('=').ok_or_else(|| invalid(word))).collect::<Result<_>>()?;
        let named = words.iter().find(|(name, _)| *name == "storm").map_or("", |(_, storm)| *storm);
        let storm = Storm::ALL.iter().find(|(name, _)| *name == named).ok_or_else(|| invalid(named))?.1;
        let mut setting = Setting::of(storm);
        for (name, value) in words.iter().filter(|(name, _)| *name != "storm") {
            let known = value.parse().is_ok_and(|value| setting.set(name, value));
            if !known {
                return Err(invalid(name));
            }
        }
        Ok(setting)
    }
}

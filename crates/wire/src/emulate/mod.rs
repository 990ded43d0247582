//! Emulated devices: a store whose disks and links have given rates and latencies (`thalweg up --emulate`), to try a layout or a
//! copy on hardware before buying it, and to reproduce a copy's behaviour on any machine.
//!
//! A device is a queue in virtual time ([`pacer`]): each request starts when it was issued or when the previous one ended,
//! whichever is later, and occupies the device for its bytes at the device's rate. The calling thread sleeps until that end, an
//! absolute time, so that a late wake-up delays no other request. The real work (page cache, loopback) overlaps with the sleep:
//! devices slower than the machine are exact, faster ones cannot be emulated.
//!
//! - A target is a device ([`disk`]): the reads and writes of all clients share one queue, and a write is answered when the
//!   device has completed it (no write-back cache).
//! - A server has a link with one queue per direction ([`link`]), shared by all its connections; a message arrives half a round
//!   trip after its last byte was sent. The link of a client that talks to several servers is not emulated.
//!
//! Waits are recorded like those of real devices: `disk.read` and `disk.write` on a device's track, `net.*` spans that end when
//! the bytes have arrived, and bytes on the wire in TCP's counters. Every such object has the attribute `emulated`.

mod disk;
mod link;
mod pacer;

pub use self::disk::{Disk, DiskRequest};
pub(crate) use self::link::{Line, Link, round_trip};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use thalweg_base::numbers;

/// The devices a store emulates. `None`: the machine's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emulation {
    /// Rate of each target's disk, bytes per second.
    pub disk_bytes_per_s: Option<u64>,
    /// One target with a rate of its own.
    pub odd_disk: Option<OddDisk>,
    /// Seek time, ns, for each request that does not start where the target's previous one ended.
    pub seek_ns: u64,
    /// Rate of each server's link, bytes per second in each direction.
    pub link_bytes_per_s: Option<u64>,
    /// Round-trip time to each server, ns.
    pub rtt_ns: u64,
}

/// A target whose disk differs from the others: one slow disk among fast ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OddDisk {
    /// The target's number in the store.
    pub target: u32,
    /// Bytes per second.
    pub bytes_per_s: u64,
}

/// The syntax of `--emulate`, for error messages.
const EXPECTED: &str =
    "expected disk=RATE, disk.TARGET=RATE, seek=TIME, link=RATE and rtt=TIME, or some of them, like disk=200MiB/s,link=2Gb/s,rtt=0.2ms";

impl Emulation {
    /// Reads `disk=RATE,disk.TARGET=RATE,seek=TIME,link=RATE,rtt=TIME`, each at most once.
    ///
    /// # Errors
    /// The part that is wrong, and the expected syntax.
    pub fn parse(text: &str) -> Result<Emulation, String> {
        let mut emulation = Emulation::default();
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("`{part}`: {EXPECTED}"))?;
            if seen.contains(&name) {
                return Err(format!("`{name}` is given twice: {EXPECTED}"));
            }
            match name {
                "disk" => emulation.disk_bytes_per_s = Some(rate(name, value)?),
                "link" => emulation.link_bytes_per_s = Some(rate(name, value)?),
                "seek" => emulation.seek_ns = time(name, value)?,
                "rtt" => emulation.rtt_ns = time(name, value)?,
                _ => match name.strip_prefix("disk.") {
                    Some(target) => emulation.set_odd_disk(target, rate(name, value)?)?,
                    None => return Err(format!("`{name}`: {EXPECTED}")),
                },
            }
            seen.push(name);
        }
        if emulation.seek_ns > 0 && emulation.disk_bytes_per_s.is_none() {
            return Err("`seek` needs an emulated disk: give disk=RATE too".to_owned());
        }
        if let Some(odd) = emulation.odd_disk.filter(|_| emulation.disk_bytes_per_s.is_none()) {
            return Err(format!("`disk.{}` needs the rate of the other targets: give disk=RATE too", odd.target));
        }
        Ok(emulation)
    }

    /// Sets the rate of the one odd target.
    fn set_odd_disk(&mut self, target: &str, bytes_per_s: u64) -> Result<(), String> {
        let expected = || format!("`disk.{target}`: expected the number of a target after `disk.`, like disk.3=50MiB/s");
        let number = target.parse().map_err(|_| expected())?;
        if let Some(odd) = self.odd_disk {
            return Err(format!("`disk.{target}`: only one target can have a rate of its own, and target {} has one", odd.target));
        }
        self.odd_disk = Some(OddDisk { target: number, bytes_per_s });
        Ok(())
    }

    /// Returns one target's disk as bytes per second and a description; `None`: the machine's own.
    pub fn disk_of(&self, target: u32) -> Option<(u64, String)> {
        let odd = self.odd_disk.filter(|odd| odd.target == target).map(|odd| odd.bytes_per_s);
        let rate = odd.or(self.disk_bytes_per_s)?;
        Some((rate, format!("disk {}{}", numbers::byte_rate(rate as f64), self.seek())))
    }

    /// Describes the disks of all targets; `None`: the machine's own.
    fn disks(&self) -> Option<String> {
        let rate = numbers::byte_rate(self.disk_bytes_per_s? as f64);
        let odd = self.odd_disk.map(|odd| format!(" (disk {}: {})", odd.target, numbers::byte_rate(odd.bytes_per_s as f64)));
        Some(format!("disk {rate}{}{}", odd.unwrap_or_default(), self.seek()))
    }

    fn seek(&self) -> String {
        if self.seek_ns > 0 { format!(", seek {}", numbers::duration(seconds(self.seek_ns))) } else { String::new() }
    }

    /// Describes each server's link; `None`: the machine's own.
    pub fn link(&self) -> Option<String> {
        let rate = self.link_bytes_per_s.map(|rate| format!("link {}", numbers::bit_rate(rate as f64)));
        let rtt = (self.rtt_ns > 0).then(|| format!("round trip {}", numbers::duration(seconds(self.rtt_ns))));
        let parts: Vec<String> = rate.into_iter().chain(rtt).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// `disk 200 MiB/s, link 2 Gb/s, round trip 200 µs`.
impl fmt::Display for Emulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.disks().into_iter().chain(self.link()).collect();
        f.write_str(&parts.join(", "))
    }
}

/// Parses `source=RATE` (`thalweg cp --emulate`) into bytes per second.
///
/// # Errors
/// The expected syntax.
pub fn parse_source(text: &str) -> Result<u64, String> {
    match text.split_once('=') {
        Some(("source", value)) => rate("source", value),
        _ => Err("expected source=RATE, like source=500MiB/s: the store's own devices are emulated by `thalweg up --emulate`".to_owned()),
    }
}

fn rate(name: &str, value: &str) -> Result<u64, String> {
    let rate = numbers::parse_rate(value).map_err(|problem| format!("{name}: `{value}`: {problem}"))?;
    // At least 1 byte/s: a rate rounded to 0 would never finish.
    Ok((rate.round() as u64).max(1))
}

fn time(name: &str, value: &str) -> Result<u64, String> {
    const MOST: Duration = Duration::from_secs(10);
    let time = numbers::parse_duration(value).map_err(|problem| format!("{name}: `{value}`: {problem}"))?;
    if time > MOST {
        return Err(format!("{name}: `{value}`: exceeds {} s", MOST.as_secs()));
    }
    Ok(time.as_nanos() as u64)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_optional_and_written_as_it_is_read() {
        let all = Emulation::parse("disk=200MiB/s,seek=4ms,link=2Gb/s,rtt=0.2ms").unwrap();
        assert_eq!(
            all,
            Emulation {
                disk_bytes_per_s: Some(200 << 20),
                odd_disk: None,
                seek_ns: 4_000_000,
                link_bytes_per_s: Some(250_000_000),
                rtt_ns: 200_000
            }
        );
        assert_eq!(all.to_string(), "disk 200 MiB/s, seek 4.00 ms, link 2 Gb/s, round trip 200 µs");
        assert_eq!(Emulation::parse("rtt=30ms").unwrap().to_string(), "round trip 30.0 ms");
        assert_eq!(Emulation::parse("disk=1Gi").unwrap().link(), None);
        let odd = Emulation::parse("disk=200MiB/s,disk.3=50MiB/s,seek=4ms").unwrap();
        assert_eq!(odd.to_string(), "disk 200 MiB/s (disk 3: 50 MiB/s), seek 4.00 ms");
        assert_eq!(odd.disk_of(3), Some((50 << 20, "disk 50 MiB/s, seek 4.00 ms".to_owned())));
        assert_eq!(odd.disk_of(2), Some((200 << 20, "disk 200 MiB/s, seek 4.00 ms".to_owned())));
        assert_eq!(parse_source("source=512MiB/s"), Ok(512 << 20));
    }

    #[test]
    fn bad_input_is_named() {
        for (text, named) in [
            ("", "expected disk=RATE"),
            ("disk", "`disk`: expected disk=RATE"),
            ("disc=200Mi", "`disc`: expected disk=RATE"),
            ("disk=200MB/s", "disk: `200MB/s`: expected a rate"),
            ("disk=0", "disk: `0`: expected a rate"),
            ("link=-1Gb/s", "link: `-1Gb/s`: expected a rate"),
            ("rtt=fast", "rtt: `fast`: expected a time"),
            ("rtt=1h", "rtt: `1h`: exceeds 10 s"),
            ("disk=1Gi,disk=2Gi", "`disk` is given twice"),
            ("seek=1ms", "give disk=RATE too"),
            ("disk=1Gi,", "``: expected disk=RATE"),
            ("disk.1=1Mi", "`disk.1` needs the rate of the other targets: give disk=RATE"),
            ("disk=1Gi,disk.one=1Mi", "`disk.one`: expected the number of a target after `disk.`, like disk.3=50MiB/s"),
            ("disk=1Gi,disk.1=fast", "disk.1: `fast`: expected a rate"),
            ("disk=1Gi,disk.1=1Mi,disk.2=1Mi", "`disk.2`: only one target can have a rate of its own, and target 1 has one"),
        ] {
            let problem = Emulation::parse(text).unwrap_err();
            assert!(problem.contains(named), "{text}: {problem}");
        }
        assert!(parse_source("disk=1Gi").unwrap_err().contains("expected source=RATE"));
        assert!(parse_source("source=x").unwrap_err().contains("source: `x`: expected a rate"));
    }
}

//! Devices that are not there: a store whose disks and links have given rates and latencies (`thalweg up --emulate`), to see what a layout or a
//! copy would do on them before they are bought, and to show a copy's story on any machine.
//!
//! A device is a queue in virtual time ([`pacer`]): each request begins when it was asked for or when the one before it ended, whichever
//! is later, and takes its bytes at the device's rate. The thread that asked sleeps until that end, by the clock and not for a time, so that waking up
//! late delays nobody else. What really happens meanwhile (the page cache, the loopback) is hidden in that time as long as it is shorter: a
//! device that is slower than the machine is exact, a faster one cannot be emulated.
//!
//! - A target is a device ([`disk`]): reads and writes of all clients go through one queue, and a write is answered when the device has it
//!   (no write-back cache).
//! - A server has a link with a queue for each direction ([`link`]), which all its connections share; a message arrives half a round trip after its
//!   last byte has left. The link of a client that talks to several servers is not emulated.
//!
//! The waits are recorded as those of real devices are: `disk.read` and `disk.write` on a device's track, `net.*` that end when the bytes
//! have come, and what crossed the wire in TCP's counters. Every such object has the attribute `emulated`.

mod disk;
mod link;
mod pacer;

pub use self::disk::{Disk, Work};
pub(crate) use self::link::{Line, Link, round_trip};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use thalweg_base::numbers;

/// What devices a store pretends to have. `None`: the machine's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emulation {
    /// Bytes per second of each target.
    pub disk_bytes_per_s: Option<u64>,
    /// One target has another rate.
    pub odd_disk: Option<OddDisk>,
    /// What a target takes besides, for each request that does not begin where its last one ended, nanoseconds.
    pub seek_ns: u64,
    /// Bytes per second of each server's link, in each direction.
    pub link_bytes_per_s: Option<u64>,
    /// The round trip to each server, nanoseconds.
    pub rtt_ns: u64,
}

/// The target whose disk is not like the others': one slow disk among fast ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OddDisk {
    /// Its number in the store.
    pub target: u32,
    /// Bytes per second.
    pub bytes_per_s: u64,
}

/// What `--emulate` takes.
const EXPECTED: &str =
    "expected disk=RATE, disk.TARGET=RATE, seek=TIME, link=RATE and rtt=TIME, or some of them, like disk=200MiB/s,link=2Gb/s,rtt=0.2ms";

impl Emulation {
    /// Reads `disk=RATE,disk.TARGET=RATE,seek=TIME,link=RATE,rtt=TIME`, each at most once.
    ///
    /// # Errors
    /// Says which part is wrong, and what was expected.
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
            return Err("`seek` is of an emulated disk: give disk=RATE too".to_owned());
        }
        if let Some(odd) = emulation.odd_disk.filter(|_| emulation.disk_bytes_per_s.is_none()) {
            return Err(format!("`disk.{}` is unlike the other targets' disks: give disk=RATE, what those are, too", odd.target));
        }
        Ok(emulation)
    }

    /// Notes that this target's disk has a rate of its own.
    fn set_odd_disk(&mut self, target: &str, bytes_per_s: u64) -> Result<(), String> {
        let expected = || format!("`disk.{target}`: expected the number of a target after `disk.`, like disk.3=50MiB/s");
        let number = target.parse().map_err(|_| expected())?;
        if let Some(odd) = self.odd_disk {
            return Err(format!("`disk.{target}`: one target can have a disk unlike the others', and target {} has", odd.target));
        }
        self.odd_disk = Some(OddDisk { target: number, bytes_per_s });
        Ok(())
    }

    /// The disk of one target: bytes per second, and in words what it is like; `None`: the machine's own.
    pub fn disk_of(&self, target: u32) -> Option<(u64, String)> {
        let odd = self.odd_disk.filter(|odd| odd.target == target).map(|odd| odd.bytes_per_s);
        let rate = odd.or(self.disk_bytes_per_s)?;
        Some((rate, format!("disk {}{}", numbers::byte_rate(rate as f64), self.seek())))
    }

    /// The disks of all targets in words; `None`: the machine's own.
    fn disks(&self) -> Option<String> {
        let rate = numbers::byte_rate(self.disk_bytes_per_s? as f64);
        let odd = self.odd_disk.map(|odd| format!(" (disk {}: {})", odd.target, numbers::byte_rate(odd.bytes_per_s as f64)));
        Some(format!("disk {rate}{}{}", odd.unwrap_or_default(), self.seek()))
    }

    fn seek(&self) -> String {
        if self.seek_ns > 0 { format!(", seek {}", numbers::duration(seconds(self.seek_ns))) } else { String::new() }
    }

    /// The link of each server in words; `None`: the machine's own.
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

/// Reads `source=RATE`, what `thalweg cp --emulate` takes, as bytes per second.
///
/// # Errors
/// Says what was expected.
pub fn parse_source(text: &str) -> Result<u64, String> {
    match text.split_once('=') {
        Some(("source", value)) => rate("source", value),
        _ => Err("expected source=RATE, like source=500MiB/s: the store's own devices are emulated by `thalweg up --emulate`".to_owned()),
    }
}

fn rate(name: &str, value: &str) -> Result<u64, String> {
    let rate = numbers::parse_rate(value).map_err(|problem| format!("{name}: `{value}`: {problem}"))?;
    // (A byte a second at least: what is rounded to nothing would never end.)
    Ok((rate.round() as u64).max(1))
}

fn time(name: &str, value: &str) -> Result<u64, String> {
    const MOST: Duration = Duration::from_secs(10);
    let time = numbers::parse_duration(value).map_err(|problem| format!("{name}: `{value}`: {problem}"))?;
    if time > MOST {
        return Err(format!("{name}: `{value}`: is above {} s", MOST.as_secs()));
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
            ("rtt=1h", "rtt: `1h`: is above 10 s"),
            ("disk=1Gi,disk=2Gi", "`disk` is given twice"),
            ("seek=1ms", "give disk=RATE too"),
            ("disk=1Gi,", "``: expected disk=RATE"),
            ("disk.1=1Mi", "`disk.1` is unlike the other targets' disks: give disk=RATE"),
            ("disk=1Gi,disk.one=1Mi", "`disk.one`: expected the number of a target after `disk.`, like disk.3=50MiB/s"),
            ("disk=1Gi,disk.1=fast", "disk.1: `fast`: expected a rate"),
            ("disk=1Gi,disk.1=1Mi,disk.2=1Mi", "`disk.2`: one target can have a disk unlike the others', and target 1 has"),
        ] {
            let problem = Emulation::parse(text).unwrap_err();
            assert!(problem.contains(named), "{text}: {problem}");
        }
        assert!(parse_source("disk=1Gi").unwrap_err().contains("expected source=RATE"));
        assert!(parse_source("source=x").unwrap_err().contains("source: `x`: expected a rate"));
    }
}

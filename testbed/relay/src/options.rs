//! The command's arguments, and the units they are written in.

use std::net::IpAddr;
use std::str::FromStr;

use clap::Parser;

use crate::line::{Character, Limit};

/// A link of known delay, rate and loss between two network namespaces, packet by packet.
///
/// Makes a TUN device at each end and carries IP packets between them until SIGINT or SIGTERM; prints `ready` when both ends are
/// up, and what it saw at the end. Where a value may differ by direction, give two: A-to-B,B-to-A.
#[derive(Parser)]
#[command(name = "thalweg-relay")]
pub struct Options {
    /// First end: network namespace (a name of `ip netns`, a path, or nothing for our own) and address; more addresses after commas
    #[arg(long, value_name = "NETNS:ADDRESS/PREFIX", required_unless_present = "ceiling")]
    pub a: Option<End>,
    /// Second end
    #[arg(long, value_name = "NETNS:ADDRESS/PREFIX", required_unless_present = "ceiling")]
    pub b: Option<End>,
    /// Name of the device at each end
    #[arg(long, value_name = "NAME", default_value = "relay0", value_parser = device_name)]
    pub device: String,
    /// One-way delay: 10ms, 500us, 1.5s
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = Pair::parser(duration_ns))]
    pub delay: Pair<u64>,
    /// Further delay, drawn evenly from 0 to this; packets never overtake each other
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = Pair::parser(duration_ns))]
    pub jitter: Pair<u64>,
    /// Rate in bytes of IP packets: 1Gbit, 100Mbit; `none` for as fast as it goes
    #[arg(long, value_name = "RATE", default_value = "none", value_parser = Pair::parser(rate_bps))]
    pub rate: Pair<Option<u64>>,
    /// Probability that a wire segment is lost: 0.5%, 0.005
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = Pair::parser(probability))]
    pub loss: Pair<f64>,
    /// What may wait for the rate, per direction: packets (1000) or bytes (256KiB)
    #[arg(long, value_name = "PACKETS|BYTES", default_value = "1000", value_parser = Pair::parser(limit))]
    pub queue: Pair<Limit>,
    /// Stop both transmitters for a while, counted from the first TCP segment: 2s+500ms; repeat for several
    #[arg(long, value_name = "AT+FOR", value_parser = stall)]
    pub stall: Vec<(u64, u64)>,
    /// What fixes every draw of loss and jitter
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Largest IP packet on the wire
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=65535))]
    pub mtu: u32,
    /// Have the kernel hand over wire segments one by one instead of up to 64 KiB at a time
    #[arg(long)]
    pub no_offload: bool,
    /// Do not ask for real-time scheduling (which keeps busy neighbours from delaying packets)
    #[arg(long)]
    pub no_realtime: bool,
    /// Print what was seen as one JSON line
    #[arg(long)]
    pub json: bool,
    /// Instead: measure what the relay itself can carry, with a TCP stream through it, with and without offload, and end
    #[arg(long, conflicts_with_all = ["a", "b"])]
    pub ceiling: bool,
    /// How long each stream of --ceiling lasts
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = duration_ns)]
    pub lasts: u64,
}

impl Options {
    /// What each direction does, A to B first.
    pub fn characters(&self) -> [Character; 2] {
        [0, 1].map(|way| Character {
            delay_ns: self.delay.0[way],
            jitter_ns: self.jitter.0[way],
            rate_bps: self.rate.0[way],
            loss: self.loss.0[way],
            queue: self.queue.0[way],
            stalls_ns: self.stall.clone(),
        })
    }
}

/// One end of the link.
#[derive(Clone, Debug)]
pub struct End {
    /// Name or path of its network namespace; empty: our own.
    pub namespace: String,
    /// Addresses of its device with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl FromStr for End {
    type Err = String;

    fn from_str(text: &str) -> Result<End, String> {
        let (namespace, addresses) = text.split_once(':').ok_or("expected NETNS:ADDRESS/PREFIX, like client:10.1.0.1/24")?;
        let addresses = addresses.split(',').map(address).collect::<Result<_, _>>()?;
        Ok(End { namespace: namespace.to_owned(), addresses })
    }
}

fn address(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, prefix) = text.split_once('/').ok_or_else(|| format!("{text:?}: expected ADDRESS/PREFIX, like 10.1.0.1/24"))?;
    let address: IpAddr = address.parse().map_err(|why| format!("{address:?}: {why}"))?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.parse().ok().filter(|prefix| *prefix <= longest);
    Ok((address, prefix.ok_or_else(|| format!("{text:?}: the prefix is a number up to {longest}"))?))
}

/// A value for each direction, A to B first.
#[derive(Clone, Debug)]
pub struct Pair<T>(pub [T; 2]);

impl<T: Clone + Send + Sync + 'static> Pair<T> {
    fn parser(one: fn(&str) -> Result<T, String>) -> impl Fn(&str) -> Result<Pair<T>, String> + Clone + Send + Sync {
        move |text| {
            let (there, back) = text.split_once(',').unwrap_or((text, text));
            Ok(Pair([one(there)?, one(back)?]))
        }
    }
}

/// A number followed by one of the units, as a multiple of the smallest.
fn scaled(text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
    match (number.parse::<f64>(), scale) {
        (Ok(number), Some(scale)) if (number * scale) < 9e18 => Ok(number * scale),
        (Ok(0.0), None) if unit.is_empty() => Ok(0.0),
        _ => Err(format!("{text:?}: expected something like {example}")),
    }
}

fn duration_ns(text: &str) -> Result<u64, String> {
    Ok(scaled(text, &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)], "10ms (ns, us, ms, s)")?.round() as u64)
}

fn rate_bps(text: &str) -> Result<Option<u64>, String> {
    if text == "none" {
        return Ok(None);
    }
    let rate_bps = scaled(text, &[("bit", 1.0), ("Kbit", 1e3), ("Mbit", 1e6), ("Gbit", 1e9)], "100Mbit (bit, Kbit, Mbit, Gbit), or none")?;
    if rate_bps < 1.0 { Err("a rate is above 0; `none` is as fast as it goes".to_owned()) } else { Ok(Some(rate_bps as u64)) }
}

fn probability(text: &str) -> Result<f64, String> {
    let share = scaled(text, &[("", 1.0), ("%", 0.01)], "0.5% or 0.005")?;
    if share > 1.0 { Err(format!("{text:?}: at most 1, or 100%")) } else { Ok(share) }
}

fn limit(text: &str) -> Result<Limit, String> {
    let units = [("", 0.0), ("Ki", 1024.0), ("KiB", 1024.0), ("Mi", 1048576.0), ("MiB", 1048576.0), ("bytes", 1.0)];
    match text.parse() {
        Ok(packets) => Ok(Limit::Packets(packets)),
        Err(_) => Ok(Limit::Bytes(scaled(text, &units, "1000 (packets) or 256KiB (KiB, MiB, bytes)")? as u64)),
    }
}

fn stall(text: &str) -> Result<(u64, u64), String> {
    let (at, length) = text.split_once('+').ok_or("expected AT+FOR, like 2s+500ms")?;
    Ok((duration_ns(at)?, duration_ns(length)?))
}

fn device_name(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.len() < libc::IFNAMSIZ && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if fits { Ok(text.to_owned()) } else { Err("at most 15 letters, digits, - _ .".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_their_absence_refused() {
        assert_eq!(duration_ns("1.5ms"), Ok(1_500_000));
        assert_eq!(duration_ns("0"), Ok(0));
        assert!(duration_ns("10").is_err() && duration_ns("-1ms").is_err() && duration_ns("ms").is_err());
        assert_eq!(rate_bps("2.5Gbit"), Ok(Some(2_500_000_000)));
        assert!(rate_bps("0bit").is_err() && rate_bps("10M").is_err());
        assert_eq!(probability("0.5%"), Ok(0.005));
        assert!(probability("101%").is_err());
        assert_eq!((limit("64"), limit("256KiB")), (Ok(Limit::Packets(64)), Ok(Limit::Bytes(262_144))));
        assert_eq!(stall("2s+500ms"), Ok((2_000_000_000, 500_000_000)));
        let pair = Pair::parser(duration_ns)("1ms,2ms").unwrap();
        assert_eq!(pair.0, [1_000_000, 2_000_000]);
    }

    #[test]
    fn ends_are_read_with_addresses_of_both_families() {
        let end: End = "left:10.0.0.1/24,fd00::1/64".parse().unwrap();
        assert_eq!((end.namespace.as_str(), end.addresses.len()), ("left", 2));
        for wrong in ["left", "left:10.0.0.1", "left:10.0.0.1/33", "left:x/24"] {
            assert!(wrong.parse::<End>().is_err(), "{wrong}");
        }
    }
}

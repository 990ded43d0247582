//! Both directions together: started, stopped, and what they saw.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::carry::{Origin, Seen, carry};
use crate::device::Device;
use crate::line::{Character, Line};

/// A link that carries packets until it is stopped.
pub struct Link {
    devices: Arc<[Device; 2]>,
    stop: Arc<OwnedFd>,
    threads: [JoinHandle<io::Result<Seen>>; 2],
}

/// What a link saw, A to B first.
pub struct Report {
    /// What each direction's thread counted.
    pub seen: [Seen; 2],
    /// Packets the relay did not read in time.
    pub unread: [u64; 2],
}

impl Link {
    /// Starts carrying. The two directions draw from different seeds.
    pub fn start(devices: [Device; 2], characters: [Character; 2], seed: u64, realtime: bool) -> io::Result<Link> {
        // SAFETY: plain arguments; the descriptor is new and nobody else's.
        let stop = match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) } {
            fd if fd < 0 => return Err(io::Error::last_os_error()),
            // SAFETY: as above.
            fd => Arc::new(unsafe { OwnedFd::from_raw_fd(fd) }),
        };
        let devices = Arc::new(devices);
        let origin = Arc::new(Origin::default());
        let mut ways = characters.into_iter().enumerate().map(|(way, character)| {
            let line = Line::new(character, seed.wrapping_mul(2).wrapping_add(way as u64));
            let (devices, stop, origin) = (Arc::clone(&devices), Arc::clone(&stop), Arc::clone(&origin));
            let name = ["relay a>b", "relay b>a"][way].to_owned();
            let work = move || {
                let preferred = realtime && prefer_to_neighbours();
                Ok(Seen { preferred, ..carry(devices[way].fd(), devices[1 - way].fd(), stop.as_raw_fd(), line, &origin)? })
            };
            std::thread::Builder::new().name(name).spawn(work)
        });
        let (Some(there), Some(back)) = (ways.next(), ways.next()) else { unreachable!("there are two directions") };
        let threads = [there?, back?];
        drop(ways);
        Ok(Link { devices, stop, threads })
    }

    /// Ends both directions; packets still under way are gone.
    pub fn stop(self) -> io::Result<Report> {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the kernel reads 8 bytes.
        if unsafe { libc::write(self.stop.as_raw_fd(), one.as_ptr().cast(), one.len()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let [there, back] = self.threads.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let [unread_there, unread_back] = self.devices.each_ref().map(Device::unread_packets);
        let unread = [unread_there.map_err(io::Error::other)?, unread_back.map_err(io::Error::other)?];
        Ok(Report { seen: [there?, back?], unread })
    }
}

/// Asks that this thread runs before ordinary ones: packets on a real wire do not wait for a busy processor.
fn prefer_to_neighbours() -> bool {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads the parameter.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) == 0 }
}

impl Report {
    /// As one JSON document: per direction what came in, what became of it, and how punctual the relay was.
    pub fn json(&self) -> Value {
        let way = |way: usize| {
            let (seen, counts) = (&self.seen[way], &self.seen[way].counts);
            json!({
                "packets": counts.segments, "bytes": counts.bytes, "reads": counts.packets, "lost": counts.lost,
                "queue_drops": counts.queue_drops, "queue_max_bytes": counts.queue_max_bytes,
                "relay_drops": counts.memory_drops + self.unread[way] + seen.write_errors,
                "late_mean_us": mean_us(seen), "late_max_us": seen.late_max_ns as f64 / 1e3, "late_over_1ms": seen.late_1ms,
            })
        };
        json!({ "a>b": way(0), "b>a": way(1), "realtime": self.seen[0].preferred && self.seen[1].preferred })
    }

    /// The same for a person, a line for each direction.
    pub fn text(&self) -> String {
        let line = |way: usize| {
            let (seen, counts) = (&self.seen[way], &self.seen[way].counts);
            let own_drops = counts.memory_drops + self.unread[way] + seen.write_errors;
            let own = if own_drops > 0 { format!(", {own_drops} DROPPED BY THE RELAY ITSELF") } else { String::new() };
            format!(
                "{}: {} packets, {} bytes, {} lost, {} dropped at the queue{own}; left {:.0} us late on average, {:.0} us at most",
                ["a > b", "b > a"][way],
                counts.segments,
                counts.bytes,
                counts.lost,
                counts.queue_drops,
                mean_us(seen),
                seen.late_max_ns as f64 / 1e3
            )
        };
        format!("{}\n{}", line(0), line(1))
    }
}

fn mean_us(seen: &Seen) -> f64 {
    if seen.written == 0 { 0.0 } else { seen.late_sum_ns as f64 / seen.written as f64 / 1e3 }
}

//! Captures packets from an interface: a ring of blocks shared with the kernel (AF_PACKET, TPACKET_V3), which filters
//! by port before copying, and reports how many packets it dropped.
//!
//! Packets begin with their network header, whatever the interface. On the loopback interface every packet passes
//! twice, once out and once in; the kernel drops the first. Large packets are truncated in the kernel too, because
//! copying dominates the cost of a capture. The kernel's timestamps are on the wall clock; they are converted to the
//! monotonic clock, so that a capture shares the axis of the machine's other recorders.

mod filter;

use super::emit::Out;
use super::frame::link;
use super::table::Table;
use super::{Options, Summary, summary};
use crate::RecordError;
use filter::{Cut, MOST_PORTS, program};
use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::machine;
use thalweg_trace::{Host, Sink, Time};

/// The ring: 32 blocks of 2 MiB. A block holds about thirty packets of maximum size, the ring a tenth of a second of
/// 5 Gb/s.
const BLOCK_BYTES: usize = 2 << 20;
const BLOCKS: usize = 32;

/// Time after which the kernel hands over a partly filled block.
const RETIRE_MS: u32 = 60;

/// How often the caller's request to stop is checked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Options of a live capture.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The interface; `any` for all.
    pub interface: String,
    /// Bytes kept of each packet; `None`: enough for the heads of RPCs in most packets.
    pub snaplen: Option<u32>,
}

/// Keeps the headers (40 to 120 bytes) of large packets and 256 bytes of an RPC's head. Smaller packets may hold several
/// replies.
const HEADS: Cut = Cut { whole: 2048, head: 384 };

impl Default for LiveOptions {
    fn default() -> LiveOptions {
        LiveOptions { interface: "any".to_owned(), snaplen: None }
    }
}

/// A running capture.
pub struct Live {
    interface: String,
    socket: OwnedFd,
    ring: Ring,
    next_block: usize,
    start: Time,
    table: Option<Table>,
    dropped_packets: u64,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("interface", &self.interface).finish_non_exhaustive()
    }
}

/// The memory shared with the kernel.
struct Ring {
    base: NonNull<u8>,
}

// SAFETY: the mapping belongs to this value alone, and is only read through `&self` of the one `Live` that has it.
unsafe impl Send for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: `base` is the mapping of this very length that `Ring::map` made.
        unsafe { libc::munmap(self.base.as_ptr().cast(), BLOCK_BYTES * BLOCKS) };
    }
}

impl Ring {
    fn map(socket: &OwnedFd) -> std::io::Result<Ring> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of the socket's ring, which is of this length.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), BLOCK_BYTES * BLOCKS, protection, libc::MAP_SHARED, socket.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        NonNull::new(base.cast()).map(|base| Ring { base }).ok_or_else(|| std::io::Error::other("mapped at 0"))
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        let offset = block * BLOCK_BYTES + std::mem::offset_of!(libc::tpacket_block_desc, hdr);
        // SAFETY: the status is the first word of `hdr`, inside the mapping, aligned to 4, and shared with the kernel.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU32>() }
    }

    /// Returns a block that the kernel has handed over; `None` while it has not.
    fn block(&self, block: usize) -> Option<&[u8]> {
        let ours = self.status(block).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0;
        // SAFETY: the kernel writes to the block again only after it was given back, which takes `&mut Live`.
        ours.then(|| unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(block * BLOCK_BYTES), BLOCK_BYTES) })
    }

    fn give_back(&self, block: usize) {
        self.status(block).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

impl Live {
    /// Opens the interface. Packets are kept from now on.
    pub fn open(options: &LiveOptions, ports: &[u16]) -> Result<Live, RecordError> {
        if ports.len() > MOST_PORTS {
            return Err(RecordError::Usage(format!("at most {MOST_PORTS} ports can be captured in one run")));
        }
        let index = interface_index(&options.interface)?;
        // SAFETY: a system call without pointers. Without a protocol nothing is captured before `bind`.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(not_allowed(&std::io::Error::last_os_error()));
        }
        // SAFETY: a new descriptor without another owner.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let failed = |what: &str, e: std::io::Error| RecordError::Failed(format!("{}: {what}: {e}", options.interface));
        set(&socket, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as i32)).map_err(|e| failed("TPACKET_V3", e))?;
        let ring = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: 2048,
            tp_frame_nr: (BLOCK_BYTES / 2048 * BLOCKS) as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::PACKET_RX_RING, &ring).map_err(|e| failed("the ring for packets", e))?;
        let cut = options.snaplen.map_or(HEADS, |bytes| Cut { whole: bytes.max(64), head: bytes.max(64) });
        let loopback = interface_index("lo").ok().filter(|lo| *lo != 0);
        attach(&socket, &program(ports, cut, loopback)).map_err(|e| failed("the filter", e))?;
        let ring = Ring::map(&socket).map_err(|e| failed("the ring for packets", e))?;
        bind(&socket, index).map_err(|e| failed("cannot be opened for capture", e))?;
        if Some(index) == loopback {
            // Kernels before 4.20 lack this option; the filter then does it.
            let _ = set(&socket, libc::PACKET_IGNORE_OUTGOING, &1_i32);
        }
        let (interface, start) = (options.interface.clone(), Time::now());
        Ok(Live { interface, socket, ring, next_block: 0, start, table: None, dropped_packets: 0 })
    }

    /// Returns its start on this machine's monotonic clock.
    pub fn start(&self) -> Time {
        self.start
    }

    /// Sets the destination of events; call before capturing.
    pub fn begin(&mut self, options: &Options, sink: &Arc<dyn Sink>) {
        let mut out = Out::new(Arc::clone(sink), options.host, options.space);
        out.host(Host::here(options.host, &machine::node()));
        self.table = Some(Table::new(out, options));
    }

    /// Captures until `until`, or until `stop` returns true; then flushes.
    pub fn capture(&mut self, until: Instant, stop: &dyn Fn() -> bool) -> Result<(), RecordError> {
        while !stop() {
            self.take_blocks();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.wait(left.min(LOOK_EVERY))?;
        }
        if let Some(table) = &mut self.table {
            table.shared.out.flush();
        }
        Ok(())
    }

    fn wait(&self, most: Duration) -> Result<(), RecordError> {
        let timeout = rustix::event::Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(RecordError::Failed(format!("{}: {e}", self.interface))),
        }
        if fds[0].revents().contains(PollFlags::ERR) {
            return Err(RecordError::Failed(format!("{}: the interface went down", self.interface)));
        }
        Ok(())
    }

    fn take_blocks(&mut self) {
        let to_monotonic_ns = monotonic_offset_ns();
        let Live { ring, table, next_block, .. } = self;
        let Some(table) = table else { return };
        while let Some(block) = ring.block(*next_block) {
            each_packet(block, &mut |packet| {
                let at_ns = packet.at_ns.saturating_add(to_monotonic_ns).max(0);
                table.packet(at_ns, link::RAW, packet.data, packet.wire_bytes);
            });
            ring.give_back(*next_block);
            *next_block = (*next_block + 1) % BLOCKS;
        }
    }

    /// Ends the capture, after reading what the kernel still holds.
    pub fn finish(mut self) -> Result<Summary, RecordError> {
        // The last block is handed over when its time is up.
        let until = Instant::now() + Duration::from_millis(3 * u64::from(RETIRE_MS));
        self.capture(until, &|| false)?;
        self.count_dropped();
        let end = Time::now();
        let Some(mut table) = self.table.take() else {
            return Err(RecordError::Failed(format!("{}: ended before it began", self.interface)));
        };
        table.finish();
        let mut summary = summary(table.shared.counts, &table.silences.all(), self.dropped_packets, self.start, None);
        (summary.start, summary.end) = (self.start, end.max(summary.end));
        summary.attributes.push(("capture.interface".to_owned(), self.interface.clone()));
        Ok(summary)
    }

    fn count_dropped(&mut self) {
        // SAFETY: plain numbers, of which all-zero is a value.
        let mut statistics: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to a value of that size.
        let done = unsafe {
            let to = std::ptr::from_mut(&mut statistics).cast();
            libc::getsockopt(self.socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, to, &mut length)
        };
        if done == 0 {
            self.dropped_packets += u64::from(statistics.tp_drops);
        }
    }
}

struct Captured<'a> {
    at_ns: i64,
    data: &'a [u8],
    wire_bytes: u32,
}

/// Reads a kernel structure from a block.
fn read<T: Copy>(block: &[u8], at: usize) -> Option<T> {
    let bytes = block.get(at..at.checked_add(size_of::<T>())?)?;
    // SAFETY: enough bytes are there, and `T` is one of the kernel's structures of plain numbers, for which any bytes do.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

fn each_packet(block: &[u8], take: &mut dyn FnMut(Captured<'_>)) {
    let header_at = std::mem::offset_of!(libc::tpacket_block_desc, hdr);
    let Some(header) = read::<libc::tpacket_hdr_v1>(block, header_at) else { return };
    let mut at = header.offset_to_first_pkt as usize;
    for _ in 0..header.num_pkts {
        let Some(packet) = read::<libc::tpacket3_hdr>(block, at) else { return };
        let address_at = at + size_of::<libc::tpacket3_hdr>().next_multiple_of(16);
        let Some(address) = read::<libc::sockaddr_ll>(block, address_at) else { return };
        let from = at + usize::from(packet.tp_net);
        let tagged = matches!(u16::from_be(address.sll_protocol), 0x8100 | 0x88a8);
        // A VLAN tag inside the packet precedes the network header.
        let skip = if tagged { 4 } else { 0 };
        if let Some(data) = block.get(from..from + packet.tp_snaplen as usize).and_then(|d| d.get(skip..)) {
            take(Captured {
                at_ns: i64::from(packet.tp_sec) * 1_000_000_000 + i64::from(packet.tp_nsec),
                data,
                wire_bytes: packet.tp_len.saturating_sub(skip as u32),
            });
        }
        if packet.tp_next_offset == 0 {
            return;
        }
        at += packet.tp_next_offset as usize;
    }
}

/// Returns the offset from the wall clock to the monotonic clock.
fn monotonic_offset_ns() -> i64 {
    let wall = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Time::now().ns() - (wall.tv_sec * 1_000_000_000 + wall.tv_nsec)
}

fn interface_index(name: &str) -> Result<i32, RecordError> {
    if name == "any" {
        return Ok(0);
    }
    let c_name = CString::new(name).map_err(|_| RecordError::Usage(format!("{name:?} is not a valid interface name")))?;
    // SAFETY: a string that ends in 0.
    match unsafe { libc::if_nametoindex(c_name.as_ptr()) } {
        0 => Err(RecordError::Usage(format!("there is no interface {name}; there are: {}, any", interfaces().join(", ")))),
        index => Ok(index as i32),
    }
}

/// Returns the names of this machine's interfaces.
fn interfaces() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn not_allowed(error: &std::io::Error) -> RecordError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => RecordError::NotAllowed(
            "capturing from an interface needs the capability CAP_NET_RAW: run it as root, or give it to the program \
             (setcap cap_net_raw+ep $(command -v thalweg)); or capture with tcpdump -s 0 -w FILE, and give the file"
                .to_owned(),
        ),
        Some(libc::EAFNOSUPPORT) => RecordError::NotAllowed("this kernel has no packet sockets (CONFIG_PACKET)".to_owned()),
        _ => RecordError::Failed(format!("cannot open a packet socket: {error}")),
    }
}

fn set<T>(socket: &OwnedFd, option: i32, value: &T) -> std::io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of a value of that size.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, std::ptr::from_ref(value).cast(), length) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn attach(socket: &OwnedFd, steps: &[libc::sock_filter]) -> std::io::Result<()> {
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_ptr().cast_mut() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    let value = std::ptr::from_ref(&filter).cast();
    // SAFETY: the kernel copies the program during the call; `steps` outlives it.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, length) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn bind(socket: &OwnedFd, interface: i32) -> std::io::Result<()> {
    // SAFETY: plain numbers, of which all-zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of a value of that size.
    let done = unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

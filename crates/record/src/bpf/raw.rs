//! The programs' records in the ring, as `bpf/events.h` describes them: plain data of fixed size.
//!
//! [`Record::parse`] is the only way in: it rejects records that are too short or of unknown kind, so that no other
//! code sees a partial record. Times are nanoseconds of CLOCK_MONOTONIC; a thread is its serial; 0 is absent.

#![allow(missing_docs)]

/// Declares a structure in C layout, made of integers only (so that any bytes are a valid value).
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident { $($field:ident : $type:ty),+ $(,)? })+) => {
        $($(#[$doc])* #[repr(C)] #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name { $(pub $field: $type),+ }
        impl Default for $name {
            fn default() -> Self {
                // SAFETY: all fields are integers or arrays and structures of them; zero is a value of each.
                unsafe { std::mem::zeroed() }
            }
        }
        // SAFETY: as above; the structure has the layout of C.
        unsafe impl Plain for $name {})+
    };
}

/// Data for which every bit pattern is a value.
///
/// # Safety
/// Implemented only for `repr(C)` structures of integers.
pub(crate) unsafe trait Plain: Copy {}

/// Maximum kernel functions of a site.
pub(crate) const SITE_FUNCTIONS: usize = 12;

/// Number of counts in [`Names`].
pub(crate) const NAME_COUNTS: usize = 9;

plain! {
    Head { kind: u16, cpu: u16, thread: u32, at_ns: u64 }
    /// The object that a descriptor refers to.
    FdObject { id: u64, device: u32, mode: u32, fd: i32, access: u32 }
    /// A thread's totals since it began.
    Totals {
        read_bytes: u64, write_bytes: u64, read_calls: u64, write_calls: u64,
        net_read_bytes: u64, net_write_bytes: u64, net_read_calls: u64, net_write_calls: u64,
    }
    Thread { head: Head, tid: u32, pid: u32, parent: u32, role: u32, start_ns: u64, task_flags: u32, parent_pid: u32, name: [u8; 16],
        depth: u32, allowed: u32, slept_ns: u64 }
    Off {
        head: Head, run_ns: u64, out_ns: u64, wake_ns: u64, call: i32, flags: u32, state: u32, waker: u32, context: u32,
        wake_device: u32, wake_connection: u64, polled_connection: u64, holder: u32, stop_signal: u32, argument: u64,
        file: [FdObject; 2], io: Totals,
    }
    Net {
        head: Head, connection: u64, first_ns: u64, end_bytes: u64, bytes: u64, count: u32, result: i32, direction: u32, pad: u32,
    }
    Connection {
        head: Head, connection: u64, inode: u64, namespace: u32, family: u16, end: u16, local_port: u16, remote_port: u16,
        state: u32, local: [u8; 16], remote: [u8; 16], link: u64, link_name: [u8; 16],
    }
    /// Bytes that an unrecorded process has moved over a link.
    Link { head: Head, link: u64, bytes: u64, direction: u32, pid: u32, link_name: [u8; 16], name: [u8; 16] }
    Tcp {
        head: Head, connection: u64, cwnd: u32, ssthresh: u32, mss: u32, srtt_us: u32,
        min_rtt_us: u32, in_flight_bytes: u32, peer_window_bytes: u32, send_buffer_bytes: u32, unsent_bytes: u32,
        unread_bytes: u32, busy_jiffies: u32, rwnd_limited_jiffies: u32, sndbuf_limited_jiffies: u32, state: u32,
    }
    TcpMark { head: Head, connection: u64, what: u32, value: u32 }
    Wire { head: Head, connection: u64, from_ns: u64, from_bytes: u64, bytes: u64, left_ns: u64, direction: u32, pad: u32 }
    Block { head: Head, issue_ns: u64, sector: u64, bytes: u32, device: u32, operation: u32, error: i32 }
    Sample { head: Head, call: i32, flags: u32, file: [FdObject; 2], io: Totals, run_ns: u64, period_ns: u64, address: u64 }
    Exit { head: Head, run_ns: u64, flags: u32, allowed: u32, code: u32, pad: u32, io: Totals, name: [u8; 16] }
    FileHead { head: Head, inode: u64, size_bytes: u64, device: u32, mode: u32, access: u32, used: u32 }
    Site { head: Head, function: [u64; SITE_FUNCTIONS] }
    /// A thread's file and name counts so far: opened, created, attributes, listed; removed and renamed, each also
    /// within overlays; read.
    Names { head: Head, count: [u64; NAME_COUNTS] }
    AskHead { head: Head, connection: u64, used: u32, pad: u32 }
    /// A name lookup's question or answer, followed by its beginning.
    QuestionHead { head: Head, inode: u64, address: [u8; 16], port: u16, direction: u16, result: i32, used: u32, pad: u32 }
    WordsHead { head: Head, used: u32, pad: u32 }
    /// A task of a runtime waits for a mutex, or hands it on.
    TaskLock { head: Head, lock: u64, task: u64, stack: u64, what: u32, pad: u32 }
    UnixHead { head: Head, inode: u64, used: u32, pad: u32 }
    Signal { head: Head, signal: u32, by_kernel: u32, sender_pid: u32, pad: u32, sender: [u8; 16] }
    LookHead {
        head: Head, directory: u64, argument: u64, directory_device: u32, call: i32, result: i32, flags: u32, used: u32, pad: u32,
        file: FdObject,
    }
    Peer { head: Head, inode: u64, family: u16, port: u16, flags: u32, address: [u8; 16] }
    Call {
        head: Head, start_ns: u64, bytes: u64, busy_ns: u64, result: i64, offset_bytes: u64, call: i32, count: u32,
        blocked: u32, pad: u32, file: [FdObject; 2],
    }
}

/// The loader's settings: the object's only read-only data.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub trace_calls: u32,
    pub tcp_gap_ns: u32,
    pub merge_ns: u32,
    pub follow: u32,
    pub command_pid: u32,
    pub wake_shift: u32,
    pub call_sendto: i32,
    pub call_flags: [u16; 512],
}

impl Settings {
    /// Encodes the settings for the object.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32 + 1024);
        let call_sendto = self.call_sendto.cast_unsigned();
        let (calls, merging, shift) = (self.trace_calls, self.merge_ns, self.wake_shift);
        for word in [calls, self.tcp_gap_ns, merging, self.follow, self.command_pid, shift, call_sendto, 0] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        self.call_flags.iter().for_each(|flags| bytes.extend_from_slice(&flags.to_ne_bytes()));
        bytes
    }
}

plain! {
    /// The programs' global variables.
    Control { stopped: u32, serials: u32, level: u32, followed: u32, refused: u32, wanted: u32, older: u32, read: u32, links: u32, pad: u32 }
}

impl Control {
    /// Decodes the kernel's form.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Control> {
        read(bytes)
    }
}

pub(crate) const ROLE_NONE: u32 = 0;
pub(crate) const ROLE_CLIENT: u32 = 1;
pub(crate) const ROLE_SERVER: u32 = 2;
pub(crate) const ROLE_KERNEL: u32 = 3;
pub(crate) const ROLE_RECORDER: u32 = 4;

/// Parts of [`Block`]'s `operation`: the operation; and whether the page cache wrote back, which no thread waits for.
pub(crate) const BLOCK_OPERATION: u32 = 0xff;
pub(crate) const BLOCK_WRITEBACK: u32 = 1 << 8;

/// Bit of [`Thread`]'s `task_flags`: a kernel thread.
pub(crate) const FLAG_OF_KERNEL: u32 = 0x0020_0000;

pub(crate) const CONTEXT_TASK: u32 = 1;
pub(crate) const CONTEXT_SOFTIRQ: u32 = 2;
pub(crate) const CONTEXT_HARDIRQ: u32 = 3;
pub(crate) const CONTEXT_TIMER: u32 = 4;

pub(crate) const OFF_IOWAIT: u32 = 1;
pub(crate) const OFF_THROTTLED: u32 = 2;
pub(crate) const OFF_WRITEBACK: u32 = 4;
pub(crate) const OFF_KERNEL_THREAD: u32 = 8;
pub(crate) const OFF_OPEN: u32 = 16;
pub(crate) const OFF_NEW: u32 = 32;
pub(crate) const OFF_FAULT_FILE: u32 = 64;
pub(crate) const OFF_EXITING: u32 = 128;
pub(crate) const OFF_QUOTA: u32 = 2048;
pub(crate) const OFF_CONDITION: u32 = 4096;
pub(crate) const OFF_SHARED: u32 = 8192;
pub(crate) const OFF_POLLS_NOTHING: u32 = 16_384;
pub(crate) const OFF_MUTEX: u32 = 32_768;
pub(crate) const SAMPLE_USER: u32 = 256;
pub(crate) const SAMPLE_SOFTIRQ: u32 = 512;

/// Bits of [`Peer`]'s `flags`: the socket received before it sent anything; its program chose the port.
pub(crate) const PEER_ASKED: u32 = 1;
pub(crate) const PEER_CHOSEN: u32 = 2;

/// Scheduler states: uninterruptible waits, and stopped threads.
pub(crate) const STATE_UNINTERRUPTIBLE: u32 = 2;
pub(crate) const STATE_STOPPED: u32 = 4 | 8;
pub(crate) const STATE_IDLE: u32 = 0x400;

pub(crate) const FAMILY_UNIX: u32 = 1;

pub(crate) const MODE_KIND: u32 = 0xf000;
pub(crate) const MODE_SOCKET: u32 = 0xc000;
pub(crate) const MODE_FIFO: u32 = 0x1000;
pub(crate) const MODE_FILE: u32 = 0x8000;
pub(crate) const MODE_BLOCK: u32 = 0x6000;
pub(crate) const MODE_DIRECTORY: u32 = 0x4000;
pub(crate) const MODE_CHARACTER: u32 = 0x2000;

/// The path begins at the top of the file system, wherever it is mounted.
pub(crate) const ACCESS_WITHIN: u32 = 1 << 31;

/// The call has not returned.
pub(crate) const LOOK_WAITS: u32 = 1;

/// It failed for lack of a resource, whether or not it is a lookup.
pub(crate) const LOOK_FAILED: u32 = 2;

pub(crate) const ACCESS_WRITE: u32 = 2;
pub(crate) const ACCESS_SYNCED: u32 = 1 << 16;
/// In `FdObject::access` of a call that opens: O_TRUNC.
pub(crate) const ACCESS_TRUNCATES: u32 = 1 << 18;
pub(crate) const ACCESS_EVENTFD: u32 = 1 << 17;
pub(crate) const ACCESS_INOTIFY: u32 = 1 << 20;
/// Opened with O_DIRECT.
pub(crate) const ACCESS_DIRECT: u32 = 1 << 19;

/// Whether a socket is TCP, by [`FdObject::device`].
pub(crate) fn socket_is_tcp(object: &FdObject) -> bool {
    object.mode & MODE_KIND == MODE_SOCKET && (object.device >> 8) & 0xff == 6 && matches!(object.device & 0xff, 2 | 10)
}

/// One record of the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Record<'a> {
    Thread(Thread),
    Off(Off),
    Net(Net),
    Connection(Connection),
    Tcp(Tcp),
    TcpMark(TcpMark),
    Wire(Wire),
    Link(Link),
    Block(Block),
    Sample(Sample),
    Exit(Exit),
    /// With the parts of its path, last part first, each ended by a 0.
    File(FileHead, &'a [u8]),
    Call(Call),
    Peer(Peer),
    Site(Site),
    Names(Names),
    /// With its path.
    Look(LookHead, &'a [u8]),
    /// With the beginning of the request.
    Ask(AskHead, &'a [u8]),
    /// With the beginning of the message.
    Question(QuestionHead, &'a [u8]),
    Signal(Signal),
    /// With the end of the output.
    Words(WordsHead, &'a [u8]),
    /// With the called path.
    Unix(UnixHead, &'a [u8]),
    TaskLock(TaskLock),
}

fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: there are as many bytes as T has, any of them make a T, and no alignment is asked for.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<T>()) })
}

impl Record<'_> {
    /// Parses a record; `None` if it is truncated or of unknown kind.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Record<'_>> {
        let head: Head = read(bytes)?;
        Some(match head.kind {
            1 => Record::Thread(read(bytes)?),
            2 => Record::Off(read(bytes)?),
            3 => Record::Net(read(bytes)?),
            4 => Record::Connection(read(bytes)?),
            5 => Record::Tcp(read(bytes)?),
            6 => Record::TcpMark(read(bytes)?),
            7 => Record::Block(read(bytes)?),
            8 => Record::Sample(read(bytes)?),
            9 => Record::Exit(read(bytes)?),
            10 => {
                let file: FileHead = read(bytes)?;
                let path = &bytes[size_of::<FileHead>()..];
                Record::File(file, &path[..path.len().min(file.used as usize)])
            }
            11 => Record::Call(read(bytes)?),
            12 => Record::Wire(read(bytes)?),
            13 => Record::Peer(read(bytes)?),
            14 => Record::Site(read(bytes)?),
            15 => Record::Names(read(bytes)?),
            16 => {
                let look: LookHead = read(bytes)?;
                let path = &bytes[size_of::<LookHead>()..];
                Record::Look(look, &path[..path.len().min(look.used as usize)])
            }
            17 => {
                let ask: AskHead = read(bytes)?;
                let text = &bytes[size_of::<AskHead>()..];
                Record::Ask(ask, &text[..text.len().min(ask.used as usize)])
            }
            18 => {
                let question: QuestionHead = read(bytes)?;
                let text = &bytes[size_of::<QuestionHead>()..];
                Record::Question(question, &text[..text.len().min(question.used as usize)])
            }
            19 => Record::Signal(read(bytes)?),
            20 => {
                let words: WordsHead = read(bytes)?;
                let text = &bytes[size_of::<WordsHead>()..];
                Record::Words(words, &text[..text.len().min(words.used as usize)])
            }
            21 => {
                let unix: UnixHead = read(bytes)?;
                let path = &bytes[size_of::<UnixHead>()..];
                Record::Unix(unix, &path[..path.len().min(unix.used as usize)])
            }
            22 => Record::Link(read(bytes)?),
            23 => Record::TaskLock(read(bytes)?),
            _ => return None,
        })
    }
}

/// Joins a path from parts stored last first.
pub(crate) fn path_of_parts(parts: &[u8]) -> String {
    let mut path = String::new();
    let parts = parts.strip_suffix(&[0]).unwrap_or(parts);
    for part in parts.split(|b| *b == 0).rev() {
        path.push('/');
        path.push_str(&String::from_utf8_lossy(part));
    }
    if path.is_empty() { "/".to_owned() } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_as_large_as_the_programs_make_them() {
        let header = include_str!("../../bpf/events.h");
        for (name, size) in [
            ("record_thread", size_of::<Thread>()),
            ("record_off", size_of::<Off>()),
            ("record_net", size_of::<Net>()),
            ("record_connection", size_of::<Connection>()),
            ("record_tcp", size_of::<Tcp>()),
            ("record_tcp_mark", size_of::<TcpMark>()),
            ("record_wire", size_of::<Wire>()),
            ("record_link", size_of::<Link>()),
            ("record_block", size_of::<Block>()),
            ("record_sample", size_of::<Sample>()),
            ("record_exit", size_of::<Exit>()),
            ("record_call", size_of::<Call>()),
            ("record_peer", size_of::<Peer>()),
            ("record_site", size_of::<Site>()),
            ("record_names", size_of::<Names>()),
            ("record_signal", size_of::<Signal>()),
            ("record_task_lock", size_of::<TaskLock>()),
            ("io_totals", size_of::<Totals>()),
            ("fd_object", size_of::<FdObject>()),
            ("head", size_of::<Head>()),
        ] {
            assert_eq!(size_in_c(header, name), size, "{name}");
        }
        assert_eq!(size_in_c(header, "record_file") - 1280, size_of::<FileHead>());
        assert_eq!(size_in_c(header, "record_look") - 256, size_of::<LookHead>());
        assert_eq!(size_in_c(header, "record_ask") - 512, size_of::<AskHead>());
        assert_eq!(size_in_c(header, "record_question") - 512, size_of::<QuestionHead>());
        assert_eq!(size_in_c(header, "record_words") - 256, size_of::<WordsHead>());
        assert_eq!(size_in_c(header, "record_unix") - 128, size_of::<UnixHead>());
    }

    /// Returns a structure's size from its declaration in the header; all fields are laid out without gaps.
    fn size_in_c(header: &str, name: &str) -> usize {
        let start = header.find(&format!("struct {name} {{")).unwrap_or_else(|| panic!("no {name}"));
        let body = &header[start..start + header[start..].find("};").expect("its end")];
        let code: String = body.lines().skip(1).map(|l| l.split("/*").next().unwrap_or("")).collect::<Vec<_>>().join(" ");
        code.split(';').map(str::trim).filter(|d| !d.is_empty()).map(|d| declared(header, d)).sum()
    }

    fn declared(header: &str, declaration: &str) -> usize {
        let words: Vec<&str> = declaration.split_whitespace().collect();
        let (size, first) = match words[0] {
            "struct" => (size_in_c(header, words[1]), 2),
            "char" | "__u8" => (1, 1),
            "__u16" => (2, 1),
            "__u32" | "__s32" => (4, 1),
            "__u64" | "__s64" => (8, 1),
            other => panic!("{other} in {declaration}"),
        };
        let count = match words[first..].join(" ").split_once('[') {
            Some((_, n)) if n.starts_with("PATH_BYTES") => 1280,
            Some((_, n)) if n.starts_with("LOOK_BYTES") => 256,
            Some((_, n)) if n.starts_with("ASK_BYTES") || n.starts_with("QUESTION_BYTES") => 512,
            Some((_, n)) if n.starts_with("WORDS_BYTES") => 256,
            Some((_, n)) if n.starts_with("UNIX_BYTES") => 128,
            Some((_, n)) if n.starts_with("SITE_FUNCTIONS") => SITE_FUNCTIONS,
            Some((_, n)) if n.starts_with("NAME_COUNTS") => NAME_COUNTS,
            Some((_, n)) => n.trim_end_matches(']').parse().expect("a number"),
            None => 1,
        };
        size * count
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_refused() {
        let mut bytes = vec![0_u8; size_of::<Off>()];
        bytes[0] = 2;
        assert!(matches!(Record::parse(&bytes), Some(Record::Off(_))));
        assert!(Record::parse(&bytes[..bytes.len() - 1]).is_none());
        bytes[0] = 99;
        assert!(Record::parse(&bytes).is_none());
        assert!(Record::parse(&[]).is_none());
    }

    #[test]
    fn paths_are_put_together_from_their_last_part() {
        assert_eq!(path_of_parts(b"big\0data\0"), "/data/big");
        assert_eq!(path_of_parts(b""), "/");
    }
}

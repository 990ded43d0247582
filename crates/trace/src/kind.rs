//! The closed sets of the trace model: one list each, with the names used on disk.

use serde::{Deserialize, Serialize};

/// Declares a closed set: an enum, `ALL`, `name()` and `from_name()`, from one list.
macro_rules! closed_set {
    ($(#[$doc:meta])* $set:ident { $($(#[$item_doc:meta])* $item:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum $set { $($(#[$item_doc])* $item),+ }

        impl $set {
            /// Every member, in order of its number.
            pub const ALL: &'static [$set] = &[$($set::$item),+];

            /// The name used in recordings and documents.
            pub const fn name(self) -> &'static str {
                match self { $($set::$item => $name),+ }
            }

            /// Returns the member of this name, if any.
            pub fn from_name(name: &str) -> Option<$set> {
                match name { $($name => Some($set::$item),)+ _ => None }
            }
        }
    };
}

closed_set! {
    /// The kind of a span.
    SpanKind {
        /// Opening or creating a file.
        FileOpen = "file.open",
        /// Reading from a file.
        FileRead = "file.read",
        /// Writing to a file.
        FileWrite = "file.write",
        /// Making a file's data durable.
        FileSync = "file.sync",
        /// Reading or changing attributes.
        FileStat = "file.stat",
        /// Reading a directory.
        FileList = "file.list",
        /// Closing a file.
        FileClose = "file.close",
        /// Any other call on a file (its mode, owner or times, a lock, ...).
        FileOther = "file.other",
        /// Setting up a connection.
        NetConnect = "net.connect",
        /// Passing bytes to a connection.
        NetSend = "net.send",
        /// Taking bytes from a connection, or waiting for them.
        NetReceive = "net.receive",
        /// The client's side of one RPC, from post to completion.
        RpcCall = "rpc.call",
        /// The server working on one RPC.
        RpcServe = "rpc.serve",
        /// The server holding one RPC before it works on it.
        RpcQueue = "rpc.queue",
        /// A device reading.
        DiskRead = "disk.read",
        /// A device writing.
        DiskWrite = "disk.write",
        /// A device flushing its cache.
        DiskFlush = "disk.flush",
        /// MPI: any other call on a file (open, close, sync, view, size, ...).
        MpiIo = "mpi.io",
        /// MPI point to point before the message has moved: posting a receive.
        MpiMessage = "mpi.message",
        /// MPI collective.
        MpiCollective = "mpi.collective",
        /// Waiting in MPI for an operation posted earlier.
        MpiWait = "mpi.wait",
        /// Any other MPI call.
        MpiOther = "mpi.other",
        /// A thread running.
        CpuRun = "cpu.run",
        /// A thread runnable but not running.
        WaitRunqueue = "wait.runqueue",
        /// A thread blocked on a device.
        WaitDisk = "wait.disk",
        /// A thread blocked on the network.
        WaitNetwork = "wait.network",
        /// A thread blocked on a lock, a condition or a work queue of another thread.
        WaitLock = "wait.lock",
        /// A thread sleeping until a given time.
        WaitTimer = "wait.timer",
        /// A thread blocked on memory: reclaim, faults, dirty throttling.
        WaitMemory = "wait.memory",
        /// A thread blocked on something else.
        WaitOther = "wait.other",
        /// One request: what an application asks for in one piece. Parent of the spans it consists of.
        AppRequest = "app.request",
        /// Computing a checksum.
        AppChecksum = "app.checksum",
        /// Any other work of the application.
        AppOther = "app.other",
        /// MPI: a message being sent.
        MpiSend = "mpi.send",
        /// MPI: a message being received.
        MpiReceive = "mpi.receive",
        /// MPI: reading from a file.
        MpiRead = "mpi.read",
        /// MPI: writing to a file.
        MpiWrite = "mpi.write",
        /// Changing a file's length without writing: truncating, extending, or opening with O_TRUNC.
        FileTruncate = "file.truncate",
        /// Removing a file or directory.
        FileRemove = "file.remove",
        /// Renaming a file or directory.
        FileRename = "file.rename",
        /// Making a directory, a link or a special file.
        FileCreate = "file.create",
    }
}

closed_set! {
    /// The kind of a mark.
    MarkKind {
        /// TCP retransmitted a segment. `value`: bytes.
        TcpRetransmit = "tcp.retransmit",
        /// TCP's retransmission timer expired.
        TcpTimeout = "tcp.timeout",
        /// The peer's receive window closed.
        TcpZeroWindow = "tcp.zero_window",
        /// An RPC was retransmitted.
        RpcRetransmit = "rpc.retransmit",
        /// An RPC's timer expired.
        RpcTimeout = "rpc.timeout",
        /// Events were lost on this track before this instant. `value`: their number; the interval began at the
        /// track's previous event.
        Lost = "lost",
        /// The thread of this track was created. `value`: the track of the thread that created it.
        ThreadStart = "thread.start",
        /// The thread of this track ended. `value`, for a process's first thread: its exit status, or 128 plus the
        /// number of the signal that killed it.
        ThreadExit = "thread.exit",
        /// Recording of this track's thread begins here; the thread is older.
        ThreadSeen = "thread.seen",
        /// The process of this track's thread can be, or could be, contacted. `value`: the sum of the
        /// [`called`](crate::called) bits.
        ProcessCalled = "process.called",
        /// A connection request was retransmitted: it or its answer was lost, or the listener dropped it. `value`:
        /// time since the first request, in nanoseconds.
        TcpSynRetransmit = "tcp.syn_retransmit",
        /// Nagle's algorithm delayed a small segment until data in flight was acknowledged, which happened now.
        /// `value`: the delay, in nanoseconds.
        TcpNagle = "tcp.nagle",
        /// TCP sends again after an idle period, with a reduced congestion window. `value`: segments.
        TcpIdleRestart = "tcp.idle_restart",
        /// The connection was accepted after its listener's queue had been full. `value`: requests dropped since the
        /// previous accept.
        TcpAcceptQueue = "tcp.accept_queue",
        /// A connection request had waited a while without being accepted. On a thread of the listening process.
        /// `value`: the wait, in nanoseconds.
        TcpNotAccepted = "tcp.not_accepted",
        /// A tuner has tried a value of a parameter and decided. The object is the parameter, with the attributes
        /// `from`, `to`, `before_bytes_per_s`, `after_bytes_per_s`, `kept` and `why`. `value`: the parameter's value
        /// from here on.
        TuneStep = "tune.step",
        /// The thread of this track looked up a name. The object is the name, with the attribute `server`. `value`:
        /// the record type of RFC 1035 (1 an IPv4 address, 28 an IPv6 address, 12 the name of an address).
        NameAsked = "name.asked",
        /// The thread received the answer to its lookup. `value`: [`lookup`](crate::lookup).
        NameAnswered = "name.answered",
        /// The thread of this track was sent a signal. `value`: its number. The object is the sending process; none
        /// if the kernel sent it.
        Signal = "signal",
        /// A goroutine, running on this thread, begins to wait for a mutex. The object is the mutex; `value`: the goroutine's number.
        TaskLockAwaited = "task_lock.awaited",
        /// A goroutine was woken, found the mutex taken and waits again. Object and `value` are as above.
        TaskLockAwaitedAgain = "task_lock.awaited_again",
        /// A goroutine releases a mutex and wakes a waiter. The object is the mutex; `value`: the number of the goroutine that held the mutex.
        TaskLockHandedOn = "task_lock.handed_on",
    }
}

closed_set! {
    /// The quantity a counter counts. Units are in the names.
    CounterName {
        /// TCP's congestion window, in bytes.
        TcpCwndBytes = "tcp.cwnd",
        /// TCP's slow-start threshold, in bytes.
        TcpSsthreshBytes = "tcp.ssthresh",
        /// TCP's smoothed round-trip time.
        TcpSrttUs = "tcp.srtt_us",
        /// Bytes sent and not acknowledged.
        TcpInFlightBytes = "tcp.in_flight_bytes",
        /// The receive window offered by the peer.
        TcpReceiveWindowBytes = "tcp.receive_window_bytes",
        /// The send buffer's size, as `getsockopt` reports it.
        TcpSendBufferBytes = "tcp.send_buffer_bytes",
        /// Bytes the program has written and TCP has not sent.
        TcpUnsentBytes = "tcp.unsent_bytes",
        /// Bytes that have arrived and the program has not read.
        TcpUnreadBytes = "tcp.unread_bytes",
        /// The minimum round-trip time TCP has measured.
        TcpMinRttUs = "tcp.min_rtt_us",
        /// TCP's accumulated time with data outstanding.
        TcpBusyUs = "tcp.busy_us",
        /// ... limited by the peer's receive window.
        TcpReceiveWindowLimitedUs = "tcp.rwnd_limited_us",
        /// ... limited by the send buffer.
        TcpSendBufferLimitedUs = "tcp.sndbuf_limited_us",
        /// RPCs sent and unanswered.
        RpcPending = "rpc.pending",
        /// Maximum RPCs a client keeps pending.
        RpcWindow = "rpc.window",
        /// A thread's accumulated time running.
        CpuRunNs = "cpu.run_ns",
        /// A thread's accumulated time runnable but not running.
        CpuRunqueueNs = "cpu.runqueue_ns",
        /// Accumulated time a thread or control group was throttled by a CPU quota.
        CpuThrottledNs = "cpu.throttled_ns",
        /// A CPU's accumulated time in software interrupts.
        CpuSoftirqNs = "cpu.softirq_ns",
        /// A thread's accumulated bytes read, from its I/O accounting (files, pipes and sockets).
        IoReadBytes = "io.read_bytes",
        /// A thread's accumulated bytes written.
        IoWriteBytes = "io.write_bytes",
        /// A thread's accumulated read calls.
        IoReadCalls = "io.read_calls",
        /// A thread's accumulated write calls.
        IoWriteCalls = "io.write_calls",
        /// Dirty pages of the page cache.
        MemoryDirtyBytes = "memory.dirty_bytes",
        /// Requested bytes of a file that had been read ahead, accumulated.
        AheadHitBytes = "ahead.hit_bytes",
        /// ... that had not been read ahead.
        AheadMissBytes = "ahead.miss_bytes",
        /// ... that were read ahead and never requested.
        AheadWastedBytes = "ahead.wasted_bytes",
        /// Stream bytes acknowledged by the peer, accumulated: they have crossed the wire.
        TcpAckedBytes = "tcp.acked_bytes",
        /// Stream bytes that have arrived, accumulated.
        TcpReceivedBytes = "tcp.received_bytes",
        /// A CPU's accumulated idle time, from the scheduler's context switches.
        CpuIdleNs = "cpu.idle_ns",
        /// A CPU's accumulated time in hard interrupts, which samples do not see.
        CpuHardirqNs = "cpu.hardirq_ns",
        /// A CPU's accumulated time that the hypervisor gave to other guests.
        CpuStealNs = "cpu.steal_ns",
        /// Regular files opened by a thread, accumulated.
        FileOpens = "file.opens",
        /// ... of which the open created.
        FileCreates = "file.creates",
        /// A thread's calls for file attributes (stat, fstat, statx), accumulated.
        FileStats = "file.stats",
        /// Names removed by a thread, except directories, accumulated.
        FileRemoves = "file.removes",
        /// Names changed by a thread, accumulated.
        FileRenames = "file.renames",
        /// Names that directory listings returned to a thread, except `.` and `..`, accumulated.
        FileListed = "file.listed",
        /// Regular files that a thread began to read from the start, through the page cache, accumulated; used where
        /// opens are not counted.
        FileReads = "file.reads",
        /// Accumulated user time of a CPU or process, from the kernel's clock ticks.
        CpuUserNs = "cpu.user_ns",
        /// ... and system time.
        CpuSystemNs = "cpu.system_ns",
        /// A CPU's event counter at the instant of a sample; the recording's attribute `event.0` names the event.
        Event0 = "event.0",
        /// ... for `event.1`.
        Event1 = "event.1",
        /// ... for `event.2`.
        Event2 = "event.2",
        /// ... for `event.3`.
        Event3 = "event.3",
        /// ... for `event.4`.
        Event4 = "event.4",
        /// ... for `event.5`.
        Event5 = "event.5",
        /// CPUs that a thread may use, if fewer than the machine has.
        CpuAllowed = "cpu.allowed",
        /// Bytes that an unrecorded program sent over a link shared with recorded connections, accumulated.
        LinkSentBytes = "link.sent_bytes",
        /// ... and received.
        LinkReceivedBytes = "link.received_bytes",
        /// The round trip as arriving data shows it: from an acknowledgement to data sent after it.
        TcpReceiveRttUs = "tcp.receive_rtt_us",
        /// Segments that arrived before an earlier one, accumulated.
        TcpOutOfOrder = "tcp.out_of_order",
        /// The receive window that this end offers.
        TcpOfferedWindowBytes = "tcp.offered_window_bytes",
        /// Bytes the program has written and the peer has not acknowledged, sent or not.
        TcpQueuedBytes = "tcp.queued_bytes",
        /// Connections that the listener of this end has not accepted yet.
        TcpAcceptQueued = "tcp.accept_queued",
    }
}

closed_set! {
    /// The context in which a wait was ended. The waker's track is the cause only in `Task`; in interrupt context the
    /// interrupted thread is not the waker.
    WakerContext {
        /// A thread.
        Task = "task",
        /// A software interrupt (the network).
        Softirq = "softirq",
        /// A hardware interrupt (a device).
        Hardirq = "hardirq",
        /// A timer.
        Timer = "timer",
    }
}

closed_set! {
    /// The kind of a track.
    TrackKind {
        /// A thread of a process.
        Thread = "thread",
        /// A connection.
        Connection = "connection",
        /// A device.
        Device = "device",
        /// A CPU.
        Cpu = "cpu",
        /// A network link.
        Link = "link",
    }
}

closed_set! {
    /// The side on whose behalf a track works.
    Role {
        /// The requesting side.
        Client = "client",
        /// The serving side.
        Server = "server",
        /// The kernel, in threads of its own.
        Kernel = "kernel",
        /// The recorder.
        Recorder = "recorder",
        /// None of these.
        None = "none",
    }
}

closed_set! {
    /// The kind of an object.
    ObjectKind {
        /// A file.
        File = "file",
        /// A connection.
        Connection = "connection",
        /// A device.
        Device = "device",
        /// A server.
        Server = "server",
        /// A mount.
        Mount = "mount",
        /// A collective on a communicator of an MPI job, or the messages from one rank to another.
        Communicator = "communicator",
        /// A pipe or FIFO: what one side writes the other reads.
        Pipe = "pipe",
        /// A socket that is not a TCP connection: a Unix socket or a datagram socket.
        Socket = "socket",
        /// A terminal: input depends on a person.
        Terminal = "terminal",
        /// A lock, condition or work queue (futex, file lock, semaphore, eventfd).
        Lock = "lock",
        /// A process that others wait for as a whole.
        Process = "process",
        /// A control group with a CPU quota.
        Cgroup = "cgroup",
        /// A parameter changed by a tuner.
        Parameter = "parameter",
        /// A name looked up at a server.
        Name = "name",
    }
}

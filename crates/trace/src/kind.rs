//! The closed sets of the trace model: one list each, with the name that stands on disk.

use serde::{Deserialize, Serialize};

/// Declares a closed set: an enum, `ALL`, `name()` and `from_name()`, from one list.
macro_rules! closed_set {
    ($(#[$doc:meta])* $set:ident { $($(#[$item_doc:meta])* $item:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum $set { $($(#[$item_doc])* $item),+ }

        impl $set {
            /// Every member, in the order of its number.
            pub const ALL: &'static [$set] = &[$($set::$item),+];

            /// The name that stands in recordings and documents.
            pub const fn name(self) -> &'static str {
                match self { $($set::$item => $name),+ }
            }

            /// The member with this name, if there is one.
            pub fn from_name(name: &str) -> Option<$set> {
                match name { $($name => Some($set::$item),)+ _ => None }
            }
        }
    };
}

closed_set! {
    /// What a span is.
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
        /// Handing bytes to a connection.
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
        /// MPI point to point, where no message has come or gone yet: the posting of a receive.
        MpiMessage = "mpi.message",
        /// MPI collective.
        MpiCollective = "mpi.collective",
        /// Waiting in MPI for what was posted before.
        MpiWait = "mpi.wait",
        /// Any other MPI call.
        MpiOther = "mpi.other",
        /// A thread running.
        CpuRun = "cpu.run",
        /// A thread runnable and not running.
        WaitRunqueue = "wait.runqueue",
        /// A thread blocked on a device.
        WaitDisk = "wait.disk",
        /// A thread blocked on the network.
        WaitNetwork = "wait.network",
        /// A thread blocked on a lock, a condition or a queue of another thread's.
        WaitLock = "wait.lock",
        /// A thread asleep until a time.
        WaitTimer = "wait.timer",
        /// A thread blocked on memory: reclaim, faults, dirty throttling.
        WaitMemory = "wait.memory",
        /// A thread blocked on something else.
        WaitOther = "wait.other",
        /// One request: what an application asks in one piece. Parent of what it consists of.
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
        /// Cutting a file off, or making it longer without writing; opening it with O_TRUNC.
        FileTruncate = "file.truncate",
        /// Removing a file or directory.
        FileRemove = "file.remove",
        /// Renaming one.
        FileRename = "file.rename",
        /// Making a directory, a link or a special file.
        FileCreate = "file.create",
    }
}

closed_set! {
    /// What an instant marks.
    MarkKind {
        /// TCP sent a segment again. `value`: bytes.
        TcpRetransmit = "tcp.retransmit",
        /// TCP's retransmission timer expired.
        TcpTimeout = "tcp.timeout",
        /// The peer's receive window closed.
        TcpZeroWindow = "tcp.zero_window",
        /// An RPC was sent again.
        RpcRetransmit = "rpc.retransmit",
        /// An RPC's timer expired.
        RpcTimeout = "rpc.timeout",
        /// Events were lost on this track up to this instant. `value`: how many; the interval began
        /// at the track's previous event.
        Lost = "lost",
        /// The thread of this track was made. `value`: the track of the thread that made it.
        ThreadStart = "thread.start",
        /// The thread of this track ended. `value`, of a process's first thread: the status it ended with, 128 and the signal's number where one
        /// ended it.
        ThreadExit = "thread.exit",
        /// The thread of this track is recorded from here on, and was there before.
        ThreadSeen = "thread.seen",
        /// The process of this track's thread can be called, or was. `value`: the sum of [`called`](crate::called) by what.
        ProcessCalled = "process.called",
        /// The request for a connection was sent again: it, or its answer, was lost, or the listener dropped it.
        /// `value`: how long after the first, in nanoseconds.
        TcpSynRetransmit = "tcp.syn_retransmit",
        /// Nagle's algorithm had held a small segment back, until what was in flight was acknowledged now. `value`: for how long, in nanoseconds.
        TcpNagle = "tcp.nagle",
        /// TCP sends again after a pause, with a smaller congestion window. `value`: segments.
        TcpIdleRestart = "tcp.idle_restart",
        /// The connection was accepted after its listener's queue had been full. `value`: requests dropped since the one before.
        TcpAcceptQueue = "tcp.accept_queue",
        /// Nobody had accepted the connection a while after it was asked for. On a thread of the process that listens there. `value`: how long
        /// after, in nanoseconds.
        TcpNotAccepted = "tcp.not_accepted",
        /// A tuner has tried a value of a parameter, and decided. The object is the parameter, with `from`, `to`, `before_bytes_per_s`,
        /// `after_bytes_per_s`, `kept` and `why` as attributes. `value`: the parameter's from here on.
        TuneStep = "tune.step",
        /// The thread of this track has asked for a name. The object is the name, with the attribute `server`. `value`: what it asked for, as RFC 1035 numbers
        /// it (1 an IPv4 address, 28 an IPv6 address, 12 the name of an address).
        NameAsked = "name.asked",
        /// The same thread has its answer. `value`: [`lookup`](crate::lookup).
        NameAnswered = "name.answered",
        /// The thread of this track was sent a signal. `value`: its number; the object is the process that sent it, none where the kernel did.
        Signal = "signal",
        /// A task of a runtime that moves its tasks between threads (a goroutine of Go) waits for a mutex, on this thread so far. The object is the mutex, the
        /// `value` the task's number.
        TaskLockAwaited = "task_lock.awaited",
        /// A task was let go on, found the mutex taken by another, and waits on. Object and `value` are as above.
        TaskLockAwaitedAgain = "task_lock.awaited_again",
        /// A task lets one of those that wait for a mutex go on. The object is the mutex, the `value` the number of the task that had it.
        TaskLockHandedOn = "task_lock.handed_on",
    }
}

closed_set! {
    /// What a counter counts. Units are in the names.
    CounterName {
        /// TCP's congestion window, in bytes.
        TcpCwndBytes = "tcp.cwnd",
        /// TCP's slow-start threshold, in bytes.
        TcpSsthreshBytes = "tcp.ssthresh",
        /// TCP's smoothed round-trip time.
        TcpSrttUs = "tcp.srtt_us",
        /// Bytes sent and not acknowledged.
        TcpInFlightBytes = "tcp.in_flight_bytes",
        /// The window the peer offers.
        TcpReceiveWindowBytes = "tcp.receive_window_bytes",
        /// The size of the send buffer, as `getsockopt` reports it.
        TcpSendBufferBytes = "tcp.send_buffer_bytes",
        /// Bytes the program has sent and TCP has not.
        TcpUnsentBytes = "tcp.unsent_bytes",
        /// Bytes that arrived and that the program has not read.
        TcpUnreadBytes = "tcp.unread_bytes",
        /// The least round-trip time TCP has seen.
        TcpMinRttUs = "tcp.min_rtt_us",
        /// TCP's accumulated time with data outstanding.
        TcpBusyUs = "tcp.busy_us",
        /// ... of it stopped by the peer's receive window.
        TcpReceiveWindowLimitedUs = "tcp.rwnd_limited_us",
        /// ... of it stopped by the send buffer.
        TcpSendBufferLimitedUs = "tcp.sndbuf_limited_us",
        /// RPCs sent and unanswered.
        RpcPending = "rpc.pending",
        /// How many RPCs a client lets itself have pending.
        RpcWindow = "rpc.window",
        /// A thread's accumulated time running.
        CpuRunNs = "cpu.run_ns",
        /// A thread's accumulated time runnable and not running.
        CpuRunqueueNs = "cpu.runqueue_ns",
        /// A thread's or control group's accumulated time stopped by a processor quota.
        CpuThrottledNs = "cpu.throttled_ns",
        /// A processor's accumulated time in software interrupts.
        CpuSoftirqNs = "cpu.softirq_ns",
        /// A thread's accumulated bytes read, as its I/O accounting says (files, pipes and sockets).
        IoReadBytes = "io.read_bytes",
        /// A thread's accumulated bytes written.
        IoWriteBytes = "io.write_bytes",
        /// A thread's accumulated calls that read.
        IoReadCalls = "io.read_calls",
        /// A thread's accumulated calls that write.
        IoWriteCalls = "io.write_calls",
        /// Dirty pages of the page cache.
        MemoryDirtyBytes = "memory.dirty_bytes",
        /// Bytes of a file that were asked for and had been fetched ahead, accumulated.
        AheadHitBytes = "ahead.hit_bytes",
        /// ... that were asked for and had not.
        AheadMissBytes = "ahead.miss_bytes",
        /// ... that were fetched ahead and not asked for.
        AheadWastedBytes = "ahead.wasted_bytes",
        /// Bytes of the stream that the peer has acknowledged, accumulated: they have crossed the wire.
        TcpAckedBytes = "tcp.acked_bytes",
        /// Bytes of the stream that have arrived, accumulated.
        TcpReceivedBytes = "tcp.received_bytes",
        /// A processor's accumulated time with nothing to run, as the scheduler's switches say.
        CpuIdleNs = "cpu.idle_ns",
        /// A processor's accumulated time in hard interrupts, which no sample sees.
        CpuHardirqNs = "cpu.hardirq_ns",
        /// A processor's accumulated time that the hypervisor gave to others.
        CpuStealNs = "cpu.steal_ns",
        /// Regular files that a thread has opened, accumulated.
        FileOpens = "file.opens",
        /// ... of them created by that.
        FileCreates = "file.creates",
        /// Times that a thread has asked for a file's attributes (stat, fstat, statx), accumulated.
        FileStats = "file.stats",
        /// Names that a thread has removed, directories' aside, accumulated.
        FileRemoves = "file.removes",
        /// Names that a thread has changed, accumulated.
        FileRenames = "file.renames",
        /// Names that listings have given a thread, `.` and `..` aside, accumulated.
        FileListed = "file.listed",
        /// Regular files that a thread has begun to read from their beginning, through the page cache, accumulated: where opens are not counted.
        FileReads = "file.reads",
        /// A processor's or a process' accumulated time in programs' own code, as the kernel's clock ticks say.
        CpuUserNs = "cpu.user_ns",
        /// ... in the kernel on their behalf.
        CpuSystemNs = "cpu.system_ns",
        /// What a processor's counter of events counted up to the sample at this instant; `event.0` of the recording's attributes says which events.
        Event0 = "event.0",
        /// The same of `event.1`.
        Event1 = "event.1",
        /// ... `event.2`.
        Event2 = "event.2",
        /// ... `event.3`.
        Event3 = "event.3",
        /// ... `event.4`.
        Event4 = "event.4",
        /// ... `event.5`.
        Event5 = "event.5",
        /// Processors that a thread may use, where they are fewer than there are.
        CpuAllowed = "cpu.allowed",
        /// What a program that is not recorded has sent over a link that recorded connections go over, accumulated.
        LinkSentBytes = "link.sent_bytes",
        /// ... that it has received.
        LinkReceivedBytes = "link.received_bytes",
    }
}

closed_set! {
    /// The context in which a wait was ended. Only in `Task` is the waker's track the cause; in
    /// interrupt context the interrupted thread is not the waker.
    WakerContext {
        /// A thread ended the wait.
        Task = "task",
        /// A software interrupt did (the network).
        Softirq = "softirq",
        /// A hardware interrupt did (a device).
        Hardirq = "hardirq",
        /// A timer did.
        Timer = "timer",
    }
}

closed_set! {
    /// What a track is.
    TrackKind {
        /// A thread of a process.
        Thread = "thread",
        /// A connection.
        Connection = "connection",
        /// A device.
        Device = "device",
        /// A processor.
        Cpu = "cpu",
        /// A network link.
        Link = "link",
    }
}

closed_set! {
    /// On whose behalf a track works.
    Role {
        /// The side that asks.
        Client = "client",
        /// The side that serves.
        Server = "server",
        /// The kernel's own threads.
        Kernel = "kernel",
        /// The recorder.
        Recorder = "recorder",
        /// Nobody's of the above.
        None = "none",
    }
}

closed_set! {
    /// What an object is.
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
        /// What ranks of an MPI job do together: a collective on a communicator, or messages from one to another.
        Communicator = "communicator",
        /// A pipe or FIFO: what one side writes the other reads.
        Pipe = "pipe",
        /// A socket that is no TCP connection: of the machine (unix), or one for datagrams.
        Socket = "socket",
        /// A terminal: somebody types, or does not.
        Terminal = "terminal",
        /// A lock, condition or queue of work (futex, file lock, semaphore, eventfd).
        Lock = "lock",
        /// A process that is waited for as a whole.
        Process = "process",
        /// A control group that has a processor quota.
        Cgroup = "cgroup",
        /// A parameter that a tuner has turned.
        Parameter = "parameter",
        /// A name that was asked for, of one server.
        Name = "name",
    }
}

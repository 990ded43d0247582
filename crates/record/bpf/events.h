/* Records from the programs to the reader: of fixed size, in one ring, each beginning with `struct head`.
 *
 * src/bpf/raw.rs has the same structures; a test there compares the sizes. Times are nanoseconds of CLOCK_MONOTONIC.
 * A thread is named by its *serial*, assigned once to each thread seen and never reused, so that a reused process id
 * causes no confusion. 0 always means absent. */
#ifndef THALWEG_EVENTS_H
#define THALWEG_EVENTS_H

enum record_kind {
	RECORD_THREAD = 1,	/* a thread was first seen, or changed its name */
	RECORD_OFF = 2,		/* an interval in which a thread was off the CPU */
	RECORD_NET = 3,		/* merged sends or receives of one thread on one connection */
	RECORD_CONNECTION = 4,	/* the two ends of a connection */
	RECORD_TCP = 5,		/* TCP's state of a connection */
	RECORD_TCP_MARK = 6,	/* a retransmission, or a window that closed */
	RECORD_BLOCK = 7,	/* a block request was completed */
	RECORD_SAMPLE = 8,	/* what a watched thread was doing at one instant */
	RECORD_EXIT = 9,	/* a thread's last run */
	RECORD_FILE = 10,	/* the path of a file */
	RECORD_CALL = 11,	/* merged system calls (tier `syscall`) */
	RECORD_WIRE = 12,	/* the position of one direction of a connection */
	RECORD_PEER = 13,	/* the peer of an unconnected socket, or that it received before it sent */
	RECORD_SITE = 14,	/* where in the kernel a thread being woken slept */
	RECORD_NAMES = 15,	/* counts of a thread's files and names so far */
	RECORD_ASK = 17,	/* the beginning of an HTTP request */
	RECORD_QUESTION = 18,	/* a name lookup's question or answer */
	RECORD_SIGNAL = 19,	/* a thread was sent a signal that ends processes */
	RECORD_WORDS = 20,	/* output to standard error */
	RECORD_UNIX = 21,	/* the path at which a Unix socket connected */
	RECORD_LINK = 22,	/* bytes an unrecorded process has moved over a link */
	RECORD_TASK_LOCK = 23,	/* a goroutine waits for a mutex, or releases a mutex that others wait for */
	RECORD_LOOK = 16,	/* a call that found nothing (or found something it had not found before), or the path of a waiting call */
};

enum role { ROLE_NONE, ROLE_CLIENT, ROLE_SERVER, ROLE_KERNEL, ROLE_RECORDER };

enum wake_context { CONTEXT_NONE, CONTEXT_TASK, CONTEXT_SOFTIRQ, CONTEXT_HARDIRQ, CONTEXT_TIMER };

/* Flags of RECORD_OFF and RECORD_SAMPLE. */
#define OFF_IOWAIT 1u		/* counted as waiting for I/O */
#define OFF_THROTTLED 2u	/* the page cache throttled it (balance_dirty_pages) */
#define OFF_WRITEBACK 4u	/* waits for pages under writeback */
#define OFF_KERNEL_THREAD 8u
#define OFF_OPEN 16u		/* had not ended when the recording ended */
#define OFF_NEW 32u		/* the thread's first: from its creation to its first run */
#define OFF_FAULT_FILE 64u	/* file[0] is the mapped file of the last fault */
#define OFF_EXITING 128u	/* RECORD_EXIT: the exit has begun, and may still wait */
#define OFF_QUOTA 2048u		/* throttled by a CPU quota */
#define OFF_CONDITION 4096u	/* futex(2): not a wait for a mutex */
#define OFF_SHARED 8192u	/* futex(2): in memory shared by processes */
#define OFF_MUTEX 32768u	/* futex(2): a contended mutex */
#define OFF_POLLS_NOTHING 16384u	/* poll(2), select(2): without descriptors, as a sleep */
#define SAMPLE_USER 256u	/* in the program's own code */
#define SAMPLE_SOFTIRQ 512u	/* a software interrupt had borrowed the thread */
#define SAMPLE_HARDIRQ 1024u

/* No system call: a fault or an interrupt, or a thread that makes none. */
#define CALL_FAULT (-1)
#define CALL_NONE (-2)

struct head {
	__u16 kind;
	__u16 cpu;
	__u32 thread;
	__u64 at_ns;
};

/* The object that a descriptor refers to. */
struct fd_object {
	__u64 id;	/* TCP: the socket's cookie, or its inode with the top bit set; otherwise the inode number */
	__u32 device;	/* of the file system; for sockets: family | protocol << 8 | type << 16 */
	__u32 mode;	/* the inode's mode; 0: not resolved */
	__s32 fd;
	__u32 access;	/* bits: 0 read, 1 write, 16 each write is synced, 17 eventfd, 18 O_TRUNC (of a call with a path), 20 inotify queue */
};

/* A thread's totals since it began (its I/O accounting), and the part of the bytes that belongs to connections. */
struct io_totals {
	__u64 read_bytes;
	__u64 write_bytes;
	__u64 read_calls;
	__u64 write_calls;
	__u64 net_read_bytes;	/* read(2) and similar calls on connections: also in read_bytes */
	__u64 net_write_bytes;	/* write(2) and similar calls on connections: also in write_bytes */
	__u64 net_read_calls;
	__u64 net_write_calls;
};

struct record_thread {
	struct head head;
	__u32 tid;
	__u32 pid;
	__u32 parent;	/* serial of its creator */
	__u32 role;
	__u64 start_ns;	/* creation time, since boot */
	__u32 task_flags;
	__u32 parent_pid;
	char name[16];
	__u32 depth;	/* distance in threads from a named process or its child; 0 for those */
	__u32 allowed;	/* CPUs it may use */
	__u64 slept_ns;	/* when first seen: how long it has been off the CPU */
};

/* `head.at_ns`: when it ran again. */
struct record_off {
	struct head head;
	__u64 run_ns;	/* start of its previous run */
	__u64 out_ns;	/* when it was switched out */
	__u64 wake_ns;	/* when it was woken; 0: it never slept, or the wake-up was not seen */
	__s32 call;
	__u32 flags;
	__u32 state;	/* the scheduler's; 0: runnable */
	__u32 waker;	/* serial */
	__u32 context;
	__u32 wake_device;
	__u64 wake_connection;
	__u64 polled_connection; /* connection of its last fruitless receive */
	__u32 holder;	/* serial of the thread that ran before it on that CPU */
	__u32 stop_signal;
	__u64 argument;	/* the call's first argument */
	struct fd_object file[2];
	struct io_totals io;
};

struct record_net {
	struct head head;	/* at_ns: end of the last call */
	__u64 connection;
	__u64 first_ns;		/* end of the first call */
	__u64 end_bytes;	/* position in the stream after the last call */
	__u64 bytes;
	__u32 count;
	__s32 result;		/* -11: fruitless receives */
	__u32 direction;	/* 0 sent, 1 received */
	__u32 pad;
};

struct record_connection {
	struct head head;
	__u64 connection;
	__u64 inode;		/* of the socket */
	__u32 namespace;
	__u16 family;
	__u16 end;		/* 1 client, 2 server, 0 unknown */
	__u16 local_port;
	__u16 remote_port;
	__u32 state;
	__u8 local[16];
	__u8 remote[16];
	__u64 link;		/* the device its packets leave by */
	__u8 link_name[16];
};

struct record_link {
	struct head head;
	__u64 link;
	__u64 bytes;		/* since it was first seen */
	__u32 direction;	/* 0 sent, 1 received */
	__u32 pid;
	__u8 link_name[16];
	__u8 name[16];		/* of the process */
};

struct record_tcp {
	struct head head;
	__u64 connection;
	__u32 cwnd;		/* segments */
	__u32 ssthresh;		/* segments */
	__u32 mss;
	__u32 srtt_us;
	__u32 min_rtt_us;
	__u32 in_flight_bytes;
	__u32 peer_window_bytes;
	__u32 send_buffer_bytes;
	__u32 unsent_bytes;
	__u32 unread_bytes;
	__u32 busy_jiffies;
	__u32 rwnd_limited_jiffies;
	__u32 sndbuf_limited_jiffies;
	__u32 state;		/* of congestion avoidance */
};

struct record_tcp_mark {
	struct head head;
	__u64 connection;
	__u32 what;	/* TCP_MARK_* */
	__u32 value;
};

enum tcp_mark {
	TCP_MARK_RETRANSMIT = 1,	/* value: bytes */
	TCP_MARK_TIMEOUT = 2,
	TCP_MARK_ZERO_WINDOW = 3,
	TCP_MARK_SYN = 4,		/* the connection request was retransmitted; value: microseconds after the first */
	TCP_MARK_NAGLE = 5,		/* a small segment was delayed; value: for how long, in microseconds */
	TCP_MARK_RESTART = 6,		/* the congestion window was reduced after idling; value: to how many segments */
	TCP_MARK_ACCEPT_QUEUE = 7,	/* the listener had dropped requests; value: how many since the last connection */
	TCP_MARK_FAILED = 8,		/* the connection failed; value: the error number */
};

/* `head.at_ns`: when it reached `bytes`. It had been at `from_bytes` since `from_ns`. */
struct record_wire {
	struct head head;
	__u64 connection;
	__u64 from_ns;		/* 0: unknown */
	__u64 from_bytes;
	__u64 bytes;
	__u64 left_ns;		/* nothing was in flight from `from_ns` until this time; 0: something was */
	__u32 direction;	/* 0 acknowledged, 1 arrived */
	__u32 pad;
};

struct record_block {
	struct head head;	/* at_ns: completion; thread: who asked for it; 0: unknown */
	__u64 issue_ns;
	__u64 sector;
	__u32 bytes;
	__u32 device;
	__u32 operation;	/* 0 read, 1 write, 2 flush, 3 discard and others; above the low byte: written back by the page cache */
	__s32 error;
};

struct record_sample {
	struct head head;
	__s32 call;
	__u32 flags;
	struct fd_object file[2];
	struct io_totals io;
	__u64 run_ns;		/* start of its run; 0: it came back unseen, so the start is known only at its next switch */
	__u64 period_ns;	/* time it represents */
	__u64 address;		/* of the instruction: in the program with SAMPLE_USER, otherwise in the kernel */
};

/* A thread's last run (or what is known of it when the recording ends). */
struct record_exit {
	struct head head;
	__u64 run_ns;
	__u32 flags;
	__u32 allowed;	/* CPUs it may use */
	__u32 code;	/* its process's exit status, as in wait(2) */
	__u32 pad;
	struct io_totals io;
	char name[16];
};

/* In `access`: the path begins at the top of the file system, wherever it is mounted. */
#define ACCESS_WITHIN (1u << 31)
#define ACCESS_TRUNCATES (1u << 18)
#define ACCESS_DIRECT (1u << 19)

#define PATH_PARTS 24
#define PATH_BYTES 1024

/* Parts of the path from the last to the first, each ended by a 0. */
struct record_file {
	struct head head;
	__u64 inode;
	__u64 size_bytes;
	__u32 device;
	__u32 mode;
	__u32 access;
	__u32 used;	/* bytes of `path` in use */
	char path[PATH_BYTES + 256];
};

#define SITE_FUNCTIONS 12

struct record_site {
	struct head head;
	__u64 function[SITE_FUNCTIONS];	/* addresses, innermost first */
};

/* Counted operations; removals and renames within an overlay are counted separately, since the file system below
 * counts them again. */
enum name_count {
	NAMES_OPENED,
	NAMES_CREATED,
	NAMES_STATED,
	NAMES_LISTED,
	NAMES_REMOVED,
	NAMES_REMOVED_IN_OVERLAY,
	NAMES_RENAMED,
	NAMES_RENAMED_IN_OVERLAY,
	NAMES_READ,	/* from the start of a file; used where opens are not counted */
};

#define NAME_COUNTS 9

/* Totals since recording of the thread began. */
struct record_names {
	struct head head;
	__u64 count[NAME_COUNTS];
};

/* Flags of RECORD_LOOK. */
#define LOOK_WAITS 1u	/* the call has not returned: the thread leaves the CPU in it */

#define LOOK_FAILED 2u	/* it failed for lack of a resource, whether or not it is a lookup */

#define LOOK_BYTES 256

struct record_look {
	struct head head;	/* at_ns: when the call returned, or the thread was switched out */
	__u64 directory;	/* inode number of the directory where the path starts; 0: the root, or no path */
	__u64 argument;		/* the call's first argument */
	__u32 directory_device;
	__s32 call;
	__s32 result;
	__u32 flags;
	__u32 used;		/* bytes of `path` in use */
	__u32 pad;
	struct fd_object file;	/* for a call on a descriptor */
	char path[LOOK_BYTES];
};

#define ASK_BYTES 512

struct record_ask {
	struct head head;	/* at_ns: when it was sent */
	__u64 connection;
	__u32 used;	/* bytes of `text` in use */
	__u32 pad;
	char text[ASK_BYTES];
};

#define UNIX_BYTES 128

struct record_unix {
	struct head head;
	__u64 inode;	/* of the calling socket */
	__u32 used;	/* bytes of `path` in use */
	__u32 pad;
	char path[UNIX_BYTES];
};

#define WORDS_BYTES 256

struct record_words {
	struct head head;	/* at_ns: when it was written */
	__u32 used;		/* bytes of `text` in use */
	__u32 pad;
	char text[WORDS_BYTES];	/* the end of the output */
};

#define QUESTION_BYTES 512

struct record_question {
	struct head head;	/* at_ns: when it was sent or received */
	__u64 inode;		/* of the socket */
	__u64 address[2];	/* of the server: IPv6, or IPv4 mapped, in network byte order */
	__u16 port;
	__u16 direction;	/* 0 sent, 1 received */
	__s32 result;		/* of the call: bytes, or the error */
	__u32 used;		/* bytes of `text` in use */
	__u32 pad;
	char text[QUESTION_BYTES];	/* beginning of the message (RFC 1035, section 4) */
};

struct record_signal {
	struct head head;	/* at_ns: when it was sent; thread: the recipient */
	__u32 signal;
	__u32 by_kernel;	/* sent by the kernel: a fault, a limit, out of memory */
	__u32 sender_pid;
	__u32 pad;
	char sender[16];	/* its name */
};

/* Flags of RECORD_PEER. */
#define PEER_ASKED 1u	/* the socket received before it sent anything: it has no peer yet */
#define PEER_CHOSEN 2u	/* and its program chose its port */

struct record_peer {
	struct head head;
	__u64 inode;		/* of the socket */
	__u16 family;
	__u16 port;
	__u32 flags;		/* PEER_* */
	__u64 address[2];	/* IPv6, or IPv4 mapped, in network byte order */
};

/* The task waits for the mutex; it was woken, found the mutex taken and waits again; it releases the mutex and wakes a waiter. */
#define TASK_AWAITS 0
#define TASK_AWAITS_AGAIN 1
#define TASK_HANDS_ON 2

/* A mutex of a runtime that schedules its own tasks (Go's goroutines): the kernel sees no wait. */
struct record_task_lock {
	struct head head;
	__u64 lock;		/* its address in the program */
	__u64 task;
	__u64 stack;		/* the stack pointer: it changes where a function restarts to grow its stack */
	__u32 what;		/* TASK_* */
	__u32 pad;
};

struct record_call {
	struct head head;	/* at_ns: end of the last call */
	__u64 start_ns;		/* start of the first call */
	__u64 bytes;
	__u64 busy_ns;		/* total duration of the calls */
	__s64 result;		/* of the last call */
	__u64 offset_bytes;	/* ~0: unknown */
	__s32 call;
	__u32 count;
	__u32 blocked;		/* the thread left the CPU in it */
	__u32 pad;
	struct fd_object file[2];
};

#endif

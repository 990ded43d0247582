/* What the programs send the reader: records of fixed size in one ring, all beginning with `struct head`.
 *
 * The same structures stand in src/bpf/raw.rs; a test there holds the sizes against each other. Times are nanoseconds of
 * CLOCK_MONOTONIC. A thread is named by its *serial*, given once to each thread that is seen and never again, so that
 * a reused process number cannot be mistaken. 0 means absent everywhere. */
#ifndef THALWEG_EVENTS_H
#define THALWEG_EVENTS_H

enum record_kind {
	RECORD_THREAD = 1,	/* a thread was seen for the first time, or changed its name */
	RECORD_OFF = 2,		/* an interval in which a thread did not run */
	RECORD_NET = 3,		/* merged sends or receives of one thread on one connection */
	RECORD_CONNECTION = 4,	/* who is at the two ends of a connection */
	RECORD_TCP = 5,		/* what TCP says of a connection */
	RECORD_TCP_MARK = 6,	/* something was sent again, or a window closed */
	RECORD_BLOCK = 7,	/* a block request was completed */
	RECORD_SAMPLE = 8,	/* what a watched thread was doing at one instant */
	RECORD_EXIT = 9,	/* a thread's last run */
	RECORD_FILE = 10,	/* the path of a file */
	RECORD_CALL = 11,	/* merged system calls (tier `syscall`) */
	RECORD_WIRE = 12,	/* how far one direction of a connection has come */
	RECORD_PEER = 13,	/* to whom a socket without connections sends, or that it was sent something first */
	RECORD_SITE = 14,	/* where in the kernel a thread sleeps that is being woken */
	RECORD_NAMES = 15,	/* how many files and names a thread dealt with so far */
	RECORD_ASK = 17,	/* how a request of HTTP begins */
	RECORD_QUESTION = 18,	/* a question for a name, or what came back */
	RECORD_SIGNAL = 19,	/* a thread was sent a signal that ends processes */
	RECORD_WORDS = 20,	/* what was written to standard error */
	RECORD_UNIX = 21,	/* the path at which a socket of this machine has called somebody */
	RECORD_LINK = 22,	/* how much a process that is not recorded has moved over a link */
	RECORD_TASK_LOCK = 23,	/* a task of a runtime waits for a mutex, or lets others that wait go on */
	RECORD_LOOK = 16,	/* a call that found nothing (or something, after it had found nothing), or the path of one that waits */
};

enum role { ROLE_NONE, ROLE_CLIENT, ROLE_SERVER, ROLE_KERNEL, ROLE_RECORDER };

enum wake_context { CONTEXT_NONE, CONTEXT_TASK, CONTEXT_SOFTIRQ, CONTEXT_HARDIRQ, CONTEXT_TIMER };

/* Flags of RECORD_OFF and RECORD_SAMPLE. */
#define OFF_IOWAIT 1u		/* counted as waiting for I/O */
#define OFF_THROTTLED 2u	/* the page cache made it wait (balance_dirty_pages) */
#define OFF_WRITEBACK 4u	/* waits for pages being written */
#define OFF_KERNEL_THREAD 8u
#define OFF_OPEN 16u		/* had not ended when the recording did */
#define OFF_NEW 32u		/* the thread's first: from its making to its first run */
#define OFF_FAULT_FILE 64u	/* file[0] is the mapped file of the last fault */
#define OFF_EXITING 128u	/* RECORD_EXIT: it begins to end, and may still wait */
#define OFF_QUOTA 2048u		/* a processor quota stopped it */
#define OFF_CONDITION 4096u	/* futex(2): not as a mutex waits */
#define OFF_SHARED 8192u	/* futex(2): in memory that processes share */
#define OFF_MUTEX 32768u	/* futex(2): for a mutex that others wait for */
#define OFF_POLLS_NOTHING 16384u	/* poll(2), select(2): of no descriptor, to sleep */
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

/* What a descriptor stands for. */
struct fd_object {
	__u64 id;	/* TCP: the socket's cookie, or its inode with the top bit set; else the inode's number */
	__u32 device;	/* of the file system; sockets: family | protocol << 8 | type << 16 */
	__u32 mode;	/* the inode's mode; 0: not resolved */
	__s32 fd;
	__u32 access;	/* bit 0 read, 1 write; bit 16: each write is synced; bit 17: an eventfd, bit 20: an inotify queue; of a call with a path bit 18: O_TRUNC */
};

/* A thread's totals since it began (its I/O accounting), and how much of the bytes were of connections. */
struct io_totals {
	__u64 read_bytes;
	__u64 write_bytes;
	__u64 read_calls;
	__u64 write_calls;
	__u64 net_read_bytes;	/* read(2) and like calls on connections: also in read_bytes */
	__u64 net_write_bytes;	/* write(2) and like calls on connections: also in write_bytes */
	__u64 net_read_calls;
	__u64 net_write_calls;
};

struct record_thread {
	struct head head;
	__u32 tid;
	__u32 pid;
	__u32 parent;	/* serial of who made it */
	__u32 role;
	__u64 start_ns;	/* when it was made, since boot */
	__u32 task_flags;
	__u32 parent_pid;
	char name[16];
	__u32 depth;	/* over how many threads it was reached; 0: named, or made by one that was */
	__u32 allowed;	/* processors that it may use */
	__u64 slept_ns;	/* when it is first seen: for how long it has not run */
};

/* `head.at_ns`: when it ran again. */
struct record_off {
	struct head head;
	__u64 run_ns;	/* since when it had run before */
	__u64 out_ns;	/* when it was switched away */
	__u64 wake_ns;	/* when it was woken; 0: it never slept, or was not seen to be woken */
	__s32 call;
	__u32 flags;
	__u32 state;	/* the scheduler's; 0: it could have run on */
	__u32 waker;	/* serial */
	__u32 context;
	__u32 wake_device;
	__u64 wake_connection;
	__u64 polled_connection; /* on which its last receive was fruitless */
	__u32 holder;	/* serial: who ran before it on that processor */
	__u32 stop_signal;
	__u64 argument;	/* the call's first */
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
	__u16 end;		/* 1 client, 2 server, 0 not known */
	__u16 local_port;
	__u16 remote_port;
	__u32 state;
	__u8 local[16];
	__u8 remote[16];
	__u64 link;		/* the device by which its packets leave */
	__u8 link_name[16];
};

struct record_link {
	struct head head;
	__u64 link;
	__u64 bytes;		/* since it was met */
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
	TCP_MARK_SYN = 4,		/* the request for the connection was sent again; value: microseconds after the first */
	TCP_MARK_NAGLE = 5,		/* a small segment was held back; value: for how long, in microseconds */
	TCP_MARK_RESTART = 6,		/* the congestion window shrank in idleness; value: to how many segments */
	TCP_MARK_ACCEPT_QUEUE = 7,	/* the listener had dropped requests; value: how many since the last connection */
	TCP_MARK_FAILED = 8,		/* no connection came about; value: the error's number */
};

/* `head.at_ns`: when it came to `bytes`. It had been at `from_bytes` since `from_ns`. */
struct record_wire {
	struct head head;
	__u64 connection;
	__u64 from_ns;		/* 0: not known */
	__u64 from_bytes;
	__u64 bytes;
	__u64 left_ns;		/* nothing was under way from `from_ns` until now; 0: something was */
	__u32 direction;	/* 0 acknowledged, 1 arrived */
	__u32 pad;
};

struct record_block {
	struct head head;	/* at_ns: completed; thread: who asked for it; 0: not known */
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
	__u64 run_ns;		/* since when it runs; 0: it came back unseen, and when is only known at its next switch */
	__u64 period_ns;	/* how long it stands for */
	__u64 address;		/* of the instruction: the program's with SAMPLE_USER, else the kernel's */
};

/* A thread's last run (or what is known of one when the recording ends). */
struct record_exit {
	struct head head;
	__u64 run_ns;
	__u32 flags;
	__u32 allowed;	/* processors that it may use */
	__u32 code;	/* how its process ended, as wait(2) has it */
	__u32 pad;
	struct io_totals io;
	char name[16];
};

/* In `access`: the path begins at the top of the file system, wherever that is mounted. */
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

/* What is counted; of removals and renames apart: those in an overlay, which are counted below it again. */
enum name_count {
	NAMES_OPENED,
	NAMES_CREATED,
	NAMES_STATED,
	NAMES_LISTED,
	NAMES_REMOVED,
	NAMES_REMOVED_IN_OVERLAY,
	NAMES_RENAMED,
	NAMES_RENAMED_IN_OVERLAY,
	NAMES_READ,	/* from their beginning; where opens are not counted */
};

#define NAME_COUNTS 9

/* Totals since the thread is recorded. */
struct record_names {
	struct head head;
	__u64 count[NAME_COUNTS];
};

/* Flags of RECORD_LOOK. */
#define LOOK_WAITS 1u	/* the call has not returned: the thread leaves the processor in it */

#define LOOK_FAILED 2u	/* it failed for want of something, whether it looked for anything or not */

#define LOOK_BYTES 256

struct record_look {
	struct head head;	/* at_ns: when the call returned, or the thread was switched away */
	__u64 directory;	/* inode's number of the directory from which the path leads; 0: the root, or there is no path */
	__u64 argument;		/* the call's first */
	__u32 directory_device;
	__s32 call;
	__s32 result;
	__u32 flags;
	__u32 used;		/* bytes of `path` in use */
	__u32 pad;
	struct fd_object file;	/* of a call on a descriptor */
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
	__u64 inode;	/* of the socket that called */
	__u32 used;	/* bytes of `path` in use */
	__u32 pad;
	char path[UNIX_BYTES];
};

#define WORDS_BYTES 256

struct record_words {
	struct head head;	/* at_ns: when it was written */
	__u32 used;		/* bytes of `text` in use */
	__u32 pad;
	char text[WORDS_BYTES];	/* the end of it */
};

#define QUESTION_BYTES 512

struct record_question {
	struct head head;	/* at_ns: when it was sent, or taken */
	__u64 inode;		/* of the socket */
	__u64 address[2];	/* of who is asked: IPv6, IPv4 within it, as it is sent */
	__u16 port;
	__u16 direction;	/* 0 sent, 1 received */
	__s32 result;		/* of the call: bytes, or the error */
	__u32 used;		/* bytes of `text` in use */
	__u32 pad;
	char text[QUESTION_BYTES];	/* how the message begins (RFC 1035, section 4) */
};

struct record_signal {
	struct head head;	/* at_ns: when it was sent; thread: to whom */
	__u32 signal;
	__u32 by_kernel;	/* nobody's process sent it: a fault, a limit, memory ran out */
	__u32 sender_pid;
	__u32 pad;
	char sender[16];	/* its name */
};

/* Flags of RECORD_PEER. */
#define PEER_ASKED 1u	/* the socket has received before it sent anything: there is no peer yet */
#define PEER_CHOSEN 2u	/* and its port was chosen by its program */

struct record_peer {
	struct head head;
	__u64 inode;		/* of the socket */
	__u16 family;
	__u16 port;
	__u32 flags;		/* PEER_* */
	__u64 address[2];	/* of IPv6, IPv4 within it, as it is sent */
};

/* The task waits for the mutex; it was let go on, found the mutex taken, and waits on; it lets one of those that wait go on. */
#define TASK_AWAITS 0
#define TASK_AWAITS_AGAIN 1
#define TASK_HANDS_ON 2

/* A runtime that moves its tasks between threads (Go's goroutines): the kernel sees nothing of their mutexes. */
struct record_task_lock {
	struct head head;
	__u64 lock;		/* its address in the program */
	__u64 task;
	__u64 stack;		/* the stack pointer: a function that has to make the stack larger begins again, on another */
	__u32 what;		/* TASK_* */
	__u32 pad;
};

struct record_call {
	struct head head;	/* at_ns: end of the last */
	__u64 start_ns;		/* start of the first */
	__u64 bytes;
	__u64 busy_ns;		/* the calls' durations together */
	__s64 result;		/* of the last */
	__u64 offset_bytes;	/* ~0: not known */
	__s32 call;
	__u32 count;
	__u32 blocked;		/* it lost the processor in it */
	__u32 pad;
	struct fd_object file[2];
};

#endif

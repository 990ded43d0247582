/* What the recorder keeps of a thread. A profile beside it looks into this too: whom it records, and since when they waited. */
#ifndef THALWEG_THREAD_H
#define THALWEG_THREAD_H

struct net_run {
	__u64 connection;
	__u64 first_ns;
	__u64 last_ns;
	__u64 end_bytes;
	__u64 bytes;
	__u32 count;
	__s32 result;
};

enum { RUN_SENT, RUN_RECEIVED, RUN_FRUITLESS, RUNS };

struct call_run {
	__u64 start_ns;
	__u64 end_ns;
	__u64 busy_ns;
	__u64 bytes;
	__u64 offset_bytes;
	__s64 result;
	__s32 call;
	__u32 count;
	__u32 blocked;
	__u32 descriptor;
	__u64 open_file;	/* the kernel's address of it; 0: the call has none, or two */
	struct fd_object file[2];
};

/* Calls that take turns (read here, write there) each have a run of their own. */
#define CALL_RUNS 8

/* A program that goes to and fro between so many files has not begun to read another one each time. */
#define READ_LAST 4

/* How many files and names a thread dealt with. */
struct names {
	__u64 count[NAME_COUNTS];
	__u64 listed_last;
	__u64 read_last[READ_LAST];	/* marks of the files that were begun to be read last */
	__u32 read_next;
	__u32 fresh;	/* counted since it was emitted */
};

/* Whose other end was asked for last. */
struct asked {
	__u64 mark;	/* the object, as `cached_inode` has it */
	__u32 access;	/* the answer */
	__u32 pad;
};

/* One thread. Only the processor it runs on writes to it, but for the wake-up. */
struct thread {
	__u32 serial;
	__u32 role;
	__u32 emitted;
	__u32 depth;		/* as record_thread has it */
	__u64 in_ns;
	__u64 exec_ns;		/* how long it had run when it was switched away */
	__u64 wake_ns;
	__u64 wake_connection;
	__u32 waker;
	__u32 wake_context;
	__u32 wake_device;
	__u32 flags;		/* for the next switch away */
	__u64 polled_connection;
	__u64 net_bytes[2];	/* read, written through counted calls */
	__u64 net_calls[2];
	struct fd_object fault_file;
	__u64 fault_inode;
	struct net_run runs[RUNS];
	struct fd_object cached[2];
	__u64 cached_inode[2];
	__u64 cached_file;	/* the kernel's address of the first one's, as it was described last */
	struct asked asked;
	struct record_off off;
	struct names names;
	__u64 looks_ns;		/* since when its looks are counted */
	__u32 looks;
	__u32 in_net;		/* one of `runs` is being changed */
	/* Tier `syscall`. */
	__u64 call_start_ns;
	__u32 call_now;		/* number + 1; 0: none */
	__u32 call_blocked;
	__u64 call_offset;
	__u64 call_open_file;
	__u32 call_descriptor;
	__u32 call_same;	/* it goes on with the run that its place holds */
	struct fd_object call_file[2];
	struct call_run calls[CALL_RUNS];
};

#endif

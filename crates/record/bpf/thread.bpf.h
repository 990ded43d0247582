/* The recorder's state of a thread. A simultaneous profile reads it too: which threads are recorded, and since when
 * they wait. */
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
	__u64 open_file;	/* its kernel address; 0: the call has no descriptor, or two */
	struct fd_object file[2];
};

/* Alternating calls (read here, write there) each have a run of their own. */
#define CALL_RUNS 8

/* A program that alternates between up to this many files does not count as starting to read another one each time. */
#define READ_LAST 4

/* Counts of a thread's files and names. */
struct names {
	__u64 count[NAME_COUNTS];
	__u64 listed_last;
	__u64 read_last[READ_LAST];	/* hashes of the files whose reading began last */
	__u32 read_next;
	__u32 fresh;	/* counted since last emitted */
};

/* The object whose other end was requested last. */
struct asked {
	__u64 mark;	/* the object, as in `cached_inode` */
	__u32 access;	/* the answer */
	__u32 pad;
};

/* One thread. Only the CPU it runs on writes to it, except for wake-ups. */
struct thread {
	__u32 serial;
	__u32 role;
	__u32 emitted;
	__u32 depth;		/* as record_thread has it */
	__u64 in_ns;
	__u64 exec_ns;		/* how long it had run when it was switched out */
	__u64 wake_ns;
	__u64 wake_connection;
	__u32 waker;
	__u32 wake_context;
	__u32 wake_device;
	__u32 flags;		/* for the next switch out */
	__u64 polled_connection;
	__u64 net_bytes[2];	/* read and written by counted calls */
	__u64 net_calls[2];
	struct fd_object fault_file;
	__u64 fault_inode;
	struct net_run runs[RUNS];
	struct fd_object cached[2];
	__u64 cached_inode[2];
	__u64 cached_file;	/* kernel address of the first one's file, as last resolved */
	struct asked asked;
	struct record_off off;
	struct names names;
	__u64 looks_ns;		/* since when its polling calls are counted */
	__u32 looks;
	__u32 in_net;		/* one of `runs` is being changed */
	/* Tier `syscall`. */
	__u64 call_start_ns;
	__u32 call_now;		/* number + 1; 0: none */
	__u32 call_blocked;
	__u64 call_offset;
	__u64 call_open_file;
	__u32 call_descriptor;
	__u32 call_same;	/* it continues the run in its slot */
	struct fd_object call_file[2];
	struct call_run calls[CALL_RUNS];
};

#endif

/* Shared by the programs: their maps, how they emit, and which threads are watched. */
#ifndef THALWEG_SHARED_H
#define THALWEG_SHARED_H

#include "thread.bpf.h"

/* Set by the loader before the programs are verified. */
struct settings {
	__u32 trace_calls;	/* tier `syscall` */
	__u32 tcp_gap_ns;	/* minimum interval between two records of one connection */
	__u32 merge_ns;		/* maximum length of a run of sends or receives in one record */
	__u32 follow;		/* local threads that interact with a recorded one are recorded too */
	__u32 command_pid;	/* 0: none */
	__u32 wake_shift;	/* log2 of a quarter of the ring */
	__s32 call_sendto;
	__u32 pad;		/* the loader requires a multiple of eight bytes */
	__u16 call_flags[512];	/* CALL_* flags by call number */
};
const volatile struct settings settings = {};

#define CALL_FD0 1	/* the first argument is a descriptor */
#define CALL_FD1 2	/* the second too (sendfile) */
#define CALL_FD2 4	/* the third too (splice, copy_file_range) */
#define CALL_READS 8	/* the I/O accounting counts it as reading */
#define CALL_WRITES 16	/* ... as writing */
#define CALL_SLEEPS 32
#define CALL_RECORDED 128	/* recorded itself (tier `syscall`) */
#define CALL_POSITIONED 256 /* the fourth argument is a file offset */
#define CALL_POLLS_ONE 512 /* the first argument is an array of pollfd, the second its length */
#define CALL_POLLS 1024 /* waits for any of several descriptors */
#define CALL_FUTEX 2048
#define CALL_LOOKS 32768 /* its failure means that it polled for something */
#define CALL_PATH(flags) ((flags) >> 12 & 7) /* PATH_*: which argument is a path */

/* Which argument is a path, and which the descriptor of its starting directory. (Or what it is instead: an address,
 * sets of descriptors.) */
enum { PATH_NONE, PATH_FIRST, PATH_SECOND_AT, PATH_SECOND, PATH_FOURTH_AT, PATH_THIRD_AT, PATH_ADDRESS, PATH_SETS };

static __always_inline int is_path(__u32 flags)
{
	return CALL_PATH(flags) && CALL_PATH(flags) < PATH_ADDRESS;
}
#define CALL_OUT_FIRST 64 /* writes to the first descriptor, reads the second (sendfile) */

/* Progress of one direction of a connection on the wire. */
struct progress {
	__u64 last_ns;	/* when it last progressed; 0: not seen */
	__u64 emitted_ns;
	__u64 bytes;
	__u32 pending;	/* it has progressed since it was emitted */
	__u32 pad;
};

struct connection {
	__u32 followed;		/* its user is recorded; depth + 1 */
	__u32 emitted_cwnd;	/* as TCP's state was last emitted */
	__u32 emitted_window;
	__u32 emitted_in_flight;
	struct progress progress[2];	/* acknowledged, arrived */
	__u64 drained_ns;	/* since when nothing is in flight or unsent; 0: something is */
	__u32 drained_cwnd;
	__u32 drops;		/* for a listener: its drops, as last read */
	__u32 asker;		/* serial of the thread that requested it */
	__u32 asker_pid;
	__u64 cookie;
	__u64 emitted_ns;
	__u64 next_bytes[2];	/* position after the last call: sent, received */
	__u32 zero_window;
	__u32 in_loss;
	__u32 carries;		/* CARRIES_* */
	__u32 pad;
};

/* A task's time on a CPU. */
struct runner {
	__u64 from_ns;
	__u64 to_ns;
	__u64 start_ns;
	__u32 serial;	/* 0: none */
	__u32 machines_tid; /* 0: the CPU was idle */
	__u32 tid;
	__u32 pid;
	__u32 task_flags;
	__u32 pad;
	char name[16];
};

#define RUNNERS 16

/* A CPU's current interrupts and handled objects. */
struct processor {
	__u64 since_ns;		/* start of what runs now */
	__u32 last_runner;	/* index of the latest in `runners` */
	__u32 pad;
	struct runner runners[RUNNERS];
	__u32 hardirq;
	__u32 softirq;	/* vector + 1 */
	__u32 timer;
	__u32 block_device;	/* of the last completed request */
	__u64 block_ns;
	__u64 block_task;	/* the thread in which that was, 0 in an interrupt */
	__u64 tcp_cookie;	/* the last handled connection */
	void *tcp_sock;
	__u32 tcp_followed;	/* whether its user is recorded: depth + 1 */
	__u32 udp_port;		/* of the sender of the last handled datagram */
};

struct request_info {
	__u64 issue_ns;	/* 0: created but not issued */
	__u32 thread;
	__u32 device;
	__u32 writeback;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 * 1024 * 1024); /* the loader sets the size for the machine */
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct processor);
} processors SEC(".maps");

/* Processes to watch: process id to role and, above its low byte, the depth. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} seeds SEC(".maps");

/* Emitted connections; the value says which end it is. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u32);
} emitted_connections SEC(".maps");

/* Which end of a connection a socket is, by its cookie: 1 the caller, 2 the called one. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u32);
} ends SEC(".maps");

struct holder_key {
	__u64 start_ns;
	__u64 machines_tid;
};

/* Serials of threads that are recorded because they held a CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct holder_key);
	__type(value, __u32);
} holders SEC(".maps");

/* An unrecorded process that asks disks for requests. */
struct issuer {
	__u64 name[2];	/* its 16 bytes */
	__u32 serial;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct holder_key);
	__type(value, struct issuer);
} issuers SEC(".maps");

struct file_key {
	__u64 inode;
	__u64 device;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct file_key);
	__type(value, __u32);
} emitted_files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct request_info);
} requests SEC(".maps");

/* Devices whose requests are recorded. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");

/* A path being copied into a record. */
struct path_walk {
	struct dentry *dentry;
	struct mount *mount;	/* 0: the walk stays within the file system */
	__u64 used;
	struct record_file record;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct path_walk);
} path_scratch SEC(".maps");

/* Records that did not fit into the ring. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

/* The only global variables: the reader knows their layout. */
struct control {
	__u32 stopped;	/* the recording has ended: nothing is emitted any more */
	__u32 serials;	/* assigned so far */
	__u32 level;	/* of the reader's PID namespace: 0 is the machine's own */
	__u32 followed;	/* processes reached */
	__u32 refused;	/* processes beyond the bounds */
	__u32 wanted;	/* entries made in `wanted` */
	__u32 older;	/* recorded threads' connections from before they were recorded */
	__u32 read;	/* files begun to be read */
	__u32 links;	/* recorded connections use links that other processes may use */
	__u32 pad;
};
struct control control = {};

static __always_inline void count_lost(void)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&lost, &zero);
	if (count)
		*count += 1;
}

/* The reader sleeps by the clock; it is woken each time another quarter of the ring has filled, wherever it is with
 * draining it. */
static __always_inline void emit(struct head *record, __u32 size)
{
	__u64 begin = bpf_ringbuf_query(&ring, BPF_RB_PROD_POS);
	__u64 end = begin + BPF_RINGBUF_HDR_SZ + ((size + 7) & ~7u);
	__u32 shift = settings.wake_shift & 31;
	if (bpf_ringbuf_output(&ring, record, size, begin >> shift == end >> shift ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP))
		count_lost();
}

/* Emits a thread's totals if they have changed. */
static __noinline int emit_names(struct thread *thread, __u64 now)
{
	if (!thread || !thread->names.fresh)
		return 0;
	/* Every part is set exactly once: the verifier checks this for every way to get here. */
	struct record_names record;
	record.head.kind = RECORD_NAMES;
	record.head.cpu = 0;
	record.head.thread = thread->serial;
	record.head.at_ns = now;
	__builtin_memcpy(record.count, thread->names.count, sizeof(record.count));
	thread->names.fresh = 0;
	emit(&record.head, sizeof(record));
	return 0;
}

static __noinline int emit_call_run(struct thread *thread, struct call_run *run)
{
	if (!thread || !run || !run->count)
		return 0;
	struct record_call record = {};
	record.head.kind = RECORD_CALL;
	record.head.thread = thread->serial;
	record.head.at_ns = run->end_ns;
	record.start_ns = run->start_ns;
	record.busy_ns = run->busy_ns;
	record.bytes = run->bytes;
	record.offset_bytes = run->offset_bytes;
	record.result = run->result;
	record.call = run->call;
	record.count = run->count;
	record.blocked = run->blocked;
	record.file[0] = run->file[0];
	record.file[1] = run->file[1];
	run->count = 0;
	emit(&record.head, sizeof(record));
	return 0;
}

static __always_inline void emit_calls(struct thread *thread)
{
	for (int i = 0; i < CALL_RUNS; i++)
		emit_call_run(thread, &thread->calls[i]);
}

static __always_inline struct processor *this_processor(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&processors, &zero);
}

/* Returns a thread's state, if it has one. */
static __always_inline struct thread *thread_of(struct task_struct *task)
{
	return bpf_task_storage_get(&threads, task, 0, 0);
}

/* Returns non-0 if a thread may have a state, for hooks that run for every thread: few have any storage, and this
 * check is a single read. It pays only there: the verifier searches all types of the kernel four times for each
 * pointer load, for each state that reaches it. So it is called first, and its result kept (`barrier_var`) until
 * needed. */
static __always_inline __u64 storage_of(struct task_struct *task)
{
	return bpf_core_field_exists(task->bpf_storage) ? (__u64)task->bpf_storage : 1;
}

static __always_inline struct connection *connection_of(struct sock *sk)
{
	return bpf_sk_storage_get(&connections, sk, 0, 0);
}

/* Returns a socket's state, for hooks that run for every socket. */
static __always_inline struct connection *connection_of_any(struct sock *sk)
{
	if (bpf_core_field_exists(sk->sk_bpf_storage) && !sk->sk_bpf_storage)
		return 0;
	return connection_of(sk);
}

static __always_inline int is_recorded(struct thread *thread)
{
	return thread && thread->role >= ROLE_CLIENT && thread->role <= ROLE_KERNEL && !control.stopped;
}

struct upid {
	int nr;
	void *ns;
};

struct pid___numbers {
	unsigned int level;
	struct upid numbers[1];
} __attribute__((preserve_access_index));

struct task_struct___numbers {
	struct pid___numbers *thread_pid;
} __attribute__((preserve_access_index));

/* Returns a thread's depth in PID namespaces. */
static __always_inline __u32 level_of(struct task_struct *task)
{
	return BPF_CORE_READ((struct task_struct___numbers *)task, thread_pid, level);
}

/* Returns a thread's number in the reader's PID namespace (in a container not the machine's); the machine's if it has
 * none there. `leader`: its process's number. */
static __always_inline __u32 number_here(struct task_struct *task, int leader, __u32 machines)
{
	__u32 level = control.level & 31;
	struct pid___numbers *pid;
	int number = 0;
	if (!level)
		return machines;
	if (leader)
		task = BPF_CORE_READ(task, group_leader);
	pid = BPF_CORE_READ((struct task_struct___numbers *)task, thread_pid);
	if (!pid || BPF_CORE_READ(pid, level) < level)
		return machines;
	bpf_probe_read_kernel(&number, sizeof(number), (void *)&pid->numbers + level * sizeof(struct upid));
	return number;
}

/* Returns when a thread last ran, on the scheduler's clock: when it got a CPU, plus how long it had it. */
static __always_inline __u64 ran_last(struct task_struct *task)
{
	return BPF_CORE_READ(task, sched_info.last_arrival) + BPF_CORE_READ(task, se.sum_exec_runtime) -
	       BPF_CORE_READ(task, se.prev_sum_exec_runtime);
}

/* Returns how long a thread has been off the CPU, to within a tick, using the current thread's time on that clock. 0:
 * unknown. */
static __noinline __u64 has_slept(struct task_struct *task)
{
	struct task_struct *current = bpf_get_current_task_btf();
	if (!task || task == current || task->on_cpu || !bpf_core_field_exists(task->sched_info))
		return 0;
	__u64 last = ran_last(task), now = ran_last(current);
	return BPF_CORE_READ(task, sched_info.last_arrival) && last < now ? now - last : 0;
}

static __always_inline void emit_thread(struct task_struct *task, struct thread *thread, __u32 parent)
{
	struct record_thread record = {};
	record.head.kind = RECORD_THREAD;
	record.head.thread = thread->serial;
	record.head.at_ns = bpf_ktime_get_ns();
	record.tid = number_here(task, 0, task->pid);
	record.pid = number_here(task, 1, task->tgid);
	record.parent = parent;
	record.parent_pid = number_here(BPF_CORE_READ(task, real_parent), 1, BPF_CORE_READ(task, real_parent, tgid));
	record.role = thread->role;
	record.start_ns = task->start_boottime;
	record.task_flags = task->flags;
	record.depth = thread->depth;
	record.allowed = task->nr_cpus_allowed;
	if (!parent && !thread->in_ns)
		record.slept_ns = has_slept(task);
	__builtin_memcpy(record.name, task->comm, sizeof(record.name));
	emit(&record.head, sizeof(record));
}

static __always_inline __u32 new_serial(void)
{
	return __sync_fetch_and_add(&control.serials, 1) + 1;
}

/* Returns the thread's state, creating it on first sight; emits the thread when it is, or becomes, of interest. */
static __always_inline struct thread *make_thread(struct task_struct *task, __u32 role, __u32 parent, __u32 depth)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 0;
	if (!thread->serial) {
		/* It may have been recorded as the holder of a CPU. */
		struct holder_key key = { .start_ns = task->start_boottime, .machines_tid = task->pid };
		__u32 *known = bpf_map_lookup_elem(&holders, &key);
		thread->serial = known ? *known : new_serial();
	}
	if (!thread->emitted || (role && thread->role != role)) {
		if (role) {
			thread->role = role;
			thread->depth = depth;
		}
		thread->emitted = 1;
		emit_thread(task, thread, parent);
	}
	return thread;
}

/* Emits an unrecorded thread as it was at `to_ns`: it may be gone by now. */
static __always_inline void emit_runner(struct runner *runner)
{
	struct record_thread record = {};
	record.head.kind = RECORD_THREAD;
	record.head.thread = runner->serial;
	record.head.at_ns = runner->to_ns;
	record.tid = runner->tid;
	record.pid = runner->pid;
	record.start_ns = runner->start_ns;
	record.task_flags = runner->task_flags;
	__builtin_memcpy(record.name, runner->name, sizeof(record.name));
	emit(&record.head, sizeof(record));
}

/* Returns the thread that had this CPU for most of the time from `from_ns` until now; 0: none, it was idle. Not
 * static: see walk_path. */
__u32 holder_of(__u64 from_ns)
{
	struct processor *processor = this_processor();
	__u64 longest = 0;
	__u32 found = 0;
	if (!processor)
		return 0;
	for (__u32 i = 0; i < RUNNERS; i++) {
		struct runner *runner = &processor->runners[(processor->last_runner - i) & (RUNNERS - 1)];
		if (runner->to_ns <= from_ns)
			break;
		__u64 begin = runner->from_ns > from_ns ? runner->from_ns : from_ns;
		if (runner->to_ns - begin > longest) {
			longest = runner->to_ns - begin;
			found = (processor->last_runner - i) & (RUNNERS - 1);
		}
	}
	if (!longest)
		return 0;
	struct runner *runner = &processor->runners[found & (RUNNERS - 1)];
	if (runner->serial || !runner->machines_tid)
		return runner->serial;
	/* Unrecorded threads have no state to keep a serial in: they get one when they are recorded. */
	struct holder_key key = { .start_ns = runner->start_ns, .machines_tid = runner->machines_tid };
	__u32 *known = bpf_map_lookup_elem(&holders, &key);
	if (known)
		return *known;
	__u32 serial = new_serial();
	bpf_map_update_elem(&holders, &key, &serial, BPF_ANY);
	runner->serial = serial;
	emit_runner(runner);
	return serial;
}

/* Notes the thread leaving the CPU. */
static __always_inline void note_runner(struct processor *processor, struct task_struct *task, struct thread *thread, __u64 now)
{
	__u32 at = (processor->last_runner + 1) & (RUNNERS - 1);
	struct runner *runner = &processor->runners[at];
	runner->from_ns = processor->since_ns;
	runner->to_ns = now;
	runner->serial = thread ? thread->serial : 0;
	runner->start_ns = task->start_boottime;
	runner->machines_tid = task->pid;
	runner->tid = number_here(task, 0, task->pid);
	runner->pid = number_here(task, 1, task->tgid);
	runner->task_flags = task->flags;
	/* Threads may have names of their own; an unrecorded one is named after its process. */
	struct task_struct *named = thread ? task : task->group_leader;
	__builtin_memcpy(runner->name, named->comm, sizeof(runner->name));
	processor->last_runner = at;
	processor->since_ns = now;
}

static __always_inline void read_totals(struct io_totals *io, struct task_struct *task, struct thread *thread)
{
	io->read_bytes = task->ioac.rchar;
	io->write_bytes = task->ioac.wchar;
	io->read_calls = task->ioac.syscr;
	io->write_calls = task->ioac.syscw;
	io->net_read_bytes = thread->net_bytes[0];
	io->net_write_bytes = thread->net_bytes[1];
	io->net_read_calls = thread->net_calls[0];
	io->net_write_calls = thread->net_calls[1];
}

#endif

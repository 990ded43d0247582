/* Polling calls: calls between a program's sleeps that find nothing. A retry loop sleeps by choice, and only these
 * calls show what for.
 *
 * A hook at every system call's end slows all programs on the machine, so the reader attaches this program only while
 * a recorded thread pauses, and for no more calls than its budget allows (looks.rs). Arguments are read when the call
 * returns: they are unchanged. */
#ifndef THALWEG_LOOKS_H
#define THALWEG_LOOKS_H

#define AT_FDCWD (-100)
#define WNOHANG 1
#define F_SETLK 6
#define F_OFD_SETLK 37
/* First bytes of a struct flock. */
#define F_UNLCK 2
#define LOCK_UN 8

/* Polling calls of a thread that are emitted per ten milliseconds. */
#define LOOKS_PERIOD_NS 10000000
#define MOST_LOOKS 256

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record_look);
} look_scratch SEC(".maps");

/* Hashes of objects polled in vain: the first success is emitted too. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u32);
} looked_for SEC(".maps");

/* Number of system calls, of all programs, that ended while attached. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} calls_ended SEC(".maps");

static __always_inline struct record_look *this_look(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&look_scratch, &zero);
}

/* The functions below work on the current thread and are not static: see walk_path. */

/* Emits the path of the directory where a path starts, and notes its number. */
__noinline int note_directory(__s32 descriptor)
{
	struct record_look *record = this_look();
	struct task_struct *task = bpf_get_current_task_btf();
	if (!record)
		return 0;
	/* Treats the working directory as an open file, of which only the path is read. */
	__u64 at = descriptor != AT_FDCWD ?
			   (__u64)file_of(task, (__u32)descriptor) :
			   (__u64)BPF_CORE_READ(task, fs) + bpf_core_field_offset(struct fs_struct, pwd) - bpf_core_field_offset(struct file, f_path);
	if (!at)
		return 0;
	struct inode *inode = BPF_CORE_READ((struct file *)at, f_path.dentry, d_inode);
	record->directory = BPF_CORE_READ(inode, i_ino);
	record->directory_device = BPF_CORE_READ(inode, i_sb, s_dev);
	emit_file(at, (__u64)inode, record->directory_device, S_IFDIR, 0);
	return 0;
}

/* Copies the path in the call's arguments; returns 0 if there is none. */
__noinline int note_path(__u32 where)
{
	struct record_look *record = this_look();
	if (!record)
		return 0;
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	__u64 path = CALL_ARGUMENT1(regs);
	__s32 directory = CALL_ARGUMENT0(regs);
	__u16 family = 0;
	if (where == PATH_FIRST) {
		path = CALL_ARGUMENT0(regs);
		directory = AT_FDCWD;
	} else if (where == PATH_FOURTH_AT) {
		path = CALL_ARGUMENT3(regs);
		directory = CALL_ARGUMENT2(regs);
	} else if (where == PATH_THIRD_AT) {
		path = CALL_ARGUMENT2(regs);
		directory = CALL_ARGUMENT1(regs);
	} else if (where == PATH_SECOND) {
		directory = AT_FDCWD;
	} else if (where == PATH_ADDRESS) {
		directory = AT_FDCWD;
		if (bpf_probe_read_user(&family, sizeof(family), (void *)path) || family != AF_UNIX)
			return 0;
		path += sizeof(family);
	}
	long length = bpf_probe_read_user_str(record->path, LOOK_BYTES, (void *)path);
	/* An empty path means the descriptor itself. */
	if (length <= 1 || length > LOOK_BYTES)
		return 0;
	record->used = length - 1;
	if (record->path[0] != '/')
		note_directory(directory);
	return 1;
}

/* Returns a hash of what is polled for: of a path, its last 64 bytes and its length. */
__noinline __u64 mark_of_look(void)
{
	struct record_look *record = this_look();
	if (!record)
		return 0;
	__u64 words[8] = {};
	__u32 used = record->used & (LOOK_BYTES - 1);
	__u64 mark = record->directory ^ record->file.id ^ (__u64)record->file.device << 32 ^ (__u64)used << 56;
	__u32 from = used > sizeof(words) ? used - sizeof(words) : 0;
	if (from <= LOOK_BYTES - sizeof(words))
		bpf_probe_read_kernel(words, sizeof(words), record->path + from);
	for (int word = 0; word < 8; word++)
		mark = (mark ^ words[word] ^ mark >> 29) * 0x9e3779b97f4a7c15ull;
	return mark;
}

/* Whether the current thread's polling call is news: it failed, or it succeeded after failures. */
__noinline int is_news(__u64 mark, int result)
{
	__u32 zero = 0;
	if (result < 0)
		bpf_map_update_elem(&looked_for, &mark, &zero, BPF_ANY);
	else if (bpf_map_delete_elem(&looked_for, &mark))
		return 0;
	return 1;
}

__noinline int emit_look(__u32 flags, int result, __u32 waits)
{
	struct record_look *record = this_look();
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = thread_of(task);
	if (!thread || !record)
		return 0;
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u64 now = waits == LOOK_WAITS ? thread->off.out_ns : bpf_ktime_get_ns();
	__builtin_memset(record, 0, sizeof(*record));
	record->head.kind = RECORD_LOOK;
	record->head.thread = thread->serial;
	record->head.at_ns = now;
	record->call = CALL_NUMBER(regs);
	record->argument = CALL_ARGUMENT0(regs);
	record->result = result;
	record->flags = waits;
	if (CALL_PATH(flags)) {
		if (!note_path(CALL_PATH(flags)))
			return 0;
	} else if (flags & CALL_FD0) {
		__u64 cached = 0;
		/* (If one is read and the other written, the write fails.) */
		__u64 descriptor = waits == LOOK_FAILED && flags & CALL_FD2 ? CALL_ARGUMENT2(regs) : record->argument;
		describe((__u64)file_of(task, (__u32)descriptor), &record->file, &cached, now);
		if (waits != LOOK_FAILED && flags & CALL_READS && (record->file.mode & S_IFMT) != S_IFREG)
			return 0;
	}
	if (waits != LOOK_WAITS) {
		__u64 mark = mark_of_look() ^ (flags & (CALL_FD0 | 7 << 12) ? 0 : record->argument);
		int again = !(flags & CALL_LOOKS) || record->call == SYS_wait4 || record->call == SYS_kill;
		if (!waits && !again && !is_news(mark, result))
			return 0;
		if (now - thread->looks_ns > LOOKS_PERIOD_NS) {
			thread->looks_ns = now;
			thread->looks = 0;
		}
		thread->looks += 1;
		if (thread->looks > MOST_LOOKS)
			return 0;
	}
	__u32 size = __builtin_offsetof(struct record_look, path) + (record->used & (LOOK_BYTES - 1));
	emit(&record->head, size);
	return 0;
}

/* Whether a call polled for something, judging by its result. */
static __always_inline int has_looked(struct pt_regs *regs, int call, __u32 flags, long result)
{
	__s16 type = F_UNLCK;
	/* (Shells ask for any child each time one has ended.) */
	if (call == SYS_wait4)
		return !result && CALL_ARGUMENT2(regs) & WNOHANG && (__s32)CALL_ARGUMENT0(regs) > 0;
	if (call == SYS_kill)
		return !CALL_ARGUMENT1(regs);
	if (flags & CALL_READS)
		return !result && CALL_ARGUMENT2(regs);
	if (!(flags & CALL_LOOKS))
		return 0;
	if (call == SYS_fcntl && (CALL_ARGUMENT1(regs) != F_SETLK && CALL_ARGUMENT1(regs) != F_OFD_SETLK))
		return 0;
	/* (A release of a lock is not an attempt to get it.) */
	if (call == SYS_fcntl && (bpf_probe_read_user(&type, sizeof(type), (void *)CALL_ARGUMENT2(regs)) || type == F_UNLCK))
		return 0;
	if (call == SYS_flock && CALL_ARGUMENT1(regs) & LOCK_UN)
		return 0;
	return result >= 0 || (result > -200 && result != -EINTR && result != -EBADF && result != -EFAULT && result != -EINVAL);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_look, struct pt_regs *regs, long result)
{
	__u32 zero = 0;
	__u64 *ended = bpf_map_lookup_elem(&calls_ended, &zero);
	if (ended)
		*ended += 1;
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = storage_of(task) ? thread_of(task) : 0;
	if (!is_recorded(thread) || !thread || thread->role == ROLE_KERNEL)
		return 0;
	int call = CALL_NUMBER(regs);
	if (call < 0 || call >= 512)
		return 0;
	__u32 flags = settings.call_flags[call & 511];
	if (has_looked(regs, call, flags, result))
		emit_look(flags, result, 0);
	return 0;
}

#endif

/* The command's last output: the ends of its writes to standard error, and calls that failed for lack of a resource
 * (space, a permission, a descriptor).
 *
 * A hook at every system call's end slows all programs on the machine, so the reader detaches this program for a
 * while when there are many calls (looks.rs). */

#define STANDARD_ERROR 2

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record_words);
} words_scratch SEC(".maps");

/* Emits the end of what the current thread has written. (Not static: see walk_path.) */
__noinline int emit_words(__u64 from, __u32 length)
{
	__u32 zero = 0;
	struct record_words *record = bpf_map_lookup_elem(&words_scratch, &zero);
	struct thread *thread = thread_of(bpf_get_current_task_btf());
	if (!record || !thread)
		return 0;
	if (length >= WORDS_BYTES) {
		from += length - (WORDS_BYTES - 1);
		length = WORDS_BYTES - 1;
	}
	__u32 used = length & (WORDS_BYTES - 1);
	record->head.kind = RECORD_WORDS;
	record->head.cpu = 0;
	record->head.thread = thread->serial;
	record->head.at_ns = bpf_ktime_get_ns();
	record->used = used;
	record->pad = 0;
	if (bpf_probe_read_user(record->text, used, (void *)from))
		return 0;
	emit(&record->head, __builtin_offsetof(struct record_words, text) + used);
	return 0;
}

/* Whether an error is a lack of a resource: a program that continues after it does so in spite of it. */
static __always_inline int is_want(long result)
{
	return result == -ENOSPC || result == -EDQUOT || result == -EFBIG || result == -EROFS || result == -EIO || result == -EACCES ||
	       result == -EPERM || result == -EMFILE || result == -ENFILE || result == -ENOMEM;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_words, struct pt_regs *regs, long result)
{
	__u32 zero = 0;
	__u64 *ended = bpf_map_lookup_elem(&calls_ended, &zero);
	if (ended)
		*ended += 1;
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = storage_of(task) ? thread_of(task) : 0;
	/* (Only for the command and its descendants, not for processes reached from there.) */
	if (!is_recorded(thread) || !thread || thread->role != ROLE_CLIENT || thread->depth)
		return 0;
	int call = CALL_NUMBER(regs);
	if (call < 0 || call >= 512)
		return 0;
	if (call == SYS_write && result > 0 && CALL_ARGUMENT0(regs) == STANDARD_ERROR)
		emit_words(CALL_ARGUMENT1(regs), result);
	if (is_want(result))
		emit_look(settings.call_flags[call & 511], result, LOOK_FAILED);
	return 0;
}

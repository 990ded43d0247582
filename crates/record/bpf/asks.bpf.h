/* Plaintext HTTP requests: their beginnings, from the memory they are sent from. The reader extracts what it needs
 * (method, target, range) and drops the rest. Of responses, the beginning of the first line, with the status. */

/* "HTTP/1.1 503" and a space. */
#define STATUS_BYTES 13

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record_ask);
} ask_scratch SEC(".maps");

/* Four letters in memory order. */
#define LETTERS(a, b, c, d) ((a) | (b) << 8 | (c) << 16 | (__u32)(d) << 24)

/* The protocol seen on a connection. */
enum { CARRIES_UNKNOWN, CARRIES_HTTP, CARRIES_OTHER };

/* Offset of a struct msghdr's vector, and of a struct iovec's memory. */
#define MESSAGE_VECTOR 16
struct vector {
	__u64 from;
	__u64 length;
};

/* Emits the beginning of an HTTP request that the current thread sent over a connection, `sent` bytes long. Returns 1
 * if it is HTTP. (Not static: see walk_path.) */
__noinline int note_ask(__u64 connection, __u32 sent)
{
	__u32 zero = 0, word = 0;
	struct record_ask *record = bpf_map_lookup_elem(&ask_scratch, &zero);
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = thread_of(task);
	if (!record || !thread)
		return 0;
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	int call = CALL_NUMBER(regs);
	__u64 at = CALL_ARGUMENT1(regs);
	struct vector memory = { .from = at, .length = sent };
	if (call == SYS_sendmsg && bpf_probe_read_user(&at, sizeof(at), (void *)(at + MESSAGE_VECTOR)))
		return 0;
	if (call == SYS_sendmsg || call == SYS_writev) {
		if (bpf_probe_read_user(&memory, sizeof(memory), (void *)at))
			return 0;
	} else if (call != SYS_sendto && call != SYS_write) {
		return 0;
	}
	if (bpf_probe_read_user(&word, sizeof(word), (void *)memory.from))
		return 0;
	if (word != LETTERS('G', 'E', 'T', ' ') && word != LETTERS('P', 'U', 'T', ' ') && word != LETTERS('H', 'E', 'A', 'D') &&
	    word != LETTERS('H', 'T', 'T', 'P'))
		return 0;
	__u32 used = memory.length < sent ? memory.length : sent;
	if (word == LETTERS('H', 'T', 'T', 'P') && used > STATUS_BYTES)
		used = STATUS_BYTES;
	if (used >= ASK_BYTES)
		used = ASK_BYTES - 1;
	record->head.kind = RECORD_ASK;
	record->head.cpu = 0;
	record->head.thread = thread->serial;
	record->head.at_ns = bpf_ktime_get_ns();
	record->connection = connection;
	record->used = used;
	record->pad = 0;
	if (bpf_probe_read_user(record->text, used & (ASK_BYTES - 1), (void *)memory.from))
		return 0;
	emit(&record->head, __builtin_offsetof(struct record_ask, text) + (used & (ASK_BYTES - 1)));
	return 1;
}

/* Handles a send of a recorded thread. A connection whose first send is not HTTP is not examined again. */
static __always_inline void note_sent(struct connection *connection, int sent)
{
	if (sent < 16 || connection->carries == CARRIES_OTHER)
		return;
	int asks = note_ask(connection->cookie, sent);
	if (connection->carries == CARRIES_UNKNOWN)
		connection->carries = asks == 1 ? CARRIES_HTTP : CARRIES_OTHER;
}

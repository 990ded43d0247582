/* Name lookups and their answers (RFC 1035): the beginning of datagrams and TCP messages to and from the ports of
 * name servers, read from the memory they are sent from or were received into. The reader extracts what it needs
 * (names, record types, outcomes) and drops the rest. */

#define PORT_NAMES 53
#define PORT_NAMES_LOCAL 5353 /* multicast on a link (RFC 6762) */

/* Maximum messages emitted per recording. */
#define MOST_QUESTIONS 20000

/* Size of a struct mmsghdr: a struct msghdr, and its message's length. */
#define MESSAGES_STEP 64

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record_question);
} question_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} questions SEC(".maps");

static __always_inline int is_of_names(__u32 port)
{
	return port == PORT_NAMES || port == PORT_NAMES_LOCAL;
}

/* Emits one message from the caller's memory. Everything else is in the record already. (Not static: see walk_path.) */
__noinline int emit_question(__u64 from, __u64 length)
{
	__u32 zero = 0;
	struct record_question *record = bpf_map_lookup_elem(&question_scratch, &zero);
	if (!record)
		return 0;
	if (length >= QUESTION_BYTES)
		length = QUESTION_BYTES - 1;
	__u32 used = length & (QUESTION_BYTES - 1);
	record->used = used;
	if (used && bpf_probe_read_user(record->text, used, (void *)from))
		return 0;
	emit(&record->head, __builtin_offsetof(struct record_question, text) + used);
	return 0;
}

/* Emits the first useful part of a struct msghdr: over TCP, a part of its own may hold the message's length first. */
__noinline int emit_vector(__u64 vector, __u64 length)
{
	struct vector memory = {};
	if (bpf_probe_read_user(&memory, sizeof(memory), (void *)vector))
		return 0;
	if (memory.length == 2 && length > 2 && bpf_probe_read_user(&memory, sizeof(memory), (void *)(vector + sizeof(memory))))
		return 0;
	return emit_question(memory.from, memory.length < length ? memory.length : length);
}

__noinline int emit_message(__u64 message, __u64 length)
{
	__u64 vector = 0;
	if (bpf_probe_read_user(&vector, sizeof(vector), (void *)(message + MESSAGE_VECTOR)))
		return 0;
	return emit_vector(vector, length);
}

/* Handles a message of the current thread to or from a name server: `record` has the direction and address. */
__noinline int note_question(__s32 result)
{
	__u32 zero = 0;
	struct record_question *record = bpf_map_lookup_elem(&question_scratch, &zero);
	__u64 *count = bpf_map_lookup_elem(&questions, &zero);
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = thread_of(task);
	if (!record || !count || !thread || *count >= MOST_QUESTIONS)
		return 0;
	__sync_fetch_and_add(count, 1);
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	int call = CALL_NUMBER(regs);
	__u64 at = CALL_ARGUMENT1(regs);
	record->head.kind = RECORD_QUESTION;
	record->head.cpu = 0;
	record->head.thread = thread->serial;
	record->head.at_ns = bpf_ktime_get_ns();
	record->result = result;
	record->pad = 0;
	if (result <= 0)
		return emit_question(at, 0);
	if (call == SYS_sendto || call == SYS_recvfrom || call == SYS_read || call == SYS_write)
		return emit_question(at, result);
	if (call == SYS_writev)
		return emit_vector(at, result);
	if (call == SYS_sendmsg || call == SYS_recvmsg || call == SYS_recvmmsg)
		return emit_message(at, result);
	if (call != SYS_sendmmsg)
		return 0;
	/* It is not known which of several messages was sent just now: the first two are emitted, and the reader drops
	 * repeats. */
	emit_message(at, result);
	if (CALL_ARGUMENT2(regs) > 1)
		emit_message(at + MESSAGES_STEP, result);
	return 0;
}

/* Handles a datagram, or bytes over TCP, that a recorded thread sent or received. */
static __always_inline void note_names(struct sock *sk, int result, __u32 direction, int over_tcp)
{
	__u32 zero = 0;
	struct record_question *record;
	__u64 inode = BPF_CORE_READ(sk, sk_socket, file, f_inode, i_ino);
	__u16 port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (result == -EAGAIN)
		return;
	if (over_tcp) {
		if (port != PORT_NAMES || result < 12)
			return;
		record = bpf_map_lookup_elem(&question_scratch, &zero);
		if (!record)
			return;
		address_of((__u32 *)record->address, sk, 1, BPF_CORE_READ(sk, __sk_common.skc_family));
	} else {
		struct record_peer *peer = bpf_map_lookup_elem(&emitted_peers, &inode);
		if (!peer || !is_of_names(peer->port))
			return;
		record = bpf_map_lookup_elem(&question_scratch, &zero);
		if (!record)
			return;
		port = peer->port;
		record->address[0] = peer->address[0];
		record->address[1] = peer->address[1];
	}
	record->inode = inode;
	record->port = port;
	record->direction = direction;
	note_question(result);
}

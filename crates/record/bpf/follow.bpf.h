/* Selects other local threads to record: those that a recorded one waits for, or sends requests to.
 *
 * Each is found by a fact. In task context, the thread that wakes a recorded one has ended its wait, and the thread
 * that a recorded one wakes has received something from it. In an interrupt the current thread is unrelated: there
 * the two ends of a connection are matched by address. The process with the other end of a pipe or Unix socket that a
 * recorded thread blocks on is found by a walk over all open files. A process reached this way is recorded as a
 * whole: the reader attaches to its other threads. Depth and number are bounded; processes beyond the bounds are
 * counted. */
#ifndef THALWEG_FOLLOW_H
#define THALWEG_FOLLOW_H

#define MOST_DEPTH 12
#define MOST_FOLLOWED 512

#define PF_EXITING 0x00000004u
#define IPPROTO_UDP 17
#define ACCESS_EVENTFD (1u << 17)
#define ACCESS_INOTIFY (1u << 20)

/* An end of a connection as in its socket, IPv4 mapped into IPv6. */
struct tuple {
	__u32 local[4];
	__u32 remote[4];
	__u16 local_port;
	__u16 remote_port;
	__u32 namespace; /* for loopback addresses, which each namespace has of its own */
};

/* Connections of recorded threads: depth of their user + 1. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct tuple);
	__type(value, __u32);
} tuples SEC(".maps");

/* Pipes and sockets whose other ends are to be found: WANT_*, with the requester's depth in the higher bits. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct file_key);
	__type(value, __u32);
} wanted SEC(".maps");

#define WANT_READER 1u
#define WANT_WRITER 2u
#define WANT_ANY 3u
#define WANT_NOTHING 4u	/* already requested, under this socket's own number */
#define WANT_OUTPUT 8u	/* the command's output: its reader is recorded if it makes the command wait */

struct bpf_iter__task_file {
	struct task_struct *task;
	__u32 fd;
	struct file *file;
} __attribute__((preserve_access_index));

/* Records a thread reached from one at `depth` - 1; returns 0 if it must not be recorded. */
static __noinline struct thread *follow(struct task_struct *task, __u32 role, __u32 depth)
{
	if (!task || !settings.follow || control.stopped || !task->pid || task->flags & PF_KTHREAD || task->tgid == 1)
		return 0;
	__u32 pid = number_here(task, 1, task->tgid);
	__u32 *known = bpf_map_lookup_elem(&seeds, &pid);
	if (known) {
		role = *known & 0xff;
		depth = *known >> 8;
	} else {
		if (depth > MOST_DEPTH || control.followed >= MOST_FOLLOWED) {
			__sync_fetch_and_add(&control.refused, 1);
			return 0;
		}
		__sync_fetch_and_add(&control.followed, 1);
		__u32 value = role | depth << 8;
		bpf_map_update_elem(&seeds, &pid, &value, BPF_ANY);
	}
	if (role < ROLE_CLIENT || role > ROLE_KERNEL)
		return 0;
	return make_thread(task, role, 0, depth);
}

/* Records the current thread, reached from one at `depth` - 1. */
static __always_inline struct thread *follow_current(struct task_struct *task, __u32 role, __u32 depth)
{
	struct thread *thread = follow(task, role, depth);
	if (thread && !thread->in_ns)
		thread->in_ns = bpf_ktime_get_ns();
	return thread;
}

static __always_inline void address_of(__u32 *out, struct sock *sk, int remote, __u32 family)
{
	if (family == AF_INET6 && remote) {
		BPF_CORE_READ_INTO((struct in6_addr *)out, sk, __sk_common.skc_v6_daddr);
	} else if (family == AF_INET6) {
		BPF_CORE_READ_INTO((struct in6_addr *)out, sk, __sk_common.skc_v6_rcv_saddr);
	} else {
		out[0] = 0;
		out[1] = 0;
		out[2] = bpf_htonl(0xffff);
		out[3] = remote ? BPF_CORE_READ(sk, __sk_common.skc_daddr) : BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
	}
}

/* Fills in the addresses of this socket's end or, reversed, of the other end as seen from there. */
static __noinline int tuple_of(struct sock *sk, int reversed, struct tuple *out)
{
	if (!sk || !out)
		return 0;
	__u32 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	__u16 local = BPF_CORE_READ(sk, __sk_common.skc_num), remote = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if ((family != AF_INET && family != AF_INET6) || !local || !remote)
		return 0;
	address_of(out->local, sk, reversed, family);
	address_of(out->remote, sk, !reversed, family);
	out->local_port = reversed ? remote : local;
	out->remote_port = reversed ? local : remote;
	int four = out->local[2] == bpf_htonl(0xffff);
	int loopback = four ? (out->local[3] & bpf_htonl(0xff000000)) == bpf_htonl(127u << 24) : out->local[3] == bpf_htonl(1);
	out->namespace = loopback ? BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum) : 0;
	return 1;
}

/* Notes that a recorded thread has this connection, so that the thread at its other end can be found. */
static __always_inline void remember(struct sock *sk, struct connection *connection, __u32 depth)
{
	struct tuple tuple = {};
	__u32 value = depth + 1;
	connection->followed = value;
	if (settings.follow && tuple_of(sk, 0, &tuple))
		bpf_map_update_elem(&tuples, &tuple, &value, BPF_ANY);
}

/* Returns depth + 1 if the other end of this connection belongs to a recorded thread; otherwise 0. */
static __noinline __u32 peer_of(struct sock *sk)
{
	struct tuple tuple = {};
	if (!sk || !tuple_of(sk, 1, &tuple))
		return 0;
	__u32 *found = bpf_map_lookup_elem(&tuples, &tuple);
	return found ? *found : 0;
}

/* Handles a send or receive of an unrecorded thread: records it if the connection leads to a recorded thread. */
static __always_inline struct thread *follow_user(struct task_struct *task, struct sock *sk)
{
	if (!settings.follow)
		return 0;
	struct connection *connection = connection_of(sk);
	if (!connection || !connection->followed)
		return 0;
	__u64 cookie = connection->cookie;
	__u32 *end = bpf_map_lookup_elem(&ends, &cookie);
	return follow_current(task, end && *end == 2 ? ROLE_SERVER : ROLE_CLIENT, connection->followed);
}

/* The connection that a process requested, or re-requested, last. */
struct asking {
	__u64 sk;
	__u64 cookie;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct asking);
} asking SEC(".maps");

static __always_inline void note_asking(struct sock *sk, struct connection *connection)
{
	struct asking asked = { .sk = (__u64)sk, .cookie = connection->cookie };
	__u32 pid = connection->asker_pid;
	if (pid)
		bpf_map_update_elem(&asking, &pid, &asked, BPF_ANY);
}

/* Returns the connection that a process requested and that was not answered: the object of its wait if it polls
 * several. Its socket may be gone, and its memory reused. */
__noinline __u64 unanswered(__u32 pid, __u64 now)
{
	struct asking *asked = bpf_map_lookup_elem(&asking, &pid);
	if (!asked)
		return 0;
	struct sock *sk = (struct sock *)asked->sk;
	__u64 cookie = BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
	if (cookie != asked->cookie || BPF_CORE_READ(sk, __sk_common.skc_state) != TCP_SYN_SENT) {
		bpf_map_delete_elem(&asking, &pid);
		return 0;
	}
	emit_connection(sk, cookie, now);
	return cookie;
}

/* Handles a state change of a connection: its storage is created with the first segment, so that a lost one is
 * recorded too. */
static __always_inline void follow_state(struct sock *sk, int before, int after)
{
	struct connection *connection = 0;
	__u32 followed = 0, asker = 0, asker_pid = 0;
	if (after == TCP_SYN_SENT) {
		struct thread *thread = thread_of(bpf_get_current_task_btf());
		if (!is_recorded(thread) || !thread)
			return;
		followed = thread->depth + 1;
		asker = thread->serial;
		asker_pid = bpf_get_current_pid_tgid() >> 32;
	} else if (before == TCP_SYN_SENT && after == TCP_ESTABLISHED) {
		connection = connection_of(sk);
		if (!connection || !connection->followed)
			return;
		emit_connection(sk, connection->cookie, bpf_ktime_get_ns());
		remember(sk, connection, connection->followed - 1);
		return;
	} else if (before == TCP_SYN_RECV && after == TCP_ESTABLISHED && settings.follow) {
		followed = peer_of(sk);
		if (!followed || control.stopped)
			return;
		/* The accepting thread is one step further away. */
		followed += 1;
	} else {
		return;
	}
	connection = bpf_sk_storage_get(&connections, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!connection)
		return;
	connection->followed = followed;
	connection->asker = asker;
	connection->asker_pid = asker_pid;
	connection->cookie = bpf_get_socket_cookie(sk);
	note_asking(sk, connection);
	if (after == TCP_ESTABLISHED) {
		emit_connection(sk, connection->cookie, bpf_ktime_get_ns());
		remember(sk, connection, followed - 1);
	}
}

/* Requests the other end of this pipe or Unix socket. */
__noinline int want(__u64 address, __u32 depth, __u32 output)
{
	struct file *file = (struct file *)address;
	if (!file)
		return 0;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	__u32 mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	if (mode != S_IFIFO && mode != S_IFSOCK)
		return 0;
	struct file_key key = { .inode = BPF_CORE_READ(inode, i_ino), .device = BPF_CORE_READ(inode, i_sb, s_dev) };
	__u32 *known = bpf_map_lookup_elem(&wanted, &key);
	if (known && (output || !(*known & WANT_OUTPUT)))
		return 0;
	__u32 value = output ? WANT_OUTPUT : BPF_CORE_READ(file, f_mode) & 1 ? WANT_WRITER : WANT_READER;
	if (mode == S_IFSOCK) {
		struct socket *socket = BPF_CORE_READ(file, private_data);
		struct sock *sk = BPF_CORE_READ(socket, sk);
		if (BPF_CORE_READ(sk, __sk_common.skc_family) != AF_UNIX)
			return 0;
		__u32 asked = output ? WANT_OUTPUT : WANT_NOTHING;
		bpf_map_update_elem(&wanted, &key, &asked, BPF_ANY);
		if (output)
			return 0;
		struct sock *peer = BPF_CORE_READ((struct unix_sock *)sk, peer);
		inode = BPF_CORE_READ(peer, sk_socket, file, f_inode);
		if (!inode)
			return 0;
		key.inode = BPF_CORE_READ(inode, i_ino);
		key.device = BPF_CORE_READ(inode, i_sb, s_dev);
		value = WANT_ANY;
	}
	value |= (depth + 1) << 8;
	bpf_map_update_elem(&wanted, &key, &value, BPF_ANY);
	if (!output)
		__sync_fetch_and_add(&control.wanted, 1);
	return 0;
}

struct sk_buff___header {
	unsigned char *head;
	__u16 transport_header;
} __attribute__((preserve_access_index));

struct sk_buff_head {
	struct sk_buff___header *prev;
} __attribute__((preserve_access_index));

struct sock___queue {
	struct sk_buff_head sk_receive_queue;
} __attribute__((preserve_access_index));

/* Whether the holder of this end of a Unix socket (or, `remote`, of the other end) is its server: its end has the
 * name that was called, and callers normally have none. The two ends of a socketpair have none. */
static __noinline int serves_unix(struct file *file, int remote)
{
	if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return 0;
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk);
	if (BPF_CORE_READ(sk, __sk_common.skc_family) != AF_UNIX)
		return 0;
	if (remote)
		sk = BPF_CORE_READ((struct unix_sock *)sk, peer);
	return sk && BPF_CORE_READ((struct unix_sock *)sk, addr) != 0;
}

/* Notes an arrived datagram: its header has the sender's port. */
static __always_inline void note_datagram(struct sock *sk)
{
	struct processor *processor = this_processor();
	if (!processor || !processor->softirq)
		return;
	struct sk_buff___header *last = BPF_CORE_READ((struct sock___queue *)sk, sk_receive_queue.prev);
	__u16 port = 0;
	bpf_probe_read_kernel(&port, sizeof(port), BPF_CORE_READ(last, head) + BPF_CORE_READ(last, transport_header));
	processor->udp_port = bpf_ntohs(port);
}

/* Returns the file of the descriptor in a thread's call, if it has one. */
static __noinline struct file *file_of_call(struct task_struct *task)
{
	if (!task || task->flags & PF_KTHREAD)
		return 0;
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	int call = CALL_NUMBER(regs);
	if (call < 0 || call >= 512 || !(settings.call_flags[call & 511] & CALL_FD0))
		return 0;
	return file_of(task, (__u32)CALL_ARGUMENT0(regs));
}

/* Whether a thread is sending from a socket with this port: the interrupt that delivers its datagram is then its own
 * doing. */
static __noinline int sends_datagram(struct task_struct *task, __u32 port)
{
	struct file *file = file_of_call(task);
	if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return 0;
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk);
	return BPF_CORE_READ(sk, sk_protocol) == IPPROTO_UDP && BPF_CORE_READ(sk, __sk_common.skc_num) == port;
}

/* Resolves what a recorded thread polling several descriptors waited for: the object that the waking thread is
 * working on. */
static __noinline int describe_ender(struct task_struct *task, struct thread *thread)
{
	if (!task || !thread || thread->off.file[0].mode || !thread->off.out_ns)
		return 0;
	int call = thread->off.call;
	if (call < 0 || call >= 512 || !(settings.call_flags[call & 511] & CALL_POLLS))
		return 0;
	struct file *file = file_of_call(task);
	if (!file)
		return 0;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	__u32 mode = BPF_CORE_READ(inode, i_mode);
	if ((mode & S_IFMT) == S_IFSOCK) {
		struct socket *socket = BPF_CORE_READ(file, private_data);
		struct sock *sk = BPF_CORE_READ(socket, sk);
		if (BPF_CORE_READ(sk, __sk_common.skc_family) != AF_UNIX)
			return 0;
		sk = BPF_CORE_READ((struct unix_sock *)sk, peer);
		inode = BPF_CORE_READ(sk, sk_socket, file, f_inode);
		if (!inode)
			return 0;
		thread->off.file[0].device = AF_UNIX;
	} else if ((mode & S_IFMT) == S_IFIFO) {
		thread->off.file[0].device = BPF_CORE_READ(inode, i_sb, s_dev);
	} else {
		return 0;
	}
	thread->off.file[0].id = BPF_CORE_READ(inode, i_ino);
	thread->off.file[0].fd = -1;
	thread->off.file[0].access = 0;
	thread->off.file[0].mode = mode;
	return 0;
}

/* Peers of unconnected sockets emitted last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct record_peer);
} emitted_peers SEC(".maps");

struct sockaddr_any {
	__u16 family;
	__u16 port;
	__u32 four;
};

/* Emits the peer of a datagram sent by a recorded thread, if it is new. */
static __noinline int emit_peer(struct task_struct *task, struct sock *sk, __u64 now)
{
	struct record_peer record = {};
	if (!task || !sk)
		return 0;
	record.family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if ((record.family != AF_INET && record.family != AF_INET6) || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_UDP)
		return 0;
	record.head.kind = RECORD_PEER;
	record.inode = BPF_CORE_READ(sk, sk_socket, file, f_inode, i_ino);
	record.port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (record.port) {
		address_of((__u32 *)record.address, sk, 1, record.family);
	} else {
		/* It is in the call's arguments: sendto's fifth, or the beginning of sendmsg's and sendmmsg's second. */
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
		struct sockaddr_any to = {};
		int call = CALL_NUMBER(regs);
		void *at = 0;
		if (call == settings.call_sendto)
			at = (void *)CALL_ARGUMENT4(regs);
		else if (call >= 0)
			bpf_probe_read_user(&at, sizeof(at), (void *)CALL_ARGUMENT1(regs));
		if (!at || bpf_probe_read_user(&to, sizeof(__u64), at) || (to.family != AF_INET && to.family != AF_INET6))
			return 0;
		if (to.family == AF_INET6)
			bpf_probe_read_user(record.address, sizeof(record.address), at + 8);
		else
			record.address[1] = (__u64)to.four << 32 | bpf_htonl(0xffff);
		record.port = bpf_ntohs(to.port);
	}
	record.family = AF_INET6;
	__u64 inode = record.inode;
	struct record_peer *known = bpf_map_lookup_elem(&emitted_peers, &inode);
	if (known && known->port == record.port && known->address[0] == record.address[0] && known->address[1] == record.address[1])
		return 0;
	bpf_map_update_elem(&emitted_peers, &inode, &record, BPF_ANY);
	record.head.at_ns = now;
	emit(&record.head, sizeof(record));
	return 0;
}

/* The socket's port was set by bind. */
#define SOCK_BINDPORT_LOCK 8

/* Emits that a recorded thread has received a datagram, if its socket is unconnected and has sent nothing so far. */
static __noinline int emit_asked(struct thread *thread, struct sock *sk, __u64 now)
{
	struct record_peer record = {};
	if (!thread || !sk || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_UDP || BPF_CORE_READ(sk, __sk_common.skc_dport))
		return 0;
	__u64 inode = BPF_CORE_READ(sk, sk_socket, file, f_inode, i_ino);
	if (!inode || bpf_map_lookup_elem(&emitted_peers, &inode))
		return 0;
	record.head.kind = RECORD_PEER;
	record.head.thread = thread->serial;
	record.head.at_ns = now;
	record.inode = inode;
	record.flags = PEER_ASKED;
	if (bpf_core_field_exists(sk->sk_userlocks) && BPF_CORE_READ_BITFIELD_PROBED(sk, sk_userlocks) & SOCK_BINDPORT_LOCK)
		record.flags |= PEER_CHOSEN;
	bpf_map_update_elem(&emitted_peers, &inode, &record, BPF_ANY);
	emit(&record.head, sizeof(record));
	return 0;
}

/* Whether a thread's current call writes to the command's given output. */
static __noinline int writes_output(struct task_struct *task)
{
	struct file *file = file_of_call(task);
	if (!file)
		return 0;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct file_key key = { .inode = BPF_CORE_READ(inode, i_ino), .device = BPF_CORE_READ(inode, i_sb, s_dev) };
	__u32 *known = bpf_map_lookup_elem(&wanted, &key);
	return known && *known & WANT_OUTPUT;
}

/* Whether a thread woken by a recorded one has received something from it. A thread waiting for a kernel lock has not
 * (it sleeps uninterruptibly), nor has a parent notified of an exit, nor the reader of the command's output. */
static __always_inline int has_got_something(struct task_struct *task, struct task_struct *woken)
{
	if (!(woken->__state & TASK_INTERRUPTIBLE))
		return 0;
	if (task->flags & PF_EXITING && woken->tgid == BPF_CORE_READ(task, real_parent, tgid))
		return 0;
	return !writes_output(task);
}

#endif

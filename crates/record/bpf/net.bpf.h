/* Connections: threads' sends and receives, TCP's state, retransmissions. */

static __always_inline void emit_net_run(struct thread *thread, struct net_run *run, __u32 direction)
{
	if (!run->count)
		return;
	struct record_net record = {};
	record.head.kind = RECORD_NET;
	record.head.thread = thread->serial;
	record.head.at_ns = run->last_ns;
	record.connection = run->connection;
	record.first_ns = run->first_ns;
	record.end_bytes = run->end_bytes;
	record.bytes = run->bytes;
	record.count = run->count;
	record.result = run->result;
	record.direction = direction;
	run->count = 0;
	run->bytes = 0;
	emit(&record.head, sizeof(record));
}

static __always_inline void emit_net_runs(struct thread *thread)
{
	emit_net_run(thread, &thread->runs[RUN_RECEIVED], 1);
	emit_net_run(thread, &thread->runs[RUN_FRUITLESS], 1);
	emit_net_run(thread, &thread->runs[RUN_SENT], 0);
}

/* Minimum pause on the wire whose two ends are emitted. */
#define PAUSE_NS 100000

static __always_inline void emit_mark(struct connection *connection, __u32 what, __u32 value, __u64 at_ns)
{
	struct record_tcp_mark mark = {};
	mark.head.kind = RECORD_TCP_MARK;
	mark.head.at_ns = at_ns;
	mark.head.thread = connection->asker;
	mark.connection = connection->cookie;
	mark.what = what;
	mark.value = value;
	emit(&mark.head, sizeof(mark));
}

static __noinline int emit_tcp(struct tcp_sock *tcp, struct sock *sk, struct connection *connection, __u64 now)
{
	struct record_tcp record = {};
	if (!tcp || !sk || !connection)
		return 0;
	__u64 jiffies = bpf_jiffies64();
	record.head.kind = RECORD_TCP;
	record.head.at_ns = now;
	record.connection = connection->cookie;
	record.cwnd = tcp->snd_cwnd;
	record.ssthresh = tcp->snd_ssthresh;
	record.mss = tcp->mss_cache;
	record.srtt_us = tcp->srtt_us >> 3;
	record.min_rtt_us = tcp->rtt_min.s[0].v;
	__u32 una = tcp->snd_una, next = tcp->snd_nxt, received = tcp->rcv_nxt;
	record.in_flight_bytes = next - una;
	record.peer_window_bytes = tcp->snd_wnd;
	record.send_buffer_bytes = sk->sk_sndbuf;
	record.unsent_bytes = tcp->write_seq - next;
	record.unread_bytes = received - tcp->copied_seq;
	record.busy_jiffies = tcp->chrono_stat[0];
	record.rwnd_limited_jiffies = tcp->chrono_stat[1];
	record.sndbuf_limited_jiffies = tcp->chrono_stat[2];
	__u32 since = (__u32)jiffies - tcp->chrono_start;
	__u32 type = tcp->chrono_type & 3;
	if (type == 1)
		record.busy_jiffies += since;
	else if (type == 2)
		record.rwnd_limited_jiffies += since;
	else if (type == 3)
		record.sndbuf_limited_jiffies += since;
	/* Busy time includes limited time. */
	record.busy_jiffies += record.rwnd_limited_jiffies + record.sndbuf_limited_jiffies;
	record.state = BPF_CORE_READ_BITFIELD(tcp, inet_conn.icsk_ca_state);
	connection->emitted_ns = now;
	connection->emitted_cwnd = record.cwnd;
	connection->emitted_window = record.peer_window_bytes;
	connection->emitted_in_flight = record.in_flight_bytes;
	emit(&record.head, sizeof(record));
	/* Before the peer has answered, its window is unknown. */
	__u32 closed = record.peer_window_bytes == 0 && sk->__sk_common.skc_state != TCP_SYN_SENT;
	if (closed && !connection->zero_window)
		emit_mark(connection, TCP_MARK_ZERO_WINDOW, 0, now);
	connection->zero_window = closed;
	return 0;
}

static __always_inline int differs(__u32 one, __u32 other)
{
	return one > other * 2 || other > one * 2;
}

/* Emits TCP's state when its window closes or opens, every millisecond while it changes, and every five otherwise. */
static __always_inline void emit_tcp_in_turn(struct tcp_sock *tcp, struct sock *sk, struct connection *connection, __u64 now)
{
	__u64 since = now - connection->emitted_ns;
	__u32 closed = tcp->snd_wnd == 0;
	if (closed == connection->zero_window) {
		if (since < settings.tcp_gap_ns)
			return;
		if (since < 5ull * settings.tcp_gap_ns && tcp->snd_cwnd == connection->emitted_cwnd &&
		    !differs(tcp->snd_wnd, connection->emitted_window) && !differs(tcp->snd_nxt - tcp->snd_una, connection->emitted_in_flight))
			return;
	}
	emit_tcp(tcp, sk, connection, now);
}

static __always_inline void emit_progress(struct connection *connection, __u32 direction, __u64 from_bytes, __u64 from_ns, __u64 left_ns,
					  __u64 now)
{
	struct progress *progress = &connection->progress[direction & 1];
	struct record_wire record = {};
	record.head.kind = RECORD_WIRE;
	record.head.at_ns = now;
	record.connection = connection->cookie;
	record.from_ns = from_ns;
	record.from_bytes = from_bytes;
	record.bytes = progress->bytes;
	record.left_ns = left_ns;
	record.direction = direction;
	progress->emitted_ns = now;
	progress->pending = 0;
	emit(&record.head, sizeof(record));
}

/* Notes progress of one direction. Both ends of a pause are emitted exactly; continuous progress, every millisecond. */
static __always_inline void note_progress(struct connection *connection, __u32 direction, __u64 before, __u64 after, __u64 left_ns, __u64 now)
{
	struct progress *progress = &connection->progress[direction & 1];
	__u64 from_ns = progress->last_ns;
	__u64 from_bytes = from_ns ? progress->bytes : before;
	if ((__s64)(after - from_bytes) <= 0)
		return;
	progress->bytes = after;
	progress->last_ns = now;
	progress->pending = 1;
	if (!from_ns || now - from_ns >= PAUSE_NS || left_ns || now - progress->emitted_ns >= settings.tcp_gap_ns)
		emit_progress(connection, direction, from_bytes, from_ns, left_ns, now);
}

/* Emits the remaining progress before a connection is closed. */
static __always_inline void emit_rest(struct sock *sk)
{
	struct connection *connection;
	if (!sk->sk_bpf_storage)
		return;
	connection = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (!connection || control.stopped)
		return;
	for (__u32 direction = 0; direction < 2; direction++) {
		struct progress *progress = &connection->progress[direction];
		if (progress->pending)
			emit_progress(connection, direction, progress->bytes, progress->last_ns, 0, progress->last_ns);
	}
}

struct tcp_head {
	__u16 source;
	__u16 target;
	__u32 sequence;
	__u32 acknowledged;
	__u8 words; /* in the upper half: its length */
	__u8 flags;
	__u16 window;
};

/* Handles an acknowledgement that is not processed yet. */
static __always_inline void note_acknowledged(struct tcp_sock *tcp, struct connection *connection, __u32 acknowledged, __u64 now)
{
	__u32 una = tcp->snd_una, next = tcp->snd_nxt, unsent = tcp->write_seq - next;
	__u32 bytes = acknowledged - una, in_flight = next - una;
	__u64 drained_ns = connection->drained_ns, left_ns = 0, first_ns = tcp->first_tx_mstamp * 1000;
	if (!bytes || bytes > in_flight)
		return;
	if (drained_ns || !connection->progress[0].last_ns) {
		if (first_ns > drained_ns + PAUSE_NS && first_ns < now)
			left_ns = first_ns;
		if (drained_ns && left_ns && tcp->snd_cwnd < connection->drained_cwnd)
			emit_mark(connection, TCP_MARK_RESTART, tcp->snd_cwnd, left_ns);
	}
	/* Less than a segment waited for this acknowledgement of less than a segment, with room for more. */
	if (unsent && unsent < tcp->mss_cache && in_flight < tcp->mss_cache && tcp->snd_cwnd > 1 && tcp->snd_wnd > in_flight + unsent &&
	    !BPF_CORE_READ_BITFIELD(tcp, nonagle) && now > first_ns + settings.tcp_gap_ns)
		emit_mark(connection, TCP_MARK_NAGLE, (now - first_ns) / 1000, now);
	connection->drained_ns = bytes == in_flight && !unsent ? now : 0;
	connection->drained_cwnd = tcp->snd_cwnd;
	note_progress(connection, 0, tcp->bytes_acked, tcp->bytes_acked + bytes, left_ns, now);
}

#define LOOK(field) (*(volatile typeof(field) *)&(field))

/* Positions in the stream. They consist of two counters that another CPU may be updating: read until both are stable. */
static __always_inline __u64 received_position(struct tcp_sock *tcp)
{
	__u64 bytes = 0;
	__u32 next = 0;
	for (int i = 0; i < 4; i++) {
		next = LOOK(tcp->rcv_nxt);
		bytes = LOOK(tcp->bytes_received);
		if (next == LOOK(tcp->rcv_nxt) && bytes == LOOK(tcp->bytes_received))
			break;
	}
	return bytes - (__u32)(next - LOOK(tcp->copied_seq));
}

static __always_inline __u64 sent_position(struct tcp_sock *tcp)
{
	__u64 bytes = 0;
	__u32 acknowledged = 0;
	for (int i = 0; i < 4; i++) {
		acknowledged = LOOK(tcp->snd_una);
		bytes = LOOK(tcp->bytes_acked);
		if (acknowledged == LOOK(tcp->snd_una) && bytes == LOOK(tcp->bytes_acked))
			break;
	}
	return bytes + (__u32)(LOOK(tcp->write_seq) - acknowledged);
}

/* Notes bytes that will also be counted by the I/O accounting. */
static __always_inline void note_accounted(struct task_struct *task, struct thread *thread, int bytes, __u32 direction)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u32 flags = settings.call_flags[CALL_NUMBER(regs) & 511];
	if (flags & (direction ? CALL_READS : CALL_WRITES)) {
		thread->net_bytes[!direction] += bytes;
		thread->net_calls[!direction] += 1;
	}
}

/* Handles a call on an unconnected socket. */
static __always_inline void note_message(struct task_struct *task, struct thread *thread, struct sock *sk, int result, __u32 direction)
{
	if (!direction)
		emit_peer(task, sk, bpf_ktime_get_ns());
	else if (result >= 0)
		emit_asked(thread, sk, bpf_ktime_get_ns());
	note_names(sk, result, direction, 0);
}

static __always_inline int note_net(struct sock *sk, int result, __u32 direction)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!is_recorded(thread))
		thread = follow_user(task, sk);
	if (!is_recorded(thread) || !thread)
		return note_neighbour(task, sk, result, direction);
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp) {
		note_message(task, thread, sk, result, direction);
		return 0;
	}
	struct connection *connection = bpf_sk_storage_get(&connections, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!connection)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	if (!connection->cookie) {
		connection->cookie = bpf_get_socket_cookie(sk);
		control.older = 1;
		remember(sk, connection, thread->depth);
		emit_connection(sk, connection->cookie, now);
	}
	__u32 which = direction ? RUN_RECEIVED : RUN_SENT;
	__u64 end;
	if (direction) {
		end = received_position(tcp);
		if (result == -EAGAIN)
			which = RUN_FRUITLESS;
		thread->polled_connection = which == RUN_FRUITLESS ? connection->cookie : 0;
	} else {
		end = sent_position(tcp);
	}
	if (result > 0 && !(task->flags & PF_KTHREAD)) {
		note_accounted(task, thread, result, direction);
		if (!direction)
			note_sent(connection, result);
		note_names(sk, result, direction, 1);
	}
	if (result < 0 && which != RUN_FRUITLESS)
		return 0;
	/* The end of a stream counts as a byte too, and is taken together with the last bytes. */
	if (direction && result > 0 && sk->sk_shutdown & RCV_SHUTDOWN && LOOK(tcp->rcv_nxt) == LOOK(tcp->copied_seq))
		end -= 1;
	/* The bytes taken so far plus this call's result are more reliable than a count that differs by this little. */
	__u64 next = connection->next_bytes[direction & 1] + (result > 0 ? result : 0);
	if (connection->next_bytes[direction & 1] && end - next + 2 <= 4)
		end = next;
	connection->next_bytes[direction & 1] = end;
	struct net_run *run = &thread->runs[which];
	thread->in_net = 1;
	barrier();
	if (run->count && (run->connection != connection->cookie || now - run->first_ns >= settings.merge_ns))
		emit_net_run(thread, run, direction);
	if (!run->count) {
		run->connection = connection->cookie;
		run->first_ns = now;
		run->result = which == RUN_FRUITLESS ? -EAGAIN : 0;
	}
	run->count += 1;
	run->last_ns = now;
	run->end_bytes = end;
	if (result > 0)
		run->bytes += result;
	barrier();
	thread->in_net = 0;
	emit_tcp_in_turn(tcp, sk, connection, now);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send, struct sock *sk, int result, int flags)
{
	return note_net(sk, result, 0);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_receive, struct sock *sk, int result, int flags)
{
	/* A peek takes nothing. */
	if (flags & MSG_PEEK)
		return 0;
	return note_net(sk, result, 1);
}

/* Notes the connection that this CPU is handling: a thread woken now is woken for it. */
static __always_inline struct connection *note_handled(struct sock *sk, struct connection *connection)
{
	struct processor *processor = this_processor();
	__u64 cookie = sk->__sk_common.skc_cookie.counter;
	if (processor) {
		processor->tcp_sock = sk;
		processor->tcp_cookie = cookie ? cookie : bpf_get_socket_cookie(sk);
		processor->tcp_followed = connection ? connection->followed : 0;
	}
	return connection;
}

/* Runs for each segment that arrives on an established connection, before it is processed. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(on_tcp_probe, struct sock *sk, struct sk_buff *skb)
{
	struct connection *connection = note_handled(sk, connection_of_any(sk));
	struct tcp_head head = {};
	if (!connection || !connection->cookie || control.stopped)
		return 0;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp || bpf_probe_read_kernel(&head, sizeof(head), skb->data))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 length = skb->len, head_bytes = (head.words >> 4) * 4, came = bpf_ntohl(head.sequence) + length - head_bytes - tcp->rcv_nxt;
	if (length > head_bytes && (__s32)came > 0)
		note_progress(connection, 1, tcp->bytes_received, tcp->bytes_received + came, 0, now);
	note_acknowledged(tcp, connection, bpf_ntohl(head.acknowledged), now);
	emit_tcp_in_turn(tcp, sk, connection, now);
	return 0;
}

/* Handles a new connection at its listener, and emits how many requests the listener dropped before because its queue
 * was full. */
static __always_inline void note_listener(struct sock *sk)
{
	struct connection *listener = bpf_sk_storage_get(&connections, sk, 0, 0);
	struct processor *processor = this_processor();
	__u32 drops = BPF_CORE_READ(sk, sk_drops.counter), before;
	if (!listener) {
		listener = bpf_sk_storage_get(&connections, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!listener)
			return;
		/* Drops older than the first sight of the listener count only if its queue is still full. */
		listener->drops = BPF_CORE_READ(sk, sk_ack_backlog) >= BPF_CORE_READ(sk, sk_max_ack_backlog) ? 0 : drops;
	}
	before = listener->drops;
	listener->drops = drops;
	if (drops == before || !processor || !processor->tcp_followed || control.stopped)
		return;
	struct record_tcp_mark mark = {};
	mark.head.kind = RECORD_TCP_MARK;
	mark.head.at_ns = bpf_ktime_get_ns();
	mark.connection = processor->tcp_cookie;
	mark.what = TCP_MARK_ACCEPT_QUEUE;
	mark.value = drops - before;
	emit(&mark.head, sizeof(mark));
}

/* Runs before a reader is woken, even in the states that tcp_probe does not cover. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_data_ready, struct sock *sk)
{
	__u8 state = sk->__sk_common.skc_state;
	if (sk->sk_protocol == IPPROTO_UDP)
		note_datagram(sk);
	/* Covered by tcp_probe. */
	if (state == TCP_ESTABLISHED)
		return 0;
	__u16 family = sk->__sk_common.skc_family;
	if (sk->sk_protocol != IPPROTO_TCP || (family != AF_INET && family != AF_INET6))
		return 0;
	/* The listener is woken for the connection just made. */
	if (state == TCP_LISTEN) {
		note_listener(sk);
		return 0;
	}
	struct connection *connection = note_handled(sk, connection_of_any(sk));
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	if (connection && connection->cookie && tcp && !control.stopped)
		note_progress(connection, 1, tcp->bytes_received, tcp->bytes_received, 0, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_retransmit, struct sock *sk, struct sk_buff *skb)
{
	struct connection *connection = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (!connection || control.stopped)
		return 0;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 in_loss = BPF_CORE_READ_BITFIELD(tcp, inet_conn.icsk_ca_state) == TCP_CA_Loss;
	struct processor *processor = this_processor();
	/* A connection whose first segment was lost has not been emitted. */
	emit_connection(sk, connection->cookie, now);
	if (sk->__sk_common.skc_state == TCP_SYN_SENT) {
		note_asking(sk, connection);
		emit_mark(connection, TCP_MARK_SYN, connection->drained_ns ? (now - connection->drained_ns) / 1000 : 0, now);
		return 0;
	}
	if (!tcp->snd_wnd) {
		/* A zero-window probe. */
		emit_mark(connection, TCP_MARK_ZERO_WINDOW, 0, now);
		return 0;
	}
	emit_mark(connection, TCP_MARK_RETRANSMIT, skb->len, now);
	if (in_loss && processor && processor->softirq == 2) {
		/* From the retransmission timer. */
		emit_mark(connection, TCP_MARK_TIMEOUT, skb->len, now);
	}
	emit_tcp(tcp, sk, connection, now);
	return 0;
}

/* Handles a failed connection: refused, unanswered, or given up by the caller. */
static __always_inline void note_failed(struct sock *sk)
{
	struct connection *connection = connection_of(sk);
	int error = BPF_CORE_READ(sk, sk_err);
	__u64 now = bpf_ktime_get_ns();
	if (!connection || !connection->asker || control.stopped)
		return;
	emit_connection(sk, connection->cookie, now);
	emit_mark(connection, TCP_MARK_FAILED, error ? error : ECANCELED, now);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_tcp_state, struct sock *sk, int before, int after)
{
	__u64 cookie;
	__u32 end;
	if (after == TCP_SYN_SENT) {
		cookie = bpf_get_socket_cookie(sk);
		end = 1;
		bpf_map_update_elem(&ends, &cookie, &end, BPF_ANY);
	} else if (before == TCP_SYN_RECV && after == TCP_ESTABLISHED) {
		cookie = bpf_get_socket_cookie(sk);
		end = 2;
		bpf_map_update_elem(&ends, &cookie, &end, BPF_ANY);
	}
	follow_state(sk, before, after);
	if (before == TCP_SYN_SENT && after == TCP_CLOSE)
		note_failed(sk);
	if (before == TCP_ESTABLISHED)
		emit_rest(sk);
	struct connection *connection = note_handled(sk, connection_of(sk));
	if (connection && after == TCP_SYN_SENT)
		connection->drained_ns = bpf_ktime_get_ns();
	return 0;
}

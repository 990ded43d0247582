/* Connections: what threads send and receive, what TCP says, what was sent again. */

static __always_inline void tell_net_run(struct thread *thread, struct net_run *run, __u32 direction)
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
	tell(&record.head, sizeof(record));
}

static __always_inline void tell_net_runs(struct thread *thread)
{
	tell_net_run(thread, &thread->runs[RUN_RECEIVED], 1);
	tell_net_run(thread, &thread->runs[RUN_FRUITLESS], 1);
	tell_net_run(thread, &thread->runs[RUN_SENT], 0);
}

static __noinline int tell_tcp(struct tcp_sock *tcp, struct sock *sk, struct connection *connection, __u64 now)
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
	record.sent_bytes = tcp->bytes_acked;
	record.received_bytes = tcp->bytes_received;
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
	/* Busy is all of it, limited or not. */
	record.busy_jiffies += record.rwnd_limited_jiffies + record.sndbuf_limited_jiffies;
	record.state = BPF_CORE_READ_BITFIELD(tcp, inet_conn.icsk_ca_state);
	connection->told_ns = now;
	tell(&record.head, sizeof(record));
	/* Before the peer has answered it has said nothing of its window. */
	__u32 closed = record.peer_window_bytes == 0 && sk->__sk_common.skc_state != TCP_SYN_SENT;
	if (closed != connection->zero_window) {
		connection->zero_window = closed;
		if (connection->zero_window) {
			struct record_tcp_mark mark = {};
			mark.head.kind = RECORD_TCP_MARK;
			mark.head.at_ns = now;
			mark.connection = connection->cookie;
			mark.what = 3;
			tell(&mark.head, sizeof(mark));
		}
	}
	return 0;
}

#define LOOK(field) (*(volatile typeof(field) *)&(field))

/* Positions in the stream. They are made of two counters that another processor may be moving on together: looked at
 * until both stand still. */
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

static __always_inline int note_net(struct sock *sk, int result, __u32 direction)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!is_recorded(thread))
		thread = follow_user(task, sk);
	if (!is_recorded(thread) || !thread)
		return 0;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp) {
		if (!direction)
			tell_peer(task, sk, bpf_ktime_get_ns());
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
		tell_connection(sk, connection->cookie, now);
	}
	__u32 which = direction ? RUN_RECEIVED : RUN_SENT;
	__u64 end;
	if (direction) {
		end = received_position(tcp);
		if (result == -EAGAIN) {
			which = RUN_FRUITLESS;
			thread->polled_connection = connection->cookie;
		} else {
			thread->polled_connection = 0;
		}
	} else {
		end = sent_position(tcp);
	}
	if (result > 0 && !(task->flags & PF_KTHREAD)) {
		/* Through calls that the accounting counts, these bytes will be counted there too. */
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
		__u32 flags = settings.call_flags[CALL_NUMBER(regs) & 511];
		if (flags & (direction ? CALL_READS : CALL_WRITES)) {
			thread->net_bytes[!direction] += result;
			thread->net_calls[!direction] += 1;
		}
	}
	if (result < 0 && which != RUN_FRUITLESS)
		return 0;
	/* The end of a stream is counted as a byte too, and taken together with the last bytes. */
	if (direction && result > 0 && sk->sk_shutdown & RCV_SHUTDOWN && LOOK(tcp->rcv_nxt) == LOOK(tcp->copied_seq))
		end -= 1;
	/* What was taken so far, with this call's result, is surer than a count that differs by so little. */
	__u64 next = connection->next_bytes[direction & 1] + (result > 0 ? result : 0);
	if (connection->next_bytes[direction & 1] && end - next + 2 <= 4)
		end = next;
	connection->next_bytes[direction & 1] = end;
	struct net_run *run = &thread->runs[which];
	if (run->count && (run->connection != connection->cookie || now - run->first_ns >= settings.merge_ns))
		tell_net_run(thread, run, direction);
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
	if (now - connection->told_ns >= settings.tcp_gap_ns)
		tell_tcp(tcp, sk, connection, now);
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
	/* A look at what is there takes nothing. */
	if (flags & MSG_PEEK)
		return 0;
	return note_net(sk, result, 1);
}

/* The connection that this processor is busy with: if a thread is woken now, it is for that. */
static __always_inline void note_handled(struct sock *sk)
{
	struct processor *processor = this_processor();
	if (processor) {
		processor->tcp_sock = sk;
		processor->tcp_cookie = bpf_get_socket_cookie(sk);
		struct connection *connection = connection_of(sk);
		processor->tcp_followed = connection ? connection->followed : 0;
	}
}

/* For each segment that arrives on an established connection, before it is processed. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(on_tcp_probe, struct sock *sk)
{
	note_handled(sk);
	struct connection *connection = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (!connection || control.stopped)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	if (now - connection->told_ns < settings.tcp_gap_ns)
		return 0;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	return tcp ? tell_tcp(tcp, sk, connection, now) : 0;
}

/* Before a reader is woken, also in the states that tcp_probe leaves out. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_data_ready, struct sock *sk)
{
	__u16 family = sk->__sk_common.skc_family;
	__u8 state = sk->__sk_common.skc_state;
	if (sk->sk_protocol == IPPROTO_UDP)
		note_datagram(sk);
	/* Those are tcp_probe's; and who listens is woken for the connection that was made just now. */
	if (state == TCP_ESTABLISHED || state == TCP_LISTEN)
		return 0;
	if (sk->sk_protocol == IPPROTO_TCP && (family == AF_INET || family == AF_INET6))
		note_handled(sk);
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
	struct record_tcp_mark mark = {};
	__u64 now = bpf_ktime_get_ns();
	mark.head.kind = RECORD_TCP_MARK;
	mark.head.at_ns = now;
	mark.connection = connection->cookie;
	mark.what = 1;
	mark.bytes = skb->len;
	/* One whose first segment was lost has not been told of. */
	tell_connection(sk, connection->cookie, now);
	tell(&mark.head, sizeof(mark));
	__u32 in_loss = BPF_CORE_READ_BITFIELD(tcp, inet_conn.icsk_ca_state) == TCP_CA_Loss;
	struct processor *processor = this_processor();
	if (in_loss && processor && processor->softirq == 2) {
		/* From the retransmission timer. */
		mark.what = 2;
		tell(&mark.head, sizeof(mark));
	}
	tell_tcp(tcp, sk, connection, now);
	return 0;
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
	note_handled(sk);
	return 0;
}

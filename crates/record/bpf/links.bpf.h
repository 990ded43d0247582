/* Links (network devices) used by recorded connections, and what unrecorded processes move over them. */

#define IFF_LOOPBACK 8

/* Interval at which a process's bytes are emitted, after the first time. */
#define NEIGHBOUR_NS 50000000

/* Links of recorded connections. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 64);
	__type(key, __u64);
	__type(value, __u32);
} links SEC(".maps");

struct neighbour_key {
	__u64 link;
	__u32 pid;
	__u32 direction;
};

struct neighbour {
	__u64 bytes;
	__u64 emitted_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct neighbour_key);
	__type(value, struct neighbour);
} neighbours SEC(".maps");

/* Returns the device that a socket's packets leave by; 0: unknown, or local. Replies normally arrive by the same
 * device. */
static __always_inline __u64 link_of(struct sock *sk)
{
	struct dst_entry *way = 0;
	struct net_device *link;
	if (!bpf_core_field_exists(sk->sk_dst_cache) || !bpf_core_field_exists(way->dev))
		return 0;
	way = BPF_CORE_READ(sk, sk_dst_cache);
	link = way ? BPF_CORE_READ(way, dev) : 0;
	return link && !(BPF_CORE_READ(link, flags) & IFF_LOOPBACK) ? (__u64)link : 0;
}

/* Notes that a recorded connection uses this link, so that other processes' traffic on it is counted from now on. */
static __always_inline void note_link(__u64 link, __u8 *name)
{
	struct net_device *device = (struct net_device *)link;
	__u32 one = 1;
	bpf_probe_read_kernel_str(name, 16, __builtin_preserve_access_index(&device->name));
	if (!bpf_map_lookup_elem(&links, &link))
		bpf_map_update_elem(&links, &link, &one, BPF_ANY);
	control.links = 1;
}

/* Counts bytes that an unrecorded process sent or received. */
static __noinline int note_neighbour(struct task_struct *task, struct sock *sk, int bytes, __u32 direction)
{
	if (!task || !sk || bytes <= 0 || !control.links || control.stopped)
		return 0;
	struct neighbour_key key = { .link = link_of(sk), .pid = task->tgid, .direction = direction };
	if (!key.link || !bpf_map_lookup_elem(&links, &key.link))
		return 0;
	struct neighbour *known = bpf_map_lookup_elem(&neighbours, &key);
	if (!known) {
		struct neighbour fresh = {};
		bpf_map_update_elem(&neighbours, &key, &fresh, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&neighbours, &key);
		if (!known)
			return 0;
	}
	__u64 now = bpf_ktime_get_ns();
	__sync_fetch_and_add(&known->bytes, bytes);
	if (now - known->emitted_ns < NEIGHBOUR_NS)
		return 0;
	known->emitted_ns = now;
	struct record_link record = {};
	struct net_device *device = (struct net_device *)key.link;
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	record.head.kind = RECORD_LINK;
	record.head.at_ns = now;
	record.link = key.link;
	record.bytes = known->bytes;
	record.direction = direction;
	record.pid = number_here(task, 1, task->tgid);
	bpf_probe_read_kernel_str(record.link_name, sizeof(record.link_name), __builtin_preserve_access_index(&device->name));
	BPF_CORE_READ_INTO(&record.name, leader, comm);
	emit(&record.head, sizeof(record));
	return 0;
}

/* Resolves descriptors: from a thread's file table to a file's path or a connection's two ends, each emitted once. */
#ifndef THALWEG_DESCRIPTORS_H
#define THALWEG_DESCRIPTORS_H

/* Emits the two ends of a socket, once. */
static __noinline int emit_connection(struct sock *sk, __u64 id, __u64 at_ns)
{
	__u32 end = 0, *known;
	if (!sk || bpf_map_lookup_elem(&emitted_connections, &id))
		return 0;
	struct record_connection record = {};
	__u64 cookie = BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
	known = bpf_map_lookup_elem(&ends, &cookie);
	if (known)
		end = *known;
	record.head.kind = RECORD_CONNECTION;
	record.head.at_ns = at_ns;
	record.connection = id;
	record.inode = BPF_CORE_READ(sk, sk_socket, file, f_inode, i_ino);
	record.namespace = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	record.family = BPF_CORE_READ(sk, __sk_common.skc_family);
	record.end = end;
	record.local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	record.remote_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	record.state = BPF_CORE_READ(sk, __sk_common.skc_state);
	if (record.family == AF_INET) {
		BPF_CORE_READ_INTO((__u32 *)record.local, sk, __sk_common.skc_rcv_saddr);
		BPF_CORE_READ_INTO((__u32 *)record.remote, sk, __sk_common.skc_daddr);
	} else if (record.family == AF_INET6) {
		BPF_CORE_READ_INTO((struct in6_addr *)record.local, sk, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO((struct in6_addr *)record.remote, sk, __sk_common.skc_v6_daddr);
	} else {
		return 0;
	}
	/* A failed connection has released its port but still stores it. */
	if (!record.local_port)
		record.local_port = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	/* Without both ports it is not a connection yet, or no longer. */
	if (!record.local_port || !record.remote_port)
		return 0;
	record.link = link_of(sk);
	if (record.link)
		note_link(record.link, record.link_name);
	bpf_map_update_elem(&emitted_connections, &id, &end, BPF_ANY);
	emit(&record.head, sizeof(record));
	return 0;
}

/* The verifier checks a non-static function once per program, a static one at each call and for every state of the
 * caller. Functions called in a loop or from many places are therefore not static, and take their arguments as
 * numbers or from a map. */

/* Takes one step from a file towards the root; returns 0 if none is left. */
int walk_path(void)
{
	__u32 zero = 0;
	struct path_walk *walk = bpf_map_lookup_elem(&path_scratch, &zero);
	if (!walk)
		return 0;
	struct dentry *dentry = walk->dentry;
	struct mount *mount = walk->mount;
	__u32 used = walk->used;
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
	struct dentry *root = mount ? BPF_CORE_READ(mount, mnt.mnt_root) : 0;
	if (dentry == root || dentry == parent) {
		/* The top of this file system: continue at its mount point. */
		struct mount *above = mount ? BPF_CORE_READ(mount, mnt_parent) : 0;
		if (above == mount || !above)
			return 0;
		walk->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		walk->mount = above;
		return 1;
	}
	if (used >= PATH_BYTES)
		return 0;
	const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);
	long length = bpf_probe_read_kernel_str(walk->record.path + (used & (PATH_BYTES - 1)), 256, name);
	if (length <= 0)
		return 0;
	walk->used = used + (length & 511);
	walk->dentry = parent;
	return 1;
}

/* Emits the path of a file, once. The walk is bounded; a deeper path loses its first parts. */
int emit_file(__u64 file_address, __u64 inode_address, __u32 device, __u32 mode, __u32 access)
{
	struct file *file = (struct file *)file_address;
	struct inode *inode = (struct inode *)inode_address;
	struct file_key key = { .inode = BPF_CORE_READ(inode, i_ino), .device = device };
	__u32 zero = 0, *known;
	known = bpf_map_lookup_elem(&emitted_files, &key);
	access &= 3;
	if (known && (*known & access) == access)
		return 0;
	struct path_walk *walk = bpf_map_lookup_elem(&path_scratch, &zero);
	if (!walk || !inode)
		return 0;
	struct record_file *record = &walk->record;
	access |= known ? *known : 0;
	bpf_map_update_elem(&emitted_files, &key, &access, BPF_ANY);
	record->head.kind = RECORD_FILE;
	record->head.at_ns = bpf_ktime_get_ns();
	record->head.thread = 0;
	record->inode = key.inode;
	record->device = device;
	record->mode = mode;
	record->access = access;
	record->size_bytes = BPF_CORE_READ(inode, i_size);
	walk->mount = 0;
	walk->used = 0;
	if (file) {
		walk->dentry = BPF_CORE_READ(file, f_path.dentry);
		struct vfsmount *vfsmount = BPF_CORE_READ(file, f_path.mnt);
		walk->mount = (struct mount *)((char *)vfsmount - bpf_core_field_offset(struct mount, mnt));
	} else {
		/* Only the inode is known: uses one of its names within its file system. */
		record->access |= ACCESS_WITHIN;
		struct hlist_node *alias = BPF_CORE_READ(inode, i_dentry.first);
		if (!alias)
			return 0;
		walk->dentry = (struct dentry *)((char *)alias - bpf_core_field_offset(struct dentry, d_u.d_alias));
	}
	for (int part = 0; part < PATH_PARTS; part++) {
		if (!walk_path())
			break;
	}
	__u32 used = walk->used;
	record->used = used;
	__u32 size = __builtin_offsetof(struct record_file, path) + (used & 2047);
	if (size > sizeof(*record))
		size = sizeof(*record);
	emit(&record->head, size);
	return 0;
}

/* Pointers are read as numbers here: for each pointer loaded with a type, the verifier searches all of the kernel's
 * types. */
__noinline __u64 file_in(__u64 table_address, __u64 fd)
{
	struct fdtable *table = (struct fdtable *)table_address;
	if (!table || fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	struct file **array = BPF_CORE_READ(table, fd);
	__u64 file = 0;
	bpf_probe_read_kernel(&file, sizeof(file), array + fd);
	return file;
}

static __always_inline struct file *file_of(struct task_struct *task, __u64 fd)
{
	return (struct file *)file_in((__u64)BPF_CORE_READ(task, files, fdt), fd);
}

/* Pseudo-device for which only a Unix socket's path was emitted. */
#define OF_UNIX ~0ull

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record_unix);
} unix_scratch SEC(".maps");

/* Emits the path of the called Unix socket, once: the called end has an address, the calling end normally none. */
int emit_unix(__u64 sk_address, __u64 inode)
{
	struct unix_sock *own = (struct unix_sock *)sk_address;
	struct file_key key = { .inode = inode, .device = OF_UNIX };
	__u32 once = 0;
	struct record_unix *record = bpf_map_lookup_elem(&unix_scratch, &once);
	if (!own || !record || bpf_map_lookup_elem(&emitted_files, &key))
		return 0;
	struct unix_sock *peer = (struct unix_sock *)BPF_CORE_READ(own, peer);
	struct unix_address *address = peer ? BPF_CORE_READ(peer, addr) : 0;
	if (!address || BPF_CORE_READ(own, addr))
		return 0;
	bpf_map_update_elem(&emitted_files, &key, &once, BPF_ANY);
	/* (An unnamed one begins with a 0.) */
	void *from = (void *)address + bpf_core_field_offset(struct unix_address, name) + sizeof(__u16);
	long length = bpf_probe_read_kernel_str(record->path, UNIX_BYTES, from);
	if (length <= 1)
		return 0;
	record->head.kind = RECORD_UNIX;
	record->head.at_ns = bpf_ktime_get_ns();
	record->inode = inode;
	record->used = length - 1;
	emit(&record->head, sizeof(*record));
	return 0;
}

/* Resolves an open file; `cached` and `cached_inode` save the slow path if it is the same as last time. */
int describe(__u64 file_address, struct fd_object *out, __u64 *cached_inode, __u64 at_ns)
{
	struct file *file = (struct file *)file_address;
	if (!file || !out || !cached_inode)
		return 0;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	__u64 number = BPF_CORE_READ(inode, i_ino);
	__u64 mark = (__u64)inode ^ (number << 20) ^ (__u64)file;
	if (mark == *cached_inode && out->mode)
		return 0;
	__u32 mode = BPF_CORE_READ(inode, i_mode);
	__u32 access = BPF_CORE_READ(file, f_mode) & 3;
	__u32 flags = BPF_CORE_READ(file, f_flags);
	if (flags & O_DSYNC)
		access |= 1u << 16;
	if (flags & O_DIRECT)
		access |= ACCESS_DIRECT;
	out->mode = mode;
	out->access = access;
	out->id = number;
	if ((mode & S_IFMT) == S_IFSOCK) {
		struct socket *socket = BPF_CORE_READ(file, private_data);
		struct sock *sk = BPF_CORE_READ(socket, sk);
		__u32 protocol = BPF_CORE_READ(sk, sk_protocol);
		__u32 family = BPF_CORE_READ(sk, __sk_common.skc_family);
		out->device = family | (protocol & 0xff) << 8 | (__u32)BPF_CORE_READ(sk, sk_type) << 16;
		if (protocol == IPPROTO_TCP && (family == AF_INET || family == AF_INET6)) {
			__u64 cookie = BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
			out->id = cookie ? cookie : number | 1ull << 63;
			emit_connection(sk, out->id, at_ns);
			/* A listening socket, or one without a cookie, is resolved again next time. */
			if (!cookie || !BPF_CORE_READ(sk, __sk_common.skc_dport))
				mark = 0;
		} else if (family == AF_UNIX) {
			emit_unix((__u64)sk, number);
		}
	} else {
		out->device = BPF_CORE_READ(inode, i_sb, s_dev);
		int named = (mode & S_IFMT) == S_IFIFO && BPF_CORE_READ(inode, i_sb, s_magic) != PIPEFS_MAGIC;
		if (named || (mode & S_IFMT) == S_IFREG || (mode & S_IFMT) == S_IFBLK || (mode & S_IFMT) == S_IFCHR || (mode & S_IFMT) == S_IFDIR)
			emit_file((__u64)file, (__u64)inode, out->device, mode, access);
	}
	*cached_inode = mark;
	return 0;
}

/* Resolves the descriptors of the call in these registers. */
static __always_inline void describe_call(struct task_struct *task, struct thread *thread, __u32 flags, __u64 first, __u64 second,
					  __u64 third, struct fd_object *out, __u64 at_ns)
{
	if (flags & CALL_FD0) {
		thread->cached[0].fd = (int)first;
		struct file *file = file_of(task, (__u32)first);
		if (file) {
			thread->cached_file = (__u64)file;
			describe((__u64)file, &thread->cached[0], &thread->cached_inode[0], at_ns);
			out[0] = thread->cached[0];
		}
	}
	/* (openat's third argument, open's second: nothing is inferred from a pointer.) */
	if (is_path(flags)) {
		__u64 how = CALL_PATH(flags) == PATH_FIRST ? second : third;
		out[0].access = how < 1u << 24 && how & O_TRUNC ? ACCESS_TRUNCATES : 0;
	}
	if (flags & (CALL_FD1 | CALL_FD2)) {
		__u64 fd = flags & CALL_FD1 ? second : third;
		thread->cached[1].fd = (int)fd;
		struct file *file = file_of(task, (__u32)fd);
		if (file) {
			describe((__u64)file, &thread->cached[1], &thread->cached_inode[1], at_ns);
			out[1] = thread->cached[1];
		}
	}
}

#endif

/* The fields of kernel structures that the programs read, and no others. The loader relocates each access to the
 * running kernel's offset (CO-RE), so their order here is irrelevant. */
#ifndef THALWEG_KERNEL_H
#define THALWEG_KERNEL_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs;
struct bpf_local_storage;
struct mnt_namespace;
struct sk_buff {
	unsigned int len;
	unsigned char *data;
};

struct sockaddr_un {
	unsigned short sun_family;
	char sun_path[108];
};

struct unix_address {
	int len;
	struct sockaddr_un name[1];
};

struct unix_sock {
	struct unix_address *addr;	/* 0: unbound */
	struct sock *peer;
};

struct qstr {
	__u32 len;
	const unsigned char *name;
};

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct inode {
	struct hlist_head i_dentry;
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	long long i_size;
	__u32 i_generation;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	union {
		struct hlist_node d_alias;
	} d_u;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mnt_namespace *mnt_ns;
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	unsigned int f_mode;
	void *private_data;
	struct inode *f_inode;
	unsigned int f_flags;
	struct path f_path;
	long long f_pos;
};

struct address_space {
	struct inode *host;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct fs_struct {
	struct path pwd;
};

struct kernel_siginfo {
	int si_code;
};

struct task_io_accounting {
	__u64 rchar;
	__u64 wchar;
	__u64 syscr;
	__u64 syscw;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 prev_sum_exec_runtime;
};

struct sched_info {
	unsigned long long last_arrival;
};

struct mm_struct {
	unsigned long start_stack;
};

struct task_struct {
	unsigned int __state;
	struct sched_entity se;
	struct sched_info sched_info;
	int nr_cpus_allowed;
	int exit_code;
	unsigned int flags;
	int on_cpu;
	unsigned long jobctl;
	unsigned in_iowait : 1;
	int pid;
	int tgid;
	struct mm_struct *mm;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	__u64 start_boottime;
	char comm[16];
	struct files_struct *files;
	struct fs_struct *fs;
	struct bpf_local_storage *bpf_storage;
	struct task_io_accounting ioac;
};

struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	long long counter;
} atomic64_t;

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

struct socket {
	short type;
	struct file *file;
	struct sock *sk;
};

struct net_device {
	unsigned int flags;
	char name[16];
};

struct dst_entry {
	struct net_device *dev;
};

struct sock {
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache;
	int sk_sndbuf;
	int sk_err;
	__u8 sk_shutdown;
	__u16 sk_protocol;
	__u16 sk_type;
	__u8 sk_userlocks : 4;
	struct socket *sk_socket;
	struct bpf_local_storage *sk_bpf_storage;
	__u32 sk_ack_backlog;
	__u32 sk_max_ack_backlog;
	struct {
		int counter;
	} sk_drops;
};

struct inet_sock {
	__u16 inet_sport;
};

struct inet_connection_sock {
	__u8 icsk_ca_state : 5;
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_wnd;
	__u32 mss_cache;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 copied_seq;
	struct minmax rtt_min;
	__u8 chrono_type;
	__u32 chrono_start;
	__u32 chrono_stat[3];
	__u32 write_seq;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 srtt_us;
	__u64 bytes_received;
	__u64 bytes_acked;
	__u64 first_tx_mstamp;
	__u8 nonagle : 4;
};

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct page {
	struct address_space *mapping;
};

struct bio_vec {
	struct page *bv_page;
};

struct bio {
	struct bio_vec *bi_io_vec;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 __sector;
	struct bio *bio;
};

struct bpf_iter__task {
	struct task_struct *task;
};

#pragma clang attribute pop

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r14, bp, bx, r10, r8, ax, cx, dx, si, di, orig_ax, ip, sp;
	unsigned short cs;
} __attribute__((preserve_access_index));
/* The interrupted code's registers, as perf passes them: not relocated. */
struct sampled_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
/* Go's own calling convention (ABIInternal, Go 1.17 and later): the first arguments, and the goroutine. */
#define GO_ARGUMENT0(regs) ((regs)->ax)
#define GO_ARGUMENT1(regs) ((regs)->bx)
#define GO_ARGUMENT2(regs) ((regs)->cx)
#define GO_TASK(regs) ((regs)->r14)
#define GO_STACK(regs) ((regs)->sp)
#define CALL_NUMBER(regs) ((int)(regs)->orig_ax)
#define CALL_ARGUMENT0(regs) ((regs)->di)
#define CALL_ARGUMENT1(regs) ((regs)->si)
#define CALL_ARGUMENT2(regs) ((regs)->dx)
#define CALL_ARGUMENT3(regs) ((regs)->r10)
#define CALL_ARGUMENT4(regs) ((regs)->r8)
#define SAMPLED_IN_USER(regs) (((regs)->cs & 3) == 3)
#define SAMPLED_ADDRESS(regs) ((regs)->ip)
#define SYS_read 0
#define SYS_write 1
#define SYS_writev 20
#define SYS_sendto 44
#define SYS_recvfrom 45
#define SYS_sendmsg 46
#define SYS_recvmsg 47
#define O_DIRECT 0x4000u
#define SYS_wait4 61
#define SYS_kill 62
#define SYS_fcntl 72
#define SYS_recvmmsg 299
#define SYS_sendmmsg 307
#define SYS_flock 73
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	unsigned long regs[31];
	unsigned long sp;
	unsigned long pc;
	unsigned long pstate;
	unsigned long orig_x0;
	int syscallno;
} __attribute__((preserve_access_index));
struct sampled_regs {
	unsigned long regs[31], sp, pc, pstate;
};
#define GO_ARGUMENT0(r) ((r)->regs[0])
#define GO_ARGUMENT1(r) ((r)->regs[1])
#define GO_ARGUMENT2(r) ((r)->regs[2])
#define GO_TASK(r) ((r)->regs[28])
#define GO_STACK(r) ((r)->sp)
#define CALL_NUMBER(r) ((r)->syscallno)
#define CALL_ARGUMENT0(r) ((r)->orig_x0)
#define CALL_ARGUMENT1(r) ((r)->regs[1])
#define CALL_ARGUMENT2(r) ((r)->regs[2])
#define CALL_ARGUMENT3(r) ((r)->regs[3])
#define CALL_ARGUMENT4(r) ((r)->regs[4])
#define SAMPLED_IN_USER(r) (((r)->pstate & 15) == 0)
#define SAMPLED_ADDRESS(r) ((r)->pc)
#define SYS_read 63
#define SYS_write 64
#define SYS_writev 66
#define SYS_sendto 206
#define SYS_recvfrom 207
#define SYS_sendmsg 211
#define SYS_recvmsg 212
#define O_DIRECT 0x10000u
#define SYS_wait4 260
#define SYS_kill 129
#define SYS_fcntl 25
#define SYS_recvmmsg 243
#define SYS_sendmmsg 269
#define SYS_flock 32
#else
#error "the recorder knows the registers of x86-64 and aarch64"
#endif

struct bpf_perf_event_data {
	struct sampled_regs regs;
	__u64 sample_period;
	__u64 addr;
};

#define PF_IO_WORKER 0x00000010u
#define PF_KTHREAD 0x00200000u
#define TASK_INTERRUPTIBLE 1u
#define TASK_UNINTERRUPTIBLE 2u
#define TASK_STOPPED 4u
#define TASK_TRACED 8u
#define TASK_DEAD 0x80u
#define TASK_NOLOAD 0x400u
#define S_IFMT 0xf000u
#define S_IFSOCK 0xc000u
#define S_IFREG 0x8000u
#define S_IFBLK 0x6000u
#define S_IFDIR 0x4000u
#define S_IFCHR 0x2000u
#define S_IFIFO 0x1000u
#define PIPEFS_MAGIC 0x50495045ul

/* Bits of `request.cmd_flags`. */
#define REQUEST_OPERATION 0xffu
#define OPERATION_WRITE 1u
/* Bits of `page.mapping`. */
#define PAGE_MAPPING_ANONYMOUS 1ul
#define O_TRUNC 0x200u
#define O_DSYNC 0x1000u
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_CLOSE 7
#define TCP_LISTEN 10
#define TCP_CA_Loss 4
#define RCV_SHUTDOWN 1
#define MSG_PEEK 2
#define EPERM 1
#define EINTR 4
#define EIO 5
#define EBADF 9
#define EAGAIN 11
#define ENOMEM 12
#define EACCES 13
#define EFAULT 14
#define EINVAL 22
#define ENFILE 23
#define EMFILE 24
#define EFBIG 27
#define ENOSPC 28
#define EROFS 30
#define EDQUOT 122
#define ECANCELED 125

#endif

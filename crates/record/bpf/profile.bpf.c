/* The programs of a profile, in an object of their own: a clock on each CPU that takes the stack of whatever runs
 * there, and the tracepoints at which a CPU changes what it is in. The lean recorder has none of this.
 *
 * At each instant a CPU is in one of: a hard interrupt, the idle task, anything else. At each change the time since
 * the previous change is charged to what it was in, so the sums equal the CPU's time without gaps. Nesting is
 * counted: a timer's handler within the timer's interrupt is one hard interrupt. The sampler's own time is kept
 * separately.
 *
 * Reading the clock is most of the cost, so it is read only where necessary. A software interrupt over a task is left
 * to the samples: only over the idle task does it end idle time. A busy network has a hundred thousand a second.
 * Interrupts that only request scheduling do nothing in their handler, and are not measured. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "kernel.h"
#include "events.h"
#include "thread.bpf.h"
#include "profile.h"

/* Set by the loader: log2 of a quarter of the ring; bytes copied of a user stack, 0 to follow frame pointers here. */
const volatile __u32 wake_shift = 20;
const volatile __u32 stack_bytes = 0;
/* Number of events each CPU counts, and the number of CPUs in the array of their counters. */
const volatile __u32 event_count = 0;
const volatile __u32 event_cpus = 1;

/* Nothing is counted or taken before this is set, or after it is cleared. */
__u32 running = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct processor_times);
} processors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profile_sample);
} scratch SEC(".maps");

/* One per CPU, if stacks are copied. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profile_copy);
} copies SEC(".maps");

/* The counters of one event on all CPUs, followed by those of the next. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} events SEC(".maps");

#if defined(__TARGET_ARCH_x86)
#define IS_32_BIT_CODE(segment) ((segment) == 0x23)
#define USER_CODE(regs) ((regs)->cs)
#define READ_REGISTERS(to, from) ((to)->ip = (from)->ip, (to)->sp = (from)->sp, (to)->fp = (from)->bp, (to)->lr = 0)
#else
#define IS_32_BIT_CODE(state) (((state) & 0x10) != 0)
#define USER_CODE(regs) ((regs)->pstate)
#define READ_REGISTERS(to, from) ((to)->ip = (from)->pc, (to)->sp = (from)->sp, (to)->fp = (from)->regs[29], (to)->lr = (from)->regs[30])
#endif

static __always_inline struct processor_times *this_processor(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&processors, &zero);
}

/* An interrupt may come in between: whichever advances the clock charges the time, so that none is charged twice. */
static __always_inline void charge(struct processor_times *times, __u64 now)
{
	__u64 last = times->last_ns;
	if (now <= last || __sync_val_compare_and_swap(&times->last_ns, last, now) != last || !last)
		return;
	__u64 ns = now - last;
	if (times->hard)
		__sync_fetch_and_add(&times->hardirq_ns, ns);
	else if (!times->soft && !bpf_get_current_task_btf()->pid)
		__sync_fetch_and_add(&times->idle_ns, ns);
	else
		__sync_fetch_and_add(&times->busy_ns, ns);
}

static __always_inline int enter_hard(void)
{
	struct processor_times *times = this_processor();
	if (!running || !times)
		return 0;
	if (!times->hard)
		charge(times, bpf_ktime_get_ns());
	times->hard += 1;
	return 0;
}

static __always_inline int leave_hard(void)
{
	struct processor_times *times = this_processor();
	/* The start of the first one may not have been seen. */
	if (!running || !times || !times->hard)
		return 0;
	if (times->hard == 1)
		charge(times, bpf_ktime_get_ns());
	times->hard -= 1;
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, int preempt, struct task_struct *prev, struct task_struct *next)
{
	if (!running || (prev->pid && next->pid))
		return 0;
	struct processor_times *times = this_processor();
	if (times)
		charge(times, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	struct processor_times *times = this_processor();
	if (!running || !times)
		return 0;
	if (!bpf_get_current_task_btf()->pid)
		charge(times, bpf_ktime_get_ns());
	times->soft = 1;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
	struct processor_times *times = this_processor();
	if (!running || !times || !times->soft)
		return 0;
	if (!bpf_get_current_task_btf()->pid)
		charge(times, bpf_ktime_get_ns());
	times->soft = 0;
	return 0;
}

/* A hard interrupt: devices' everywhere, and on x86 also the vectors without a device. */
#define HARD(name, entry, exit)                  \
	SEC("tp_btf/" #entry)                    \
	int BPF_PROG(on_##name##_entry)          \
	{                                        \
		return enter_hard();             \
	}                                        \
	SEC("tp_btf/" #exit)                     \
	int BPF_PROG(on_##name##_exit)           \
	{                                        \
		return leave_hard();             \
	}

HARD(irq, irq_handler_entry, irq_handler_exit)
HARD(local_timer, local_timer_entry, local_timer_exit)
HARD(call_function, call_function_entry, call_function_exit)
HARD(call_function_single, call_function_single_entry, call_function_single_exit)
HARD(irq_work, irq_work_entry, irq_work_exit)

/* Run by the reader on each CPU: charges the time up to now, even if nothing has happened for long. */
SEC("raw_tp")
int settle(void *ctx)
{
	struct processor_times *times = this_processor();
	if (times)
		charge(times, bpf_ktime_get_ns());
	return 0;
}

/* The reader sleeps by the clock; it is woken each time another quarter of the ring has filled. */
static __always_inline int emit(void *sample, __u32 size)
{
	__u64 begin = bpf_ringbuf_query(&ring, BPF_RB_PROD_POS);
	__u64 end = begin + BPF_RINGBUF_HDR_SZ + ((size + 7) & ~7u);
	__u32 shift = wake_shift & 31;
	return bpf_ringbuf_output(&ring, sample, size, begin >> shift == end >> shift ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
}

/* Copies this CPU's counters into a sample, and returns their size; a counter that cannot be read is always 0. */
static __always_inline __u32 count_events(struct profile_sample *sample)
{
	__u32 event;
	for (event = 0; event < PROFILE_EVENTS && event < event_count; event++) {
		struct bpf_perf_event_value *value = (void *)&sample->frames[event * PROFILE_EVENT_WORDS];
		if (bpf_perf_event_read_value(&events, event * event_cpus + sample->cpu, value, sizeof(*value)))
			__builtin_memset(value, 0, sizeof(*value));
	}
	return event * sizeof(struct bpf_perf_event_value);
}

/* Copies the stack from its top, as far as it is in memory; returns the size. The arguments above a process's first
 * stack are useless and left out. */
static __always_inline __u32 copy_stack(char *to, struct task_struct *task, __u64 top)
{
	__u64 first = task->mm->start_stack;
	__u64 wanted = first - top < stack_bytes ? first - top : stack_bytes;
	__u64 copied = 0;
	for (int piece = 0; piece <= PROFILE_MOST_STACK / PROFILE_PIECE; piece++) {
		if (copied >= wanted || copied > PROFILE_MOST_STACK)
			break;
		__u64 size = PROFILE_PIECE - ((top + copied) & (PROFILE_PIECE - 1));
		if (size > wanted - copied)
			size = wanted - copied;
		if (size > PROFILE_PIECE || bpf_probe_read_user(to + copied, size, (void *)(top + copied)))
			break;
		copied += size;
	}
	return copied;
}

/* Adds the registers and the top of the stack after the kernel's frames, in place of user frames; returns the size. */
static __always_inline __u32 add_stack(struct bpf_perf_event_data *ctx, struct task_struct *task, char *end, __u32 in_user)
{
	struct profile_registers registers;
	if (in_user) {
		READ_REGISTERS(&registers, &ctx->regs);
		/* Otherwise the compiler merges both reads, which the verifier rejects. */
		barrier();
	} else {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
		READ_REGISTERS(&registers, regs);
	}
	__builtin_memcpy(end, &registers, sizeof(registers));
	return sizeof(registers) + copy_stack(end + sizeof(registers), task, registers.sp);
}

#include "waits.bpf.h"

static __always_inline void take(struct bpf_perf_event_data *ctx, struct processor_times *times, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	/* The sampler's own interrupt counts as one; of an idle CPU only the interrupts are of interest. */
	__u32 flags = (times->soft ? PROFILE_SOFTIRQ : 0) | (times->hard > 1 ? PROFILE_HARDIRQ : 0);
	if (!task->pid && !flags)
		return;
	__u32 zero = 0, cpu = bpf_get_smp_processor_id();
	struct profile_sample *sample = stack_bytes ? bpf_map_lookup_elem(&copies, &cpu) : bpf_map_lookup_elem(&scratch, &zero);
	if (!sample)
		return;
	sample->at_ns = now;
	sample->pid = task->tgid;
	sample->tid = task->pid;
	sample->cpu = cpu;
	__builtin_memcpy(sample->name, task->comm, sizeof(sample->name));
	/* Known at load time: without events this code is removed. */
	__u32 counted = count_events(sample);
	flags |= event_count << PROFILE_EVENTS_SHIFT;
	__u64 *frames = (void *)sample->frames + counted;
	long kernel = 0, user = 0;
	if (task->flags & (PF_KTHREAD | PF_IO_WORKER)) {
		flags |= PROFILE_KERNEL_THREAD;
	} else if (SAMPLED_IN_USER(&ctx->regs)) {
		flags |= PROFILE_USER | (IS_32_BIT_CODE(USER_CODE(&ctx->regs)) ? PROFILE_32_BIT : 0);
	} else {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
		flags |= IS_32_BIT_CODE(USER_CODE(regs)) ? PROFILE_32_BIT : 0;
	}
	if (!(flags & PROFILE_USER)) {
		kernel = bpf_get_stack(ctx, frames, PROFILE_FRAMES * 8, 0);
		if (kernel < 0 || kernel > PROFILE_FRAMES * 8)
			kernel = 0;
	}
	__u64 size = PROFILE_HEAD + counted + kernel;
	if (!(flags & PROFILE_KERNEL_THREAD) && task->pid) {
		if (stack_bytes && !(flags & PROFILE_32_BIT)) {
			/* An exiting task no longer has memory. */
			if (task->mm) {
				flags |= PROFILE_STACK;
				size += add_stack(ctx, task, (char *)frames + kernel, flags & PROFILE_USER);
			}
		} else {
			user = bpf_get_stack(ctx, (void *)frames + kernel, PROFILE_FRAMES * 8, BPF_F_USER_STACK);
			if (user < 0 || user > PROFILE_FRAMES * 8)
				user = 0;
			size += user;
		}
	}
	sample->flags = flags;
	sample->kernel_frames = (__u64)kernel >> 3;
	sample->user_frames = (__u64)user >> 3;
	if (size > (stack_bytes ? sizeof(struct profile_copy) : sizeof(*sample)))
		return;
	if (emit(sample, size))
		times->lost += 1;
	else
		times->taken += 1;
}

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	struct processor_times *times = this_processor();
	if (!running || !times)
		return 0;
	__u64 begun = bpf_ktime_get_ns();
	charge(times, begun);
	take(ctx, times, begun);
	/* Nothing interrupts this. */
	__u64 ended = bpf_ktime_get_ns();
	times->sampler_ns += ended - begun;
	times->last_ns = ended;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

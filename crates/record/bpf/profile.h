/* What the programs of a profile hand to the reader; src/profile/raw.rs has the same. */
#ifndef THALWEG_PROFILE_H
#define THALWEG_PROFILE_H

/* As many as the kernel unwinds (kernel.perf_event_max_stack is 127 by default), of the kernel and of the program each. */
#define PROFILE_FRAMES 127

#define PROFILE_USER 1
#define PROFILE_SOFTIRQ 2
#define PROFILE_HARDIRQ 4
#define PROFILE_KERNEL_THREAD 8
#define PROFILE_32_BIT 16
/* No sample: where a recorded thread waited that has just come back. `at_ns` is when it was taken, `name` begins with when the wait began. */
#define PROFILE_WAIT 32

/* A wait must be so long for its stack to be taken: taking one costs 1 to 2 us, and a run that is made of shorter waits is told by how many
 * there are. */
#define WAIT_STACK_NS 1000000
/* Between two stacks of waits on one processor, so that threads that wait often cost half a per cent of it at most. Waits of ten times the
 * least length are taken whatever they cost: of those there cannot be many. */
#define WAIT_STACK_PAUSE_NS 250000

struct profile_sample {
	__u64 at_ns;
	__u32 pid;
	__u32 tid;
	__u16 cpu;
	__u16 flags;
	__u16 kernel_frames;
	__u16 user_frames;
	char name[16];
	/* Those of the kernel, innermost first, and then those of the program. */
	__u64 frames[2 * PROFILE_FRAMES];
};
#define PROFILE_HEAD 40

/* Stacks of waits on a processor. */
struct wait_counts {
	__u64 last_ns;	/* when the last one was taken */
	__u64 taken;
	__u64 left_out;	/* too soon after the one before */
	__u64 lost;	/* no room in the ring */
};

/* How a processor has spent its time since it was first settled. */
struct processor_times {
	__u64 last_ns;	/* up to when */
	__u64 idle_ns;
	__u64 hardirq_ns;
	__u64 softirq_ns;
	__u64 task_ns;
	__u64 sampler_ns;
	__u64 taken;
	__u64 lost;
	__u32 hard;	/* nested hard interrupts it is in */
	__u32 soft;
};

#endif

/* The kernel recorder's programs, as one object: BTF tracepoints (tp_btf), a few kernel functions (fentry), a
 * sampling clock, and walks over all threads. Each program first checks whether the thread is watched, and returns
 * immediately if not. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "kernel.h"
#include "events.h"
#include "shared.bpf.h"
#include "links.bpf.h"
#include "descriptors.bpf.h"
#include "follow.bpf.h"
#include "looks.bpf.h"
#include "words.bpf.h"
#include "polls.bpf.h"
#include "asks.bpf.h"
#include "questions.bpf.h"
#include "net.bpf.h"
#include "futex.bpf.h"
#include "sched.bpf.h"
#include "walks.bpf.h"
#include "names.bpf.h"
#include "signals.bpf.h"
#include "tasks.bpf.h"
#include "block.bpf.h"
#include "samples.bpf.h"
#include "calls.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

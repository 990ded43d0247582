//! The threads that serve requests.
//!
//! A thread receives a request, serves and answers it, and receives the next. At least one thread always waits for a request: when the
//! last one has received one, it starts another thread, so that a slow request (a silent server, a lock that is held) delays no other, and
//! interrupts are always received. Surplus threads end.

use super::recording;
use crate::errors::{HandlerResult, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::abi;
use crate::fuse::device::Device;
use crate::fuse::interrupts::{Abandon, Interrupts};
use crate::fuse::request::{Header, Operation, decode};
use crate::handlers::Grants;
use crate::inodes::local_changes::Touched;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_client::RequestMemory;

/// Bound: threads; beyond it, requests wait.
const THREADS: usize = 512;
/// Bound: idle threads.
const IDLE: usize = 8;
/// A mount's requests, and the threads that serve them.
pub(super) struct Requests {
    pub files: FileSystem,
    pub interrupts: Interrupts,
    write_bytes: usize,
    idle: AtomicUsize,
    threads: Mutex<usize>,
    changed: Condvar,
}

impl Requests {
    pub(super) fn new(files: FileSystem, write_bytes: usize) -> Requests {
        let (idle, threads) = (AtomicUsize::new(0), Mutex::new(0));
        let interrupts = Interrupts::new(Arc::clone(&files.abandoned));
        Requests { files, interrupts, write_bytes, idle, threads, changed: Condvar::new() }
    }

    /// Waits until all threads have ended: the mount is gone.
    pub(super) fn wait(&self) {
        let mut threads = self.threads.lock();
        while *threads > 0 {
            self.changed.wait(&mut threads);
        }
    }
}

/// Starts a thread that serves requests from `device`.
pub(super) fn spawn(requests: &Arc<Requests>, device: Arc<Device>) -> std::io::Result<()> {
    let mut threads = requests.threads.lock();
    let number = *threads;
    let ours = Arc::clone(requests);
    // Counted as idle from now on, so that the caller does not start another.
    requests.idle.fetch_add(1, Ordering::SeqCst);
    let spawned = std::thread::Builder::new().name(format!("mount {number}")).spawn(move || {
        let ending = Ending(ours);
        ending.0.take_requests(&device, number);
    });
    match spawned {
        Ok(_) => {
            *threads += 1;
            Ok(())
        }
        Err(error) => {
            requests.idle.fetch_sub(1, Ordering::SeqCst);
            Err(error)
        }
    }
}

/// Counts a thread as ended, however it ends.
struct Ending(Arc<Requests>);

impl Drop for Ending {
    fn drop(&mut self) {
        *self.0.threads.lock() -= 1;
        self.0.changed.notify_all();
    }
}

impl Requests {
    fn take_requests(self: &Arc<Requests>, device: &Arc<Device>, number: usize) {
        let tracer = self.files.trace.thread(&format!("mount {number}"));
        let mut worker = Worker::new(tracer);
        let mut memory = self.memory();
        loop {
            let received_into = match Arc::get_mut(&mut memory) {
                Some(own) => own,
                // The previous memory is part of a write in flight.
                None => {
                    memory = self.memory();
                    Arc::get_mut(&mut memory).expect("not shared yet")
                }
            };
            let waiting = recording::wait(&mut worker.tracer);
            let received = device.receive(received_into.received(abi::WRITE_HEADER_BYTES));
            recording::waited(&mut worker.tracer, waiting);
            let was_last = self.idle.fetch_sub(1, Ordering::SeqCst) == 1;
            let length = match received {
                Ok(Some(length)) => length,
                Ok(None) => return,
                Err(error) => return self.files.log.line(format_args!("cannot read requests: {error}")),
            };
            if was_last && *self.threads.lock() < THREADS {
                let another = device.another().map(Arc::new).unwrap_or_else(|_| Arc::clone(device));
                if let Err(error) = spawn(self, another) {
                    self.files.log.line(format_args!("cannot start a thread: {error}"));
                }
            }
            // SAFETY: this thread alone writes to it, while no other has a reference.
            match decode(&unsafe { memory.with_before(abi::WRITE_HEADER_BYTES) }[..length]) {
                Ok((header, operation)) => {
                    worker.received = matches!(operation, Some(Operation::Write { .. })).then(|| Arc::clone(&memory));
                    self.one(&mut worker, device, &header, operation);
                    worker.received = None;
                }
                Err(problem) => self.files.log.line(problem),
            }
            if self.idle.fetch_add(1, Ordering::SeqCst) >= IDLE {
                self.idle.fetch_sub(1, Ordering::SeqCst);
                return;
            }
        }
    }

    /// Returns memory for a request, placed so that a write's data begins at its start.
    fn memory(&self) -> Arc<RequestMemory> {
        self.files.data.budget().for_requests(abi::PAGE_BYTES, self.write_bytes)
    }

    fn one(&self, worker: &mut Worker, device: &Arc<Device>, header: &Header, operation: Option<Operation<'_>>) {
        let operation = match operation {
            None => return drop(device.answer(header.unique, libc::ENOSYS, &[])),
            Some(Operation::Interrupt { unique }) => return self.interrupts.interrupt(unique),
            Some(Operation::Destroy) => return drop(device.answer(header.unique, 0, &[])),
            Some(operation) => operation,
        };
        let changes = matches!(operation, Operation::Write { .. }) || !Touched::by(header, &operation).is_empty();
        let under_way = self.interrupts.begin((header.unique, header.pid), device, abandon(&operation), changes);
        let grants = Grants::by(&operation);
        let tracing = recording::begin(&mut worker.tracer, &operation);
        let serve = std::panic::AssertUnwindSafe(|| self.files.serve(worker, header, operation, &under_way));
        let answer: HandlerResult<Answer> = std::panic::catch_unwind(serve).unwrap_or_else(|_| {
            self.files.log.line(format_args!("panic while serving request {} of kind {}: a bug", header.unique, header.opcode));
            Err(Refusal::plain(libc::EIO))
        });
        let (errno, bytes): (i32, &[u8]) = match &answer {
            Ok(Answer::Nothing) => {
                self.interrupts.end(header.unique);
                return;
            }
            Ok(Answer::Done) => (0, &[]),
            Ok(Answer::Out) => (0, &worker.out),
            Ok(Answer::View(view)) => (0, view),
            Err(refusal) => {
                self.files.log_refusal("a request", refusal);
                (refusal.errno, &[])
            }
        };
        let moved_bytes = bytes.len();
        let has_come = under_way.answer(errno, bytes);
        self.interrupts.end(header.unique);
        if !has_come && errno == 0 {
            self.files.take_back(worker, header.node, grants);
        }
        recording::end(&self.files, &mut worker.tracer, tracing, header, errno, moved_bytes);
    }
}

/// Returns whether a program that exits may be answered before the request has ended.
fn abandon(operation: &Operation<'_>) -> Abandon {
    use Operation as O;
    match operation {
        O::Flush { .. } => Abandon::Anytime,
        // A lock granted after its program has exited would never be released.
        O::Lock(_) => Abandon::Never,
        O::Forget { .. } | O::Release { .. } | O::ReleaseDirectory { .. } => Abandon::Never,
        O::Interrupt { .. } | O::Init { .. } | O::Destroy => Abandon::Never,
        _ => Abandon::OnInterrupt,
    }
}

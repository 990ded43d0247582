//! The thread that drains a ring, for any kernel recorder.
//!
//! A ring has a single reader, hence one thread. All libbpf objects are created and dropped in it. A recorder's part
//! is its [`RingConsumer`]; the calls to it and their order are here.

use super::cost::Counting;
use super::ring::{Ending, Ring, Woken};
use crate::recorder::{Finished, RecordError};
use libbpf_rs::Map;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Priority of the reader: it uses little CPU time, but must get it immediately when many threads compete, or the
/// ring overflows.
const NICE: i32 = -19;

/// Gives this thread a high priority; returns whether that is allowed.
pub(crate) fn be_prompt() -> bool {
    // A thread id selects this thread alone, not its process.
    rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE).is_ok()
}

/// A recorder's part of the reader thread.
pub(crate) trait RingConsumer: Sized + 'static {
    /// The arguments of its start.
    type Arguments: Send + 'static;
    /// The value for its starter once it records.
    type Ready: Send + 'static;

    /// Its name in messages.
    const WHO: &'static str;
    /// The thread's name.
    const THREAD: &'static str;

    /// Loads the programs.
    fn begin(arguments: Self::Arguments) -> Result<Self, RecordError>;

    /// Returns the ring that the programs fill, to be opened next.
    fn ring(&self) -> Option<Map<'_>>;

    /// Runs last before the starter is released.
    fn ready(&mut self) -> Self::Ready;

    /// Runs first after that.
    fn begun(&mut self) {}

    /// Handles a record of the ring.
    fn record(&mut self, bytes: &[u8]);

    /// Runs when a round's records have been handled.
    fn taken(&mut self) -> Result<(), RecordError>;

    /// Does what is due at this instant, after each round; returns how long the thread may sleep.
    fn turn(&mut self, now: Instant) -> Duration;

    /// Stops recording.
    fn stop(&mut self) -> Result<(), RecordError>;

    /// Runs when all records have been handled.
    fn finish(&mut self, counting: Counting) -> Result<Finished, RecordError>;
}

/// A running reader. It ends with its recorder, which the programs must not outlive.
#[derive(Debug)]
pub(crate) struct Reader<R>(Option<Thread<R>>);

/// The starter's handle on the thread.
#[derive(Debug)]
struct Thread<R> {
    ending: Arc<Ending>,
    ready: R,
    who: &'static str,
    finished: mpsc::Receiver<Result<Finished, RecordError>>,
}

impl<R> Default for Reader<R> {
    fn default() -> Reader<R> {
        Reader(None)
    }
}

impl<R> Reader<R> {
    /// Starts the thread, and waits until it records.
    pub(crate) fn start<W: RingConsumer<Ready = R>>(&mut self, arguments: W::Arguments) -> Result<(), RecordError>
    where
        R: Send + 'static,
    {
        if self.0.is_some() {
            return Err(RecordError::Usage("this recorder is already recording".to_owned()));
        }
        let ending = Arc::new(Ending::new()?);
        let (ready, begun) = mpsc::channel();
        let (done, finished) = mpsc::channel();
        let theirs = Arc::clone(&ending);
        std::thread::Builder::new()
            .name(W::THREAD.to_owned())
            .spawn(move || match begin::<W>(arguments, &theirs) {
                Err(error) => drop(done.send(Err(error))),
                Ok((ring, work)) => {
                    let _ = done.send(run(&ring, &work, &ready));
                    // Nothing is recorded any longer. Removing the programs from the kernel takes long, and the
                    // caller need not wait for it.
                    drop((ring, work));
                }
            })
            .map_err(|e| RecordError::Failed(format!("the thread of {} cannot be started: {e}", W::WHO)))?;
        let ready = begun.recv().map_err(|_| match finished.recv() {
            // It ended before it was ready; its result says why.
            Ok(Err(error)) => error,
            _ => RecordError::Failed(format!("the thread of {} ended before it began", W::WHO)),
        })?;
        self.0 = Some(Thread { ending, ready, who: W::WHO, finished });
        Ok(())
    }

    /// Returns what the consumer handed to the starter.
    pub(crate) fn ready(&self) -> Option<&R> {
        self.0.as_ref().map(|thread| &thread.ready)
    }

    /// Asks the thread to end, without waiting.
    pub(crate) fn ask(&self) {
        self.0.iter().for_each(|thread| thread.ending.ask());
    }

    /// Makes the thread record what is left, and waits for it.
    pub(crate) fn finish(&mut self) -> Result<Finished, RecordError> {
        self.ask();
        let Some(Thread { finished, who, .. }) = self.0.take() else {
            return Err(RecordError::Usage("this recorder has not been started".to_owned()));
        };
        finished.recv().unwrap_or_else(|_| Err(RecordError::Failed(format!("the thread of {who} failed"))))
    }
}

impl<R> Drop for Reader<R> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// Opens the ring, with its records passed to the consumer.
fn begin<W: RingConsumer>(arguments: W::Arguments, ending: &Ending) -> Result<(Ring, Rc<RefCell<W>>), RecordError> {
    let work = Rc::new(RefCell::new(W::begin(arguments)?));
    let into = Rc::clone(&work);
    let ring = Ring::open(work.borrow().ring(), ending, W::WHO, move |bytes| into.borrow_mut().record(bytes))?;
    Ok((ring, work))
}

fn run<W: RingConsumer>(ring: &Ring, work: &RefCell<W>, ready: &mpsc::Sender<W::Ready>) -> Result<Finished, RecordError> {
    let mut counting = Counting::begin();
    let _ = ready.send(work.borrow_mut().ready());
    work.borrow_mut().begun();
    let take = || ring.take().and_then(|more| work.borrow_mut().taken().map(|()| more));
    loop {
        let more = take()?;
        let now = Instant::now();
        counting.tick(now);
        let pause = work.borrow_mut().turn(now);
        if ring.wait(if more { Duration::ZERO } else { pause }) == Woken::Ending {
            break;
        }
    }
    work.borrow_mut().stop()?;
    while take()? {}
    work.borrow_mut().finish(counting)
}

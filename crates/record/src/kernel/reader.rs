//! The thread that empties a ring: for whichever recorder has filled it.
//!
//! It is one thread because the ring has one reader. Everything of libbpf lives and dies in it. What a recorder does in it is its [`Work`]; when
//! it is done, and in which order, is decided here.

use super::cost::Counting;
use super::ring::{Ending, Ring, Woken};
use crate::recorder::{Finished, RecordError};
use libbpf_rs::Map;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// The reader takes little time, but it must have it at once where many threads want the processors: the ring fills meanwhile.
const NICE: i32 = -19;

/// This thread gets a processor at once from now on; whether it may.
pub(crate) fn be_prompt() -> bool {
    // By its number a thread alone is meant, not its process.
    rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE).is_ok()
}

/// What a recorder does in the reader's thread.
pub(crate) trait Work: Sized + 'static {
    /// What it begins with.
    type Asked: Send + 'static;
    /// What is handed to who started it, once it records.
    type Ready: Send + 'static;

    /// What it is called in messages.
    const WHO: &'static str;
    /// The thread's name.
    const THREAD: &'static str;

    /// Loads the programs.
    fn begin(asked: Self::Asked) -> Result<Self, RecordError>;

    /// The ring that they fill, which is opened next.
    fn ring(&self) -> Option<Map<'_>>;

    /// The last thing before it is waited for no longer.
    fn ready(&mut self) -> Self::Ready;

    /// The first thing after that.
    fn begun(&mut self) {}

    /// A record of the ring.
    fn record(&mut self, bytes: &[u8]);

    /// The records of a round have been taken.
    fn taken(&mut self) -> Result<(), RecordError>;

    /// Whatever is due at this instant, after each round; how long the thread may sleep then.
    fn turn(&mut self, now: Instant) -> Duration;

    /// Nothing more is to be recorded.
    fn stop(&mut self) -> Result<(), RecordError>;

    /// All that was recorded has been taken.
    fn finish(&mut self, counting: Counting) -> Result<Finished, RecordError>;
}

/// A recorder's reader, at work from its start until it has finished. It ends with its recorder, which the programs must not outlive.
#[derive(Debug)]
pub(crate) struct Reader<R>(Option<Thread<R>>);

/// The thread, as who started it has it.
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
    pub(crate) fn start<W: Work<Ready = R>>(&mut self, asked: W::Asked) -> Result<(), RecordError>
    where
        R: Send + 'static,
    {
        if self.0.is_some() {
            return Err(RecordError::Usage("this recorder is recording already".to_owned()));
        }
        let ending = Arc::new(Ending::new()?);
        let (ready, begun) = mpsc::channel();
        let (done, finished) = mpsc::channel();
        let theirs = Arc::clone(&ending);
        std::thread::Builder::new()
            .name(W::THREAD.to_owned())
            .spawn(move || match begin::<W>(asked, &theirs) {
                Err(error) => drop(done.send(Err(error))),
                Ok((ring, work)) => {
                    let _ = done.send(run(&ring, &work, &ready));
                    // Nothing is recorded any longer. To take the programs out of the kernel takes long, and nobody has to wait for it.
                    drop((ring, work));
                }
            })
            .map_err(|e| RecordError::Failed(format!("the thread of {} cannot be started: {e}", W::WHO)))?;
        let ready = begun.recv().map_err(|_| match finished.recv() {
            // It ended before it was ready: its result says why.
            Ok(Err(error)) => error,
            _ => RecordError::Failed(format!("the thread of {} ended before it had begun", W::WHO)),
        })?;
        self.0 = Some(Thread { ending, ready, who: W::WHO, finished });
        Ok(())
    }

    /// What its work has handed out.
    pub(crate) fn ready(&self) -> Option<&R> {
        self.0.as_ref().map(|thread| &thread.ready)
    }

    /// Has the thread end; it is not waited for.
    pub(crate) fn ask(&self) {
        self.0.iter().for_each(|thread| thread.ending.ask());
    }

    /// Has the thread record what is left, and waits for it.
    pub(crate) fn finish(&mut self) -> Result<Finished, RecordError> {
        self.ask();
        let Some(Thread { finished, who, .. }) = self.0.take() else {
            return Err(RecordError::Usage("this recorder has not begun".to_owned()));
        };
        finished.recv().unwrap_or_else(|_| Err(RecordError::Failed(format!("the thread of {who} failed"))))
    }
}

impl<R> Drop for Reader<R> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// The ring, with its records going to the work.
fn begin<W: Work>(asked: W::Asked, ending: &Ending) -> Result<(Ring, Rc<RefCell<W>>), RecordError> {
    let work = Rc::new(RefCell::new(W::begin(asked)?));
    let into = Rc::clone(&work);
    let ring = Ring::open(work.borrow().ring(), ending, W::WHO, move |bytes| into.borrow_mut().record(bytes))?;
    Ok((ring, work))
}

fn run<W: Work>(ring: &Ring, work: &RefCell<W>, ready: &mpsc::Sender<W::Ready>) -> Result<Finished, RecordError> {
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

//! SIGINT and SIGTERM as a flag that long-running work polls. A second signal ends the process immediately.

use crate::failure::Failure;
use parking_lot::{Condvar, Mutex};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag raised by SIGINT or SIGTERM.
#[derive(Clone)]
pub(crate) struct Interrupt {
    flag: Arc<AtomicBool>,
    raised: Arc<(Mutex<bool>, Condvar)>,
}

impl Interrupt {
    /// Starts listening for the signals.
    pub(crate) fn listen() -> Result<Interrupt, Failure> {
        let interrupt = Interrupt { flag: Arc::new(AtomicBool::new(false)), raised: Arc::default() };
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(|e| Failure::failed(format!("signals: {e}")))?;
        let heard = interrupt.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for _ in signals.forever() {
                    if heard.flag.swap(true, Ordering::SeqCst) {
                        std::process::exit(130);
                    }
                    heard.wake();
                }
            })
            .map_err(|e| Failure::failed(format!("a thread for signals: {e}")))?;
        Ok(interrupt)
    }

    /// Returns the flag itself, for code that polls it.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// Whether a signal was received.
    pub(crate) fn is_raised(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    /// Ends every [`Interrupt::wait`], as a signal does.
    pub(crate) fn wake(&self) {
        *self.raised.0.lock() = true;
        self.raised.1.notify_all();
    }

    /// Raises the flag, as a signal does.
    pub(crate) fn raise(&self) {
        self.flag.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Blocks until a signal or [`Interrupt::wake`], or for so long; returns whether it was one of them.
    pub(crate) fn wait_for(&self, most: std::time::Duration) -> bool {
        let mut raised = self.raised.0.lock();
        self.raised.1.wait_while_for(&mut raised, |raised| !*raised, most);
        *raised
    }

    /// Blocks until a signal or [`Interrupt::wake`].
    pub(crate) fn wait(&self) {
        let mut raised = self.raised.0.lock();
        while !*raised {
            self.raised.1.wait(&mut raised);
        }
    }
}

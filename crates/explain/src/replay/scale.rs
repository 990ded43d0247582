//! What a change changes: factors on what the recorded run was made of. Everything at 1 is the run as it was.

use super::program::{CLASSES, Class};
use super::regime::{REGIMES, Regime};

/// What senders wait for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rooms {
    /// As long as they did.
    AsTheyWere,
    /// As windows four times as large leave it.
    Wide,
    /// Nothing.
    Endless,
}

/// Factors and switches for one replay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    /// On waits of a fixed length, by class.
    pub delay: [f64; CLASSES],
    /// On a device's time, by class.
    pub device: [f64; CLASSES],
    /// The device that `device` is about; `None`: all of them.
    pub only_device: Option<u32>,
    /// On a device's time for programs that were not recorded.
    pub foreign: f64,
    /// On running, by end.
    pub run: [f64; 2],
    /// On the number of processors.
    pub processors: f64,
    /// On a connection's time for bytes, by what made it as long.
    pub service: [f64; REGIMES],
    /// Nanoseconds a byte takes on a connection, where the regime's factor is 0.
    pub steady_ns_per_byte: f64,
    /// Nanoseconds a byte takes on a connection at the very least.
    pub least_ns_per_byte: f64,
    /// On the way there.
    pub latency: f64,
    /// What senders wait for room, by what made the connection full.
    pub rooms: [Rooms; REGIMES],
    /// No lock is waited for.
    pub no_lock: bool,
    /// Nothing is done to make data durable.
    pub no_sync: bool,
    /// Bytes are noticed when they come.
    pub no_polls: bool,
}

impl Scale {
    /// The run as it was.
    pub(crate) fn none() -> Scale {
        Scale {
            delay: [1.0; CLASSES],
            device: [1.0; CLASSES],
            only_device: None,
            foreign: 1.0,
            run: [1.0; 2],
            processors: 1.0,
            service: [1.0; REGIMES],
            steady_ns_per_byte: 0.0,
            least_ns_per_byte: 0.0,
            latency: 1.0,
            rooms: [Rooms::AsTheyWere; REGIMES],
            no_lock: false,
            no_sync: false,
            no_polls: false,
        }
    }

    /// With waits of these classes so many times as long.
    #[must_use]
    pub(crate) fn delays(mut self, classes: &[Class], factor: f64) -> Scale {
        classes.iter().for_each(|&c| self.delay[c as usize] = factor);
        self
    }

    /// With a device's time for these classes so many times as long.
    #[must_use]
    pub(crate) fn devices(mut self, classes: &[Class], factor: f64) -> Scale {
        classes.iter().for_each(|&c| self.device[c as usize] = factor);
        self
    }

    /// With a connection's time in these regimes so many times as long.
    #[must_use]
    pub(crate) fn services(mut self, regimes: &[Regime], factor: f64) -> Scale {
        regimes.iter().for_each(|&r| self.service[r as usize] = factor);
        self
    }

    /// With room for senders in these regimes.
    #[must_use]
    pub(crate) fn rooms(mut self, regimes: &[Regime], rooms: Rooms) -> Scale {
        regimes.iter().for_each(|&r| self.rooms[r as usize] = rooms);
        self
    }

    /// How long a connection takes for bytes that took `ns`.
    pub(crate) fn service_ns(&self, regime: Regime, ns: f64, bytes: f64) -> f64 {
        let factor = self.service[regime as usize];
        if factor == 1.0 {
            return ns;
        }
        let least = if factor == 0.0 { self.steady_ns_per_byte } else { self.least_ns_per_byte };
        (ns * factor).max((least * bytes).min(ns))
    }

    /// How long a device takes for what took `ns`, `foreign` of which it served others.
    pub(crate) fn device_ns(&self, device: u32, class: Class, ns: f64, foreign: f64) -> f64 {
        if self.only_device.is_some_and(|d| d != device) {
            return ns;
        }
        (ns - foreign * (1.0 - self.foreign)) * self.device[class as usize]
    }
}

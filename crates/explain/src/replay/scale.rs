//! A change's factors on the parts of the recorded run. With all at 1 the run is unchanged.

use super::program::{CLASSES, Class};
use super::regime::{REGIMES, Regime};

/// How long senders wait for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rooms {
    /// The recorded time.
    AsTheyWere,
    /// The time with windows four times as large.
    Wide,
    /// Not at all.
    Endless,
}

/// Factors and switches for one replay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    /// On waits of a fixed length, by class.
    pub delay: [f64; CLASSES],
    /// On a device's time, by class.
    pub device: [f64; CLASSES],
    /// The device that `device` applies to; `None` for all.
    pub only_device: Option<u32>,
    /// On a device's time for unrecorded programs.
    pub foreign: f64,
    /// On running, by end.
    pub run: [f64; 2],
    /// On the number of processors.
    pub processors: f64,
    /// On a connection's time for bytes, by regime.
    pub service: [f64; REGIMES],
    /// Nanoseconds per byte on a connection, where the regime's factor is 0.
    pub steady_ns_per_byte: f64,
    /// Least nanoseconds per byte on a connection.
    pub least_ns_per_byte: f64,
    /// On the transit time.
    pub latency: f64,
    /// How long senders wait for room, by regime.
    pub rooms: [Rooms; REGIMES],
    /// Whether no lock is waited for.
    pub no_lock: bool,
    /// Whether nothing is done to make data durable.
    pub no_sync: bool,
    /// Whether bytes are noticed on arrival.
    pub no_polls: bool,
}

impl Scale {
    /// The unchanged run.
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

    /// With a factor on waits of these classes.
    #[must_use]
    pub(crate) fn delays(mut self, classes: &[Class], factor: f64) -> Scale {
        classes.iter().for_each(|&c| self.delay[c as usize] = factor);
        self
    }

    /// With a factor on a device's time for these classes.
    #[must_use]
    pub(crate) fn devices(mut self, classes: &[Class], factor: f64) -> Scale {
        classes.iter().for_each(|&c| self.device[c as usize] = factor);
        self
    }

    /// With a factor on a connection's time in these regimes.
    #[must_use]
    pub(crate) fn services(mut self, regimes: &[Regime], factor: f64) -> Scale {
        regimes.iter().for_each(|&r| self.service[r as usize] = factor);
        self
    }

    /// With other room for senders in these regimes.
    #[must_use]
    pub(crate) fn rooms(mut self, regimes: &[Regime], rooms: Rooms) -> Scale {
        regimes.iter().for_each(|&r| self.rooms[r as usize] = rooms);
        self
    }

    /// A connection's time for bytes that took `ns`.
    pub(crate) fn service_ns(&self, regime: Regime, ns: f64, bytes: f64) -> f64 {
        let factor = self.service[regime as usize];
        if factor == 1.0 {
            return ns;
        }
        let least = if factor == 0.0 { self.steady_ns_per_byte } else { self.least_ns_per_byte };
        (ns * factor).max((least * bytes).min(ns))
    }

    /// A device's time for work that took `ns`, `foreign` of which it served others.
    pub(crate) fn device_ns(&self, device: u32, class: Class, ns: f64, foreign: f64) -> f64 {
        if self.only_device.is_some_and(|d| d != device) {
            return ns;
        }
        (ns - foreign * (1.0 - self.foreign)) * self.device[class as usize]
    }
}

//! Goodput over a window, and its noise.

use std::time::Duration;

/// Goodput of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Bytes per second.
    pub rate: f64,
    /// Relative standard error of `rate`.
    pub noise: f64,
}

/// Bytes moved since the window began.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// Time and bytes at each poll.
    looks: Vec<(Duration, u64)>,
}

/// Parts of a window whose goodputs are compared to estimate its noise.
const PARTS: usize = 5;

impl Window {
    /// Begins a new window here.
    pub(super) fn restart(&mut self, now: Duration, moved_bytes: u64) {
        self.looks.clear();
        self.looks.push((now, moved_bytes));
    }

    /// Adds a poll.
    pub(super) fn look(&mut self, now: Duration, moved_bytes: u64) {
        self.looks.push((now, moved_bytes));
    }

    /// Returns its length.
    pub(super) fn length(&self) -> Duration {
        self.ends().map_or(Duration::ZERO, |(first, last)| last.0.saturating_sub(first.0))
    }

    /// Returns the bytes moved in it.
    pub(super) fn bytes(&self) -> u64 {
        self.ends().map_or(0, |(first, last)| last.1.saturating_sub(first.1))
    }

    fn ends(&self) -> Option<((Duration, u64), (Duration, u64))> {
        Some((*self.looks.first()?, *self.looks.last()?))
    }

    /// Returns its goodput and noise.
    pub(super) fn sample(&self) -> Sample {
        let rate = rate(self.bytes(), self.length());
        let parts: Vec<f64> = (0..PARTS).map(|part| self.part(part)).collect();
        let mean = parts.iter().sum::<f64>() / PARTS as f64;
        let variance = parts.iter().map(|part| (part - mean).powi(2)).sum::<f64>() / (PARTS - 1) as f64;
        let noise = if rate > 0.0 { (variance / PARTS as f64).sqrt() / rate } else { 1.0 };
        Sample { rate, noise }
    }

    /// Returns the goodput of its last `length`; `None`: it is shorter.
    pub(super) fn last(&self, length: Duration) -> Option<f64> {
        let (first, last) = self.ends()?;
        let from = last.0.checked_sub(length).filter(|from| *from >= first.0)?;
        let (at, bytes) = self.looks.iter().rev().find(|(at, _)| *at <= from)?;
        Some(rate(last.1.saturating_sub(*bytes), last.0 - *at))
    }

    /// Returns the goodput of one part.
    fn part(&self, part: usize) -> f64 {
        let looks = self.looks.len().saturating_sub(1);
        let at = |n: usize| self.looks[n * looks / PARTS];
        if looks < PARTS {
            return 0.0;
        }
        let (from, to) = (at(part), at(part + 1));
        rate(to.1.saturating_sub(from.1), to.0.saturating_sub(from.0))
    }
}

fn rate(bytes: u64, length: Duration) -> f64 {
    if length.is_zero() { 0.0 } else { bytes as f64 / length.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(slices: &[u64]) -> Window {
        let (mut window, mut bytes) = (Window::default(), 0);
        window.restart(Duration::ZERO, 0);
        for (n, slice) in (1..).zip(slices) {
            bytes += slice;
            window.look(Duration::from_millis(n * 100), bytes);
        }
        window
    }

    #[test]
    fn an_even_flow_has_no_noise_and_an_uneven_one_has() {
        let even = window(&[10; 10]).sample();
        assert!((even.rate - 100.0).abs() < 1e-9 && even.noise < 1e-9, "{even:?}");
        let uneven = window(&[20, 0, 0, 20, 20, 10, 0, 30, 0, 0]).sample();
        assert!((uneven.rate - 100.0).abs() < 1e-9 && uneven.noise > 0.1, "{uneven:?}");
    }

    #[test]
    fn the_last_part_is_that_of_so_long_and_none_before_there_is_so_much() {
        let window = window(&[10, 10, 10, 10, 10, 1, 1, 1, 1, 1]);
        assert!((window.last(Duration::from_millis(500)).unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(window.last(Duration::from_secs(2)), None);
        assert_eq!(Window::default().last(Duration::ZERO), None);
    }
}

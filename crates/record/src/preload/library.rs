//! The library's file: its code with the settings of one recorder.

use super::directory::RecorderDirectory;
use super::shared;
use std::fs;
use std::time::Duration;
use thalweg_base::proc::status;
use thalweg_trace::Time;

/// The built library.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));

/// How long the CPU's counter is compared with the clock.
const CALIBRATION: Duration = Duration::from_millis(10);

/// Mark before the settings in the library's file.
const SETTING_MARK: &[u8] = b"thalweg-preload-setting:";
/// Room for the settings after the mark.
const SETTING_BYTES: usize = 1024 - SETTING_MARK.len();

/// Returns the library's bytes with its settings: the directory of its rings, its own path, the scale of the CPU's
/// counter, and this process's number of system call filters.
pub(super) fn with_settings(directory: &RecorderDirectory) -> Result<Vec<u8>, String> {
    let setting = format!(
        "{}|{}|{}|{}",
        directory.rings().display(),
        directory.library().display(),
        tick_scale().unwrap_or(0),
        filters_here().unwrap_or(0)
    );
    let mut library = LIBRARY.to_vec();
    let mark = library.windows(SETTING_MARK.len()).position(|window| window == SETTING_MARK);
    let at = mark.ok_or("the library has no room for its settings")? + SETTING_MARK.len();
    // The last byte must remain the terminating 0.
    if setting.len() >= SETTING_BYTES {
        return Err("its name is too long".to_owned());
    }
    library[at..at + setting.len()].copy_from_slice(setting.as_bytes());
    Ok(library)
}

/// Returns the number of system call filters (seccomp) on this process; `None` if the kernel does not say.
fn filters_here() -> Option<u32> {
    status::here().number("Seccomp_filters")
}

/// Returns nanoseconds per tick of the CPU's counter, times 2³²; `None` if the kernel does not trust the counter, so
/// neither may we.
fn tick_scale() -> Option<u64> {
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").ok()?;
    if !matches!(source.trim(), "tsc" | "arch_sys_counter") {
        return None;
    }
    let (from_ticks, from) = moment();
    std::thread::sleep(CALIBRATION);
    let (to_ticks, to) = moment();
    let ticks = to_ticks.checked_sub(from_ticks).filter(|ticks| *ticks > 0)?;
    u64::try_from((u128::from(to.since(from)) << 32) / u128::from(ticks)).ok().filter(|scale| *scale > 0)
}

/// Reads both clocks as simultaneously as possible, in a few tries.
fn moment() -> (u64, Time) {
    let tries = (0..8).map(|_| {
        let before = shared::counter();
        let time = Time::now();
        let after = shared::counter();
        (after.saturating_sub(before), before + after.saturating_sub(before) / 2, time)
    });
    tries.min_by_key(|found| found.0).map_or((0, Time::now()), |(_, ticks, time)| (ticks, time))
}

//! A link of known delay, rate and loss between two network namespaces: what experiments about networks run over where the kernel
//! has no netem.
//!
//! **In:** two ends (namespace and address) and what the link does. **Out:** a TUN device at each end with IP packets going to and
//! fro; `ready` on stdout when both are up; counts per direction at the end. **Never:** a TCP connection of its own: packets go
//! through unchanged, so round-trip time, window and every byte's place in the stream are those of the two real ends.
//!
//! Loss, queue, rate and delay apply to each wire segment ([`line`]), although the kernel hands over many of them at a time
//! ([`segment`]). A super-segment that survives whole arrives whole, when its last wire segment is due; a real link would deliver
//! the first one earlier. The relay's own ceiling is measured by `--ceiling`.

mod carry;
mod ceiling;
mod device;
mod line;
mod link;
mod options;
mod random;
mod segment;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::ceiling::Ceiling;
use crate::device::Device;
use crate::link::Link;
use crate::options::{End, Options};

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match (&options.a, &options.b) {
        (Some(a), Some(b)) => relay(&options, a, b),
        _ => ceiling(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thalweg-relay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn relay(options: &Options, a: &End, b: &End) -> Result<(), Box<dyn Error>> {
    if a.namespace == b.namespace {
        return Err("both ends are in the same network namespace: packets between them would not pass the link".into());
    }
    let signals = block_signals();
    let create = |end| Device::create(end, &options.device, options.mtu, !options.no_offload);
    let link = Link::start([create(a)?, create(b)?], options.characters(), options.seed, !options.no_realtime)?;
    println!("ready");
    io::stdout().flush()?;
    wait_for(&signals)?;
    let report = link.stop()?;
    println!("{}", if options.json { report.json().to_string() } else { report.text() });
    Ok(())
}

fn ceiling(options: &Options) -> Result<(), Box<dyn Error>> {
    for offload in [true, false] {
        if offload && options.no_offload {
            continue;
        }
        let ceiling = Ceiling::measure(options.mtu, offload, !options.no_realtime, Duration::from_nanos(options.lasts))?;
        println!("{}", if options.json { ceiling.json().to_string() } else { ceiling.text() });
    }
    Ok(())
}

/// Keeps SIGINT and SIGTERM from ending the process, in this thread and those it starts, so that [`wait_for`] sees them.
fn block_signals() -> libc::sigset_t {
    // SAFETY: the set is initialised before it is used, and the kernel only reads it.
    unsafe {
        let mut signals = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, libc::SIGINT);
        libc::sigaddset(&mut signals, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut());
        signals
    }
}

fn wait_for(signals: &libc::sigset_t) -> io::Result<()> {
    let mut which = 0;
    // SAFETY: both outlive the call.
    match unsafe { libc::sigwait(signals, &mut which) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

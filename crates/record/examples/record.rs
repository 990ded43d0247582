//! Records a command with the kernel recorder, into a recording: `record -o NAME.thw [--also PID[:server]]... [--tier syscall]
//! [--drain-us N] -- COMMAND ARGUMENT...`. With `--for SECONDS` and no command: only the processes named.
//!
//! The smallest program that does what a runner does: fork, hold the child, begin, let it go, wait, finish.

#[cfg(not(feature = "bpf"))]
fn main() {}

#[cfg(feature = "bpf")]
fn main() {
    std::process::exit(recording::main());
}

#[cfg(feature = "bpf")]
mod recording {
    use std::ffi::CString;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::Duration;
    use thalweg_record::bpf::BpfRecorder;
    use thalweg_record::{Recorder, Tier, Watched, WatchedProcess};
    use thalweg_trace::{Ending, Event, Host, HostId, IdSpace, Meta, RecordingWriter, Role, Sink, Time};

    struct Arguments {
        out: PathBuf,
        others: Vec<WatchedProcess>,
        tier: Tier,
        drain: Duration,
        seconds: Option<f64>,
        command: Vec<String>,
    }

    fn arguments() -> Option<Arguments> {
        let mut found = Arguments {
            out: PathBuf::new(),
            others: Vec::new(),
            tier: Tier::Lean,
            drain: Duration::from_millis(10),
            seconds: None,
            command: Vec::new(),
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "-o" => found.out = words.next()?.into(),
                "--also" => {
                    let text = words.next()?;
                    let (pid, role) = text.split_once(':').unwrap_or((&text, "client"));
                    let role = if role == "server" { Role::Server } else { Role::Client };
                    found.others.push(WatchedProcess { pid: pid.parse().ok()?, role });
                }
                "--tier" => found.tier = if words.next()? == "syscall" { Tier::Syscall } else { Tier::Lean },
                "--drain-us" => found.drain = Duration::from_micros(words.next()?.parse().ok()?),
                "--for" => found.seconds = Some(words.next()?.parse().ok()?),
                "--" => found.command = words.by_ref().collect(),
                _ => return None,
            }
        }
        (found.out.as_os_str() != "" && (!found.command.is_empty() || found.seconds.is_some())).then_some(found)
    }

    /// A child that waits for a byte before it becomes the command; and where to write that byte.
    fn hold(command: &[String]) -> Option<(i32, i32)> {
        let words: Vec<CString> = command.iter().map(|w| CString::new(w.as_str()).ok()).collect::<Option<_>>()?;
        let mut pointers: Vec<*const libc::c_char> = words.iter().map(|w| w.as_ptr()).collect();
        pointers.push(std::ptr::null());
        let mut ends = [0; 2];
        // SAFETY: between fork and exec the child calls only read, execvp and _exit; this process has one thread so far.
        unsafe {
            if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
                return None;
            }
            match libc::fork() {
                -1 => None,
                0 => {
                    let mut byte = 0_u8;
                    if libc::read(ends[0], (&raw mut byte).cast(), 1) == 1 {
                        libc::execvp(pointers[0], pointers.as_ptr());
                    }
                    libc::_exit(127)
                }
                pid => Some((pid, ends[1])),
            }
        }
    }

    fn wait(pid: i32) -> i32 {
        let mut status = 0;
        // SAFETY: the status is ours.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) }
    }

    pub fn main() -> i32 {
        let Some(arguments) = arguments() else {
            eprintln!("record -o NAME.thw [--also PID[:server]] [--tier syscall] [--drain-us N] [--for SECONDS] -- COMMAND");
            return 2;
        };
        match record(&arguments) {
            Ok(code) => code,
            Err(error) => {
                eprintln!("record: {error}");
                1
            }
        }
    }

    fn record(arguments: &Arguments) -> Result<i32, Box<dyn std::error::Error>> {
        let held = if arguments.command.is_empty() { None } else { Some(hold(&arguments.command).ok_or("cannot fork")?) };
        let meta = Meta {
            format: thalweg_trace::FORMAT_VERSION,
            command: arguments.command.clone(),
            recorder: "bpf".into(),
            start: Time::now(),
            end: None,
            exit_code: None,
            dropped_events: 0,
            attributes: Vec::new(),
        };
        let writer = RecordingWriter::create(&arguments.out, meta)?;
        writer.take(&mut vec![Event::Host(Host::here(HostId(0), &thalweg_trace::machine::node()))]);
        let command = held.map(|(pid, _)| WatchedProcess { pid: pid.cast_unsigned(), role: Role::Client });
        let watched = Watched {
            names: Default::default(),
            command,
            others: arguments.others.clone(),
            tier: arguments.tier,
            host: HostId(0),
            space: IdSpace(1),
            drain: arguments.drain,
            sink: Arc::clone(&writer) as Arc<dyn Sink>,
        };
        let mut recorder = BpfRecorder::new()?;
        recorder.begin(watched)?;
        let begun = Time::now();
        let code = match held {
            Some((pid, go)) => {
                // SAFETY: the descriptor is ours, the byte too.
                unsafe {
                    libc::write(go, c"g".as_ptr().cast(), 1);
                    libc::close(go);
                }
                wait(pid)
            }
            None => {
                std::thread::sleep(Duration::from_secs_f64(arguments.seconds.unwrap_or(0.0)));
                0
            }
        };
        let end = Time::now();
        let finished = recorder.finish()?;
        let mut attributes = finished.attributes;
        attributes.push(("notes".into(), finished.notes.join(" ")));
        attributes.push(("begun_ns".into(), begun.ns().to_string()));
        writer.finish(Ending { end, exit_code: held.map(|_| code), dropped_events: finished.dropped_events, attributes })?;
        eprintln!("wall {:.6} s, code {code}, dropped {}", end.since(begun) as f64 / 1e9, finished.dropped_events);
        Ok(code)
    }
}

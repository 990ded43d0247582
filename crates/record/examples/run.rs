//! Runs and records a command through the entry point: `run [--method M] [--tier T] [--also X]... [--only] [--profile
//! | --profile-alone] [--dwarf BYTES] [--events A,B] [--for MS] [--limit BYTES] -o PATH -- CMD`. Prints the outcome,
//! and exits as the command did.

use std::time::Duration;
use thalweg_record::{Exit, Method, Options, Profile, Tier, UserStacks, run};

fn main() {
    let mut words = std::env::args_os().skip(1);
    let mut options = Options::new(Vec::new(), "out.thw".into());
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value").into_string().expect("text");
        match word.to_str() {
            Some("-o") => options.output = value().into(),
            Some("--method") => {
                options.method = match value().as_str() {
                    "bpf" => Method::Bpf,
                    "user" => Method::User,
                    "preload" => Method::Preload,
                    "proc" => Method::Proc,
                    _ => Method::Auto,
                }
            }
            Some("--tier") => options.tier = if value() == "syscall" { Tier::Syscall } else { Tier::Lean },
            Some("--also") => options.also.push(value()),
            Some("--profile") => options.profile = Profile::Beside,
            Some("--profile-alone") => options.profile = Profile::Alone,
            Some("--dwarf") => options.user_stacks = UserStacks::Dwarf { stack_bytes: value().parse().expect("bytes") },
            Some("--events") => options.events = value().split(',').map(str::to_owned).collect(),
            Some("--only") => options.only = true,
            Some("--for") => options.duration = Some(Duration::from_millis(value().parse().expect("milliseconds"))),
            Some("--drain-ms") => options.drain = Duration::from_millis(value().parse().expect("milliseconds")),
            Some("--limit") => options.limit_bytes = value().parse().expect("bytes"),
            Some("--server") => {
                options.server = true;
                options.ports.push(value().parse().expect("a port"));
            }
            _ => break,
        }
    }
    options.command = words.collect();
    match run(&options) {
        Err(error) => {
            eprintln!("run: {error}");
            let code = if let thalweg_record::RecordError::Command { exit_code, .. } = error { exit_code } else { 1 };
            std::process::exit(code);
        }
        Ok(outcome) => {
            eprintln!("run: recorder={} finished={} dropped={}", outcome.recorder, outcome.finished, outcome.dropped_events);
            outcome.notes.iter().for_each(|note| eprintln!("run: note: {note}"));
            match outcome.exit {
                Some(Exit::Signal(signal)) => {
                    eprintln!("run: signal={signal}");
                    std::process::exit(128 + signal);
                }
                Some(Exit::Code(code)) => std::process::exit(code),
                None => {}
            }
        }
    }
}

//! A server that runs during a measurement without being timed: started, up once its port answers, with the CPU time of it and its
//! children, and ended together with them.

use crate::command::{cpu_time_of, end_group, end_with_us};
use crate::{Error, Result};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_base::proc::stat::Stat;

/// Interval of checks whether it is up.
const ASKS_EVERY: Duration = Duration::from_millis(5);
/// Timeout of a connection.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);

/// A running server, in its own process group; killed on drop, and when this process ends.
#[derive(Debug)]
pub struct Server {
    child: Child,
    line: String,
}

impl Server {
    /// Starts it, and returns once `at` answers.
    ///
    /// # Errors
    /// Another program answers there already, it cannot be started, it ends, or it does not answer within the limit.
    pub fn start(words: &[String], at: SocketAddr, limit: Duration) -> Result<Server> {
        let line = words.join(" ");
        let wrong = |problem: String| Error::Server { command: line.clone(), problem };
        let place = if at.ip() == Ipv4Addr::LOCALHOST { format!("port {}", at.port()) } else { at.to_string() };
        if answers(at) {
            return Err(wrong(format!("{place} answered before it was started: another program uses it; stop that one first")));
        }
        let (program, arguments) = words.split_first().ok_or_else(|| wrong("empty command".into()))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        end_with_us(&mut command);
        let child = command.spawn().map_err(|source| Error::Process { command: line.clone(), doing: "starting it", source })?;
        let mut server = Server { child, line };
        let deadline = Instant::now() + limit;
        while !answers(at) {
            if let Ok(Some(status)) = server.child.try_wait() {
                let problem = format!("ended ({status}) before its {place} answered; it must stay in the foreground");
                return Err(Error::Server { command: server.line.clone(), problem });
            }
            if Instant::now() >= deadline {
                let problem = format!("its {place} did not answer within {limit:?}");
                return Err(Error::Server { command: server.line.clone(), problem });
            }
            std::thread::sleep(ASKS_EVERY);
        }
        Ok(server)
    }

    /// Whether its first process is running.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the CPU time of its process group so far, including waited-for processes. Processes that leave the group are not counted.
    pub fn cpu_time(&self) -> Duration {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Duration::ZERO };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter_map(|pid| {
            let stat = Stat::of(pid).filter(|stat| stat.group == self.child.id())?;
            Some(cpu_time_of(pid).unwrap_or_default() + stat.children_used.duration())
        })
        .sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Not yet waited for, or only just: no other group can have its id while one of its processes lives.
        end_group(rustix::process::Pid::from_child(&self.child));
        let _ = self.child.wait();
    }
}

fn answers(at: SocketAddr) -> bool {
    TcpStream::connect_timeout(&at, ANSWERS_WITHIN).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn words(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(String::from).to_vec()
    }

    #[test]
    fn a_server_that_does_not_come_up_and_a_port_that_is_taken_are_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap();
        let start = |script: &str| Server::start(&words(script), port, Duration::from_millis(60)).map(|_| ()).unwrap_err().to_string();
        assert!(start("sleep 1000").contains("answered before it was started"));
        drop(taken);
        assert!(start("exit 3").contains("exit status: 3"), "{}", start("exit 3"));
        assert!(start("sleep 1000").contains("did not answer within 60ms"));
        let missing = Server::start(&["/no/such/server".into()], port, Duration::from_millis(60)).map(|_| ()).unwrap_err();
        assert!(missing.to_string().starts_with("/no/such/server: starting it"));
    }
}

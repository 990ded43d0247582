//! Jobs over `ssh`: a separate server on two loopback addresses, as two hosts.

use super::{Sandbox, copies_through, has};
use crate::bounded::Bounded;
use crate::common::{is_root, skipped, text, wait_until};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

const HOSTS: &str = "127.0.0.2,127.0.0.3";

/// `sshd` with its own keys; ended when dropped.
struct Sshd {
    process: Child,
    /// The value of `--start`.
    starter: String,
}

impl Sshd {
    /// Starts it; `None` if unavailable, with the reason printed.
    fn start(sandbox: &Sandbox) -> Option<Sshd> {
        if !has("sshd", "a job over ssh") || !has("ssh", "a job over ssh") {
            return None;
        }
        if !is_root() {
            skipped("sshd needs root to let anybody in: a job over ssh");
            return None;
        }
        fs::create_dir_all("/run/sshd").unwrap();
        let directory = sandbox.directory.path().join("ssh");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let at = |name: &str| text(&directory.join(name)).to_owned();
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]).output_in_time().unwrap();
            assert!(made.status.success(), "ssh-keygen");
        }
        let port = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port();
        let lines = [
            format!("Port {port}\nListenAddress 127.0.0.2\nListenAddress 127.0.0.3\nHostKey {}\nPidFile {}", at("host"), at("pid")),
            format!("AuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes", at("user.pub")),
            // The environment of this user's login shell, and the mark.
            format!("SetEnv {}={} XDG_STATE_HOME={}", super::MARK, sandbox.mark, text(&sandbox.directory.path().join("state"))),
        ];
        fs::write(at("sshd_config"), lines.join("\n") + "\n").unwrap();
        let client = format!(
            "Port {port}\nUser root\nIdentityFile {}\nUserKnownHostsFile /dev/null\nStrictHostKeyChecking no\nLogLevel ERROR\n",
            at("user")
        );
        fs::write(at("config"), client).unwrap();
        let mut command = Command::new("/usr/sbin/sshd");
        let process = command.args(["-D", "-f", &at("sshd_config")]).stderr(Stdio::null()).spawn().expect("sshd starts");
        let sshd = Sshd { process, starter: format!("ssh -F {}", at("config")) };
        wait_until("sshd listens", || ["127.0.0.2", "127.0.0.3"].iter().all(|host| TcpStream::connect((*host, port)).is_ok()));
        Some(sshd)
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_job_over_ssh_finds_its_store_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox) else { return };
    copies_through(&sandbox, &["--hosts", HOSTS, "--start", &sshd.starter]);
    sandbox.nothing_is_left();
}

#[test]
fn a_job_over_ssh_that_is_killed_outright_leaves_no_server_at_the_other_end() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox) else { return };
    let mut job = sandbox.start(&["--hosts", HOSTS, "--start", &sshd.starter, "--", "sh", "-c", "echo begun; exec sleep 60"]);
    assert_eq!(job.line(), "begun");
    assert_eq!(sandbox.parts().len(), 2);
    job.kill();
    sandbox.nobody_is_left();
}

#[test]
fn what_ssh_says_is_in_the_sentence() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox) else { return };
    let fails = |starter: &str, more: &[&str], says: &[&str]| {
        sandbox.run(&[&["--hosts", HOSTS, "--start", starter][..], more, &["--", "true"]].concat()).failed(1, says);
    };
    fails(
        &sshd.starter,
        &["--program", "/no/such/thalweg"],
        &["no server was started there", "status: 127", "/no/such/thalweg", "--program"],
    );
    fails(&format!("{} -p 1", sshd.starter), &[], &["no server was started there", "status: 255", "onnection refused"]);
    fails(&format!("{} -i /dev/null -o IdentitiesOnly=yes -o PubkeyAuthentication=no", sshd.starter), &[], &["Permission denied"]);
    sandbox.nothing_is_left();
}

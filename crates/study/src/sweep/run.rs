//! Runs: one run of one point with its surroundings, and the whole sweep on the engine.
//!
//! A run that fails or times out is a sample too: its point gets that state and is not run again, and the log has the reason. A server is
//! restarted only when its own values change.

use super::calls;
use super::plan::Sweep;
use super::profile::classes_of;
use super::sample::{Classes, Digest, Point, Recorded, Sample, State, Subject, Swept};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use thalweg_base::numbers;
use thalweg_explain::Explanation;
use thalweg_measure::{Case, Failure, Observer, Process, Runs, Server, Subjects, evict, header_of, measure, warm};

/// Minimum number of counted runs before a point may end early.
const LEAST: usize = 5;

/// Timeout for a server to come up.
const UP_WITHIN: Duration = Duration::from_secs(30);

/// What a sweep needs besides its plan.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Path of `thalweg`, for `thalweg explain -- COMMAND`.
    pub thalweg: PathBuf,
    /// Path of the log.
    pub log: PathBuf,
    /// Whether to resume from the log.
    pub resume: bool,
    /// Raised to stop.
    pub stop: Arc<AtomicBool>,
}

impl Sweep {
    /// Runs the sweep, or the rest of it.
    ///
    /// # Errors
    /// The log is another plan's or cannot be written, or the observer asked to stop.
    pub(super) fn run(&self, around: &Surroundings, observer: &dyn Observer) -> Result<Swept> {
        let header = self.header()?;
        self.check_log(around, &header)?;
        self.check_profile(around)?;
        let mut runs = Runs::default();
        for (number, plan) in self.plans(&header).iter().enumerate() {
            let mut runner = Runner::new(self, around);
            let measured = measure(plan, Some((&around.log, around.resume || number > 0)), &mut runner, observer)?;
            runs = measured.runs;
        }
        Ok(runs)
    }

    /// Checks that profiles can be taken, before anything is run.
    fn check_profile(&self, around: &Surroundings) -> Result<()> {
        if self.choice.profile.is_none() {
            return Ok(());
        }
        let kept = ScratchRecording::new(around.log.with_extension("profile.thw"));
        let mut probe = Command::new(&around.thalweg);
        probe.args(["record", "--profile", "-o"]).arg(&kept.0).args(["--", "true"]);
        let ran = Process::new(probe).time_limit(UP_WITHIN).own_group(Arc::clone(&around.stop)).run();
        ran.map(|_| ()).map_err(|error| Error::Choice(format!("--profile: cannot take a profile on this machine: {error}")))
    }

    /// Checks that the log is this plan's; the error names the parts that differ.
    pub(super) fn check_log(&self, around: &Surroundings, header: &thalweg_measure::Header) -> Result<()> {
        let log = around.log.display();
        let Some(found) = header_of(&around.log)? else { return Ok(()) };
        if !around.resume {
            let kind = &found.plan;
            let problem = format!("has the runs of a {kind}: give --continue to resume it, or another name (-o) for this one");
            return Err(Error::Choice(format!("{log} {problem}")));
        }
        let all = header.of.keys().chain(found.of.keys());
        let mut differs: Vec<&str> = all.filter(|name| header.of.get(*name) != found.of.get(*name)).map(String::as_str).collect();
        differs.sort_unstable();
        differs.dedup();
        if found.plan == header.plan && differs.is_empty() {
            return Ok(());
        }
        let problem = match differs.as_slice() {
            ["program"] => "the program has changed since (size, time or hash): its figures cannot be combined with these".to_owned(),
            ["server program"] => {
                "the server's program has changed since (size, time or hash): its figures cannot be combined with these".to_owned()
            }
            _ => format!(
                "has the runs of another plan: {} differ",
                if differs.is_empty() { "all" } else { "" }.to_owned() + &differs.join(", ")
            ),
        };
        Err(Error::Choice(format!("{log}: {problem}; give another name (-o) for this {}", header.plan)))
    }
}

pub(super) struct Runner<'a> {
    sweep: &'a Sweep,
    around: &'a Surroundings,
    places: BTreeMap<&'a Point, usize>,
    server: Option<(Vec<String>, Server)>,
    /// Servers that did not come up, and why: they are not tried again.
    broken: BTreeMap<Vec<String>, String>,
    /// Whether to measure latencies of calls in recorded runs.
    pub(super) times_calls: bool,
    /// Time limit of the command.
    pub(super) limit_s: f64,
}

impl<'a> Runner<'a> {
    pub(super) fn new(sweep: &'a Sweep, around: &'a Surroundings) -> Runner<'a> {
        let places = sweep.points.iter().enumerate().map(|(place, point)| (point, place)).collect();
        Runner { sweep, around, places, server: None, broken: BTreeMap::new(), times_calls: false, limit_s: sweep.choice.timeout_s }
    }

    /// Returns a number unique to the run, and the same when the sweep is resumed, whatever the number of repetitions.
    fn number(&self, case: &Case<Point, Subject>, repeat: usize) -> String {
        let place = self.places.get(&case.point).copied().unwrap_or(0);
        let kind = if case.subject.ceiling { 2 } else { usize::from(case.subject.recorded) };
        (3 * (repeat * self.places.len() + place) + kind).to_string()
    }

    fn process(&self, words: &[String]) -> Process {
        let mut command = Command::new(words.first().map_or("", String::as_str));
        command.args(words.iter().skip(1));
        Process::new(command).time_limit(Duration::from_secs_f64(self.limit_s)).own_group(Arc::clone(&self.around.stop))
    }

    /// Runs a `prepare` or `cleanup` command.
    fn aside(&self, template: Option<&String>, point: &Point, run: &str) -> thalweg_measure::Result<()> {
        let Some(template) = template else { return Ok(()) };
        let line = self.sweep.fill(template, point, run);
        // These commands have the requested limit, however short a tuner's limit for runs is.
        let limit = Duration::from_secs_f64(self.sweep.choice.timeout_s);
        self.process(&["sh".to_owned(), "-c".to_owned(), line]).time_limit(limit).run().map(|_| ())
    }

    /// Makes sure that the server with these values is up.
    fn server(&mut self, case: &Case<Point, Subject>) -> std::result::Result<(), String> {
        let Some(words) = &self.sweep.server else { return Ok(()) };
        let filled: Vec<String> = words.iter().map(|word| self.sweep.fill(word, &case.point, "")).collect();
        let port = self.sweep.fill(self.sweep.choice.port.as_deref().unwrap_or_default(), &case.point, "");
        if self.server.as_mut().is_some_and(|(values, server)| *values == case.subject.server && server.runs()) {
            return Ok(());
        }
        if let Some(problem) = self.broken.get(&case.subject.server) {
            return Err(problem.clone());
        }
        // The previous server must have released its port.
        self.server = None;
        let started = address(&port).and_then(|at| Server::start(&filled, at, UP_WITHIN).map_err(|error| error.to_string()));
        match started {
            Ok(server) => self.server = Some((case.subject.server.clone(), server)),
            Err(problem) => {
                let problem = format!("the server did not come up: {problem}");
                self.broken.insert(case.subject.server.clone(), problem.clone());
                return Err(problem);
            }
        }
        Ok(())
    }

    fn server_cpu(&self) -> Option<Duration> {
        self.server.as_ref().map(|(_, server)| server.cpu_time())
    }

    fn files(&self, templates: &[String], point: &Point, run: &str) -> Vec<PathBuf> {
        templates.iter().map(|template| self.sweep.fill(template, point, run).into()).collect()
    }

    /// Does everything of one run except the cleanup.
    fn once(&self, case: &Case<Point, Subject>, repeat: usize, run: &str) -> thalweg_measure::Result<Sample> {
        let choice = &self.sweep.choice;
        self.aside(choice.prepare.as_ref(), &case.point, run)?;
        let (cold, warmed) = (self.files(&choice.cold, &case.point, run), self.files(&choice.warm, &case.point, run));
        let cache = match (cold.is_empty(), warmed.is_empty()) {
            (true, true) => None,
            (true, false) => Some(warm(&warmed)?),
            (false, _) => Some(evict(&cold)?),
        };
        let mut sample = Sample { cache, ..Sample::bare(State::Done, None) };
        if case.subject.ceiling {
            sample.usage = Some(self.process(&self.sweep.ceiling_command(&case.point, run)).run()?);
        } else {
            let command = self.sweep.command(&case.point, run);
            let before = self.server_cpu();
            match case.subject.recorded {
                true => self.explained(&command, choice.profiles(repeat), &mut sample)?,
                false => sample.usage = Some(self.process(&command).run()?),
            }
            sample.server_cpu_s = self.server_cpu().zip(before).map(|(after, before)| after.saturating_sub(before).as_secs_f64());
        }
        if let Some(template) = &choice.bytes {
            let text = self.sweep.fill(template, &case.point, run);
            let file = Path::new(&text);
            let size = numbers::parse_size(&text).ok().or_else(|| file.metadata().ok().map(|metadata| metadata.len()));
            let missing = || thalweg_measure::Error::File {
                path: file.into(),
                doing: "getting the bytes that a run moves (--bytes: a size, or a file)",
                source: std::io::ErrorKind::NotFound.into(),
            };
            sample.bytes = Some(size.ok_or_else(missing)?);
        }
        Ok(sample)
    }

    /// Runs the command under `thalweg explain` in a separate process, which keeps the command's output, signals and limit separate.
    fn explained(&self, command: &[String], profiled: bool, sample: &mut Sample) -> thalweg_measure::Result<()> {
        let to = self.around.log.with_extension("explanation");
        let recording = (profiled || self.times_calls).then(|| ScratchRecording::new(self.around.log.with_extension("profile.thw")));
        let mut words = vec![self.around.thalweg()];
        words.extend(["explain".into(), "--json".into(), "--to".into(), to.display().to_string()]);
        if let Some(recording) = &recording {
            words.extend(profiled.then(|| "--profile".to_owned()));
            words.extend(["-o".into(), recording.0.display().to_string()]);
        }
        words.push("--".into());
        words.extend_from_slice(command);
        let ran = self.process(&words).run();
        let explanation = std::fs::read_to_string(&to).ok().and_then(|text| serde_json::from_str::<Explanation>(&text).ok());
        let _ = std::fs::remove_file(&to);
        ran?;
        sample.explanation = explanation.as_ref().map(digest_of);
        sample.recorded = explanation.as_ref().map(recorded_of);
        let Some(recording) = &recording else { return Ok(()) };
        if profiled {
            sample.profile = Some(self.classes(&recording.0)?);
        }
        if let Some(recorded) = sample.recorded.as_mut().filter(|_| self.times_calls) {
            recorded.p99_s = calls::p99_s(&recording.0).map_err(|source| thalweg_measure::Error::File {
                path: recording.0.clone(),
                doing: "reading the latencies of its calls",
                source,
            })?;
        }
        Ok(())
    }

    /// Returns the classes of a profiled recording from `thalweg profile`, which resolves symbols.
    fn classes(&self, recording: &Path) -> thalweg_measure::Result<Classes> {
        let words = [self.around.thalweg(), "profile".into(), "--json".into(), recording.display().to_string()];
        let (_, said) = self.process(&words).keep_output().run_for_output()?;
        classes_of(&said).map_err(|source| thalweg_measure::Error::File {
            path: recording.into(),
            doing: "reading the output of `thalweg profile`",
            source,
        })
    }
}

/// A recording removed on drop; one left by a killed sweep is removed on creation.
struct ScratchRecording(PathBuf);

impl ScratchRecording {
    fn new(path: PathBuf) -> ScratchRecording {
        let _ = std::fs::remove_dir_all(&path);
        ScratchRecording(path)
    }
}

impl Drop for ScratchRecording {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Surroundings {
    fn thalweg(&self) -> String {
        self.thalweg.as_os_str().to_string_lossy().into_owned()
    }
}

/// Parses a server's address: `PORT` on this machine, or `ADDRESS:PORT`.
fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    let here = text.parse::<u16>().ok().filter(|port| *port > 0).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    here.or_else(|| text.parse().ok())
        .ok_or_else(|| format!("--port {text}: expected a port from 1 to 65535, or an address with a port, like 10.0.0.2:2811"))
}

fn digest_of(explanation: &Explanation) -> Digest {
    let mut shares: Vec<(String, f64)> = Vec::new();
    for charge in &explanation.critical_path {
        match shares.iter_mut().find(|(cause, _)| cause == charge.cause.name()) {
            Some((_, share)) => *share += charge.share,
            None => shares.push((charge.cause.name().to_owned(), charge.share)),
        }
    }
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let verdict = &explanation.verdict;
    Digest { cause: verdict.cause.name().to_owned(), place: verdict.place.clone(), sentence: verdict.sentence.clone(), shares }
}

fn recorded_of(explanation: &Explanation) -> Recorded {
    let of_ceiling = explanation.verdict.of_ceiling;
    Recorded { wall_s: explanation.wall_s, size_bytes: explanation.size_bytes, of_ceiling, p99_s: None }
}

impl Subjects for Runner<'_> {
    type Point = Point;
    type Subject = Subject;
    type Sample = Sample;

    fn name(&self, case: &Case<Point, Subject>) -> String {
        let values = self.sweep.parameters.iter().zip(&case.point).map(|(parameter, label)| format!("{}={label}", parameter.name));
        let kind = match (case.subject.ceiling, case.subject.recorded) {
            (true, _) => ", the ceiling",
            (false, true) => ", recorded",
            (false, false) => "",
        };
        values.collect::<Vec<_>>().join(" ") + kind
    }

    fn run(&mut self, case: &Case<Point, Subject>, repeat: usize) -> std::result::Result<Sample, Failure> {
        use thalweg_measure::Error as Ran;
        let failed = |state, problem: String| Sample::bare(state, Some(problem));
        // The ceiling's command needs no server, and does not affect a running one.
        if !case.subject.ceiling
            && let Err(problem) = self.server(case)
        {
            return Ok(failed(State::Failed, problem));
        }
        let begun = Instant::now();
        let run = self.number(case, repeat);
        let ran = self.once(case, repeat, &run);
        // The cleanup runs whatever happened; the first error is reported.
        let cleaned = self.aside(self.sweep.choice.cleanup.as_ref(), &case.point, &run);
        match ran.and_then(|sample| cleaned.map(|()| sample)) {
            Ok(sample) => Ok(Sample { took_s: Some(begun.elapsed().as_secs_f64()), ..sample }),
            Err(Ran::Stopped) => Err(Box::new(Ran::Stopped)),
            Err(error @ Ran::TimedOut { .. }) => Ok(failed(State::TimedOut, error.to_string())),
            Err(error) => Ok(failed(State::Failed, error.to_string())),
        }
    }

    fn is_settled(&self, case: &Case<Point, Subject>, runs: &Swept) -> bool {
        self.sweep.is_settled(case, runs)
    }
}

impl Sweep {
    /// Whether a case needs no more runs: it failed, or its interval is narrow enough.
    pub(super) fn is_settled(&self, case: &Case<Point, Subject>, runs: &Swept) -> bool {
        let bare = Subject { recorded: false, ..case.subject.clone() };
        let has_failed = |subject: &Subject| {
            let samples = runs.of(&case.point, subject).into_iter().map(|(_, sample)| sample);
            samples.chain(runs.get(&case.point, subject, 0)).any(|sample| sample.state != State::Done)
        };
        if has_failed(&bare) || (case.subject.recorded && has_failed(&case.subject)) {
            return true;
        }
        if case.subject.recorded {
            return false;
        }
        let times: Vec<f64> =
            runs.of(&case.point, &bare).into_iter().filter_map(|(_, sample)| Some(sample.usage.as_ref()?.wall_s)).collect();
        is_narrow(times, self.choice.narrow)
    }
}

/// Whether the median's interval is narrow enough: a binomial interval by the order of the values, which is fast to compute, since it is
/// needed before every run, and errs on the wide side.
fn is_narrow(mut values: Vec<f64>, narrow: f64) -> bool {
    if values.len() < LEAST {
        return false;
    }
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    // The probability that at most `cut` of n values are below the median is at most 1/32 on each side, as for the minimum of five.
    let (mut chance, mut below, mut cut) = (0.5_f64.powi(n as i32), 0.0, 0);
    for k in 0..n / 2 {
        below += chance;
        if below > 1.0 / 32.0 + 1e-12 {
            break;
        }
        cut = k;
        chance *= (n - k) as f64 / (k + 1) as f64;
    }
    values[n - 1 - cut] - values[cut] < narrow * values[n / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_on_a_port_of_this_machine_or_at_an_address() {
        assert_eq!(address("2811").unwrap(), "127.0.0.1:2811".parse().unwrap());
        assert_eq!(address("10.0.0.2:2811").unwrap(), "10.0.0.2:2811".parse().unwrap());
        for wrong in ["0", "65536", "name", "10.0.0.2"] {
            assert!(address(wrong).unwrap_err().contains(wrong));
        }
    }

    #[test]
    fn a_narrow_interval_needs_five_runs_and_forgives_an_outlier_among_many() {
        assert!(!is_narrow(vec![1.0; 4], 0.02));
        assert!(is_narrow(vec![1.0; 5], 0.02));
        assert!(!is_narrow(vec![1.0, 1.0, 1.0, 1.0, 1.5], 0.02));
        assert!(is_narrow([vec![1.0; 9], vec![1.5]].concat(), 0.02));
    }
}

//! A profile of the user's own programs beside /proc's counts: their code was sampled, everything else counted.
//!
//! The counts divide all processors' time into states, as without samples. Of *programs' own code*, the sampled part is divided by class
//! of code; its functions are known. The kernel's part stays a total. A sample stands for its period and is not scaled: other programs ran
//! too, and the samples say nothing about them.

use super::assemble::{Division, ProfileInput};
use super::counted::{CountedHost, SYSTEM, USER};
use super::document::{ClassLine, ClassShare, HostProfile, ProgramShare};
use super::flame::{FlameFunction, FlameStack, HostProfiled, HostStacks};
use super::gather::Gathered;
use super::times::Times;
use thalweg_trace::frame;

/// Title of the rest of the state *programs' own code*.
const WITHOUT_SAMPLES: &str = "own code without samples";

/// The roles of programs that are sampled.
const SAMPLED: [&str; 2] = ["client", "server"];

impl ProfileInput<'_> {
    /// Adds the samples of own programs to a machine's counts.
    pub(super) fn own(&self, counted: CountedHost, times: &Times, gathered: &Gathered) -> HostProfiled {
        let CountedHost { mut document, total_ns } = counted;
        let division = Division::of_samples(total_ns, gathered.busy);
        (document.samples, document.lost) = (gathered.busy.samples, times.lost);
        if !document.enough || !division.enough() {
            return HostProfiled { document, stacks: HostStacks::default() };
        }
        // Only sampled classes have rows: the others are counted.
        let sampled_only = Times { idle: None, interrupts: None, steal: None, ..times.clone() };
        let sampled = self.host(document.name.clone(), &sampled_only, gathered, &division);
        let part = |class: &str| document.classes.iter().find(|row| row.class == class).and_then(|row| row.share).unwrap_or(0.0);
        let of_samples: f64 = sampled.classes.iter().filter_map(|row| row.share).sum();
        let left = Left { user: (part(USER) - of_samples).max(0.0), system: (part(SYSTEM) - (of_samples - part(USER)).max(0.0)).max(0.0) };
        let stacks =
            if self.with_stacks { with_kernel(self.flame(gathered, &division), &document.programs) } else { HostStacks::default() };
        document.over_time.lines = self.own_lines(&document, times, gathered);
        document.classes = rows(document.classes, sampled.classes, &left);
        if document.programs.is_empty() {
            document.programs = sampled.programs.into_iter().map(|of| ProgramShare { user_share: of.share, ..of }).collect();
        } else {
            document.programs.iter_mut().for_each(|program| samples_of(program, &sampled.programs));
        }
        document = HostProfile {
            functions: sampled.functions,
            unsymbolised: sampled.unsymbolised,
            guessed_share: sampled.guessed_share,
            purposes: sampled.purposes,
            ..document
        };
        HostProfiled { document, stacks }
    }

    /// The sampled classes over time, and the rest of the counted states.
    fn own_lines(&self, document: &HostProfile, times: &Times, gathered: &Gathered) -> Vec<ClassLine> {
        let wall_ns = times.end_ns.saturating_sub(times.start_ns).max(0) as f64;
        let mut whole = vec![0.0; gathered.bins.count];
        gathered.bins.spread(times.start_ns, times.end_ns, wall_ns * f64::from(document.cpus), &mut whole);
        let mut lines = Vec::new();
        let mut of_samples = vec![0.0; gathered.bins.count];
        for (class, ns) in self.rules.classes.iter().zip(&gathered.over_time) {
            if !ns.is_empty() {
                let shares: Vec<f64> = ns.iter().zip(&whole).map(|(ns, whole)| (*ns as f64 / whole.max(1.0)).min(1.0)).collect();
                of_samples.iter_mut().zip(&shares).for_each(|(sum, share)| *sum += share);
                lines.push(ClassLine { class: class.name.clone(), shares });
            }
        }
        for line in &document.over_time.lines {
            let mut line = line.clone();
            if line.class == USER {
                line.shares.iter_mut().zip(&of_samples).for_each(|(share, sampled)| *share = (*share - sampled).max(0.0));
            }
            lines.push(line);
        }
        lines
    }
}

/// What samples leave of the counted states, as parts of all time.
struct Left {
    user: f64,
    system: f64,
}

/// The rows: sampled classes stand before the rest of their state. The two are counted by different means; where samples have more, the
/// kernel has less, and all rows together are the whole.
fn rows(counted: Vec<ClassShare>, sampled: Vec<ClassShare>, left: &Left) -> Vec<ClassShare> {
    let mut rows = Vec::new();
    for mut row in counted {
        let whole_s = row.seconds.zip(row.share).filter(|(_, share)| *share > 0.0).map(|(seconds, share)| seconds / share);
        let now = match row.class.as_str() {
            USER => left.user,
            SYSTEM => left.system,
            _ => row.share.unwrap_or(0.0),
        };
        if row.class == USER {
            rows.extend(sampled.iter().cloned());
            row.title = WITHOUT_SAMPLES.to_owned();
        }
        (row.share, row.seconds) = (Some(now), whole_s.map(|whole_s| whole_s * now).or(row.seconds));
        rows.push(row);
    }
    let whole: f64 = rows.iter().filter_map(|row| row.share).sum();
    for share in rows.iter_mut().flat_map(|row| [&mut row.share, &mut row.low, &mut row.high]) {
        *share = share.map(|share| (share / whole.max(f64::MIN_POSITIVE)).min(1.0));
    }
    rows
}

/// Adds the samples of a program to its count.
fn samples_of(program: &mut ProgramShare, sampled: &[ProgramShare]) {
    if let Some(same) = sampled.iter().find(|same| same.program == program.program && same.role == program.role) {
        (program.samples, program.classes, program.purposes) = (same.samples, same.classes.clone(), same.purposes.clone());
    }
}

/// Adds each sampled program's time in the kernel, whose functions are unknown, to its stacks.
fn with_kernel(mut stacks: HostStacks, programs: &[ProgramShare]) -> HostStacks {
    let kernel = u32::try_from(stacks.functions.len()).unwrap_or(u32::MAX);
    let name = format!("[{}]", frame::KERNEL);
    stacks.functions.push(FlameFunction { name, module: frame::KERNEL.to_owned(), class: Some(SYSTEM.to_owned()), is_user: false });
    for program in programs.iter().filter(|program| SAMPLED.contains(&program.role.as_str())) {
        if let Some(share) = program.system_share.filter(|share| *share > 0.0) {
            let (program, frames, class) = (program.program.clone(), vec![kernel], SYSTEM.to_owned());
            stacks.stacks.push(FlameStack { program, frames, class, share, samples: 0 });
        }
    }
    stacks
}

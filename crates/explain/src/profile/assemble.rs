//! Makes the document from what was counted.

use super::classify::{FunctionId, Stacks};
use super::document::{
    ClassLine, ClassShare, EventCounts, FunctionShare, HostProfile, ModuleShare, OverTime, Profile, ProgramClass, ProgramShare, Rate,
    RecorderCost, SCHEMA, Unsymbolised,
};
use super::flame::{FlameFunction, FlameStack, HostProfiled, HostStacks, Profiled};
use super::gather::{Gathered, ProgramId, Programs, Weight, answers};
use super::rules::{ClassId, Rules};
use super::times::{Counted, Times, number};
use crate::limits::profile as limits;
use std::collections::{BTreeMap, HashMap};
use thalweg_trace::{HostId, Source, frame};

/// The input of a profile.
pub(super) struct ProfileInput<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) rules: &'a Rules,
    pub(super) stacks: &'a Stacks,
    pub(super) programs: &'a Programs<'a>,
    /// Whether pictures are made too, which need each stack; the document needs only sums.
    pub(super) with_stacks: bool,
}

/// The division of a machine's processor time, in nanoseconds.
pub(super) struct Division {
    total: f64,
    idle: f64,
    interrupts: f64,
    steal: f64,
    /// Time of the programs that take samples.
    bpf: f64,
    /// Time divided by samples.
    sampled: f64,
    busy: Weight,
}

impl Division {
    fn new(times: &Times, gathered: &Gathered) -> Division {
        let ns = |counted: &Option<Counted>| counted.as_ref().map_or(0.0, |counted| counted.ns);
        let wall = times.end_ns.saturating_sub(times.start_ns).max(0) as f64 * f64::from(times.cpus);
        let (idle, interrupts, steal) = (ns(&times.idle), ns(&times.interrupts), ns(&times.steal));
        let bpf = times.cost.bpf_s.unwrap_or(0.0).max(0.0) * 1e9;
        let counted = idle + interrupts + steal + bpf;
        // Without a count of idle time, only busy time is known.
        let total = if times.idle.is_some() { wall.max(counted) } else { gathered.busy.ns as f64 + interrupts + bpf };
        let sampled = (total - counted).max(0.0);
        Division { total, idle, interrupts, steal, bpf, sampled, busy: gathered.busy }
    }

    /// The division of a part of the time that samples stand for without being scaled.
    pub(super) fn of_samples(total: f64, busy: Weight) -> Division {
        Division { total, idle: 0.0, interrupts: 0.0, steal: 0.0, bpf: 0.0, sampled: busy.ns as f64, busy }
    }

    /// The time that samples of this weight stand for.
    fn ns(&self, weight: Weight) -> f64 {
        if self.busy.ns == 0 { 0.0 } else { self.sampled * (weight.ns as f64 / self.busy.ns as f64) }
    }

    /// A part of all processors' time, if there are enough samples.
    fn share(&self, ns: f64) -> Option<f64> {
        (self.enough() && self.total > 0.0).then(|| ns / self.total)
    }

    fn of(&self, weight: Weight) -> Option<f64> {
        self.share(self.ns(weight))
    }

    pub(super) fn enough(&self) -> bool {
        self.busy.samples >= limits::FEWEST_SAMPLES
    }

    /// The interval of the share of sampled time (Wilson's, 95 %), plus counted time.
    fn interval(&self, weight: Weight, counted_ns: f64) -> (Option<f64>, Option<f64>) {
        let z = limits::NORMAL_95;
        let n = self.busy.samples as f64;
        if self.busy.samples == 0 || self.busy.ns == 0 {
            return (None, None);
        }
        let p = weight.ns as f64 / self.busy.ns as f64;
        let middle = p + z * z / (2.0 * n);
        let half = z * (p * (1.0 - p) / n + (z / (2.0 * n)).powi(2)).sqrt();
        let end = |part: f64| self.share(counted_ns + self.sampled * (part / (1.0 + z * z / n)).clamp(0.0, 1.0));
        (end(middle - half), end(middle + half))
    }
}

/// Sums over classes.
#[derive(Clone, Default)]
struct Sums {
    all: Vec<Weight>,
    guessed: Vec<Weight>,
}

impl Sums {
    fn new(classes: usize) -> Sums {
        Sums { all: vec![Weight::default(); classes], guessed: vec![Weight::default(); classes] }
    }

    fn add(&mut self, class: ClassId, weight: Weight, is_guess: bool) {
        self.all[class as usize].plus(weight);
        if is_guess {
            self.guessed[class as usize].plus(weight);
        }
    }
}

/// The time of a program.
#[derive(Clone, Default)]
struct OfProgram {
    all: Weight,
    classes: BTreeMap<ClassId, u64>,
    purposes: BTreeMap<ClassId, u64>,
}

impl OfProgram {
    fn add(&mut self, class: ClassId, purpose: ClassId, weight: Weight) {
        self.all.plus(weight);
        *self.classes.entry(class).or_default() += weight.samples;
        *self.purposes.entry(purpose).or_default() += weight.samples;
    }
}

impl ProfileInput<'_> {
    pub(super) fn profiled(
        &self,
        times: &BTreeMap<HostId, Times>,
        gathered: &BTreeMap<HostId, Gathered>,
        rates: &BTreeMap<HostId, Vec<Rate>>,
        mut events: BTreeMap<HostId, Vec<EventCounts>>,
    ) -> Profiled {
        let meta = self.source.meta();
        let mut notes = Vec::new();
        let mut hosts = Vec::new();
        for (host, times) in times {
            let Some(gathered) = gathered.get(host) else { continue };
            let division = Division::new(times, gathered);
            let name = self.source.hosts().iter().find(|h| h.host == *host).map_or_else(|| format!("host {}", host.0), |h| h.name.clone());
            notes.extend(self.notes(&name, times, &division));
            hosts.push(HostProfiled {
                stacks: if self.with_stacks { self.flame(gathered, &division) } else { HostStacks::default() },
                document: HostProfile {
                    rates: rates.get(host).cloned().unwrap_or_default(),
                    events: events.remove(host).unwrap_or_default(),
                    ..self.host(name, times, gathered, &division)
                },
            });
        }
        let said = meta.attributes.iter().filter(|(name, _)| name == "notes" || name == "not_seen");
        notes.extend(said.flat_map(|(_, value)| value.lines().map(str::to_owned)));
        let (stacks, hosts): (Vec<_>, Vec<_>) = hosts.into_iter().map(|host| (host.stacks, host.document)).unzip();
        let period = number(meta, HostId(0), "profile.period_ns").filter(|ns| *ns > 0);
        let document = Profile {
            schema: SCHEMA.to_owned(),
            command: meta.command.clone(),
            recorder: meta.recorder.clone(),
            period_s: period.map(|ns| ns as f64 / 1e9),
            hosts,
            notes,
        };
        Profiled { document, stacks }
    }

    fn notes(&self, name: &str, times: &Times, division: &Division) -> Vec<String> {
        let mut notes = Vec::new();
        if times.idle.is_none() {
            notes.push(format!("{name}: idle time was not counted, so shares are parts of busy time"));
        } else if division.enough() {
            let stand_for = division.busy.ns as f64 / division.sampled.max(1.0);
            if !(limits::LEAST_AGREEMENT..=limits::MOST_AGREEMENT).contains(&stand_for) {
                notes.push(format!(
                    "{name}: samples stand for {:.1} s, and its processors were busy for {:.1} s: shares among busy classes are less certain",
                    division.busy.ns as f64 / 1e9,
                    division.sampled / 1e9
                ));
            }
        }
        if times.interrupts.is_none() {
            notes.push(format!("{name}: hard interrupts were not counted; no sample sees them"));
        }
        notes
    }

    pub(super) fn host(&self, name: String, times: &Times, gathered: &Gathered, division: &Division) -> HostProfile {
        let (mut classes, mut purposes) = (Sums::new(self.rules.classes.len()), Sums::new(self.rules.classes.len()));
        let mut functions: HashMap<(FunctionId, ClassId), Weight> = HashMap::new();
        let mut unnamed: BTreeMap<(FunctionId, ProgramId), Weight> = BTreeMap::new();
        let mut programs = vec![OfProgram::default(); self.programs.all.len()];
        for &((place, program), weight) in &gathered.stacks {
            let verdict = &self.stacks.verdicts[place as usize];
            let (class, purpose) = answers(verdict, self.programs.all[program as usize].whose, &self.rules.known);
            let is_guess = verdict.is_guess && class == verdict.class;
            classes.add(class, weight, is_guess);
            purposes.add(purpose, weight, is_guess);
            if let Some(function) = verdict.function {
                functions.entry((function, class)).or_default().plus(weight);
                if !self.stacks.functions[function as usize].has_name {
                    unnamed.entry((function, program)).or_default().plus(weight);
                }
            }
            programs[program as usize].add(class, purpose, weight);
        }
        let class_rows = self.rows(times, division, &classes);
        let share_of = |name: &str| class_rows.iter().find(|row| row.class == name).and_then(|row| row.share);
        let cost = RecorderCost { share: share_of(super::rules::name::RECORDER), ..times.cost };
        let guessed = classes.guessed.iter().fold(Weight::default(), |mut sum, weight| {
            sum.plus(*weight);
            sum
        });
        HostProfile {
            name,
            cpus: times.cpus,
            wall_s: times.end_ns.saturating_sub(times.start_ns).max(0) as f64 / 1e9,
            busy_s: (division.total - division.idle - division.steal).max(0.0) / 1e9,
            samples: division.busy.samples,
            enough: division.enough(),
            lost: times.lost,
            purposes: self.rows(times, division, &purposes),
            classes: class_rows,
            unsymbolised: self.unsymbolised(division, &unnamed),
            functions: self.functions(division, functions),
            programs: self.programs(division, gathered, &programs),
            over_time: self.over_time(times, gathered, division),
            guessed_share: division.of(guessed),
            cost,
            rates: Vec::new(),
            events: Vec::new(),
            counted: None,
        }
    }

    /// A row for each non-empty class, in the order of the rules.
    fn rows(&self, times: &Times, division: &Division, sums: &Sums) -> Vec<ClassShare> {
        let known = self.rules.known;
        let mut rows = Vec::new();
        for (id, class) in self.rules.classes.iter().enumerate() {
            let (weight, guessed, id) = (sums.all[id], sums.guessed[id], id as ClassId);
            let (counted, is_counted) = match id {
                _ if id == known.idle => (division.idle, times.idle.is_some()),
                _ if id == known.interrupts => (division.interrupts, times.interrupts.is_some()),
                _ if id == known.steal => (division.steal, times.steal.is_some()),
                _ if id == known.recorder => (division.bpf, times.cost.bpf_s.is_some()),
                _ => (0.0, false),
            };
            if weight.samples == 0 && !is_counted {
                continue;
            }
            let ns = counted + division.ns(weight);
            let (low, high) = if weight.samples > 0 { division.interval(weight, counted) } else { (None, None) };
            rows.push(ClassShare {
                class: class.name.clone(),
                title: class.title.clone(),
                share: division.share(ns),
                low,
                high,
                seconds: division.enough().then_some(ns / 1e9),
                samples: weight.samples,
                guessed: guessed.samples,
            });
        }
        rows
    }

    fn functions(&self, division: &Division, functions: HashMap<(FunctionId, ClassId), Weight>) -> Vec<FunctionShare> {
        let mut functions: Vec<_> = functions.into_iter().collect();
        functions.sort_by(|a, b| b.1.ns.cmp(&a.1.ns).then_with(|| a.0.cmp(&b.0)));
        functions.truncate(limits::MOST_FUNCTIONS);
        let row = |((function, class), weight): ((FunctionId, ClassId), Weight)| {
            let (function, class) = (&self.stacks.functions[function as usize], &self.rules.classes[class as usize]);
            FunctionShare {
                function: function.name.clone(),
                module: function.module.clone(),
                class: class.name.clone(),
                title: class.title.clone(),
                share: division.of(weight),
                samples: weight.samples,
            }
        };
        functions.into_iter().map(row).collect()
    }

    fn programs(&self, division: &Division, gathered: &Gathered, of: &[OfProgram]) -> Vec<ProgramShare> {
        let mut programs: Vec<usize> = (0..of.len()).filter(|&id| of[id].all.samples > 0).collect();
        programs.sort_by(|&a, &b| of[b].all.ns.cmp(&of[a].all.ns).then_with(|| self.programs.all[a].name.cmp(self.programs.all[b].name)));
        programs.truncate(limits::MOST_PROGRAMS);
        let row = |&id: &usize| ProgramShare {
            program: self.programs.all[id].name.to_owned(),
            role: self.programs.all[id].role.name().to_owned(),
            processes: gathered.processes.iter().filter(|(program, _)| *program as usize == id).count() as u64,
            share: division.of(of[id].all),
            user_share: None,
            system_share: None,
            samples: of[id].all.samples,
            classes: self.program_classes(&of[id].classes),
            purposes: self.program_classes(&of[id].purposes),
        };
        programs.iter().map(row).collect()
    }

    /// The classes in the order of the rules.
    fn program_classes(&self, samples: &BTreeMap<ClassId, u64>) -> Vec<ProgramClass> {
        let row = |(class, samples): (&ClassId, &u64)| ProgramClass {
            class: self.rules.classes[*class as usize].name.clone(),
            samples: *samples,
        };
        samples.iter().map(row).collect()
    }

    fn unsymbolised(&self, division: &Division, unnamed: &BTreeMap<(FunctionId, ProgramId), Weight>) -> Unsymbolised {
        let mut modules: BTreeMap<(String, Option<&str>), Weight> = BTreeMap::new();
        let mut all = Weight::default();
        for (&(function, program), &weight) in unnamed {
            let function = &self.stacks.functions[function as usize];
            // Generated code has no file: the program's name says where to ask for a symbol map.
            let module = match function.module.as_str() {
                frame::JIT => format!("{} of {}", frame::JIT, self.programs.all[program as usize].name),
                module => module.to_owned(),
            };
            modules.entry((module, function.build_id.as_deref())).or_default().plus(weight);
            all.plus(weight);
        }
        let mut modules: Vec<_> = modules.into_iter().collect();
        modules.sort_by_key(|(_, weight)| std::cmp::Reverse(weight.ns));
        modules.truncate(limits::MOST_MODULES);
        let row = |((module, build_id), weight): ((String, Option<&str>), Weight)| ModuleShare {
            module,
            build_id: build_id.map(str::to_owned),
            share: division.of(weight),
            samples: weight.samples,
        };
        Unsymbolised { share: division.of(all), modules: modules.into_iter().map(row).collect() }
    }

    /// Counted times from each bin's counters; the rest of a bin is divided by its samples.
    fn over_time(&self, times: &Times, gathered: &Gathered, division: &Division) -> OverTime {
        let bins = gathered.bins;
        if !division.enough() {
            return OverTime { bin_s: bins.bin_ns as f64 / 1e9, lines: Vec::new() };
        }
        let known = self.rules.known;
        let spread = |counted: &Option<Counted>| counted.as_ref().map(|counted| counted.spread(&bins));
        let (idle, interrupts, steal) = (spread(&times.idle), spread(&times.interrupts), spread(&times.steal));
        let mut whole = vec![0.0; bins.count];
        let wall = times.end_ns.saturating_sub(times.start_ns).max(0) as f64;
        bins.spread(times.start_ns, times.end_ns, wall * f64::from(times.cpus), &mut whole);
        let at = |counted: &Option<Vec<f64>>, bin: usize| counted.as_ref().map_or(0.0, |counted| counted[bin]);
        let samples = |bin: usize| gathered.all_over_time[bin] as f64;
        // The programs that take samples take equally long for each.
        let bpf = |bin: usize| division.bpf * samples(bin) / (division.busy.ns as f64).max(1.0);
        let left = |bin: usize| (whole[bin] - at(&idle, bin) - at(&interrupts, bin) - at(&steal, bin) - bpf(bin)).max(0.0);
        let busy_only = times.idle.is_none();
        let mut lines = Vec::new();
        for (id, class) in self.rules.classes.iter().enumerate() {
            let (sampled, id) = (&gathered.over_time[id], id as ClassId);
            let share = |bin: usize| {
                let weight = sampled.get(bin).map_or(0.0, |ns| *ns as f64);
                if busy_only {
                    return weight / samples(bin).max(1.0);
                }
                let counted = match id {
                    _ if id == known.idle => at(&idle, bin),
                    _ if id == known.interrupts => at(&interrupts, bin),
                    _ if id == known.steal => at(&steal, bin),
                    _ if id == known.recorder => bpf(bin),
                    _ => 0.0,
                };
                let divided = if weight > 0.0 { left(bin) * weight / samples(bin) } else { 0.0 };
                ((counted + divided) / whole[bin].max(1.0)).clamp(0.0, 1.0)
            };
            let shares: Vec<f64> = (0..bins.count).map(share).collect();
            if shares.iter().any(|share| *share > 0.0) {
                lines.push(ClassLine { class: class.name.clone(), shares });
            }
        }
        OverTime { bin_s: bins.bin_ns as f64 / 1e9, lines }
    }

    pub(super) fn flame(&self, gathered: &Gathered, division: &Division) -> HostStacks {
        let stack = |&((place, program), weight): &((u32, ProgramId), Weight)| {
            let program = &self.programs.all[program as usize];
            let (class, _) = answers(&self.stacks.verdicts[place as usize], program.whose, &self.rules.known);
            FlameStack {
                program: program.name.to_owned(),
                frames: self.stacks.frames[place as usize].iter().rev().copied().collect(),
                class: self.rules.classes[class as usize].name.clone(),
                share: division.ns(weight) / division.total.max(1.0),
                samples: weight.samples,
            }
        };
        let mut stacks: Vec<FlameStack> = gathered.stacks.iter().map(stack).collect();
        stacks.sort_by(|a, b| a.program.cmp(&b.program).then_with(|| a.frames.cmp(&b.frames)).then_with(|| a.class.cmp(&b.class)));
        HostStacks { functions: self.stacks.functions.iter().map(|function| FlameFunction::of(function, self.rules)).collect(), stacks }
    }
}

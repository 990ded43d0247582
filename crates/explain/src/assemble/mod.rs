//! Makes the document from what was gathered and charged.

pub(crate) mod activity;
pub(crate) mod behind;
mod carried;
pub(crate) mod contention;
mod evidence;
mod gaps;
pub(crate) mod notes;
pub(crate) mod of_packets;
pub(crate) mod phase;
pub(crate) mod round_trips;
pub(crate) mod settle;
pub(crate) mod summary;
pub(crate) mod transfers;
pub(crate) mod tuning;
pub(crate) mod verdict;
mod why;

use crate::cause::Cause;
use crate::document::*;
use crate::facts::Parts;
use crate::facts::sharing::Sharing;
use crate::limits::assemble as limits;
use crate::observe::channels::Idle;
use crate::observe::curve::{Curve, phases};
use crate::observe::observation::Way;
use crate::path::ledger::{Entry, Run};
use crate::rule::RuleId;
use crate::waits::place::{Place, What};
use carried::Carried;
use std::collections::{HashMap, HashSet};
use thalweg_base::numbers::whole_percent;
use thalweg_trace::{ObjectKind, Role};

/// The document's charges, and the charge that each ledger entry became.
pub(crate) struct Charges {
    /// The charges, largest first.
    pub list: Vec<Charge>,
    /// Index of the charge, by ledger entry.
    pub of_entry: Vec<usize>,
    /// By charge: its ledger entries, and the part of its time in gaps of the channel.
    pub made_of: Vec<(Vec<usize>, f64)>,
}

impl Parts<'_> {
    /// Makes the charges. Beyond [`MAX_CHARGES`], the rest of each cause is one charge.
    pub(crate) fn charges(&self) -> Charges {
        let wall_ns = (self.end - self.start).max(1) as f64;
        let slack = self.slack();
        // In transfers between files only, a pause in writing adds nothing to the charges.
        let on_wire = |w: &&Way| !matches!(**w, Way::ClientWrites | Way::ClientReads);
        let idle = self.ways().first().filter(on_wire).map(|&w| self.carried(w).gathered.gaps).unwrap_or_default();
        let idle_within = overlap(&self.ledger.path, &idle, self.ledger.entries.len());
        let named = self.named_files();
        let name = |e: &Entry| e.place.name(self.tables, |file| named.contains(&file)) + &self.aside(e);
        let names: Vec<String> = self.ledger.entries.iter().map(name).collect();
        // Entries with the same text become one charge.
        let mut groups: HashMap<(Cause, &str), Vec<usize>> = HashMap::new();
        for (i, entry) in self.ledger.entries.iter().enumerate().filter(|(_, entry)| entry.runs.total_ns > 0) {
            groups.entry((entry.cause, &names[i])).or_default().push(i);
        }
        let mut groups: Vec<((Cause, &str), Vec<usize>)> = groups.into_iter().collect();
        let total = |members: &[usize]| members.iter().map(|&i| self.ledger.entries[i].runs.total_ns).sum::<u64>();
        groups.sort_by(|a, b| total(&b.1).cmp(&total(&a.1)).then(a.0.cmp(&b.0)));
        let mut rest: HashMap<Cause, Vec<usize>> = HashMap::new();
        let room = MAX_CHARGES - 1 - Cause::ALL.len().min(MAX_CHARGES / 2);
        for (_, members) in groups.iter().skip(room) {
            rest.entry(self.ledger.entries[members[0]].cause).or_default().extend(members);
        }
        groups.truncate(room);
        let rest_names: HashMap<Cause, String> = rest.keys().map(|&c| (c, elsewhere(c))).collect();
        for (cause, members) in rest {
            groups.push(((cause, &rest_names[&cause]), members));
        }
        groups.sort_by(|a, b| total(&b.1).cmp(&total(&a.1)).then(a.0.cmp(&b.0)));
        let charge = |cause: Cause, place: &str, members: &[usize], part: f64, instead: Option<RuleId>| {
            let of = |wanted: &dyn Fn(&Entry) -> bool| -> f64 {
                let ns = members.iter().map(|&i| &self.ledger.entries[i]).filter(|e| wanted(e)).map(|e| e.runs.total_ns).sum::<u64>();
                ns as f64 * part
            };
            let (ns, inferred_ns) = (of(&|_| true), of(&|e| e.inferred));
            let idle_ns = members.iter().map(|&i| idle_within[i]).sum::<i64>() as f64 * part;
            Charge {
                cause,
                place: place.to_owned(),
                seconds: ns / 1e9,
                share: ns / wall_ns,
                slack_s: (members.iter().map(|&i| slack[i]).sum::<f64>() * part).min(ns / 1e9),
                basis: if inferred_ns > 0.0 { Basis::Inferred } else { Basis::Recorded },
                inferred_s: inferred_ns / 1e9,
                via: evidence::via(self, cause, members),
                quota: members.iter().any(|&i| self.ledger.entries[i].place.is_quota(self.tables)),
                evidence: evidence::of(self, cause, members, idle_ns / ns.max(1.0)),
                hottest: self.around.hottest.of(cause, members, wall_ns),
                waits: self.around.waiting.of(cause, members, |at| self.seconds(at)),
                rules: self.rules(members, part, instead),
            }
        };
        // Each charge with the index of its group.
        let mut list: Vec<(Charge, usize)> = Vec::new();
        for (group, ((cause, place), members)) in groups.iter().enumerate() {
            let on_names = self.on_names(*cause, members);
            if let Some((metadata, part)) = on_names {
                let place = place.replace("its own work", "metadata calls");
                list.push((charge(metadata, &place, members, part, Some(RuleId::MetadataSamples)), group));
            }
            list.push((charge(*cause, place, members, 1.0 - on_names.map_or(0.0, |(_, part)| part), None), group));
        }
        list.sort_by(|(a, _), (b, _)| b.seconds.total_cmp(&a.seconds).then(a.cause.cmp(&b.cause)));
        let mut of_entry = vec![0; self.ledger.entries.len()];
        for (position, (_, group)) in list.iter().enumerate().rev() {
            // A group's larger part comes last here, and gives the path its name.
            groups[*group].1.iter().for_each(|&i| of_entry[i] = position);
        }
        let idle = |members: &[usize]| members.iter().map(|&i| idle_within[i]).sum::<i64>() as f64 / total(members).max(1) as f64;
        let made_of = list.iter().map(|(_, group)| &groups[*group].1).map(|members| (members.clone(), idle(members))).collect();
        Charges { list: list.into_iter().map(|(charge, _)| charge).collect(), of_entry, made_of }
    }

    /// Additions to a place's name: threads of its process taking turns; a limit that somebody set; other users of the device, the
    /// processors or the link.
    pub(crate) fn aside(&self, entry: &Entry) -> String {
        let quoted = |name: &str| format!("`{name}`");
        let said = match entry.place {
            Place::Thread { label, what: What::OwnWork, .. } => contention::turns(self, label).map(contention::Turns::words),
            Place::Thread { label, what: What::Runnable, .. } => {
                let others = self.others_at_processors(entry);
                let others = others.map(|others| format!("{} of it behind {}", whole_percent(others.part()), others.who(quoted)));
                let (limits, share) = (&self.around.limits, entry.runs.total_ns as f64 / (self.end - self.start).max(1) as f64);
                let bound = limits.of_processors(self.tables, label);
                let bound = bound.or_else(|| limits.idle_beside(self.tables, label, share).filter(|_| !entry.place.is_quota(self.tables)));
                let said: Vec<String> = others.into_iter().chain(bound).collect();
                (!said.is_empty()).then(|| said.join(", "))
            }
            Place::Thread { what: What::Blocked(_), .. } => self.limit(entry).or_else(|| self.others_at(entry).map(Sharing::words)),
            Place::Wire(..) | Place::FarEnd { .. } => self.others_at_link(entry).map(|shared| format!("while {}", shared.words(quoted))),
            _ => None,
        };
        said.map_or_else(String::new, |said| format!(", {said}"))
    }

    /// The metadata cause, and its part of the running time, if samples found at least a twentieth of it in calls on names and attributes.
    fn on_names(&self, cause: Cause, members: &[usize]) -> Option<(Cause, f64)> {
        let metadata = match cause {
            Cause::ClientCpu => Cause::ClientMetadata,
            Cause::ServerCpu => Cause::ServerMetadata,
            _ => return None,
        };
        self.around.on_names(members).filter(|(part, _)| *part >= limits::ON_NAMES_PART).map(|(part, _)| (metadata, part))
    }

    /// The files that places name: all, if they are few; else those with the most time, at least a hundredth.
    fn named_files(&self) -> HashSet<u32> {
        let is_file = |&o: &u32| self.tables.objects.get(o as usize).is_some_and(|t| t.kind == ObjectKind::File);
        let mut charged: HashMap<u32, u64> = HashMap::new();
        for entry in &self.ledger.entries {
            if let Place::Thread { object, .. } = entry.place
                && is_file(&object)
            {
                *charged.entry(object).or_default() += entry.runs.total_ns;
            }
        }
        let few = self.tables.objects.iter().filter(|t| t.kind == ObjectKind::File).count() <= limits::FEW_FILES;
        let least = if few { 0 } else { (self.end - self.start) as u64 / limits::NAMED_FILE_PART };
        let mut most: Vec<(u64, u32)> = charged.into_iter().map(|(o, ns)| (ns, o)).filter(|&(ns, _)| ns >= least).collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        most.into_iter().take(limits::FEW_FILES).map(|(_, o)| o).collect()
    }

    /// By entry: seconds it can shrink before another thread's work is waited for. In each time bin, the work of threads other than the
    /// walked one would take its place.
    fn slack(&self) -> Vec<f64> {
        let (start, end) = self.seen.interval;
        let mut walked = Curve::new(start, end, crate::limits::observe::BUSY_BINS);
        for run in &self.ledger.path {
            if self.ledger.entries[run.entry as usize].is_on_thread() {
                walked.spread(run.start, run.end, (run.end - run.start) as f64);
            }
        }
        let bin_ns = walked.bin_s() * 1e9;
        let free: Vec<f64> = self.seen.busy.bins.iter().zip(&walked.bins).map(|(b, w)| 1.0 - ((b - w) / bin_ns).clamp(0.0, 1.0)).collect();
        let mut sums = vec![0.0; free.len() + 1];
        for (i, f) in free.iter().enumerate() {
            sums[i + 1] = sums[i] + f * bin_ns;
        }
        let until = |at: i64| {
            let x = ((at - start) as f64 / bin_ns).clamp(0.0, free.len() as f64);
            let whole = (x as usize).min(free.len());
            sums[whole] + if whole < free.len() { (x - whole as f64) * free[whole] * bin_ns } else { 0.0 }
        };
        let mut slack = vec![0.0; self.ledger.entries.len()];
        for run in &self.ledger.path {
            slack[run.entry as usize] += (until(run.end) - until(run.start)).max(0.0) / 1e9;
        }
        slack
    }

    /// The path, for pictures.
    pub(crate) fn path(&self, charges: &Charges) -> Vec<Segment> {
        let step = if self.ledger.path.len() > MAX_SEGMENTS { (self.end - self.start) / (MAX_SEGMENTS as i64 - 8) } else { 0 };
        let mut runs = self.ledger.path_in_steps(step);
        runs.reverse();
        let segment = |run: Run| Segment {
            cause: charges.list[charges.of_entry[run.entry as usize]].cause,
            charge: charges.of_entry[run.entry as usize],
            start_s: self.seconds(run.start),
            end_s: self.seconds(run.end),
            track: self.tables.actors.get(run.track as usize).map(|a| a.id),
        };
        runs.into_iter().map(segment).collect()
    }

    /// Channels: the sum of each direction, then the connections that moved most.
    pub(crate) fn channels(&self, charges: &Charges) -> Vec<Channel> {
        let mut channels = Vec::new();
        let mut single = Vec::new();
        for way in self.ways() {
            let stream = self.seen.stream(way);
            let name = match way {
                Way::ClientSends => "all to servers",
                Way::ServerSends | Way::ClientReceives => "all from servers",
                Way::ClientWrites => "all written",
                Way::ClientReads => "all read",
            };
            channels.push(self.channel(name.to_owned(), None, &self.carried(way), charges));
            let objects = stream.by_object.iter().enumerate().filter_map(|(o, g)| g.as_ref().map(|g| (way, o, g)));
            single.extend(objects);
        }
        single.sort_by_key(|(_, object, g)| (std::cmp::Reverse(g.bytes), *object));
        for (way, object, gatherer) in single.into_iter().take(MAX_CHANNELS) {
            let on = &self.tables.objects[object];
            let back = matches!(way, Way::ServerSends | Way::ClientReceives);
            let name = match on.name.split_once(" > ") {
                Some((client, server)) if back => format!("{server} > {client}"),
                _ => on.name.clone(),
            };
            let carried = self.carried_by(way, object, gatherer);
            channels.push(self.channel(name, Some(on.id), &carried, charges));
        }
        channels
    }

    /// Bytes over time within the bursts of a direction, if that is its own speed.
    pub(crate) fn burst_rate(&self, way: Way) -> Option<f64> {
        let carried = self.carried(way);
        let burst_s = carried.gathered.burst_ns as f64 / 1e9;
        (burst_s > 0.0 && carried.has_rate()).then(|| carried.gathered.bytes as f64 / burst_s)
    }

    fn channel(&self, name: String, object: Option<u64>, carried: &Carried<'_>, charges: &Charges) -> Channel {
        let gathered = &carried.gathered;
        let burst_s = gathered.burst_ns as f64 / 1e9;
        Channel {
            name,
            aggregate: object.is_none(),
            object,
            basis: carried.basis,
            size_bytes: gathered.bytes,
            sends: carried.sends,
            bursts: if gathered.sends == 0 { 0 } else { gathered.gaps.len() as u64 + 1 },
            burst_bytes_per_s: (burst_s > 0.0 && carried.has_rate()).then(|| gathered.bytes as f64 / burst_s),
            busy_share: (gathered.busy_ns as f64 / (self.end - self.start).max(1) as f64).clamp(0.0, 1.0),
            gaps: self.gaps(gathered, charges),
        }
    }

    /// Phases of the direction that moved most.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        let Some(&way) = self.ways().first() else { return Vec::new() };
        let carried = self.carried(way);
        carried.extent.map_or_else(Vec::new, |(first, last)| phases(&self.curve(way, &carried), self.start, self.end, first, last))
    }

    /// The throughput curve of the direction that moved most.
    pub(crate) fn throughput(&self) -> Option<Throughput> {
        let way = *self.ways().first()?;
        let curve = self.curve(way, &self.carried(way));
        let bytes_per_s = curve.bins.iter().map(|b| (b / curve.bin_s()).round()).collect();
        Some(Throughput { bin_s: curve.bin_s(), bytes_per_s })
    }

    /// The activity of each thread.
    pub(crate) fn tracks(&self) -> Vec<Utilisation> {
        let s = |ns: u64| ns as f64 / 1e9;
        let threads = self.tables.actors.iter().zip(&self.seen.did).filter(|(a, d)| a.thread && d.spans > 0);
        let mut tracks: Vec<Utilisation> = threads
            .map(|(actor, did)| Utilisation {
                track: actor.id,
                name: actor.name.clone(),
                role: role_name(actor.role).to_owned(),
                cpu_s: s(did.cpu_ns + did.uncovered_ns),
                runqueue_s: s(did.runqueue_ns),
                file_s: s(did.file_ns),
                network_s: s(did.network_ns),
                lock_s: s(did.lock_ns),
                spans: did.spans,
            })
            .collect();
        tracks.sort_by(|a, b| (b.cpu_s + b.file_s).total_cmp(&(a.cpu_s + a.file_s)).then(a.track.cmp(&b.track)));
        tracks.truncate(MAX_TRACKS);
        tracks
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Client => "client",
        Role::Server => "server",
        Role::Kernel => "kernel",
        Role::Recorder => "recorder",
        Role::None => "none",
    }
}

fn elsewhere(cause: Cause) -> String {
    format!("{} in many small places", cause.name().split('.').next().unwrap_or("time"))
}

/// The time of each entry's part of the path (latest first) within these intervals (earliest first).
fn overlap(path: &[Run], idle: &[Idle], entries: usize) -> Vec<i64> {
    let mut within = vec![0; entries];
    let mut gaps = idle.iter().rev().peekable();
    for run in path {
        while gaps.peek().is_some_and(|g| g.start >= run.end) {
            gaps.next();
        }
        for gap in gaps.clone().take_while(|g| g.end > run.start) {
            within[run.entry as usize] += run.end.min(gap.end) - run.start.max(gap.start);
        }
    }
    within
}

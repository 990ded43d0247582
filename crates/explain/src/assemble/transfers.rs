//! Transfers: what was moved from where to where.
//!
//! A program that records its requests (`app.request`) is believed. For any other, only the bytes that its processes took from and handed
//! to files and connections are known. A source and a sink are paired if one process moved equally many bytes on both, the nearest in time
//! first; what remains on one side is paired with the largest on the other. The connections to one server count as one.

use crate::cause::End;
use crate::document::{MAX_TRANSFERS, Transfer, Unlisted};
use crate::facts::Parts;
use crate::limits::assemble as limits;
use crate::observe::observation::Moved;
use std::collections::HashMap;
use thalweg_base::numbers::count;
use thalweg_trace::{Meta, ObjectKind};

/// A file, or a far end with all its connections.
#[derive(Clone, Debug)]
struct Pile {
    name: String,
    moved: Moved,
    file: bool,
}

/// The largest transfers of a recording, in order of time, and the sum of the others.
pub(crate) fn transfers(parts: &Parts<'_>, meta: &Meta) -> (Vec<Transfer>, Option<Unlisted>) {
    let (mut transfers, mut unlisted) = asked_for(parts, meta);
    if transfers.is_empty() {
        (transfers, unlisted) = by_bytes(parts, meta);
    }
    transfers.sort_by(|a, b| a.start_s.total_cmp(&b.start_s).then_with(|| a.from.cmp(&b.from)));
    (transfers, unlisted)
}

/// The sum of the sizes beyond the list's end; sizes come largest first.
fn beyond(sizes: impl Iterator<Item = u64>) -> Option<Unlisted> {
    let add = |all: Unlisted, size_bytes: u64| Unlisted { count: all.count + 1, size_bytes: all.size_bytes.saturating_add(size_bytes) };
    let rest = sizes.skip(MAX_TRANSFERS).fold(Unlisted { count: 0, size_bytes: 0 }, add);
    (rest.count > 0).then_some(rest)
}

fn attribute<'m>(meta: &'m Meta, name: &str) -> Option<&'m str> {
    meta.attributes.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
}

/// Transfers as the program's own requests describe them.
fn asked_for(parts: &Parts<'_>, meta: &Meta) -> (Vec<Transfer>, Option<Unlisted>) {
    let mut asked: Vec<_> = parts.seen.asked.values().collect();
    asked.sort_by_key(|a| (std::cmp::Reverse(a.bytes), a.start));
    let transfer = |a: &&crate::observe::observation::SourceRequests| {
        let object = parts.tables.objects.get(a.object as usize);
        let from = object.map(|t| t.name.as_str()).or_else(|| attribute(meta, "from"));
        let to = object.and_then(|t| t.attribute("to")).or_else(|| attribute(meta, "to").filter(|_| asked.len() == 1));
        Transfer {
            from: from.unwrap_or("an unnamed source").to_owned(),
            to: to.map(str::to_owned),
            size_bytes: a.bytes,
            requests: a.requests,
            start_s: parts.seconds(a.start),
            wall_s: (a.end - a.start) as f64 / 1e9,
        }
    };
    (asked.iter().take(MAX_TRANSFERS).map(transfer).collect(), beyond(asked.iter().map(|a| a.bytes)))
}

/// Transfers by the bytes in and out of the client's processes; of the servers', if no client was recorded.
fn by_bytes(parts: &Parts<'_>, meta: &Meta) -> (Vec<Transfer>, Option<Unlisted>) {
    let (mut sources, mut sinks) = (piles(parts, End::Client, 0), piles(parts, End::Client, 1));
    let alone = sources.is_empty() && sinks.is_empty();
    if alone {
        (sources, sinks) = (piles(parts, End::Server, 0), piles(parts, End::Server, 1));
    }
    leave_out_programs(&mut sources, &meta.command);
    let moved = |piles: &[Pile]| piles.iter().map(|p| p.moved.bytes).max().unwrap_or(0);
    let most = moved(&sources).max(moved(&sinks));
    for piles in [&mut sources, &mut sinks] {
        merge_small(piles, most);
    }
    if !alone {
        name_server_files(parts, &mut sources, 0);
        name_server_files(parts, &mut sinks, 1);
    }
    let mut pairs = pair_up(&mut sources, &mut sinks);
    if let Some(most) = pairs.iter().map(|(from, to)| size(from, to)).max() {
        // Beside paired transfers, the rest is what programs read and write for themselves.
        sources.retain(|p| p.moved.bytes >= most / limits::UNPAIRED_PART);
        sinks.retain(|p| p.moved.bytes >= most / limits::UNPAIRED_PART);
    }
    correct_sizes(&mut sources, &mut sinks);
    let largest = |piles: &[Pile]| piles.iter().max_by_key(|p| p.moved.bytes).cloned();
    let (last_source, last_sink) = (largest(&sources), largest(&sinks));
    match (last_source, last_sink) {
        (Some(source), Some(_)) if sinks.len() > sources.len() => pairs.extend(sinks.into_iter().map(|p| (Some(source.clone()), Some(p)))),
        (_, sink) if !sources.is_empty() => pairs.extend(sources.into_iter().map(|p| (Some(p), sink.clone()))),
        (_, _) => pairs.extend(sinks.into_iter().map(|p| (None, Some(p)))),
    }
    pairs.sort_by_key(|(from, to)| std::cmp::Reverse(size(from, to)));
    let listed = pairs.iter().take(MAX_TRANSFERS).map(|(from, to)| transfer(parts, meta, from.as_ref(), to.as_ref()));
    (listed.collect(), beyond(pairs.iter().map(|(from, to)| size(from, to))))
}

/// Drops files that belong to programs (libraries, an interpreter's modules), unless the command names their directory. A program that
/// generates what it sends, or reads it from a pipe, reads nothing else.
fn leave_out_programs(sources: &mut Vec<Pile>, command: &[String]) {
    let is_whole = |word: &&String| word.as_str() == "." || word.ends_with("/.");
    if command.iter().any(|word| is_whole(&word)) {
        return;
    }
    let is_named = |path: &str| {
        let named = |word: &String| {
            let word = word.trim_matches('/');
            !word.is_empty() && (path.trim_start_matches('/').starts_with(word) || path.split('/').any(|part| part == word))
        };
        command.iter().skip(1).any(named)
    };
    sources.retain(|pile| !pile.file || !is_of_programs(&pile.name) || is_named(&pile.name));
}

/// Whether a file belongs to programs, by its name.
fn is_of_programs(path: &str) -> bool {
    const DIRECTORIES: [&str; 6] = ["/__pycache__/", "/site-packages/", "/dist-packages/", "/node_modules/", "/lib-dynload/", "/locale/"];
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_library = name.ends_with(".so") || name.contains(".so.");
    is_library || [".pyc", ".pyo"].iter().any(|end| name.ends_with(end)) || DIRECTORIES.iter().any(|directory| path.contains(directory))
}

/// Drops objects too small to be transferred: headers, libraries, configuration, logs. If their sum exceeds everything else, that sum is
/// the transfer: a tree of small files.
fn merge_small(piles: &mut Vec<Pile>, most: u64) {
    let least = (most / limits::TRANSFER_PART).max(1);
    let (large, small): (Vec<Pile>, Vec<Pile>) = piles.drain(..).partition(|p| p.moved.bytes >= least);
    *piles = large;
    let mut all = Moved::default();
    small.iter().for_each(|p| add(&mut all, &p.moved));
    if all.bytes > most {
        all.pid = small.first().map(|p| p.moved.pid).filter(|pid| small.iter().all(|p| p.moved.pid == *pid)).unwrap_or(0);
        let file = small.iter().all(|p| p.file);
        let of = if file { "files" } else { "files and connections" };
        piles.push(Pile { name: format!("{} {of}", count(small.len() as u64)), moved: all, file });
    }
}

/// Corrects sizes of a single source and a single sink that differ by more than headers: one was compressed, or counted in part, so the
/// larger size counts. Bytes from connections that are not known to have been handed out become a transfer of their own.
fn correct_sizes(sources: &mut [Pile], sinks: &mut Vec<Pile>) {
    let differ = |a: u64, b: u64| a.abs_diff(b) > a.max(b) / limits::HEADERS_PART;
    match (sources, sinks.as_mut_slice()) {
        ([source], [sink]) if differ(source.moved.bytes, sink.moved.bytes) => {
            let larger = source.moved.bytes.max(sink.moved.bytes);
            (source.moved.bytes, sink.moved.bytes) = (larger, larger);
        }
        ([source], [_, _, ..]) if !source.file => {
            let handed_out: u64 = sinks.iter().map(|sink| sink.moved.bytes).sum();
            let rest = source.moved.bytes.saturating_sub(handed_out);
            if differ(source.moved.bytes, source.moved.bytes - rest) {
                let moved = Moved { bytes: rest, ..source.moved };
                sinks.push(Pile { name: "files that were not counted".to_owned(), moved, file: true });
            }
        }
        _ => {}
    }
}

/// A transfer's size: the smaller of two ends that differ (compression, headers, one source of many).
fn size(from: &Option<Pile>, to: &Option<Pile>) -> u64 {
    [from, to].into_iter().flatten().map(|p| p.moved.bytes).min().unwrap_or(0)
}

fn transfer(parts: &Parts<'_>, meta: &Meta, from: Option<&Pile>, to: Option<&Pile>) -> Transfer {
    let both = [from, to].into_iter().flatten();
    // A transfer lasts from the first byte taken to the last handed out.
    let start = both.clone().map(|p| p.moved.start).min().unwrap_or(parts.start);
    let end = both.map(|p| p.moved.end).max().unwrap_or(parts.end);
    let name =
        |pile: Option<&Pile>, attribute_name| pile.map(|p| p.name.clone()).or_else(|| attribute(meta, attribute_name).map(str::to_owned));
    Transfer {
        from: name(from, "from").unwrap_or_else(|| "an unnamed source".to_owned()),
        to: name(to, "to"),
        size_bytes: size(&from.cloned(), &to.cloned()),
        requests: from.or(to).map_or(0, |p| p.moved.calls),
        start_s: parts.seconds(start),
        wall_s: (end - start).max(0) as f64 / 1e9,
    }
}

/// Pairs sources and sinks of equal size in one process, nearest in time first, and removes them from their lists.
fn pair_up(sources: &mut Vec<Pile>, sinks: &mut Vec<Pile>) -> Vec<(Option<Pile>, Option<Pile>)> {
    let mut pairs = Vec::new();
    sources.sort_by_key(|p| p.moved.start);
    sinks.sort_by_key(|p| p.moved.start);
    let mut left = Vec::new();
    for sink in sinks.drain(..) {
        let before = sources.partition_point(|p| p.moved.start <= sink.moved.start);
        let candidates = before.saturating_sub(limits::NEAR_PAIRS)..(before + limits::NEAR_PAIRS).min(sources.len());
        let alike = |p: &Pile| {
            let (a, b) = (p.moved.bytes, sink.moved.bytes);
            (p.moved.pid == sink.moved.pid || !p.file || !sink.file) && a.abs_diff(b) <= a.max(b) / limits::PAIR_PART
        };
        let nearest = candidates.filter(|&i| alike(&sources[i])).min_by_key(|&i| sources[i].moved.start.abs_diff(sink.moved.start));
        match nearest {
            Some(i) => pairs.push((Some(sources.remove(i)), Some(sink))),
            None => left.push(sink),
        }
    }
    *sinks = left;
    pairs
}

/// Everything that one end took in (`way` 0) or handed out (1), by file or far end.
fn piles(parts: &Parts<'_>, end: End, way: usize) -> Vec<Pile> {
    let mut piles: Vec<Pile> = Vec::new();
    let mut of_far_end: HashMap<String, usize> = HashMap::new();
    for (object, moved) in parts.tables.objects.iter().zip(&parts.seen.moved[end as usize]) {
        let moved = moved[way];
        if moved.bytes == 0 {
            continue;
        }
        let file = object.kind != ObjectKind::Connection;
        let name = if file { object.name.clone() } else { far_end(&object.name, end) };
        let known = (!file).then(|| of_far_end.get(&name).copied()).flatten();
        match known {
            Some(i) => add(&mut piles[i].moved, &moved),
            None => {
                if !file {
                    of_far_end.insert(name.clone(), piles.len());
                }
                piles.push(Pile { name, moved, file });
            }
        }
    }
    piles
}

fn add(sum: &mut Moved, more: &Moved) {
    sum.bytes += more.bytes;
    sum.calls += more.calls;
    sum.start = sum.start.min(more.start);
    sum.end = sum.end.max(more.end);
}

/// The far end of a connection: the server's address from the client's end, the client's host from the server's.
fn far_end(name: &str, end: End) -> String {
    match (name.split_once(" > "), end) {
        (Some((_, server)), End::Client) => server.to_owned(),
        (Some((client, _)), End::Server) => client.rsplit_once(':').map_or(client, |(host, _)| host).to_owned(),
        (None, _) => name.to_owned(),
    }
}

/// Names the file as a transfer's end, if a server was recorded and moved one file of that size.
fn name_server_files(parts: &Parts<'_>, piles: &mut [Pile], way: usize) {
    let files = || parts.tables.objects.iter().zip(&parts.seen.moved[End::Server as usize]).filter(|(t, _)| t.kind == ObjectKind::File);
    for pile in piles.iter_mut().filter(|p| !p.file) {
        let bytes = pile.moved.bytes;
        let mut alike = files().filter(|(_, m)| m[way].bytes > 0 && m[way].bytes.abs_diff(bytes) <= bytes / limits::SAME_FILE_PART);
        if let (Some((file, _)), None) = (alike.next(), alike.next()) {
            pile.name = format!("{}: {}", pile.name, file.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(names: &[&str], command: &str) -> Vec<String> {
        let pile = |name: &&str| Pile { name: (*name).to_owned(), moved: Moved::default(), file: true };
        let mut piles: Vec<Pile> = names.iter().map(pile).collect();
        leave_out_programs(&mut piles, &command.split(' ').map(str::to_owned).collect::<Vec<_>>());
        piles.into_iter().map(|pile| pile.name).collect()
    }

    #[test]
    fn what_an_interpreter_is_made_of_is_no_data_unless_the_command_names_it() {
        let of_python = "/usr/lib/python3.11/__pycache__/typing.cpython-311.pyc";
        let (library, data) = ("/usr/lib/x86_64-linux-gnu/libz.so.1.2", "/data/in.so-called");
        assert_eq!(left(&[of_python, library, data], "python3 send.py"), [data]);
        assert_eq!(left(&[of_python], "tar c /usr/lib"), [of_python]);
        assert_eq!(left(&["/work/app/node_modules/x/index.js"], "cp -r node_modules /backup"), ["/work/app/node_modules/x/index.js"]);
        assert_eq!(left(&[of_python], "tar c ."), [of_python]);
    }
}

//! Readers' names for programs, files and paths.

use crate::cause::End;
use crate::limits::summary as limits;
use crate::observe::tables::{Object, Tables, parted};
pub(crate) use crate::title::base;
use crate::waits::place::Place;
use thalweg_trace::{Meta, ObjectKind};

/// The program of a thread. A recorder that sees processes names threads `COMMAND` or `COMMAND/THREAD`; a program that records itself names
/// them by their work, the first one `main`: a server's name is then its own, and the client's is the command's.
pub(crate) fn program(tables: &Tables, meta: &Meta, actor: u32) -> String {
    let Some(actor) = tables.actors.get(actor as usize) else { return "a thread".to_owned() };
    if actor.mount {
        return "the mount".to_owned();
    }
    // A process's main thread that named itself has its name twice.
    if let Some((command, _)) = actor.name.split_once('/').filter(|(command, thread)| command == thread) {
        return command.to_owned();
    }
    let (command, thread) = parted(&actor.name).unwrap_or(("", &actor.name));
    let bare = |name: &str| name.trim_end_matches('-').to_owned();
    if actor.label.ends_with("rank") {
        return actor.name.clone();
    }
    match actor.end {
        End::Server => {
            let serving = thread.strip_suffix(" serve").or_else(|| thread.split_once(" connection").map(|(name, _)| name));
            let label = actor.label.split('/').next().unwrap_or(&actor.label);
            let label = label.strip_suffix(" connection").unwrap_or(label);
            serving.map_or_else(|| bare(if command.is_empty() { label } else { command }), str::to_owned)
        }
        End::Client if !command.is_empty() => bare(command),
        End::Client if tables.actors.get(tables.main as usize).is_some_and(|main| main.name == "main") => own_program(meta),
        End::Client => bare(&actor.label),
    }
}

/// The command's name, with its verb if it is this project's.
fn own_program(meta: &Meta) -> String {
    let name = thalweg_recipes::program(&meta.command);
    let verb =
        meta.command.iter().skip_while(|word| !word.ends_with(name)).nth(1).filter(|verb| name == "thalweg" && !verb.starts_with('-'));
    match (name, verb) {
        ("", _) => "the program".to_owned(),
        (name, Some(verb)) => format!("{name} {verb}"),
        (name, None) => name.to_owned(),
    }
}

/// A name without its number, by which servers of one kind differ. An address is unchanged.
pub(crate) fn stem(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.is_empty() || stem.ends_with([':', '.']) { name } else { stem }
}

/// A file's name for a reader; a store's datafile (`0000010000000001.3`) as such.
pub(crate) fn file_name(path: &str) -> &str {
    let name = base(path);
    let datafile = name.split_once('.').is_some_and(|(id, number)| {
        id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()) && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    });
    if datafile {
        return "a datafile";
    }
    // A numeric name needs its directory: a database's log.
    let is_number = name.len() >= limits::LONG_NUMBER && name.bytes().all(|b| b.is_ascii_hexdigit());
    let parent = path.len().checked_sub(name.len() + 1).map(|end| base(&path[..end])).filter(|parent| is_number && !parent.is_empty());
    parent.map_or(name, |parent| &path[path.len() - name.len() - 1 - parent.len()..])
}

/// A name short enough for a sentence.
pub(crate) fn brief(name: &str) -> String {
    let count = name.chars().count();
    if count <= limits::LONGEST_NAME {
        return name.to_owned();
    }
    let (front, back) = (limits::LONGEST_NAME / 3, limits::LONGEST_NAME - limits::LONGEST_NAME / 3 - 1);
    name.chars().take(front).chain(['…']).chain(name.chars().skip(count - back)).collect()
}

/// The processors of a machine: `CPUs of vm`.
pub(crate) fn processors(tables: &Tables, actor: u32) -> String {
    match tables.actors.get(actor as usize).and_then(|a| tables.machines.get(a.machine as usize)) {
        Some(machine) if machine.cpus == 1 => format!("the CPU of {}", machine.name),
        Some(machine) => format!("CPUs of {}", machine.name),
        None => "CPUs".to_owned(),
    }
}

/// The far end of a connection, as an address.
pub(crate) fn far_end(tables: &Tables, connection: u32) -> Option<&str> {
    tables.ends(connection).map(|(_, server)| server)
}

/// The file of a place, if any.
pub(crate) fn file<'a>(tables: &'a Tables, place: &Place) -> Option<&'a Object> {
    let Place::Thread { object, .. } = *place else { return None };
    tables.objects.get(object as usize).filter(|object| object.kind == ObjectKind::File)
}

/// The source or sink of a place's bytes: a device by name, or the server of the file.
pub(crate) fn device(tables: &Tables, place: &Place) -> Option<String> {
    let Place::Thread { object, .. } = *place else { return None };
    let object = tables.objects.get(object as usize)?;
    if object.kind == ObjectKind::Device {
        return Some(object.name.clone());
    }
    match (object.served_by(), object.attribute("device")) {
        (Some(kind), Some(device)) => Some(format!("{kind} ({device})")),
        (Some(kind), None) => Some(kind.to_owned()),
        (None, device) => device.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cut_to_what_a_reader_calls_them() {
        assert_eq!(base("/data/run 7/big.tar"), "big.tar");
        assert_eq!(base("/data/run/"), "run/");
        assert_eq!(base("big"), "big");
        assert_eq!(base("/"), "/");
        assert_eq!(base(""), "");
        assert_eq!(stem("io12"), "io");
        assert_eq!(stem("17"), "17");
        assert_eq!(stem("10.0.0.2:2049"), "10.0.0.2:2049");
        assert_eq!(file_name("/s/datafiles/01/0000010000000001.3"), "a datafile");
        assert_eq!(file_name("/data/0000010000000001.tar"), "0000010000000001.tar");
    }
}

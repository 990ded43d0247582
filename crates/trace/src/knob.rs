//! Knobs: parameters of the recorded program, recorded by the component that knows them: name, value, and how to set
//! another.
//!
//! They are attributes of a recording: `knob.NAME` is the value, `knob.NAME.flags` the flags that set it, and
//! `knob.NAME.how` the whole command with these flags; in the latter two, [`PLACE`] is the placeholder of the value.

use crate::model::Meta;

/// The placeholder of the value.
pub const PLACE: &str = "{}";

/// A parameter of the recorded program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Its name.
    pub name: String,
    /// Its value in the recorded run.
    pub value: String,
    /// Flags that set it, separated by spaces.
    flags: String,
    /// The recorded command with these flags.
    how: String,
}

/// Our flags that control recording rather than the work, and whether a value follows.
const NOT_WHAT_IS_DONE: &[(&str, bool)] = &[("--record", true), ("--explain", false)];

impl Knob {
    /// Creates a knob set by flags of the recorded command; the flags follow the command's verb, one of `verbs`.
    pub fn of_flags(name: &str, value: impl ToString, flags: &[(&str, &str)], command: &[String], verbs: &[&str]) -> Knob {
        let mut words = command.to_vec();
        flags.iter().rev().for_each(|(flag, value)| set_flag(verbs, &mut words, flag, value));
        NOT_WHAT_IS_DONE.iter().for_each(|&(flag, valued)| drop_flag(&mut words, flag, valued));
        if let Some(program) = words.first_mut() {
            *program = program.rsplit('/').next().unwrap_or_default().to_owned();
        }
        let flags: Vec<String> = flags.iter().map(|(flag, value)| format!("{flag} {value}")).collect();
        Knob { name: name.to_owned(), value: value.to_string(), flags: flags.join(" "), how: words.join(" ") }
    }

    /// Returns the knob as attributes of a recording.
    pub fn attributes(&self) -> [(String, String); 3] {
        let name = format!("knob.{}", self.name);
        [(format!("{name}.flags"), self.flags.clone()), (format!("{name}.how"), self.how.clone()), (name, self.value.clone())]
    }

    /// Reads the knob of this name, if the recording has it.
    pub fn of(meta: &Meta, name: &str) -> Option<Knob> {
        let attribute = |what: &str| {
            let wanted = format!("knob.{name}{what}");
            meta.attributes.iter().find(|(n, _)| *n == wanted).map(|(_, v)| v.clone())
        };
        Some(Knob { name: name.to_owned(), value: attribute("")?, flags: attribute(".flags")?, how: attribute(".how")? })
    }

    /// Returns the command that sets another value.
    pub fn how(&self, value: &str) -> String {
        self.how.replacen(PLACE, value, 1)
    }

    /// Returns the recorded command, word by word, with this value set and without the flags that control recording.
    pub fn command(&self, value: &str, recorded: &[String]) -> Vec<String> {
        let flags = self.flags(value);
        // The verb is the word before the first flag.
        let verb = flags.first().and_then(|(flag, _)| self.how.split(&format!(" {flag} ")).next()?.rsplit(' ').next());
        let mut words = recorded.to_vec();
        flags.iter().rev().for_each(|(flag, value)| set_flag(verb.as_slice(), &mut words, flag, value));
        NOT_WHAT_IS_DONE.iter().for_each(|&(flag, valued)| drop_flag(&mut words, flag, valued));
        words
    }

    /// Returns only the flags, with their values.
    pub fn flags(&self, value: &str) -> Vec<(String, String)> {
        let set = self.flags.replacen(PLACE, value, 1);
        let words: Vec<&str> = set.split(' ').collect();
        words.chunks(2).filter_map(|pair| Some((pair.first()?.to_string(), pair.get(1)?.to_string()))).collect()
    }
}

fn set_flag(verbs: &[&str], words: &mut Vec<String>, flag: &str, value: &str) {
    drop_flag(words, flag, true);
    let verb = words.iter().position(|w| verbs.contains(&w.as_str())).map_or(words.len().min(1), |at| at + 1);
    words.splice(verb..verb, [flag.to_owned(), value.to_owned()]);
}

fn drop_flag(words: &mut Vec<String>, flag: &str, valued: bool) {
    let joined = format!("{flag}=");
    words.retain(|w| !w.starts_with(&joined));
    while let Some(at) = words.iter().position(|w| w == flag) {
        let until = (at + 1 + usize::from(valued)).min(words.len());
        words.drain(at..until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    fn command(words: &[&str]) -> Vec<String> {
        words.iter().map(|&w| w.to_owned()).collect()
    }

    #[test]
    fn a_knob_is_the_recorded_command_with_its_flags() {
        let command = command(&["/opt/thalweg", "ls", "-l", "--mode=sync", "--record", "a.thw", "thal://h:1/d"]);
        let knob = Knob::of_flags("window", 1, &[("--mode", "glimpse-ahead"), ("--window", PLACE)], &command, &["ls", "cp"]);
        assert_eq!(knob.how("32"), "thalweg ls --mode glimpse-ahead --window 32 -l thal://h:1/d");
        assert_eq!(knob.flags("32"), [("--mode", "glimpse-ahead"), ("--window", "32")].map(|(f, v)| (f.to_owned(), v.to_owned())));
    }

    #[test]
    fn the_command_of_a_knob_is_word_by_word() {
        let recorded = command(&["/opt/my thalweg", "cp", "--requests=1", "--record", "a b.thw", "a big file", "thal://h:1/cp"]);
        let knob = Knob::of_flags("requests", 1, &[("--requests", PLACE)], &recorded, &["cp"]);
        assert_eq!(knob.command("4", &recorded), command(&["/opt/my thalweg", "cp", "--requests", "4", "a big file", "thal://h:1/cp"]));
    }

    #[test]
    fn a_recording_has_its_knobs_as_attributes() {
        let knob = Knob::of_flags("requests", 1, &[("--requests", PLACE)], &command(&["thalweg", "cp", "a", "b"]), &["cp"]);
        let meta = Meta {
            format: crate::FORMAT_VERSION,
            command: Vec::new(),
            recorder: "any".into(),
            start: Time::from_monotonic_ns(0),
            end: None,
            exit_code: None,
            dropped_events: 0,
            attributes: knob.attributes().to_vec(),
        };
        assert_eq!(Knob::of(&meta, "requests"), Some(knob));
        assert_eq!(Knob::of(&meta, "depth"), None);
    }
}

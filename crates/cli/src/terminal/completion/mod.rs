//! Completion of command lines in a shell, values included: `thalweg completions SHELL` prints a function for the shell, which asks
//! this command for candidates while a line is being typed.
//!
//! The words, flags and values on offer come from the definition of the command line, by clap_complete. Names in stores and of lots come
//! from the store; of recordings from the directory. Bash and zsh have functions of our own: clap_complete's take the colon of
//! `thal:/path` for the end of a word.

mod store;
mod words;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{CompleteEnv, Elvish, EnvCompleter, Fish, Shells};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use words::{Typed, starting};

/// Variable that a shell's function sets to the name of the shell.
const VARIABLE: &str = "COMPLETE";
/// Shells that are served by clap_complete alone.
const OTHERS: Shells<'static> = Shells(&[&Fish, &Elvish]);

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    /// Bash 4 or newer
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
    /// Elvish
    Elvish,
}

/// Returns the code that makes a shell complete the command's lines.
pub(crate) fn function(shell: Shell) -> std::io::Result<String> {
    let others: &dyn EnvCompleter = match shell {
        Shell::Bash => return Ok(include_str!("thalweg.bash").to_owned()),
        Shell::Zsh => return Ok(include_str!("thalweg.zsh").to_owned()),
        Shell::Fish => &Fish,
        Shell::Elvish => &Elvish,
    };
    let mut code = Vec::new();
    others.write_registration(VARIABLE, "thalweg", "thalweg", "thalweg", &mut code)?;
    Ok(String::from_utf8_lossy(&code).into_owned())
}

/// Prints candidates if a shell asks for them; returns whether one does.
pub(crate) fn offered(command: impl Fn() -> clap::Command) -> bool {
    let Some(shell) = std::env::var_os(VARIABLE) else { return false };
    let typed = match shell.to_str() {
        Some("bash") => words::of_bash(),
        Some("zsh") => words::of_zsh(std::env::args_os()),
        _ => {
            CompleteEnv::with_factory(|| with_values(command())).shells(OTHERS).complete();
            return false;
        }
    };
    let Some(typed) = typed else { return false };
    // A candidate that cannot be had is none; the line is the person's to finish.
    let _ = offer(&mut with_values(command()), typed);
    true
}

fn offer(command: &mut clap::Command, typed: Typed) -> std::io::Result<()> {
    command.build();
    let directory = std::env::current_dir().ok();
    let candidates = clap_complete::engine::complete(command, typed.words.clone(), typed.index, directory.as_deref())?;
    let is_flag = |candidate: &CompletionCandidate| candidate.get_value().as_bytes().starts_with(b"-");
    // Flags are offered where a dash is typed, or nothing else can stand.
    let flags = typed.words[typed.index].as_bytes().starts_with(b"-") || candidates.iter().all(is_flag);
    let mut lines = Vec::new();
    for candidate in candidates.iter().filter(|candidate| flags || !is_flag(candidate)) {
        // A name with a line break cannot be handed over.
        if !candidate.get_value().as_bytes().iter().any(u8::is_ascii_control) {
            typed.write(candidate, &mut lines);
        }
    }
    std::io::stdout().write_all(&lines)
}

/// What an argument's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// Recordings, and the directories that may have some.
    Recordings,
    /// Files and directories of this machine.
    Paths,
    /// A program, and files and directories of this machine.
    Command,
    /// Stores.
    Stores,
    /// Names in a store.
    InStore,
    /// Names in a store, and files and directories of this machine.
    Anywhere,
    /// Lots of a store.
    Lots,
    /// Names of recipes.
    Recipes,
}

impl Values {
    /// Returns what the values of an argument of a verb are, by the name of the value; `None` if the definition says all there is.
    fn of(verb: &str, argument: &clap::Arg) -> Option<Values> {
        let names = argument.get_value_names().unwrap_or_default();
        let name = names.first().map(|name| name.as_str()).unwrap_or_default();
        Some(match (verb, name) {
            ("lot", "NAME") if argument.is_positional() => Values::Lots,
            (_, "NAME") if argument.get_long() == Some("lot") => Values::Lots,
            (_, "STORE" | "STORE_PATH") => Values::Stores,
            ("mount" | "cp", _) if argument.is_positional() => Values::Anywhere,
            ("ls" | "find" | "du" | "stat" | "mkdir" | "rm" | "mv" | "cat" | "layout", _) if argument.is_positional() => Values::InStore,
            ("recipes", "PROGRAM") => Values::Recipes,
            (_, "RECORDING" | "BEFORE" | "AFTER") => Values::Recordings,
            (_, "RECORDING|CAPTURE" | "CAPTURE|RECORDING" | "NAME.thw|CAPTURE") => Values::Paths,
            (_, "COMMAND" | "PROGRAM") => Values::Command,
            _ => return None,
        })
    }
}

impl ValueCompleter for Values {
    fn complete_at(&self, index: usize, current: &OsStr) -> Vec<CompletionCandidate> {
        if *self == Values::Command && index == 0 && !current.as_bytes().contains(&b'/') {
            programs(current)
        } else {
            self.complete(current)
        }
    }

    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let paths = |wanted: PathCompleter| wanted.complete(current);
        let in_store = current.as_bytes().starts_with(b"thal:");
        match self {
            Values::Recordings => recordings(current),
            Values::Paths | Values::Command => paths(PathCompleter::any()),
            Values::Stores if in_store => store::stores(current),
            Values::Stores => both(store::stores(current), paths(PathCompleter::any().filter(is_description))),
            Values::InStore => store::names(current),
            Values::Anywhere if in_store => store::names(current),
            Values::Anywhere => both(store::stores(current), paths(PathCompleter::any())),
            Values::Lots => store::lots(current),
            Values::Recipes => starting(thalweg_recipes::Recipe::embedded().iter().map(|recipe| recipe.name.clone().into()), current),
        }
    }
}

fn both(mut some: Vec<CompletionCandidate>, others: Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    some.extend(others);
    some
}

/// Whether a file describes a store.
fn is_description(path: &Path) -> bool {
    path.is_dir() || path.extension().is_some_and(|ending| ending == "toml")
}

/// Returns the programs of `PATH` that begin so.
fn programs(current: &OsStr) -> Vec<CompletionCandidate> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let entries = std::env::split_paths(&path).filter_map(|directory| std::fs::read_dir(directory).ok()).flatten().flatten();
    let found: BTreeSet<OsString> =
        entries.map(|entry| entry.file_name()).filter(|name| name.as_bytes().starts_with(current.as_bytes())).collect();
    starting(found.into_iter(), current)
}

/// Returns recordings, and directories to look for them in: a recording is complete without a slash.
fn recordings(current: &OsStr) -> Vec<CompletionCandidate> {
    let found = PathCompleter::dir().complete(current);
    let whole = |candidate: CompletionCandidate| {
        let path = Path::new(candidate.get_value());
        match path.extension() {
            Some(ending) if ending == "thw" => CompletionCandidate::new(
                path.as_os_str()
                    .as_bytes()
                    .strip_suffix(b"/")
                    .map_or_else(|| path.as_os_str().to_owned(), |path| OsStr::from_bytes(path).to_owned()),
            ),
            _ => candidate,
        }
    };
    found.into_iter().map(whole).collect()
}

/// Adds to each argument of a command what its values are.
fn with_values(mut command: clap::Command) -> clap::Command {
    // Its verbs get their arguments only now.
    command.build();
    command.mut_subcommands(|verb| {
        let name = verb.get_name().to_owned();
        of_verb(verb, &name)
    })
}

fn of_verb(command: clap::Command, verb: &str) -> clap::Command {
    let command = command.mut_args(|argument| match Values::of(verb, &argument) {
        Some(values) => argument.add(ArgValueCompleter::new(values)),
        None => argument,
    });
    command.mut_subcommands(|part| of_verb(part, verb))
}

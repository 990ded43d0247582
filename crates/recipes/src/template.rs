//! Templates: words with places that a command's own words, and facts of its run, fill.

use crate::facts::{FACTS, Fact};
use crate::recipe::Recipe;
use crate::shell_loop::ShellLoop;
use crate::spelling::Spelling;
use std::collections::BTreeSet;
use thalweg_base::shell;

/// How many times each processor gets some of the operands: so many that they come out even, so few that starting a program is nothing.
const TURNS: usize = 4;

/// What a place asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place<'a> {
    /// The program, as it was started.
    Program,
    /// The operand of this number, from 1 on.
    Operand(usize),
    /// The same without a slash at its end: a directory itself, where programs differ in what `DIR/` is.
    Directory(usize),
    /// All operands.
    Operands,
    /// How many operands a command gets at a time, so that each processor has some turns.
    Batch,
    /// What stands behind a word's beginning: `of=`.
    Behind(&'a str),
    /// The word behind a flag: `-i`.
    Next(&'a str),
    /// All words that no other place has.
    Others,
    /// Of a shell's loop.
    Loop(OfLoop),
    /// The word that begins so, or nothing.
    Word(&'a str),
    /// The command as it was, from its program on.
    All,
    /// A fact of the run.
    Fact(&'a str),
}

/// A part of a shell's loop, as text for a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfLoop {
    For,
    List,
    Each,
    Shared,
    Body,
    Discard,
}

/// A piece of a template.
enum Piece<'a> {
    Text(&'a str),
    Place(Place<'a>),
}

fn place(name: &str) -> Result<Place<'_>, String> {
    if name == "*" {
        return Ok(Place::All);
    }
    match name {
        "operands" => return Ok(Place::Operands),
        "batch" => return Ok(Place::Batch),
        "others" => return Ok(Place::Others),
        "for" => return Ok(Place::Loop(OfLoop::For)),
        "list" => return Ok(Place::Loop(OfLoop::List)),
        "each" => return Ok(Place::Loop(OfLoop::Each)),
        "shared" => return Ok(Place::Loop(OfLoop::Shared)),
        "body" => return Ok(Place::Loop(OfLoop::Body)),
        "discard" => return Ok(Place::Loop(OfLoop::Discard)),
        _ => {}
    }
    if name.len() > 1 && name.starts_with('-') {
        return Ok(Place::Next(name));
    }
    if let Some(word) = name.strip_prefix('?').filter(|word| !word.is_empty()) {
        return Ok(Place::Word(word));
    }
    if let Some(number) = name.strip_suffix('/').and_then(|number| number.parse::<usize>().ok()).filter(|number| *number > 0) {
        return Ok(Place::Directory(number));
    }
    if let Ok(number) = name.parse::<usize>() {
        return Ok(if number > 0 { Place::Operand(number) } else { Place::Program });
    }
    if name.ends_with('=') {
        return Ok(Place::Behind(name));
    }
    if FACTS.contains(&name) {
        return Ok(Place::Fact(name));
    }
    Err(format!(
        "{{{name}}} is no place: expected {{1}}, {{1/}}, {{operands}}, {{batch}}, {{of=}}, {{-i}}, {{?conv=}}, {{others}}, {{*}}, {{for}}, {{list}}, {{each}}, {{shared}}, {{body}}, {{discard}} or one of {}",
        FACTS.join(", ")
    ))
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(open) = rest.find('{') {
        let close = rest[open..].find('}').ok_or_else(|| format!("`{text}` has a {{ without its }}"))? + open;
        pieces.push(Piece::Text(&rest[..open]));
        pieces.push(Piece::Place(place(&rest[open + 1..close])?));
        rest = &rest[close + 1..];
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

/// What is wrong with a template, if anything is.
pub(crate) fn problem(text: &str) -> Option<String> {
    pieces(text).err()
}

/// What templates are filled with.
pub(crate) struct Filling<'a> {
    /// Whose operands they are.
    pub(crate) recipe: &'a Recipe,
    /// The command's words.
    pub(crate) command: &'a [String],
    /// Where its program stands.
    pub(crate) program: usize,
    /// Facts of the run.
    pub(crate) facts: &'a [Fact],
    /// The loop that runs the command, where one does.
    pub(crate) looped: Option<&'a ShellLoop>,
}

impl Filling<'_> {
    /// Text with its places filled; `None` where the command has nothing for one of them.
    pub(crate) fn text(&self, text: &str) -> Option<String> {
        let mut used = BTreeSet::new();
        self.filled(text, false, &mut used)
    }

    /// Text for a shell.
    pub(crate) fn script(&self, text: &str) -> Option<String> {
        let mut used = BTreeSet::new();
        self.filled(text, true, &mut used)
    }

    /// The words of a new command, and which of the command's own are in it.
    pub(crate) fn words(&self, template: &[String]) -> Option<(Vec<String>, BTreeSet<usize>)> {
        let (mut words, mut used, mut others) = (Vec::new(), BTreeSet::new(), Vec::new());
        if template.iter().any(|word| word.contains("{others}")) {
            template.iter().try_for_each(|word| self.filled(word, false, &mut used).map(drop))?;
            others = (self.program + 1..self.command.len()).filter(|at| !used.contains(at)).collect();
        }
        for (at, word) in template.iter().enumerate() {
            let is_script = at > 1 && template[at - 1] == "-c" && matches!(template[at - 2].as_str(), "sh" | "bash");
            if word == "{*}" {
                words.extend_from_slice(&self.command[self.program..]);
                used.extend(self.program..self.command.len());
                continue;
            }
            let filled = self.filled(word, is_script, &mut used)?;
            // A word that is one place, and is filled with nothing, is none.
            if !filled.is_empty() || word.is_empty() {
                words.push(filled);
            }
        }
        used.extend(others);
        Some((words, used))
    }

    fn filled(&self, text: &str, is_script: bool, used: &mut BTreeSet<usize>) -> Option<String> {
        let mut filled = String::new();
        for piece in pieces(text).ok()? {
            match piece {
                Piece::Text(text) => {
                    // Where nothing was filled in, one of the spaces around it is too many.
                    let doubled = (filled.is_empty() || filled.ends_with(' ')) && text.starts_with(' ');
                    filled.push_str(if doubled { &text[1..] } else { text });
                }
                Piece::Place(Place::Operands) => {
                    let operands = self.recipe.operands(self.command);
                    let words: Vec<String> = operands.iter().map(|&at| shell::word(&self.command[at])).collect();
                    used.extend(operands);
                    filled.push_str(&words.join(" "));
                }
                Piece::Place(Place::Others) => {
                    let others: Vec<usize> = (self.program + 1..self.command.len()).filter(|at| !used.contains(at)).collect();
                    let words: Vec<String> = others.iter().map(|&at| shell::word(&self.command[at])).collect();
                    filled.push_str(&words.join(" "));
                }
                Piece::Place(Place::Loop(part)) => {
                    let text = self.of_loop(part)?;
                    filled.push_str(if filled.ends_with(' ') { text.trim_start() } else { &text });
                }
                Piece::Place(place) => {
                    let value = self.value(&place, used)?;
                    filled.push_str(&if is_script && !value.is_empty() { shell::word(&value) } else { value });
                }
            }
        }
        Some(if is_script { filled.trim_end().to_owned() } else { filled })
    }

    fn value(&self, place: &Place<'_>, used: &mut BTreeSet<usize>) -> Option<String> {
        let behind = self.program + 1..self.command.len();
        let mut begins = |start: &str| {
            let at = behind.clone().find(|&at| self.command[at].starts_with(start))?;
            used.insert(at);
            Some(self.command[at].clone())
        };
        match place {
            Place::All => {
                used.extend(self.program..self.command.len());
                Some(self.command[self.program..].join(" "))
            }
            Place::Next(flag) => {
                let found = Spelling::Next(flag).find(self.command).filter(|found| found.at > self.program && found.value != "-")?;
                used.extend(found.at..found.at + found.words);
                Some(found.value)
            }
            Place::Operands | Place::Others | Place::Loop(_) => None,
            Place::Batch => {
                let processors = self.facts.iter().find(|fact| fact.name == "processors")?.value.parse::<usize>().ok()?;
                Some(self.recipe.operands(self.command).len().div_ceil(TURNS * processors.max(1)).to_string())
            }
            Place::Program => self.command.get(self.program).cloned(),
            Place::Behind(start) => begins(start)?.strip_prefix(start).map(str::to_owned),
            Place::Word(start) => Some(begins(start).unwrap_or_default()),
            Place::Directory(number) => {
                let word = self.value(&Place::Operand(*number), used)?;
                Some(word.trim_end_matches('/').to_owned()).filter(|word| !word.is_empty())
            }
            Place::Operand(number) => {
                let at = *self.recipe.operands(self.command).get(number - 1)?;
                used.insert(at);
                Some(self.command[at].clone())
            }
            Place::Fact(name) => self.facts.iter().find(|fact| fact.name == *name).map(|fact| fact.value.clone()),
        }
    }

    fn of_loop(&self, part: OfLoop) -> Option<String> {
        let looped = self.looped?;
        match part {
            OfLoop::For => Some(looped.head.clone()),
            OfLoop::List => Some(looped.list.clone()),
            OfLoop::Each => looped.each(self.recipe),
            OfLoop::Shared => looped.shared(self.recipe),
            OfLoop::Body => looped.for_xargs(),
            OfLoop::Discard => Some(looped.discard.clone()),
        }
    }
}

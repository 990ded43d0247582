//! Templates: words with placeholders for a command's own words and facts of its run.

use crate::facts::{FACTS, Fact};
use crate::recipe::Recipe;
use crate::shell_loop::ShellLoop;
use crate::spelling::Spelling;
use std::collections::BTreeSet;
use thalweg_base::shell;

/// Batches of operands per processor: enough to balance the load, few enough that starting programs costs little.
const TURNS: usize = 4;

/// A placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Placeholder<'a> {
    /// The program, as recorded.
    Program,
    /// The operand of this number, from 1.
    Operand(usize),
    /// The operand without a trailing slash, since programs differ in the meaning of `DIR/`.
    Directory(usize),
    /// All operands.
    Operands,
    /// Number of operands per command, such that each processor gets [`TURNS`] batches.
    Batch,
    /// The rest of a word after this prefix: `of=`.
    Behind(&'a str),
    /// The word after a flag: `-i`.
    Next(&'a str),
    /// All words used by no other placeholder.
    Others,
    /// A part of a shell loop.
    Loop(OfLoop),
    /// The word with this prefix, or nothing.
    Word(&'a str),
    /// The recorded command, from its program on.
    All,
    /// A fact of the run.
    Fact(&'a str),
}

/// A part of a shell loop, as text for a shell.
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
    Placeholder(Placeholder<'a>),
}

fn place(name: &str) -> Result<Placeholder<'_>, String> {
    if name == "*" {
        return Ok(Placeholder::All);
    }
    match name {
        "operands" => return Ok(Placeholder::Operands),
        "batch" => return Ok(Placeholder::Batch),
        "others" => return Ok(Placeholder::Others),
        "for" => return Ok(Placeholder::Loop(OfLoop::For)),
        "list" => return Ok(Placeholder::Loop(OfLoop::List)),
        "each" => return Ok(Placeholder::Loop(OfLoop::Each)),
        "shared" => return Ok(Placeholder::Loop(OfLoop::Shared)),
        "body" => return Ok(Placeholder::Loop(OfLoop::Body)),
        "discard" => return Ok(Placeholder::Loop(OfLoop::Discard)),
        _ => {}
    }
    if name.len() > 1 && name.starts_with('-') {
        return Ok(Placeholder::Next(name));
    }
    if let Some(word) = name.strip_prefix('?').filter(|word| !word.is_empty()) {
        return Ok(Placeholder::Word(word));
    }
    if let Some(number) = name.strip_suffix('/').and_then(|number| number.parse::<usize>().ok()).filter(|number| *number > 0) {
        return Ok(Placeholder::Directory(number));
    }
    if let Ok(number) = name.parse::<usize>() {
        return Ok(if number > 0 { Placeholder::Operand(number) } else { Placeholder::Program });
    }
    if name.ends_with('=') {
        return Ok(Placeholder::Behind(name));
    }
    if FACTS.contains(&name) {
        return Ok(Placeholder::Fact(name));
    }
    Err(format!(
        "{{{name}}} is not a placeholder: expected {{1}}, {{1/}}, {{operands}}, {{batch}}, {{of=}}, {{-i}}, {{?conv=}}, {{others}}, {{*}}, {{for}}, {{list}}, {{each}}, {{shared}}, {{body}}, {{discard}} or one of {}",
        FACTS.join(", ")
    ))
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(open) = rest.find('{') {
        let close = rest[open..].find('}').ok_or_else(|| format!("`{text}` has a {{ without a matching }}"))? + open;
        pieces.push(Piece::Text(&rest[..open]));
        pieces.push(Piece::Placeholder(place(&rest[open + 1..close])?));
        rest = &rest[close + 1..];
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

/// Returns what is wrong with a template, if anything.
pub(crate) fn problem(text: &str) -> Option<String> {
    pieces(text).err()
}

/// The values for a template's placeholders.
pub(crate) struct Filling<'a> {
    /// The recipe of the command.
    pub(crate) recipe: &'a Recipe,
    /// The command's words.
    pub(crate) command: &'a [String],
    /// Index of its program.
    pub(crate) program: usize,
    /// Facts of the run.
    pub(crate) facts: &'a [Fact],
    /// The shell loop that runs the command, if one does.
    pub(crate) looped: Option<&'a ShellLoop>,
}

impl Filling<'_> {
    /// Fills a text; `None` if the command has no value for a placeholder.
    pub(crate) fn text(&self, text: &str) -> Option<String> {
        let mut used = BTreeSet::new();
        self.filled(text, false, &mut used)
    }

    /// Fills a text for a shell, quoting the values.
    pub(crate) fn script(&self, text: &str) -> Option<String> {
        let mut used = BTreeSet::new();
        self.filled(text, true, &mut used)
    }

    /// Returns the words of a new command, and the indexes of the command's own words in it.
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
            // A word that is a single placeholder, and filled with nothing, is dropped.
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
                    // If nothing was inserted, one of the spaces around it is superfluous.
                    let doubled = (filled.is_empty() || filled.ends_with(' ')) && text.starts_with(' ');
                    filled.push_str(if doubled { &text[1..] } else { text });
                }
                Piece::Placeholder(Placeholder::Operands) => {
                    let operands = self.recipe.operands(self.command);
                    let words: Vec<String> = operands.iter().map(|&at| shell::word(&self.command[at])).collect();
                    used.extend(operands);
                    filled.push_str(&words.join(" "));
                }
                Piece::Placeholder(Placeholder::Others) => {
                    let others: Vec<usize> = (self.program + 1..self.command.len()).filter(|at| !used.contains(at)).collect();
                    let words: Vec<String> = others.iter().map(|&at| shell::word(&self.command[at])).collect();
                    filled.push_str(&words.join(" "));
                }
                Piece::Placeholder(Placeholder::Loop(part)) => {
                    let text = self.of_loop(part)?;
                    filled.push_str(if filled.ends_with(' ') { text.trim_start() } else { &text });
                }
                Piece::Placeholder(place) => {
                    let value = self.value(&place, used)?;
                    filled.push_str(&if is_script && !value.is_empty() { shell::word(&value) } else { value });
                }
            }
        }
        Some(if is_script { filled.trim_end().to_owned() } else { filled })
    }

    fn value(&self, place: &Placeholder<'_>, used: &mut BTreeSet<usize>) -> Option<String> {
        let behind = self.program + 1..self.command.len();
        let mut begins = |start: &str| {
            let at = behind.clone().find(|&at| self.command[at].starts_with(start))?;
            used.insert(at);
            Some(self.command[at].clone())
        };
        match place {
            Placeholder::All => {
                used.extend(self.program..self.command.len());
                Some(self.command[self.program..].join(" "))
            }
            Placeholder::Next(flag) => {
                let found = Spelling::Next(flag).find(self.command).filter(|found| found.at > self.program && found.value != "-")?;
                used.extend(found.at..found.at + found.words);
                Some(found.value)
            }
            Placeholder::Operands | Placeholder::Others | Placeholder::Loop(_) => None,
            Placeholder::Batch => {
                let processors = self.facts.iter().find(|fact| fact.name == "processors")?.value.parse::<usize>().ok()?;
                Some(self.recipe.operands(self.command).len().div_ceil(TURNS * processors.max(1)).to_string())
            }
            Placeholder::Program => self.command.get(self.program).cloned(),
            Placeholder::Behind(start) => begins(start)?.strip_prefix(start).map(str::to_owned),
            Placeholder::Word(start) => Some(begins(start).unwrap_or_default()),
            Placeholder::Directory(number) => {
                let word = self.value(&Placeholder::Operand(*number), used)?;
                Some(word.trim_end_matches('/').to_owned()).filter(|word| !word.is_empty())
            }
            Placeholder::Operand(number) => {
                let at = *self.recipe.operands(self.command).get(number - 1)?;
                used.insert(at);
                Some(self.command[at].clone())
            }
            Placeholder::Fact(name) => self.facts.iter().find(|fact| fact.name == *name).map(|fact| fact.value.clone()),
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

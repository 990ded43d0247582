//! The two answers for a stack: what ran, and for what purpose.
//!
//! Functions are examined from the innermost outwards. The first informative one gives the class; uninformative ones are skipped (an
//! interrupt that arrived when interrupts were enabled again appears in the function that enabled them). A function without a rule is
//! skipped too, and the class is marked as a guess: its caller's. Anything called by the sampling program is the recorder's. Rejected: the
//! class of the nearest functions in the kernel's image (93 % right), since recordings have no addresses. The first anchor outwards gives
//! the purpose; without one it is the class.
//!
//! Each function and each stack is examined once, however many samples it has.

use super::rules::{ClassId, Rules, Says};
use std::collections::HashMap;
use thalweg_trace::{Frame, Stack};

/// The number of a function: its index in [`Stacks::functions`].
pub(super) type FunctionId = u32;

/// A function, at any of its addresses.
#[derive(Clone, Debug)]
pub(super) struct Function {
    /// Its name, or its module in brackets.
    pub(super) name: String,
    pub(super) module: String,
    pub(super) build_id: Option<String>,
    pub(super) is_user: bool,
    pub(super) has_name: bool,
    leaf: Option<Says>,
    anchor: Option<ClassId>,
}

impl Function {
    /// Its own class, if a rule gives one.
    pub(super) fn class(&self) -> Option<ClassId> {
        match self.leaf? {
            Says::In(class) => Some(class),
            Says::Nothing => None,
        }
    }
}

/// The answers for a stack, for any program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) class: ClassId,
    pub(super) purpose: ClassId,
    /// Whether the class is a caller's: no rule has the function.
    pub(super) is_guess: bool,
    /// Whether the processor ran the program's code, not the kernel's.
    pub(super) is_user: bool,
    /// The innermost informative function.
    pub(super) function: Option<FunctionId>,
}

/// All stacks of a recording, classified.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    pub(super) functions: Vec<Function>,
    /// By stack: its functions from the innermost outwards.
    pub(super) frames: Vec<Vec<FunctionId>>,
    pub(super) verdicts: Vec<Verdict>,
    /// Index of a stack by its number in the recording.
    places: HashMap<u32, u32>,
}

impl Stacks {
    pub(super) fn new(stacks: &[Stack], rules: &Rules) -> Stacks {
        let mut all = Stacks::default();
        let mut known: HashMap<(&str, &str), FunctionId> = HashMap::new();
        for stack in stacks {
            let number = |text| *known.entry(without_offsets(text)).or_insert_with(|| all.function(&Frame::parse(text), rules));
            let frames: Vec<FunctionId> = stack.frames.iter().map(String::as_str).map(number).collect();
            all.places.insert(stack.stack, all.frames.len() as u32);
            all.verdicts.push(verdict(&frames, &all.functions, rules));
            all.frames.push(frames);
        }
        all
    }

    /// The index of a stack.
    pub(super) fn place(&self, stack: u32) -> Option<usize> {
        self.places.get(&stack).map(|place| *place as usize)
    }

    fn function(&mut self, frame: &Frame, rules: &Rules) -> FunctionId {
        self.functions.push(Function {
            name: frame.symbol.clone().unwrap_or_else(|| format!("[{}]", base(&frame.module))),
            module: frame.module.clone(),
            build_id: frame.build_id.clone(),
            is_user: frame.is_user(),
            has_name: frame.symbol.is_some(),
            leaf: rules.leaf(frame),
            anchor: rules.anchor(frame),
        });
        self.functions.len() as FunctionId - 1
    }
}

/// The common part of all texts of one function: its name, and its module with the build identifier. Most texts differ by their offsets
/// alone, and are not read any further.
fn without_offsets(text: &str) -> (&str, &str) {
    let without = |text: &'_ str| text.rfind("+0x").unwrap_or(text.len());
    let (function, module) = match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        Some((function, module)) => (function.trim_end(), module),
        None => (text, ""),
    };
    (&function[..without(function)], &module[..without(module)])
}

/// A module without its directory.
pub(super) fn base(module: &str) -> &str {
    module.rsplit_once('/').map_or(module, |(_, base)| base)
}

fn verdict(frames: &[FunctionId], functions: &[Function], rules: &Rules) -> Verdict {
    let known = rules.known;
    let said = class(frames, functions, rules);
    let anchor = frames.iter().find_map(|&id| functions[id as usize].anchor);
    let function =
        frames.iter().copied().find(|&id| functions[id as usize].leaf != Some(Says::Nothing)).or_else(|| frames.first().copied());
    let is_user = frames.first().is_some_and(|&id| functions[id as usize].is_user);
    let (class, is_guess) = match anchor {
        // The sampling program calls others' functions, which run for it alone.
        Some(anchor) if anchor == known.recorder && !is_user => (known.recorder, false),
        _ => said.unwrap_or((known.rest, false)),
    };
    Verdict { class, purpose: if is_user { class } else { anchor.unwrap_or(class) }, is_guess, is_user, function }
}

/// The class, and whether it is a guess.
fn class(frames: &[FunctionId], functions: &[Function], rules: &Rules) -> Option<(ClassId, bool)> {
    let known = rules.known;
    let mut without_rule = false;
    for (depth, &id) in frames.iter().enumerate() {
        let function = &functions[id as usize];
        if function.is_user && depth > 0 {
            // The kernel's part of the stack has no informative function: its entry, or unknown ones.
            return Some(if without_rule { (known.rest, false) } else { (known.syscall, false) });
        }
        match function.leaf {
            // Entering the kernel does not show what it did then.
            Some(Says::In(class)) if without_rule && class == known.syscall => return Some((known.rest, false)),
            Some(Says::In(class)) => return Some((class, without_rule)),
            Some(Says::Nothing) => {}
            None if function.is_user => return Some((known.program, false)),
            None => without_rule = true,
        }
    }
    None
}

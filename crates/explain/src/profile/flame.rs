//! The stacks of a profile, for flame graphs.

use super::classify::{Function, base};
use super::document::{HostProfile, Profile};
use super::rules::{Rules, name};

/// A profile, and its stacks.
#[derive(Clone, Debug)]
pub struct Profiled {
    /// The document.
    pub document: Profile,
    /// The stacks of each machine, in the order of [`Profile::hosts`].
    pub stacks: Vec<HostStacks>,
}

/// A machine's profile, and its stacks.
pub(super) struct HostProfiled {
    pub document: HostProfile,
    pub stacks: HostStacks,
}

/// The stacks of a machine: each once, with the time of its samples.
#[derive(Clone, Debug, Default)]
pub struct HostStacks {
    /// Names that frames refer to.
    pub functions: Vec<FlameFunction>,
    /// The stacks.
    pub stacks: Vec<FlameStack>,
}

/// A function of a flame graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameFunction {
    /// Its name.
    pub name: String,
    /// The module it is in.
    pub module: String,
    /// Name of its class in the rules, if they have one.
    pub class: Option<String>,
    /// Whether the function belongs to a program or a library (else to the kernel).
    pub is_user: bool,
}

impl FlameFunction {
    /// Returns a function with its class, which is the program's for functions of programs without a rule.
    pub(super) fn of(function: &Function, rules: &Rules) -> FlameFunction {
        let class = match function.class() {
            Some(class) => Some(rules.classes[class as usize].name.clone()),
            None => function.is_user.then(|| name::PROGRAM.to_owned()),
        };
        FlameFunction { name: function.name.clone(), module: base(&function.module).to_owned(), class, is_user: function.is_user }
    }
}

/// A stack of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct FlameStack {
    /// The program.
    pub program: String,
    /// Functions, from the outermost inwards: indices in [`HostStacks::functions`].
    pub frames: Vec<u32>,
    /// Name of its class in the rules.
    pub class: String,
    /// Its part of the processors' time.
    pub share: f64,
    /// Its samples.
    pub samples: u64,
}

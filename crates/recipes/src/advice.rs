//! Which advice is for a command: by the what-if or the cause, the words it has, and what is known of its run.

use crate::command::{at_program, has, program, with_dash};
use crate::edit;
use crate::facts::Fact;
use crate::recipe::{Advice, Recipe};
use crate::sizes::number_of;
use crate::template::Filling;

/// Whom an advice is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The recorded command.
    pub command: &'a [String],
    /// What is known of its run.
    pub facts: &'a [Fact],
}

/// An advice for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advised {
    /// Whose recipe has it.
    pub recipe: String,
    /// The change, in words.
    pub says: String,
    /// The command with the change made; empty where a command does not make it.
    pub command: Vec<String>,
    /// What it gives up, if anything.
    pub gives_up: Option<String>,
    /// The page that documents it.
    pub source: String,
}

impl Asked<'_> {
    /// What makes a what-if true: the first advice that is for this command, of its own recipe or else of a system's.
    pub fn for_change(&self, id: &str) -> Option<Advised> {
        let own = Recipe::embedded().iter().filter(|recipe| recipe.is_for(self.command));
        let systems = Recipe::embedded().iter().filter(|recipe| recipe.is_of_system());
        own.chain(systems).find_map(|recipe| {
            let is_for = |advice: &&Advice| advice.changes.iter().any(|change| change == id);
            recipe.advice.iter().filter(is_for).find_map(|advice| self.advised(recipe, advice))
        })
    }

    /// What helps against a cause that a program was charged with, where no what-if predicts how much: changes of the command, and of a program
    /// that it started the change in words.
    pub fn for_cause(&self, cause: &str, who: &str) -> Vec<Advised> {
        let is_for = |advice: &&Advice| advice.causes.iter().any(|known| known == cause);
        // Who is charged at the other end, or between the two, is no program of the command's.
        let is_own = who == program(self.command) || !cause.starts_with("client.");
        let mut found = Vec::new();
        for recipe in Recipe::embedded().iter().filter(|recipe| recipe.is_for(self.command)) {
            let by = |advice: &&Advice| if advice.started.is_empty() { is_own } else { advice.started.iter().any(|name| name == who) };
            found.extend(recipe.advice.iter().filter(is_for).filter(by).filter_map(|advice| self.advised(recipe, advice)));
        }
        if !is_own && found.is_empty() {
            let name = [who.to_owned()];
            let other = Asked { command: &name, facts: self.facts };
            for recipe in Recipe::embedded().iter().filter(|recipe| recipe.is_for(other.command)) {
                let own = recipe.advice.iter().filter(is_for).filter(|advice| advice.started.is_empty());
                found.extend(own.filter_map(|advice| Some(Advised { command: Vec::new(), ..other.advised(recipe, advice)? })));
            }
        }
        found
    }

    fn advised(&self, recipe: &Recipe, advice: &Advice) -> Option<Advised> {
        let words = if recipe.program.first_without_dash { with_dash(self.command)? } else { self.command.to_vec() };
        let asked = Asked { command: &words, facts: self.facts };
        let advised = asked.advised_as_it_stands(recipe, advice)?;
        (advised.command != self.command).then_some(advised)
    }

    fn advised_as_it_stands(&self, recipe: &Recipe, advice: &Advice) -> Option<Advised> {
        let knows = |name: &String| self.facts.iter().any(|fact| fact.name == *name);
        let is_for = (advice.has.is_empty() || advice.has.iter().any(|word| has(self.command, word)))
            && !advice.lacks.iter().any(|word| has(self.command, word))
            && advice.operands.is_none_or(|least| recipe.operands(self.command).len() >= least)
            && advice.when.iter().all(knows)
            && !advice.unless.iter().any(knows)
            && advice.below.as_ref().is_none_or(|below| {
                let (now, most) = (recipe.value_in(&below.parameter, self.command), number_of(&below.value, 1.0));
                now.zip(most).is_some_and(|(now, most)| now < most)
            });
        if !is_for {
            return None;
        }
        let program = at_program(self.command);
        let filling = Filling { recipe, command: self.command, program, facts: self.facts };
        let command = if edit::makes_command(advice) { edit::edited(&filling, advice)? } else { Vec::new() };
        Some(Advised {
            recipe: recipe.name.clone(),
            says: filling.text(&advice.says)?,
            command,
            gives_up: (!advice.gives_up.is_empty()).then(|| advice.gives_up.clone()),
            source: advice.source.clone(),
        })
    }
}

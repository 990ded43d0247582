//! Which advice is for a command: by the what-if or the cause, the words it has, and what is known of its run.

use crate::command::{at_program, has, program, with_dash};
use crate::edit;
use crate::facts::Fact;
use crate::recipe::{Advice, Recipe};
use crate::sizes::number_of;
use crate::template::Filling;

/// Any program that the command started.
const ANY: &str = "*";
const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "zsh"];
/// What a shell does not take as it stands.
const SIGNS: &[char] = &['\'', '"', '\\', '$', '`', ';', '&', '<', '>', '(', ')', '\n', '*', '?', '#'];

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
            let by = |advice: &&Advice| {
                if advice.started.is_empty() { is_own } else { advice.started.iter().any(|name| name == who || name == ANY) }
            };
            found.extend(recipe.advice.iter().filter(is_for).filter(by).filter_map(|advice| self.advised(recipe, advice)));
        }
        if !is_own && found.is_empty() {
            found = self.in_pipeline(cause, who);
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

    /// What helps, made in one stage of a shell's pipeline. A stage with a shell's own signs in it is left alone.
    fn in_pipeline(&self, cause: &str, who: &str) -> Vec<Advised> {
        let [shell, flag, text] = self.command else { return Vec::new() };
        if !SHELLS.contains(&program(std::slice::from_ref(shell))) || flag != "-c" || text.contains("||") {
            return Vec::new();
        }
        let is_whole = |stage: &&str| ['\'', '"'].iter().all(|&quote| stage.matches(quote).count() % 2 == 0);
        let stages: Vec<&str> = text.split('|').collect();
        if stages.len() < 2 || !stages.iter().all(is_whole) {
            return Vec::new();
        }
        let changed = |(at, stage): (usize, &&str)| {
            let words: Vec<String> = stage.split_whitespace().map(str::to_owned).collect();
            if stage.contains(SIGNS) || words.is_empty() || program(&words) == who {
                return Vec::new();
            }
            let with = |advised: Advised| {
                let changed = format!(" {} ", advised.command.join(" "));
                let text = stages.iter().enumerate().map(|(other, stage)| if other == at { changed.as_str() } else { stage });
                let text = text.collect::<Vec<&str>>().join("|");
                Advised { command: vec![shell.clone(), flag.clone(), text.trim().to_owned()], ..advised }
            };
            let made = Asked { command: &words, facts: self.facts }.for_cause(cause, who);
            made.into_iter().filter(|advised| !advised.command.is_empty()).map(with).collect()
        };
        stages.iter().enumerate().flat_map(changed).collect()
    }

    fn advised(&self, recipe: &Recipe, advice: &Advice) -> Option<Advised> {
        let words = if recipe.program.first_without_dash { with_dash(self.command)? } else { self.command.to_vec() };
        let asked = Asked { command: &words, facts: self.facts };
        let advised = asked.advised_as_it_stands(recipe, advice)?;
        (advised.command != self.command).then_some(advised)
    }

    fn operand_has(&self, recipe: &Recipe, texts: &[String]) -> bool {
        recipe.operands(self.command).into_iter().any(|at| texts.iter().any(|text| self.command[at].contains(text)))
    }

    fn advised_as_it_stands(&self, recipe: &Recipe, advice: &Advice) -> Option<Advised> {
        let knows = |name: &String| self.facts.iter().any(|fact| fact.name == *name);
        let is_for = (advice.has.is_empty() || advice.has.iter().any(|word| has(self.command, word)))
            && !advice.lacks.iter().any(|word| has(self.command, word))
            && advice.operands.is_none_or(|least| recipe.operands(self.command).len() >= least)
            && (advice.operand_has.is_empty() || self.operand_has(recipe, &advice.operand_has))
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

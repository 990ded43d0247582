//! Selects the advice for a command, by what-if or cause, by the command's words, and by facts of its run.

use crate::command::{SHELLS, at_program, has, program, with_dash};
use crate::edit;
use crate::facts::Fact;
use crate::recipe::{Advice, Recipe};
use crate::shell_loop::ShellLoop;
use crate::sizes::number_of;
use crate::template::Filling;
use thalweg_base::shell;

/// Part of a piece that may be read in addition: libraries, a configuration.
const BESIDE: f64 = 0.1;
/// Any program that the command started.
const ANY: &str = "*";
/// Characters that are special to a shell.
const SIGNS: &[char] = &['\'', '"', '\\', '$', '`', ';', '&', '<', '>', '(', ')', '\n', '*', '?', '#'];
const REDIRECTS: &[char] = &['<', '>'];
/// Special characters other than quotes and redirections.
const OTHER_SIGNS: &[char] = &['$', '`', ';', '&', '(', ')', '\n', '#'];

/// A command to find advice for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The recorded command.
    pub command: &'a [String],
    /// Facts of its run.
    pub facts: &'a [Fact],
}

/// An advice for a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Advised {
    /// Name of its recipe.
    pub recipe: String,
    /// The change, in words.
    pub says: String,
    /// The command with the change made; empty if the change is not made by the command.
    pub command: Vec<String>,
    /// What it gives up, if anything.
    pub gives_up: Option<String>,
    /// The page that documents it.
    pub source: String,
    /// Number of pieces that are worked on in parallel, if known.
    pub pieces: Option<u64>,
    /// Part of the recorded work that the changed command does.
    pub work: f64,
    /// Whether a what-if's prediction for it is an upper bound.
    pub at_most: bool,
}

impl Asked<'_> {
    /// Returns the change that makes a what-if true: the first advice for this command from a library that it uses, from its own recipe, or
    /// from the single pipeline stage that has one; or else, in words, for a program that served it; or for a part of the system.
    pub fn for_change(&self, id: &str) -> Option<Advised> {
        let is_for = |advice: &&Advice| advice.changes.iter().any(|change| change == id) && advice.started.is_empty();
        let first = |of: &Asked<'_>, recipe: &Recipe| recipe.advice.iter().filter(is_for).find_map(|advice| of.advised(recipe, advice));
        let own =
            |of: &Asked<'_>| Recipe::embedded().iter().filter(|recipe| recipe.is_for(of.command)).find_map(|recipe| first(of, recipe));
        let all = || Recipe::embedded().iter();
        let in_shell = || {
            let in_stage = |stage: &Asked<'_>, _: &str| own(stage).into_iter().collect();
            let mut found = self.in_pipeline("", &in_stage);
            found.pop().filter(|_| found.is_empty())
        };
        let of_library = all().filter(|recipe| recipe.is_used(self.facts)).find_map(|recipe| first(self, recipe));
        of_library
            .or_else(|| own(self))
            .or_else(in_shell)
            .or_else(|| self.in_loop(&is_for, None).into_iter().next())
            .or_else(|| self.of_others(&is_for, &self.others("programs"), false).into_iter().next())
            .or_else(|| self.of_others(&is_for, &self.others("peers"), true).into_iter().next())
            .or_else(|| all().filter(|recipe| recipe.is_of_system()).find_map(|recipe| first(self, recipe)))
    }

    /// Returns the programs of a fact, without the command's own.
    fn others(&self, fact: &str) -> Vec<&str> {
        let named = self.facts.iter().filter(|known| known.name == fact).flat_map(|known| known.value.split(' '));
        named.filter(|name| *name != program(self.command)).collect()
    }

    /// Returns changes, in words, of programs of which only the name is known. If several programs have a change, none is returned, since
    /// it is not known at which it would help. `serving`: changes of programs as servers instead of as clients.
    fn of_others(&self, is_for: &dyn Fn(&&Advice) -> bool, names: &[&str], serving: bool) -> Vec<Advised> {
        let of_one = |name: &&str| {
            let command = [(*name).to_owned()];
            let other = Asked { command: &command, facts: self.facts };
            let recipes = Recipe::embedded().iter().filter(|recipe| recipe.is_for(other.command) && (recipe.program.serves || !serving));
            let own = recipes.flat_map(|recipe| recipe.advice.iter().filter(is_for).map(move |advice| (recipe, advice)));
            let own = own.filter(|(_, advice)| advice.started.is_empty());
            own.filter_map(|(recipe, advice)| Some(Advised { command: Vec::new(), ..other.advised(recipe, advice)? })).collect::<Vec<_>>()
        };
        let mut found: Vec<Vec<Advised>> = names.iter().map(of_one).filter(|advised| !advised.is_empty()).collect();
        found.pop().filter(|_| found.is_empty()).unwrap_or_default()
    }

    /// Returns the change that makes a what-if about program `who` true: the first advice for this command, or for a stage of its pipeline.
    pub fn for_change_of(&self, id: &str, who: &str) -> Option<Advised> {
        let is_own = who == program(self.command);
        let is_for = |advice: &&Advice| advice.changes.iter().any(|change| change == id);
        self.in_recipes(&is_for, who, is_own).into_iter().next().or_else(|| {
            let in_stage = |stage: &Asked<'_>, stage_who: &str| stage.in_recipes(&is_for, stage_who, stage_who == program(stage.command));
            let in_loop = || self.in_loop(&is_for, Some(who)).into_iter().next();
            self.in_pipeline(who, &in_stage).into_iter().next().or_else(in_loop)
        })
    }

    /// Returns changes of the command that a shell loop runs for each item, or of the loop itself. `who` is the program they are for;
    /// `None` for the whole loop. Advice that depends on the bytes read is left out: they are not known for one command of many.
    fn in_loop(&self, is_for: &dyn Fn(&&Advice) -> bool, who: Option<&str>) -> Vec<Advised> {
        let Some(looped) = ShellLoop::of(self.command) else { return Vec::new() };
        let body = Asked { command: &looped.words, facts: self.facts };
        let is_own = who.is_none_or(|who| who == program(body.command));
        let by = |advice: &&Advice| {
            if advice.started.is_empty() { is_own } else { advice.started.iter().any(|name| Some(name.as_str()) == who || name == ANY) }
        };
        let made = |recipe: &Recipe, advice: &Advice| {
            if !advice.in_loop.is_empty() {
                let filling = Filling { recipe, command: body.command, program: 0, facts: self.facts, looped: Some(&looped) };
                let text = body.fits(recipe, advice).then(|| filling.script(&advice.in_loop))??;
                return Some(Advised { command: looped.with_text(text), ..Asked::in_words(&filling, advice)? });
            }
            let of_one =
                advice.pieces.is_none() && !["read_bytes", "part_mib"].iter().any(|fact| advice.when.iter().any(|known| known == fact));
            let advised = body.advised(recipe, advice).filter(|advised| of_one && !SHELLS.contains(&program(&advised.command)))?;
            let command = if advised.command.is_empty() { Vec::new() } else { looped.with_command(&advised.command)? };
            Some(Advised { command, ..advised })
        };
        let recipes = Recipe::embedded().iter().filter(|recipe| recipe.is_for(body.command));
        recipes.flat_map(|recipe| recipe.advice.iter().filter(is_for).filter(by).filter_map(|a| made(recipe, a))).collect()
    }

    /// Returns the matching advice from this command's recipes for the program `who`.
    fn in_recipes(&self, is_for: &dyn Fn(&&Advice) -> bool, who: &str, is_own: bool) -> Vec<Advised> {
        let by = |advice: &&Advice| {
            if advice.started.is_empty() { is_own } else { advice.started.iter().any(|name| name == who || name == ANY) }
        };
        let libraries = Recipe::embedded().iter().filter(|recipe| recipe.is_used(self.facts));
        let recipes = libraries.chain(Recipe::embedded().iter().filter(|recipe| recipe.is_for(self.command)));
        recipes.flat_map(|recipe| recipe.advice.iter().filter(is_for).filter(by).filter_map(|a| self.advised(recipe, a))).collect()
    }

    /// Returns changes against a cause charged to program `who`, for which no what-if predicts the gain: changes of the command, and
    /// changes in words of a program that it started. If the run was `replayed`, advice that has a what-if is left out: the replay showed
    /// no gain.
    pub fn for_cause(&self, cause: &str, who: &str, replayed: bool) -> Vec<Advised> {
        let is_open = |advice: &Advice| !replayed || advice.changes.is_empty();
        let is_for = |advice: &&Advice| advice.causes.iter().any(|known| known == cause) && is_open(advice);
        // A charge at the other end, or on the network, is not a program of the command.
        let is_own = who == program(self.command) || !cause.starts_with("client.");
        let mut found = self.in_recipes(&is_for, who, is_own);
        if !is_own && found.is_empty() {
            let of_another = |stage: &Asked<'_>, who: &str| {
                if program(stage.command) == who { Vec::new() } else { stage.for_cause(cause, who, replayed) }
            };
            found = self.in_pipeline(who, &of_another);
        }
        if found.is_empty() {
            let charged = Some(who).filter(|_| cause.starts_with("client."));
            found = self.in_loop(&is_for, charged).into_iter().filter(|advised| !advised.command.is_empty()).collect();
        }
        if !is_own && found.is_empty() {
            found = self.of_others(&is_for, &[who], false);
        }
        if cause.starts_with("server.") && who != program(self.command) && self.others("peers").contains(&who) {
            found.extend(self.of_others(&is_for, &[who], true));
        }
        if cause.starts_with("network.") {
            for (fact, serving) in [("programs", false), ("peers", true)] {
                found.extend(self.of_others(&is_for, &self.others(fact), serving));
            }
        }
        found
    }

    /// Returns changes of one stage of a shell pipeline. A stage with characters special to the shell is not changed.
    fn in_pipeline(&self, who: &str, in_stage: &dyn Fn(&Asked<'_>, &str) -> Vec<Advised>) -> Vec<Advised> {
        let [shell, flag, text] = self.command else { return Vec::new() };
        if !SHELLS.contains(&program(std::slice::from_ref(shell))) || flag != "-c" || text.contains("||") {
            return Vec::new();
        }
        let is_whole = |stage: &&str| ['\'', '"'].iter().all(|&quote| stage.matches(quote).count() % 2 == 0);
        let stages: Vec<&str> = text.split('|').collect();
        if !stages.iter().all(is_whole) {
            return Vec::new();
        }
        let changed = |(at, stage): (usize, &&str)| {
            // Its redirections stay.
            let (stage, behind) = stage.split_at(stage.find(REDIRECTS).unwrap_or(stage.len()));
            let words: Vec<String> = stage.split_whitespace().map(str::to_owned).collect();
            let is_of_number = !behind.is_empty() && stage.ends_with(|c: char| c.is_ascii_digit());
            if stage.contains(SIGNS) || behind.contains(OTHER_SIGNS) || is_of_number || words.is_empty() {
                return Vec::new();
            }
            let with = |advised: Advised| {
                // The original redirections are shell text already.
                let as_it_is = |word: &String| if words.contains(word) { word.clone() } else { shell::word(word) };
                let command: Vec<String> = advised.command.iter().map(as_it_is).collect();
                let changed = format!(" {} {behind}", command.join(" "));
                let text = stages.iter().enumerate().map(|(other, stage)| if other == at { changed.as_str() } else { stage });
                let text = text.collect::<Vec<&str>>().join("|");
                Advised { command: vec![shell.clone(), flag.clone(), text.trim().to_owned()], ..advised }
            };
            let made = in_stage(&Asked { command: &words, facts: self.facts }, who);
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

    /// Whether an advice applies to this command and its run.
    fn fits(&self, recipe: &Recipe, advice: &Advice) -> bool {
        let knows = |name: &String| self.facts.iter().any(|fact| fact.name == *name);
        (advice.has.is_empty() || advice.has.iter().any(|word| has(self.command, word)))
            && !advice.lacks.iter().any(|word| has(self.command, word))
            && advice.operands.is_none_or(|least| recipe.operands(self.command).len() >= least)
            && (advice.operand_has.is_empty() || self.operand_has(recipe, &advice.operand_has))
            && advice.when.iter().all(knows)
            && !advice.unless.iter().any(knows)
            && advice.from.as_ref().is_none_or(|from| {
                let known = self.facts.iter().find(|fact| fact.name == from.fact).and_then(|fact| fact.value.parse::<f64>().ok());
                known.zip(number_of(&from.value, 1.0)).is_some_and(|(known, least)| known >= least)
            })
            && advice.below.as_ref().is_none_or(|below| {
                let (now, most) = (recipe.value_in(&below.parameter, self.command), number_of(&below.value, 1.0));
                now.zip(most).is_some_and(|(now, most)| now < most)
            })
    }

    fn advised_as_it_stands(&self, recipe: &Recipe, advice: &Advice) -> Option<Advised> {
        if !advice.in_loop.is_empty() || !self.fits(recipe, advice) {
            return None;
        }
        let pieces = self.pieces(recipe, advice);
        if pieces.is_some_and(|pieces| pieces < 2) {
            return None;
        }
        let program = at_program(self.command);
        let filling = Filling { recipe, command: self.command, program, facts: self.facts, looped: None };
        let command = if edit::makes_command(advice) { edit::edited(&filling, advice)? } else { Vec::new() };
        Some(Advised { command, pieces, ..Asked::in_words(&filling, advice)? })
    }

    /// Returns an advice in words, without a command.
    fn in_words(filling: &Filling<'_>, advice: &Advice) -> Option<Advised> {
        Some(Advised {
            recipe: filling.recipe.name.clone(),
            says: filling.text(&advice.says)?,
            command: Vec::new(),
            gives_up: (!advice.gives_up.is_empty()).then(|| advice.gives_up.clone()),
            source: advice.source.clone(),
            pieces: None,
            work: advice.work.unwrap_or(1.0),
            at_most: advice.at_most,
        })
    }

    /// Returns the number of pieces of the work: operands, or parts of the bytes read.
    fn pieces(&self, recipe: &Recipe, advice: &Advice) -> Option<u64> {
        if advice.operands.is_some() {
            return Some(recipe.operands(self.command).len() as u64);
        }
        let pieces = advice.pieces.as_ref()?;
        let by_value = || pieces.sizes.get(&recipe.value_in(pieces.parameter.as_ref()?, self.command)?.to_string());
        let bytes = number_of(pieces.size.as_ref().or_else(by_value)?, 1.0)?;
        let read = self.facts.iter().find(|fact| fact.name == "read_bytes")?.value.parse::<f64>().ok()?;
        // (A small excess over the data is not a piece of its own.)
        Some((read / bytes - BESIDE).ceil() as u64)
    }
}

//! The rules file: which functions belong to which class.
//!
//! One line per class, in the order of decision; `classes.txt` beside this file is always used, and describes the format. A site's own
//! lines precede it. A name without a `class` line is an error, so that a typing error is not a class.

use super::globs::{Globs, matches};
use std::fmt;
use thalweg_trace::{Frame, frame};

/// The built-in rules.
pub const DEFAULT_RULES: &str = include_str!("classes.txt");

/// Classes used in code: for what no function shows.
pub(super) mod name {
    pub(crate) const IDLE: &str = "idle";
    pub(crate) const INTERRUPTS: &str = "irq";
    pub(crate) const SYSCALL: &str = "syscall";
    pub(crate) const REST: &str = "rest";
    pub(crate) const PROGRAM: &str = "program";
    pub(crate) const OTHERS: &str = "others";
    pub(crate) const STEAL: &str = "steal";
    pub(crate) const RECORDER: &str = "recorder";
}

/// The number of a class: its index in [`Rules::classes`].
pub(super) type ClassId = u16;

/// A class: a row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) title: String,
}

/// A rule's statement about a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// Uninformative: its caller decides.
    Nothing,
    /// It belongs to the class.
    In(ClassId),
}

/// The rules of a profile.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(super) classes: Vec<Class>,
    leaves: Lines,
    anchors: Lines,
    pub(super) known: BuiltInClasses,
}

/// The numbers of the classes used in code.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BuiltInClasses {
    pub(super) idle: ClassId,
    pub(super) interrupts: ClassId,
    pub(super) syscall: ClassId,
    pub(super) rest: ClassId,
    pub(super) program: ClassId,
    pub(super) others: ClassId,
    pub(super) steal: ClassId,
    pub(super) recorder: ClassId,
}

/// Lines of one kind, by number.
#[derive(Clone, Debug, Default)]
struct Lines {
    says: Vec<Says>,
    of_kernel: Globs,
    of_modules: Vec<OfModules>,
}

#[derive(Clone, Debug)]
struct OfModules {
    line: usize,
    modules: Vec<String>,
    functions: Globs,
}

impl Lines {
    fn add(&mut self, says: Says, modules: Vec<String>, globs: &[&str]) {
        let line = self.says.len();
        self.says.push(says);
        if modules.is_empty() {
            globs.iter().for_each(|glob| self.of_kernel.add(glob, line));
            return;
        }
        let mut functions = Globs::default();
        globs.iter().chain(globs.is_empty().then_some(&"*")).for_each(|glob| functions.add(glob, line));
        self.of_modules.push(OfModules { line, modules, functions });
    }

    fn first(&self, function: &str, module: &str, is_user: bool) -> Option<Says> {
        let kernel = if is_user { None } else { self.of_kernel.first(function) };
        let has = |lines: &&OfModules| lines.modules.iter().any(|glob| matches(glob, module)) && lines.functions.first(function).is_some();
        let of_module = self.of_modules.iter().find(has).map(|lines| lines.line);
        kernel.into_iter().chain(of_module).min().map(|line| self.says[line])
    }
}

/// A rules file cannot be parsed: the line and the problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RulesError {
    /// The line, from 1.
    pub line: usize,
    /// The problem, and what to write.
    pub problem: String,
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl Default for Rules {
    fn default() -> Rules {
        // A test parses the file; an unreadable line would be no rule.
        Rules::parse("").unwrap_or_else(|_| Rules {
            classes: Vec::new(),
            leaves: Lines::default(),
            anchors: Lines::default(),
            known: BuiltInClasses::default(),
        })
    }
}

impl Rules {
    /// Parses the lines of `site`, followed by the built-in ones.
    ///
    /// # Errors
    /// A line of `site` cannot be parsed; the error has the line and the reason.
    pub fn parse(site: &str) -> Result<Rules, RulesError> {
        let (own, theirs) = (lines(DEFAULT_RULES)?, lines(site)?);
        let mut rules =
            Rules { classes: Vec::new(), leaves: Lines::default(), anchors: Lines::default(), known: BuiltInClasses::default() };
        for line in own.iter().chain(&theirs) {
            if let Line::Class { name, title } = &line.what {
                rules.declare(name, title);
            }
        }
        for line in theirs.iter().chain(&own) {
            rules.take(line)?;
        }
        let number = |name: &str| rules.number(name).unwrap_or_default();
        rules.known = BuiltInClasses {
            idle: number(name::IDLE),
            interrupts: number(name::INTERRUPTS),
            syscall: number(name::SYSCALL),
            rest: number(name::REST),
            program: number(name::PROGRAM),
            others: number(name::OTHERS),
            steal: number(name::STEAL),
            recorder: number(name::RECORDER),
        };
        Ok(rules)
    }

    fn declare(&mut self, name: &str, title: &str) {
        match self.classes.iter_mut().find(|class| class.name == name) {
            Some(class) => title.clone_into(&mut class.title),
            None => self.classes.push(Class { name: name.to_owned(), title: title.to_owned() }),
        }
    }

    fn number(&self, name: &str) -> Option<ClassId> {
        self.classes.iter().position(|class| class.name == name).and_then(|number| ClassId::try_from(number).ok())
    }

    fn take(&mut self, line: &NumberedLine<'_>) -> Result<(), RulesError> {
        let class = |name: &str| {
            self.number(name).ok_or_else(|| RulesError {
                line: line.number,
                problem: format!(
                    "no class is named {name:?}; expected one of {}, or a line \"class {name}: TITLE\" for a new one",
                    self.names()
                ),
            })
        };
        match &line.what {
            Line::Class { .. } => {}
            Line::Leaves { name: "~", modules, globs } => self.leaves.add(Says::Nothing, modules.clone(), globs),
            Line::Leaves { name, modules, globs } => {
                let says = Says::In(class(name)?);
                self.leaves.add(says, modules.clone(), globs);
            }
            Line::Anchors { name, modules, globs } => {
                let says = Says::In(class(name)?);
                self.anchors.add(says, modules.clone(), globs);
            }
        }
        Ok(())
    }

    fn names(&self) -> String {
        self.classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The rule for a function as the innermost one.
    pub(super) fn leaf(&self, frame: &Frame) -> Option<Says> {
        self.leaves.first(plain(frame), &frame.module, frame.is_user())
    }

    /// The class that a function's callees work for.
    pub(super) fn anchor(&self, frame: &Frame) -> Option<ClassId> {
        match self.anchors.first(plain(frame), &frame.module, frame.is_user())? {
            Says::In(class) => Some(class),
            Says::Nothing => None,
        }
    }
}

/// A function's name without compilers' suffixes (`.constprop.0`, `.isra.0`, `.part.0`, `.cold`).
fn plain(frame: &Frame) -> &str {
    let symbol = frame.symbol.as_deref().unwrap_or_default();
    let is_kernels = frame.module == frame::KERNEL || !frame.is_user();
    match symbol.find('.') {
        Some(at) if at > 0 && is_kernels => &symbol[..at],
        _ => symbol,
    }
}

/// The content of a line.
#[derive(Debug)]
enum Line<'a> {
    Class { name: &'a str, title: &'a str },
    Leaves { name: &'a str, modules: Vec<String>, globs: Vec<&'a str> },
    Anchors { name: &'a str, modules: Vec<String>, globs: Vec<&'a str> },
}

#[derive(Debug)]
struct NumberedLine<'a> {
    number: usize,
    what: Line<'a>,
}

/// The lines of a file, with their continuations.
fn lines(text: &str) -> Result<Vec<NumberedLine<'_>>, RulesError> {
    let mut lines: Vec<NumberedLine<'_>> = Vec::new();
    for (at, raw) in text.lines().enumerate() {
        let number = at + 1;
        let error = |problem: &str| RulesError { line: number, problem: problem.to_owned() };
        let words = raw.trim();
        if words.is_empty() || words.starts_with('#') {
            continue;
        }
        if raw.starts_with([' ', '\t']) {
            match lines.last_mut().map(|line| &mut line.what) {
                Some(Line::Leaves { globs, .. } | Line::Anchors { globs, .. }) => globs.extend(words.split_whitespace()),
                Some(Line::Class { .. }) => return Err(error("a class has its title on one line; begin the line without a blank")),
                None => return Err(error("nothing is there that it could continue; begin the line without a blank")),
            }
            continue;
        }
        lines.push(NumberedLine { number, what: line(words).map_err(|problem| error(&problem))? });
    }
    for line in &lines {
        let empty = match &line.what {
            Line::Class { .. } => false,
            Line::Leaves { modules, globs, .. } | Line::Anchors { modules, globs, .. } => modules.is_empty() && globs.is_empty(),
        };
        if empty {
            let problem = "expected names of functions after the colon, as in \"fs: myfs_*\", or modules before it, as in \"fs[myfs]:\"";
            return Err(RulesError { line: line.number, problem: problem.to_owned() });
        }
    }
    Ok(lines)
}

fn line(words: &str) -> Result<Line<'_>, String> {
    let (head, rest) = head_and_rest(words)?;
    let (sort, head) = match head.split_once(char::is_whitespace) {
        Some((sort @ ("class" | "for"), head)) => (sort, head.trim()),
        Some(_) => return Err(format!("expected \"NAME:\", \"class NAME:\" or \"for NAME:\", found {head:?}")),
        None => ("", head),
    };
    let (name, modules) = match head.split_once('[') {
        None => (head, Vec::new()),
        Some((name, modules)) => {
            let modules = modules.strip_suffix(']').ok_or("expected \"]\" after the modules")?;
            let modules: Vec<String> = modules.split(',').map(|module| module.trim().to_owned()).collect();
            if modules.iter().any(String::is_empty) {
                return Err("expected modules with commas between them, as in \"fs[myfs,*/libmyfs.so*]:\"".to_owned());
            }
            (name, modules)
        }
    };
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let is_transparent = name == "~" && sort.is_empty();
    if !is_name && !is_transparent {
        return Err(format!("expected a class's name of letters, digits, - and _, found {name:?}"));
    }
    match sort {
        "class" if !modules.is_empty() => Err("a class has no modules; its lines have".to_owned()),
        "class" if rest.trim().is_empty() => Err(format!("expected a title, as in \"class {name}: what it is called\"")),
        "class" => Ok(Line::Class { name, title: rest.trim() }),
        "for" => Ok(Line::Anchors { name, modules, globs: rest.split_whitespace().collect() }),
        _ => Ok(Line::Leaves { name, modules, globs: rest.split_whitespace().collect() }),
    }
}

/// Splits at the first colon outside the modules.
fn head_and_rest(words: &str) -> Result<(&str, &str), String> {
    let after_modules = words.find(']').filter(|_| words.find('[').is_some_and(|at| words.find(':').is_none_or(|colon| at < colon)));
    let colon = words[after_modules.unwrap_or(0)..].find(':').map(|at| at + after_modules.unwrap_or(0));
    let colon = colon.ok_or_else(|| format!("expected a colon, as in \"NAME: functions\", found {words:?}"))?;
    Ok((words[..colon].trim(), &words[colon + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class_of(rules: &Rules, frame: &str) -> Option<String> {
        match rules.leaf(&Frame::parse(frame))? {
            Says::Nothing => Some("~".to_owned()),
            Says::In(class) => Some(rules.classes[class as usize].name.clone()),
        }
    }

    #[test]
    fn the_rules_that_are_always_there_can_be_read() {
        let rules = Rules::parse("").expect("classes.txt");
        for (frame, expected) in [
            ("tcp_sendmsg+0x27 [kernel]", Some("net")),
            ("_copy_to_iter.isra.0+0x1 [kernel]", Some("copy")),
            ("_raw_spin_unlock_irqrestore [kernel]", Some("~")),
            ("virtnet_poll [virtio_net]", Some("netdrv")),
            ("memcpy [/usr/lib/x86_64-linux-gnu/libc.so.6 ab+0x1]", Some("libc")),
            ("__vdso_gettime [vdso]", Some("libc")),
            ("crc [/usr/lib/libz.so.1.2.13]", Some("libraries")),
            ("tcp_sendmsg [/usr/bin/server]", None),
            ("nobody_knows_it [kernel]", None),
        ] {
            assert_eq!(class_of(&rules, frame).as_deref(), expected, "{frame}");
        }
        let numbers = [rules.known.idle, rules.known.interrupts, rules.known.rest, rules.known.program, rules.known.others];
        assert!(numbers.iter().enumerate().all(|(at, number)| !numbers[..at].contains(number)), "{:?}", rules.known);
        assert_eq!(Rules::default().classes, rules.classes);
    }

    #[test]
    fn a_sites_lines_decide_first() {
        let site = "class lustre: Lustre\nlustre[lustre,*/libiodine.so]:\nnetdrv: tcp_special\n  tcp_more*\nclass net: network\n";
        let rules = Rules::parse(site).expect("rules");
        assert_eq!(class_of(&rules, "ll_read [lustre]").as_deref(), Some("lustre"));
        assert_eq!(class_of(&rules, "send [/opt/libiodine.so]").as_deref(), Some("lustre"));
        assert_eq!(class_of(&rules, "tcp_special [kernel]").as_deref(), Some("netdrv"));
        assert_eq!(class_of(&rules, "tcp_more_of_it [kernel]").as_deref(), Some("netdrv"));
        assert_eq!(class_of(&rules, "tcp_sendmsg [kernel]").as_deref(), Some("net"));
        assert!(rules.classes.iter().any(|class| class.title == "network"));
    }

    #[test]
    fn errors_name_the_line_and_the_reason() {
        for (text, line, part) in [
            ("net tcp_*", 1, "expected a colon"),
            ("# fine\n\nnetdvr: tun_*", 3, "no class is named \"netdvr\""),
            ("net:", 1, "expected names of functions"),
            ("  tun_*", 1, "nothing is there"),
            ("class x:", 1, "expected a title"),
            ("net[a: b", 1, "expected \"]\""),
            ("net[a,,b]: c", 1, "with commas between"),
            ("fore net: x", 1, "expected \"NAME:\""),
            ("for ne/t: x", 1, "letters, digits"),
        ] {
            let error = Rules::parse(text).expect_err(text);
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z~:\\[\\], \\n*#é]{0,80}") {
            let _ = Rules::parse(&text);
        }
    }
}

//! A shell loop that runs one command for each item, as typed by people: `for i in $(seq 9); do curl -O http://h/$i; done`. Its command is
//! parsed like any other, with the loop's variable in its words; a changed command is put back into the loop. Text that a shell might
//! interpret differently is not accepted as a loop, and nothing is proposed.

use crate::command::{SHELLS, at_program, is_bundle, is_letter, program};
use crate::recipe::Recipe;
use thalweg_base::shell;

/// Characters that are literal in a word, between double quotes, and in the input of xargs.
const PLAIN: &str = "_-./=:,+@";
/// Redirections of a loop's output that are accepted: those that discard it.
const DISCARDS: &[&str] = &[" 2>&1", ">/dev/null", "> /dev/null"];
/// Builtins and keywords of the shell, which a program of that name cannot replace.
const OWN: &[&str] = &[
    "!", "[", "[[", "alias", "bg", "break", "case", "cd", "command", "continue", "declare", "do", "echo", "eval", "exec", "exit", "export",
    "fg", "for", "if", "jobs", "kill", "let", "local", "printf", "pwd", "read", "readonly", "return", "set", "shift", "source", "test",
    "time", "trap", "type", "ulimit", "umask", "unset", "until", "wait", "while", ".", ":",
];

/// A shell loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellLoop {
    /// The shell and its flag.
    shell: [String; 2],
    /// `for i in $(seq 9)`.
    pub(crate) head: String,
    /// `$(seq 9)`.
    pub(crate) list: String,
    /// The words of its command, with `$i` for the variable.
    pub(crate) words: Vec<String>,
    /// The words as written, including quotes.
    written: Vec<String>,
    /// The redirections that discard its output, if any.
    pub(crate) discard: String,
    variable: String,
}

/// Indexes of words for one item, and of those for all.
#[derive(Debug, Default)]
struct Parts {
    each: Vec<usize>,
    shared: Vec<usize>,
    /// Numbers of operands and of flags for one item.
    operands: usize,
    flags: usize,
}

impl ShellLoop {
    /// Parses the loop in the text given to a shell.
    pub(crate) fn of(command: &[String]) -> Option<ShellLoop> {
        let [shell, flag, text] = command else { return None };
        if !SHELLS.contains(&program(std::slice::from_ref(shell))) || flag != "-c" {
            return None;
        }
        let (variable, rest) = text.trim().strip_prefix("for ")?.trim_start().split_once(" in ")?;
        if !is_name(variable) {
            return None;
        }
        let end = end_of_list(rest)?;
        let (list, rest) = (rest[..end].trim(), rest[end + 1..].trim_start());
        let body = rest.strip_prefix("do")?.strip_prefix([' ', '\n', '\t'])?.strip_suffix("done")?.trim_end_matches([' ', '\t']);
        let (body, discard) = without_discards(body.strip_suffix([';', '\n'])?.trim());
        let (words, written): (Vec<String>, Vec<String>) = words(body, variable)?.into_iter().unzip();
        let first = words.get(at_program(&words))?;
        if list.is_empty() || first.contains(['$', '=']) || words[0].contains('=') || OWN.contains(&first.as_str()) {
            return None;
        }
        let (head, list) = (format!("for {variable} in {list}"), list.to_owned());
        Some(ShellLoop { shell: [shell.clone(), flag.clone()], head, list, words, written, discard, variable: variable.to_owned() })
    }

    /// Returns the shell's command with another text.
    pub(crate) fn with_text(&self, text: String) -> Vec<String> {
        let [shell, flag] = self.shell.clone();
        vec![shell, flag, text]
    }

    /// Returns the loop with another command; `None` if a word with the variable was changed.
    pub(crate) fn with_command(&self, command: &[String]) -> Option<Vec<String>> {
        let as_written = |word: &String| match self.words.iter().position(|known| known == word) {
            Some(at) => Some(self.written[at].clone()),
            None => (!word.contains('$')).then(|| shell::word(word)),
        };
        let command = command.iter().map(as_written).collect::<Option<Vec<String>>>()?.join(" ");
        Some(self.with_text(format!("{}; do {command}{}; done", self.head, self.discard)))
    }

    /// Returns the flags for all items; `None` if one has the variable.
    pub(crate) fn shared(&self, recipe: &Recipe) -> Option<String> {
        let parts = self.parts(recipe)?;
        let is_fixed = parts.shared.iter().all(|&at| !self.words[at].contains('$'));
        is_fixed.then(|| parts.shared.into_iter().map(|at| self.written[at].as_str()).collect::<Vec<_>>().join(" "))
    }

    /// Returns the words for one item: operands and their flags. `None` if a word has characters that its reader might interpret
    /// differently.
    pub(crate) fn each(&self, recipe: &Recipe) -> Option<String> {
        // File names may contain any characters.
        if self.list.contains(['*', '?', '[']) {
            return None;
        }
        let Parts { each, operands, flags, .. } = self.parts(recipe)?;
        // With two operands, it is not known which flag belongs to which, or whether two are permitted per line.
        if !recipe.program.flags_first && (operands != 1 || flags > 1) {
            return None;
        }
        let is_plain =
            |word: &String| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || PLAIN.contains(c) || "${}".contains(c));
        let all_plain = each.iter().all(|&at| is_plain(&self.words[at]));
        (all_plain && !each.is_empty()).then(|| each.into_iter().map(|at| self.words[at].as_str()).collect::<Vec<_>>().join(" "))
    }

    /// Returns all its words for xargs, with `{}` for the variable. `None` if the last word lacks the variable: it may be a file that all
    /// would write.
    pub(crate) fn for_xargs(&self) -> Option<String> {
        let (braced, plain) = (format!("${{{}}}", self.variable), format!("${}", self.variable));
        // (In words, the variable is in braces, or not followed by a letter.)
        let put = |word: &String| {
            let with = |what: &str| word.replace(&braced, what).replace(&plain, what);
            if shell::word(&with("-")) == with("-") { with("{}") } else { shell::word(&with("{}")) }
        };
        let is_one_each = self.words.last()?.contains('$');
        is_one_each.then(|| format!("-I {{}} {}", self.words.iter().map(put).collect::<Vec<_>>().join(" ")))
    }

    /// Splits its words after the program.
    fn parts(&self, recipe: &Recipe) -> Option<Parts> {
        let mut parts = Parts::default();
        let mut at = at_program(&self.words) + 1;
        // A starter of the program would have to start its replacement.
        if at > 1 {
            return None;
        }
        while let Some(word) = self.words.get(at) {
            if word == "--" {
                return None;
            }
            let may_be_flag = !recipe.program.flags_first || parts.each.is_empty();
            let is_flag = may_be_flag && word.starts_with('-') && word != "-";
            // (In a bundle like curl's `-so FILE`, the last letter takes the value.)
            let takes = |flag: &String| flag == word || is_letter(flag) && is_bundle(word) && word.ends_with(&flag[1..]);
            let with_value = is_flag && recipe.program.takes_value.iter().any(takes);
            let is_of_one = |flag: &String| flag == word || is_letter(flag) && is_bundle(word) && word[1..].contains(&flag[1..]);
            let is_flag_of_one = is_flag && recipe.program.of_operand.iter().any(is_of_one);
            parts.operands += usize::from(!is_flag);
            parts.flags += usize::from(is_flag_of_one);
            let part = if !is_flag || is_flag_of_one { &mut parts.each } else { &mut parts.shared };
            let words = if with_value { at..(at + 2).min(self.words.len()) } else { at..at + 1 };
            at = words.end;
            part.extend(words);
        }
        Some(parts)
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the end of the list: the first `;` or newline outside parentheses. `None` if there are quotes outside these.
fn end_of_list(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            ';' | '\n' if depth == 0 => return Some(at),
            '\'' | '"' | '\\' | '`' | '&' | '|' | '<' | '>' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Splits a command from the redirections that discard its output.
fn without_discards(body: &str) -> (&str, String) {
    let mut left = body;
    while let Some(end) = DISCARDS.iter().find(|end| left.ends_with(*end)) {
        left = left[..left.len() - end.len()].trim_end_matches(' ');
        if *end != DISCARDS[0] {
            left = left.strip_suffix(" 2").unwrap_or(left).trim_end();
        }
    }
    (left, body[left.len()..].to_owned())
}

/// Returns the words of a command, and each as written; `None` if the shell does more with them than expand the loop's variable.
fn words(text: &str, variable: &str) -> Option<Vec<(String, String)>> {
    let mut found: Vec<(String, String)> = Vec::new();
    let (mut word, mut written) = (String::new(), String::new());
    let mut rest = text.chars().peekable();
    let mut quote = None;
    while let Some(c) = rest.next() {
        written.push(c);
        match (c, quote) {
            ('$', None | Some('"')) => {
                let braced = rest.next_if_eq(&'{').is_some();
                let mut name = String::new();
                while let Some(c) = rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                if name != variable || braced && rest.next_if_eq(&'}').is_none() {
                    return None;
                }
                let put = if braced { format!("{{{name}}}") } else { name };
                written.push_str(&put);
                word.push('$');
                word.push_str(&put);
            }
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('$' | '"', Some('\'')) | ('`' | '\\', _) => return None,
            (' ' | '\t', None) => {
                written.pop();
                if !written.is_empty() {
                    found.push((std::mem::take(&mut word), std::mem::take(&mut written)));
                }
            }
            (c, None) if !(c.is_alphanumeric() || PLAIN.contains(c) || "%^".contains(c)) => return None,
            (c, _) => word.push(c),
        }
    }
    if !written.is_empty() {
        found.push((word, written));
    }
    quote.is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<ShellLoop> {
        ShellLoop::of(&["sh", "-c", text].map(str::to_owned))
    }

    #[test]
    fn a_loop_is_a_list_and_a_command_with_the_loops_variable() {
        let found = of("for i in $(seq -w 0 9; true); do curl -s -o \"copy $i\" http://h/a-${i}b >/dev/null 2>&1; done").unwrap();
        assert_eq!((found.list.as_str(), found.discard.as_str()), ("$(seq -w 0 9; true)", " >/dev/null 2>&1"));
        assert_eq!(found.words, ["curl", "-s", "-o", "copy $i", "http://h/a-${i}b"]);
        let changed = [&found.words[..1], &["-S".to_owned()], &found.words[1..]].concat();
        let text = "for i in $(seq -w 0 9; true); do curl -S -s -o \"copy $i\" http://h/a-${i}b >/dev/null 2>&1; done";
        assert_eq!(found.with_command(&changed).unwrap()[2], text);
        assert_eq!(found.for_xargs().unwrap(), "-I {} curl -s -o 'copy {}' http://h/a-{}b");
        assert_eq!(of("for f in *.log\ndo\n  gzip -k $f 2>/dev/null\ndone\n").unwrap().discard, " 2>/dev/null");
    }

    #[test]
    fn what_a_shell_reads_otherwise_is_no_loop() {
        for text in [
            "for i in a b; do gzip $i; gzip -d $i.gz; done",
            "for i in a b; do gzip $i >$i.out; done",
            "for i in a b; do gzip $i & done",
            "for i in a b; do cd $i; done",
            "for i in a b; do A=1 gzip $i; done",
            "for i in a b; do gzip $i $j; done",
            "for i in a b; do gzip ${i%.log}; done",
            "for i in a b; do gzip $ia; done",
            "for i in a b; do gzip $i*; done",
            "for i in a b; do gzip ~/$i; done",
            "for i in a b; do gzip '$i'; done",
            "for i in a b; do gzip \"$(cat $i)\"; done",
            "for i in a b; do $i; done",
            "for i in 'a b' c; do gzip $i; done",
            "for i in a b; do gzip $i; done; echo",
            "for i in a b; do for j in c; do gzip $i; done; done",
            "for i in a b; do gzip $i; done >log",
            "for i in a b; do if true; then gzip $i; fi; done",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}

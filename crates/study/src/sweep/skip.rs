//! Conditions for skipping points: expressions over the parameters, like `streams*block > 64Mi` or `mode == 'fast' && n % 2 == 1`.
//!
//! `||`, `&&`, `!`, comparisons, `+ - * / %` and parentheses, with C's precedence; numbers with or without `Ki`, `Mi`, `Gi`; words in
//! quotes. Names must not contain `-` here: it is a minus.

use super::values::{Value, plain_number};
use thalweg_base::numbers;

/// A value in an expression.
#[derive(Clone, Debug, PartialEq)]
enum Term {
    Number(f64),
    Word(String),
    Truth(bool),
}

/// Whether the expression holds for these values of the parameters.
pub(super) fn holds<'v>(expression: &str, value: impl Fn(&str) -> Option<&'v Value>) -> Result<bool, String> {
    let tokens = tokens(expression)?;
    let mut reader = Reader { tokens: &tokens, at: 0, value: &|name: &str| value(name).cloned(), depth: 0 };
    let found = reader.either()?;
    match (found, reader.peek()) {
        (Term::Truth(holds), None) => Ok(holds),
        (_, Some(token)) => Err(format!("did not expect `{token}`")),
        (_, None) => Err("is not a condition: expected a comparison, like streams*block > 64Mi".to_owned()),
    }
}

fn tokens(text: &str) -> Result<Vec<String>, String> {
    let (mut found, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' => rest[1..].find(first).map(|end| end + 2).ok_or("a quote is not closed")?,
            c if c.is_alphanumeric() || c == '_' || c == '.' => {
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len())
            }
            _ => ["||", "&&", "==", "!=", "<=", ">="]
                .iter()
                .find(|sign| rest.starts_with(**sign))
                .map_or(first.len_utf8(), |sign| sign.len()),
        };
        found.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    Ok(found)
}

struct Reader<'a> {
    tokens: &'a [String],
    at: usize,
    value: &'a dyn Fn(&str) -> Option<Value>,
    depth: usize,
}

/// Maximum nesting of parentheses.
const DEEPEST: usize = 64;

impl Reader<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    /// Takes the next token, if it is one of these.
    fn one_of(&mut self, signs: &[&str]) -> Option<String> {
        let found = self.peek().filter(|token| signs.contains(token))?.to_owned();
        self.at += 1;
        Some(found)
    }

    fn either(&mut self) -> Result<Term, String> {
        let mut left = self.both()?;
        while self.one_of(&["||"]).is_some() {
            let right = self.both()?;
            left = Term::Truth(truth(&left)? | truth(&right)?);
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Term, String> {
        let mut left = self.compared()?;
        while self.one_of(&["&&"]).is_some() {
            let right = self.compared()?;
            left = Term::Truth(truth(&left)? & truth(&right)?);
        }
        Ok(left)
    }

    fn compared(&mut self) -> Result<Term, String> {
        let left = self.sum()?;
        let Some(sign) = self.one_of(&["==", "!=", "<=", ">=", "<", ">"]) else { return Ok(left) };
        let right = self.sum()?;
        let holds = match (sign.as_str(), &left, &right) {
            ("==", ..) => left == right,
            ("!=", ..) => left != right,
            (sign, Term::Number(a), Term::Number(b)) => match sign {
                "<" => a < b,
                ">" => a > b,
                "<=" => a <= b,
                _ => a >= b,
            },
            (sign, ..) => return Err(format!("`{sign}` compares numbers, but one side is not a number")),
        };
        Ok(Term::Truth(holds))
    }

    fn sum(&mut self) -> Result<Term, String> {
        let mut left = self.product()?;
        while let Some(sign) = self.one_of(&["+", "-"]) {
            let (a, b) = (number(&left)?, number(&self.product()?)?);
            left = Term::Number(if sign == "+" { a + b } else { a - b });
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Term, String> {
        let mut left = self.single()?;
        while let Some(sign) = self.one_of(&["*", "/", "%"]) {
            let (a, b) = (number(&left)?, number(&self.single()?)?);
            left = Term::Number(match sign.as_str() {
                "*" => a * b,
                "/" => a / b,
                _ => a % b,
            });
        }
        Ok(left)
    }

    fn single(&mut self) -> Result<Term, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("parentheses are nested deeper than {DEEPEST}"));
        }
        let token = self.peek().ok_or("ends too early")?.to_owned();
        self.at += 1;
        let found = match token.as_str() {
            "(" => {
                let inside = self.either()?;
                self.one_of(&[")"]).ok_or("a parenthesis is not closed")?;
                inside
            }
            "!" => Term::Truth(!truth(&self.single()?)?),
            "-" => Term::Number(-number(&self.single()?)?),
            quoted if quoted.starts_with(['\'', '"']) => Term::Word(quoted[1..quoted.len() - 1].to_owned()),
            other if other.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
                let bytes = || numbers::parse_size(other).ok().map(|bytes| bytes as f64);
                Term::Number(plain_number(other).or_else(bytes).ok_or_else(|| format!("`{other}` is not a number"))?)
            }
            name => match (self.value)(name) {
                Some(Value { number: Some(number), .. }) => Term::Number(number),
                Some(word) => Term::Word(word.word),
                None => return Err(format!("no parameter `{name}` (write a word in quotes: '{name}')")),
            },
        };
        self.depth -= 1;
        Ok(found)
    }
}

fn truth(term: &Term) -> Result<bool, String> {
    if let Term::Truth(holds) = term { Ok(*holds) } else { Err("`&&`, `||` and `!` need conditions on both sides".to_owned()) }
}

fn number(term: &Term) -> Result<f64, String> {
    if let Term::Number(number) = term { Ok(*number) } else { Err("cannot calculate with a value that is not a number".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str) -> Result<bool, String> {
        let value = |label: &str, number: Option<f64>| Value { number, ..Value::word(label) };
        let (streams, block, mode) = (value("4", Some(4.0)), value("16Mi", Some(f64::from(1 << 24))), value("fast", None));
        holds(expression, move |name| {
            Some(match name {
                "streams" => Box::leak(Box::new(streams.clone())),
                "block" => Box::leak(Box::new(block.clone())),
                "mode" => Box::leak(Box::new(mode.clone())),
                _ => return None,
            })
        })
    }

    #[test]
    fn conditions_are_read_as_in_c() {
        for (expression, expected) in [
            ("streams*block > 64Mi", false),
            ("streams*block >= 64Mi", true),
            ("mode == 'fast' && streams % 3 == 1", true),
            ("!(mode == \"fast\") || streams + 2 * 3 == 10", true),
            ("1 + 1 == 3 || 2 > 1 && 3 < 2", false),
            ("-streams < 0", true),
            ("streams != 4 || block / 1Ki == 16Ki", true),
        ] {
            assert_eq!(check(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for (expression, says) in [
            ("stream > 4", "no parameter `stream`"),
            ("streams", "is not a condition"),
            ("streams >", "ends too early"),
            ("(streams > 1", "not closed"),
            ("streams > 1 2", "did not expect `2`"),
            ("mode > 1", "compares numbers"),
            ("mode + 1 == 2", "cannot calculate"),
            ("streams && 1 == 1", "need conditions"),
            ("streams > 4Kx", "is not a number"),
            ("'a", "not closed"),
            (&"(".repeat(100), "deeper"),
        ] {
            let error = check(expression).unwrap_err();
            assert!(error.contains(says), "{expression}: {error}");
        }
    }
}

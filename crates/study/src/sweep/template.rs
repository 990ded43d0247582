//! Templates: `{NAME}` stands for a parameter's value, `{run}` for a number unique to the run. `{{NAME}}` is the text `{NAME}` itself;
//! braces around anything that cannot be a name are left unchanged.

use super::values::is_name;

/// A piece of a template.
enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Returns the pieces of a template, in order.
fn pieces(template: &str) -> Vec<Piece<'_>> {
    let (mut found, mut rest) = (Vec::new(), template);
    while let Some(open) = rest.find('{') {
        let inside = &rest[open + 1..];
        let doubled = inside.strip_prefix('{').and_then(|inside| Some((inside, inside.find("}}")?)));
        if let Some((inside, end)) = doubled.filter(|(inside, end)| is_name(&inside[..*end])) {
            found.extend([Piece::Text(&rest[..open]), Piece::Text(&rest[open + 1..open + end + 3])]);
            rest = &inside[end + 2..];
            continue;
        }
        match inside.find('}').filter(|end| is_name(&inside[..*end])) {
            Some(end) => {
                found.extend([Piece::Text(&rest[..open]), Piece::Name(&inside[..end])]);
                rest = &inside[end + 1..];
            }
            None => {
                found.push(Piece::Text(&rest[..=open]));
                rest = inside;
            }
        }
    }
    found.push(Piece::Text(rest));
    found
}

/// Returns the names in a template.
pub(super) fn names(template: &str) -> Vec<&str> {
    pieces(template).into_iter().filter_map(|piece| if let Piece::Name(name) = piece { Some(name) } else { None }).collect()
}

/// Returns the name, if the template is a single placeholder.
pub(super) fn alone(template: &str) -> Option<&str> {
    let inside = template.strip_prefix('{')?.strip_suffix('}')?;
    is_name(inside).then_some(inside)
}

/// Fills a template's placeholders; the caller has checked the names.
pub(super) fn filled<'v>(template: &str, value: impl Fn(&str) -> Option<&'v str>) -> String {
    pieces(template)
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Name(name) => value(name).unwrap_or_default(),
        })
        .collect()
}

/// Splits a command line at spaces, with quotes and backslashes as in a shell; nothing else is special.
pub(super) fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars();
    while let Some(c) = letters.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => word.get_or_insert_default().push(letters.next().ok_or("ends in a backslash")?),
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(open) => Err(format!("a quote ({open}) is not closed")),
        None if words.is_empty() => Err("is empty".to_owned()),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_and_other_braces_left_alone() {
        let fill = |text: &str| filled(text, |name| if name == "n" { Some("7") } else { None });
        assert_eq!(fill("-p{n}x{n}"), "-p7x7");
        assert_eq!(fill("{print $1} {{n}} {n"), "{print $1} {n} {n");
        assert_eq!(fill("{{n"), "{{n");
        assert_eq!(fill("{}{ n }"), "{}{ n }");
        assert_eq!(names("a{b}{{c}}{d-e}"), ["b", "d-e"]);
    }

    #[test]
    fn a_command_line_is_parted_as_a_shell_would() {
        assert_eq!(words(r#"a 'b c'  "d\"e" f\ g ''"#).unwrap(), ["a", "b c", "d\"e", "f g", ""]);
        assert!(words("a 'b").unwrap_err().contains("not closed"));
        assert!(words("  ").is_err() && words("a\\").is_err());
    }
}

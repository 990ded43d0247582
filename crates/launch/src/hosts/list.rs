//! Lists of hosts as Slurm writes them: `login,n[01-03,7],r[1-2]c[0-1]`.
//!
//! A bracket holds numbers and ranges of numbers; a range keeps the width of its first number. Several brackets in one name expand to all
//! combinations.

/// Bound: maximum hosts of one job, equal to the maximum I/O servers of a store.
const MOST: usize = 4096;

/// Expands a list to all its hosts, in order.
pub(super) fn expand(text: &str) -> Result<Vec<String>, String> {
    let mut hosts = Vec::new();
    for item in items(text)? {
        if item.is_empty() {
            return Err("expected a host between commas, as in a,b,n[01-04]".to_owned());
        }
        hosts.extend(combinations(item)?);
        if hosts.len() > MOST {
            return Err(format!("more than {MOST} hosts: split the job"));
        }
    }
    match hosts.iter().find(|host| !is_host(host)) {
        Some(wrong) => Err(format!("`{wrong}` is not a host name: expected letters, digits, `.`, `_` and `-`, or an address")),
        None => Ok(hosts),
    }
}

/// Returns whether the text can be a host name or address. A leading dash is rejected: the starter would take it for a flag.
pub(super) fn is_host(text: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_name = text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.len() <= 253 && text.chars().all(known);
    is_name || text.parse::<std::net::IpAddr>().is_ok()
}

/// Splits at commas outside brackets.
fn items(text: &str) -> Result<Vec<&str>, String> {
    let (mut items, mut from, mut is_within) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' if is_within => return Err("a bracket within a bracket: expected numbers and ranges, as in n[01-04,7]".to_owned()),
            '[' => is_within = true,
            ']' if !is_within => return Err("a `]` without its `[`".to_owned()),
            ']' => is_within = false,
            ',' if !is_within => {
                items.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    if is_within {
        return Err("a `[` without its `]`: expected numbers and ranges, as in n[01-04,7]".to_owned());
    }
    items.push(text[from..].trim());
    Ok(items)
}

/// Expands one name with its brackets.
fn combinations(item: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some(open) = rest.find('[') {
        let close = rest.find(']').ok_or("a `[` without its `]`")?;
        let numbers = numbers(&rest[open + 1..close])?;
        if names.len().saturating_mul(numbers.len()) > MOST {
            return Err(format!("`{item}` stands for more than {MOST} hosts, the maximum of a job"));
        }
        let before = &rest[..open];
        names = names.iter().flat_map(|name| numbers.iter().map(move |number| format!("{name}{before}{number}"))).collect();
        rest = &rest[close + 1..];
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

/// Expands the content of a bracket.
fn numbers(text: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for range in text.split(',') {
        let wrong = || format!("`[{text}]`: `{range}` is neither a number nor a range: expected as in [01-04,7]");
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |digits: &str| digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
        let (Some(low), Some(high)) = (number(first), number(last)) else { return Err(wrong()) };
        if high < low {
            return Err(format!("`[{text}]`: `{range}` runs backward: expected the lower number first"));
        }
        if high - low >= MOST as u64 {
            return Err(format!("`[{text}]`: `{range}` is more than {MOST} hosts, the maximum of a job"));
        }
        let width = first.len();
        all.extend((low..=high).map(|n| format!("{n:0width$}")));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_keep_their_width_and_brackets_combine() {
        let all = |text: &str| expand(text).unwrap().join(" ");
        assert_eq!(all("a"), "a");
        assert_eq!(all("n[01-03,7]"), "n01 n02 n03 n7");
        assert_eq!(all("login, n[8-10]-ib,10.0.0.7"), "login n8-ib n9-ib n10-ib 10.0.0.7");
        assert_eq!(all("n[098-101]"), "n098 n099 n100 n101");
        assert_eq!(all("r[1-2]c[0-1]"), "r1c0 r1c1 r2c0 r2c1");
        assert_eq!(all("::1,localhost,localhost"), "::1 localhost localhost");
        assert_eq!(expand("n[1-4096]").unwrap().len(), MOST);
    }

    #[test]
    fn each_mistake_is_named() {
        for (text, says) in [
            ("", "expected a host between commas"),
            ("a,,b", "expected a host between commas"),
            ("n[01-", "a `[` without its `]`"),
            ("n1]", "a `]` without its `[`"),
            ("n[1-[2]]", "a bracket within a bracket"),
            ("n[3-1]", "`3-1` runs backward"),
            ("n[a-b]", "`a-b` is neither a number nor a range"),
            ("n[]", "is neither a number nor a range"),
            ("n[+1]", "is neither a number nor a range"),
            ("n[0-999999999]", "more than 4096 hosts"),
            ("r[0-99]c[0-99]", "stands for more than 4096 hosts"),
            ("n[1-4096],m", "more than 4096 hosts"),
            ("-oProxyCommand=x", "is not a host name"),
            ("a b", "is not a host name"),
        ] {
            let error = expand(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}

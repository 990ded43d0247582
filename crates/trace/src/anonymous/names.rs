//! Names and their substitutes: a name has the same substitute everywhere in a recording.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

/// Whether a character may be in a name; all others separate names.
fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || !c.is_ascii() || "_-.+~@%#$".contains(c)
}

fn public() -> &'static HashSet<&'static str> {
    static PUBLIC: OnceLock<HashSet<&'static str>> = OnceLock::new();
    let lines = || include_str!("public.txt").lines().filter(|line| !line.starts_with('#'));
    PUBLIC.get_or_init(|| lines().flat_map(str::split_whitespace).collect())
}

/// Names replaced so far.
#[derive(Default)]
pub(super) struct Names {
    names: HashMap<String, String>,
    addresses: HashMap<String, String>,
}

impl Names {
    /// Replaces the names and addresses in `text`; separators stay, and with them the structure of paths, options and
    /// lists.
    pub(super) fn text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let (mut rest, mut before) = (text, ' ');
        while let Some(first) = rest.chars().next() {
            if let Some((address, after)) = self.address(rest, before) {
                out.push_str(&address);
                (rest, before) = (after, '0');
                continue;
            }
            if !is_of_name(first) {
                // (Control characters are replaced too.)
                out.push(if first.is_control() && first != '\n' { ' ' } else { first });
                (rest, before) = (&rest[first.len_utf8()..], first);
                continue;
            }
            let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
            out.push_str(&self.word(&rest[..end], before == '/'));
            (rest, before) = (&rest[end..], 'n');
        }
        out
    }

    /// Returns the substitute of an address at the start of `text`, and the rest.
    fn address<'a>(&mut self, text: &'a str, before: char) -> Option<(String, &'a str)> {
        if is_of_name(before) && before != '@' || before == ':' {
            return None;
        }
        let end = text.find(|c: char| !(c.is_ascii_hexdigit() || c == '.' || c == ':')).unwrap_or(text.len());
        let whole = &text[..end];
        let dotted = &whole[..whole.find(':').unwrap_or(whole.len())];
        let follows = |length: usize| text[length..].chars().next().is_some_and(|c| is_of_name(c) && c != '%');
        if let Some(address) = dotted.parse::<Ipv4Addr>().ok().filter(|_| !follows(dotted.len())) {
            return Some((self.v4(address), &text[dotted.len()..]));
        }
        let is_hardware = whole.len() == 17 && whole.split(':').count() == 6 && whole.split(':').all(|part| part.len() == 2);
        if is_hardware && !follows(whole.len()) {
            let n = self.addresses.len() as u16 + 1;
            let [high, low] = n.to_be_bytes();
            let named = self.addresses.entry(whole.to_owned()).or_insert_with(|| format!("02:00:00:00:{high:02x}:{low:02x}"));
            return Some((named.clone(), &text[whole.len()..]));
        }
        let address = whole.parse::<Ipv6Addr>().ok().filter(|_| whole.matches(':').count() > 1 && !follows(whole.len()))?;
        Some((self.v6(address), &text[whole.len()..]))
    }

    fn v4(&mut self, address: Ipv4Addr) -> String {
        if address.is_loopback() || address.is_unspecified() || address.is_broadcast() {
            return address.to_string();
        }
        let n = self.addresses.len() as u32 + 1;
        let [_, a, b, c] = n.to_be_bytes();
        self.addresses.entry(address.to_string()).or_insert_with(|| Ipv4Addr::new(10, a, b, c).to_string()).clone()
    }

    fn v6(&mut self, address: Ipv6Addr) -> String {
        if address.is_loopback() || address.is_unspecified() {
            return address.to_string();
        }
        if let Some(mapped) = address.to_ipv4_mapped() {
            return format!("::ffff:{}", self.v4(mapped));
        }
        let n = self.addresses.len() as u16 + 1;
        self.addresses.entry(address.to_string()).or_insert_with(|| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n).to_string()).clone()
    }

    /// Returns the substitute of one name. `in_path`: it is part of a path, where a number is a name too.
    fn word(&mut self, word: &str, in_path: bool) -> String {
        if let Ok(address) = word.parse() {
            return self.v4(address);
        }
        if is_public(word) || is_quantity(word) && !(in_path && word.len() > 3) || !word.contains(char::is_alphanumeric) && word.is_ascii()
        {
            return word.to_owned();
        }
        // An option: its name belongs to the program, a value attached to a letter does not.
        if let Some(option) = word.strip_prefix("--") {
            let is_name = option.chars().all(|c| c.is_ascii_lowercase() || c == '-') && option.len() <= 24;
            return if is_name { word.to_owned() } else { format!("--{}", self.word(option, false)) };
        }
        if let Some(option) = word.strip_prefix('-') {
            let letter = option.chars().next().filter(char::is_ascii_alphabetic);
            return match letter {
                Some(letter) if option.len() == 1 => format!("-{letter}"),
                Some(letter) => format!("-{letter}{}", self.word(&option[1..], false)),
                None => format!("-{}", self.word(option, false)),
            };
        }
        for mark in ['@', '%', '#', '$', '~', '+'] {
            if let Some((one, other)) = word.split_once(mark) {
                let (one, other) = (self.part(one), self.part(other));
                return format!("{one}{mark}{other}");
            }
        }
        if let Some(stem) = word.strip_suffix('.') {
            return format!("{}.", self.part(stem));
        }
        if let Some(stem) = word.strip_prefix('.') {
            return format!(".{}", self.part(stem));
        }
        if let Some((stem, end)) = word.rsplit_once('.')
            && (public().contains(format!(".{end}").as_str())
                || end.bytes().all(|byte| byte.is_ascii_digit()) && end.len() <= 3 && !stem.ends_with(|c: char| c.is_ascii_digit()))
        {
            let stem = self.part(stem);
            return format!("{stem}.{end}");
        }
        // Database journals are recognised by their suffix.
        if let Some(stem) = word.strip_suffix("-wal").or_else(|| word.strip_suffix("-journal")) {
            let end = &word[stem.len()..];
            return format!("{}{end}", self.part(stem));
        }
        // Threads of a pool and files of a set share the prefix before their number.
        let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
        if !stem.is_empty() && !stem.ends_with('.') && (1..=4).contains(&(word.len() - stem.len())) {
            return format!("{}{}", self.part(stem), &word[stem.len()..]);
        }
        let number = self.names.len();
        self.names.entry(word.to_owned()).or_insert_with(|| letters(number)).clone()
    }

    fn part(&mut self, word: &str) -> String {
        if word.is_empty() { String::new() } else { self.word(word, true) }
    }
}

/// Returns an unused name, without digits at its end: they would mark it as one of a series.
fn letters(mut number: usize) -> String {
    let mut name = vec![b'a' + (number % 26) as u8];
    while number >= 26 {
        number = number / 26 - 1;
        name.push(b'a' + (number % 26) as u8);
    }
    name.push(b'N');
    name.reverse();
    String::from_utf8_lossy(&name).into_owned()
}

/// Whether a word is public.
fn is_public(word: &str) -> bool {
    public().contains(word) || is_numbered(word)
}

/// Whether a word is an enumerated name: `sda1`, `nvme0n1p2`, `loop0`, `io3`, `cpu7`, `u8`.
fn is_numbered(word: &str) -> bool {
    const COUNTED: &[&str] = &[
        "loop",
        "md",
        "zram",
        "sr",
        "dm-",
        "io",
        "cpu",
        "cpu-",
        "u",
        "eth",
        "ram",
        "nbd",
        "mmcblk",
        "tty",
        "ib_logfile",
        "pgsql_tmp",
        "Thread-",
        "kswapd",
        "rank",
        "kcompactd",
        "event",
        "host",
        "x",
    ];
    let digits = |text: &str| !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_disk = |text: &str| {
        let letters = ["xvd", "sd", "vd", "hd"].iter().find_map(|begin| text.strip_prefix(begin));
        letters.is_some_and(|rest| {
            let number = rest.trim_start_matches(|c: char| c.is_ascii_lowercase());
            (1..=2).contains(&(rest.len() - number.len())) && (number.is_empty() || digits(number))
        })
    };
    let is_nvme = |text: &str| {
        let rest = text.strip_prefix("nvme").unwrap_or_default();
        !rest.is_empty() && rest.len() <= 8 && rest.split(['n', 'p', 'c']).all(|part| digits(part) || part.is_empty())
    };
    let is_interpreter = |text: &str| {
        let version = ["python", "perl", "ruby", "php", "lua", "libpython"].iter().find_map(|begin| text.strip_prefix(begin));
        version.is_some_and(|version| !version.is_empty() && version.split('.').all(digits))
    };
    COUNTED.iter().any(|begin| word.strip_prefix(begin).is_some_and(digits)) || is_disk(word) || is_nvme(word) || is_interpreter(word)
}

/// Whether a word is a number, or a size or time with its unit.
fn is_quantity(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = word.len() - unit.len();
    let is_hexadecimal =
        word.strip_prefix("0x").is_some_and(|digits| digits.len() <= 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    number > 0 && (unit.is_empty() || unit.len() <= 4 && public().contains(unit)) || is_hexadecimal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_replacement_and_paths_options_sizes_and_programs_keep_their_form() {
        let mut names = Names::default();
        let mut said = |text: &str| names.text(text);
        assert_eq!(said("/home/alice/big-run.tar.gz"), "/home/Na/Nb.tar.gz");
        assert_eq!(said("big-run.tar.gz alice"), "Nb.tar.gz Na");
        assert_eq!(said("dd if=/home/alice/x bs=1M count=16"), "dd Nc=/home/Na/Nd Ne=1M Nf=16");
        assert_eq!(said("192.168.7.4:2049 > 127.0.0.1:900"), "10.0.0.1:2049 > 127.0.0.1:900");
        assert_eq!(said("[2001:db8::7]:2049 192.168.7.4"), "[fd00::2]:2049 10.0.0.1");
        assert_eq!(said("52:54:00:12:34:56"), "02:00:00:00:00:03");
        assert_eq!(said("--block-size=4Ki -ualice -p 22 alice@192.168.7.4:/x"), "--block-size=4Ki -uNa -p 22 Na@10.0.0.1:/Nd");
        assert_eq!(said("/dev/nvme0n1p2 sda1 vdb io3 kworker/u8:1"), "/dev/nvme0n1p2 sda1 vdb io3 kworker/u8:1");
        assert_eq!(said("/data/20261129/7 worker-of-alice-12 worker-of-alice-3"), "/data/Ng/7 Nh12 Nh3");
        assert_eq!(said("größe"), "Ni");
        assert_eq!((letters(25), letters(26), letters(701), letters(702)), ("Nz".into(), "Naa".into(), "Nzz".into(), "Naaa".into()));
    }
}

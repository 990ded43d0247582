//! Cycles between the files of a crate are not allowed: of two files, at most one may use the other, directly or indirectly.
//!
//! A name counts for the file that defines it, whichever module re-exports it, so a `mod.rs` that only lists its modules is in no cycle. A
//! glob (`use super::*`) counts for the names that the file mentions. `mod child;` alone is not a use. Unit tests are excluded. Method
//! calls are not seen, since no path names them: every reported cycle exists, but not all are found.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Modules of a crate with a one-way dependency: no file of the first uses one of the second, directly or indirectly.
const ONE_WAY: [(&str, &str, &str); 3] =
    [("explain", "replay", "assemble"), ("explain", "facts", "assemble"), ("explain", "facts", "replay")];

/// A module's path within its crate, from the root.
type ModulePath = Vec<String>;

/// A file of a crate.
struct File {
    /// Relative to the crate's `src`.
    name: String,
    /// Its tokens, without its `use` lines.
    tokens: Vec<String>,
    /// The names it defines at top level.
    defines: BTreeSet<String>,
    uses: Vec<Use>,
}

/// A name of a `use` line.
struct Use {
    /// The local name; `*` for a glob.
    name: String,
    path: Vec<String>,
    /// A re-export, which counts as a use only if the code mentions it.
    published: bool,
}

/// The files of a crate, by module.
struct Crate(BTreeMap<ModulePath, File>);

/// Returns the text's tokens, without comments and string literals.
fn tokens(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        let rest = &text[at..];
        let byte = bytes[at];
        let after = |end: &str, from: usize| rest[from..].find(end).map_or(rest.len(), |p| from + p + end.len());
        let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || !b.is_ascii();
        let length = if rest.starts_with("//") {
            after("\n", 0)
        } else if rest.starts_with("/*") {
            after("*/", 2)
        } else if rest.starts_with("r#\"") {
            after("\"#", 3)
        } else if byte == b'"' {
            let mut end = 1;
            while end < rest.len() && bytes[at + end] != b'"' {
                end += if bytes[at + end] == b'\\' { 2 } else { 1 };
            }
            end + 1
        } else if byte == b'\'' {
            // A character literal, or a lifetime, of which only the quote is skipped.
            match &bytes[at + 1..] {
                [b'\\', ..] => after("'", 3),
                [_, b'\'', ..] => 3,
                [b, ..] if !b.is_ascii() => after("'", 1),
                _ => 1,
            }
        } else if is_word(&byte) {
            let length = bytes[at..].iter().take_while(|b| is_word(b)).count();
            found.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            found.push("::".to_owned());
            2
        } else {
            if !byte.is_ascii_whitespace() {
                found.push(char::from(byte).to_string());
            }
            1
        };
        at += length;
    }
    found
}

/// Returns the end of the item that starts at `from`: after its `;`, or after the brace that closes its first.
fn end_of_item(tokens: &[String], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && token == "}" {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Removes the items that are compiled for tests only.
fn without_tests(tokens: &[String], test_modules: &mut Vec<String>) -> Vec<String> {
    const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut at, mut kept) = (0, Vec::new());
    while at < tokens.len() {
        if tokens[at..].len() >= TEST.len() && tokens[at..].iter().zip(TEST).all(|(token, test)| token == test) {
            let end = end_of_item(tokens, at + TEST.len());
            if let [.., module, name, semicolon] = &tokens[at..end]
                && module == "mod"
                && semicolon == ";"
            {
                test_modules.push(name.clone());
            }
            at = end;
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// Expands a `use` tree to its names with their whole paths.
fn expand(tokens: &[String], at: &mut usize, prefix: &[String], found: &mut Vec<(String, Vec<String>)>) {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        match token.as_str() {
            "::" => {}
            "{" => {
                while tokens.get(*at).is_some_and(|t| t != "}" && t != ";") {
                    expand(tokens, at, &path, found);
                    *at += usize::from(tokens.get(*at).is_some_and(|t| t == ","));
                }
                *at += 1;
                return;
            }
            "as" => {
                found.push((tokens.get(*at).cloned().unwrap_or_default(), path));
                *at += 1;
                return;
            }
            "," | "}" | ";" => {
                *at -= 1;
                break;
            }
            name => path.push(name.to_owned()),
        }
    }
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(name) = path.last().cloned() {
        found.push((name, path));
    }
}

impl File {
    fn new(name: String, tokens: Vec<String>) -> File {
        const KINDS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];
        let (mut defines, mut uses, mut depth) = (BTreeSet::new(), Vec::new(), 0_usize);
        let (mut at, mut others) = (0, Vec::new());
        while let Some(token) = tokens.get(at) {
            at += 1;
            let next = || tokens[at..].iter().find(|t| t.as_str() != "!" && t.as_str() != "mut");
            match token.as_str() {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                "use" if tokens.get(at).is_some_and(|t| t != "<") => {
                    let published = at > 1 && matches!(tokens[at - 2].as_str(), "pub" | ")");
                    let mut names = Vec::new();
                    expand(&tokens, &mut at, &[], &mut names);
                    uses.extend(names.into_iter().map(|(name, path)| Use { name, path, published }));
                    continue;
                }
                kind if depth == 0 && KINDS.contains(&kind) => defines.extend(next().cloned()),
                _ => {}
            }
            others.push(token.clone());
        }
        File { name, tokens: others, defines, uses }
    }

    /// Iterates over the paths in the code itself.
    fn inline(&self) -> impl Iterator<Item = Vec<String>> {
        let begins = |at: usize| at == 0 || self.tokens[at - 1] != "::";
        let is_path = move |at: &usize| begins(*at) && self.tokens.get(at + 1).is_some_and(|t| t == "::");
        (0..self.tokens.len()).filter(is_path).map(|at| {
            let pairs = self.tokens[at..].chunks(2);
            let mut path = Vec::new();
            for pair in pairs {
                path.push(pair[0].clone());
                if pair.get(1).is_none_or(|t| t != "::") {
                    break;
                }
            }
            path
        })
    }
}

impl Crate {
    fn read(source: &Path) -> Crate {
        let mut texts = BTreeMap::new();
        super::visit(source, &mut |path| {
            if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(source).unwrap_or(path).display().to_string();
                texts.insert(name, std::fs::read_to_string(path).expect("a source file is text"));
            }
        });
        Crate::new(&texts)
    }

    fn new(texts: &BTreeMap<String, String>) -> Crate {
        let (mut files, mut of_tests) = (BTreeMap::new(), BTreeSet::new());
        for (name, text) in texts {
            let mut module: ModulePath = name.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if module.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
                module.pop();
            }
            let mut test_modules = Vec::new();
            let tokens = without_tests(&tokens(text), &mut test_modules);
            of_tests.extend(test_modules.into_iter().map(|test| [module.as_slice(), &[test]].concat()));
            files.insert(module, File::new(name.clone(), tokens));
        }
        files.retain(|module, _| (1..=module.len()).all(|depth| !of_tests.contains(&module[..depth])));
        Crate(files)
    }

    /// Returns the module where a path starts, and the rest of the path; `None` for a path into another crate.
    fn start<'p>(&self, from: &[String], path: &'p [String]) -> Option<(ModulePath, &'p [String])> {
        let mut at = from.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|s| s == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            child if self.0.contains_key(&[from, &[child.to_owned()]].concat()) => {}
            _ => return None,
        }
        Some((at, rest))
    }

    /// Returns the file that defines what a path names, through any number of re-exports.
    fn definer(&self, from: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        let (mut at, mut rest) = self.start(from, path)?;
        while let Some(next) = rest.first() {
            let deeper = [at.as_slice(), std::slice::from_ref(next)].concat();
            if !self.0.contains_key(&deeper) {
                break;
            }
            (at, rest) = (deeper, &rest[1..]);
        }
        let file = self.0.get(&at)?;
        let Some(name) = rest.first() else { return Some(at) };
        if file.defines.contains(name) || depth == 0 {
            return Some(at);
        }
        // An import by name is trusted (a macro may have defined it); a glob only if the name is defined there.
        let named = file.uses.iter().filter(|used| used.name == *name);
        if let Some(found) = named.filter_map(|used| self.definer(&at, &used.path, depth - 1)).next() {
            return Some(found);
        }
        for glob in file.uses.iter().filter(|used| used.name == "*" && used.path.len() > 1) {
            let path = [&glob.path[..glob.path.len() - 1], std::slice::from_ref(name)].concat();
            let found = self.definer(&at, &path, depth - 1);
            if found.as_ref().is_some_and(|found| self.0[found].defines.contains(name)) {
                return found;
            }
        }
        // An external import, or a macro's product: counts for the named module.
        Some(at)
    }

    /// Returns which file uses which, by module.
    fn edges(&self) -> BTreeMap<&ModulePath, BTreeSet<ModulePath>> {
        let mut edges = BTreeMap::new();
        for (module, file) in &self.0 {
            let mut used = BTreeSet::new();
            let mentioned: BTreeSet<&String> = file.tokens.iter().collect();
            for Use { name, path, published } in &file.uses {
                if name == "*" {
                    let within = &path[..path.len() - 1];
                    for word in &mentioned {
                        let found = self.definer(module, &[within, &[(*word).clone()]].concat(), 8);
                        used.extend(found.filter(|found| self.0[found].defines.contains(*word)));
                    }
                } else if !published || mentioned.contains(name) {
                    used.extend(self.definer(module, path, 8));
                }
            }
            for path in file.inline() {
                used.extend(self.definer(module, &path, 8));
            }
            used.remove(module);
            edges.insert(module, used);
        }
        edges
    }

    /// Returns the sets of files that reach each other, with the uses within each.
    fn circles(&self) -> Vec<Vec<(String, Vec<String>)>> {
        let edges = self.edges();
        let reached: HashMap<&ModulePath, BTreeSet<&ModulePath>> = edges.keys().map(|from| (*from, reached(&edges, from))).collect();
        let mut circles: Vec<Vec<(String, Vec<String>)>> = Vec::new();
        let mut done = BTreeSet::new();
        for from in edges.keys() {
            let members: Vec<&ModulePath> = reached[from].iter().filter(|to| reached[**to].contains(from)).copied().collect();
            if members.is_empty() || !done.insert(members.clone()) {
                continue;
            }
            let name = |module: &ModulePath| self.0[module].name.clone();
            let used = |module: &ModulePath| edges[module].iter().filter(|to| members.contains(to)).map(name).collect();
            circles.push(members.iter().map(|module| (name(module), used(module))).collect());
        }
        circles
    }

    /// Returns files of one module that reach another, with those that they reach.
    fn against(&self, room: &str, other: &str) -> Vec<(String, Vec<String>)> {
        let edges = self.edges();
        let is_of = |module: &ModulePath, room: &str| module.first().is_some_and(|first| first == room);
        assert!([room, other].iter().all(|room| edges.keys().any(|module| is_of(module, room))), "there is no room {room} or {other}");
        let own = edges.keys().filter(|module| is_of(module, room));
        let found = own.map(|module| {
            let there = reached(&edges, module).into_iter().filter(|to| is_of(to, other));
            (self.0[*module].name.clone(), there.map(|to| self.0[to].name.clone()).collect::<Vec<String>>())
        });
        found.filter(|(_, there)| !there.is_empty()).collect()
    }
}

/// Returns what a file uses, directly and indirectly.
fn reached<'a>(edges: &'a BTreeMap<&ModulePath, BTreeSet<ModulePath>>, from: &ModulePath) -> BTreeSet<&'a ModulePath> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&'a ModulePath> = edges[from].iter().collect();
    while let Some(at) = next.pop() {
        if seen.insert(at) {
            next.extend(&edges[at]);
        }
    }
    seen
}

fn crates() -> Vec<PathBuf> {
    let mut crates: Vec<PathBuf> = std::fs::read_dir(super::root().join("crates")).expect("crates").flatten().map(|e| e.path()).collect();
    crates.sort();
    crates
}

#[test]
fn no_files_of_a_crate_use_each_other() {
    let (mut found, mut circles) = (0, String::new());
    for directory in crates() {
        let files = Crate::read(&directory.join("src"));
        found += files.0.len();
        for circle in files.circles() {
            circles += &format!("{}:\n", directory.file_name().unwrap_or_default().display());
            circle.iter().for_each(|(name, used)| circles += &format!("    {name} uses {}\n", used.join(" ")));
        }
    }
    assert!(found > 400, "only {found} files were found");
    assert!(
        circles.is_empty(),
        "These files of a crate use each other. Move what both need to a third, or to the one that it belongs in:\n{circles}"
    );
}

#[test]
fn rooms_of_a_crate_use_each_other_in_one_direction() {
    for (name, room, other) in ONE_WAY {
        let against = Crate::read(&super::root().join("crates").join(name).join("src")).against(room, other);
        assert!(against.is_empty(), "crates/{name}: `{room}` knows nothing of `{other}`; what both need is neither's:\n{against:#?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let texts = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Crate::new(&texts).circles().into_iter().map(|c| c.into_iter().map(|(name, _)| name).collect()).collect()
    }

    #[test]
    fn a_circle_is_found_through_re_exports_globs_and_paths_in_code() {
        let root = ("lib.rs", "mod a;\nmod b;\npub use b::{B, other as renamed};\n");
        let a = ("a.rs", "use super::B;\npub struct A;\n");
        assert_eq!(of(&[root, a, ("b.rs", "pub struct B;\npub fn other() {}\n")]), Vec::<Vec<String>>::new());
        for b in ["use crate::a::A;", "use crate::a::*;\nfn f(_: A) {}", "fn f() { let x = crate::a::A; }", "use super::{a, a::{A as C}};"]
        {
            assert_eq!(of(&[root, a, ("b.rs", &format!("{b}\npub struct B;\n"))]), [["a.rs", "b.rs"]], "{b}");
        }
    }

    #[test]
    fn a_room_reaches_another_through_a_third() {
        let against = |third: &str| {
            let files =
                [("lib.rs", "mod a;\nmod b;\nmod c;\n"), ("a.rs", "use super::c::C;\n"), ("b.rs", "pub struct B;\n"), ("c.rs", third)];
            Crate::new(&files.map(|(name, text)| (name.to_owned(), text.to_owned())).into_iter().collect()).against("a", "b")
        };
        assert_eq!(against("pub struct C;\n"), []);
        assert_eq!(against("use super::b::B;\npub struct C(B);\n"), [("a.rs".to_owned(), vec!["b.rs".to_owned()])]);
    }

    #[test]
    fn what_only_comments_strings_and_tests_name_is_not_used() {
        let a = ("a.rs", "use super::b::B;\npub struct A;\n");
        for b in
            ["// crate::a::A", "const X: &str = \"crate::a::A\";", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}", "use super::a::*;"]
        {
            assert_eq!(
                of(&[("lib.rs", "mod a;\nmod b;\n"), a, ("b.rs", &format!("{b}\npub struct B;\n"))]),
                Vec::<Vec<String>>::new(),
                "{b}"
            );
        }
        let only_tests = ("b.rs", "#[cfg(test)]\nmod made;\npub struct B;\n");
        assert_eq!(of(&[("lib.rs", "mod b;\n"), only_tests, ("b/made.rs", "use super::B;\n")]), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_child_that_needs_its_parent_while_the_parent_calls_it_is_a_circle() {
        let parent = ("lib.rs", "mod child;\nstruct Shared;\nfn f() { child::g() }\n");
        assert_eq!(of(&[parent, ("child.rs", "use super::*;\npub fn g() -> Shared { Shared }\n")]), [["lib.rs", "child.rs"]]);
        assert_eq!(of(&[parent, ("child.rs", "use super::*;\npub fn g() {}\n")]), Vec::<Vec<String>>::new());
    }
}

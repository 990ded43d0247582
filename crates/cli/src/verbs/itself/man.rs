//! `thalweg man DIR`: writes the manual pages, made from the definition of the command line.

use crate::failure::Failure;
use crate::output;
use clap_mangen::Man;
use std::path::{Path, PathBuf};

/// Arguments of `thalweg man`.
#[derive(clap::Args)]
#[command(after_help = "\
  thalweg man ~/.local/share/man/man1    then: man thalweg, man thalweg-explain

The packages install the pages.")]
pub(crate) struct Arguments {
    /// The directory for thalweg.1 and a page for each verb; made if it is missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes the pages.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let directory = &arguments.directory;
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| Failure::failed(format!("{path}: {error}"))
    };
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    let mut count = 0;
    for (name, page) in pages(&crate::command()).map_err(failed(directory))? {
        let path = directory.join(name);
        std::fs::write(&path, page).map_err(failed(&path))?;
        count += 1;
    }
    output::result(&format!("{count} pages in {}", directory.display()))
}

/// Returns the name and text of each page.
fn pages(command: &clap::Command) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    // The help of the command lists its verbs in groups; a manual page has a section of its own for them.
    let mut command = command.clone().help_template("").disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(&command, &mut pages)?;
    Ok(pages)
}

fn add(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let name = command.get_bin_name().unwrap_or(command.get_name()).replace(' ', "-");
    let man = Man::new(command.clone().display_name(&name)).title(&name).date("").source(format!("thalweg {}", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render(&mut page)?;
    pages.push((format!("{name}.1"), page));
    command.get_subcommands().filter(|verb| !verb.is_hide_set()).try_for_each(|verb| add(verb, pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_has_a_page() {
        let pages = pages(&crate::command()).unwrap();
        let page = |name: &str| String::from_utf8(pages.iter().find(|(known, _)| known == name).unwrap().1.clone()).unwrap();
        assert!(page("thalweg.1").contains("thalweg\\-explain(1)"), "{}", page("thalweg.1"));
        assert!(page("thalweg-lot-create.1").contains("size"), "{}", page("thalweg-lot-create.1"));
        assert!(pages.iter().all(|(_, page)| page.len() > 300));
    }
}

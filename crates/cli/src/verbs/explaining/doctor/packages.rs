//! The Debian packages that targets of the source tree need, for those who work in a checkout.

use serde::Serialize;
use thalweg_base::machine::has_program;

/// A package that a target of the source tree needs and this machine lacks.
#[derive(Serialize)]
pub(super) struct Package {
    pub(super) target: String,
    pub(super) package: String,
    pub(super) left_out: String,
}

/// Targets of the Makefile that only developers run.
const DEVELOPMENT_TARGETS: [&str; 3] = ["bench", "lab", "dist"];

/// Returns the packages of tools/packages that are missing here; those needed only for [`DEVELOPMENT_TARGETS`] if
/// `develop` is set. None outside a checkout.
pub(super) fn missing_packages(develop: bool) -> Vec<Package> {
    if !is_in_checkout() {
        return Vec::new();
    }
    let is_installed = |probe: &str| if probe.starts_with('/') { std::path::Path::new(probe).exists() } else { has_program(probe) };
    missing_of(include_str!("../../../../../../tools/packages"), develop, is_installed)
}

/// Whether the working directory is in a checkout of the sources.
fn is_in_checkout() -> bool {
    std::env::current_dir()
        .is_ok_and(|here| here.ancestors().any(|above| above.join("tools/packages").is_file() && above.join("crates/cli").is_dir()))
}

/// Returns the packages of `list` whose probe is not installed. A package that another target needs too is listed for that target.
fn missing_of(list: &str, develop: bool, is_installed: impl Fn(&str) -> bool) -> Vec<Package> {
    list.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut fields = line.split('|').map(str::trim);
            let (target, probe, package, left_out) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            let is_listed = develop || !DEVELOPMENT_TARGETS.contains(&target);
            let left_out = if left_out == "need" { "everything" } else { left_out };
            let missing = || Package { target: target.into(), package: package.into(), left_out: left_out.into() };
            (is_listed && !is_installed(probe)).then(missing)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_for_bench_and_lab_alone_are_listed_for_developers_only() {
        let list = "# comment\nbuild | cc | gcc | need\nbench | fio | fio | tuners\nlab | perl | perl-base | polls\n\
                    test | fio | fio | the gate\nlab | tar | tar | pipelines\n";
        let missing = |develop: bool| {
            let missing = missing_of(list, develop, |probe| probe == "tar");
            missing.into_iter().map(|package| format!("{} {}", package.target, package.package)).collect::<Vec<_>>()
        };
        assert_eq!(missing(false), ["build gcc", "test fio"]);
        assert_eq!(missing(true), ["build gcc", "bench fio", "lab perl-base", "test fio"]);
        assert_eq!(missing_of(list, false, |_| false)[0].left_out, "everything");
    }
}

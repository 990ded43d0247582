//! The verbs: one file each, one line each in the list below.

pub mod doctor;
pub mod explain;
pub mod export;
pub mod report;

use crate::failure::Failure;

/// Declares the verbs: the enum clap parses, their names, how they run, and the groups of `--help`.
macro_rules! verbs {
    ($($group:literal { $($(#[$doc:meta])* $verb:ident = $module:ident),+ $(,)? })+) => {
        /// What `thalweg` can do.
        #[derive(clap::Subcommand)]
        pub enum Verb { $($($(#[$doc])* $verb($module::Arguments)),+),+ }

        impl Verb {
            /// Its name on the command line.
            pub fn name(&self) -> &'static str {
                match self { $($(Verb::$verb(_) => stringify!($module)),+),+ }
            }

            /// Does it.
            pub fn run(self) -> Result<(), Failure> {
                match self { $($(Verb::$verb(arguments) => $module::run(&arguments)),+),+ }
            }
        }

        const GROUPS: &[(&str, &[&str])] = &[$(($group, &[$(stringify!($module)),+])),+];
    };
}

verbs! {
    "Explain" {
        /// Say where a recording's time went, and what a change would give
        Explain = explain,
        /// Draw a recording: a still picture (SVG), or a page with its tables (HTML)
        Report = report,
        /// Turn a recording into a file for Perfetto, or into CSV
        Export = export,
        /// Say what this machine can do for recordings and the demo, and how to get what is missing
        Doctor = doctor,
    }
}

/// The command with its verbs shown in their groups.
pub fn grouped(command: clap::Command) -> clap::Command {
    let mut help = String::from("{about}\n\n{usage-heading} {usage}\n");
    let width = GROUPS.iter().flat_map(|(_, verbs)| *verbs).map(|v| v.len()).max().unwrap_or(0);
    for (group, verbs) in GROUPS {
        help.push_str(&format!("\n{group}:\n"));
        for verb in *verbs {
            let about = command.find_subcommand(verb).and_then(|v| v.get_about()).map(ToString::to_string).unwrap_or_default();
            help.push_str(&format!("  {verb:width$}  {about}\n"));
        }
    }
    help.push_str("\nOptions:\n{options}{after-help}");
    command.help_template(help)
}

//! The verbs: one file each, one line each in the list below.

mod bench;
mod explain;
mod servers;
mod store;

pub use store::find::with_two_dashes;

use crate::failure::Failure;

/// Declares the verbs: the enum clap parses, their names, how they run, and the groups of `--help`.
macro_rules! verbs {
    ($($group:literal { $($(#[$doc:meta])* $verb:ident = $module:ident in $room:ident),+ $(,)? })+) => {
        /// What `thalweg` can do.
        #[derive(clap::Subcommand)]
        pub enum Verb { $($($(#[$doc])* $verb($room::$module::Arguments)),+),+ }

        impl Verb {
            /// Its name on the command line.
            pub fn name(&self) -> &'static str {
                match self { $($(Verb::$verb(_) => stringify!($module)),+),+ }
            }

            /// Does it.
            pub fn run(self) -> Result<(), Failure> {
                match self { $($(Verb::$verb(arguments) => $room::$module::run(&arguments)),+),+ }
            }
        }

        const GROUPS: &[(&str, &[&str])] = &[$(($group, &[$(stringify!($module)),+])),+];
    };
}

verbs! {
    "Explain" {
        /// Say where the time of a command or a recording went, and what a change would give
        Explain = explain in explain,
        /// Run a command, or watch a server, and keep what happened as a recording
        Record = record in explain,
        /// Make one recording of those of both ends, on one time axis
        Merge = merge in explain,
        /// Say what the RPCs in a capture, on an interface or in a recording did, and whose each stall was
        Rpcstat = rpcstat in explain,
        /// Draw a recording: a still picture (SVG), or a page with its tables (HTML)
        Report = report in explain,
        /// Turn a recording into a file for Perfetto, or into CSV
        Export = export in explain,
        /// Say what this machine can do for recordings and the demo, and how to get what is missing
        Doctor = doctor in explain,
    }
    "Store" {
        /// Start a whole store over the directories there are; it lives until Ctrl-C
        Up = up in servers,
        /// Run one server of a store.toml
        Serve = serve in servers,
        /// Copy files and trees in, out, and between stores
        Cp = cp in store,
        /// List names, sizes, times
        Ls = ls in store,
        /// Find names by what they are
        Find = find in store,
        /// Say how much room files take, directory by directory
        Du = du in store,
        /// Say what is known of a file or directory
        Stat = stat in store,
        /// Make directories
        Mkdir = mkdir in store,
        /// Remove files and directories
        Rm = rm in store,
        /// Give a file or directory another name
        Mv = mv in store,
        /// Write files to standard output
        Cat = cat in store,
        /// Say how much room each target has
        Df = df in store,
        /// Show how a file is laid out, and where each range of it is
        Layout = layout in store,
        /// Make a store a directory that any program can use
        Mount = mount in servers,
        /// Take a mounted store away, when everything is written
        Umount = umount in servers,
    }
    "Measure and tune" {
        /// Measure what each layout gives, against the disks there are
        Bench = bench in self,
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

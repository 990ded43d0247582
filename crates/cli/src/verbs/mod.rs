//! The verbs: one file and one line of the list below for each.

mod bench;
mod explaining;
mod itself;
mod measuring;
mod servers;
mod store;

pub(crate) use store::find::with_two_dashes;

use crate::failure::Failure;
use clap::{ArgMatches, Command, FromArgMatches};

/// Adds a verb's arguments to what its line in the list says of it. clap asks for this only of the verb that is used: all definitions are the
/// larger part of a start, and each start uses one.
fn defined<A: clap::Args>(verb: Command) -> Command {
    let about = verb.get_about().cloned().unwrap_or_default();
    A::augment_args(verb).about(about).long_about(None)
}

/// Declares the verbs: the enum that clap parses, their names, their `run` functions, and the groups of `--help`.
macro_rules! verbs {
    ($($group:literal { $($(#[doc = $about:literal])+ $verb:ident = $module:ident in $room:ident),+ $(,)? })+) => {
        /// A verb of `thalweg`.
        pub(crate) enum Verb { $($($(#[doc = $about])+ $verb($room::$module::Arguments)),+),+ }

        impl Verb {
            /// Returns its name on the command line.
            pub(crate) fn name(&self) -> &'static str {
                match self { $($(Verb::$verb(_) => stringify!($module)),+),+ }
            }

            /// Runs it.
            pub(crate) fn run(self) -> Result<(), Failure> {
                match self { $($(Verb::$verb(arguments) => $room::$module::run(&arguments)),+),+ }
            }
        }

        impl FromArgMatches for Verb {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Verb, clap::Error> {
                match matches.subcommand() {
                    $($(Some((name, of_verb)) if name == stringify!($module) => {
                        <$room::$module::Arguments as FromArgMatches>::from_arg_matches(of_verb).map(Verb::$verb)
                    })+)+
                    _ => Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand)),
                }
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = Verb::from_arg_matches(matches)?;
                Ok(())
            }
        }

        impl clap::Subcommand for Verb {
            fn augment_subcommands(command: Command) -> Command {
                let mut command = command;
                $($(
                    let verb = Command::new(stringify!($module)).about(concat!($($about),+).trim());
                    command = command.subcommand(verb.defer(defined::<$room::$module::Arguments>));
                )+)+
                command
            }

            fn augment_subcommands_for_update(command: Command) -> Command {
                Verb::augment_subcommands(command)
            }

            fn has_subcommand(name: &str) -> bool {
                GROUPS.iter().any(|(_, verbs)| verbs.contains(&name))
            }
        }

        const GROUPS: &[(&str, &[&str])] = &[$(($group, &[$(stringify!($module)),+])),+];
    };
}

verbs! {
    "Explain" {
        /// Show where the time of a command or a recording went, and predict what a change would gain
        Explain = explain in explaining,
        /// Record a command while it runs, or a running server
        Record = record in explaining,
        /// Compare two runs: which costs went away, which are new, and how the achieved gain compares with the predicted one
        Diff = diff in explaining,
        /// Merge the recordings of both ends on one time axis
        Merge = merge in explaining,
        /// Show the RPCs in a capture, on an interface or in a recording, and what caused each stall
        Rpcstat = rpcstat in explaining,
        /// Show where the CPU time of the whole machine went, by class of code and by stack
        Profile = profile in explaining,
        /// Draw a recording as a picture (SVG, PNG) or a page to explore (HTML), or show a directory of recordings in a browser
        Report = report in explaining,
        /// Convert a recording for Perfetto, to CSV, or its profile for other tools
        Export = export in explaining,
        /// Show which changes to well-known programs help against which cause, and what each change gives up
        Recipes = recipes in explaining,
        /// Check what this machine supports for recordings and the demo, and how to get what is missing
        Doctor = doctor in explaining,
    }
    "Store" {
        /// Start a store over some directories; it runs until Ctrl-C
        Up = up in servers,
        /// Run one server of a store that a store.toml describes
        Serve = serve in servers,
        /// Copy files and trees into, out of and between stores
        Cp = cp in store,
        /// List files and directories
        Ls = ls in store,
        /// Find files and directories by name, type, size or age
        Find = find in store,
        /// Show the space that files use, by directory
        Du = du in store,
        /// Show the attributes of a file or directory
        Stat = stat in store,
        /// Make directories
        Mkdir = mkdir in store,
        /// Remove files and directories
        Rm = rm in store,
        /// Rename a file or directory
        Mv = mv in store,
        /// Write files to standard output
        Cat = cat in store,
        /// Show the space on each target
        Df = df in store,
        /// Read and verify everything in a store, find what does not belong there, and say what is damaged
        Scrub = scrub in store,
        /// Create credentials for a store, list them and revoke them
        Credential = credential in store,
        /// Back up a store's names, restore them, and check the metadata
        Metadata = metadata in store,
        /// Reserve space of a given size for a given time
        Lot = lot in store,
        /// Show a file's layout, or plan the layout of the next one
        Layout = layout in store,
        /// Serve a store's files to a program over standard input and output, as thalweg.fs of the Python package uses them
        Session = session in store,
        /// Mount a store as a directory that any program can use
        Mount = mount in servers,
        /// Unmount a store and wait until everything is written
        Umount = umount in servers,
    }
    "Measure and tune" {
        /// Measure layouts and listings, in comparison with local disks and other systems
        Bench = bench in self,
        /// Run a command at every point of a parameter grid: which parameters matter, which setting is best, and what limits each
        Sweep = sweep in measuring,
        /// Find the fastest setting of a command in about a dozen runs, and say why it is the fastest
        Tune = tune in measuring,
    }
    "Past one machine" {
        /// Explain many recordings into one table, and query what cost most, where, for whom and since when
        Fleet = fleet in explaining,
        /// Start a store over the hosts of a job, run a program on it, and shut it down
        Launch = launch in servers,
    }
    "The command itself" {
        /// Print the code that makes a shell complete this command's lines
        Completions = completions in itself,
        /// Write the manual pages
        Man = man in itself,
    }
}

/// Returns the command with a help template that lists the verbs in their groups.
pub(crate) fn grouped(command: Command) -> Command {
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

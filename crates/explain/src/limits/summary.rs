//! What the summary of an explanation says, and what it leaves out.

// about.rs

/// Fewer bytes are a program's own: its libraries, its settings, what it prints. Instead: nothing; it is wording.
pub(crate) const LEAST_BYTES: u64 = 64 << 10;
/// Fewer bytes through a pipe are names and lines, and not what a run was about. Instead: nothing; it is wording.
pub(crate) const LEAST_PIPED: u64 = 1 << 20;
/// From here on a rate is printed without a decimal. Instead: nothing; it is wording.
pub(crate) const FEW_A_SECOND: f64 = 9.95;
/// Fewer round trips for an entry than this are none. Instead: nothing; it is wording.
pub(crate) const LEAST_ROUND_TRIPS: f64 = 0.05;
/// So many files or more are a tree, and the time for each matters. Instead: nothing; it is wording.
pub(crate) const TREE_FILES: u64 = 16;
/// So many syncs or more are a load of them. Instead: transactions, recorded by the database.
pub(crate) const LOAD_SYNCS: u64 = 16;
/// With more bytes than this for each sync, it is data that is moved. Instead: transactions, recorded by the database.
pub(crate) const MOST_BYTES_EACH: u64 = 16 << 10;
/// So many answers or more, one after the other, are what a run is about. Instead: nothing; it is wording.
pub(crate) const FEWEST_REQUESTS: u64 = 5;
/// The same where they were under way together. Instead: nothing; it is wording.
pub(crate) const LOAD_REQUESTS: u64 = 16;
/// Where this part of the connections had as many turns, each was for one thing. Instead: what was asked for on each.
pub(crate) const ALIKE: f64 = 0.9;
/// With more bytes than this for each answer, it is data that is moved. Instead: nothing; it is wording.
pub(crate) const MOST_BYTES_ANSWERED: u64 = 16 << 10;
/// Programs whose exit code 1 is an answer. Instead: nothing; they document it.
pub(crate) const ANSWER_BY_CODE: [&str; 12] =
    ["[", "cmp", "diff", "egrep", "expr", "false", "fgrep", "grep", "pgrep", "rg", "test", "zgrep"];
/// Where programs, their libraries and settings are. Instead: which files the dynamic linker and the interpreter asked for.
pub(crate) const SYSTEM: [&str; 9] = ["/usr/", "/lib", "/bin/", "/sbin/", "/etc/", "/opt/", "/proc/", "/sys/", "/nix/store/"];
/// The same, wherever they stand.
pub(crate) const OWN: [&str; 4] = [".pyc", "/site-packages/", "/dist-packages/", "/node_modules/"];

// files.rs

/// So many files created, removed or renamed, or more, are what a run was about. Instead: nothing; it is wording.
pub(crate) const LEAST_CHANGED: u64 = 100;
/// The same of files opened, stat calls and names listed: interpreters and compilers do some hundreds to start. Instead: which of them were
/// asked for by the dynamic linker and the interpreter.
pub(crate) const LEAST_LOOKED: u64 = 1_000;
/// So many opens or stat calls are a process's own: its libraries, locales, settings. Instead: as above.
pub(crate) const OWN_NAMES: u64 = 50;
/// What was done less often than this part of what was done most is by the way: a copy of a tree has three or four stat calls for each file that it
/// creates. Instead: nothing; it is wording.
pub(crate) const BY_THE_WAY: u64 = 8;
/// With more bytes than this for each file, it is data that is moved. Instead: nothing; it is wording.
pub(crate) const MOST_BYTES_A_FILE: u64 = 1 << 20;
/// The same where one file has most of the bytes and nothing was changed, or files were only removed or renamed. Instead: what was opened for the sake of what.
pub(crate) const MOST_BYTES_A_NAME: u64 = 4 << 10;

// figures.rs

/// From this part on, a wait is one in which the network was idle. Instead: nothing; it is wording.
pub(crate) const IDLE: f64 = 0.9;

// gaps.rs

/// Least number of gaps that count as recurring. Instead: nothing; fewer have no usual distance.
pub(crate) const FEWEST_GAPS: u64 = 4;
/// Gaps that have this part of the run together are worth saying. Instead: nothing; it is wording.
pub(crate) const GAPS_SHARE: f64 = 0.1;
/// Gaps of which hardly one is this many times as long as the median are as long as each other. Instead: what each was for.
pub(crate) const ALIKE_GAPS: f64 = 2.0;
/// Gaps that are nearer to each other lie between requests. Instead: what a request was.
pub(crate) const LEAST_PERIOD: u64 = 2_000_000;

// groups.rs

/// Where one interval has this part of the time of all, the mean describes none of them. Instead: nothing; it is wording.
pub(crate) const MOST_OF_ALL: f64 = 0.7;
/// Of so few, one that is more than twice as long as another is seen to be no mean. Of more, the mean is what they are like. Instead: nothing; it is wording.
pub(crate) const FEW: u64 = 8;
/// From this part on, one of several names stands for all. Instead: nothing; it is wording.
pub(crate) const NEARLY_ALL: f64 = 0.9;

// innocent.rs

/// What is busier than this is no innocent, whatever was charged to it. Instead: its measured ceiling.
pub(crate) const BUSY: f64 = 0.8;
/// A part of the time that is said to be under one per cent. Instead: nothing; it is wording.
pub(crate) const LITTLE: f64 = 0.01;
/// So many devices are named. Instead: nothing; a line has 80 columns.
pub(crate) const DEVICES: usize = 2;

// advice.rs

/// A share of the wall time from which on what a recipe knows against its cause is worth saying without a number. Instead: a what-if that predicts it.
pub(crate) const ADVISED_SHARE: f64 = 0.1;

// mod.rs

/// A run that is shorter than this is mostly its programs' starting: what it did is lost in that. Instead: when its main work began.
pub(crate) const SHORT_S: f64 = 0.05;
/// Of one that is shorter than this, not even shares say anything. Instead: when its main work began.
pub(crate) const NOTHING_S: f64 = 0.01;
/// A share of the wall time below which a cause is innocent. Instead: nothing; it is wording.
pub(crate) const INNOCENT: f64 = 0.05;

// remarks.rs

/// A share from which on it matters what held a device's requests. Instead: nothing; it is wording.
pub(crate) const HELD_SHARE: f64 = 0.3;
/// A device that was busy for a smaller part than this of what it was waited for was kept from working. Instead: when requests entered each queue.
pub(crate) const HELD_PART: f64 = 0.15;
/// A function in which this part of a program's samples or more were is where it computed. Instead: nothing; it is wording.
pub(crate) const HOT_PART: f64 = 0.25;
/// Bound: characters of a function's name that are shown.
pub(crate) const LONG_FUNCTION: usize = 48;

// sentence.rs

/// A share below which a group goes without mention. Instead: nothing; it is wording.
pub(crate) const WORTH_SAYING: f64 = 0.06;
/// A tunnel is busy that had half a processor or more. Instead: nothing; it is wording.
pub(crate) const TUNNEL_BUSY: f64 = 0.5;
/// A share from which on a program of the same name at the other end is one to be told apart from. Instead: nothing; it is wording.
pub(crate) const NAMED_TWICE: f64 = 0.005;
/// When this much of the time is accounted for, the sentence is done. Instead: nothing; it is wording.
pub(crate) const ENOUGH: f64 = 0.85;
/// Files that waits with so small a part of the time were for are not what was waited for. Instead: the file of each request of a device.
pub(crate) const OF_FILES: f64 = 0.5;
/// Who had so much of a group stands for all. Instead: nothing; it is wording.
pub(crate) const MOST: f64 = 0.6;
/// The longest name of a file or program that a sentence spells out. Instead: nothing; a line has 80 columns.
pub(crate) const LONGEST_NAME: usize = 32;
/// A cause that lay in name resolution for this part of its time is that. Instead: nothing; it is what "most" means.
pub(crate) const OF_LOOKUPS: f64 = 0.6;

// title.rs

/// Words of a title are not cut below so many columns while another is longer. Instead: nothing; a line has 80 columns.
pub(crate) const LEAST_WORD: usize = 12;

// said.rs

/// A word of a command is what an answer is about where its value is so near to a figure of it: a rate is kept from below, and what is sent has headers.
/// Instead: which option of the program that is.
pub(crate) const AS_SAID: f64 = 0.06;

// names.rs

/// A file's name of so many hexadecimal digits is a number, and needs its directory's beside it. Instead: nothing; it is wording.
pub(crate) const LONG_NUMBER: usize = 12;

// operations.rs

/// An operation with this part of the work on names and attributes is what that mostly was. Instead: nothing; it is wording.
pub(crate) const MOST_OF_NAMES: f64 = 0.5;

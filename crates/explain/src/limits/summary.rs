//! Thresholds for what the summary of an explanation says and omits.

// about.rs

/// Fewer bytes are a program's own: libraries, settings, output. Instead: nothing: wording only.
pub(crate) const LEAST_BYTES: u64 = 64 << 10;
/// Fewer bytes through a pipe are names and lines, not the purpose of a run. Instead: nothing: wording only.
pub(crate) const LEAST_PIPED: u64 = 1 << 20;
/// From this rate on, the decimal is dropped. Instead: nothing: wording only.
pub(crate) const FEW_A_SECOND: f64 = 9.95;
/// Fewer round trips per entry count as 0. Instead: nothing: wording only.
pub(crate) const LEAST_ROUND_TRIPS: f64 = 0.05;
/// From this number of files on, the time for each is printed. Instead: nothing: wording only.
pub(crate) const TREE_FILES: u64 = 16;
/// From this number of syncs on, the run is a load of syncs. Instead: transactions, recorded by the database.
pub(crate) const LOAD_SYNCS: u64 = 16;
/// With more bytes per sync, the run moves data. Instead: transactions, recorded by the database.
pub(crate) const MOST_BYTES_EACH: u64 = 16 << 10;
/// From this number of sequential answers on, they are what a run is about. Instead: nothing: wording only.
pub(crate) const FEWEST_REQUESTS: u64 = 5;
/// Least number of requests where they were in flight together. Instead: nothing: wording only.
pub(crate) const LOAD_REQUESTS: u64 = 16;
/// If this part of the connections had equally many turns, each was for one item. Instead: what was requested on each.
pub(crate) const ALIKE: f64 = 0.9;
/// With more bytes per answer, the run moves data. Instead: nothing: wording only.
pub(crate) const MOST_BYTES_ANSWERED: u64 = 16 << 10;
/// Programs whose exit code 1 is an answer. Instead: nothing; they document it.
pub(crate) const ANSWER_BY_CODE: [&str; 12] =
    ["[", "cmp", "diff", "egrep", "expr", "false", "fgrep", "grep", "pgrep", "rg", "test", "zgrep"];
/// Directories of programs, their libraries and settings. Instead: which files the dynamic linker and the interpreter asked for.
pub(crate) const SYSTEM: [&str; 9] = ["/usr/", "/lib", "/bin/", "/sbin/", "/etc/", "/opt/", "/proc/", "/sys/", "/nix/store/"];
/// Parts of paths of programs' own files, in any directory.
pub(crate) const OWN: [&str; 4] = [".pyc", "/site-packages/", "/dist-packages/", "/node_modules/"];

// files.rs

/// From this number of files created, removed or renamed on, they are what a run was about. Instead: nothing: wording only.
pub(crate) const LEAST_CHANGED: u64 = 100;
/// For files opened, stat calls and names listed: interpreters and compilers make some hundreds when they start. Instead: which of them the
/// dynamic linker and the interpreter asked for.
pub(crate) const LEAST_LOOKED: u64 = 1_000;
/// Opens or stat calls that each process makes for itself: libraries, locales, settings. Instead: as above.
pub(crate) const OWN_NAMES: u64 = 50;
/// An action done less often than one part in this many of the most frequent one is incidental: copying a tree takes three or four stat
/// calls per file created. Instead: nothing: wording only.
pub(crate) const BY_THE_WAY: u64 = 8;
/// With more bytes per file, the run moves data. Instead: nothing: wording only.
pub(crate) const MOST_BYTES_A_FILE: u64 = 1 << 20;
/// Largest bytes per file where one file has most bytes and nothing was changed, or files were only removed or renamed. Instead: which
/// opens were for which file.
pub(crate) const MOST_BYTES_A_NAME: u64 = 4 << 10;

// figures.rs

/// From this part on, the network was idle during a wait. Instead: nothing: wording only.
pub(crate) const IDLE: f64 = 0.9;

// gaps.rs

/// Least number of gaps that count as recurring. Instead: nothing; fewer have no usual distance.
pub(crate) const FEWEST_GAPS: u64 = 4;
/// Least part of the run that gaps together must have to be mentioned. Instead: nothing: wording only.
pub(crate) const GAPS_SHARE: f64 = 0.1;
/// Gaps are equally long if the 99th percentile is at most this multiple of the median. Instead: the purpose of each.
pub(crate) const ALIKE_GAPS: f64 = 2.0;
/// Gaps with fewer bytes between them lie between requests. Instead: where requests begin.
pub(crate) const LEAST_PERIOD: u64 = 2_000_000;

// groups.rs

/// If one interval has this part of the total, the mean describes none of them. Instead: nothing: wording only.
pub(crate) const MOST_OF_ALL: f64 = 0.7;
/// Up to this many intervals, one more than twice as long as another rules out the mean; with more, the mean is typical. Instead: nothing;
/// it is wording.
pub(crate) const FEW: u64 = 8;
/// From this part on, one of several names stands for all. Instead: nothing: wording only.
pub(crate) const NEARLY_ALL: f64 = 0.9;

// innocent.rs

/// A busier device or processor is not called innocent. Instead: its measured ceiling.
pub(crate) const BUSY: f64 = 0.8;
/// Parts below this are printed as "under 1 %". Instead: nothing: wording only.
pub(crate) const LITTLE: f64 = 0.01;
/// Devices named. Instead: nothing; a line has 80 columns.
pub(crate) const DEVICES: usize = 2;

// advice.rs

/// Least share of the wall time for which a recipe's advice without a prediction is printed. Instead: a what-if that predicts it.
pub(crate) const ADVISED_SHARE: f64 = 0.1;

// mod.rs

/// A shorter run is mostly its programs' startup. Instead: when its main work began.
pub(crate) const SHORT_S: f64 = 0.05;
/// Below this length, not even shares mean anything. Instead: when its main work began.
pub(crate) const NOTHING_S: f64 = 0.01;
/// A cause below this share of the wall time is innocent. Instead: nothing: wording only.
pub(crate) const INNOCENT: f64 = 0.05;

// remarks.rs

/// Share from which a remark says that something delayed a device's requests. Instead: nothing: wording only.
pub(crate) const HELD_SHARE: f64 = 0.3;
/// A device that was busy for a smaller part of the time it was waited for was kept from working. Instead: when requests entered each
/// queue.
pub(crate) const HELD_PART: f64 = 0.15;
/// Part of a program's samples from which a function is named as the hottest. Instead: nothing: wording only.
pub(crate) const HOT_PART: f64 = 0.25;
/// Bound: characters printed of a function's name.
pub(crate) const LONG_FUNCTION: usize = 48;

// sentence.rs

/// Groups below this share are not mentioned. Instead: nothing: wording only.
pub(crate) const WORTH_SAYING: f64 = 0.06;
/// A tunnel that had this part of a processor is called busy. Instead: nothing: wording only.
pub(crate) const TUNNEL_BUSY: f64 = 0.5;
/// Share from which a program of the same name at the other end must be told apart. Instead: nothing: wording only.
pub(crate) const NAMED_TWICE: f64 = 0.005;
/// The sentence ends once this much of the time is accounted for. Instead: nothing: wording only.
pub(crate) const ENOUGH: f64 = 0.85;
/// Files that explain a smaller part of the waits' time are not what was waited for. Instead: the file of each request of a device.
pub(crate) const OF_FILES: f64 = 0.5;
/// A program with this part of a group stands for all of it. Instead: nothing: wording only.
pub(crate) const MOST: f64 = 0.6;
/// Longest name of a file or program printed in full in a sentence. Instead: nothing; a line has 80 columns.
pub(crate) const LONGEST_NAME: usize = 32;
/// A cause with this part of its time in name resolution is name resolution. Instead: nothing: it is what "most" means.
pub(crate) const OF_LOOKUPS: f64 = 0.6;

// title.rs

/// Words of a title are not cut below this many columns while another is longer. Instead: nothing; a line has 80 columns.
pub(crate) const LEAST_WORD: usize = 12;

// answer_terms.rs

/// A command's word is what an answer is about if its value is this close to one of its figures: a rate limit is approached from below, and
/// sent data has headers. Instead: which option of the program it is.
pub(crate) const AS_SAID: f64 = 0.06;

// names.rs

/// A file name with this many hexadecimal digits is a number, and is printed with its directory's name. Instead: nothing: wording only.
pub(crate) const LONG_NUMBER: usize = 12;

// operations.rs

/// An operation with this part of the work on names and attributes is named. Instead: nothing: wording only.
pub(crate) const MOST_OF_NAMES: f64 = 0.5;

//! The innermost addresses of another recorder's samples, without stacks, so that an ordinary recording shows which
//! function a program computed in.
//!
//! An address is converted to a file and offset when it is read, while the process exists; only the file's name is
//! stored until the recording ends. Then only the hottest addresses get names: reading a file's symbols takes
//! milliseconds, and a short recording must end quickly.

use super::modules::{ModuleId, Modules};
use super::name::{JitCode, Names};
use super::spaces::Spaces;
use super::stacks::{Frame, Stacks};
use crate::symbols::KernelSymbols;
use std::collections::HashMap;
use thalweg_trace::Event;

/// First row number in `stacks`, above those of a simultaneous profile. (Merging adds row numbers, so they must be
/// small.)
const FIRST: u32 = 1 << 20;

/// Maximum distinct addresses; later samples have none.
const MOST: usize = 1 << 16;

/// Minimum total sampled time for naming anything: below it, parts could not be distinguished.
const ENOUGH_NS: u64 = 30_000_000;

/// Maximum files to read symbols of, each with at least this share of the samples.
const MOST_FILES: usize = 6;
const FILE_PART: u64 = 20;

/// Maximum kernel addresses to name, the longest sampled: each costs a query.
const MOST_OF_KERNEL: usize = 256;

/// A stack of a single address, with its number.
type Numbered = (u32, Box<[Frame]>);

/// The addresses so far.
#[derive(Debug, Default)]
pub(crate) struct Leaves {
    spaces: Spaces,
    modules: Modules,
    made: JitCode,
    stacks: Stacks,
    /// Sampled time by stack number, less one.
    weights_ns: Vec<u64>,
    /// The program each process runs.
    commands: HashMap<u32, String>,
}

impl Leaves {
    /// Returns the number of an address, which belongs to a process's program or to the kernel.
    pub(crate) fn number(&mut self, program: Option<(u32, &str)>, address: u64, weight_ns: u64) -> Option<u32> {
        let frame = match program {
            None => Frame::Kernel(address),
            Some((pid, command)) => {
                if self.commands.get(&pid).is_none_or(|known| known != command) {
                    self.spaces.forget(pid);
                    self.commands.insert(pid, command.to_owned());
                }
                self.spaces.frame(pid, address, &mut self.modules, &mut self.made)
            }
        };
        if self.weights_ns.len() >= MOST {
            return None;
        }
        let number = self.stacks.number(&[frame]);
        let at = number as usize - 1;
        self.weights_ns.resize(self.weights_ns.len().max(at + 1), 0);
        self.weights_ns[at] = self.weights_ns[at].saturating_add(weight_ns);
        Some(FIRST + number)
    }

    /// Passes on all addresses, the hottest with names. `kernel` names a kernel address.
    pub(crate) fn finish(mut self, kernel: &mut dyn FnMut(u64) -> String, hand_on: impl FnMut(&mut Vec<Event>)) {
        let all = std::mem::take(&mut self.stacks).into_sorted();
        let (asked, of_kernel) = self.hottest(&all);
        let kernel: Vec<(u64, String)> =
            of_kernel.into_iter().map(|address| (address, kernel(address))).filter(|(_, n)| !n.is_empty()).collect();
        let symbols = KernelSymbols::known(kernel.iter().map(|(address, name)| (*address, name.as_str())));
        let made = std::mem::take(&mut self.made);
        let made = if asked.is_empty() { JitCode::default() } else { made };
        let names = Names::of(&asked, &self.modules, made, symbols);
        let all: Vec<_> = all.into_iter().map(|(number, frames)| (FIRST + number, frames)).collect();
        names.emit(&all, &self.modules, hand_on);
    }

    /// Returns the program's and the kernel's addresses worth naming.
    fn hottest(&self, all: &[Numbered]) -> (Vec<Numbered>, Vec<u64>) {
        let total: u64 = self.weights_ns.iter().sum();
        if total < ENOUGH_NS {
            return (Vec::new(), Vec::new());
        }
        let mut files: HashMap<ModuleId, u64> = HashMap::new();
        let mut of_kernel: Vec<(u64, u64)> = Vec::new();
        let weighed = all.iter().zip(&self.weights_ns);
        for ((_, frames), &weight_ns) in weighed {
            match frames.first() {
                Some(Frame::File(module, _)) => *files.entry(*module).or_default() += weight_ns,
                Some(Frame::Kernel(address)) => of_kernel.push((weight_ns, *address)),
                _ => {}
            }
        }
        let mut files: Vec<(u64, ModuleId)> =
            files.into_iter().map(|(module, ns)| (ns, module)).filter(|(ns, _)| ns * FILE_PART >= total).collect();
        files.sort_unstable_by(|a, b| b.cmp(a));
        files.truncate(MOST_FILES);
        of_kernel.sort_unstable_by(|a, b| b.cmp(a));
        of_kernel.truncate(MOST_OF_KERNEL);
        let is_hot = |frame: &Frame| match frame {
            Frame::File(module, _) => files.iter().any(|(_, hot)| hot == module),
            _ => true,
        };
        let asked = all.iter().filter(|(_, frames)| frames.iter().all(is_hot)).cloned().collect();
        (asked, of_kernel.into_iter().map(|(_, address)| address).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(leaves: Leaves) -> Vec<(u32, String)> {
        let mut all = Vec::new();
        let mut kernel = |address: u64| format!("function_{address}");
        leaves.finish(&mut kernel, |batch| {
            all.extend(batch.drain(..).filter_map(|event| match event {
                Event::Stack(stack) => Some((stack.stack, stack.frames.concat())),
                _ => None,
            }));
        });
        all
    }

    #[test]
    fn an_address_is_one_leaf_and_named_where_enough_was_sampled() {
        let mut leaves = Leaves::default();
        let numbers = [9, 7, 9].map(|address| leaves.number(None, address, ENOUGH_NS).expect("room"));
        assert_eq!(numbers, [FIRST + 1, FIRST + 2, FIRST + 1]);
        assert_eq!(finished(leaves), [(FIRST + 1, "function_9 [kernel]".to_owned()), (FIRST + 2, "function_7 [kernel]".to_owned())]);
    }

    #[test]
    fn a_short_recording_names_nothing() {
        let mut leaves = Leaves::default();
        let number = leaves.number(None, 9, ENOUGH_NS - 1).expect("room");
        assert_eq!(finished(leaves), [(number, "[kernel]".to_owned())]);
    }

    #[test]
    fn an_own_function_is_named_by_its_file() {
        let mut leaves = Leaves::default();
        let address = an_own_function_is_named_by_its_file as fn() as usize as u64;
        let number = leaves.number(Some((std::process::id(), "test")), address, ENOUGH_NS).expect("room");
        let all = finished(leaves);
        assert_eq!(all[0].0, number);
        assert!(all[0].1.contains("an_own_function_is_named_by_its_file"), "{all:?}");
    }
}

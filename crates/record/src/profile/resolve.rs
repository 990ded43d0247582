//! Turns addresses into stacks: each address becomes a file and an offset while its process exists, each stack a
//! number, and each frame a text when recording ends.

use super::copied::Copied;
use super::events::{Happened, What};
use super::modules::Modules;
use super::name::{self, JitCode};
use super::spaces::Spaces;
use super::stacks::{Frame, Stacks};
use super::unwind::{End, Unwinder, Walk};
use crate::symbols::KernelSymbols;
use thalweg_trace::Event;

/// All stacks of a profile, and what is needed to make them.
pub(super) struct Resolver {
    pub spaces: Spaces,
    pub modules: Modules,
    stacks: Stacks,
    made: JitCode,
    frames: Vec<Frame>,
    /// Present if stacks are copied.
    unwinder: Option<Unwinder>,
}

/// How it went.
pub(super) struct Resolved {
    /// Samples whose stacks were cut down.
    pub cut: u64,
    /// The kernel's addresses have no names.
    pub is_hidden: bool,
    /// Attributes of copied stacks, and a note on those that are incomplete; `None` if none were copied.
    pub unwound: Option<Unwound>,
}

/// Attributes of copied stacks, and a note on those that are incomplete.
pub(super) type Unwound = (Vec<(String, String)>, Option<String>);

impl Resolver {
    /// Creates a resolver for stacks of which `stack_bytes` are copied; 0: for frames that the kernel found.
    pub(super) fn new(stack_bytes: u32) -> Resolver {
        Resolver {
            spaces: Spaces::default(),
            modules: Modules::default(),
            stacks: Stacks::default(),
            made: JitCode::default(),
            frames: Vec::new(),
            unwinder: (stack_bytes > 0).then(|| Unwinder::new(stack_bytes)),
        }
    }

    /// Applies a process event.
    pub(super) fn happened(&mut self, event: Happened) {
        if let What::Ended { tid } = event.what
            && tid == event.pid
        {
            self.made.ended(tid);
        }
        self.spaces.happened(event, &mut self.modules);
    }

    /// Returns the number of a stack: kernel addresses, user addresses, and user frames to be found in a copy.
    pub(super) fn number(
        &mut self,
        pid: u32,
        kernel: impl Iterator<Item = u64>,
        user: impl Iterator<Item = u64>,
        copied: Option<Copied<'_>>,
    ) -> u32 {
        self.frames.clear();
        self.frames.extend(kernel.map(Frame::Kernel));
        for address in user {
            let frame = self.frame(pid, address);
            self.frames.push(frame);
        }
        if let Some(copied) = copied {
            self.unwind(pid, Walk::new(copied), copied.ip);
        }
        if self.frames.is_empty() {
            self.frames.push(Frame::Unknown);
        }
        self.stacks.number(&self.frames)
    }

    /// Resolves an address of a process to a frame.
    fn frame(&mut self, pid: u32, address: u64) -> Frame {
        self.spaces.frame(pid, address, &mut self.modules, &mut self.made)
    }

    /// Unwinds a copied stack, starting at the program's innermost frame.
    fn unwind(&mut self, pid: u32, mut walk: Walk<'_>, ip: u64) {
        let mut frame = self.frame(pid, ip);
        self.frames.push(frame);
        let end = loop {
            let Some(unwinder) = &mut self.unwinder else { return };
            let caller = match unwinder.caller(frame, &self.modules, &mut walk) {
                Ok(caller) => caller,
                Err(end) => break end,
            };
            frame = self.frame(pid, caller);
            if frame == Frame::Unknown {
                // No caller can be there.
                break End::Broken;
            }
            self.frames.push(frame);
        };
        if end != End::Whole {
            self.frames.push(Frame::Truncated);
        }
        if let Some(unwinder) = &mut self.unwinder {
            unwinder.ends().count(end);
        }
    }

    /// Passes on all stacks as text; with the names of functions if they are wanted.
    pub(super) fn finish(&mut self, kernel: KernelSymbols, with_names: bool, hand_on: impl FnMut(&mut Vec<Event>)) -> Resolved {
        let (stacks, modules, made) = (std::mem::take(&mut self.stacks), std::mem::take(&mut self.modules), std::mem::take(&mut self.made));
        let cut = stacks.cut;
        let unwound = self.unwinder.take().map(|unwinder| unwinder.summary(&modules));
        let is_hidden = name::emit(&stacks.into_sorted(), modules, made, (kernel, with_names), hand_on);
        Resolved { cut, is_hidden, unwound }
    }
}

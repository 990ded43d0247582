//! The stacks of spans and samples, as a tree of frames from the outermost inwards.

use super::planes::Planes;
use super::series::SampleRow;
use super::spans::Drawn;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use thalweg_explain::profile::SampledStacks;

/// Bound: most nodes of the tree, 4 MB of planes. Stacks that need more are left out.
const MAX_NODES: usize = 500_000;

/// A function, as the header lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FrameEntry {
    name: String,
    module: String,
    /// The class of its code; empty if no rule has one.
    class: String,
}

/// A frame with its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// 1 + the node of the caller; 0: none.
    parent: u32,
    frame: u32,
}

/// The stacks that rows refer to.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    pub(super) frames: Vec<FrameEntry>,
    /// 1 + the innermost node of a stack, by the stack's number.
    of_stack: HashMap<u32, u32>,
    /// Number of stacks left out.
    pub(super) left_out: usize,
}

impl Tree {
    /// Returns the tree of the stacks in use.
    pub(super) fn new(sampled: &SampledStacks<'_>, spans: &[Drawn], samples: &[SampleRow]) -> Tree {
        let used: HashSet<u32> = spans.iter().map(|span| span.stack).chain(samples.iter().map(|sample| sample.stack)).collect();
        let (mut tree, mut known, mut numbers) = (Tree::default(), HashMap::new(), HashMap::new());
        for stack in sampled.stacks.iter().filter(|stack| stack.stack != 0 && used.contains(&stack.stack)) {
            if tree.nodes.len() + stack.frames.len() > MAX_NODES {
                tree.left_out += 1;
                continue;
            }
            let mut parent = 0;
            for function in stack.frames.iter().rev() {
                let frame = *numbers.entry(*function).or_insert_with(|| {
                    let function = &sampled.functions[*function as usize];
                    let (name, module) = (function.name.clone(), function.module.clone());
                    tree.frames.push(FrameEntry { name, module, class: function.class.clone().unwrap_or_default() });
                    tree.frames.len() as u32 - 1
                });
                let node = Node { parent, frame };
                parent = *known.entry(node).or_insert_with(|| {
                    tree.nodes.push(node);
                    tree.nodes.len() as u32
                });
            }
            tree.of_stack.insert(stack.stack, parent);
        }
        tree
    }

    fn of(&self, stack: u32) -> [u8; 4] {
        self.of_stack.get(&stack).copied().unwrap_or(0).to_le_bytes()
    }

    /// Adds the planes, if there are any stacks.
    pub(super) fn add(&self, planes: &mut Planes, spans: &[Drawn], samples: &[SampleRow]) {
        if self.nodes.is_empty() {
            return;
        }
        planes.add("span.stack", spans, |span| self.of(span.stack));
        if !samples.is_empty() {
            planes.add("sample.stack", samples, |sample| self.of(sample.stack));
        }
        planes.add("stack.parent", &self.nodes, |node| node.parent.to_le_bytes());
        planes.add("stack.frame", &self.nodes, |node| node.frame.to_le_bytes());
    }
}

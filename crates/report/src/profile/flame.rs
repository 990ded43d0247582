//! The flame graph (icicle): all samples of a machine at the top, then programs, down to the function that ran. A function's width is the
//! time of its samples, callers are above their callees, and colours are classes.
//!
//! It is SVG with a script (`flame.js`), styled by the page ([`crate::style`]): a click zooms into a function, and a search highlights functions. Without the script it is a
//! static picture with tooltips. Functions too narrow to see are left out, and the subtitle gives the limit. Rejected: a library (the
//! Rust port of the well-known one has another licence and twenty crates).

use super::colours;
use crate::picture::canvas::{FAINT, INK, escape, fitted, text_width};
use crate::picture::palette::is_light;
use std::fmt::Write;
use thalweg_base::numbers::{count, percent};
use thalweg_explain::profile::{FlameFunction, FlameStack, HostStacks};

const SCRIPT: &str = include_str!("flame.js");
/// The hash of [`SCRIPT`], after a newline, in a content security policy; a test computes it again.
pub(super) const SCRIPT_HASH: &str = "sha256-9CI21HBgj3zeMqtGBHslL4AhgXc9SdwgRClo+GBmO0g=";

const WIDTH: f64 = 1400.0;
const MARGIN: f64 = 10.0;
const ROW: f64 = 17.0;
const TOP: f64 = 62.0;
const SIZE: f64 = 11.5;
/// Functions with a smaller part of all samples are left out.
const LEAST: f64 = 0.0003;
/// Maximum depth of calls.
const DEEPEST: usize = 120;

/// A function, called from its ancestors.
#[derive(Debug, Default)]
struct Node {
    name: String,
    hint: String,
    colour: &'static str,
    share: f64,
    samples: u64,
    called: Vec<Node>,
}

/// Draws the flame graph as SVG; `None` if there are no stacks.
pub(super) fn flame(title: &str, stacks: &HostStacks) -> Option<String> {
    let all: f64 = stacks.stacks.iter().map(|stack| stack.share).sum();
    if all <= 0.0 {
        return None;
    }
    let mut root = Node { name: "all samples".to_owned(), colour: colours::SAYS_NOTHING, share: all, ..Node::default() };
    root.samples = stacks.stacks.iter().map(|stack| stack.samples).sum();
    let stacks_by_program: Vec<&FlameStack> = stacks.stacks.iter().collect();
    for of_program in stacks_by_program.chunk_by(|a, b| a.program == b.program) {
        let mut node = node_of(of_program, &of_program[0].program, String::new(), colours::SAYS_NOTHING);
        if node.share >= LEAST * all {
            node.called = called(of_program, 0, &stacks.functions, LEAST * all);
            root.called.push(node);
        }
    }
    root.called.sort_by(|a, b| b.share.total_cmp(&a.share));
    let mut picture = Picture { body: String::new(), deepest: 0, nodes: 0, all };
    picture.draw(&root, 0.0, 0);
    Some(picture.finish(title, root.samples))
}

fn node_of(stacks: &[&FlameStack], name: &str, hint: String, colour: &'static str) -> Node {
    let (share, samples) = stacks.iter().fold((0.0, 0), |(share, samples), stack| (share + stack.share, samples + stack.samples));
    Node { name: name.to_owned(), hint, colour, share, samples, called: Vec::new() }
}

/// Returns the callees at `depth` of stacks that are equal above it. Stacks are sorted by their frames, so equal ones are adjacent.
fn called(stacks: &[&FlameStack], depth: usize, functions: &[FlameFunction], least: f64) -> Vec<Node> {
    let deeper = &stacks[stacks.iter().take_while(|stack| stack.frames.len() <= depth).count()..];
    let mut nodes = Vec::new();
    if depth > DEEPEST {
        return nodes;
    }
    for same in deeper.chunk_by(|a, b| a.frames.get(depth) == b.frames.get(depth)) {
        let Some(function) = same[0].frames.get(depth).and_then(|id| functions.get(*id as usize)) else { continue };
        let mut node = node_of(same, &function.name, function.module.clone(), colour(function, &same[0].class));
        if node.share >= least {
            node.called = called(same, depth + 1, functions, least);
            nodes.push(node);
        }
    }
    nodes
}

/// Returns the colour of a function: its class's, or for other programs and the recorder that of the whole stack's class.
fn colour(function: &FlameFunction, class_of_stack: &str) -> &'static str {
    match &function.class {
        _ if class_of_stack == "recorder" || (class_of_stack == "others" && function.is_user) => colours::of(class_of_stack),
        Some(class) => colours::of(class),
        None => colours::SAYS_NOTHING,
    }
}

struct Picture {
    body: String,
    deepest: usize,
    nodes: u64,
    all: f64,
}

impl Picture {
    /// Draws a function at `from` (a fraction of the picture's width), and its callees.
    fn draw(&mut self, node: &Node, from: f64, depth: usize) {
        self.nodes += 1;
        self.deepest = self.deepest.max(depth);
        let part = node.share / self.all;
        let room = WIDTH - 2.0 * MARGIN;
        let (x, y, width) = (MARGIN + room * from, TOP + ROW * depth as f64, (room * part - 0.4).max(0.2));
        let ink = if is_light(node.colour) { INK } else { "#fff" };
        let label = if width > 24.0 { fitted(&node.name, SIZE, width - 6.0) } else { String::new() };
        let name = escape(&node.name);
        let module = if node.hint.is_empty() { String::new() } else { format!(" [{}]", escape(&node.hint)) };
        let _ = writeln!(
            self.body,
            "<g data-x=\"{from:.6}\" data-w=\"{part:.6}\" data-d=\"{depth}\" data-n=\"{name}\"><title>{name}{module}: {} of CPU time, {} of \
             samples ({})</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\" fill=\"{}\"/><text x=\"{:.2}\" y=\"{}\" \
             fill=\"{ink}\">{}</text></g>",
            percent(node.share),
            percent(part),
            count(node.samples),
            ROW - 1.0,
            node.colour,
            x + 3.0,
            y + 12.0,
            escape(&label),
        );
        let mut at = from;
        for called in &node.called {
            self.draw(called, at, depth + 1);
            at += called.share / self.all;
        }
    }

    fn finish(self, title: &str, samples: u64) -> String {
        let height = TOP + ROW * (self.deepest as f64 + 1.0) + 14.0;
        let lead = format!(
            "{} samples; parts below {:.2} % of them are left out. Click to zoom in, on the top row to zoom out",
            count(samples),
            LEAST * 100.0
        );
        let search = WIDTH - MARGIN - 260.0;
        format!(
            "<svg class=\"flame\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" \
             height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"{SIZE}\" \
             data-margin=\"{MARGIN}\" data-room=\"{}\" data-letter=\"{:.3}\">\n<title>{}</title>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
             <text x=\"{MARGIN}\" y=\"24\" font-size=\"15\" font-weight=\"600\" fill=\"{INK}\">{}</text>\n\
             <text x=\"{MARGIN}\" y=\"44\" font-size=\"12\" fill=\"{FAINT}\">{}</text>\n\
             <foreignObject x=\"{search}\" y=\"10\" width=\"260\" height=\"44\"><input type=\"search\" placeholder=\"search functions\" \
             aria-label=\"search functions\"><output></output></foreignObject>\n{}\
             <script><![CDATA[\n{SCRIPT}]]></script>\n</svg>\n",
            WIDTH - 2.0 * MARGIN,
            text_width("x", SIZE),
            escape(title),
            escape(title),
            escape(&lead),
            self.body,
        )
    }
}

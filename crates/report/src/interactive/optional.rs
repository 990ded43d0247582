//! The optional parts of the data: made of what was gathered, and added to the planes and the header.

use super::arrows::Arrows;
use super::clocks::Clocks;
use super::collected::Collector;
use super::columns::Numbers;
use super::more::More;
use super::planes::Planes;
use super::series::Series;
use super::spans::Drawn;
use super::stacks::Tree;
use super::{offsets, profiles, rules};
use crate::Result;
use thalweg_base::numbers::count;
use thalweg_explain::document::Explanation;
use thalweg_explain::profile::SampledStacks;
use thalweg_explain::rpcstat::RpcStat;
use thalweg_trace::Source;

/// What the optional parts are made of.
pub(super) struct Gathered<'a, 'd> {
    pub(super) explanation: &'a Explanation,
    pub(super) rpcs: Option<&'d RpcStat>,
    pub(super) numbers: &'a Numbers<'a>,
    /// The spans, in the order of the page.
    pub(super) spans: &'a [Drawn],
    pub(super) series: &'a Series,
    pub(super) stacks: SampledStacks<'a>,
    pub(super) requests: Collector,
}

impl<'d> Gathered<'_, 'd> {
    /// Adds the planes; returns the header's fields, and sentences on what is left out.
    pub(super) fn add(self, planes: &mut Planes, source: &dyn Source) -> Result<(More<'d>, Vec<String>)> {
        let Gathered { explanation, rpcs, numbers, spans, series, stacks, requests } = self;
        let mut left_out = Vec::new();
        offsets::add(planes, spans);
        let tree = Tree::new(&stacks, spans, &series.samples);
        drop(stacks);
        tree.add(planes, spans, &series.samples);
        if tree.left_out > 0 {
            left_out.push(format!("{} stacks are left out: too many.", count(tree.left_out as u64)));
        }
        let clocks = Clocks::of(source);
        let exchanges = requests.finish();
        let arrows = Arrows::between(spans, &exchanges, numbers.slots, &clocks);
        drop(exchanges);
        arrows.add(planes, numbers.lane_of, numbers.ticks);
        left_out.extend(arrows.left_out());
        let (frames, kinds, profile) = (tree.frames, arrows.kinds(), profiles::of_hosts(source)?);
        Ok((More { frames, arrows: kinds, clocks: clocks.entries, rules: rules::named(explanation), rpcs, profile }, left_out))
    }
}

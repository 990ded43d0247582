//! The bytes that channels carried: those that crossed the wire where TCP counters show it, else those that programs handed over.

use crate::cause::End;
use crate::document::ChannelBasis;
use crate::facts::Parts;
use crate::limits::assemble as limits;
use crate::observe::channels::{Gathered, Gatherer};
use crate::observe::curve::Curve;
use crate::observe::index::NONE;
use crate::observe::observation::Way;
use crate::observe::on_wire::{Flow, gather};
use std::collections::HashSet;

/// The bytes a channel carried, and when.
pub(super) struct Carried<'a> {
    /// Bursts and gaps.
    pub gathered: Gathered,
    /// Number of sends.
    pub sends: u64,
    /// Basis of the counts.
    pub basis: ChannelBasis,
    /// Times of its first and last byte.
    pub extent: Option<(i64, i64)>,
    flows: Vec<&'a Flow>,
    on_connections: bool,
}

impl Carried<'_> {
    /// Whether bytes over time are the channel's own speed. A socket accepts bytes faster than its link; a file's writes are done when they
    /// return. A burst shorter than the resolution of recorded arrivals is a message, and no measure of speed.
    pub(super) fn has_rate(&self) -> bool {
        let bursts = self.gathered.gaps.len() as i64 + 1;
        !self.on_connections
            || self.basis != ChannelBasis::HandedOver && self.gathered.burst_ns >= bursts * crate::limits::observe::GRAIN_NS
    }
}

impl Parts<'_> {
    /// The connection an object belongs to, and the flow of the direction's sender on it.
    fn flow(&self, way: Way, object: usize) -> Option<(u32, &Flow)> {
        let object = self.tables.objects.get(object)?;
        let sender = match way {
            Way::ClientSends => object.connection_end.unwrap_or(End::Client),
            Way::ServerSends => object.connection_end.unwrap_or(End::Server),
            Way::ClientReceives => object.connection_end.unwrap_or(End::Client).other(),
            Way::ClientWrites | Way::ClientReads => return None,
        };
        Some((object.connection, self.on_wire.flow(object.connection, sender)?))
    }

    /// The connections that the command itself uses: servers forward the same bytes among themselves.
    fn clients_connections(&self) -> HashSet<u32> {
        let moved = self.seen.moved[End::Client as usize].iter().enumerate();
        let used = moved.filter(|(_, [taken, handed])| taken.bytes + handed.bytes > 0).map(|(o, _)| self.tables.connection_of(o as u32));
        used.filter(|&connection| connection != NONE).collect()
    }

    /// The bytes of one direction: as they crossed the wire, if that is known of nine tenths of them.
    pub(super) fn carried(&self, way: Way) -> Carried<'_> {
        let stream = self.seen.stream(way);
        let own = self.clients_connections();
        let is_own = |object: usize| own.is_empty() || own.contains(&self.tables.connection_of(object as u32));
        let objects = || stream.by_object.iter().enumerate().filter_map(|(o, g)| Some((o, g.as_ref()?.bytes))).filter(|(o, _)| is_own(*o));
        let all: u64 = objects().map(|(_, bytes)| bytes).sum();
        let known = objects().filter_map(|(o, bytes)| Some((self.flow(way, o)?, bytes)));
        let (mut flows, mut connections, mut handed_over) = (Vec::new(), Vec::new(), 0);
        for ((connection, flow), bytes) in known {
            handed_over += bytes;
            if !connections.contains(&connection) {
                connections.push(connection);
                flows.push(flow);
            }
        }
        let flows = if u128::from(handed_over) * 10 >= u128::from(all) * limits::CARRIED_TENTHS { flows } else { Vec::new() };
        self.carried_in(way, flows, &stream.all)
    }

    /// The bytes of one object in this direction.
    pub(super) fn carried_by(&self, way: Way, object: usize, handed_over: &Gatherer) -> Carried<'_> {
        let flows = self.flow(way, object).map(|(_, flow)| flow).into_iter().collect();
        self.carried_in(way, flows, handed_over)
    }

    fn carried_in<'a>(&self, way: Way, flows: Vec<&'a Flow>, handed_over: &Gatherer) -> Carried<'a> {
        let sends = handed_over.sends;
        let on_connections = !matches!(way, Way::ClientWrites | Way::ClientReads);
        let Some(basis) = flows.iter().map(|f| f.basis).max() else {
            let (gathered, extent) = (handed_over.finish(), handed_over.extent());
            return Carried { gathered, sends, basis: ChannelBasis::HandedOver, extent, flows, on_connections };
        };
        let crossings = || flows.iter().flat_map(|f| &f.crossings);
        let extent = crossings().map(|c| c.start).min().zip(crossings().map(|c| c.end).max());
        Carried { gathered: gather(&flows), sends, basis, extent, flows, on_connections }
    }

    /// Bytes over time.
    pub(super) fn curve(&self, way: Way, carried: &Carried<'_>) -> Curve {
        let handed_over = &self.seen.stream(way).curve;
        if carried.flows.is_empty() {
            return handed_over.clone();
        }
        let mut curve = Curve::new(self.start, self.end, handed_over.bins.len());
        carried.flows.iter().flat_map(|f| &f.crossings).for_each(|c| curve.spread(c.start, c.end, c.bytes as f64));
        curve
    }
}

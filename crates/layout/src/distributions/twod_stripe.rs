//! `twod_stripe`: datafiles in groups; each group in turn receives a run of strips, round-robin within the group.
//!
//! ```text
//! 5 datafiles, num_groups 2, group_strip_factor 2:   | group 0      | group 1           | group 0 …
//!                                            strip    0  1  2  3     4  5  6  7  8  9    10 11 …
//!                                         datafile    0  1  0  1     2  3  4  2  3  4     0  1 …
//! ```
//!
//! The groups have equal size, except the last, which takes the remainder. `num_groups` is clamped to the number of datafiles
//! when the layout is made; the parameter keeps the given value.
//!
//! In each cycle every datafile receives `group_strip_factor` strips, so a physical offset alone determines its cycle.

use crate::divisor::Divisor;
use crate::spec::{Arguments, ParameterInfo, ParameterType};
use crate::{Distribution, Kind, LayoutError, MAX_OFFSET, Piece};

/// Description for the registry.
pub(super) const KIND: Kind = Kind {
    name: "twod_stripe",
    summary: "datafiles in groups, a run of strips for each group in turn",
    parameters: &[
        ParameterInfo { name: "num_groups", kind: ParameterType::UnsignedInt, default: Some("2"), summary: "groups of datafiles" },
        ParameterInfo { name: "strip_size", kind: ParameterType::Int64, default: Some("65536"), summary: "bytes of a strip" },
        ParameterInfo {
            name: "group_strip_factor",
            kind: ParameterType::UnsignedInt,
            default: Some("256"),
            summary: "strips for each datafile of a group in its turn",
        },
    ],
};

/// Datafiles in groups, a run of strips for each group in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwodStripe {
    datafiles: u32,
    /// As given; `groups` is the clamped value.
    num_groups: u32,
    factor: u32,
    groups: u32,
    /// Datafiles in every group but the last.
    members: u32,
    /// Datafiles in the last group.
    last_members: u32,
    strip: Divisor,
    /// One strip on every datafile of a group: of any but the last, and of the last.
    row: Divisor,
    last_row: Divisor,
    /// Bytes of a turn of any group but the last.
    turn: Divisor,
    /// Bytes of a turn of every group.
    cycle: Divisor,
    /// Bytes a datafile receives in its group's turn.
    share: Divisor,
}

/// The geometry of one group.
struct Group {
    /// Offset of its turn within the cycle, in bytes.
    start: u64,
    /// Length of its turn, in bytes.
    length: u64,
    row: Divisor,
    members: u32,
    /// Its first datafile.
    first: u32,
}

pub(super) fn build(arguments: &Arguments<'_>) -> Result<TwodStripe, LayoutError> {
    let num_groups = arguments.count("num_groups")?;
    let strip_size = arguments.size("strip_size")?;
    let factor = arguments.count("group_strip_factor")?;
    let datafiles = arguments.datafiles_requested()?;

    let groups = num_groups.min(datafiles);
    let members = datafiles / groups;
    let last_members = datafiles - members * (groups - 1);
    let cycle = arguments.product("strip_size × group_strip_factor × datafiles", &[strip_size, factor.into(), datafiles.into()])?;
    let share = strip_size * u64::from(factor);
    Ok(TwodStripe {
        datafiles,
        num_groups,
        factor,
        groups,
        members,
        last_members,
        strip: Divisor::new(strip_size),
        row: Divisor::new(strip_size * u64::from(members)),
        last_row: Divisor::new(strip_size * u64::from(last_members)),
        turn: Divisor::new(share * u64::from(members)),
        cycle: Divisor::new(cycle),
        share: Divisor::new(share),
    })
}

impl TwodStripe {
    #[inline]
    fn group(&self, group: u32) -> Group {
        let start = u64::from(group) * self.turn.value();
        let first = group * self.members;
        if group + 1 == self.groups {
            Group { start, length: self.cycle.value() - start, row: self.last_row, members: self.last_members, first }
        } else {
            Group { start, length: self.turn.value(), row: self.row, members: self.members, first }
        }
    }

    #[inline]
    fn group_of(&self, datafile: u32) -> Group {
        self.group((datafile / self.members).min(self.groups - 1))
    }
}

impl Distribution for TwodStripe {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![
            ("num_groups", self.num_groups.to_string()),
            ("strip_size", self.strip.value().to_string()),
            ("group_strip_factor", self.factor.to_string()),
        ]
    }

    #[inline]
    fn num_datafiles(&self) -> u32 {
        self.datafiles
    }

    #[inline]
    fn piece_at(&self, logical: u64) -> Piece {
        let (cycle, in_cycle) = self.cycle.divide(logical);
        let turn = self.turn.divide(in_cycle).0.min(u64::from(self.groups - 1));
        let group = self.group(turn as u32);
        let in_turn = in_cycle - group.start;
        let (row, in_row) = group.row.divide(in_turn);
        let (member, in_strip) = self.strip.divide(in_row);
        let contiguous = match (self.datafiles, group.members) {
            (1, _) => MAX_OFFSET,
            // A datafile alone in its group receives the whole turn.
            (_, 1) => group.length - in_turn,
            _ => self.strip.value() - in_strip,
        };
        Piece {
            datafile: group.first + member as u32,
            logical_offset: logical,
            physical_offset: cycle * self.share.value() + row * self.strip.value() + in_strip,
            length: contiguous.min(MAX_OFFSET - logical),
        }
    }

    #[inline]
    fn logical_to_physical(&self, datafile: u32, logical: u64) -> u64 {
        if datafile >= self.datafiles {
            return 0;
        }
        let strip = self.strip.value();
        let group = self.group_of(datafile);
        let (cycle, in_cycle) = self.cycle.divide(logical);
        let in_turn = in_cycle.saturating_sub(group.start).min(group.length);
        let (row, in_row) = group.row.divide(in_turn);
        let before = u64::from(datafile - group.first) * strip;
        cycle * self.share.value() + row * strip + in_row.saturating_sub(before).min(strip)
    }

    #[inline]
    fn physical_to_logical(&self, datafile: u32, physical: u64) -> Option<u64> {
        if datafile >= self.datafiles {
            return None;
        }
        let group = self.group_of(datafile);
        let (cycle, in_share) = self.share.divide(physical);
        let (row, in_strip) = self.strip.divide(in_share);
        let before = u64::from(datafile - group.first) * self.strip.value();
        let in_cycle = group.start + row * group.row.value() + before + in_strip;
        let logical = cycle.checked_mul(self.cycle.value())?.checked_add(in_cycle)?;
        (logical < MAX_OFFSET).then_some(logical)
    }
}

//! The optional fields of the header: each is there if the recording has something of the kind. The app works without them.

use super::clocks::ClockEntry;
use super::rules::RuleEntry;
use super::stacks::FrameEntry;
use serde::Serialize;
use std::collections::BTreeMap;
use thalweg_explain::profile::Profile;
use thalweg_explain::rpcstat::RpcStat;

/// The optional fields of the header.
#[derive(Serialize)]
pub(super) struct More<'a> {
    /// The functions of stacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) frames: Vec<FrameEntry>,
    /// The kinds of arrows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) arrows: Vec<&'static str>,
    /// The clocks of hosts other than the reference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) clocks: Vec<ClockEntry>,
    /// The rules that the explanation names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) rules: BTreeMap<&'static str, RuleEntry>,
    /// The RPCs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rpcs: Option<&'a RpcStat>,
    /// The profile of each host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) profile: Vec<Profile>,
}

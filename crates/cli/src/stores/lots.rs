//! Lots in the verbs: resolving names, formatting states and levels, computing what is left.

use crate::operand::StoreFlags;
use crate::session::Session;
use crate::{failure::Failure, listing, output};
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::lots::{Level, LotOperation, LotReport, LotState};
use thalweg_wire::protocol::metadata::{LayoutChoice, LotId};

/// Flag for the lot of new files.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Layout of new files")]
pub(crate) struct LotFlag {
    /// The lot that new files go to (default: the lot of their directory, or none); `thalweg lot create` makes a lot
    #[arg(long, value_name = "NAME")]
    pub lot: Option<String>,
}

impl LotFlag {
    /// Adds the flag's lot to a layout choice. Prints a note if the lot has expired.
    pub(crate) fn choose(&self, session: &Session, choice: LayoutChoice) -> Result<LayoutChoice, Failure> {
        let Some(name) = &self.lot else { return Ok(choice) };
        Ok(LayoutChoice { lot: Some(for_new_files(session, name)?), ..choice })
    }
}

/// Connects to the store that an operand names; returns the lot's name too.
pub(crate) fn connect(operand: &str, flags: &StoreFlags) -> Result<(Session, String), Failure> {
    let path = flags.path(operand)?;
    let name = path.path.trim_start_matches('/').to_owned();
    if name.is_empty() {
        return Err(Failure::usage(format!("{operand}: expected the name of a lot, like run7 or thal://HOST:PORT/run7")));
    }
    Ok((Session::connect(&path.store, flags)?, name))
}

/// Returns the id of the lot that new files go to.
pub(crate) fn for_new_files(session: &Session, name: &str) -> Result<LotId, Failure> {
    let found = session.names().find_lot(&mut Tracer::off(), name);
    let lot = found.map_err(|e| Failure::failed(format!("--lot {name}: {e}")))?.lot;
    if lot.state == LotState::Expired {
        let ended = listing::time_text(lot.until_ns);
        output::note(&format!(
            "lot `{name}` expired at {ended}: its files may be removed when the space is needed; to renew it: thalweg lot renew {name} --for TIME"
        ));
    }
    Ok(lot.id)
}

/// Returns the lot of this name.
pub(crate) fn named(session: &Session, name: &str) -> Result<LotReport, Failure> {
    one(asked(session, LotOperation::Show { name: Some(name.to_owned()) })?)
}

/// Sends a lot operation to the metadata service.
pub(crate) fn asked(session: &Session, operation: LotOperation) -> Result<Vec<LotReport>, Failure> {
    session.names().lots(&mut Tracer::off(), operation).map_err(|e| match e.kind() {
        thalweg_wire::ErrorKind::Invalid => Failure::Usage(e.to_string()),
        _ => Failure::failed(e),
    })
}

/// Returns the single lot of an answer.
pub(crate) fn one(mut reports: Vec<LotReport>) -> Result<LotReport, Failure> {
    reports.pop().ok_or_else(|| Failure::failed("the metadata service's answer has no lot in it"))
}

/// Returns a lot's name, or `#ID` if the lot is gone or this credential may not see it.
pub(crate) fn name_of(session: &Session, id: LotId) -> String {
    let all = asked(session, LotOperation::Show { name: None }).unwrap_or_default();
    all.into_iter().find(|report| report.lot.id == id).map_or_else(|| format!("#{id}"), |report| report.lot.name)
}

/// Returns the time on this machine's clock, in ns since 1970.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns a sentence on what a level guarantees against other programs.
pub(crate) fn level_meaning(level: Level) -> &'static str {
    match level {
        Level::Own => "the store is alone on its file systems, so nothing else can take the space",
        Level::Kernel => "the file system reserves the space: only root's programs can take it",
        Level::Ballast => {
            "a preallocated file keeps the space and shrinks as the lot fills; another program may take a part at that moment"
        }
        Level::Admission => "the store gives the space to no other lot; other programs on the same disks can take it",
    }
}

/// The state and space of a lot.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lot {
    pub name: String,
    pub owner: String,
    /// `active`, `expired`, `creating` or `removing`.
    pub state: &'static str,
    pub size_bytes: u64,
    /// Space its files use. Absent if a target did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Space promised and not used yet. Absent if a target did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promised_bytes: Option<u64>,
    pub created: String,
    /// End of the promise.
    pub until: String,
    /// Time left by this machine's clock; negative once it is over.
    pub left_s: i64,
    /// Whether it may grow beyond its size, best effort.
    pub elastic: bool,
    /// The weakest level of its targets. Absent if none answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<&'static str>,
}

impl Lot {
    /// Converts the service's report.
    pub(crate) fn of(report: &LotReport) -> Lot {
        let lot = &report.lot;
        let sum = |bytes: &dyn Fn(usize) -> u64| {
            let all = (0..report.uses.len()).fold(0_u64, |sum, at| sum.saturating_add(bytes(at)));
            (report.uses.len() >= lot.shares.len()).then_some(all)
        };
        let is_over = lot.state == LotState::Expired;
        Lot {
            name: lot.name.clone(),
            owner: lot.owner.clone(),
            state: state_text(lot.state),
            size_bytes: lot.size_bytes,
            used_bytes: sum(&|at| report.uses[at].used_bytes),
            promised_bytes: if is_over { Some(0) } else { sum(&|at| unused_bytes(report, at)) },
            created: listing::time_text(lot.created_ns),
            until: listing::time_text(lot.until_ns),
            left_s: lot.until_ns.saturating_sub(now_ns()).div_euclid(1_000_000_000),
            elastic: lot.elastic,
            level: level_of(report).map(Level::name),
        }
    }
}

/// Returns the promised, unused bytes of the target at index `at` of the report.
pub(crate) fn unused_bytes(report: &LotReport, at: usize) -> u64 {
    let used = &report.uses[at];
    if used.expired { 0 } else { used.share.share_bytes.saturating_sub(used.used_bytes) }
}

/// Returns the level in force: the weakest of its targets.
pub(crate) fn level_of(report: &LotReport) -> Option<Level> {
    report.uses.iter().map(|used| used.level).min()
}

fn state_text(state: LotState) -> &'static str {
    match state {
        LotState::Creating => "creating",
        LotState::Active => "active",
        LotState::Expired => "expired",
        LotState::Removing => "removing",
    }
}

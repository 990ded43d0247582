//! Classifies samples by their thread's call and that call's descriptors.

use super::Translator;
use super::files::is_file;
use super::samples::{Class, WorkKind};
use super::syscalls::Call;
use crate::bpf::raw;

impl Translator {
    /// Returns the class of a sample, and the work to whose price its time counts. A software interrupt triggered by
    /// the thread's own send counts to the price of the send.
    pub(super) fn class_of(&self, sample: &raw::Sample) -> (Class, Option<WorkKind>) {
        let tcp = |at: usize| raw::socket_is_tcp(&sample.file[at]);
        let (class, work) = if sample.flags & raw::SAMPLE_USER != 0 {
            (Class::User, None)
        } else if sample.flags & raw::OFF_KERNEL_THREAD != 0 {
            (Class::Other, None)
        } else if sample.call < 0 {
            (Class::Fault, None)
        } else {
            match self.calls.of(sample.call) {
                Call::Read if tcp(0) => (Class::Receive, Some(WorkKind::Receive)),
                Call::Read => (Class::Read, is_file(&sample.file[0]).then_some(WorkKind::Read)),
                Call::Write if tcp(0) => (Class::Send, Some(WorkKind::Send)),
                Call::Write if sample.file[0].access & raw::ACCESS_SYNCED != 0 => (Class::SyncedWrite, None),
                Call::Write => (Class::Write, is_file(&sample.file[0]).then_some(WorkKind::Write)),
                Call::Send => (Class::Send, tcp(0).then_some(WorkKind::Send)),
                Call::SendFile if tcp(0) => (Class::Send, Some(WorkKind::Send)),
                Call::SendFile => (Class::Write, Some(WorkKind::Write)),
                Call::Between if tcp(1) => (Class::Send, Some(WorkKind::Send)),
                Call::Between if tcp(0) => (Class::Receive, Some(WorkKind::Receive)),
                Call::Between => (Class::Write, Some(WorkKind::Write)),
                Call::Receive => (Class::Receive, tcp(0).then_some(WorkKind::Receive)),
                Call::Sync | Call::MapSync => (Class::Sync, None),
                Call::Open if sample.file[0].access & raw::ACCESS_TRUNCATES != 0 => (Class::Truncate, None),
                Call::Open => (Class::Open, None),
                Call::Stat => (Class::Stat, None),
                Call::List => (Class::List, None),
                Call::Close => (Class::Close, None),
                Call::Truncate => (Class::Truncate, None),
                Call::Remove => (Class::Remove, None),
                Call::Rename => (Class::Rename, None),
                Call::Create => (Class::Create, None),
                Call::Execute => (Class::Execute, None),
                Call::FileOther => (Class::Names, None),
                Call::Poll | Call::Yield => (Class::Poll, None),
                _ => (Class::Other, None),
            }
        };
        if sample.flags & raw::SAMPLE_SOFTIRQ != 0 {
            return (Class::Softirq, work.filter(|w| matches!(w, WorkKind::Send | WorkKind::Receive)));
        }
        (class, work)
    }
}

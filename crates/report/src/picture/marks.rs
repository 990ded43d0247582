//! The marks of the picture: their classes, colours and shapes.

use super::canvas::{Canvas, FAINT, INK, Path};
use thalweg_trace::MarkKind;

/// A class of marks, with one shape and one entry in the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MarkClass {
    /// Sent again.
    SentAgain,
    /// A timer expired.
    TimedOut,
    /// TCP held data back.
    HeldBack,
    /// Events were lost.
    Lost,
    /// A signal.
    Signal,
    /// A thread began or ended.
    Life,
    /// A tuner's step.
    Tuned,
    /// A name was looked up.
    Lookup,
    /// A lock of tasks that share threads.
    TaskLock,
}

/// Every class, in the order of the legend.
pub(crate) const MARK_CLASSES: &[MarkClass] = &[
    MarkClass::SentAgain,
    MarkClass::TimedOut,
    MarkClass::HeldBack,
    MarkClass::Signal,
    MarkClass::Lost,
    MarkClass::Tuned,
    MarkClass::Lookup,
    MarkClass::TaskLock,
    MarkClass::Life,
];

/// Returns the class of a mark; `None` for what says something to the recorder only.
pub(crate) fn mark_class(kind: MarkKind) -> Option<MarkClass> {
    use MarkKind as K;
    Some(match kind {
        K::TcpRetransmit | K::TcpSynRetransmit | K::RpcRetransmit => MarkClass::SentAgain,
        K::TcpTimeout | K::RpcTimeout => MarkClass::TimedOut,
        K::TcpZeroWindow | K::TcpNagle | K::TcpIdleRestart | K::TcpAcceptQueue | K::TcpNotAccepted => MarkClass::HeldBack,
        K::Lost => MarkClass::Lost,
        K::Signal => MarkClass::Signal,
        K::ThreadStart | K::ThreadExit => MarkClass::Life,
        K::TuneStep => MarkClass::Tuned,
        K::NameAsked | K::NameAnswered => MarkClass::Lookup,
        K::TaskLockAwaited | K::TaskLockAwaitedAgain | K::TaskLockHandedOn => MarkClass::TaskLock,
        K::ThreadSeen | K::ProcessCalled => return None,
    })
}

impl MarkClass {
    /// The entry in the legend.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            MarkClass::SentAgain => "sent again",
            MarkClass::TimedOut => "timer expired",
            MarkClass::HeldBack => "held back by TCP",
            MarkClass::Lost => "events lost by the recorder",
            MarkClass::Signal => "signal",
            MarkClass::Life => "thread begins or ends",
            MarkClass::Tuned => "tuner's step",
            MarkClass::Lookup => "name looked up",
            MarkClass::TaskLock => "mutex of goroutines",
        }
    }

    const fn colour(self) -> &'static str {
        match self {
            MarkClass::SentAgain => "#C1121F",
            MarkClass::TimedOut => "#E6006E",
            MarkClass::HeldBack => "#8E44AD",
            MarkClass::Lost => "#D55E00",
            MarkClass::Signal => INK,
            MarkClass::Life => FAINT,
            MarkClass::Tuned => "#0072B2",
            MarkClass::Lookup => "#009E73",
            MarkClass::TaskLock => "#44AA99",
        }
    }

    /// Draws the mark, `height` pixels high, with the upper end of its stem at (x, y).
    pub(crate) fn draw(self, canvas: &mut Canvas, x: f64, y: f64, height: f64) {
        let mut path = Path::default();
        match self {
            MarkClass::SentAgain | MarkClass::Lost => path.steps(&[(-2.5, 2.5, 0.0, 4.0), (-0.5, 0.5, 4.0, height)]),
            MarkClass::TimedOut | MarkClass::HeldBack => {
                path.polygon(&[(0.0, -1.0), (3.5, 2.5), (0.0, 6.0), (-3.5, 2.5)]);
                path.rectangle(-0.5, 5.0, 1.0, height - 5.0);
            }
            MarkClass::Signal => {
                path.polygon(&[(-0.75, -3.0), (7.0, 0.0), (0.75, 3.0), (0.75, height), (-0.75, height)]);
            }
            MarkClass::Life => path.rectangle(-0.5, 0.0, 1.0, height),
            MarkClass::Tuned | MarkClass::Lookup | MarkClass::TaskLock => {
                path.polygon(&[(-3.0, 0.0), (3.0, 0.0), (0.5, 5.0), (0.5, height), (-0.5, height), (-0.5, 5.0)]);
            }
        }
        canvas.path(x, y, &path, self.colour());
    }
}

/// Returns the name of a signal.
pub(crate) fn signal_name(number: i64) -> String {
    let known = [(5, "SIGTRAP"), (19, "SIGSTOP"), (20, "SIGTSTP"), (21, "SIGTTIN"), (22, "SIGTTOU")];
    known.iter().find(|(known, _)| *known == number).map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}

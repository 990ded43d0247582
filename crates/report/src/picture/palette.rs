//! The colours of the pictures: Okabe and Ito's palette, distinguishable with all common kinds of colour vision, on white. Work is drawn as
//! bars and waiting as thin lines, so that an idle lane looks idle and the shade of a gap shows behind it.

use thalweg_explain::Cause;
use thalweg_trace::SpanKind;

/// The look of a class of spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Class {
    /// Its name in the legend.
    pub name: &'static str,
    /// Its colour.
    pub colour: &'static str,
    /// Whether it is a thin line.
    pub thin: bool,
}

macro_rules! classes {
    ($($(#[$doc:meta])* $item:ident = $name:literal, $colour:literal, $thin:literal;)+) => {
        /// The classes, in the order of the legend; coverage stacks them in this order, from the bottom.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum SpanClass { $($(#[$doc])* $item),+ }

        /// The look of each [`SpanClass`], by its number.
        pub(crate) const CLASSES: &[Class] = &[$(Class { name: $name, colour: $colour, thin: $thin }),+];
    };
}

classes! {
    /// Reading from a file or device.
    Read = "read", "#0072B2", false;
    /// Writing to a file or device.
    Write = "write", "#D55E00", false;
    /// Making data durable.
    Sync = "sync", "#CC79A7", false;
    /// Handing bytes to a connection.
    Send = "send", "#009E73", false;
    /// Taking bytes from a connection.
    Receive = "receive", "#3DA5D9", false;
    /// Computing.
    Compute = "checksum, computing", "#E69F00", false;
    /// Opening, closing, names and attributes.
    Metadata = "metadata", "#8C7A00", false;
    /// Messages of MPI.
    MpiMessage = "MPI message", "#882255", false;
    /// Collectives of MPI.
    MpiCollective = "MPI collective", "#44AA99", false;
    /// Waiting in MPI for operations started earlier.
    MpiWait = "MPI wait, test", "#DDCC77", false;
    /// Files through MPI.
    MpiFile = "MPI file", "#AA4466", false;
    /// Any other MPI call.
    Mpi = "MPI, other", "#999933", false;
    /// A request or RPC, of which the spans below it are parts.
    Enclosing = "request, RPC", "#5B6B82", false;
    /// Queued, or runnable for most of the span.
    Queue = "runnable, queued", "#7A3B3B", true;
    /// Blocked on the network.
    AwaitNetwork = "waiting for the network", "#6FB7DE", true;
    /// Blocked on another thread, a timer, memory, a device.
    Await = "waiting for another thread", "#A9B1BB", true;
}

/// Number of classes.
pub(crate) const CLASS_COUNT: usize = CLASSES.len();

/// The state of a span's thread for more than half of the span, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mostly {
    /// It ran, or its state is not known.
    Ran,
    /// It was blocked.
    Blocked,
    /// It was runnable and not running.
    Runnable,
}

/// Returns the class of a span.
pub(crate) fn class_of(kind: SpanKind, mostly: Mostly) -> SpanClass {
    use SpanKind as K;
    match kind {
        K::AppRequest | K::RpcCall | K::RpcServe => SpanClass::Enclosing,
        _ if mostly == Mostly::Runnable => SpanClass::Queue,
        K::FileRead | K::DiskRead => SpanClass::Read,
        K::FileWrite | K::DiskWrite => SpanClass::Write,
        K::FileSync | K::DiskFlush => SpanClass::Sync,
        K::NetReceive if mostly == Mostly::Blocked => SpanClass::AwaitNetwork,
        K::WaitNetwork => SpanClass::AwaitNetwork,
        K::NetSend | K::NetConnect => SpanClass::Send,
        K::NetReceive => SpanClass::Receive,
        K::AppChecksum | K::AppOther | K::CpuRun => SpanClass::Compute,
        K::FileOpen | K::FileStat | K::FileList | K::FileClose => SpanClass::Metadata,
        K::FileTruncate | K::FileRemove | K::FileRename | K::FileCreate | K::FileOther => SpanClass::Metadata,
        K::MpiSend | K::MpiReceive | K::MpiMessage => SpanClass::MpiMessage,
        K::MpiRead | K::MpiWrite | K::MpiIo => SpanClass::MpiFile,
        K::MpiCollective => SpanClass::MpiCollective,
        K::MpiWait => SpanClass::MpiWait,
        K::MpiOther => SpanClass::Mpi,
        K::RpcQueue | K::WaitRunqueue => SpanClass::Queue,
        K::WaitDisk | K::WaitLock | K::WaitTimer | K::WaitMemory | K::WaitOther => SpanClass::Await,
    }
}

/// Returns the look of a cause: its kind gives the colour, and causes at the server are hatched.
pub(crate) fn cause_style(cause: Cause) -> Class {
    let name = cause.name();
    let colour = match name.rsplit('.').next().unwrap_or(name) {
        "bandwidth" => "#009E73",
        "latency" => "#66C5A8",
        _ if name.starts_with("network.") => "#00614A",
        "read" => "#0072B2",
        "write" => "#D55E00",
        "sync" => "#CC79A7",
        "cpu" => "#E69F00",
        "metadata" => "#8C7A00",
        "memory" => "#882255",
        "runqueue" => "#7A7A7A",
        "lock" => "#A9AFB8",
        "think" => "#C9CDD3",
        "recorder" => "#AA4499",
        _ => "#000000",
    };
    Class { name, colour, thin: false }
}

/// Whether a cause's colour is hatched: it is at the server.
pub(crate) fn is_hatched(cause: Cause) -> bool {
    cause.name().starts_with("server.")
}

/// Whether a colour is light, so that text on it must be dark.
pub(crate) fn is_light(colour: &str) -> bool {
    let part = |at: usize| colour.get(at..at + 2).and_then(|h| u32::from_str_radix(h, 16).ok()).unwrap_or(0);
    part(1) * 299 + part(3) * 587 + part(5) * 114 > 150_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_cause_has_a_colour_and_neighbours_differ() {
        for &kind in SpanKind::ALL {
            assert!(CLASSES[class_of(kind, Mostly::Ran) as usize].colour.starts_with('#'));
        }
        for (i, class) in CLASSES.iter().enumerate() {
            assert!(CLASSES[..i].iter().all(|c| c.colour != class.colour && c.name != class.name), "{}", class.name);
        }
        for &cause in Cause::ALL {
            let known = cause_style(cause).colour != "#000000";
            assert!(known || cause.name().ends_with("unknown"), "{} has no colour", cause.name());
        }
    }

    #[test]
    fn an_idle_wait_for_a_message_is_a_thin_line() {
        assert_eq!(class_of(SpanKind::NetReceive, Mostly::Blocked), SpanClass::AwaitNetwork);
        assert_eq!(class_of(SpanKind::NetSend, Mostly::Runnable), SpanClass::Queue);
        assert_eq!(class_of(SpanKind::NetReceive, Mostly::Ran), SpanClass::Receive);
        assert!(CLASSES[SpanClass::AwaitNetwork as usize].thin && !CLASSES[SpanClass::Receive as usize].thin);
        assert!(is_light("#E69F00") && !is_light("#0072B2"));
    }
}

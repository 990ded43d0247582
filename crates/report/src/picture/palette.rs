//! The colours of the pictures. Okabe and Ito's palette is the base; the further colours were searched for the largest least difference in
//! Lab as seen with normal, protanopic and deuteranopic vision, and a test holds that difference. Work is drawn as bars and waiting as thin
//! lines, so that an idle lane looks idle and the shade of a gap shows behind it.

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
    /// Running on a processor.
    Compute = "running", "#E69F00", false;
    /// Opening, closing, names and attributes.
    Metadata = "metadata", "#0AB45B", false;
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
    /// Stopped by a signal.
    Stopped = "stopped by a signal", "#11605A", false;
    /// Queued, or runnable for most of the span.
    Queue = "runnable, queued", "#563035", true;
    /// Blocked on the network.
    AwaitNetwork = "waiting for the network", "#5FD0EE", true;
    /// Blocked on a device or on memory.
    AwaitDevice = "waiting for a device or memory", "#5B9BD5", true;
    /// Asleep until a given time.
    Asleep = "asleep", "#4E9A92", true;
    /// Blocked on another thread.
    AwaitThread = "waiting for another thread", "#A9B1BB", true;
    /// Blocked for a reason that was not recorded.
    AwaitUnknown = "waiting, reason not recorded", "#C9CED6", true;
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
        K::WaitDisk | K::WaitMemory => SpanClass::AwaitDevice,
        K::WaitTimer => SpanClass::Asleep,
        K::WaitLock => SpanClass::AwaitThread,
        K::WaitOther => SpanClass::AwaitUnknown,
    }
}

/// Returns the look of a cause: its kind gives the colour, and causes at the server are hatched.
pub(crate) fn cause_style(cause: Cause) -> Class {
    let name = cause.name();
    let colour = match name.rsplit('.').next().unwrap_or(name) {
        "bandwidth" => "#009E73",
        "latency" => "#5FD0EE",
        "loss" => "#A50F15",
        "cwnd" => "#3D82FF",
        "rwnd" => "#472258",
        "sndbuf" => "#B0306A",
        "read" => "#0072B2",
        "write" => "#D55E00",
        "sync" => "#CC79A7",
        "cpu" => "#E69F00",
        "metadata" => "#0AB45B",
        "memory" => "#C9E86B",
        "runqueue" => "#563035",
        "lock" => "#1B20CF",
        "think" => "#11605A",
        "recorder" => "#D3D9DD",
        _ => "#000000",
    };
    Class { name, colour, thin: false }
}

/// Whether a cause's colour is hatched: it is at the server.
pub(crate) fn is_hatched(cause: Cause) -> bool {
    cause.name().starts_with("server.")
}

/// The colour of text on a light bar.
pub(crate) const ON_LIGHT: &str = "#000";
/// The colour of text on a dark bar.
pub(crate) const ON_DARK: &str = "#FFFFFF";

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

    type Matrix = [[f64; 3]; 3];
    /// How linear colours appear with normal, protanopic and deuteranopic vision (Machado, Oliveira and Fernandes 2009).
    const VISION: [Matrix; 3] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152_286, 1.052_583, -0.204_868], [0.114_503, 0.786_281, 0.099_216], [-0.003_882, -0.048_116, 1.051_998]],
        [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_820, 0.042_940, 0.968_881]],
    ];
    const XYZ: Matrix = [[0.412_4, 0.357_6, 0.180_5], [0.212_6, 0.715_2, 0.072_2], [0.019_3, 0.119_2, 0.950_5]];

    fn times(matrix: &Matrix, v: [f64; 3]) -> [f64; 3] {
        [0, 1, 2].map(|row: usize| (0..3).map(|i| matrix[row][i] * v[i]).sum())
    }

    fn lab(colour: &str, vision: &Matrix) -> [f64; 3] {
        let channel = |at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        let linear = [1, 3, 5].map(|at| {
            let c = channel(at);
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        });
        let [x, y, z] = times(&XYZ, times(vision, linear).map(|c| c.clamp(0.0, 1.0)));
        let [x, y, z] = [x / 0.950_5, y, z / 1.089].map(|t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn causes_are_distinguishable_also_without_red_or_green_receptors() {
        let mut colours: Vec<&str> = Cause::ALL.iter().map(|cause| cause_style(*cause).colour).filter(|c| c.len() == 7).collect();
        colours.sort_unstable();
        colours.dedup();
        for (i, a) in colours.iter().enumerate() {
            for b in &colours[..i] {
                for vision in &VISION {
                    let (p, q) = (lab(a, vision), lab(b, vision));
                    let apart = (0..3).map(|i| (p[i] - q[i]).powi(2)).sum::<f64>().sqrt();
                    assert!(apart > 12.0, "{a} and {b} are {apart:.1} apart");
                }
            }
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

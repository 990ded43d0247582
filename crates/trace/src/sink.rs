//! Destinations of recorders' events.

use crate::{Event, Loss};
use parking_lot::Mutex;

/// Takes batches of events from any thread. A batch comes from one tracer, in order of completion; batches of
/// different tracers may interleave. Must not block for long: it is called from the data path.
pub trait Sink: Send + Sync {
    /// Takes a batch; leaves `batch` empty but keeps its capacity.
    fn take(&self, batch: &mut Vec<Event>);
}

/// Keeps events in memory up to a limit; further events are only counted.
#[derive(Debug)]
pub struct Memory {
    inner: Mutex<(Vec<Event>, Loss)>,
    limit: usize,
}

impl Memory {
    /// Creates a sink that keeps at most `limit` events.
    pub fn new(limit: usize) -> Memory {
        Memory { inner: Mutex::new((Vec::new(), Loss::default())), limit }
    }

    /// Takes the kept events, with a `lost` mark for each track that lost events since the last call, and the number
    /// of lost events that no mark counts (for [`crate::Ending::dropped_events`]).
    pub fn drain(&self) -> (Vec<Event>, u64) {
        let mut inner = self.inner.lock();
        let mut events = std::mem::take(&mut inner.0);
        events.append(&mut inner.1.take_marks());
        (events, std::mem::take(&mut inner.1.elsewhere))
    }
}

impl Sink for Memory {
    fn take(&self, batch: &mut Vec<Event>) {
        let mut inner = self.inner.lock();
        let room = self.limit.saturating_sub(inner.0.len()).min(batch.len());
        inner.0.extend(batch.drain(..room));
        batch.iter().for_each(|event| inner.1.count(event));
        batch.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostId, IdSpace, MarkKind, Role, SpanKind, TraceHandle};
    use std::sync::Arc;

    #[test]
    fn a_full_sink_counts_what_it_loses_on_its_track() {
        let sink = Arc::new(Memory::new(11));
        let trace = TraceHandle::on(Arc::clone(&sink) as Arc<dyn Sink>, HostId(0), Role::Client, IdSpace(1));
        let mut tracer = trace.thread("main");
        for _ in 0..100 {
            let begun = tracer.begin();
            tracer.end(begun, SpanKind::AppOther, crate::SpanFields::default());
        }
        tracer.flush();
        let (events, elsewhere) = sink.drain();
        assert_eq!((events.len(), elsewhere), (12, 0), "a track, ten spans, a mark");
        let Some(Event::Mark(mark)) = events.last() else { panic!("no mark of the loss") };
        assert_eq!((mark.kind, Some(mark.track)), (MarkKind::Lost, tracer.track()));
        // A thread that is preempted between spans has more of them.
        assert!(mark.value >= Some(90), "{mark:?}");
        assert_eq!(sink.drain(), (Vec::new(), 0), "handed over once");
    }
}

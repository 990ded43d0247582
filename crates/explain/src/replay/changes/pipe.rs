//! Room in a pipe for a burst, so that its reader need not be waited for.

use super::proposal::{By, Proposal, Run};
use crate::replay::edit_pipe::with_room;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let Some(joined) = &run.joined else { return Vec::new() };
    let Some(graph) = with_room(run.graph, run.tables, joined) else { return Vec::new() };
    let change = "mbuffer in the pipe between them";
    let (writer, reader) = (run.name_of(joined.writer.1), run.name_of(joined.reader.1));
    let how = format!(
        "let what {writer} writes in a burst wait for {reader} in a buffer: `| mbuffer -q -m 256M |` between them, or a larger pipe (F_SETPIPE_SZ, to 1 MiB)"
    );
    vec![Proposal::new("pipe.room", change, how, By::Edit(Box::new(graph)))]
}

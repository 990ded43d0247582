"""Reads a Perfetto trace with Perfetto's own protobuf definition (PyPI: perfetto) and says what is in it.

Checks as a trace processor would: packets in order of time within a sequence's state, every begin has its
end on the same track, innermost first, and every name resolves. Prints one line of JSON.
"""

import collections
import json
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb


def add_to_path(path, event, at):
    """Adds a slice of the critical path, [cause, start, length], or ends its last one; there are no holes."""
    if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
        assert not path or path[-1][1] + path[-1][2] == at, "a critical path with a hole"
        path.append([event.name, at, None])
    else:
        path[-1][2] = at - path[-1][1]


def is_state(packet):
    """Whether the packet is a thread's state, on the right clock."""
    found = packet.HasField("generic_kernel_task_state_event")
    assert not found or packet.timestamp_clock_id == 3, "not on the monotonic clock"
    return found


def annotations_of(event, notes, strings):
    """What a slice is annotated with, by name."""
    annotations = {}
    for note in event.debug_annotations:
        kind = note.WhichOneof("value")
        value = getattr(note, kind)
        annotations[notes[note.name_iid]] = strings[value] if kind == "string_value_iid" else value
    return annotations


def intern_stacks(interned, functions, paths, mappings, frames, callstacks):
    """Takes in what samples refer to."""
    functions.update((entry.iid, entry.str.decode()) for entry in interned.function_names)
    paths.update((entry.iid, entry.str.decode()) for entry in interned.mapping_paths)
    mappings.update((entry.iid, paths[entry.path_string_ids[0]]) for entry in interned.mappings)
    frames.update((entry.iid, (functions[entry.function_name_id], mappings[entry.mapping_id])) for entry in interned.frames)
    callstacks.update((entry.iid, [frames[frame] for frame in entry.frame_ids]) for entry in interned.callstacks)


def main(path):
    trace = pb.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    Event = pb.TrackEvent
    names, categories, notes, strings = {}, {}, {}, {}
    functions, paths, mappings, frames, callstacks, samples = {}, {}, {}, {}, {}, []
    tracks, counters = {}, set()
    open_slices = collections.defaultdict(list)
    counts, slices, flows, stacks = collections.Counter(), [], collections.Counter(), {}
    instants, values, path, states = collections.Counter(), collections.Counter(), [], 0
    events = []
    for index, packet in enumerate(trace.packet):
        for known, table in ((names, packet.interned_data.event_names), (categories, packet.interned_data.event_categories),
                             (notes, packet.interned_data.debug_annotation_names)):
            known.update((entry.iid, entry.name) for entry in table)
        interned = packet.interned_data
        intern_stacks(interned, functions, paths, mappings, frames, callstacks)
        if packet.HasField("perf_sample"):
            assert packet.timestamp_clock_id == 3, "not on the monotonic clock"
            stack = callstacks[packet.perf_sample.callstack_iid]
            samples.append([packet.timestamp, packet.perf_sample.cpu, packet.perf_sample.tid, [f"{name} in {path}" for name, path in stack]])
        strings.update((entry.iid, entry.str.decode()) for entry in packet.interned_data.debug_annotation_string_values)
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            assert descriptor.uuid not in tracks, f"track {descriptor.uuid} described twice"
            assert not descriptor.parent_uuid or descriptor.parent_uuid in tracks, "a parent that is not known yet"
            tracks[descriptor.uuid] = descriptor
            if descriptor.HasField("counter"):
                counters.add(descriptor.uuid)
        states += is_state(packet)
        if packet.HasField("track_event"):
            assert packet.timestamp_clock_id == 3, "not on the monotonic clock"
            events.append((packet.timestamp, index, packet.track_event))
    assert trace.packet[0].sequence_flags & 1, "the state is never begun"
    events.sort(key=lambda event: event[:2])
    for at, _, event in events:
        assert event.track_uuid in tracks, f"an event on track {event.track_uuid}, which is not described"
        if tracks[event.track_uuid].name == "critical path":
            add_to_path(path, event, at)
        elif event.type == Event.TYPE_SLICE_BEGIN:
            annotations = annotations_of(event, notes, strings)
            categories[event.category_iids[0]]
            name = names[event.name_iid]
            if open_slices[event.track_uuid]:
                outer = open_slices[event.track_uuid][-1]
                assert annotations.get("parent") == outer[2]["span"], "nested in what is not its parent"
            open_slices[event.track_uuid].append((name, at, annotations))
            flows.update(event.flow_ids)
        elif event.type == Event.TYPE_SLICE_END:
            name, start, annotations = open_slices[event.track_uuid].pop()
            counts[name] += 1
            slices.append([annotations["span"], name, start, at - start])
            if "stack" in annotations:
                stacks[annotations["span"]] = annotations["stack"]
        elif event.type == Event.TYPE_INSTANT:
            instants[names[event.name_iid]] += 1
            flows.update([*event.flow_ids, *event.terminating_flow_ids])
        elif event.type == Event.TYPE_COUNTER:
            assert event.track_uuid in counters, "a counter's value on a track that is none"
            values[tracks[event.track_uuid].name] += 1
    assert not any(open_slices.values()), "slices that never end"
    slices.sort()
    named = collections.Counter((tracks[uuid].parent_uuid, tracks[uuid].name) for uuid in counters)
    twice = [name for (_, name), number in named.items() if number > 1]
    print(json.dumps({"samples": samples, "slices": slices, "kinds": counts, "instants": instants, "counters": values, "flows": len(flows),
                      "joined": sum(1 for ends in flows.values() if ends == 2), "objects": sorted(strings.values()), "stacks": stacks,
                      "path": path, "states": states, "counters_twice": twice,
                      "tracks": sorted(t.thread.thread_name or t.name or t.process.process_name for t in tracks.values())}))


if __name__ == "__main__":
    main(sys.argv[1])

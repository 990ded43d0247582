// What the pages of measurements have in common: the machine, what was promised, what was not measured.

import { figure } from "../chart/scale";
import { shown } from "../view/format";
import type { Bar } from "../explore/layout";
import type { Machine } from "../explore/sweep";

export function machineText(m: Machine | undefined): string {
  if (!m) return "";
  const parts = [m.cpus ? `${m.cpus} CPUs${m.cpu_model ? ` (${m.cpu_model})` : ""}` : "", m.memory_bytes ? figure(m.memory_bytes, "bytes") : "", m.kernel, m.system, m.virtual_machine ? "a virtual machine" : "", m.load !== undefined ? `load ${m.load.toFixed(2)}` : ""];
  return parts.filter(Boolean).join(", ");
}

export function Lead({ lines }: { lines: (string | undefined | false)[] }) {
  return <>{lines.filter((line): line is string => !!line).map((line, i) => <p key={i} class="faint"><bdi>{shown(line, 500)}</bdi></p>)}</>;
}

const three = (v: number): string => (Math.abs(v) >= 100 ? v.toFixed(0) : v.toPrecision(3));

/** Targets and whether they are met; those that are missed first. */
export function Promises({ bars }: { bars: Bar[] }) {
  if (!bars.length) return null;
  const missed = bars.filter((b) => !b.kept).length;
  return (
    <section aria-labelledby="promises-title">
      <h2 id="promises-title">What was promised <span class="faint">{missed ? `${missed} of ${bars.length} missed` : `all ${bars.length} kept`}</span></h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="What was promised"><table>
        <thead><tr><th scope="col">what</th><th scope="col" class="n">found</th><th scope="col" class="n">95 % interval</th><th scope="col" class="n">promised</th><th scope="col">kept?</th></tr></thead>
        <tbody>{[...bars].sort((a, b) => Number(a.kept) - Number(b.kept)).map((b, i) => (
          <tr key={i}><td><bdi>{shown(b.what, 200)}</bdi></td><td class="n">{three(b.found.median)}</td><td class="n">{three(b.found.low)} to {three(b.found.high)}</td>
            <td class="n">{b.most === undefined || b.most === null ? `≥ ${three(b.least)}` : b.least > 0 ? `${three(b.least)} to ${three(b.most)}` : `≤ ${three(b.most)}`}</td><td>{b.kept ? "✓ kept" : <strong>✗ missed</strong>}</td></tr>
        ))}</tbody>
      </table></div>
    </section>
  );
}

export function Problems({ problems }: { problems: string[] | undefined }) {
  if (!problems?.length) return null;
  return <section><h2>Not measured</h2>{problems.map((p, i) => <p key={i} class="remark"><bdi>{shown(p, 400)}</bdi></p>)}</section>;
}

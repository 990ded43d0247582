// Opens the page's data in a worker; in the page itself where a worker cannot be started.

import type { Header } from "./header";
import { load } from "./prepare";
import PrepareWorker from "./prepare.worker?worker&inline";
import type { Prepared, Recording } from "./recording";

function inWorker(header: Header, base64: string, early: (first: Prepared) => void): Promise<Prepared> {
  return new Promise((resolve, reject) => {
    const worker = new PrepareWorker();
    worker.onmessage = (event: MessageEvent<{ early?: Prepared; prepared?: Prepared; error?: string }>) => {
      if (event.data.early) return early(event.data.early);
      worker.terminate();
      if (event.data.prepared) resolve(event.data.prepared);
      else reject(new Error(event.data.error ?? "The data could not be read."));
    };
    worker.onerror = () => {
      worker.terminate();
      load(header, base64).then(resolve, reject);
    };
    worker.postMessage({ header: { ...header, explanation: {}, short: "" }, base64 });
  });
}

/** Opens the data; `early` gets what can be drawn before the spans are read, if that takes long. */
export async function open(header: Header, base64: string, early: (first: Recording) => void): Promise<Recording> {
  let prepared: Prepared;
  try {
    prepared = await inWorker(header, base64, (first) => early({ ...first, header }));
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    prepared = await load(header, base64);
  }
  return { ...prepared, header };
}

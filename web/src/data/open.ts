// Opens the page's data in a worker; in the page itself where a worker cannot be started.

import type { Header } from "./header";
import { load } from "./prepare";
import PrepareWorker from "./prepare.worker?worker&inline";
import type { Prepared, Recording } from "./recording";

function inWorker(header: Header, base64: string): Promise<Prepared> {
  return new Promise((resolve, reject) => {
    const worker = new PrepareWorker();
    worker.onmessage = (event: MessageEvent<{ prepared?: Prepared; error?: string }>) => {
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

export async function open(header: Header, base64: string): Promise<Recording> {
  let prepared: Prepared;
  try {
    prepared = await inWorker(header, base64);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    prepared = await load(header, base64);
  }
  return { ...prepared, header };
}

import type { Header } from "./header";
import { buffers, load } from "./prepare";
import type { Prepared } from "./recording";

self.onmessage = async (event: MessageEvent<{ header: Header; base64: string }>) => {
  try {
    const first = (early: Prepared) => self.postMessage({ early }, { transfer: buffers(early) });
    const prepared = await load(event.data.header, event.data.base64, first);
    self.postMessage({ prepared }, { transfer: buffers(prepared) });
  } catch (error) {
    self.postMessage({ error: error instanceof Error ? error.message : String(error) });
  }
};

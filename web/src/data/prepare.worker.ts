import type { Header } from "./header";
import { buffers, load } from "./prepare";

self.onmessage = async (event: MessageEvent<{ header: Header; base64: string }>) => {
  try {
    const prepared = await load(event.data.header, event.data.base64);
    self.postMessage({ prepared }, { transfer: buffers(prepared) });
  } catch (error) {
    self.postMessage({ error: error instanceof Error ? error.message : String(error) });
  }
};

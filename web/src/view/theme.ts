// Light or dark, for pages without a recording and for pictures whose colours are attributes.

import { useEffect, useState } from "preact/hooks";
import { DARK, LIGHT, type Theme } from "../palette";

const now = (): Theme => (document.documentElement.dataset.theme === "dark" ? DARK : LIGHT);

/** The theme of the document; a component renders again when it changes. */
export function useTheme(): Theme {
  const [theme, set] = useState(now);
  useEffect(() => {
    const watch = new MutationObserver(() => set(now()));
    watch.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => watch.disconnect();
  }, []);
  return theme;
}

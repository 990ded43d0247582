// The views in the tabs, in their order. A view that has nothing to show is not in the tabs. Adding a view is a file and a line here.

import type { ComponentType } from "preact";
import { planeCount } from "../data/header";
import type { Model } from "../model";
import { Both } from "../pair/Both";
import { ProfilePage } from "../pages/Profile";
import { knowsStudy, LayoutPage, ListingPage, StudyPage } from "../pages/Studies";
import { SweepPage } from "../pages/Sweep";
import { RpcsPage, RpcsView } from "../rpcs/Rpcs";
import { documentsOf } from "../rpcs/document";
import { Gaps } from "./gaps/Gaps";
import { Latency } from "./latency/Latency";
import { Layout } from "./layout/Layout";
import { Profile } from "./profile/Profile";
import { Time } from "./Time";

export interface PageView {
  /** What the fragment's `view=` has. */
  id: string;
  title: string;
  /** Shown only when the recording is read, unless the header has a document in place of a recording. */
  Component: ComponentType<{ model: Model }>;
  /** Whether the page has data for the view; asked for before the recording is read, so the header must answer. */
  has(model: Model): boolean;
}

export const VIEWS: PageView[] = [
  { id: "time", title: "Time", Component: Time, has: (m) => !m.header.view },
  { id: "latency", title: "Latency", Component: Latency, has: (m) => planeCount(m.header, "span.start") > 0 },
  { id: "gaps", title: "Gaps", Component: Gaps, has: (m) => planeCount(m.header, "span.start") > 0 && m.header.kinds.some((k) => /^(read|write|send|receive)$/.test(k.class)) },
  { id: "layout", title: "Layout", Component: Layout, has: (m) => planeCount(m.header, "span.offset_low") > 0 },
  { id: "profile", title: "Profile", Component: Profile, has: (m) => !m.header.view && planeCount(m.header, "stack.parent") > 0 },
  { id: "rpcs", title: "RPCs", Component: RpcsView, has: (m) => !m.header.view && documentsOf(m.header.rpcs).length > 0 },
  { id: "rpcstat", title: "RPCs", Component: RpcsPage, has: (m) => m.header.view === "rpcstat" },
  { id: "sweep", title: "Sweep", Component: SweepPage, has: (m) => m.header.view === "sweep" },
  { id: "layouts", title: "Layouts", Component: LayoutPage, has: (m) => m.header.view === "layout" },
  { id: "ls", title: "Listings", Component: ListingPage, has: (m) => m.header.view === "ls" },
  { id: "study", title: "Study", Component: StudyPage, has: (m) => m.header.view === "study" && knowsStudy(m) },
  { id: "profiles", title: "Profile", Component: ProfilePage, has: (m) => m.header.view === "profile" },
];

/** The page of two recordings has both in one view. */
const BOTH: PageView = { id: "both", title: "Both runs", Component: Both, has: (m) => !!m.header.diff };

export const viewsOf = (model: Model): PageView[] => (BOTH.has(model) ? [BOTH] : VIEWS.filter((view) => view.has(model)));

/** The view that is shown: that of the fragment, or the first. */
export function currentView(model: Model, views: PageView[] = viewsOf(model)): PageView | undefined {
  return views.find((view) => view.id === model.tab) ?? views[0];
}

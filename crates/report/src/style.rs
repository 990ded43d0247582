//! The style sheet of all pages: light or dark by the reader's preference, tables, pictures on white.

/// The contents of a page's `style` element.
pub(crate) const STYLE: &str = "
:root { color-scheme: light dark; --paper: #fff; --ink: #1b2430; --faint: #5a6573; --rule: #d8dce2 }
@media (prefers-color-scheme: dark) { :root { --paper: #14181d; --ink: #e4e8ec; --faint: #9aa5b1; --rule: #343c46 } }
body { margin: 0 auto; max-width: 1440px; padding: 24px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.45rem; line-height: 1.35; max-width: 60em; margin: 0 0 .4em }
h2 { font-size: 1.05rem; margin: 2em 0 .5em }
p { margin: .3em 0; max-width: 60em }
.faint { color: var(--faint) }
.picture { background: #fff; border: 1px solid var(--rule); border-radius: 6px; margin: 1.4em 0; overflow-x: auto }
.picture svg { display: block; width: 100%; min-width: 900px; height: auto }
.tables { overflow-x: auto }
table { border-collapse: collapse }
th, td { text-align: left; padding: .3em 1.2em .3em 0; border-bottom: 1px solid var(--rule); vertical-align: top }
th { font-weight: 600 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
code, pre { font: 13px/1.45 ui-monospace, monospace }
pre { overflow-x: auto; padding: 1em; border: 1px solid var(--rule); border-radius: 6px }
";

/// The contents of the `style` element of an interactive page's static part; the app has its own.
pub(crate) const STATIC_STYLE: &str = "
#static { --paper: #fff; --ink: #1b2430; --faint: #5a6573; --rule: #d8dce2; box-sizing: border-box; margin: 0 auto;
  max-width: 1440px; padding: 24px; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
@media (prefers-color-scheme: dark) { #static { --paper: #14181d; --ink: #e4e8ec; --faint: #9aa5b1; --rule: #343c46 } }
#static h1 { font-size: 1.45rem; line-height: 1.35; max-width: 60em; margin: 0 0 .4em }
#static h2 { font-size: 1.05rem; margin: 2em 0 .5em }
#static p { margin: .3em 0; max-width: 60em; overflow-wrap: anywhere }
#static .faint { color: var(--faint) }
#static .picture { background: #fff; border: 1px solid var(--rule); border-radius: 6px; margin: 1.4em 0; overflow-x: auto }
#static .picture svg { display: block; width: 100%; min-width: 900px; height: auto }
#static .tables { overflow-x: auto }
#static table { border-collapse: collapse }
#static th, #static td { text-align: left; padding: .3em 1.2em .3em 0; border-bottom: 1px solid var(--rule); vertical-align: top }
#static th { font-weight: 600 }
#static td.n, #static th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
#static code, #static pre { font: 13px/1.45 ui-monospace, monospace }
#static pre { overflow-x: auto; padding: 1em; border: 1px solid var(--rule); border-radius: 6px }
@media (max-width: 600px) { #static { padding: 12px } #static h1 { font-size: 1.15rem } #static pre { padding: .6em } }
";

/// The hash of [`STATIC_STYLE`] in a content security policy; a test computes it again.
pub(crate) const STATIC_STYLE_HASH: &str = "sha256-0AL2D3S/6OkhIXlFnLDw/1vSMuuYooTG3BvpB+O6WCk=";

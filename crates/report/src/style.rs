//! The style sheet of all pages' static part: light or dark by the reader's preference, tables, pictures on white.

/// The contents of the `style` element of an interactive page's static part; the app has its own. The picture (`.both`) has the colours
/// of [`crate::picture::canvas::DARK`] on a dark page; others stay on white.
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
#static .flame g[data-n] { cursor: pointer }
#static .flame g[data-n]:hover rect { stroke: #1b2430; stroke-width: 1 }
#static .flame g.found rect { fill: #c1272d }
#static .flame g.found text { fill: #fff }
#static .flame text { pointer-events: none }
#static .flame input { width: 240px; font: 13px sans-serif; padding: 3px }
#static .flame output { display: block; font: 11px sans-serif; color: #5a6573 }
.served { margin: 0; background: #fff }
@media (prefers-color-scheme: dark) { .served { background: #14181d } }
.served bdi { overflow-wrap: anywhere }
@media (max-width: 600px) { #static .wide { display: none } .served #static th, .served #static td { padding-right: .5em } }
@media (max-width: 600px) { #static { padding: 12px } #static h1 { font-size: 1.15rem } #static pre { padding: .6em } }
@media (prefers-color-scheme: dark) {
  #static .both { background: #14181D }
  #static .both [fill=\"#fff\"] { fill: #14181D } #static .both [stroke=\"#fff\"] { stroke: #14181D }
  #static .both [fill=\"#1B2430\"] { fill: #E4E8EC } #static .both [stroke=\"#1B2430\"] { stroke: #E4E8EC }
  #static .both [fill=\"#5A6573\"] { fill: #9AA5B1 } #static .both [stroke=\"#5A6573\"] { stroke: #9AA5B1 }
  #static .both [fill=\"#D8DCE2\"] { fill: #343C46 } #static .both [stroke=\"#D8DCE2\"] { stroke: #343C46 }
  #static .both [fill=\"#EDEFF2\"] { fill: #262C34 } #static .both [stroke=\"#EDEFF2\"] { stroke: #262C34 }
  #static .both [fill=\"#F0F2F4\"] { fill: #20262D } #static .both [stroke=\"#F0F2F4\"] { stroke: #20262D }
  #static .both [fill=\"#9AA3AE\"] { fill: #77828F } #static .both [stroke=\"#9AA3AE\"] { stroke: #77828F }
  #static .both [fill=\"#E4E4E4\"] { fill: #3A424C } #static .both [stroke=\"#E4E4E4\"] { stroke: #3A424C }
  #static .both [fill=\"#0072B2\"] { fill: #3A9BDC } #static .both [stroke=\"#0072B2\"] { stroke: #3A9BDC }
  #static .both [fill=\"#A50F15\"] { fill: #E5484D } #static .both [stroke=\"#A50F15\"] { stroke: #E5484D }
  #static .both [fill=\"#472258\"] { fill: #A36BC2 } #static .both [stroke=\"#472258\"] { stroke: #A36BC2 }
  #static .both [fill=\"#563035\"] { fill: #B08A84 } #static .both [stroke=\"#563035\"] { stroke: #B08A84 }
  #static .both [fill=\"#1B20CF\"] { fill: #7C80FF } #static .both [stroke=\"#1B20CF\"] { stroke: #7C80FF }
  #static .both [fill=\"#11605A\"] { fill: #2FA295 } #static .both [stroke=\"#11605A\"] { stroke: #2FA295 }
  #static .both [fill=\"#882255\"] { fill: #C4608F } #static .both [stroke=\"#882255\"] { stroke: #C4608F }
  #static .both [fill=\"#5B6B82\"] { fill: #8394AD } #static .both [stroke=\"#5B6B82\"] { stroke: #8394AD }
}
";

/// The hash of [`STATIC_STYLE`] in a content security policy; a test computes it again.
pub(crate) const STATIC_STYLE_HASH: &str = "sha256-60hkXjhqQFiVUl+jDlZdm4dXdjzfTgzb38IH5oMwxQM=";

#[cfg(test)]
mod tests {
    use super::STATIC_STYLE;
    use crate::picture::canvas::DARK;

    #[test]
    fn a_dark_page_replaces_the_colours_that_a_dark_picture_replaces() {
        for (light, dark) in DARK {
            for attribute in ["fill", "stroke"] {
                let rule = format!("#static .both [{attribute}=\"{light}\"] {{ {attribute}: {dark} }}");
                assert!(STATIC_STYLE.contains(&rule), "{rule}");
            }
        }
        assert_eq!(STATIC_STYLE.matches(".both [").count(), DARK.len() * 2);
    }
}

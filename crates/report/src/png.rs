//! A picture as PNG: the SVG drawn with an embedded font, so that no browser and no font of the machine is needed, and every machine draws
//! the same picture. The picture has its light colours.

use crate::{Error, Result};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// The font's faces; `font/README.md` says why this font.
const FACES: [&[u8]; 2] = [include_bytes!("../font/DejaVuSansCondensed.ttf"), include_bytes!("../font/DejaVuSansCondensed-Bold.ttf")];
/// The font's family.
const FAMILY: &str = "DejaVu Sans";

/// Bound: pixels of a picture, which take 4 bytes each while it is drawn.
const MAX_PIXELS: f64 = 100e6;

/// Draws a picture of this crate as PNG, scaled to `width_px`.
///
/// # Errors
/// The picture has more than 100 million pixels.
pub fn png(svg: &str, width_px: u32) -> Result<Vec<u8>> {
    let mut options = Options { font_family: FAMILY.to_owned(), ..Options::default() };
    let fonts = options.fontdb_mut();
    FACES.iter().for_each(|face| fonts.load_font_data(face.to_vec()));
    fonts.set_sans_serif_family(FAMILY);
    fonts.set_serif_family(FAMILY);
    let tree = Tree::from_str(svg, &options).map_err(|e| Error::Png(format!("the picture cannot be drawn: {e}")))?;
    let scale = width_px as f32 / tree.size().width();
    let height_px = (tree.size().height() * scale).ceil().max(1.0);
    if f64::from(width_px) * f64::from(height_px) > MAX_PIXELS {
        let most = MAX_PIXELS / 1e6;
        return Err(Error::Png(format!("a PNG of {width_px} x {height_px} pixels is too large: at most {most} million pixels")));
    }
    let mut pixels = Pixmap::new(width_px, height_px as u32).ok_or_else(|| Error::Png("the picture is empty".to_owned()))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| Error::Png(format!("the picture cannot be encoded: {e}")))
}

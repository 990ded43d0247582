//! In place of pictures as PNG, in a build without the feature `png`.

use crate::{Error, Result};

/// Draws no PNG.
///
/// # Errors
/// Always.
pub fn png(_svg: &str, _width_px: u32) -> Result<Vec<u8>> {
    Err(Error::Png("this build of thalweg draws no PNG (it was made without the feature `png`); -o FILE.svg draws the picture".to_owned()))
}

//! Promises of pictures as PNG: the size that was asked for, the colours of the SVG, and text that fits.

use crate::made_up::{Copy, made_up};
use resvg::tiny_skia::Pixmap;
use std::collections::HashMap;
use thalweg_report::{PictureOptions, png, svg};

/// Returns how many pixels have each colour.
fn colours(pixels: &Pixmap) -> HashMap<[u8; 3], usize> {
    let mut colours = HashMap::new();
    for pixel in pixels.pixels() {
        assert_eq!(pixel.alpha(), 255, "the background is opaque");
        *colours.entry([pixel.red(), pixel.green(), pixel.blue()]).or_default() += 1;
    }
    colours
}

#[test]
fn a_png_has_the_size_and_the_colours_of_the_picture() {
    let (source, explanation) = made_up(Copy::SERIAL);
    let picture = svg(&source, &explanation, &PictureOptions::default()).unwrap();
    let root = picture.split_once("<svg").unwrap().1;
    let height: f32 = root.split_once("height=\"").unwrap().1.split_once('"').unwrap().0.parse().unwrap();
    for (width, scale) in [(1400, 1.0), (700, 0.5), (2800, 2.0)] {
        let pixels = Pixmap::decode_png(&png(&picture, width).unwrap()).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (width, (height * scale).ceil() as u32));
    }
    let found = colours(&Pixmap::decode_png(&png(&picture, 1400).unwrap()).unwrap());
    assert!(found[&[255; 3]] > 100_000, "white paper");
    assert!(found.len() > 100, "text is antialiased: {} colours", found.len());
    let bars = picture.split("<rect ").filter(|bar| !bar.contains("opacity")).filter_map(|bar| bar.split_once("fill=\"#")?.1.get(..6));
    let mut seen = 0;
    for bar in bars.filter_map(|digits| u32::from_str_radix(digits, 16).ok()) {
        let [_, red, green, blue] = bar.to_be_bytes();
        seen += usize::from(found.get(&[red, green, blue]).is_some_and(|pixels| *pixels > 50));
    }
    assert!(seen > 5, "{seen} bars have their colours");
}

#[test]
fn text_is_drawn_with_the_embedded_font() {
    let with = |text: &str| {
        let picture = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"30\" font-family=\"Helvetica, Arial, sans-serif\">\
             <rect width=\"600\" height=\"30\" fill=\"#fff\"/><text x=\"0\" y=\"20\" font-size=\"10\" font-weight=\"600\">{text}</text></svg>"
        );
        let pixels = Pixmap::decode_png(&png(&picture, 600).unwrap()).unwrap();
        (0..600).rev().find(|x| (0..30).any(|y| pixels.pixel(*x, y).unwrap().red() < 128)).unwrap_or(0)
    };
    assert_eq!(with(""), 0);
    // The text of a picture is fitted to 0.6 em a character.
    let text = "gzip computed: 98.6 % of 12.3 s, 1,234 calls; waits for /data/input.tar";
    let width = with(text);
    assert!(width > 200 && f64::from(width) <= 6.0 * text.len() as f64, "{width}");
    assert!(with("µ × – … → ≥ − “é” Ωж ▁█") > 50);
}

#[test]
fn a_picture_that_is_too_large_is_refused() {
    let (source, explanation) = made_up(Copy::SERIAL);
    let picture = svg(&source, &explanation, &PictureOptions::default()).unwrap();
    let error = png(&picture, 60_000).unwrap_err().to_string();
    assert!(error.contains("at most 100 million pixels"), "{error}");
}

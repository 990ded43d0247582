//! The expected pages are in `golden/`; after a wanted change, write them anew with `THALWEG_BLESS=1 cargo test -p thalweg-report --test report`
//! and read the difference.

/// Holds a page against the one that is kept.
pub fn golden(name: &str, page: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("THALWEG_BLESS").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(page, expected, "{} differs", path.display());
}

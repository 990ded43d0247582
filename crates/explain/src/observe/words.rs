//! Attribute values with several words: `status=503 answers=3`.

/// The word of this name in a value.
pub(crate) fn word<'v>(value: &'v str, name: &str) -> Option<&'v str> {
    value.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

//! Values of attributes that have several words: `status=503 answers=3`.

/// What a value says of a name.
pub(crate) fn word<'v>(value: &'v str, name: &str) -> Option<&'v str> {
    value.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

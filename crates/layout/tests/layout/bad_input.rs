//! Each error says what is wrong and what was expected.

use thalweg_layout::{Distribution, Layout, LayoutError, MAX_OFFSET, Spec};

fn error(text: &str, requested: Option<u32>, available: u32) -> String {
    match text.parse::<Spec>().and_then(|spec| Layout::new(&spec, requested, available)) {
        Ok(layout) => panic!("{text} was accepted: {layout:?}"),
        Err(error) => error.to_string(),
    }
}

fn assert_says(text: &str, expected: &[&str]) {
    let message = error(text, None, 4);
    for part in expected {
        assert!(message.contains(part), "{text}: `{message}` does not say `{part}`");
    }
}

#[test]
fn unknown_names_are_named_with_the_known_ones() {
    assert_says("simple_strip", &["`simple_strip`", "simple_stripe", "varstrip_dist"]);
    assert_says("simple_stripe,stripsize=1", &["simple_stripe", "`stripsize`", "strip_size"]);
    assert_says("basic_dist,strip_size=1", &["basic_dist", "`strip_size`", "none"]);
    assert_says("simple_stripe,strip_size=1,strip_size=2", &["strip_size", "more than once"]);
    let spec = Spec { name: "simple_stripe".into(), parameters: vec![("strip_size".into(), "1".into()); 2] };
    assert!(matches!(Layout::new(&spec, None, 4), Err(LayoutError::DuplicateParameter { .. })));
}

#[test]
fn malformed_text_is_refused() {
    assert_says("", &["no name"]);
    assert_says("strip_size=1", &["no name"]);
    assert_says("simple_stripe,", &["``", "parameter=value"]);
    assert_says("simple_stripe,strip_size", &["`strip_size`", "parameter=value"]);
    assert_says("simple_stripe,=5", &["parameter=value"]);
}

#[test]
fn sizes_must_be_positive_and_fit_in_63_bits() {
    for value in ["0", "-1", "", "+5", "64Ki", "1.5", " 1", "9223372036854775808", "99999999999999999999"] {
        assert_says(&format!("simple_stripe,strip_size={value}"), &["strip_size", &format!("`{value}`"), "1 to 9223372036854775807"]);
    }
    for (parameter, value) in [("num_groups", "0"), ("num_groups", "4294967296"), ("group_strip_factor", "0")] {
        assert_says(&format!("twod_stripe,{parameter}={value}"), &[parameter, value, "1 to 4294967295"]);
    }
    assert_says("simple_stripe,strip_size=9223372036854775807", &["strip_size × datafiles", "63 bits"]);
    assert_says("twod_stripe,strip_size=4611686018427387904", &["group_strip_factor", "63 bits"]);
    let one = Layout::new(&Spec::new("simple_stripe").with("strip_size", MAX_OFFSET), None, 1).unwrap();
    assert_eq!(one.logical_to_physical(0, u64::MAX), MAX_OFFSET);
}

#[test]
fn varstrip_lists_that_the_original_took_wrongly_are_refused() {
    for (strips, says) in [
        ("", "empty"),
        (";", "empty"),
        ("0:512KB", "size is not a decimal number"),
        ("x:10", "datafile is not a decimal number"),
        ("-1:10", "datafile is not a decimal number"),
        ("0:-10", "size is not a decimal number"),
        ("0:+10", "size is not a decimal number"),
        ("0:512;1", "strip 2 `1`: no size"),
        ("0:512;1:", "size is missing"),
        ("0:512;:5", "datafile is missing"),
        ("0:K", "size is missing"),
        ("0:0", "size is zero"),
        ("0:0k", "size is zero"),
        ("0:1;;1:1", "strip 2 ``"),
        ("0:1;1:1;;", "strip 3 ``"),
        ("0:1 ;1:1", "size is not"),
        ("0:1;1:1é", "size is not"),
        ("0:1;2:1", "datafile 1 has no strip"),
        ("1:1", "datafile 0 has no strip"),
        ("0:9223372036854775808", "63 bits"),
        ("0:9007199254740992K", "63 bits"),
        ("0:8589934592G", "63 bits"),
        ("0:9223372036854775807;1:1", "the sum of all strips"),
        ("0:5;4294967296:5", "out of range"),
        ("0:5;4294967295:5", "out of range"),
        ("0:5;4294967294:5", "only 4 targets"),
        ("0:1;1:1;2:1;3:1;4:1", "5 datafiles, but there are only 4 targets"),
    ] {
        assert_says(&format!("varstrip_dist,strips={strips}"), &["varstrip_dist", says]);
    }
    assert_says("varstrip_dist", &["strips", "must be given"]);
    assert!(error(&format!("varstrip_dist,strips={}", "0:1;".repeat(65_537)), None, 4).contains("more than 65536 strips"));
}

#[test]
fn varstrip_grammar_as_documented_is_taken() {
    for (strips, canonical) in [
        ("0:1k;1:1K", "0:1K;1:1K"),
        ("0:2m;1:3M;", "0:2M;1:3M"),
        ("0:1g;0:1536", "0:1G;0:1536"),
        ("1:1024;0:1048576", "1:1K;0:1M"),
        ("0:9223372036854775807", "0:9223372036854775807"),
    ] {
        let layout = Layout::new(&Spec::new("varstrip_dist").with("strips", strips), None, 4).unwrap();
        assert_eq!(layout.spec().get("strips"), Some(canonical));
    }
}

#[test]
fn the_number_of_datafiles_must_be_possible() {
    assert!(error("simple_stripe", Some(5), 4).contains("5 datafiles requested, but there are only 4 targets"));
    assert!(error("simple_stripe", Some(0), 4).contains("0 datafiles"));
    assert!(error("simple_stripe", None, 0).contains("no target"));
    assert!(error("simple_stripe", Some(65_537), 100_000).contains("at most 65536"));
    assert!(error("basic_dist", Some(2), 4).contains("exactly 1"));
    assert!(error("varstrip_dist,strips=0:1;1:1", Some(3), 4).contains("exactly 2"));
    let layout = |text: &str, requested| Layout::new(&text.parse().unwrap(), requested, 4).unwrap().num_datafiles();
    assert_eq!(layout("simple_stripe", None), 4);
    assert_eq!(layout("simple_stripe", Some(3)), 3);
    assert_eq!(layout("twod_stripe", None), 4);
    assert_eq!(layout("basic_dist", None), 1);
    assert_eq!(layout("varstrip_dist,strips=0:1;1:1", None), 2);
}

#[test]
fn impossible_datafile_sizes_are_refused() {
    let layout = Layout::new(&Spec::default(), None, 4).unwrap();
    let says = |sizes: &[u64]| layout.logical_file_size(sizes).unwrap_err().to_string();
    assert!(says(&[0, 0]).contains("2 datafile sizes given: expected 4"));
    assert!(says(&[0, 0, MAX_OFFSET, 0]).contains("datafile 2 has 9223372036854775807 bytes"));
    assert!(says(&[0, 0, 0, u64::MAX]).contains("datafile 3"));
}

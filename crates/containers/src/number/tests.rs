use super::*;

#[test]
fn integers_are_read_strictly() {
    for (text, value) in [
        ("0", Some(0)),
        ("-1", Some(-1)),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("99999999999999999999", None),
        ("", None),
        ("-", None),
        ("-0", None),
        ("+1", None),
        ("01", None),
        (" 1", None),
        ("1 ", None),
        ("1.0", None),
        ("1\0", None),
        ("0x1", None),
    ] {
        assert_eq!(parse_i64(text.as_bytes()), value, "{text:?}");
    }
}

#[test]
fn integer_text_is_what_std_prints() {
    let mut state = 1_i64;
    for i in 0..20_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        for value in [
            state >> (i % 64),
            i,
            -i,
            i64::MAX - i,
            i64::MIN + i,
            10_i64.pow((i % 19) as u32) - i % 2,
        ] {
            let mut buf = [0; I64_TEXT_LEN];
            let text = write_i64(&mut buf, value);
            assert_eq!(text, value.to_string().as_bytes());
            assert_eq!(parse_i64(text), Some(value));
        }
    }
}

#[test]
fn doubles_are_read_as_by_strtod() {
    for (text, value) in [
        ("3.0", Some(3.0)),
        ("+.5e1", Some(5.0)),
        ("-5.", Some(-5.0)),
        ("1e-400", None),
        ("1e400", None),
        ("0e999999", Some(0.0)),
        ("5e-324", Some(5e-324)),
        ("inf", Some(f64::INFINITY)),
        ("-InFinity", Some(f64::NEG_INFINITY)),
        ("nan", None),
        ("0x1p4", Some(16.0)),
        ("-0X.8", Some(-0.5)),
        ("0x1p-1074", Some(5e-324)),
        ("0x1p-1075", None),
        ("0x1.fffffffffffff8p1023", None),
        ("0x1.fffffffffffff7p1023", Some(f64::MAX)),
        ("0x", None),
        ("0x.", None),
        ("0x1p", None),
        ("", None),
        (".", None),
        ("e5", None),
        ("1e", None),
        ("1e+", None),
        (" 1", None),
        ("1 ", None),
        ("--1", None),
        ("1_0", None),
        ("infin", None),
    ] {
        assert_eq!(parse_f64(text.as_bytes()), value, "{text:?}");
    }
}

#[track_caller]
fn sum(a: &str, b: &str) -> String {
    let parse = |text: &str| Extended::parse(text.as_bytes()).expect(text);
    String::from_utf8((parse(a) + parse(b)).to_text()).expect("ASCII")
}

#[test]
fn sums_print_as_in_redis() {
    assert_eq!(sum("0.1", "0.2"), "0.3");
    assert_eq!(sum("10.5", "0.1"), "10.6");
    assert_eq!(sum("5.0e3", "200"), "5200");
    assert_eq!(sum("-1", "1"), "0");
    assert_eq!(sum("1", "-1.00000000000000000001"), "0");
    assert_eq!(sum("17179869184", "17179869184"), "34359738368");
    assert_eq!(sum("3", "1.23456789012345678901234"), "4.23456789012345679");
    assert_eq!(sum("1e30", "1"), "1000000000000000000024696061952");
    assert_eq!(sum("-0.0000000000000000001", "0"), "0");
}

#[test]
fn the_ends_of_the_range() {
    let parse = |text: &[u8]| Extended::parse(text);
    assert!(parse(b"1e4932").is_some());
    assert_eq!(parse(b"1.2e4932"), None);
    assert!(parse(b"1e-4950").is_some());
    assert_eq!(parse(b"1e-4951"), None);
    let max = parse(b"0x1.fffffffffffffffep16383").expect("the largest number");
    assert!(!(max + max).is_finite());
    let infinite = parse(b"inf").expect("infinity is a number");
    assert_eq!(
        (infinite + parse(b"-inf").expect("and its negative")).to_text(),
        b"nan"
    );
    assert_eq!(Extended::from(i64::MIN).to_text(), b"-9223372036854775808");
    assert_eq!(parse(&[b'1'; Extended::MAX_TEXT_LEN + 1]), None);
}

#[test]
fn a_double_is_printed_with_seventeen_places() {
    for (value, text) in [
        (13.361_389_338_970_184, "13.36138933897018433"),
        (38.115_556_395_496_3, "38.11555639549629859"),
        (-122.418_810_963_630_68, "-122.41881096363067627"),
        (0.5, "0.5"),
        (0.0, "0"),
        (-0.0, "0"),
        (180.0, "180"),
        (5e-324, "0"),
        (1e-10, "0.0000000001"),
        (2e19, "20000000000000000000"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        let shown = Extended::from(value).to_text();
        assert_eq!(String::from_utf8_lossy(&shown), text, "{value:?}");
    }
}

#[test]
fn doubles_are_in_range_as_errno_says() {
    for (text, value) in [
        ("", Some(0.0)),
        (" 1.5", Some(1.5)),
        ("1\0x", Some(1.0)),
        ("inf", Some(f64::INFINITY)),
        ("1e400", None),
        ("0x1p1024", None),
        ("1e-400", None),
        ("0e-400", Some(0.0)),
        ("5e-324", None),
        ("1e-310", None),
        ("2.2250738585072014e-308", Some(f64::MIN_POSITIVE)),
        ("2.225073858507201e-308", None),
        ("0x1p-1074", Some(5e-324)),
        ("0x1p-1080", None),
        ("0x1.00000000000001p-1030", None),
        ("0x0p-2000", Some(0.0)),
        ("nan", None),
        ("x", None),
    ] {
        assert_eq!(parse_c_double_in_range(text.as_bytes()), value, "{text:?}");
    }
    assert_eq!(parse_c_double(b"0x1p5000"), Some(f64::INFINITY));
    assert_eq!(parse_c_double(b"-1e400"), Some(f64::NEG_INFINITY));
}

#[test]
fn thousandths_are_rounded_up() {
    for (text, thousandths) in [
        ("0", Some(0)),
        ("-0", Some(0)),
        ("1", Some(1000)),
        ("0.0001", Some(1)),
        ("1e-400", Some(1)),
        ("-1e-400", Some(0)),
        ("-0.0009", Some(0)),
        // The nearest long double is a little smaller, and so is the product.
        ("-0.001", Some(0)),
        ("-0.002", Some(-1)),
        ("0x.1", Some(63)),
        ("1.0000000001", Some(1001)),
        ("9223372036854775", Some(9_223_372_036_854_775_000)),
        ("9223372036854775.807", Some(i64::MAX)),
        ("9223372036854775.808", None),
        // Ten bits of the fraction fit: it is a little less.
        ("-9223372036854775.808", Some(-i64::MAX)),
        ("1e400", None),
        ("inf", None),
        ("-inf", None),
    ] {
        let number = Extended::parse(text.as_bytes()).unwrap();
        assert_eq!(number.ceil_thousandths(), thousandths, "{text:?}");
    }
}

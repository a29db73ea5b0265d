//! The end-to-end tests of surestep are in `e2e/`. Here are the Rust blocks of the README, as tests, so that they
//! cannot grow stale, and the proof that a feature of serde_json is on where it is asked for.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// A build with a feature of serde_json switched on must not pass because it was not.
#[cfg(test)]
mod tests {
    use serde_json::Value;

    fn through_value(text: &str) -> String {
        serde_json::from_str::<Value>(text).unwrap().to_string()
    }

    #[test]
    #[cfg(feature = "preserve_order")]
    fn preserve_order_is_on() {
        assert_eq!(through_value(r#"{"b":1,"a":2}"#), r#"{"b":1,"a":2}"#);
    }

    #[test]
    #[cfg(feature = "arbitrary_precision")]
    fn arbitrary_precision_is_on() {
        let number = "1.00000000000000000000000000000000000001";
        assert_eq!(through_value(number), number);
    }

    #[test]
    #[cfg(feature = "float_roundtrip")]
    fn float_roundtrip_is_on() {
        assert_eq!(through_value("1.5777777777770001"), "1.5777777777770001");
    }

    #[test]
    fn a_value_is_read_and_written() {
        assert_eq!(through_value("[1]"), "[1]");
    }
}

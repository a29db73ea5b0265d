use super::*;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    before: u8,
    body: Body,
}

fn bound(raw: &str) -> Body {
    Body::bind(raw, 1 << 20).unwrap()
}

#[test]
fn a_body_survives_any_number_of_reloads_byte_for_byte() {
    for raw in [
        r#"{"amount":1.5777777777770001,"id":2512292042121000001,"big":18446744073709551616,"low":-9223372036854775809}"#,
        r#"{"a":1E2,"b":1e400,"c":-0,"d":1.0,"e":1234567890123456789012345678901234567890}"#,
        r#"{"t":"\/\u2028\u007f\ud83d\ude00\u0000"}"#,
        "null",
        "[]",
        "\"hi\"",
    ] {
        let mut record = Record { before: 1, body: bound(raw) };
        for _ in 0..5 {
            let text = serde_json::to_string(&record).unwrap();
            assert_eq!(text, format!("{{\"before\":1,\"body\":{}}}", bound(raw).as_str()));
            record = serde_json::from_str(&text).unwrap();
            assert_eq!(record.body, bound(raw));
        }
    }
}

#[test]
fn a_re_indented_body_is_the_same_body() {
    let body = bound(r#"{"b":[1,{"c":1.0}],"a":"x"}"#);
    let pretty = "{\"before\": 1,\n \"body\": {\n  \"b\": [ 1, {\"c\": 1.0} ],\n  \"a\": \"\\u0078\"\n }\n}";
    let record: Record = serde_json::from_str(pretty).unwrap();
    assert_eq!((record.body.digest(), &record.body), (body.digest(), &body));
    assert_eq!(serde_json::from_slice::<Record>(pretty.as_bytes()).unwrap(), record);
    assert_eq!(serde_json::from_reader::<_, Record>(pretty.as_bytes()).unwrap(), record);
}

#[test]
fn what_the_strict_reader_refuses_is_no_body() {
    for raw in [r#"{"a":{"k":1,"k":2}}"#, r#"{"a":"\ud83d"}"#, &("[".repeat(65) + &"]".repeat(65))] {
        let error = Body::bind(raw, usize::MAX).unwrap_err();
        let message = serde_json::from_str::<Body>(raw).unwrap_err().to_string();
        assert!(message.contains(&error.to_string()), "{message}");
    }
    for raw in ["", "NaN", r#"{"a":NaN}"#, r#"{"a":Infinity}"#, "{} {}", "\u{feff}{}", "{\"a\":01}"] {
        Body::bind(raw, usize::MAX).unwrap_err();
        serde_json::from_str::<Body>(raw).unwrap_err();
    }
    bound(&("[".repeat(64) + &"]".repeat(64)));
}

#[test]
fn the_limit_counts_the_canonical_text() {
    let raw = "{ \"a\" :  \"\\u00e9\" }";
    assert_eq!(Body::bind(raw, 10).unwrap().as_str(), "{\"a\":\"é\"}");
    let error = Body::bind(raw, 9).unwrap_err();
    assert_eq!((error.why.clone(), error.path.as_str()), (JsonFault::TooLong { max: 9 }, "$"));
    assert_eq!(error.why.to_string(), "longer than 9 bytes");
}

#[test]
fn the_digest_is_that_of_the_canonical_text() {
    assert_eq!(bound(" { } ").digest(), Digest::of(b"{}"));
    assert_eq!(bound("{}").digest(), Digest::of(b"{}"));
    assert_ne!(bound("1").digest(), bound("1.0").digest());
    assert_eq!(
        bound("{}").digest().to_string(),
        "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
}

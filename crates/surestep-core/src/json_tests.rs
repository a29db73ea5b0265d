use super::*;
use proptest::prelude::*;

fn canon(text: &str) -> String {
    canonical(text, DEPTH_BODY_MAX).unwrap()
}

/// The fault of a text, which `check`, `canonical` and `is_canonical` must all report alike.
fn fault(text: &str) -> (usize, String, JsonFault) {
    let error = check(text, DEPTH_BODY_MAX).unwrap_err();
    assert_eq!(canonical(text, DEPTH_BODY_MAX).unwrap_err(), error);
    assert_eq!(is_canonical(text, DEPTH_BODY_MAX).unwrap_err(), error);
    (error.offset, error.path, error.why)
}

fn at(offset: usize, path: &str, why: JsonFault) -> (usize, String, JsonFault) {
    (offset, path.to_owned(), why)
}

#[test]
fn numbers_stay_as_written() {
    for number in [
        "0",
        "-0",
        "1.0",
        "1E2",
        "1e+2",
        "1e-400",
        "1e400",
        "-0.0",
        "18446744073709551616",
        "-9223372036854775809",
        "9007199254740991.0",
        "1.5777777777770001",
        "1234567890123456789012345678901234567890",
    ] {
        assert_eq!(canon(&format!(" {number} ")), number);
        assert_eq!(canon(&format!("[{number} , {number}]")), format!("[{number},{number}]"));
    }
}

#[test]
fn what_is_no_number_is_refused_at_its_start() {
    for bad in [
        "+1",
        "01",
        "-01",
        "00",
        ".5",
        "1.e3",
        "1.x",
        "1ex",
        "1e+x",
        "--1",
        "-a",
        "1_000",
        "0x10",
        "1.2.3",
        "1-2",
        "NaN",
        "nan",
        "Infinity",
        "-Infinity",
        "-NaN",
        "inf",
        "1n",
    ] {
        assert_eq!(fault(&format!("[{bad}]")), at(1, "$[0]", JsonFault::BadNumber), "{bad}");
    }
    for word in ["True", "nul", "undefined", "truefalse", "TRUE", "_"] {
        assert_eq!(fault(&format!("[{word}]")), at(1, "$[0]", JsonFault::BadLiteral), "{word}");
    }
}

#[test]
fn strings_escape_only_what_they_must() {
    assert_eq!(canon(r#""\/\u0041\u00e9\u2028\u007f\ud83d\ude00""#), "\"/Aé\u{2028}\u{7f}😀\"");
    assert_eq!(
        canon(r#""\"\\\b\t\n\f\r\u0008\u000A\u000b\u001F\u0000""#),
        r#""\"\\\b\t\n\f\r\b\n\u000b\u001f\u0000""#
    );
    assert_eq!(canon(r#"{"\u0061\/":1}"#), r#"{"a/":1}"#);
    assert_eq!(canon("\"\u{feff}\u{7f}\""), "\"\u{feff}\u{7f}\"");
    assert_eq!(quote("a\"\\\n\u{1}\u{7f}/é"), "\"a\\\"\\\\\\n\\u0001\u{7f}/é\"");
    assert_eq!(quote("\"\"\n\n"), r#""\"\"\n\n""#);
    assert_eq!(quote(""), "\"\"");
}

#[test]
fn keys_are_sorted_by_their_decoded_bytes() {
    assert_eq!(canon(r#"{"b":1,"a":{"d":[],"c":{}}}"#), r#"{"a":{"c":{},"d":[]},"b":1}"#);
    // `"` (22) stands before `\` (5c), though both are written with a backslash; \n (0a) stands before both.
    assert_eq!(canon(r#"{"\\":1,"\"":2,"\n":3,"!":4,"":5}"#), r#"{"":5,"\n":3,"!":4,"\"":2,"\\":1}"#);
    // In UTF-8 U+FF5E stands before U+1F600; in UTF-16 it would be the other way round.
    assert_eq!(
        canon(r#"{"\ud83d\ude00":1,"\uff5e":2,"é":3,"z":4,"Z":5}"#),
        "{\"Z\":5,\"z\":4,\"é\":3,\"～\":2,\"😀\":1}"
    );
    assert_eq!(
        canon(r#"{"aa":1,"a":2,"b":[{"y":1,"x":2},{"y":3,"x":4}]}"#),
        r#"{"a":2,"aa":1,"b":[{"x":2,"y":1},{"x":4,"y":3}]}"#
    );
}

#[test]
fn a_key_that_stands_twice_is_refused_at_every_depth() {
    let key = |key: &str| JsonFault::DuplicateKey { key: key.into() };
    assert_eq!(fault(r#"{"a":1,"a":1}"#), at(7, "$.a", key("a")));
    assert_eq!(fault(r#"{"z":0,"a":1,"b":2,"\u0061":3}"#), at(19, "$.a", key("a")));
    assert_eq!(fault(r#"{"x":[0,{"y":{"k l":1,"b":2,"k l":3}}]}"#), at(28, "$.x[1].y[\"k l\"]", key("k l")));
    assert_eq!(fault(r#"{"b":1,"a":1,"a":1,"b":1}"#).0, 13, "the first one in reading order");
    for depth in 0..DEPTH_BODY_MAX - 1 {
        let text = format!("{}{{\"k\":1,\"k\":2}}{}", "{\"n\":[".repeat(depth / 2), "]}".repeat(depth / 2));
        assert_eq!(fault(&text).2, key("k"));
    }
    assert_eq!(canon(r#"[{"a":1},{"a":1},{"b":{"a":1},"a":1}]"#), r#"[{"a":1},{"a":1},{"a":1,"b":{"a":1}}]"#);
}

#[test]
fn half_a_surrogate_pair_is_refused_with_its_place() {
    let lone = |unit| JsonFault::LoneSurrogate { unit };
    assert_eq!(fault(r#"{"t":"ab\ud83d"}"#), at(8, "$.t", lone(0xd83d)));
    assert_eq!(fault(r#"["\ude00"]"#), at(2, "$[0]", lone(0xde00)));
    assert_eq!(fault(r#"["\ud83d\ud83d\ude00"]"#), at(2, "$[0]", lone(0xd83d)));
    assert_eq!(fault(r#"["\ud83dx"]"#), at(2, "$[0]", lone(0xd83d)));
    assert_eq!(fault(r#"["\ud83d\n"]"#), at(2, "$[0]", lone(0xd83d)));
    assert_eq!(fault(r#"{"\uD800":1}"#), at(2, "$", lone(0xd800)));
    assert_eq!(
        check(r#"["\ud83d"]"#, 1).unwrap_err().to_string(),
        "a lone surrogate `\\ud83d`: half of a character at byte 2 (`$[0]`)"
    );
}

#[test]
fn each_fault_is_named_and_placed() {
    use JsonFault::*;
    let odd = |found| Unexpected { found };
    for (text, offset, path, why) in [
        ("", 0, "$", Empty),
        (" \r\n\t ", 0, "$", Empty),
        ("[", 1, "$[0]", UnexpectedEnd),
        ("{\"a\":1", 6, "$.a", UnexpectedEnd),
        ("{\"a\"", 4, "$.a", UnexpectedEnd),
        ("[1,]", 3, "$[1]", odd(']')),
        ("[,1]", 1, "$[0]", odd(',')),
        ("{\"a\":1,}", 7, "$", odd('}')),
        ("{a:1}", 1, "$", odd('a')),
        ("{'a':1}", 1, "$", odd('\'')),
        ("{\"a\" 1}", 5, "$.a", odd('1')),
        ("[1 2]", 3, "$[0]", odd('2')),
        ("[1}", 2, "$[0]", odd('}')),
        ("{\"a\":1]", 6, "$.a", odd(']')),
        ("]", 0, "$", odd(']')),
        ("// c\n1", 0, "$", odd('/')),
        ("[\u{a0}1]", 1, "$[0]", odd('\u{a0}')),
        ("[é]", 1, "$[0]", odd('é')),
        ("{} {}", 3, "$", TrailingData),
        ("1,2", 1, "$", TrailingData),
        ("{}\0\0", 2, "$", Nul),
        ("[\"\0\"]", 2, "$[0]", Nul),
        ("\u{feff}{}", 0, "$", ByteOrderMark),
        ("{\"a\":\u{feff}1}", 5, "$.a", ByteOrderMark),
        ("[\"a\nb\"]", 3, "$[0]", ControlInString),
        ("[\"\\x41\"]", 2, "$[0]", BadEscape),
        ("[\"\\u12g4\"]", 2, "$[0]", BadEscape),
        ("[\"\\u+123\"]", 2, "$[0]", BadEscape),
        ("[\"\\é\"]", 2, "$[0]", BadEscape),
        ("[\"\\ud83d\\u00\"]", 8, "$[0]", BadEscape),
        ("{\"operations\":[0,1,2,{\"body\":{\"amount\":01}}]}", 39, "$.operations[3].body.amount", BadNumber),
        ("{\"$secret\":x}", 11, "$[\"$secret\"]", BadLiteral),
    ] {
        assert_eq!(fault(text), at(offset, path, why), "{text:?}");
    }
}

#[test]
fn files_that_are_no_utf8_text_are_named() {
    let why = |bytes: &[u8]| {
        let error = text(bytes).unwrap_err();
        (error.offset, error.why)
    };
    let utf16 = |be: bool, s: &str| -> Vec<u8> {
        s.encode_utf16().flat_map(|u| if be { u.to_be_bytes() } else { u.to_le_bytes() }).collect()
    };
    assert_eq!(text(b"{}").unwrap(), "{}");
    assert_eq!(text(b"7").unwrap(), "7");
    assert_eq!(text("é".as_bytes()).unwrap(), "é");
    assert_eq!(why(b""), (0, JsonFault::Empty));
    assert_eq!(why(b" \n"), (0, JsonFault::Empty));
    assert_eq!(why(b"\xef\xbb\xbf{}"), (0, JsonFault::ByteOrderMark));
    for sample in ["{}", "1", "{\"a\":1}"] {
        for be in [false, true] {
            assert_eq!(why(&utf16(be, sample)), (0, JsonFault::Utf16));
            assert_eq!(why(&utf16(be, &format!("\u{feff}{sample}"))), (0, JsonFault::Utf16));
        }
    }
    assert_eq!(why(&[0; 64]), (0, JsonFault::Nul));
    assert_eq!(why(b"{\0\0\0\0\0"), (1, JsonFault::Nul));
    assert_eq!(why(b"{\"a\":1}\0\0\xff"), (7, JsonFault::Nul));
    assert_eq!(why(b"{\"a\":\"\xff\"}"), (6, JsonFault::NotUtf8));
    assert_eq!(why(b"{\"a\":\"\xed\xa0\xbd\"}"), (6, JsonFault::NotUtf8), "a surrogate in UTF-8");
    assert_eq!(why("[\"é".as_bytes().split_last().unwrap().1), (2, JsonFault::NotUtf8));
    assert!(text(b"\xef\xbb\xbf").unwrap_err().to_string().starts_with("a byte-order mark: save the file"));
}

#[test]
fn the_deepest_level_is_allowed_and_the_next_is_not() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nest = |n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
        for max in [0, 1, DEPTH_BODY_MAX, DEPTH_FILE_MAX] {
            check(&nest(max), max).unwrap();
            let error = check(&nest(max + 1), max).unwrap_err();
            assert_eq!((error.offset, error.why), (max * open.len(), JsonFault::TooDeep { max }));
        }
        let hundred_thousand = nest(100_000);
        assert!(matches!(
            check(&hundred_thousand, DEPTH_FILE_MAX).unwrap_err().why,
            JsonFault::TooDeep { max: 128 }
        ));
        assert_eq!(
            canonical(&hundred_thousand, usize::MAX).unwrap(),
            hundred_thousand,
            "no limit, no overflow"
        );
        assert!(canonical(&open.repeat(100_000), DEPTH_BODY_MAX).is_err());
    }
}

#[test]
fn text_that_is_not_canonical_is_placed_at_its_first_odd_byte() {
    for canonical in ["{}", "[1,2]", "\"é\"", r#"{"a":[{"b":"\n"}],"c":1E2}"#] {
        is_canonical(canonical, DEPTH_FILE_MAX).unwrap();
    }
    for (text, offset, path) in [
        (" {}", 0, "$"),
        ("{}\n", 2, "$"),
        ("{\"a\": 1}", 5, "$.a"),
        ("{\"b\":1,\"a\":2}", 2, "$.b"),
        ("{\"a\":{\"x\":[1,\"\\/\"]}}", 14, "$.a.x[1]"),
        ("[\"\\u00e9\"]", 2, "$[0]"),
        ("[\"\\u001F\"]", 7, "$[0]"),
    ] {
        let error = is_canonical(text, DEPTH_FILE_MAX).unwrap_err();
        assert_eq!(
            (error.offset, error.path.as_str(), error.why),
            (offset, path, JsonFault::NotCanonical),
            "{text:?}"
        );
    }
}

#[test]
fn every_truncation_of_a_document_is_refused() {
    let sample = r#"{"format":"x/1","n":[-0.5e+7,1E2,true,false,null,"\ud83d\ude00\u00e9\\é😀"],"o":{"":{},"k\n":[]}} "#;
    check(sample, DEPTH_FILE_MAX).unwrap();
    let end = sample.trim_end().len();
    for cut in 0..end {
        let Some(start) = sample.get(..cut) else {
            assert_eq!(text(sample.as_bytes().get(..cut).unwrap()).unwrap_err().why, JsonFault::NotUtf8);
            continue;
        };
        let (offset, _, why) = fault(start);
        let wanted = (why == JsonFault::UnexpectedEnd && offset == cut)
            || (why == JsonFault::Empty && cut == 0)
            // Between the two halves of a pair the text is wrong already.
            || (start.contains("ud83d") && matches!(why, JsonFault::LoneSurrogate { .. }));
        assert!(wanted, "{start:?}: {why:?} at {offset}");
    }
}

#[test]
fn messages_are_cut_and_cannot_disturb_a_terminal() {
    let key = "\u{1b}[31m".to_owned() + &"k".repeat(1000);
    let error = check(&format!("{{{0}:1,{0}:2}}", quote(&key)), 4).unwrap_err();
    let message = error.to_string();
    assert!(message.len() < 300 && message.contains('…') && !message.contains('\u{1b}'), "{message}");
    let error = check("[\u{1b}]", 4).unwrap_err();
    assert_eq!(error.to_string(), "unexpected `\\u{1b}` at byte 1 (`$[0]`)");
}

#[test]
fn a_megabyte_takes_no_more_than_linear_time() {
    // Quadratic work would take minutes here.
    let members: Vec<String> = (0..200_000).rev().map(|n| format!("\"k{n:06}\":[{n}]")).collect();
    let wide = format!("{{{}}}", members.join(","));
    let sorted = canonical(&wide, 2).unwrap();
    assert!(sorted.starts_with("{\"k000000\":[0],\"k000001\":[1]") && sorted.len() == wide.len());
    check(&format!("[{}1]", "1,".repeat(500_000)), 2).unwrap();
    check(&format!("\"{}\"", "\\n".repeat(500_000)), 2).unwrap();
    assert_eq!(quote(&"\"".repeat(500_000)).len(), 1_000_002);
}

/// A value as a tree, to be written in many ways.
#[derive(Debug, Clone)]
enum Tree {
    Raw(&'static str),
    Text(String),
    List(Vec<Tree>),
    Map(std::collections::BTreeMap<String, Tree>),
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["1.0", "-0", "1E2", "1e400", "18446744073709551616", "true", "null"])
            .prop_map(Tree::Raw),
        any::<String>().prop_map(Tree::Text),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::List),
            prop::collection::btree_map(any::<String>(), inner, 0..6).prop_map(Tree::Map),
        ]
    })
}

/// The tree as canonical text, written here a second time and differently: by recursion over sorted maps.
fn plainly(tree: &Tree) -> String {
    match tree {
        Tree::Raw(raw) => (*raw).to_owned(),
        Tree::Text(text) => quote(text),
        Tree::List(items) => format!("[{}]", items.iter().map(plainly).collect::<Vec<_>>().join(",")),
        Tree::Map(members) => {
            let members: Vec<_> =
                members.iter().map(|(k, v)| format!("{}:{}", quote(k), plainly(v))).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// The tree written wildly: members in reverse, every character escaped, white space wherever it may stand.
fn wildly(tree: &Tree) -> String {
    let escaped = |text: &str| {
        let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
        format!("\t\"{units}\"\n")
    };
    match tree {
        Tree::Raw(raw) => format!(" {raw}\r\n"),
        Tree::Text(text) => escaped(text),
        Tree::List(items) => format!(" [ {} ] ", items.iter().map(wildly).collect::<Vec<_>>().join(",")),
        Tree::Map(members) => {
            let members: Vec<_> =
                members.iter().rev().map(|(k, v)| format!("{}:{}", escaped(k), wildly(v))).collect();
            format!(" {{ {} }} ", members.join(","))
        }
    }
}

proptest! {
    #[test]
    fn every_way_of_writing_a_value_has_one_canonical_text(tree in trees()) {
        let (plain, wild) = (plainly(&tree), wildly(&tree));
        prop_assert_eq!(&canon(&wild), &plain);
        prop_assert_eq!(&canon(&plain), &plain);
        prop_assert!(is_canonical(&plain, DEPTH_BODY_MAX).is_ok());
        prop_assert!(is_canonical(&wild, DEPTH_BODY_MAX).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(text) = text(&bytes) {
            let _ = is_canonical(text, DEPTH_BODY_MAX);
        }
    }

    #[test]
    fn any_json_like_text_agrees_with_serde_json(text in r#"([\[\]{}:, ]|"a"|"b\\n"|"\\u00e9"|-?[0-9]{1,2}(\.[0-9])?(e1)?|true|null|\\|"){0,12}"#) {
        let ours = canonical(&text, DEPTH_BODY_MAX);
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text);
        match &ours {
            Ok(once) => {
                prop_assert!(theirs.is_ok());
                prop_assert_eq!(&canon(once), once);
                prop_assert!(once.len() <= text.len());
            }
            Err(error) => {
                prop_assert!(error.offset <= text.len() && text.is_char_boundary(error.offset));
                prop_assert!(theirs.is_err() || matches!(error.why, JsonFault::DuplicateKey { .. }), "{error}");
            }
        }
        prop_assert_eq!(check(&text, DEPTH_BODY_MAX), ours.map(drop));
    }

    #[test]
    fn a_quoted_string_reads_back_as_itself(s in any::<String>()) {
        let quoted = quote(&s);
        prop_assert!(is_canonical(&quoted, 0).is_ok());
        prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), s);
    }
}

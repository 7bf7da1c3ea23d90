//! Words, command lines, figures with units, and passwords, which no text may show.

use results::command_line::shell_line;
use results::pattern::matches;
use results::secrets::{hide, hide_in, learn, redact};
use results::spelling::nearest;
use results::units::{bytes, duration, figure};

#[test]
fn a_command_line_can_be_pasted() {
    let words = ["locklab", "--seed", "7", "exec:a b", "it's", ""].map(str::to_owned);
    assert_eq!(shell_line(&words), "locklab --seed 7 'exec:a b' 'it'\\''s' ''");
}

#[test]
fn durations_choose_their_unit() {
    let cases = [
        (0, "0 s"),
        (850, "850 ns"),
        (12_345, "12.3 µs"),
        (999_600, "1 ms"),
        (303_000_000, "303 ms"),
        (2_150_000_000, "2.15 s"),
        (60_000_000_000, "1 min"),
        (250_000_000_000, "4 min 10 s"),
        (7_320_000_000_000, "2 h 2 min"),
    ];
    for (ns, words) in cases {
        assert_eq!(duration(ns), words);
    }
    assert!(!duration(u64::MAX).is_empty());
}

#[test]
fn figures_keep_three_digits() {
    let cases = [
        (0.0, "0"),
        (0.012_345, "0.0123"),
        (4.559, "4.56"),
        (2.0, "2"),
        (100.0, "100"),
        (812.4, "812"),
        (101_775.0, "101775"),
        (-1_234.0, "-1234"),
        (f64::NAN, "–"),
        (f64::INFINITY, "–"),
    ];
    for (value, words) in cases {
        assert_eq!(figure(value), words);
    }
}

#[test]
fn sizes_choose_their_unit() {
    assert_eq!(bytes(512), "512 B");
    assert_eq!(bytes(8_388_608_000), "7.81 GiB");
}

#[test]
fn a_star_is_anything() {
    for (pattern, text, expected) in [
        ("", "", true),
        ("a", "a", true),
        ("a", "ab", false),
        ("*", "", true),
        ("a*", "abc", true),
        ("*c", "abc", true),
        ("a*c", "abc", true),
        ("a*b*c", "aXbYc", true),
        ("ab*ba", "aba", false),
        ("**", "x", true),
        ("lock-core:*", "peer:redisson", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn a_slip_of_the_hand_is_found_and_another_word_is_not() {
    assert_eq!(nearest("aquire", ["release", "acquire"]), "; did you mean `acquire`?");
    assert_eq!(nearest("zzz", ["release", "acquire"]), "");
}

#[test]
fn passwords_go_and_the_rest_stays() {
    let cases = [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://:s3cret@h:1/0", "redis://:***@h:1/0"),
        ("rediss://ann:s3cret@h:1", "rediss://ann:***@h:1"),
        ("--target=redis://ann:pw@h:1/2", "--target=redis://ann:***@h:1/2"),
        ("redlock://a:1@h1:1,b:2@h2:2/0", "redlock://a:***@h2:2/0"),
        ("redis://ann@h:1", "redis://***@h:1"),
        ("exec:go run x redis://u:pw@h:1/0 redis://h:2", "exec:go run x redis://u:***@h:1/0 redis://h:2"),
        ("redis://h:1 redis://:x@h:2", "redis://h:1 redis://:***@h:2"),
        ("redis+unix:///tmp/a.sock", "redis+unix:///tmp/a.sock"),
        (
            "redis+sentinel://h:1/m?sentinel-password=pw&db=1",
            "redis+sentinel://h:1/m?sentinel-password=***&db=1",
        ),
        ("mail@example.org", "mail@example.org"),
        ("", ""),
    ];
    for (given, kept) in cases {
        assert_eq!(redact(given), kept);
    }
}

#[test]
fn a_password_is_found_in_whatever_way_it_is_written() {
    learn("--target=redis://ann:p%40ss/w\"\u{e9}rd@h:1/0");
    learn("redlock://a:firstone@h1:1,b:secondone@h2:2/0?sentinel-password=thirdone");
    learn("redis://bob:xy@h:1");
    for text in [
        "p@ss/w\"\u{e9}rd",
        "p%40ss/w\"\u{e9}rd",
        "p%40ss%2fw%22%C3%A9rd",
        r#"p@ss\/w\"\u00e9rd"#,
        "p@ss/w&quot;&#233;rd",
        "p&#x40;ss/w&#34;&#xe9;rd",
        "firstone",
        "secondone",
        "thirdone",
    ] {
        let said = format!("cannot reach ann:{text}@h:1");
        assert_eq!(hide(&said), "cannot reach ann:***@h:1", "{said}");
    }
    assert_eq!(hide("bob:xy, //:xy@h but xylophone"), "bob:***, //:***@h but xylophone");
    let mut document = serde_json::json!({"firstone": ["a firstone", 1]});
    assert!(hide_in(&mut document));
    assert_eq!(document, serde_json::json!({"firstone": ["a ***", 1]}));
    assert!(!hide_in(&mut document));
}

#[test]
fn an_odd_password_never_shows() {
    for password in [
        "a/b",
        "a@b",
        "p?q#r",
        "x:y:z",
        "semi'quote",
        "a@b/c",
        "a@b,c/d",
        "a b/c",
        "a://b",
        "a ://b",
        "a,b://c@d",
        "a\"b=c",
        "a@h,x@b",
    ] {
        let kept = redact(&format!("redis://ann:{password}@h:1/0"));
        assert!(!kept.contains(password), "{kept}");
        assert!(kept.ends_with("h:1/0"), "{kept}");
    }
}

proptest::proptest! {
    #[test]
    fn whatever_a_password_is_made_of_none_of_it_stays(password in "[A-Z/?#@:,;'\" =%\\[\\]]{1,12}") {
        let kept = redact(&format!("--target=redis://bob:{password}@h:1/0"));
        proptest::prop_assert_eq!(kept, "--target=redis://bob:***@h:1/0");
    }

    #[test]
    fn any_text_passes_through_without_a_panic(text in "\\PC*") {
        let _ = redact(&text);
    }
}

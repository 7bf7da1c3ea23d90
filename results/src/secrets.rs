//! Takes passwords out of a command line, so that it can be kept: inside URLs they become `***`.

/// `argument` with the password of every URL in it replaced by `***`; the user's name stays, where there is one.
///
/// Every `scheme://user:password@host` is found, also inside a longer argument (`--target=redis://…`). A password may be written
/// wrongly, with characters that end an address, so all that stands before the last `@` of a URL counts as one. A password given in
/// another way, as an argument by itself, cannot be distinguished from any other word and stays.
pub fn redact(argument: &str) -> String {
    let mut out = String::with_capacity(argument.len());
    let mut rest = argument;
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        out.push_str(before);
        let (url, tail) = after.split_at(next_url(after).unwrap_or(after.len()));
        match url.rsplit_once('@') {
            Some((credentials, hosts)) => {
                if let Some((user, _)) = credentials.split_once(':') {
                    out.push_str(user);
                    out.push(':');
                }
                out.push_str("***@");
                out.push_str(hosts);
            }
            None => out.push_str(url),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// Where another URL of servers begins. Nothing less ends the one before, whatever its password looks like.
fn next_url(text: &str) -> Option<usize> {
    let separators = text.match_indices(|c: char| c.is_whitespace() || ",;\"'=".contains(c));
    let starts = separators.map(|(at, separator)| at + separator.len());
    let mut urls = starts.filter(|&at| {
        let scheme = text[at..].split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| {
            let name = scheme.starts_with("redis") || scheme.starts_with("redlock");
            name && scheme
                .bytes()
                .all(|c| c.is_ascii_lowercase() || b"+-".contains(&c))
        })
    });
    urls.next()
}

/// Every argument of a command line through [`redact`].
pub fn redact_all<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Vec<String> {
    let arguments = arguments.into_iter();
    arguments.map(|one| redact(one.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_go_and_the_rest_stays() {
        let cases = [
            ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
            ("redis://:s3cret@h:1/0", "redis://:***@h:1/0"),
            ("rediss://ann:s3cret@h:1", "rediss://ann:***@h:1"),
            (
                "--target=redis://ann:pw@h:1/2",
                "--target=redis://ann:***@h:1/2",
            ),
            ("redlock://a:1@h1:1,b:2@h2:2/0", "redlock://a:***@h2:2/0"),
            ("redis://ann@h:1", "redis://***@h:1"),
            (
                "exec:go run x redis://u:pw@h:1/0 redis://h:2",
                "exec:go run x redis://u:***@h:1/0 redis://h:2",
            ),
            ("redis://h:1 redis://:x@h:2", "redis://h:1 redis://:***@h:2"),
            ("redis+unix:///tmp/a.sock", "redis+unix:///tmp/a.sock"),
            ("mail@example.org", "mail@example.org"),
            ("", ""),
        ];
        for (given, kept) in cases {
            assert_eq!(redact(given), kept);
        }
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
}

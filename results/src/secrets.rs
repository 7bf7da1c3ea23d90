//! Turns a command line into one that can be kept: passwords inside URLs become `***`.

/// `argument` with the password of every URL in it replaced by `***`; the user's name stays.
///
/// Every `scheme://user:password@host` is found, also inside a longer argument (`--target=redis://…`) and in lists with
/// commas. A password given in another way, as an argument by itself, cannot be told from any other word and stays.
pub fn redact(argument: &str) -> String {
    let mut out = String::with_capacity(argument.len());
    let mut rest = argument;
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        out.push_str(before);
        let end = after
            .find(|c: char| {
                c == '/' || c == '?' || c == '#' || c.is_whitespace() || c == '"' || c == '\''
            })
            .unwrap_or(after.len());
        // A raw password may hold any of these ends itself, so the last `@` before the next URL is decisive, not the first end.
        let reach = after.find("://").map_or(after.len(), |next| {
            after[..next]
                .rfind(|c: char| c.is_whitespace() || c == ',')
                .unwrap_or(0)
        });
        let end = match after[..reach].rfind('@') {
            Some(at)
                if at >= end
                    && after[..at].contains(':')
                    && !after[..at].contains(char::is_whitespace) =>
            {
                at + 1
            }
            _ => end,
        };
        let (authority, tail) = after.split_at(end);
        out.push_str(&redact_authority(authority));
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// Every argument of a command line through [`redact`].
pub fn redact_all<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Vec<String> {
    arguments
        .into_iter()
        .map(|argument| redact(argument.as_ref()))
        .collect()
}

/// `user:password@host:port,user:password@host:port`: what stands before each `@`, behind its first colon, goes.
fn redact_authority(authority: &str) -> String {
    let Some(last_at) = authority.rfind('@') else {
        return authority.to_owned();
    };
    let mut out = String::new();
    // Between two `@` stand a host and the next entry's credentials, apart by a comma.
    let mut rest = &authority[..=last_at];
    while let Some(at) = rest.find('@') {
        let part = &rest[..at];
        let (host, credentials) = match (out.is_empty(), part.find(',')) {
            (false, Some(comma)) => part.split_at(comma + 1),
            _ => ("", part),
        };
        out.push_str(host);
        match credentials.split_once(':') {
            Some((user, _)) => {
                out.push_str(user);
                out.push_str(":***@");
            }
            // Behind an `@` without a comma stands the rest of a password that holds an `@`: it goes too.
            None if !out.is_empty() && host.is_empty() => {}
            None => {
                out.push_str(credentials);
                out.push('@');
            }
        }
        rest = &rest[at + 1..];
    }
    out.push_str(&authority[last_at + 1..]);
    out
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
            (
                "redlock://a:1@h1:1,b:2@h2:2/0",
                "redlock://a:***@h1:1,b:***@h2:2/0",
            ),
            ("redis://ann@h:1", "redis://ann@h:1"),
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
        for password in ["a/b", "a@b", "p?q#r", "x:y:z", "semi'quote", "a@b/c"] {
            let kept = redact(&format!("redis://ann:{password}@h:1/0"));
            assert!(!kept.contains(password), "{kept}");
            assert!(kept.ends_with("h:1/0"), "{kept}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_passes_through_without_a_panic(text in "\\PC*") {
            let _ = redact(&text);
        }

        #[test]
        fn no_letter_of_a_password_is_kept(password in "[A-Z]{6,12}", user in "[a-z]{0,5}") {
            let kept = redact(&format!("exec:go run x redis://{user}:{password}@h:1,h:2/0"));
            proptest::prop_assert!(!kept.contains(&password));
        }
    }
}

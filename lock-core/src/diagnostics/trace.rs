//! What a client and its servers say to each other, as events for those who watch.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock;

/// Something that was said: a command with its reply, or a message that came by itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Traced {
    /// When it was sent or heard.
    pub at: Instant,
    /// The server.
    pub node: String,
    /// `EVALSHA`, `SET`, `SUBSCRIBE`, …; `message` for what a server said by itself.
    pub command: &'static str,
    /// The script's name, for `EVALSHA`.
    pub script: Option<&'static str>,
    /// The keys; the channel of a subscription or message.
    pub keys: Vec<String>,
    /// What follows the keys.
    pub args: Vec<String>,
    /// The reply as redis-cli shows one, or why there is none. Nothing for subscriptions and messages.
    pub reply: Option<String>,
    /// From sending to the reply.
    pub took: Duration,
}

/// A function that gets each event, in the middle of the client's work: it must be quick and not block.
#[derive(Clone)]
pub struct Tracer(Arc<dyn Fn(Traced) + Send + Sync>);

impl Tracer {
    /// Tells a function. If that panics, the event is lost and the client goes on.
    pub fn new(tell: impl Fn(Traced) + Send + Sync + 'static) -> Self {
        Tracer(Arc::new(tell))
    }

    /// A panic of the function ends here: it must not end the task that hears messages.
    pub(crate) fn tell(&self, event: Traced) {
        let _ = catch_unwind(AssertUnwindSafe(|| (self.0)(event)));
    }

    /// A subscription that was asked for or ended, or a message that came.
    pub(crate) fn channel(&self, node: &str, command: &'static str, name: &str, text: Option<&[u8]>) {
        self.tell(Traced {
            at: clock::Instant::now().std(),
            node: node.to_owned(),
            command,
            script: None,
            keys: vec![name.to_owned()],
            args: text.into_iter().map(shown).collect(),
            reply: None,
            took: Duration::ZERO,
        });
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tracer")
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A reply as people read it: `nil`, `3`, `OK`, `"text"`, `[1, nil]`.
pub(crate) fn reply(value: &redis::Value) -> String {
    use redis::Value;
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Okay => "OK".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => format!("{:?}", shown(bytes)),
        Value::SimpleString(text) => text.clone(),
        Value::Array(parts) => {
            let parts: Vec<_> = parts.iter().map(reply).collect();
            format!("[{}]", parts.join(", "))
        }
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;

    #[test]
    fn replies_are_shown_as_people_read_them() {
        let nested = Value::Array(vec![
            Value::Int(-1),
            Value::Array(vec![Value::Nil, Value::BulkString(b"a\"b".to_vec())]),
            Value::Okay,
        ]);
        assert_eq!(reply(&nested), r#"[-1, [nil, "a\"b"], OK]"#);
    }
}

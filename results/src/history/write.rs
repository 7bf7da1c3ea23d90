//! Turns a typed line into its JSON, without the line feed.

use serde_json::Value;

use super::{Acquire, Call, End, Entry, Event, Line, Phase};

impl Line {
    /// This line as one JSON object, without a line feed; [`Line::parse`] reads it back to the same value.
    ///
    /// Fields come in the order of the format's examples. A renewed lease and a wait without bound are written as `null`.
    pub fn to_json(&self) -> String {
        let mut object = Object::new(self.t_ns);
        match &self.entry {
            Entry::Call { id, call } => {
                object.field("id", *id);
                object.call(call);
            }
            Entry::End { id, end } => {
                object.field("id", *id);
                object.end(end);
            }
            Entry::Event(Event::Other(fields)) => {
                let mut fields = fields.clone();
                fields.insert("t_ns".to_owned(), Value::from(self.t_ns));
                return Value::Object(fields).to_string();
            }
            Entry::Event(event) => object.event(event),
        }
        object.text.push('}');
        object.text
    }
}

/// A JSON object that is being written, fields in the order given.
struct Object {
    text: String,
}

impl Object {
    fn new(t_ns: u64) -> Self {
        let mut text = String::with_capacity(128);
        text.push_str("{\"t_ns\":");
        text.push_str(&t_ns.to_string());
        Self { text }
    }

    /// Adds a field whose name needs no escapes.
    fn field(&mut self, name: &str, value: impl Into<Value>) {
        self.text.push_str(",\"");
        self.text.push_str(name);
        self.text.push_str("\":");
        self.text.push_str(&value.into().to_string());
    }

    fn some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.field(name, value);
        }
    }

    fn call(&mut self, call: &Call) {
        match call {
            Call::Acquire(acquire) => self.acquire(acquire),
            Call::Extend {
                grant,
                lease_ms,
                by,
            } => {
                self.field("op", "extend");
                self.field("grant", grant.as_str());
                self.field("lease_ms", *lease_ms);
                self.some("by", by.as_deref());
            }
            Call::Release { grant } => {
                self.field("op", "release");
                self.field("grant", grant.as_str());
            }
        }
    }

    fn acquire(&mut self, acquire: &Acquire) {
        self.field("client", acquire.client.as_str());
        self.field("owner", acquire.owner.as_str());
        self.field("op", "acquire");
        match acquire.locks.as_slice() {
            [lock] if acquire.kind != "multi" => self.field("lock", lock.as_str()),
            locks => self.field("locks", locks.to_vec()),
        }
        self.field("kind", acquire.kind.as_str());
        self.field("lease_ms", acquire.lease_ms);
        self.field("wait_ms", acquire.wait_ms);
        self.some("permits", acquire.permits);
    }

    fn end(&mut self, end: &End) {
        match end {
            End::Ok {
                grant,
                token,
                sent_ns,
                lease_ms,
            } => {
                self.field("end", "ok");
                self.some("grant", grant.as_deref());
                self.some("token", *token);
                self.some("sent_ns", *sent_ns);
                self.some("lease_ms", *lease_ms);
            }
            End::Busy => self.field("end", "busy"),
            End::NotHeld => self.field("end", "not_held"),
            End::Failed { error } => {
                self.field("end", "failed");
                self.some("error", error.as_deref());
            }
            End::Unknown { error, grant } => {
                self.field("end", "unknown");
                self.some("grant", grant.as_deref());
                self.some("error", error.as_deref());
            }
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Lost {
                grant,
                reason,
                at_ns,
            } => {
                self.field("event", "lost");
                self.field("grant", grant.as_str());
                self.some("reason", reason.as_deref());
                self.some("at_ns", *at_ns);
            }
            Event::Write {
                lock,
                grant,
                token,
                accepted,
                read,
                wrote,
            } => {
                self.field("event", "write");
                self.field("lock", lock.as_str());
                self.field("grant", grant.as_str());
                self.some("token", *token);
                self.field("accepted", *accepted);
                self.some("read", *read);
                self.some("wrote", *wrote);
            }
            Event::Fault {
                fault,
                targets,
                span,
                phase,
            } => {
                self.field("event", "fault");
                self.field("fault", fault.as_str());
                self.field("targets", targets.clone());
                self.field("span", *span);
                let phase = match phase {
                    Phase::Inject => "inject",
                    Phase::Heal => "heal",
                };
                self.field("phase", phase);
            }
            Event::Crash { client } => {
                self.field("event", "crash");
                self.field("client", client.as_str());
            }
            Event::Probe { lock, ok } => {
                self.field("event", "probe");
                self.field("lock", lock.as_str());
                self.field("ok", *ok);
            }
            Event::Client {
                client,
                watchdog_ms,
            } => {
                self.field("event", "client");
                self.field("client", client.as_str());
                self.some("watchdog_ms", *watchdog_ms);
            }
            // `to_json` writes these whole.
            Event::Other(_) => {}
        }
    }
}

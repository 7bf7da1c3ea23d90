//! Turns the description of a toxic into its settings, and back into the JSON of Toxiproxy.

use super::ApiError;
use super::fields::{Fields, float};
use super::syntax::{Json, encode};

/// Which way the bytes flow that a toxic harms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// From the client.
    Upstream,
    /// To the client.
    Downstream,
}

/// A type of toxic: its name, what Go calls it, and its attributes with their Go types.
struct Kind {
    name: &'static str,
    go: &'static str,
    attributes: &'static [(&'static str, &'static str)],
}

/// The types, one line each. How each harms is in `proxy/fault/toxic.rs`.
static KINDS: [Kind; 8] = [
    Kind {
        name: "latency",
        go: "LatencyToxic",
        attributes: &[("latency", "int64"), ("jitter", "int64")],
    },
    Kind {
        name: "bandwidth",
        go: "BandwidthToxic",
        attributes: &[("rate", "int64")],
    },
    Kind {
        name: "slow_close",
        go: "SlowCloseToxic",
        attributes: &[("delay", "int64")],
    },
    Kind {
        name: "timeout",
        go: "TimeoutToxic",
        attributes: &[("timeout", "int64")],
    },
    Kind {
        name: "reset_peer",
        go: "ResetToxic",
        attributes: &[("timeout", "int64")],
    },
    Kind {
        name: "slicer",
        go: "SlicerToxic",
        attributes: &[
            ("average_size", "int"),
            ("size_variation", "int"),
            ("delay", "int"),
        ],
    },
    Kind {
        name: "limit_data",
        go: "LimitDataToxic",
        attributes: &[("bytes", "int64")],
    },
    Kind {
        name: "noop",
        go: "NoopToxic",
        attributes: &[],
    },
];

/// A toxic as it was asked for.
pub(super) struct Toxic {
    pub(super) name: String,
    kind: &'static Kind,
    pub(super) stream: Stream,
    /// As written: upper and lower case are kept.
    stream_word: String,
    pub(super) toxicity: f32,
    values: Vec<i64>,
}

impl Toxic {
    /// Reads a new toxic.
    pub(super) fn parse(body: &Json) -> Result<Toxic, ApiError> {
        let (mut name, mut kind) = (String::new(), String::new());
        let mut stream_word = "downstream".to_owned();
        let mut toxicity = 1.0;
        let bad = |problem: String| ApiError::bad_body(&problem);
        let mut fields = Fields::of(body, "ToxicWrapper", "toxics.ToxicWrapper").map_err(bad)?;
        let attributes = fields.inner("attributes", "toxics.NoopToxic");
        fields.text("name", "name", &mut name);
        fields.text("type", "type", &mut kind);
        fields.text("stream", "stream", &mut stream_word);
        fields.fraction("toxicity", &mut toxicity);
        fields.done().map_err(bad)?;
        let stream = match stream_word.to_lowercase().as_str() {
            "upstream" => Stream::Upstream,
            "downstream" => Stream::Downstream,
            _ => {
                let message = "stream was invalid, can be either upstream or downstream";
                return Err(ApiError::new(400, message));
            }
        };
        if name.is_empty() {
            name = format!("{kind}_{stream_word}");
        }
        let Some(kind) = KINDS.iter().find(|known| known.name == kind) else {
            return Err(ApiError::new(400, "invalid toxic type"));
        };
        let mut toxic = Toxic {
            name,
            kind,
            stream,
            stream_word,
            toxicity,
            values: vec![0; kind.attributes.len()],
        };
        toxic.read_attributes(attributes).map_err(bad)?;
        Ok(toxic)
    }

    /// Takes over attributes and toxicity; what fits is taken even if something else does not.
    pub(super) fn update(&mut self, body: &Json) -> Result<(), ApiError> {
        const WHOLE: &str = "struct { Attributes interface {} \"json:\\\"attributes\\\"\"; Toxicity float32 \"json:\\\"toxicity\\\"\" }";
        let bad = |problem: String| ApiError::bad_body(&problem);
        let mut fields = Fields::of(body, "", WHOLE).map_err(bad)?;
        let attributes = fields.inner("attributes", &format!("toxics.{}", self.kind.go));
        let mut toxicity = self.toxicity;
        fields.fraction("toxicity", &mut toxicity);
        let inside = self.read_attributes(attributes);
        fields.done().and(inside).map_err(bad)?;
        self.toxicity = toxicity;
        Ok(())
    }

    fn read_attributes(&mut self, members: &[(String, Json)]) -> Result<(), String> {
        let mut fields = Fields::at(members, self.kind.go, "attributes.");
        for ((name, go), value) in self.kind.attributes.iter().zip(&mut self.values) {
            fields.whole(name, go, value);
        }
        fields.done()
    }

    pub(super) fn kind(&self) -> &'static str {
        self.kind.name
    }

    /// The attributes in the order of the table above.
    pub(super) fn values(&self) -> &[i64] {
        &self.values
    }

    pub(super) fn json(&self) -> String {
        let attributes: Vec<String> = self
            .kind
            .attributes
            .iter()
            .zip(&self.values)
            .map(|((name, _), value)| format!("\"{name}\":{value}"))
            .collect();
        format!(
            "{{\"attributes\":{{{}}},\"name\":{},\"type\":{},\"stream\":{},\"toxicity\":{}}}",
            attributes.join(","),
            encode(&self.name),
            encode(self.kind.name),
            encode(&self.stream_word),
            float(self.toxicity)
        )
    }
}

impl std::fmt::Debug for Toxic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.json())
    }
}

//! One toxic: its type, its attributes, and how a client describes it.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ApiError;
use crate::proxy::{Direction, FaultBehaviour, LinkGuard, TOXICS, ToxicKind};

#[derive(Debug)]
pub(super) struct Toxic {
    pub(super) name: String,
    kind: &'static ToxicKind,
    /// Which way the bytes flow that it harms.
    pub(super) stream: Direction,
    /// As written: upper and lower case are kept.
    stream_word: String,
    toxicity: f64,
    values: Vec<i64>,
    /// Its undo, once it is in force.
    pub(super) guard: Option<LinkGuard>,
}

#[derive(Default, Deserialize)]
pub(super) struct ToxicBody {
    name: Option<String>,
    r#type: Option<String>,
    stream: Option<String>,
    toxicity: Option<f64>,
    attributes: Option<Map<String, Value>>,
}

impl Toxic {
    pub(super) fn new(asked: &ToxicBody) -> Result<Toxic, ApiError> {
        let kind = asked.r#type.as_deref().unwrap_or_default();
        let stream_word = asked.stream.as_deref().unwrap_or("downstream").to_owned();
        let stream = match stream_word.to_lowercase().as_str() {
            "upstream" => Direction::Out,
            "downstream" => Direction::Back,
            _ => return Err(ApiError::new(400, "stream was invalid, can be either upstream or downstream")),
        };
        let name = asked.name.clone().filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| format!("{kind}_{stream_word}"));
        let Some(kind) = TOXICS.iter().find(|known| known.name == kind) else {
            return Err(ApiError::new(400, "invalid toxic type"));
        };
        let mut toxic = Toxic {
            name,
            kind,
            stream,
            stream_word,
            toxicity: 1.0,
            values: vec![0; kind.attributes.len()],
            guard: None,
        };
        toxic.update(asked)?;
        Ok(toxic)
    }

    /// Takes over attributes and toxicity.
    pub(super) fn update(&mut self, asked: &ToxicBody) -> Result<(), ApiError> {
        let mut values = self.values.clone();
        for (name, value) in self.kind.attributes.iter().zip(&mut values) {
            let asked = asked.attributes.as_ref().and_then(|all| all.get(*name));
            if let Some(asked) = asked.filter(|asked| !asked.is_null()) {
                *value = (asked.as_i64()).ok_or_else(|| {
                    ApiError::bad_body(&format!("attribute `{name}` is {asked}, not a whole number"))
                })?;
            }
        }
        if (asked.toxicity).is_some_and(|toxicity| !(toxicity as f32).is_finite()) {
            return Err(ApiError::bad_body("a toxicity that is no float32"));
        }
        self.values = values;
        self.toxicity = asked.toxicity.unwrap_or(self.toxicity);
        let fault = self.fault();
        if let Some(guard) = &mut self.guard {
            guard.change(fault);
        }
        Ok(())
    }

    pub(super) fn fault(&self) -> Box<dyn FaultBehaviour> {
        self.kind.fault(&self.values, self.toxicity as f32)
    }

    pub(super) fn to_json(&self) -> Value {
        let attributes = self.kind.attributes.iter().zip(&self.values);
        let attributes: Map<String, Value> =
            attributes.map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        json!({
            "attributes": attributes,
            "name": self.name,
            "type": self.kind.name,
            "stream": self.stream_word,
            "toxicity": self.toxicity,
        })
    }
}

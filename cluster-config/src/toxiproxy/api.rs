//! Answers a request as Toxiproxy 2.12 does: paths, statuses, JSON and error texts.

use std::collections::BTreeMap;

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::proxy::Proxy;
use super::{ApiError, VERSION};

pub(super) type Response = hyper::Response<String>;

const TEXT: &str = "text/plain; charset=utf-8";

fn response(status: u16, content_type: &'static str, body: String) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if !content_type.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if content_type == TEXT {
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    }
    response
}

fn json_response(status: u16, what: &impl Serialize) -> Response {
    response(status, "application/json", text(what))
}

pub(super) fn error_response(error: &ApiError) -> Response {
    response(error.status, TEXT, text(error) + "\n")
}

fn empty(status: u16) -> Response {
    response(status, "", String::new())
}

#[derive(Debug, Default)]
pub(super) struct Api {
    proxies: BTreeMap<String, Proxy>,
}

impl Api {
    pub(super) async fn answer(
        &mut self,
        method: &str,
        path: &str,
        user_agent: &str,
        body: &[u8],
    ) -> Response {
        let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let allowed: &[&str] = match *parts {
            ["version"] => &["GET"],
            ["reset" | "populate"] => &["POST"],
            ["proxies"] | ["proxies", _, "toxics"] => &["GET", "POST"],
            ["proxies", name] | ["proxies", _, "toxics", name] if !name.is_empty() => {
                &["GET", "POST", "PATCH", "DELETE"]
            }
            _ => return response(404, TEXT, "404 page not found\n".to_owned()),
        };
        if !allowed.contains(&method) {
            return empty(405);
        }
        // A page in a browser could otherwise harm what runs on its reader's machine.
        if user_agent.starts_with("Mozilla/") {
            return response(403, TEXT, "User agent not allowed\n".to_owned());
        }
        self.route(&parts, method, body).await.unwrap_or_else(|error| error_response(&error))
    }

    async fn route(&mut self, parts: &[&str], method: &str, body: &[u8]) -> Result<Response, ApiError> {
        Ok(match (parts, method) {
            (["version"], _) => {
                response(200, "application/json;charset=utf-8", text(&json!({ "version": VERSION })) + "\n")
            }
            (["reset"], _) => {
                for proxy in self.proxies.values_mut() {
                    proxy.start().await?;
                    proxy.toxics.clear();
                }
                empty(204)
            }
            (["populate"], _) => self.populate(body).await,
            ([_], "GET") => {
                let all = self.proxies.iter();
                let all: BTreeMap<_, _> = all.map(|(name, proxy)| (name, proxy.to_json())).collect();
                json_response(200, &all)
            }
            ([_, name], "GET") => json_response(200, &self.proxy(name)?.to_json()),
            ([_, name], "DELETE") => {
                self.proxy(name)?.running.shutdown().await;
                self.proxies.remove(*name);
                empty(204)
            }
            ([_, name], _) => {
                let proxy = self.proxy(name)?;
                let wanted: ProxyBody = parse_body(body)?;
                let listen = wanted.listen.as_ref().unwrap_or(&proxy.listen).clone();
                let upstream = wanted.upstream.as_ref().unwrap_or(&proxy.upstream).clone();
                let enabled = wanted.enabled.unwrap_or(proxy.is_enabled());
                // A new address counts even if it turns out that nobody can listen there.
                if proxy.differs(&listen, &upstream).await? {
                    proxy.running.shutdown().await;
                    (proxy.listen, proxy.upstream) = (listen, upstream);
                }
                if enabled {
                    proxy.start().await?
                } else {
                    proxy.running.shutdown().await
                }
                json_response(200, &proxy.to_json())
            }
            ([_, name, _], "GET") => json_response(200, &self.proxy(name)?.toxics_to_json()),
            ([_, name, _], _) => {
                let toxic = self.proxy(name)?.add_toxic(&parse_body(body)?)?;
                json_response(200, &toxic.to_json())
            }
            ([_, name, _, toxic], _) => {
                let toxics = &mut self.proxy(name)?.toxics;
                // Looked for first: a bad body for a toxic that is not there is "not found".
                let place = toxics.iter().position(|known| known.name == *toxic);
                let place = place.ok_or_else(|| ApiError::new(404, "toxic not found"))?;
                if method == "DELETE" {
                    toxics.remove(place);
                    return Ok(empty(204));
                }
                if method != "GET" {
                    toxics[place].update(&parse_body(body)?)?;
                }
                json_response(200, &toxics[place].to_json())
            }
            _ => self.create(body).await?,
        })
    }

    pub(super) async fn stop(&mut self) {
        for (_, mut proxy) in std::mem::take(&mut self.proxies) {
            proxy.running.shutdown().await;
        }
    }

    fn proxy(&mut self, name: &str) -> Result<&mut Proxy, ApiError> {
        self.proxies.get_mut(name).ok_or_else(|| ApiError::new(404, "proxy not found"))
    }

    async fn create(&mut self, body: &[u8]) -> Result<Response, ApiError> {
        let wanted: ProxyBody = parse_body(body)?;
        let mut proxy = wanted.proxy("")?;
        if self.proxies.contains_key(&proxy.name) {
            return Err(ApiError::new(409, "proxy already exists"));
        }
        if wanted.enabled != Some(false) {
            proxy.start().await?;
        }
        let response = json_response(201, &proxy.to_json());
        self.proxies.insert(proxy.name.clone(), proxy);
        Ok(response)
    }

    /// Creates the proxies of a list, which is checked first. Existing proxies with the same addresses stay.
    pub(super) async fn populate(&mut self, body: &[u8]) -> Response {
        let mut made = Vec::new();
        let failed = self.populate_into(body, &mut made).await.err();
        let made = made.iter().filter_map(|name| self.proxies.get(name));
        let made: Vec<Value> = made.map(Proxy::to_json).collect();
        // An empty list is Go's nil.
        let proxies = Some(made).filter(|made| !made.is_empty());
        match failed {
            None => json_response(201, &json!({ "proxies": proxies })),
            Some(ApiError { message, status }) => {
                json_response(status, &json!({ "error": message, "status": status, "proxies": proxies }))
            }
        }
    }

    async fn populate_into(&mut self, body: &[u8], made: &mut Vec<String>) -> Result<(), ApiError> {
        let list: Vec<Value> = parse_body(body)?;
        let all: Result<Vec<ProxyBody>, _> = list.into_iter().map(parse_value).collect();
        let mut all_new = Vec::new();
        for (place, wanted) in (1..).zip(all?) {
            all_new.push((wanted.proxy(&format!(" at proxy {place}"))?, wanted.enabled != Some(false)));
        }
        for (mut proxy, enabled) in all_new {
            made.push(proxy.name.clone());
            if let Some(there) = self.proxies.get_mut(&proxy.name) {
                if !there.differs(&proxy.listen, &proxy.upstream).await? {
                    continue;
                }
                there.running.shutdown().await;
            }
            if enabled {
                proxy.start().await?;
            }
            self.proxies.insert(proxy.name.clone(), proxy);
        }
        Ok(())
    }
}

#[derive(Default, Deserialize)]
struct ProxyBody {
    name: Option<String>,
    listen: Option<String>,
    upstream: Option<String>,
    enabled: Option<bool>,
}

impl ProxyBody {
    /// The proxy, if it has all that it needs; `place` is where it stands in a list.
    fn proxy(&self, place: &str) -> Result<Proxy, ApiError> {
        let need = |field: &str, value: &Option<String>| {
            let value = value.clone().filter(|value| !value.is_empty());
            let message = format!("missing required field: {field}{place}");
            value.ok_or_else(|| ApiError::new(400, &message))
        };
        let name = need("name", &self.name)?;
        let upstream = need("upstream", &self.upstream)?;
        Ok(Proxy::new(name, self.listen.clone().unwrap_or_default(), upstream))
    }
}

/// Reads the first value of a body. `null` is as an absent member; of members of one name the last counts.
fn parse_body<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, ApiError> {
    let bad = |error: serde_json::Error| ApiError::bad_body(&error.to_string());
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    let value = values.next().unwrap_or_else(|| Err(serde::de::Error::custom("EOF")));
    parse_value(value.map_err(bad)?)
}

fn parse_value<T: DeserializeOwned + Default>(value: Value) -> Result<T, ApiError> {
    let read = serde_json::from_value::<Option<T>>(value);
    Ok(read.map_err(|error| ApiError::bad_body(&error.to_string()))?.unwrap_or_default())
}

fn text(of: &impl Serialize) -> String {
    // Strings, numbers and maps by string: none of them can fail.
    serde_json::to_string(of).unwrap_or_default()
}

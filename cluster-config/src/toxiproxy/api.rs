//! Answers a request as Toxiproxy 2.12 does: paths, statuses, JSON and error texts.
//!
//! Nothing here knows HTTP's framing, so any bytes can be thrown at it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{self, text};
use super::metrics;
use super::proxy::Proxy;
use super::{ApiError, VERSION};

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'r> {
    pub(super) method: &'r str,
    /// With its percent signs, without the query.
    pub(super) path: &'r str,
    pub(super) user_agent: &'r str,
    pub(super) body: &'r [u8],
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) content_type: Option<&'static str>,
    pub(super) body: String,
    /// Where a path in need of tidying leads.
    pub(super) location: Option<String>,
    /// Whether a route took it: then it gets a request id.
    pub(super) routed: bool,
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

impl Response {
    fn json(status: u16, body: String) -> Response {
        Response {
            status,
            content_type: Some(JSON),
            body,
            location: None,
            routed: true,
        }
    }

    fn text(status: u16, body: String) -> Response {
        Response {
            content_type: Some(TEXT),
            ..Response::json(status, body)
        }
    }

    fn empty(status: u16) -> Response {
        Response {
            content_type: None,
            ..Response::json(status, String::new())
        }
    }

    fn unrouted(self) -> Response {
        Response {
            routed: false,
            ..self
        }
    }
}

impl From<ApiError> for Response {
    fn from(error: ApiError) -> Response {
        Response::text(error.status, text(&error) + "\n")
    }
}

/// All proxies by name.
#[derive(Default)]
pub(super) struct Api {
    proxies: BTreeMap<String, Proxy>,
}

/// What a path names.
enum Route<'p> {
    Reset,
    Proxies,
    Populate,
    Proxy(&'p str),
    Toxics(&'p str),
    Toxic(&'p str, &'p str),
    Version,
    Metrics,
}

impl Route<'_> {
    fn of<'p>(parts: &[&'p str]) -> Option<Route<'p>> {
        Some(match *parts {
            ["reset"] => Route::Reset,
            ["proxies"] => Route::Proxies,
            ["populate"] => Route::Populate,
            ["proxies", proxy] if !proxy.is_empty() => Route::Proxy(proxy),
            ["proxies", proxy, "toxics"] if !proxy.is_empty() => Route::Toxics(proxy),
            ["proxies", proxy, "toxics", toxic] if !proxy.is_empty() && !toxic.is_empty() => {
                Route::Toxic(proxy, toxic)
            }
            ["version"] => Route::Version,
            ["metrics"] => Route::Metrics,
            _ => return None,
        })
    }

    fn allows(&self, method: &str) -> bool {
        match self {
            Route::Reset | Route::Populate => method == "POST",
            Route::Proxies | Route::Toxics(_) => matches!(method, "GET" | "POST"),
            Route::Proxy(_) | Route::Toxic(..) => {
                matches!(method, "GET" | "POST" | "PATCH" | "DELETE")
            }
            Route::Version => method == "GET",
            Route::Metrics => true,
        }
    }
}

impl Api {
    /// Answers one request.
    pub(super) async fn answer(&mut self, request: Request<'_>) -> Response {
        let path = decoded(request.path);
        let tidy = tidied(&path);
        if tidy != path {
            return Response {
                location: Some(tidy),
                ..Response::empty(301).unrouted()
            };
        }
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let Some(route) = Route::of(&parts) else {
            return Response::text(404, "404 page not found\n".to_owned()).unrouted();
        };
        if !route.allows(request.method) {
            return Response::empty(405).unrouted();
        }
        // A page in a browser could otherwise harm what runs on its reader's machine.
        if request.user_agent.starts_with("Mozilla/") {
            return Response::text(403, "User agent not allowed\n".to_owned());
        }
        let answered = match route {
            Route::Version => {
                let mut response = Response::json(200, text(&json!({ "version": VERSION })) + "\n");
                response.content_type = Some("application/json;charset=utf-8");
                Ok(response)
            }
            Route::Metrics => {
                let mut response = Response::text(200, metrics::page(self.proxies.values()));
                response.content_type =
                    Some("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
                Ok(response)
            }
            Route::Reset => self.reset().await,
            Route::Populate => Ok(self.populate(request.body).await),
            Route::Proxies if request.method == "GET" => Ok(self.list()),
            Route::Proxies => self.create(request.body).await,
            Route::Proxy(name) => self.on_proxy(name, request).await,
            Route::Toxics(name) => self.on_toxics(name, request),
            Route::Toxic(name, toxic) => self.on_toxic(name, toxic, request),
        };
        answered.unwrap_or_else(Response::from)
    }

    /// Ends every proxy and its connections.
    pub(super) async fn stop(&mut self) {
        for proxy in self.proxies.values_mut() {
            proxy.stop().await;
        }
        self.proxies.clear();
    }

    fn proxy(&mut self, name: &str) -> Result<&mut Proxy, ApiError> {
        self.proxies
            .get_mut(name)
            .ok_or_else(|| ApiError::new(404, "proxy not found"))
    }

    fn list(&self) -> Response {
        let all = self.proxies.iter();
        let all: BTreeMap<_, _> = all.map(|(name, proxy)| (name, proxy.shown())).collect();
        Response::json(200, text(&all))
    }

    async fn reset(&mut self) -> Result<Response, ApiError> {
        for proxy in self.proxies.values_mut() {
            proxy.start().await?;
            proxy.remove_toxics();
        }
        Ok(Response::empty(204))
    }

    async fn create(&mut self, body: &[u8]) -> Result<Response, ApiError> {
        let wanted: Wanted = body::read(body)?;
        let mut proxy = wanted.proxy("")?;
        if self.proxies.contains_key(&proxy.name) {
            return Err(ApiError::new(409, "proxy already exists"));
        }
        if wanted.enabled != Some(false) {
            proxy.start().await?;
        }
        let response = Response::json(201, text(&proxy.shown()));
        self.proxies.insert(proxy.name.clone(), proxy);
        Ok(response)
    }

    async fn on_proxy(&mut self, name: &str, request: Request<'_>) -> Result<Response, ApiError> {
        let proxy = self.proxy(name)?;
        match request.method {
            "DELETE" => {
                proxy.stop().await;
                self.proxies.remove(name);
                return Ok(Response::empty(204));
            }
            "GET" => {}
            _ => {
                let wanted: Wanted = body::read(request.body)?;
                let listen = wanted.listen.unwrap_or_else(|| proxy.listen.clone());
                let upstream = wanted.upstream.unwrap_or_else(|| proxy.upstream.clone());
                let enabled = wanted.enabled.unwrap_or(proxy.is_enabled());
                proxy.update(listen, upstream, enabled).await?;
            }
        }
        Ok(Response::json(200, text(&proxy.shown())))
    }

    fn on_toxics(&mut self, name: &str, request: Request<'_>) -> Result<Response, ApiError> {
        let proxy = self.proxy(name)?;
        let body = match request.method {
            "GET" => text(&proxy.toxics()),
            _ => text(&proxy.add_toxic(body::read(request.body)?)?.shown()),
        };
        Ok(Response::json(200, body))
    }

    fn on_toxic(
        &mut self,
        name: &str,
        toxic: &str,
        request: Request<'_>,
    ) -> Result<Response, ApiError> {
        let proxy = self.proxy(name)?;
        // Looked for first: a bad body for a toxic that is not there is "not found".
        proxy.place(toxic)?;
        let body = match request.method {
            "GET" => text(&proxy.toxic(toxic)?.shown()),
            "DELETE" => {
                proxy.remove_toxic(toxic)?;
                return Ok(Response::empty(204));
            }
            _ => text(
                &proxy
                    .update_toxic(toxic, body::read(request.body)?)?
                    .shown(),
            ),
        };
        Ok(Response::json(200, body))
    }

    /// Creates the proxies of a list, all of which is checked first. Those that are there as they are wanted stay as they are.
    pub(super) async fn populate(&mut self, body: &[u8]) -> Response {
        let mut made = Vec::new();
        let failed = self.populate_into(body, &mut made).await.err();
        let made = made.iter().filter_map(|name| self.proxies.get(name));
        let made: Vec<Value> = made.map(Proxy::shown).collect();
        // An empty list is Go's nil.
        let proxies = Some(made).filter(|made| !made.is_empty());
        match failed {
            None => Response::json(201, text(&json!({ "proxies": proxies }))),
            Some(ApiError { message, status }) => {
                let answer = json!({ "error": message, "status": status, "proxies": proxies });
                Response::json(status, text(&answer))
            }
        }
    }

    async fn populate_into(&mut self, body: &[u8], made: &mut Vec<String>) -> Result<(), ApiError> {
        let list: Vec<Value> = body::read(body)?;
        let all: Result<Vec<Wanted>, _> = list.into_iter().map(body::of).collect();
        let mut all_new = Vec::new();
        for (place, wanted) in (1..).zip(all?) {
            let proxy = wanted.proxy(&format!(" at proxy {place}"))?;
            all_new.push((proxy, wanted.enabled != Some(false)));
        }
        for (mut proxy, enabled) in all_new {
            made.push(proxy.name.clone());
            if let Some(there) = self.proxies.get_mut(&proxy.name) {
                if !there.differs(&proxy.listen, &proxy.upstream).await? {
                    continue;
                }
                there.stop().await;
            }
            if enabled {
                proxy.start().await?;
            }
            self.proxies.insert(proxy.name.clone(), proxy);
        }
        Ok(())
    }
}

/// A proxy as a body describes it.
#[derive(Default, Deserialize)]
struct Wanted {
    name: Option<String>,
    listen: Option<String>,
    upstream: Option<String>,
    enabled: Option<bool>,
}

impl Wanted {
    /// The proxy, if it has all that it needs; `place` is where it stands in a list.
    fn proxy(&self, place: &str) -> Result<Proxy, ApiError> {
        let need = |field: &str, value: &Option<String>| {
            let value = value.clone().filter(|value| !value.is_empty());
            let message = format!("missing required field: {field}{place}");
            value.ok_or_else(|| ApiError::new(400, &message))
        };
        let name = need("name", &self.name)?;
        let upstream = need("upstream", &self.upstream)?;
        let listen = self.listen.clone().unwrap_or_default();
        Ok(Proxy::new(name, listen, upstream))
    }
}

/// A path without its percent signs; one that makes no sense is left as it is.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let escape = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        match (byte, after.get(..2).and_then(escape)) {
            (b'%', Some(meant)) => {
                bytes.push(meant);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A path without empty and dotted parts, as Go's router wants it; the slash at its end stays.
fn tidied(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let end = if path.ends_with('/') && !parts.is_empty() {
        "/"
    } else {
        ""
    };
    format!("/{}{end}", parts.join("/"))
}

//! EVAL and its like: the library's own scripts in the Lua that servers have, over the keys of a simulated
//! one.

use std::{cell::RefCell, collections::BTreeMap, fmt, mem::ManuallyDrop, sync::Arc};

use mlua::{Error, Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use mlua::state::{GcIncParams, GcMode};

use crate::server::command::{Spec, unknown_part};
use crate::server::keys::keyspace::{NOT_WHOLE, is};
use crate::server::keys::number::{self, Digits};
use crate::server::reply::{Command, Reply};
use crate::server::{ConnectionId, Server};

/// What a script may not do: read or make a global.
const GUARD: &str = r#"
setmetatable(_G, {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
    __newindex = function()
        error("Attempt to modify a readonly table", 2)
    end,
})"#;

pub(crate) type Scripts = BTreeMap<Vec<u8>, Arc<[u8]>>;

#[derive(Debug, Default)]
struct RunningScript {
    server: Server,
    from: ConnectionId,
    has_written: bool,
}

thread_local! {
    /// Not dropped, which would free each of its objects: it goes with the process of its run.
    static INTERPRETER: ManuallyDrop<Interpreter> = ManuallyDrop::new(Interpreter::new());
    static LENT: RefCell<RunningScript> = RefCell::default();
}

#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Lua, and the functions of all scripts that any server of this thread has run.
struct Interpreter {
    lua: Lua,
    functions: RefCell<BTreeMap<Vec<u8>, Function>>,
    /// By their texts: clients load the same few again and again, at each server.
    digests: RefCell<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Interpreter {
    fn new() -> Self {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new()).expect("an interpreter");
        let made = || -> mlua::Result<()> {
            let redis = lua.create_table()?;
            redis.set("call", lua.create_function(|lua, words| called(lua, words, true))?)?;
            redis.set("pcall", lua.create_function(|lua, words| called(lua, words, false))?)?;
            redis.set(
                "error_reply",
                lua.create_function(|lua, text: mlua::LuaString| {
                    let text = text.to_string_lossy();
                    let text = text.strip_prefix('-').unwrap_or(&text);
                    let coded = if text.contains(' ') { text.to_owned() } else { format!("ERR {text}") };
                    one_field(lua, "err", &coded)
                })?,
            )?;
            lua.globals().set("redis", redis)?;
            lua.load(GUARD).exec()
        };
        made().expect("its tables");
        // Its state is small; by default it is collected whenever it has doubled.
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(1_000)));
        Interpreter { lua, functions: RefCell::default(), digests: RefCell::default() }
    }

    fn digest(&self, text: &[u8]) -> Vec<u8> {
        if let Some(known) = self.digests.borrow().get(text) {
            return known.clone();
        }
        let digest = sha1_smol::Sha1::from(text).digest().to_string();
        let known = digest.clone().into_bytes();
        self.digests.borrow_mut().insert(text.to_vec(), known);
        digest.into_bytes()
    }

    fn function(&self, digest: &[u8], text: &[u8]) -> mlua::Result<Function> {
        if let Some(function) = self.functions.borrow().get(digest) {
            return Ok(function.clone());
        }
        let function = self.lua.load(text).set_name("@user_script").into_function()?;
        let known = function.clone();
        self.functions.borrow_mut().insert(digest.to_vec(), known);
        Ok(function)
    }

    fn run(&self, function: &Function, keys: &[Vec<u8>], args: &[Vec<u8>]) -> mlua::Result<Reply> {
        let globals = self.lua.globals();
        for (name, words) in [("KEYS", keys), ("ARGV", args)] {
            let table = self.lua.create_table_with_capacity(words.len(), 0)?;
            for word in words {
                table.raw_push(self.lua.create_string(word)?)?;
            }
            globals.raw_set(name, table)?;
        }
        from_lua(&function.call::<Value>(())?)
    }
}

pub(crate) fn prepare() {
    INTERPRETER.with(|_| {});
}

fn called(lua: &Lua, parts: MultiValue, strict: bool) -> mlua::Result<Value> {
    let answer = LENT.with_borrow_mut(|lent| {
        let digits = lent.server.keyspace.digits;
        let command: Option<Command> = parts.iter().map(|value| word(value, digits)).collect();
        match command {
            None => Reply::error("ERR Lua redis lib command arguments must be strings or integers"),
            Some(command) => lent.call(&command),
        }
    });
    match answer {
        Reply::Error(text) if strict => Err(Error::external(Refused(text.into_owned()))),
        answer => to_lua(lua, &answer),
    }
}

fn word(value: &Value, digits: Digits) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(digits.of(*number as f64).into_bytes()),
        Value::Number(number) => Some(digits.of(*number).into_bytes()),
        _ => None,
    }
}

fn one_field(lua: &Lua, name: &str, text: &str) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set(name, text)?;
    Ok(table)
}

fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Nil | Reply::NilArray => Value::Boolean(false),
        Reply::Status(text) => Value::Table(one_field(lua, "ok", text)?),
        Reply::Error(text) => Value::Table(one_field(lua, "err", text)?),
        Reply::Int(number) => Value::Number(*number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Array(parts) => {
            let table = lua.create_table_with_capacity(parts.len(), 0)?;
            for part in parts {
                table.raw_push(to_lua(lua, part)?)?;
            }
            Value::Table(table)
        }
    })
}

/// Numbers lose their fraction, an array ends at its first hole, false is nothing.
fn from_lua(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Integer(number) => Reply::Int(*number),
        // As the server's processor does it with what is too large.
        Value::Number(number) if number.is_nan() || number.abs() > 9.2e18 => Reply::Int(i64::MIN),
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => {
            if let Value::String(text) = table.raw_get::<Value>("err")? {
                return Ok(Reply::error(text.to_string_lossy()));
            }
            if let Value::String(text) = table.raw_get::<Value>("ok")? {
                return Ok(Reply::Status(text.to_string_lossy().into()));
            }
            let mut parts = Vec::new();
            for at in 1.. {
                match table.raw_get::<Value>(at)? {
                    Value::Nil => break,
                    value => parts.push(from_lua(&value)?),
                }
            }
            Reply::Array(parts)
        }
        _ => Reply::Nil,
    })
}

impl RunningScript {
    fn call(&mut self, command: &[Vec<u8>]) -> Reply {
        let refused = |why: &'static str| Reply::error(why);
        let Some(name) = command.first() else {
            return refused("ERR Please specify at least one argument for this redis lib call");
        };
        let Some(spec) = Spec::of(name) else {
            return refused("ERR Unknown Redis command called from script");
        };
        if !spec.takes(command.len()) {
            return refused("ERR Wrong number of args calling Redis command from script");
        }
        let server = &mut self.server;
        if spec.has('s') {
            return refused("ERR This Redis command is not allowed from script");
        }
        if spec.has('w')
            && let Some(refusal) = server.refuses_writes()
        {
            return refusal;
        }
        // One that has written cannot be stopped in the middle.
        if spec.has('m') && !self.has_written && server.is_out_of_memory() {
            return Reply::error(crate::server::OUT_OF_MEMORY);
        }
        if server.redirected(self.from, &spec, command).is_some() {
            return refused("ERR Script attempted to access a non local key in a cluster node");
        }
        self.has_written |= spec.has('w');
        server.carry_out(self.from, &spec, command).unwrap_or(Reply::Nil)
    }
}

/// What becomes of a script that broke off: what it says, and where it did.
fn broken(error: &Error, digest: &[u8]) -> Reply {
    let (said, trace) = match error {
        Error::CallbackError { traceback, cause } => {
            let refused = cause.downcast_ref::<Refused>();
            let said = refused.map_or_else(|| format!("ERR {cause}"), |refused| refused.0.clone());
            (said, traceback.clone())
        }
        Error::RuntimeError(text) => {
            let (said, trace) = text.split_once("\nstack traceback:").unwrap_or((text, text));
            (format!("ERR {said}"), trace.to_owned())
        }
        other => (format!("ERR {other}"), other.to_string()),
    };
    let after = trace.split("user_script:").nth(1).unwrap_or("");
    let line: String = after.chars().take_while(char::is_ascii_digit).collect();
    let digest = String::from_utf8_lossy(digest);
    Reply::error(format!("{said} script: {digest}, on @user_script:{line}."))
}

impl Server {
    pub(crate) fn script(&mut self, from: ConnectionId, name: &str, command: &[Vec<u8>]) -> Reply {
        match name {
            "script" => self.script_cache(&command[1..]),
            _ => self.eval(from, name, &command[1..]),
        }
    }

    fn script_cache(&mut self, args: &[Vec<u8>]) -> Reply {
        let (word, rest) = args.split_first().expect("a word");
        match rest {
            [text] if is(word, "load") => self.learn(text).map_or_else(|refused| refused, Reply::Bulk),
            _ if is(word, "flush") => {
                self.scripts.clear();
                Reply::OK
            }
            _ => unknown_part("script", word),
        }
    }

    fn learn(&mut self, text: &[u8]) -> Result<Vec<u8>, Reply> {
        let digest = INTERPRETER.with(|interpreter| interpreter.digest(text));
        if !self.scripts.contains_key(&digest) {
            INTERPRETER.with(|interpreter| interpreter.function(&digest, text)).map_err(|error| {
                let text = match &error {
                    Error::SyntaxError { message, .. } => message.clone(),
                    other => other.to_string(),
                };
                Reply::error(format!("ERR Error compiling script (new function): {text}"))
            })?;
            self.scripts.insert(digest.clone(), text.into());
        }
        Ok(digest)
    }

    fn eval(&mut self, from: ConnectionId, name: &str, args: &[Vec<u8>]) -> Reply {
        let [script, count, rest @ ..] = args else { return Reply::Nil };
        let Some(count) = number::whole(count) else { return Reply::error(NOT_WHOLE) };
        let Ok(count) = usize::try_from(count) else {
            return Reply::error("ERR Number of keys can't be negative");
        };
        if count > rest.len() {
            return Reply::error("ERR Number of keys can't be greater than number of args");
        }
        let digest = match name {
            "eval" => match self.learn(script) {
                Ok(digest) => digest,
                Err(refused) => return refused,
            },
            _ => script.to_ascii_lowercase(),
        };
        let Some(text) = self.scripts.get(&digest).cloned() else {
            return Reply::error("NOSCRIPT No matching script. Please use EVAL.");
        };
        let (keys, args) = rest.split_at(count);
        LENT.with_borrow_mut(|lent| {
            std::mem::swap(&mut lent.server, self);
            (lent.from, lent.has_written) = (from, false);
        });
        let ran = INTERPRETER.with(|interpreter| {
            let function = interpreter.function(&digest, &text)?;
            interpreter.run(&function, keys, args)
        });
        LENT.with_borrow_mut(|lent| std::mem::swap(&mut lent.server, self));
        ran.unwrap_or_else(|error| broken(&error, &digest))
    }
}

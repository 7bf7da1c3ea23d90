//! Runs a script's own text over a [`Store`], by the language that servers run it in.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicUsize, Ordering},
};

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::store::{Answer, Store};

/// A script's text, with a number of its own by which it is known once it was read.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    number: usize,
    text: String,
}

impl Script {
    pub(crate) fn new(parts: &[&str]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Script { number: NEXT.fetch_add(1, Ordering::Relaxed), text: parts.concat() }
    }

    /// The script with a piece replaced wherever it stands; the same one if it does not.
    pub(crate) fn with(&self, piece: &str, by: &str) -> Self {
        if self.text.contains(piece) { Script::new(&[&self.text.replace(piece, by)]) } else { self.clone() }
    }

    pub(crate) fn contains(&self, piece: &str) -> bool {
        self.text.contains(piece)
    }
}

/// The scripts of a kind with a line, perhaps with something replaced.
#[derive(Debug, Clone)]
pub(crate) struct Scripts {
    pub(crate) take: Script,
    pub(crate) give: Script,
    pub(crate) beat: Script,
    pub(crate) extend: Script,
}

impl Scripts {
    /// What all of them share is put in front of each, as the library does it.
    pub(crate) fn new(shared: &str, take: &str, give: &str, beat: &str) -> Self {
        Scripts {
            take: Script::new(&[shared, take]),
            give: Script::new(&[shared, give]),
            beat: Script::new(&[shared, beat]),
            extend: Script::new(&[include_str!("../../../lock-core/scripts/extend.lua")]),
        }
    }

    /// Those of a broken twin: each with `piece` replaced. Something must be replaced.
    pub(crate) fn with(&self, piece: &str, by: &str) -> Self {
        let scripts = [&self.take, &self.give, &self.beat];
        assert!(scripts.iter().any(|script| script.contains(piece)), "no script says {piece:?}");
        let [take, give, beat] = scripts.map(|script| script.with(piece, by));
        Scripts { take, give, beat, extend: self.extend.clone() }
    }
}

thread_local! {
    static LUA: Interpreter = Interpreter::new();
    /// The server that the script of this moment runs on.
    static STORE: RefCell<Store> = RefCell::default();
    static RUNS: Runs = Runs::default();
}

/// What the scripts have made of a server: many states of a model differ only in what its clients know.
#[derive(Default)]
struct Runs {
    /// By 64 bits of it the checker itself tells states apart.
    hasher: RandomState,
    known: RefCell<HashMap<u64, (Store, Answer)>>,
}

impl Runs {
    fn run(&self, store: &mut Store, script: &Script, keys: &[&str], args: &[&str]) -> Answer {
        let key = (self.hasher).hash_one((&*store, script.number, keys, args));
        if let Some((after, answer)) = self.known.borrow().get(&key) {
            store.clone_from(after);
            return answer.clone();
        }
        let answer = run_anew(store, script, keys, args);
        let run = (store.clone(), answer.clone());
        self.known.borrow_mut().insert(key, run);
        answer
    }
}

struct Interpreter {
    lua: Lua,
    scripts: RefCell<BTreeMap<usize, Function>>,
}

impl Interpreter {
    fn new() -> Self {
        let lua = Lua::new();
        let call = |strict: bool| {
            lua.create_function(move |lua, words: MultiValue| {
                let words: Vec<String> = words.iter().map(word).collect();
                match STORE.with_borrow_mut(|store| store.call(&words)) {
                    Ok(answer) => to_lua(lua, &answer),
                    Err(why) if strict => Err(mlua::Error::runtime(why)),
                    Err(why) => {
                        let table = lua.create_table()?;
                        table.set("err", why)?;
                        Ok(Value::Table(table))
                    }
                }
            })
            .expect("a function")
        };
        let redis = lua.create_table().expect("a table");
        redis.set("call", call(true)).expect("set");
        redis.set("pcall", call(false)).expect("set");
        lua.globals().set("redis", redis).expect("set");
        Interpreter { lua, scripts: RefCell::default() }
    }

    fn run(&self, script: &Script, keys: &[&str], args: &[&str]) -> mlua::Result<Value> {
        let known = self.scripts.borrow().get(&script.number).cloned();
        let function = match known {
            Some(function) => function,
            None => {
                let function = self.lua.load(&script.text).into_function()?;
                let mut scripts = self.scripts.borrow_mut();
                scripts.insert(script.number, function.clone());
                function
            }
        };
        let globals = self.lua.globals();
        globals.set("KEYS", keys)?;
        globals.set("ARGV", args)?;
        function.call(())
    }
}

/// Runs a script.
pub(crate) fn run(store: &mut Store, script: &Script, keys: &[&str], args: &[&str]) -> Answer {
    RUNS.with(|runs| runs.run(store, script, keys, args))
}

fn run_anew(store: &mut Store, script: &Script, keys: &[&str], args: &[&str]) -> Answer {
    STORE.replace(std::mem::take(store));
    let answer = LUA.with(|lua| lua.run(script, keys, args).map(|value| from_lua(&value)));
    *store = STORE.take();
    answer.unwrap_or_else(|error| panic!("{keys:?} {args:?}: {error}"))
}

/// Numbers as Lua writes them, which is what a server gets.
fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string_lossy(),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 1e14 => {
            format!("{number:.0}")
        }
        // What "%.14g" would make of it has lost digits.
        other => panic!("{other:?} is passed to a command"),
    }
}

fn to_lua(lua: &Lua, answer: &Answer) -> mlua::Result<Value> {
    Ok(match answer {
        Answer::Nil => Value::Boolean(false),
        Answer::Ok => {
            let table = lua.create_table()?;
            table.set("ok", "OK")?;
            Value::Table(table)
        }
        Answer::Int(number) => Value::Number(*number as f64),
        Answer::Text(text) => Value::String(lua.create_string(text)?),
        Answer::Many(answers) => {
            let table = lua.create_table()?;
            for (at, answer) in answers.iter().enumerate() {
                table.set(at + 1, to_lua(lua, answer)?)?;
            }
            Value::Table(table)
        }
    })
}

/// As a server does it: numbers lose their fraction, a table ends at its first hole, false is nothing.
fn from_lua(value: &Value) -> Answer {
    match value {
        Value::Integer(number) => Answer::Int(*number),
        Value::Number(number) => Answer::Int(*number as i64),
        Value::String(text) => Answer::Text(text.to_string_lossy()),
        Value::Boolean(true) => Answer::Int(1),
        Value::Table(table) => many(table),
        _ => Answer::Nil,
    }
}

fn many(table: &Table) -> Answer {
    let answers = table.sequence_values::<Value>();
    Answer::Many(answers.map_while(Result::ok).map(|value| from_lua(&value)).collect())
}

//! Reads conditions, one by one or as the lines of a budget file, and says what is wrong with them and where.
//!
//! Written by hand: the grammar is short, and a parser library's messages would have no remedy.

use std::path::PathBuf;

use itertools::Itertools;

use super::Measured;
use super::figures::{self, NS_PER_US, OF_VERDICT, Value, examples};
use crate::record::figure::{LATENCIES, QUANTILES, Unit};
use crate::record::run::{BenchRow, ScenarioResult};
use crate::record::verdict::CLASSES;
use crate::store::limits;
use crate::wording::pattern::matches;
use crate::wording::spelling::nearest;

/// One condition, understood.
#[derive(Debug)]
pub struct Condition {
    /// As it was written.
    pub text: String,
    pub(super) value: Value,
    pub(super) compare: &'static Compare,
    pub(super) bound: Bound,
    pub(super) filters: Vec<Filter>,
}

#[derive(Debug)]
pub(super) struct Compare {
    pub(super) sign: &'static str,
    /// Whether it holds of a value and its bound.
    pub(super) holds: fn(&f64, &f64) -> bool,
}

static SIGNS: [Compare; 6] = [
    Compare { sign: "<", holds: f64::lt },
    Compare { sign: "<=", holds: f64::le },
    Compare { sign: ">", holds: f64::gt },
    Compare { sign: ">=", holds: f64::ge },
    Compare { sign: "==", holds: f64::eq },
    Compare { sign: "!=", holds: f64::ne },
];

#[derive(Debug)]
pub(super) enum Bound {
    /// In the value's own unit.
    Number(f64),
    /// This many times the value of the base run.
    OfBase(f64),
    State(&'static str),
}

/// A field that `where` can test: its name, and its value at a row and at a scenario.
pub(super) type Field =
    (&'static str, Option<fn(&BenchRow) -> String>, Option<fn(&ScenarioResult) -> String>);

#[rustfmt::skip]
static FIELDS: [Field; 9] = [
    ("subject", Some(|row| row.subject.clone()), Some(|result| result.subject.clone())),
    ("topology", Some(|row| row.topology.clone()), Some(|result| result.topology.clone())),
    ("workload", Some(|row| row.workload.clone()), None),
    ("tasks", Some(|row| row.tasks.to_string()), None),
    ("locks", Some(|row| row.locks.to_string()), None),
    ("durability", Some(|row| row.measures.load.durability.clone()), Some(|result| result.durability.clone())),
    ("scenario", None, Some(|result| result.name.clone())),
    ("kind", None, Some(|result| result.kind.clone())),
    ("seed", None, Some(|result| result.seed.to_string())),
];

#[derive(Debug)]
pub(super) struct Filter {
    field: &'static Field,
    equal: bool,
    pattern: String,
}

impl Filter {
    /// Whether a row or scenario passes the filter. One that lacks the field does not.
    pub(super) fn passes(&self, place: &Measured<'_>) -> bool {
        let (_, of_row, of_scenario) = self.field;
        let value = match place {
            Measured::Row(row) => of_row.map(|of| of(row)),
            Measured::Scenario(result) => of_scenario.map(|of| of(result)),
        };
        value.is_some_and(|value| matches(&self.pattern, &value) == self.equal)
    }
}

/// What is wrong with a condition, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct GrammarError {
    /// In characters, from 1.
    pub column: usize,
    /// What was found, what is allowed, and the nearest known word.
    pub message: String,
}

impl Condition {
    /// Whether the condition compares with a base run.
    pub fn asks_for_base(&self) -> bool {
        matches!(self.bound, Bound::OfBase(_))
    }

    pub(super) fn bound_words(&self) -> String {
        let bound = match &self.bound {
            Bound::Number(number) => self.value.number_words(*number),
            Bound::OfBase(factor) => format!("{factor} * base"),
            Bound::State(word) => (*word).to_owned(),
        };
        format!("{} {bound}", self.compare.sign)
    }
}

/// The conditions of a budget file, one per line, `#` for comments; or all errors with their lines from 1.
pub fn parse_budget(text: &str) -> Result<Vec<Condition>, Vec<(usize, GrammarError)>> {
    let lines = (1..).zip(text.trim_start_matches('\u{feff}').lines());
    let meant = lines.map(|(number, line)| (number, line.split('#').next().unwrap_or_default()));
    let parsed = meant
        .filter(|(_, meant)| !meant.trim().is_empty())
        .map(|(number, meant)| parse(meant).map_err(|error| (number, error)));
    let (conditions, errors): (Vec<_>, Vec<_>) = parsed.partition_result();
    if errors.is_empty() { Ok(conditions) } else { Err(errors) }
}

/// The conditions of budget files; what is wrong in any of them is said together, with its place.
pub fn read_budgets(paths: &[PathBuf]) -> Result<Vec<Condition>, String> {
    let (mut conditions, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        let text = limits::read_text(path)?;
        match parse_budget(&text) {
            Ok(of_file) => conditions.extend(of_file),
            Err(found) => errors.extend(found.into_iter().map(|(line, error)| {
                format!("{}:{line}:{}: {}", path.display(), error.column, error.message)
            })),
        }
    }
    if errors.is_empty() { Ok(conditions) } else { Err(errors.join("\n")) }
}

/// Conditions one by one; what is wrong with any of them is said together.
pub fn parse_all(texts: &[&String]) -> Result<Vec<Condition>, String> {
    let parsed = texts.iter().map(|text| parse(text).map_err(|error| format!("'{text}', {error}")));
    let (conditions, errors): (Vec<_>, Vec<_>) = parsed.partition_result();
    if errors.is_empty() { Ok(conditions) } else { Err(errors.join("\n")) }
}

/// Parses one condition.
pub fn parse(text: &str) -> Result<Condition, GrammarError> {
    let tokens = tokens(text)?;
    let mut reader = Reader { tokens: &tokens, at: 0, end: text.chars().count() + 1 };
    let value = value(&mut reader)?;
    let (compare, sign) = compare(&mut reader)?;
    let bound = bound(&mut reader, &value, sign)?;
    let filters = filters(&mut reader)?;
    if let Some(token) = reader.peek() {
        return Err(token.error(format!(
            "`{}` stands behind the end of the condition; only `where FIELD == PATTERN` may follow",
            token.text
        )));
    }
    Ok(Condition { text: text.trim().to_owned(), value, compare, bound, filters })
}

fn error(column: usize, message: impl Into<String>) -> GrammarError {
    GrammarError { column, message: message.into() }
}

struct Token<'a> {
    column: usize,
    text: &'a str,
}

impl Token<'_> {
    fn error(&self, message: String) -> GrammarError {
        error(self.column, message)
    }

    fn instead_of(&self, wanted: &str) -> GrammarError {
        self.error(format!("`{}` stands where {wanted} is to be", self.text))
    }

    /// The error for an unknown word; it names the nearest known one.
    fn unknown(&self, what: &str, known: impl IntoIterator<Item = &'static str>) -> GrammarError {
        let (text, known) = (self.text, Vec::from_iter(known));
        let nearest = nearest(text, known.iter().copied());
        let known = known.join(", ");
        self.error(format!("`{text}` is no {what}{nearest}; there are {known}"))
    }

    fn of<T>(
        &self,
        what: &str,
        table: &'static [T],
        name: fn(&'static T) -> &'static str,
    ) -> Result<&'static T, GrammarError> {
        let found = table.iter().find(|one| name(one) == self.text);
        found.ok_or_else(|| self.unknown(what, table.iter().map(name)))
    }

    fn no_number(&self, unit: Unit) -> GrammarError {
        self.error(format!("`{}` is not {}", self.text, examples(unit)))
    }
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a Token<'a>> {
        self.tokens.get(self.at)
    }

    fn next(&mut self, wanted: &str) -> Result<&'a Token<'a>, GrammarError> {
        let token = self.peek().ok_or_else(|| error(self.end, format!("{wanted} is missing at the end")))?;
        self.at += 1;
        Ok(token)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.peek().is_some_and(|token| token.text == text);
        self.at += usize::from(found);
        found
    }
}

/// Words, signs and brackets, with their places. A word may hold what names of subjects hold.
fn tokens(text: &str) -> Result<Vec<Token<'_>>, GrammarError> {
    let no_word = |c: char| !c.is_alphanumeric() && !"_.:-+/%".contains(c);
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(letter) = rest.chars().next() {
        let column = text[..text.len() - rest.len()].chars().count() + 1;
        let length = match letter {
            '<' | '>' | '=' | '!' => 1 + usize::from(rest[1..].starts_with('=')),
            '"' | '\'' => match rest[1..].find(letter) {
                Some(close) => close + 2,
                None => return Err(error(column, "this quotation has no end")),
            },
            '(' | ')' | '*' | ',' => 1,
            _ => rest.find(no_word).unwrap_or(rest.len()),
        };
        let text = match letter {
            '"' | '\'' => &rest[1..length - 1],
            _ => &rest[..length],
        };
        if length == 0 {
            return Err(error(column, format!("`{letter}` means nothing in a condition")));
        }
        tokens.push(Token { column, text });
        rest = rest[length..].trim_start();
    }
    if tokens.is_empty() {
        return Err(error(1, "an empty condition; write one such as p99(acquire) < 5ms"));
    }
    Ok(tokens)
}

fn value(reader: &mut Reader<'_>) -> Result<Value, GrammarError> {
    let name = reader.next("a figure")?;
    let word = name.text;
    let quantile = QUANTILES.iter().find(|(known, _)| *known == word);
    if !reader.take("(") {
        return Value::by_name(word).ok_or_else(|| match quantile {
            Some(_) => name.error(format!("`{word}` of what? write {word}(acquire)")),
            None => {
                let words = CLASSES.into_iter().chain(["safety", "outcome"]);
                name.unknown("figure", figures::names().into_iter().chain(words))
            }
        });
    }
    let of = reader.next("a name in the brackets")?;
    let closed = reader.next("`)`")?;
    if closed.text != ")" {
        return Err(closed.instead_of("`)`"));
    }
    if let Some(quantile) = quantile {
        return Ok(Value::Latency(*quantile, of.of("latency", LATENCIES, |latency| latency.name)?));
    }
    if let Some(what) = OF_VERDICT.iter().find(|(known, ..)| *known == word) {
        return Ok(Value::OfVerdict(what, of.of("verdict", &CLASSES, |class| class)?));
    }
    let of_verdict = OF_VERDICT.iter().map(|(name, ..)| *name);
    Err(name.unknown("function", QUANTILES.iter().map(|(name, _)| *name).chain(of_verdict)))
}

fn compare<'a>(reader: &mut Reader<'a>) -> Result<(&'static Compare, &'a Token<'a>), GrammarError> {
    let sign = reader.next("a comparison (<, <=, >, >=, ==, !=)")?;
    let found = SIGNS.iter().find(|known| known.sign == sign.text).map(|compare| (compare, sign));
    found.ok_or_else(|| {
        let remedy = if sign.text == "=" { "; did you mean `==`?" } else { "" };
        let signs = SIGNS.iter().map(|known| known.sign).join(", ");
        sign.error(format!("`{}` is no comparison{remedy}; there are {signs}", sign.text))
    })
}

fn bound(reader: &mut Reader<'_>, value: &Value, sign: &Token<'_>) -> Result<Bound, GrammarError> {
    let states = value.states();
    let token = reader.next("what to compare with")?;
    if !states.is_empty() {
        if !["==", "!="].contains(&sign.text) {
            let remedy = "write == or != instead of";
            return Err(sign.error(format!("a state has no order: {remedy} `{}`", sign.text)));
        }
        return Ok(Bound::State(token.of("state", states, |state| state)?));
    }
    let unit = value.unit();
    if token.text == "base" {
        if !reader.take("*") {
            return Ok(Bound::OfBase(1.0));
        }
        let factor = reader.next("a number")?;
        return number(factor.text).map(Bound::OfBase).ok_or_else(|| factor.no_number(Unit::Number));
    }
    if reader.take("*") {
        let base = reader.next("`base`")?;
        if base.text != "base" {
            return Err(base.instead_of("`base`"));
        }
        let factor = number(token.text).or_else(|| percent(token.text));
        return (factor.map(Bound::OfBase)).ok_or_else(|| token.no_number(Unit::Number));
    }
    // `5 ms` is as good as `5ms`.
    let mut words = token.text.to_owned();
    if number(&words).is_some()
        && let Some(next) = reader.peek()
        && !next.text.starts_with(begins_number)
        && with_unit(&format!("{words}{}", next.text), unit).is_some()
        && next.text != "where"
    {
        words.push_str(next.text);
        reader.at += 1;
    }
    with_unit(&words, unit).map(Bound::Number).ok_or_else(|| token.no_number(unit))
}

fn begins_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

fn number(text: &str) -> Option<f64> {
    let plain = text.replace('_', "");
    let value: f64 = plain.parse().ok().filter(|_| plain.starts_with(begins_number))?;
    value.is_finite().then_some(value)
}

fn percent(text: &str) -> Option<f64> {
    Some(number(text.strip_suffix('%')?)? / 100.0)
}

/// A number in the unit's own measure; `None` if its unit is missing or another.
fn with_unit(text: &str, unit: Unit) -> Option<f64> {
    match unit {
        Unit::Number => number(text),
        Unit::Share => percent(text).or_else(|| number(text)),
        Unit::Rate => match text.split_once('/') {
            None => number(text),
            Some((amount, per)) => {
                let seconds = match per {
                    "s" | "sec" => 1.0,
                    "m" | "min" => 60.0,
                    _ => return None,
                };
                Some(number(amount)? / seconds)
            }
        },
        // CPU time is measured in microseconds.
        Unit::Cpu => Some(with_unit(text, Unit::Time)? / NS_PER_US),
        Unit::Time => {
            let (amount, unit) = text.split_at(text.find(|c: char| c.is_alphabetic())?);
            let ns = match unit {
                "ns" => 1.0,
                "us" | "µs" | "μs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" | "min" => 60e9,
                _ => return None,
            };
            Some(number(amount)? * ns)
        }
    }
}

fn filters(reader: &mut Reader<'_>) -> Result<Vec<Filter>, GrammarError> {
    let mut filters = Vec::new();
    if !reader.take("where") {
        return Ok(filters);
    }
    loop {
        let field = reader.next("a field")?.of("field", &FIELDS, |field| field.0)?;
        let sign = reader.next("`==`")?;
        let equal = match sign.text {
            "=" | "==" => true,
            "!=" => false,
            _ => return Err(sign.instead_of("`==` or `!=`")),
        };
        filters.push(Filter { field, equal, pattern: pattern(reader)? });
        if !reader.take(",") && !reader.take("and") {
            return Ok(filters);
        }
    }
}

/// Words and stars that stand close together.
fn pattern(reader: &mut Reader<'_>) -> Result<String, GrammarError> {
    let first = reader.next("a pattern")?;
    let mut pattern = first.text.to_owned();
    let mut end = first.column + first.text.chars().count();
    while let Some(next) = reader.peek() {
        if next.column != end || next.text == "," {
            break;
        }
        pattern.push_str(next.text);
        end += next.text.chars().count();
        reader.at += 1;
    }
    Ok(pattern)
}

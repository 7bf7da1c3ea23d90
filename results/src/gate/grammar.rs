//! Reads conditions, one by one or as the lines of a budget file, and says what is wrong with them and where.
//!
//! Written by hand rather than with a parser library: the reading itself is short, and every rule carries its own message with a remedy, which
//! a library's generic error (a position and what it expected) would not replace.

use super::Place;
use super::figures::{self, NS_PER_US, OF_VERDICT, Value, examples};
use crate::figure::{LATENCIES, QUANTILES, Unit};
use crate::nearest::nearest;
use crate::run::{BenchRow, ScenarioResult};
use crate::verdict::CLASSES;

/// One condition, understood.
#[derive(Debug)]
pub struct Condition {
    /// As it was written.
    pub text: String,
    pub(super) value: Value,
    pub(super) compare: Compare,
    pub(super) bound: Bound,
    pub(super) filters: Vec<Filter>,
}

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
}

/// All of them with their signs.
const SIGNS: [(&str, Compare); 6] = [
    ("<", Compare::Less),
    ("<=", Compare::AtMost),
    (">", Compare::More),
    (">=", Compare::AtLeast),
    ("==", Compare::Equal),
    ("!=", Compare::Unequal),
];

impl Compare {
    fn words(self) -> &'static str {
        let sign = SIGNS.iter().find(|(_, compare)| *compare == self);
        sign.map_or("", |(sign, _)| sign)
    }

    pub(super) fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Less => value < bound,
            Self::AtMost => value <= bound,
            Self::More => value > bound,
            Self::AtLeast => value >= bound,
            Self::Equal => value == bound,
            Self::Unequal => value != bound,
        }
    }
}

/// What it is compared with.
#[derive(Debug)]
pub(super) enum Bound {
    /// In the value's own unit.
    Number(f64),
    /// This many times what the base has.
    OfBase(f64),
    /// A state's word.
    State(String),
}

/// What a `where` can ask for: its name, and its value at a row and at a scenario.
#[derive(Debug)]
pub(super) struct Field {
    name: &'static str,
    of_row: Option<fn(&BenchRow) -> String>,
    of_scenario: Option<fn(&ScenarioResult) -> String>,
}

const fn field(
    name: &'static str,
    of_row: Option<fn(&BenchRow) -> String>,
    of_scenario: Option<fn(&ScenarioResult) -> String>,
) -> Field {
    Field {
        name,
        of_row,
        of_scenario,
    }
}

#[rustfmt::skip]
static FIELDS: [Field; 9] = [
    field("subject", Some(|row| row.subject.clone()), Some(|result| result.subject.clone())),
    field("topology", Some(|row| row.topology.clone()), Some(|result| result.topology.clone())),
    field("workload", Some(|row| row.workload.clone()), None),
    field("tasks", Some(|row| row.tasks.to_string()), None),
    field("locks", Some(|row| row.locks.to_string()), None),
    field("durability", Some(|row| row.measures.load.durability.clone()), Some(|result| result.durability.clone())),
    field("scenario", None, Some(|result| result.name.clone())),
    field("kind", None, Some(|result| result.kind.clone())),
    field("seed", None, Some(|result| result.seed.to_string())),
];

impl Field {
    /// Its value at a place; `None` where the place has none.
    pub(super) fn at(&self, place: &Place<'_>) -> Option<String> {
        match place {
            Place::Row(row) => Some(self.of_row?(row)),
            Place::Scenario(result) => Some(self.of_scenario?(result)),
        }
    }
}

/// One part of a `where`.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) field: &'static Field,
    pub(super) equal: bool,
    pub(super) pattern: String,
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
    /// Whether it needs a base.
    pub fn asks_for_base(&self) -> bool {
        matches!(self.bound, Bound::OfBase(_))
    }

    pub(super) fn bound_words(&self) -> String {
        let bound = match &self.bound {
            Bound::Number(number) => self.value.number_words(*number),
            Bound::OfBase(factor) => format!("{factor} * base"),
            Bound::State(word) => word.clone(),
        };
        format!("{} {bound}", self.compare.words())
    }
}

/// The conditions of a budget file: one per line; empty lines, and what follows a `#`, mean nothing. All errors are given, each with
/// its line from 1.
pub fn parse_budget(text: &str) -> Result<Vec<Condition>, Vec<(usize, GrammarError)>> {
    let mut conditions = Vec::new();
    let mut errors = Vec::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let meant = line.split_once('#').map_or(line, |(meant, _)| meant);
        if meant.trim().is_empty() {
            continue;
        }
        match parse(meant) {
            Ok(condition) => conditions.push(condition),
            Err(error) => errors.push((index + 1, error)),
        }
    }
    if errors.is_empty() {
        Ok(conditions)
    } else {
        Err(errors)
    }
}

/// One condition.
pub fn parse(text: &str) -> Result<Condition, GrammarError> {
    let tokens = tokens(text)?;
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
        end: text.chars().count() + 1,
    };
    let value = value(&mut reader)?;
    let (compare, sign) = compare(&mut reader)?;
    let bound = bound(&mut reader, &value, compare, sign)?;
    let filters = filters(&mut reader)?;
    if let Some(token) = reader.peek() {
        return Err(token.error(format!(
            "`{}` stands behind the end of the condition; only `where FIELD == PATTERN` may follow",
            token.text
        )));
    }
    Ok(Condition {
        text: text.trim().to_owned(),
        value,
        compare,
        bound,
        filters,
    })
}

fn error(column: usize, message: impl Into<String>) -> GrammarError {
    GrammarError {
        column,
        message: message.into(),
    }
}

#[derive(Debug)]
struct Token {
    column: usize,
    text: String,
}

impl Token {
    fn error(&self, message: String) -> GrammarError {
        error(self.column, message)
    }

    /// It stands where something else is to be.
    fn instead_of(&self, wanted: &str) -> GrammarError {
        self.error(format!("`{}` stands where {wanted} is to be", self.text))
    }

    /// It is none of the known words, of which the nearest is named.
    fn unknown(&self, what: &str, known: impl IntoIterator<Item = &'static str>) -> GrammarError {
        let known: Vec<&str> = known.into_iter().collect();
        self.error(format!(
            "`{}` is no {what}{}; there are {}",
            self.text,
            nearest(&self.text, known.iter().copied()),
            known.join(", ")
        ))
    }

    fn no_number(&self, unit: Unit) -> GrammarError {
        self.error(format!("`{}` is not {}", self.text, examples(unit)))
    }
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self, wanted: &str) -> Result<&'a Token, GrammarError> {
        let token = self
            .peek()
            .ok_or_else(|| error(self.end, format!("{wanted} is missing at the end")))?;
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
fn tokens(text: &str) -> Result<Vec<Token>, GrammarError> {
    let letters: Vec<char> = text.chars().collect();
    let mut tokens: Vec<Token> = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let start = at;
        let letter = letters[at];
        let of_word = |c: char| c.is_alphanumeric() || "_.:-+/%".contains(c);
        if letter.is_whitespace() {
            at += 1;
            continue;
        }
        if "<>=!".contains(letter) {
            at += 1 + usize::from(letters.get(at + 1) == Some(&'='));
        } else if letter == '"' || letter == '\'' {
            let close = letters[at + 1..].iter().position(|c| *c == letter);
            let Some(close) = close else {
                return Err(error(start + 1, "this quotation has no end"));
            };
            at += close + 2;
            tokens.push(Token {
                column: start + 1,
                text: letters[start + 1..at - 1].iter().collect(),
            });
            continue;
        } else if "()*,".contains(letter) {
            at += 1;
        } else if of_word(letter) {
            while at < letters.len() && of_word(letters[at]) {
                at += 1;
            }
        } else {
            return Err(error(
                start + 1,
                format!("`{letter}` means nothing in a condition"),
            ));
        }
        tokens.push(Token {
            column: start + 1,
            text: letters[start..at].iter().collect(),
        });
    }
    if tokens.is_empty() {
        return Err(error(
            1,
            "an empty condition; write one such as p99(acquire) < 5ms",
        ));
    }
    Ok(tokens)
}

fn value(reader: &mut Reader<'_>) -> Result<Value, GrammarError> {
    let name = reader.next("a figure")?;
    let word = name.text.as_str();
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
    if let Some((_, quantile)) = quantile {
        return LATENCIES
            .iter()
            .find(|latency| latency.name == of.text)
            .map(|latency| Value::Latency(*quantile, latency))
            .ok_or_else(|| of.unknown("latency", LATENCIES.iter().map(|latency| latency.name)));
    }
    if let Some((_, what)) = OF_VERDICT.iter().find(|(known, _)| *known == word) {
        return CLASSES
            .iter()
            .find(|class| **class == of.text)
            .map(|class| Value::OfVerdict(*what, class))
            .ok_or_else(|| of.unknown("verdict", CLASSES));
    }
    let of_verdict = OF_VERDICT.iter().map(|(name, _)| *name);
    let functions = QUANTILES.iter().map(|(name, _)| *name).chain(of_verdict);
    Err(name.unknown("function", functions))
}

fn compare<'a>(reader: &mut Reader<'a>) -> Result<(Compare, &'a Token), GrammarError> {
    let sign = reader.next("a comparison (<, <=, >, >=, ==, !=)")?;
    let known = SIGNS.iter().find(|(known, _)| *known == sign.text);
    known.map(|(_, compare)| (*compare, sign)).ok_or_else(|| {
        let remedy = if sign.text == "=" {
            "; did you mean `==`?"
        } else {
            ""
        };
        sign.error(format!(
            "`{}` is no comparison{remedy}; there are <, <=, >, >=, ==, !=",
            sign.text
        ))
    })
}

fn bound(
    reader: &mut Reader<'_>,
    value: &Value,
    compare: Compare,
    sign: &Token,
) -> Result<Bound, GrammarError> {
    let states = value.states();
    let token = reader.next("what to compare with")?;
    if !states.is_empty() {
        if !matches!(compare, Compare::Equal | Compare::Unequal) {
            return Err(sign.error(format!(
                "a state has no order: write == or != instead of `{}`",
                sign.text
            )));
        }
        if !states.contains(&token.text.as_str()) {
            return Err(token.unknown("state", states.iter().copied()));
        }
        return Ok(Bound::State(token.text.clone()));
    }
    let unit = value.unit();
    if token.text == "base" {
        let factor = if reader.take("*") {
            let factor = reader.next("a number")?;
            number(&factor.text).ok_or_else(|| factor.no_number(Unit::Number))?
        } else {
            1.0
        };
        return Ok(Bound::OfBase(factor));
    }
    if reader.take("*") {
        let base = reader.next("`base`")?;
        if base.text != "base" {
            return Err(base.instead_of("`base`"));
        }
        let factor = number(&token.text).or_else(|| percent(&token.text));
        return factor
            .map(Bound::OfBase)
            .ok_or_else(|| token.no_number(Unit::Number));
    }
    // `5 ms` is as good as `5ms`.
    let mut words = token.text.clone();
    if number(&words).is_some()
        && let Some(next) = reader.peek()
        && !next
            .text
            .starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && with_unit(&format!("{words}{}", next.text), unit).is_some()
        && next.text != "where"
    {
        words.push_str(&next.text);
        reader.at += 1;
    }
    with_unit(&words, unit)
        .map(Bound::Number)
        .ok_or_else(|| token.no_number(unit))
}

fn number(text: &str) -> Option<f64> {
    let plain = text.replace('_', "");
    let starts = plain.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let value: f64 = plain.parse().ok().filter(|_| starts)?;
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
        // In its own microseconds.
        Unit::Cpu => Some(with_unit(text, Unit::Time)? / NS_PER_US),
        Unit::Time => {
            let split = text.find(|c: char| c.is_alphabetic())?;
            let (amount, unit) = text.split_at(split);
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
        let name = reader.next("a field")?;
        let field = FIELDS
            .iter()
            .find(|field| field.name == name.text)
            .ok_or_else(|| name.unknown("field", FIELDS.iter().map(|field| field.name)))?;
        let sign = reader.next("`==`")?;
        let equal = match sign.text.as_str() {
            "=" | "==" => true,
            "!=" => false,
            _ => return Err(sign.instead_of("`==` or `!=`")),
        };
        filters.push(Filter {
            field,
            equal,
            pattern: pattern(reader)?,
        });
        if !reader.take(",") && !reader.take("and") {
            return Ok(filters);
        }
    }
}

/// Words and stars that stand close together.
fn pattern(reader: &mut Reader<'_>) -> Result<String, GrammarError> {
    let first = reader.next("a pattern")?;
    let mut pattern = first.text.clone();
    let mut end = first.column + first.text.chars().count();
    while let Some(next) = reader.peek() {
        if next.column != end || next.text == "," {
            break;
        }
        pattern.push_str(&next.text);
        end += next.text.chars().count();
        reader.at += 1;
    }
    Ok(pattern)
}

//! Reads what was kept of traffic: MONITOR text, what `redis-cli --replica` prints, and append-only files
//! with timestamps.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use cluster_config::{MonitorLine, quoted_words};

use results::limits;
use results::watch::WatchedTimes;

use crate::watch::lock::lock_state::WatchOptions;
use crate::watch::watcher::{WatchedTraffic, Watcher};

/// Lines that may be torn before the file is taken for something else, and one in so many.
const TORN_MAX: u64 = 10;
const TORN_SHARE: u64 = 100;

/// Why a file cannot be watched: its place, what is wrong there, and what helps.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(String);

/// How the text of a source is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceForm {
    Monitor,
    ReplicaStream,
    AppendOnlyFile,
}

struct SourceFile<'a> {
    path: String,
    reader: BufReader<Box<dyn io::Read + 'a>>,
    line: u64,
    /// Lines that were passed over, since they are beyond every bound.
    too_long: u64,
    /// Commands before the first time of the file, which were passed over.
    too_early: u64,
    has_clock: bool,
}

impl<'a> SourceFile<'a> {
    fn new(path: &str, input: Box<dyn io::Read + 'a>) -> Self {
        let reader = BufReader::with_capacity(1 << 20, input);
        Self { path: path.to_owned(), reader, line: 0, too_long: 0, too_early: 0, has_clock: false }
    }

    fn io(&self, error: io::Error) -> SourceError {
        SourceError(format!("cannot read {}: {error}", self.path))
    }

    fn noise(&self, why: &str) -> SourceError {
        SourceError(format!("{}:{}: {why}", self.path, self.line.max(1)))
    }

    /// The next line with its end, without those that are too long; `false` at the end of the file.
    fn next(&mut self, line: &mut Vec<u8>) -> Result<bool, SourceError> {
        loop {
            line.clear();
            self.line += 1;
            match limits::read_line(&mut self.reader, line) {
                Ok(count) => return Ok(count > 0),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.too_long += 1;
                    if !line.ends_with(b"\n") {
                        self.reader.skip_until(b'\n').map_err(|error| self.io(error))?;
                    }
                }
                Err(error) => return Err(self.io(error)),
            }
        }
    }

    /// What was not read, and what a file of this form does not tell.
    fn warnings(&self) -> Vec<String> {
        let (early, long, most) = (self.too_early, self.too_long, limits::LINE >> 20);
        let warnings = [
            (!self.has_clock, "the file has no times, so leases and lengths of holds are unknown: lines are counted in their place, and `aof-timestamp-enabled yes` writes times to an append-only file".to_owned()),
            (early > 0, format!("{early} commands before the first #TS have no time and were passed over")),
            (long > 0, format!("{long} lines of more than {most} MB were passed over")),
        ];
        warnings.into_iter().filter(|(applies, _)| *applies).map(|(_, words)| words).collect()
    }
}

/// Takes away what comes of times in a file without any: its lines were counted in their place, and ends are
/// times of the day.
fn forget_times(traffic: &mut WatchedTraffic) {
    let report = &mut traffic.report;
    traffic.history.clear();
    (report.seconds, report.over_time, report.held) = (0.0, None, None);
    for lock in &mut report.locks {
        (lock.lease_ms, lock.lease_used_p99, lock.polls_per_s) = (None, None, 0.0);
        (lock.hold_ms, lock.wait_ms) = (WatchedTimes::default(), WatchedTimes::default());
    }
    let by_length = ["held-long", "lease-nearly-used", "outlived-its-lease", "hot-polling"];
    report.findings.retain(|finding| !by_length.contains(&finding.kind.as_str()));
    for finding in &mut report.findings {
        (finding.worst_ms, finding.picture) = (None, None);
    }
}

/// Reads a file, or standard input for `-`, and watches what it holds. [`WatchOptions::effects_only`] says
/// that MONITOR was run on a replica; other files hold effects in any case.
///
/// # Errors
/// It cannot be read, or holds something else.
pub fn read_file(path: &str, options: WatchOptions) -> Result<WatchedTraffic, SourceError> {
    let opened: io::Result<Box<dyn io::Read>> = match path {
        "-" => Ok(Box::new(io::stdin().lock())),
        path => limits::open(Path::new(path)).map(|file| Box::new(file) as Box<dyn io::Read>),
    };
    let opened = opened.map_err(|error| SourceError(format!("cannot read {path}: {error}")));
    let mut file = SourceFile::new(path, opened?);
    let mut traffic = watch(&mut file, options)?.finish();
    if !file.has_clock {
        forget_times(&mut traffic);
    }
    traffic.report.servers = vec![path.to_owned()];
    traffic.report.source = "file".to_owned();
    traffic.warnings = file.warnings();
    Ok(traffic)
}

fn watch(file: &mut SourceFile<'_>, options: WatchOptions) -> Result<Watcher, SourceError> {
    let form = form_of(file)?;
    file.has_clock = form == SourceForm::Monitor;
    let options = WatchOptions {
        effects_only: options.effects_only || form != SourceForm::Monitor,
        // Timestamps of an append-only file are whole seconds.
        time_doubt_us: if form == SourceForm::AppendOnlyFile { 1_000_000 } else { 0 },
        has_no_times: !file.has_clock,
        ..options
    };
    match form {
        SourceForm::AppendOnlyFile => append_only_file(file, options),
        form => lines(file, form, options),
    }
}

/// By its beginning.
fn form_of(file: &mut SourceFile<'_>) -> Result<SourceForm, SourceError> {
    let begin = file.reader.fill_buf().map(|begin| begin[..begin.len().min(4096)].to_vec());
    let begin = begin.map_err(|error| file.io(error))?;
    if begin.is_empty() {
        return Err(file.noise("the file is empty: give it the output of `redis-cli monitor`"));
    }
    if begin.starts_with(b"REDIS") {
        return Err(file.noise(
            "this is a snapshot (RDB), which has no commands; give the part `*.incr.aof` of an append-only file, or the output of `redis-cli monitor`",
        ));
    }
    let first = begin.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    let begins =
        |words: &[&str]| words.iter().any(|word| first.unwrap_or_default().starts_with(word.as_bytes()));
    Ok(match () {
        () if begins(&["#TS:", "*"]) => SourceForm::AppendOnlyFile,
        () if begins(&["\"", "sending ", "SYNC "]) => SourceForm::ReplicaStream,
        () => SourceForm::Monitor,
    })
}

/// One command a line; single lines may be torn, as the last, or those of programs that print beside.
fn lines(file: &mut SourceFile<'_>, form: SourceForm, options: WatchOptions) -> Result<Watcher, SourceError> {
    let mut watcher = Watcher::new(options);
    let (mut line, mut read, mut torn, mut first_torn) = (Vec::new(), 0_u64, 0_u64, None);
    let mut database = 0;
    while file.next(&mut line)? {
        let text = line.trim_ascii_end();
        if text.is_empty() || text == b"OK" || text == b"+OK" {
            continue;
        }
        let command = match form {
            SourceForm::Monitor => MonitorLine::parse(text),
            // Without times: the order alone.
            _ => quoted_words(text, b',').map(|words| anonymous_line(file.line, database, words)),
        };
        match command {
            Some(command) => {
                read += 1;
                if form != SourceForm::Monitor {
                    database = selected(&command.words).unwrap_or(database);
                }
                watcher.line(0, &command);
            }
            None if form == SourceForm::ReplicaStream && !text.starts_with(b"\"") => {}
            None => {
                torn += 1;
                first_torn.get_or_insert(file.line);
            }
        }
        if torn > TORN_MAX + read / TORN_SHARE {
            break;
        }
    }
    if torn > TORN_MAX + read / TORN_SHARE || read == 0 {
        file.line = first_torn.unwrap_or(1);
        let shown = "a line such as 1700000000.000001 [0 127.0.0.1:5000] \"SET\" \"k\" \"v\"";
        let expected =
            "this is no output of `redis-cli monitor` or `redis-cli --replica` and no append-only file";
        return Err(file.noise(&format!("{expected}; {shown} is expected")));
    }
    Ok(watcher)
}

/// Commands in the protocol's own form, and `#TS:` before each second.
fn append_only_file(file: &mut SourceFile<'_>, options: WatchOptions) -> Result<Watcher, SourceError> {
    let (mut watcher, mut line) = (Watcher::new(options), Vec::new());
    let (mut time_us, mut database) = (1, 0);
    while file.next(&mut line)? {
        let text = line.trim_ascii_end();
        if let Some(seconds) = text.strip_prefix(b"#TS:") {
            let time = number(seconds).map(|seconds| seconds.saturating_mul(1_000_000));
            let time = time.filter(|time_us| *time_us <= MonitorLine::LAST_TIME_US);
            time_us = time.ok_or_else(|| file.noise("no time behind #TS:"))?;
            if !std::mem::replace(&mut file.has_clock, true) {
                file.too_early = watcher.commands();
                watcher = Watcher::new(WatchOptions { has_no_times: false, ..options });
            }
            continue;
        }
        if text.starts_with(b"#") || text.is_empty() {
            continue;
        }
        let count = text.strip_prefix(b"*").and_then(number);
        let count = count.filter(|count| (1..=1_048_576).contains(count));
        let count = count.ok_or_else(|| file.noise("a command was expected, as *3"))?;
        if !file.has_clock {
            // The order alone.
            time_us = file.line;
        }
        let mut words: Vec<Cow<'_, [u8]>> = Vec::with_capacity(count.min(16) as usize);
        for _ in 0..count {
            match word(file)? {
                // Of a command with a thousand members nothing is a lock.
                Some(word) if words.len() < 1_000 => words.push(Cow::Owned(word)),
                Some(_) => {}
                // The server was ended while it wrote.
                None => return Ok(watcher),
            }
        }
        database = selected(&words).unwrap_or(database);
        watcher.line(0, &anonymous_line(time_us, database, words));
    }
    Ok(watcher)
}

/// A word with its length before it, cut where it is long; `None`: the file ends here.
fn word(file: &mut SourceFile<'_>) -> Result<Option<Vec<u8>>, SourceError> {
    const KEPT: u64 = 2 << 10;
    let mut line = Vec::new();
    if !file.next(&mut line)? {
        return Ok(None);
    }
    let length = line.trim_ascii_end().strip_prefix(b"$").and_then(number);
    let length = length.filter(|length| *length <= 512 << 20);
    let length = length.ok_or_else(|| file.noise("the length of a word was expected, as $3"))?;
    let mut word = Vec::new();
    let kept = (&mut file.reader).take(length.min(KEPT)).read_to_end(&mut word);
    kept.map_err(|error| file.io(error))?;
    let rest = length - length.min(KEPT) + 2;
    let passed =
        io::copy(&mut (&mut file.reader).take(rest), &mut io::sink()).map_err(|error| file.io(error))?;
    file.line += word.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    Ok((passed == rest).then_some(word))
}

/// A command of which nobody says who sent it.
fn anonymous_line(time_us: u64, database: u32, words: Vec<Cow<'_, [u8]>>) -> MonitorLine<'_> {
    MonitorLine { time_us, database, client: b"", words }
}

/// The database that a command selects.
fn selected(words: &[Cow<'_, [u8]>]) -> Option<u32> {
    let is_select = words[0].eq_ignore_ascii_case(b"SELECT");
    u32::try_from(number(words.get(1).filter(|_| is_select)?)?).ok()
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The same of bytes in memory, for tests and fuzzing.
///
/// # Errors
/// They are something else.
pub fn read_bytes(bytes: &[u8], options: WatchOptions) -> Result<Watcher, SourceError> {
    watch(&mut SourceFile::new("input", Box::new(bytes)), options)
}

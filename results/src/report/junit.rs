//! JUnit's XML: a test case per scenario and benchmark row, so that a CI server shows what broke.

use std::collections::BTreeMap;
use std::time::Duration;

use itertools::Itertools;
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use super::cells::{self, printable};
use super::{ReportError, number_among};
use crate::answer::lost;
use crate::audit::{AuditOutcome, AuditedSubject};
use crate::record::figure::CYCLES;
use crate::record::run::{BOUNDS, BenchRow, RECOVERY, Run, ScenarioResult, with_origin};
use crate::record::verdict::State;

pub(super) fn render(run: &Run) -> Result<String, String> {
    let mut report = Report::new("locklab");
    report.set_time(Duration::from_nanos(run.meta.elapsed_ns));
    of_suite(report, suite(run))
}

/// A test case for each scenario and row of the run.
pub(super) fn suite(run: &Run) -> TestSuite {
    let mut suite = TestSuite::new(printable(&format!("locklab {}", run.command)));
    let version = format!("{} {}", run.meta.version, run.meta.commit);
    suite.add_property(Property::new("run", printable(&run.run)));
    suite.add_property(Property::new("seed", run.meta.seed.to_string()));
    suite.add_property(Property::new("version", printable(&version)));
    for (name, server) in &run.meta.environment.servers {
        suite.add_property(Property::new(printable(name), printable(&server.version)));
    }
    suite.add_property(Property::new("lost", lost(run).to_string()));
    if let Some(as_expected) = run.as_expected {
        suite.add_property(Property::new("as_expected", as_expected.to_string()));
    }
    suite.set_time(Duration::from_nanos(run.meta.elapsed_ns));
    // What the scenarios of an audit expect is of other locks.
    let audited = run.audit.iter().flat_map(|audit| &audit.subjects);
    suite.add_test_cases(audited.flat_map(|subject| scorecard(run, subject)));
    let results = match run.audit {
        Some(_) => &[][..],
        None => &run.scenarios,
    };
    for result in results {
        let mut case = case(result);
        let alike = run.scenarios.iter().filter(|other| place(other) == place(result));
        // A CI server follows a test by its name, so the seed is part of it only to tell two apart.
        if alike.count() > 1 {
            case.name = printable(&format!("{} (seed {})", result.name, result.seed)).into();
        }
        suite.add_test_case(case);
    }
    let mut known = BTreeMap::new();
    // The few rows of an audit say how fast its locks are about, and are not what it decides.
    for row in run.rows.iter().filter(|_| run.audit.is_none()) {
        let mut case = case_of_row(run, row);
        let number = number_among(&mut known, row.title());
        // One of an A/A pair, or of several levels of a sweep.
        if number > 1 {
            case.name = format!("{} ({number})", case.name.as_str()).into();
        }
        suite.add_test_case(case);
    }
    for skipped in &run.not_applicable {
        let place = format!("{}.{}", skipped.topology, skipped.subject);
        suite.add_test_case(test_case(&skipped.name, &place, untried(&skipped.why)));
    }
    // Without this a run that died before its first scenario would show as an empty, green suite.
    if run.partial {
        let status = problem(NonSuccessKind::Error, "the run was cut short", "partial");
        suite.add_test_case(TestCase::new("the whole run", status));
    }
    if !run.warnings.is_empty() {
        suite.set_system_err(printable_lines(&run.warnings));
    }
    suite
}

fn of_suite(mut report: Report, suite: TestSuite) -> Result<String, String> {
    report.add_test_suite(suite);
    report.to_string().map_err(|error| error.to_string())
}

/// A test case of another suite than a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Why it failed, if it did; the first line is the message.
    pub failure: Option<String>,
    /// Why it was not tried, if it was not.
    pub skipped: Option<String>,
}

/// A JUnit document of one suite of such cases.
pub fn document(
    suite: &str,
    class: &str,
    cases: impl IntoIterator<Item = Case>,
) -> Result<String, ReportError> {
    let mut listed = TestSuite::new(printable(&format!("locklab {suite}")));
    for case in cases {
        let status = match (case.failure, case.skipped) {
            (Some(why), _) => problem(NonSuccessKind::Failure, &why, "broken"),
            (None, Some(why)) => untried(&why),
            (None, None) => TestCaseStatus::success(),
        };
        listed.add_test_case(test_case(&case.name, &format!("{suite}.{class}"), status));
    }
    of_suite(Report::new("locklab"), listed).map_err(|message| ReportError {
        format: "junit",
        message,
        is_of_run: false,
    })
}

/// What does not conform of a lock, and its scenarios: broken is a failure, unknown an error, not applicable
/// skipped.
fn scorecard<'a>(run: &'a Run, subject: &'a AuditedSubject) -> impl Iterator<Item = TestCase> + 'a {
    let findings = subject.findings().map(|finding| {
        let status = match finding.is_promise {
            true => problem(NonSuccessKind::Failure, &finding.found, "broken"),
            false => problem(NonSuccessKind::Error, &finding.found, "unknown"),
        };
        let mut case = test_case(&finding.name, &format!("audit.conform.{}", subject.name), status);
        case.set_system_out(printable(&format!("{}; see {}", finding.remedy, finding.paragraph)));
        case
    });
    findings.chain(subject.scenarios.iter().map(move |scenario| {
        let why = printable(&scenario.why);
        let status = match scenario.outcome {
            AuditOutcome::Kept | AuditOutcome::Inherent => TestCaseStatus::success(),
            AuditOutcome::Broken if scenario.is_lost() => {
                problem(NonSuccessKind::Failure, &format!("LOST: {why}"), "lost")
            }
            AuditOutcome::Broken => problem(NonSuccessKind::Failure, &why, "broken"),
            AuditOutcome::Unknown => problem(NonSuccessKind::Error, &why, "unknown"),
            AuditOutcome::NotApplicable => untried(&why),
        };
        let place = format!("audit.{}.{}", scenario.topology, subject.name);
        let mut case = test_case(&scenario.name, &place, status);
        case.set_system_out(why);
        if let Some(result) = run.decisive(scenario) {
            point_at(&mut case, result);
        }
        case
    }))
}

fn place(of: &ScenarioResult) -> (&str, &str, &str) {
    (&of.name, &of.topology, &of.subject)
}

fn case(result: &ScenarioResult) -> TestCase {
    let failure = |r#type| problem(NonSuccessKind::Failure, &message(result), r#type);
    let status = match result.exit_code {
        0 => TestCaseStatus::success(),
        // Unknown never passes, and is not a conviction either.
        2 => problem(NonSuccessKind::Error, &message(result), "unknown"),
        _ if result.is_lost() => failure("lost"),
        _ => failure("not-as-expected"),
    };
    let mut case = test_case(&result.name, &format!("{}.{}", result.topology, result.subject), status);
    point_at(&mut case, result);
    case.set_time(Duration::from_nanos(result.load_ns));
    case.set_system_out(details(result));
    case
}

/// Says where a problem is: where the subject gave the grant, else where the scenario's file expects.
fn point_at(case: &mut TestCase, result: &ScenarioResult) {
    let declared = Some(&result.declared_at).filter(|place| !place.is_empty());
    let is_problem = matches!(case.status, TestCaseStatus::NonSuccess { .. });
    let place = result.granted_at().or(declared.cloned());
    let Some(place) = place.filter(|_| is_problem) else {
        return;
    };
    let line = place.split(':').skip(1).find(|part: &&str| part.parse::<u32>().is_ok());
    let file = line.and_then(|line| place.split_once(&format!(":{line}")));
    let places = [("file", Some(file.map_or(place.as_str(), |(file, _)| file))), ("line", line)];
    let places = places.into_iter().filter_map(|(name, value)| Some((name, value?)));
    case.extra.extend(places.map(|(name, value)| (name.into(), printable(value).into())));
}

/// A lock that was not safe is a failure, and a row that says nothing an error, as a scenario that is
/// unknown. It is skipped where the exit code does not depend on it: beside scenarios and valid rows.
fn case_of_row(run: &Run, row: &BenchRow) -> TestCase {
    let why = match row.why_invalid.as_slice() {
        [] => cells::why_invalid(row).unwrap_or_default(),
        why => printable_lines(why),
    };
    let status = match cells::why_invalid(row) {
        _ if row.is_void() => problem(NonSuccessKind::Failure, &why, "violated"),
        None => TestCaseStatus::success(),
        Some(why) if !run.scenarios.is_empty() || run.rows.iter().any(|row| row.valid) => untried(&why),
        Some(why) => problem(NonSuccessKind::Error, &printable(&why), "invalid"),
    };
    let name = with_origin(format!("{}, {} tasks", row.workload, row.tasks), &row.origin);
    let mut case = test_case(&name, &format!("{}.{}", row.site(), row.lock()), status);
    if !row.is_void() {
        let rate = CYCLES.words(row);
        case.set_system_out(format!("{rate} cycles/s{}", row.cycles_per_s.behind()));
    }
    case
}

fn test_case(name: &str, place: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(printable(name), status);
    case.set_classname(printable(&format!("locklab.{place}")));
    case
}

fn untried(why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(printable(why));
    status
}

fn problem(kind: NonSuccessKind, message: &str, r#type: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(message).set_type(r#type).set_description(message);
    status
}

/// What became of the lock, what was expected, what came, and the first proof.
fn message(result: &ScenarioResult) -> String {
    let mut lines = Vec::new();
    let at = result.granted_at();
    let at = at.map_or(String::new(), |at| format!(", granted at {at}"));
    lines.extend(result.is_lost().then(|| format!("the lock was LOST{at}")));
    lines.push(format!("expected {}", cells::expected(result)));
    let incomplete = result.incomplete.iter();
    lines.extend(incomplete.map(|why| format!("incomplete: {why}")));
    for (class, verdict) in result.verdicts.iter() {
        let met = match result.expected.get(class) {
            _ if result.is_lost() && class != "liveness" => verdict.state != State::Violated,
            Some(expected) => verdict.meets(expected, result.load_ns) == Some(true),
            // Where nothing is expected, only that nothing is known can be wrong.
            None => !result.expected.is_empty() || verdict.state != State::Unknown,
        };
        if !met {
            lines.push(format!("{class}: {}", cells::verdict(verdict)));
            let own = result.own_reasons(verdict);
            lines.extend(own.map(|why| format!("  {why}")));
        }
    }
    let missed = |what| {
        let expected = result.expected.get(what);
        expected.filter(|expected| result.meets(what, expected) != Some(true))
    };
    lines.extend(missed(RECOVERY).is_some().then(|| format!("recovery: {}", cells::recovery(result))));
    for (bound, expected) in BOUNDS.iter().filter_map(|(name, _)| Some((name, missed(name)?))) {
        let found = result.figures.get(*bound);
        let found = found.map_or("not measured".to_owned(), |found| format!("{found:.2}"));
        lines.push(format!("{bound}: {found}, expected {expected}"));
    }
    lines.extend(result.without_effect());
    printable_lines(&lines)
}

fn printable_lines(lines: &[String]) -> String {
    lines.iter().map(|line| printable(line)).join("\n")
}

/// All verdicts with every proof kept, whatever was expected.
fn details(result: &ScenarioResult) -> String {
    let mut lines = vec![cells::faults(&result.faults)];
    for (class, verdict) in result.verdicts.iter() {
        lines.push(format!("{class}: {}", cells::verdict(verdict)));
        if verdict.state != State::Clean {
            lines.extend(verdict.why.iter().map(|why| format!("  {why}")));
            let anomalies = verdict.anomalies.iter();
            lines.extend(anomalies.map(|one| format!("  {}: {}", one.what, one.proof)));
        }
    }
    printable_lines(&lines)
}

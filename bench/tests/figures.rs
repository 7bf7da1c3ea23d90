//! Figures out of series whose truth is known: medians, intervals, ratios and quantiles, the order of arms,
//! the shares of generators, the curve of a server and where it bends, and the table that `cargo bench` ends
//! with.

#[path = "support/series.rs"]
mod series;
#[path = "../benches/cycle/table.rs"]
mod table;

use std::time::Duration;

use bench::driver::{BenchOutcome, BenchPlan, PartsError, ROUNDS_FILE, merged_runs, order};
use bench::environment;
use bench::parts::GeneratorShare;
use bench::stats::{self, batch, censored, paired};
use bench::sweep::curve::{over_levels, over_rates};
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use results::decide::decide;
use results::measures::{KneeAt, Pacing};
use results::run::{BenchRow, Comparison, Ratio, Run};
use series::{autoregressive, normal, share};
use table::{Interval, Measured, table};

fn row(subject: &'static str, ratio: Option<[f64; 3]>) -> Measured {
    Measured {
        subject,
        topology: "single",
        tasks: 16,
        cycles_per_s: Interval { point: 1000.0, low: 990.0, high: 1010.0 },
        ratio: ratio.map(|[low, point, high]| Ratio { point, low: Some(low), high: Some(high) }),
    }
}

/// What is printed of a row with that ratio.
fn line(ratio: Option<[f64; 3]>) -> String {
    let text = table(&[row("lock-core:plain", ratio)]);
    text.lines().nth(1).expect("a row below the head").to_owned()
}

#[test]
fn a_ratio_is_shown_only_where_its_interval_lies_beside_one() {
    assert!(line(None).ends_with("1000  990–1010       1"));
    assert!(line(Some([0.887, 0.9, 0.914])).ends_with("0.900  0.887–0.914"));
    assert!(line(Some([1.085, 1.1, 1.115])).ends_with("1.100  1.085–1.115"));
    assert!(line(Some([0.996, 1.01, 1.024])).ends_with("1.010  0.996–1.024  not shown"));
}

#[test]
fn bounds_that_round_to_one_show_nothing() {
    assert!(line(Some([1.0003, 1.0004, 1.0005])).ends_with("not shown"));
    assert!(line(Some([0.98, 0.99, 0.9996])).ends_with("not shown"));
}

#[test]
fn too_few_values_have_no_interval() {
    assert_eq!(batch::means(&[vec![1.0; 19]]), None);
    assert!(batch::means(&[vec![1.0; 20]]).is_some());
    assert_eq!(batch::means(&[]), None);
}

#[test]
fn batches_grow_where_neighbours_resemble_each_other() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let alike: Vec<Vec<f64>> = (0..6).map(|_| autoregressive(&mut random, 0.8, 200)).collect();
    let apart: Vec<Vec<f64>> = (0..6).map(|_| autoregressive(&mut random, 0.0, 200)).collect();
    assert!(batch::means(&alike).unwrap().length >= 8);
    assert!(batch::means(&apart).unwrap().length <= 2);
}

#[test]
fn differences_between_rounds_do_not_count() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let mut rounds: Vec<Vec<f64>> = (0..4).map(|_| autoregressive(&mut random, 0.0, 40)).collect();
    let width = |rounds: &[Vec<f64>]| {
        let found = batch::means(rounds).unwrap().interval;
        found.high - found.low
    };
    let before = width(&rounds);
    rounds[3].iter_mut().for_each(|x| *x += 1_000.0);
    assert!((width(&rounds) - before).abs() < 1e-6);
}

/// The mean of the process is 0. Six rounds of 40 stretches, as the driver makes them, from independent
/// to very alike.
#[test]
fn intervals_of_a_mean_cover_the_truth_as_often_as_they_say() {
    for phi in [0.0, 0.3, 0.6] {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let covered = share(1_000, |_| {
            let rounds: Vec<Vec<f64>> = (0..6).map(|_| autoregressive(&mut random, phi, 40)).collect();
            let found = batch::means(&rounds).unwrap().interval;
            found.low <= 0.0 && 0.0 <= found.high
        });
        assert!((0.93..=0.97).contains(&covered), "autocorrelation {phi}: {covered}");
    }
}

fn waits(values: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).unwrap();
    values.iter().for_each(|v| histogram.record(*v).unwrap());
    histogram
}

#[test]
fn without_timeouts_it_is_the_plain_quantile() {
    let granted = waits(&(1..=1_000).collect::<Vec<_>>());
    let none = waits(&[]);
    assert_eq!(censored::quantile(&granted, &none, 0.5), Some(500));
    assert_eq!(censored::quantile(&granted, &none, 0.99), Some(990));
}

#[test]
fn the_example_of_the_textbooks() {
    // Granted at 6 (three times), 7, 10, 13, 16, 22, 23; given up at 6, 9, 10, 11, 17, 19, 20, 25, 32,
    // 32, 34, 35: the remission times of Freireich et al. 1963, whose estimate is 0.448 at 23, so that
    // the median is 23.
    let granted = waits(&[6, 6, 6, 7, 10, 13, 16, 22, 23]);
    let gave_up = waits(&[6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]);
    assert_eq!(censored::quantile(&granted, &gave_up, 0.5), Some(23));
    assert_eq!(censored::quantile(&granted, &gave_up, 0.3), Some(13));
    assert_eq!(censored::quantile(&granted, &gave_up, 0.9), None, "nobody waited so long");
}

#[test]
fn waits_that_gave_up_pull_the_quantile_to_the_truth() {
    // Exponential waits of mean 1,000 whose patience is uniform up to 2,000; the true median is 693.
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let (mut granted, mut gave_up) = (waits(&[]), waits(&[]));
    for _ in 0..20_000 {
        let wait = -1_000.0 * (1.0 - random.random_range(0.0..1.0_f64)).ln();
        let patience = random.random_range(0.0..2_000.0);
        let kept = if wait <= patience { &mut granted } else { &mut gave_up };
        kept.record(wait.min(patience) as u64).unwrap();
    }
    let median = censored::quantile(&granted, &gave_up, 0.5).unwrap();
    assert!((670..720).contains(&median), "{median}");
    assert!(granted.value_at_quantile(0.5) < 500, "leaving them out would be far off");
}

#[test]
fn five_pairs_give_a_point_and_no_interval() {
    let five = paired::ratio(&[1.0; 5], &[2.0; 5]).unwrap();
    assert!((five.point - 2.0).abs() < 1e-12);
    assert_eq!(five.low, None);
    assert_eq!(paired::test(&[1.0; 5], &[2.0; 5]), None);
}

#[test]
fn equal_pairs_are_surely_equal_and_doubled_ones_surely_doubled() {
    let a = [90.0, 100.0, 110.0, 95.0, 105.0, 100.0];
    let same = paired::ratio(&a, &a).unwrap();
    assert_eq!((same.low, same.high), (Some(1.0), Some(1.0)));
    let doubled = paired::ratio(&a, &a.map(|x| 2.0 * x)).unwrap();
    assert!((doubled.point - 2.0).abs() < 1e-9 && doubled.low.unwrap() > 1.99);
}

/// Rounds of one arm whose level is `log` above 100/s, with noise that both arms of a pair share and
/// noise of their own.
fn pair(random: &mut ChaCha8Rng, effect: f64) -> (f64, f64) {
    let shared = 0.3 * normal(random);
    let rate = |log: f64, random: &mut ChaCha8Rng| 100.0 * (shared + log + 0.1 * normal(random)).exp();
    (rate(0.0, random), rate(effect, random))
}

#[test]
fn intervals_of_a_ratio_cover_the_truth_as_often_as_they_say() {
    for n in [6, 10, 30] {
        let mut random = ChaCha8Rng::seed_from_u64(11);
        let covered = share(2_000, |_| {
            let (a, b): (Vec<f64>, Vec<f64>) = (0..n).map(|_| pair(&mut random, 0.05)).unzip();
            let found = paired::ratio(&a, &b).unwrap();
            found.low.unwrap() <= 0.05_f64.exp() && 0.05_f64.exp() <= found.high.unwrap()
        });
        assert!((0.93..=0.97).contains(&covered), "{n} pairs: {covered}");
    }
}

/// What `locklab bench` does with two subjects that are the same: twelve comparisons at a time, each with
/// an arm that is the base once more. Of 1,000 such comparisons at most 5 % may be called different; with
/// Holm's correction, of 1,000 *runs*.
#[test]
fn equal_arms_are_seldom_called_different() {
    let mut random = ChaCha8Rng::seed_from_u64(13);
    let differs = |comparisons: &[Comparison]| {
        comparisons.iter().any(|c| matches!(c.verdict.as_str(), "better" | "worse"))
    };
    let mut compare = |n: usize| {
        let (a, b): (Vec<f64>, Vec<f64>) = (0..n).map(|_| pair(&mut random, 0.0)).unzip();
        Comparison {
            metric: "cycles_per_s".into(),
            ratio: paired::ratio(&a, &b).unwrap(),
            p: paired::test(&a, &b).map(|test| test.p),
            ..Comparison::default()
        }
    };
    for together in [1, 12] {
        let wrong = share(1_000, |_| {
            let mut run: Vec<Comparison> = (0..together).map(|_| compare(6)).collect();
            decide(&mut run);
            differs(&run)
        });
        assert!(wrong <= 0.05 + 0.014, "{together} together: {wrong}");
    }
}

#[test]
fn the_detectable_difference_is_detected_four_times_of_five() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    // Spread 0.1, 10 pairs: the standard error is 0.0316, t is 2.262 + 0.883.
    let effect = 0.1 / 10_f64.sqrt() * (2.262 + 0.883);
    let shown = share(1_000, |_| {
        let (a, b): (Vec<f64>, Vec<f64>) =
            (0..10).map(|_| (100.0, 100.0 * (effect + 0.1 * normal(&mut random)).exp())).unzip();
        paired::test(&a, &b).unwrap().p < 0.05
    });
    assert!((0.74..=0.86).contains(&shown), "{shown}");
}

#[test]
fn median_is_the_middle() {
    assert_eq!(stats::median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(stats::median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    assert_eq!(stats::median(&[]), 0.0);
}

#[test]
fn one_round_has_no_interval() {
    let one = stats::estimate(&[5.0]);
    assert_eq!((one.median, one.low, one.high), (5.0, None, None));
}

#[test]
fn intervals_leave_out_what_the_binomial_allows() {
    // The range of five covers 93.75 %, that of six 96.9 %: from then on the ends lie between two values.
    let low = |n: u32| stats::estimate(&(0..n).map(f64::from).collect::<Vec<_>>()).low.unwrap();
    assert_eq!(low(5), 0.0);
    for (n, cut) in [(6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (20, 5)] {
        assert_eq!(low(n).floor(), f64::from(cut), "of {n} rounds");
    }
}

#[test]
fn intervals_of_the_median_cover_the_truth_as_often_as_they_say() {
    for n in [2, 3, 4, 5, 6, 7, 8, 9, 12, 20] {
        let mut random = ChaCha8Rng::seed_from_u64(n as u64);
        let covered = share(2_000, |_| {
            let rounds: Vec<f64> = (0..n).map(|_| normal(&mut random)).collect();
            let found = stats::estimate(&rounds);
            found.low.unwrap() <= 0.0 && 0.0 <= found.high.unwrap()
        });
        let said = stats::coverage(n).unwrap();
        assert!((covered - said).abs() <= 0.02, "{n} rounds: {covered}, not {said}");
    }
    assert_eq!(stats::coverage(1), None);
}

#[test]
fn quantiles_are_refused_where_too_few_samples_lie_beyond() {
    let mut histogram = Histogram::new(3).unwrap();
    for value in 1..=1_999 {
        histogram.record(value).unwrap();
    }
    let few = stats::quantiles(&histogram);
    assert_eq!(few.p50, Some(1_000));
    assert_eq!(few.p99, None, "19.99 samples beyond it are not 20");
    histogram.record(2_000).unwrap();
    assert!(stats::quantiles(&histogram).p99.is_some());
    for value in 2_001..=20_000 {
        histogram.record(value).unwrap();
    }
    assert!(stats::quantiles(&histogram).p999.is_some());
    let none = stats::quantiles(&Histogram::new(3).unwrap());
    assert_eq!((none.p50, none.max, none.n), (None, None, 0));
}

#[test]
fn jain_knows_equal_and_one_sided() {
    assert!((stats::jain(&[7, 7, 7]).unwrap() - 1.0).abs() < 1e-12);
    assert!((stats::jain(&[9, 0, 0]).unwrap() - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(stats::jain(&[0, 0]), None, "nobody was served");
}

#[test]
fn the_seed_decides_the_order() {
    assert_eq!(order(7, 4, 9), order(7, 4, 9));
    let others = (0..20).filter(|seed| order(*seed, 4, 9) != order(7, 4, 9));
    assert!(others.count() >= 18);
}

#[test]
fn every_second_round_is_the_reverse_of_the_one_before() {
    let orders = order(3, 5, 6);
    for pair in orders.chunks_exact(2) {
        let mut back = pair[1].clone();
        back.reverse();
        assert_eq!(pair[0], back);
        back.sort_unstable();
        assert_eq!(back, [0, 1, 2, 3, 4]);
    }
}

#[test]
fn either_of_two_arms_comes_first_sometimes() {
    let first = (0..40).filter(|seed| order(*seed, 2, 1)[0][0] == 0).count();
    assert!((5..=35).contains(&first), "{first} of 40");
}

#[test]
fn shares_are_disjoint_and_complete() {
    for (all, of) in [(16, 4), (7, 3), (3, 3), (5, 1), (2, 4)] {
        let shares = (0..of).map(|index| GeneratorShare { index, of });
        let mut numbers: Vec<u32> =
            shares.flat_map(|share| (0..share.count(all)).map(move |own| share.number(own))).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..all).collect::<Vec<_>>(), "{all} in {of}");
    }
}

#[test]
fn each_client_is_named_with_one_part() {
    let second = GeneratorShare { index: 1, of: 2 };
    assert_eq!(second.client_names(4), "clients c2, c4");
    assert_eq!(second.client_names(100), "clients c2, c4, c6, c8, … c100 (50 in all)");
}

/// What generators of one load measured, of which each wrote such a file.
fn merged(files: &[String]) -> Result<BenchOutcome, PartsError> {
    let parts: Vec<_> = files.iter().map(|_| tempfile::tempdir().unwrap()).collect();
    for (part, text) in parts.iter().zip(files) {
        std::fs::write(part.path().join(ROUNDS_FILE), text).unwrap();
    }
    let dirs: Vec<_> = parts.iter().map(|part| part.path().to_owned()).collect();
    merged_runs(&vec![Run::default(); files.len()], &dirs)
}

#[test]
fn a_line_that_was_being_written_is_no_round_and_other_plans_are_refused() {
    let head = |index, seed| {
        let mut plan = BenchPlan::new("redis://127.0.0.1:1");
        plan.subjects = vec!["lock-core:plain".to_owned()];
        (plan.share, plan.generators, plan.rounds) = (GeneratorShare { index, of: 3 }, 3, 1);
        plan.seed = seed;
        plan.head() + "\n"
    };
    let torn = head(0, 7) + r#"{"of":[0,0,0],"whole":{"round":{"cy"#;
    assert!(merged(std::slice::from_ref(&torn)).expect("a head").rows.is_empty());
    let whole_line = merged(&[torn + "\n"]);
    assert!(matches!(whole_line, Err(PartsError::Bad(..))), "{whole_line:?}");
    for other in [head(1, 8), head(0, 7)] {
        let refused = merged(&[head(0, 7), other]);
        assert!(matches!(refused, Err(PartsError::OtherPlan(..))), "{refused:?}");
    }
}

#[test]
fn this_machine_is_described() {
    let environment = environment::read_machine().finish();
    assert!(environment.cores > 0);
    assert!(environment.memory_bytes > 1 << 20);
    assert!(environment.kernel.starts_with("Linux"), "{}", environment.kernel);
    assert!(environment.rustc.contains("rustc"), "{}", environment.rustc);
    assert!((0.0..=1.0).contains(&environment.steal));
}

/// The row of a rate that was kept, or was not, or of which nothing is known.
fn offered(kept: Option<bool>) -> BenchRow {
    let mut row = BenchRow { valid: kept == Some(true), ..BenchRow::default() };
    let achieved_per_s = if kept == Some(false) { 98.0 } else { 100.0 };
    row.measures.pacing = Some(Pacing { offered_per_s: 100.0, achieved_per_s, ..Pacing::default() });
    row
}

/// Where the curve of a server bends, of which `came` says whether it kept a rate in a window, which is long
/// or not; and the rates that it was offered, from `first` on.
async fn knee(first: f64, mut came: impl FnMut(f64, bool) -> Option<bool>) -> (KneeAt, Vec<f64>) {
    let mut base = BenchPlan::new("redis://127.0.0.1:1");
    base.subjects = vec!["lock-core:plain".to_owned()];
    base.duration = Duration::from_millis(200);
    let (mut sweeps, mut asked) = (Vec::new(), Vec::new());
    let measure = async |plan: &BenchPlan| {
        let rate_per_s = plan.pace.expect("a rate").rate_per_s;
        // Long enough for the cycles that a row needs.
        let window = |least_ms, cycles: f64| {
            Duration::from_millis(least_ms).max(Duration::from_secs_f64(cycles / rate_per_s))
        };
        let is_long = plan.duration == window(2_000, 240.0);
        assert!(is_long || plan.duration == window(500, 120.0), "{rate_per_s}/s in {:?}", plan.duration);
        asked.push(rate_per_s);
        (vec![offered(came(rate_per_s, is_long))], None::<()>)
    };
    assert_eq!(over_rates(&base, (first, 1), &mut sweeps, measure).await, None);
    (sweeps.remove(0).knee.expect("it was looked for"), asked)
}

/// That of a server that keeps up to `capacity`; in a short window it also keeps `margin` times as much.
async fn knee_of(capacity: f64, margin: f64, first: f64) -> (KneeAt, Vec<f64>) {
    knee(first, |rate, is_long| Some(rate <= capacity * if is_long { 1.0 } else { margin })).await
}

/// So many measurements a search for the knee may take.
const TRIES: usize = 24;

#[tokio::test]
async fn the_bracket_closes_around_the_capacity_of_any_server() {
    for capacity in [11.0, 140.0, 999.0, 5_000.0, 123_456.0] {
        for first in [10.0, 1_000.0, 900_000.0] {
            let (knee, asked) = knee_of(capacity, 1.1, first).await;
            let (good, bad) = (knee.good_per_s.unwrap(), knee.bad_per_s.unwrap());
            assert!(good <= capacity, "{capacity}: {knee:?}");
            assert!(bad > capacity, "{capacity}: {knee:?}");
            // From so far away the tries end before the bracket is narrow.
            let is_far = first / capacity > 10_000.0;
            assert!(bad / good <= 1.3 || is_far, "{capacity} from {first}: {knee:?}");
            assert!(asked.len() <= TRIES, "{capacity} from {first}: {} steps", asked.len());
        }
    }
}

#[tokio::test]
async fn a_server_that_keeps_everything_has_no_bad_rate() {
    let (knee, _) = knee_of(f64::INFINITY, 1.1, 1_000.0).await;
    assert_eq!((knee.good_per_s, knee.bad_per_s), (Some(1e6), None));
}

#[tokio::test]
async fn a_server_that_keeps_nothing_has_no_good_rate() {
    let (knee, asked) = knee_of(0.0, 1.1, 1_000.0).await;
    assert_eq!((knee.good_per_s, knee.bad_per_s), (None, Some(1.0)));
    assert_eq!(asked.len(), 11, "{asked:?}");
}

/// That of a server that keeps 30/s; from `dark` on nothing is known of it, or only for the first time.
async fn knee_in_the_dark(dark: f64, lasts: bool) -> (KneeAt, Vec<f64>) {
    let mut last = None;
    let came = |rate, _| {
        let is_again = last.replace(rate) == Some(rate);
        (rate < dark || !lasts && is_again).then_some(rate <= 30.0)
    };
    knee(10.0, came).await
}

#[tokio::test]
async fn a_rate_of_which_nothing_is_known_ends_the_search_and_is_not_called_bad() {
    let found = |knee: KneeAt| (knee.good_per_s, knee.bad_per_s, knee.unknown.map(|one| one.rate_per_s));
    let (knee, asked) = knee_in_the_dark(20.0, true).await;
    assert_eq!(asked, [10.0, 20.0, 20.0, 10.0], "once more, then the proof");
    assert_eq!(found(knee), (Some(10.0), None, Some(20.0)));
    let (knee, asked) = knee_in_the_dark(5.0, true).await;
    assert_eq!(asked, [10.0, 10.0]);
    assert_eq!(found(knee), (None, None, Some(10.0)));
}

#[tokio::test]
async fn a_moment_without_an_answer_does_not_end_the_search() {
    let (knee, _) = knee_in_the_dark(40.0, false).await;
    let (good, bad) = (knee.good_per_s.unwrap(), knee.bad_per_s.unwrap());
    assert!(good <= 30.0 && 30.0 < bad && bad / good <= 1.3, "{knee:?}");
    assert!(knee.unknown.is_none());
}

#[tokio::test]
async fn what_was_not_proven_in_a_long_window_is_not_claimed() {
    let mut unproven = 0;
    for margin in [1.2, 2.0, 5.0, 20.0, 100.0] {
        for first in [1.0, 30.0, 1_000.0, 5_000.0, 900_000.0] {
            let (knee, asked) = knee_of(5_000.0, margin, first).await;
            assert!(asked.len() <= TRIES);
            assert!(knee.good_per_s.is_none_or(|good| good <= 5_000.0), "{margin}: {knee:?}");
            unproven += u32::from(knee.good_per_s.is_none());
        }
    }
    assert!((1..25).contains(&unproven), "{unproven} of 25");
}

#[tokio::test]
async fn levels_rise_to_the_most() {
    for (most, levels) in
        [(1, &[1][..]), (100, &[1, 2, 5, 10, 20, 50, 100]), (64, &[1, 2, 5, 10, 20, 50, 64])]
    {
        let (mut sweeps, mut measured) = (Vec::new(), Vec::new());
        let measure = async |level| {
            measured.push(level);
            (vec![BenchRow::default()], None::<()>)
        };
        assert_eq!(over_levels("tasks", most, &mut sweeps, measure).await, None);
        assert_eq!(measured, levels);
        assert!(sweeps[0].points.iter().map(|point| point.level).eq(levels.iter().copied().map(f64::from)));
    }
}

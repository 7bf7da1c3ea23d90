//! `locklab kube run`: applies a spec, follows its parts, brings the merged run home and deletes what was
//! made.

use kubernetes::cluster::{Cluster, PodOutcome};
use kubernetes::objects::objects;
use kubernetes::packed_run::unpack;
use kubernetes::spec::{Spec, Storage};
use results::report::answered;
use results::report::text;
use results::store::load_dir;

use super::KubeOptions;
use crate::cancel::Cancel;
use crate::exit;
use crate::run::make_dir;
use crate::terminal::Terminal;

pub(super) async fn run(options: KubeOptions, terminal: &Terminal) -> anyhow::Result<u8> {
    let spec = options.spec(terminal)?;
    if !options.yes_this_is_mine {
        return Err(exit::usage(format!(
            "`kube run` makes and deletes objects in the namespace {}: add --yes-this-is-mine if you may; `kube render` shows them",
            spec.namespace
        )));
    }
    let cancel = Cancel::listen()?;
    let cluster = Cluster::connect(&spec.namespace).await?;
    if spec.needs_chaos_mesh() {
        cluster.has_chaos_mesh().await?;
    }
    let objects = objects(&spec);
    // A dry run first: what the API refuses is reported before anything is made.
    cluster.apply(&objects, true).await?;
    terminal.note(&format!(
        "{} in the namespace {}, {} parts, seed {}",
        spec.name, spec.namespace, spec.parts, spec.seed
    ));
    let done = tokio::select! {
        done = carried_out(&cluster, &spec, &objects, terminal) => done,
        () = cancel.wanted() => Err(exit::interrupted("interrupted: what was made is deleted")),
    };
    let left_there = matches!(&done, Ok((_, left)) if !left.is_empty());
    let stayed = cluster.delete(&spec.name, left_there).await;
    for what in &stayed {
        terminal.warn(&format!("could not be deleted: {what}"));
    }
    let (code, _) = done?;
    // A fault that may go on is no clean end.
    Ok(if stayed.is_empty() { code } else { exit::worse(code, exit::UNKNOWN) })
}

/// Makes the objects, waits and brings the run home. Gives its exit code, and the files left in the volume.
async fn carried_out(
    cluster: &Cluster,
    spec: &Spec,
    objects: &[kubernetes::objects::Object],
    terminal: &Terminal,
) -> anyhow::Result<(u8, Vec<String>)> {
    cluster.apply(objects, false).await?;
    let bar = terminal.bar(u64::from(spec.parts), "parts");
    let tell = |line: &str| terminal.note(line);
    let ended = |ended| bar.set_position(ended);
    let merged = cluster.carry_out(&spec.name, &tell, &ended).await;
    let PodOutcome { exit_code, log } = merged?;
    bar.finish_and_clear();
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let host = bench::environment::read_machine().finish().host;
    let home = make_dir(&terminal.common, &date, &host, &spec.name)?;
    let left = unpack(&log, home.path()).map_err(|why| {
        let said: Vec<&str> = log.lines().rev().take(5).collect();
        exit::missing(format!(
            "the merged run did not come home: {why}. The last words of the pod that merged, which ended with {exit_code}: {}",
            said.into_iter().rev().collect::<Vec<_>>().join(" | ")
        ))
    })?;
    if !left.is_empty() {
        let place = match &spec.storage {
            Storage::Volume(_) => format!("the claim {}-results, which is kept", spec.name),
            Storage::Claim(claim) => format!("the claim {claim}"),
            Storage::Bucket { path, .. } => format!("the bucket {path}"),
        };
        terminal.warn(&format!(
            "too large for a pod's log, and still in {place}, below merged/: {}",
            left.join(", ")
        ));
    }
    let run = load_dir(home.path()).map_err(exit::input)?;
    terminal.answer_painted(&answered(&run)?, || text::summary(&run, terminal.text_options()))?;
    terminal.note(&format!("merged: {}", home.path().display()));
    // A killed pod gives no verdict.
    let code = u8::try_from(exit_code).ok().filter(|code| *code < 128).unwrap_or(exit::UNKNOWN);
    Ok((code, left))
}

//! Removes the keys of a run from somebody else's servers, by their prefix.

use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::External;
use super::discover::{ANSWER, discover};
use crate::node_commands::{connect, items, send, text};
use crate::{ClusterError, Role};

/// Keys that a server looks at for one answer: few enough that nobody else waits for it.
const LOOKED_AT: &str = "1000";

impl External {
    /// Removes every key whose name contains the run's prefix (companions have words before it); how many.
    ///
    /// # Errors
    /// No prefix of a run's own, a server that refuses or does not answer, or no time left; what was removed
    /// until then is gone.
    pub async fn remove_keys(&self, within: Duration) -> Result<u64, ClusterError> {
        let own = self.prefix.strip_prefix("locklab:").unwrap_or_default();
        if own.len() < 2 || !own.ends_with(':') {
            bail!("`{}` is no prefix of one run", self.prefix);
        }
        match tokio::time::timeout(within, self.sweep()).await {
            Ok(removed) => removed,
            Err(_) => Err(failed!("they were not all found within {within:?}")),
        }
    }

    async fn sweep(&self) -> Result<u64, ClusterError> {
        // A fault may have made another server the master.
        let found = match discover(&self.target).await {
            Ok((_, found)) => found,
            Err(_) => self.found.clone(),
        };
        let mut removed = 0;
        let mut wrong = Vec::new();
        for master in found.iter().filter(|found| found.role == Role::Master) {
            let dial = self.target.dial(Role::Master, master.address);
            let swept = async {
                let mut connection = connect(&dial, ANSWER).await?;
                sweep_one(&mut connection, &pattern(&self.prefix)).await
            };
            match swept.await {
                Ok(count) => removed += count,
                Err(why) => wrong.push(format!("{}: {why}", master.address)),
            }
        }
        if wrong.is_empty() { Ok(removed) } else { Err(ClusterError::new(wrong.join("; "))) }
    }
}

async fn sweep_one(connection: &mut MultiplexedConnection, pattern: &str) -> Result<u64, String> {
    let mut removed = 0;
    let mut cursor = "0".to_owned();
    loop {
        let scan = ["SCAN", &cursor, "MATCH", pattern, "COUNT", LOOKED_AT];
        let page = send(connection, &scan, ANSWER).await?;
        let [next, keys] = items(&page) else {
            return Err("SCAN was answered with something else than a cursor and keys".to_owned());
        };
        // One command for each key: those of a cluster are in several slots.
        let mut pipe = redis::pipe();
        for key in items(keys) {
            if let Value::BulkString(key) = key {
                pipe.cmd("UNLINK").arg(key);
            }
        }
        if !items(keys).is_empty() {
            let counts: Vec<u64> = pipe.query_async(connection).await.map_err(|error| error.to_string())?;
            removed += counts.iter().sum::<u64>();
        }
        cursor = text(next);
        if cursor == "0" {
            return Ok(removed);
        }
    }
}

/// Names that contain these very characters.
fn pattern(prefix: &str) -> String {
    let mut pattern = "*".to_owned();
    for c in prefix.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('*');
    pattern
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn a_prefix_means_itself() {
        assert_eq!(pattern("locklab:a*[b]:"), r"*locklab:a\*\[b\]:*");
    }
}

//! MongoDB's lock: a document that one `findAndModify` takes over where it is free or over by the server's
//! clock. **Untested here**: no package source has a server, so it runs only on the URL of one, and no figure
//! of it was ever published.
//!
//! - **Token**: a fence that the same command counts up. A TTL index removes what nobody took for a day; a
//!   fence then begins at the server's milliseconds, above what it was, unless the clock was set back.
//! - **Session**: none; the document has its end in it, and a renewal moves that on.
//! - **Loss**: a renewal that finds no such document. Writes wait for the majority, so a new primary has what
//!   was granted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::options::{ClientOptions, IndexOptions, ReturnDocument, WriteConcern};
use mongodb::{Collection, IndexModel};
use tokio::time::timeout;

use super::{ANSWER, Fence, RowKey, RowStore, Rows, Store, SystemClientParts, answered};
use crate::{links::CommandError, protocol::whole_ms, subject::SubjectError};

/// After how long a lock that nobody took is removed.
const UNUSED: Duration = Duration::from_secs(86_400);
/// The code of a key that is there already.
const DUPLICATE: i32 = 11_000;

/// A document, which is looked at and written in two commands where it `reads_first`.
pub(super) async fn document(
    own: SystemClientParts,
    reads_first: bool,
) -> Result<Arc<dyn Store>, SubjectError> {
    let locks = locks(&own).await?;
    Ok(Arc::new(RowStore { rows: Arc::new(MongoDb { locks, reads_first }), jitter: own.jitter }))
}

pub(super) async fn remove(own: &SystemClientParts, prefix: &str) -> Result<(), SubjectError> {
    let last = format!("{prefix}{}", char::MAX);
    let removed = answer(locks(own).await?.delete_many(doc! {"_id": {"$gte": prefix, "$lt": last}})).await;
    own.reached(removed.map(drop))
}

async fn locks(own: &SystemClientParts) -> Result<Collection<Document>, SubjectError> {
    let options = ClientOptions::parse(&own.target).await;
    let mut options = options.map_err(|error| usage!("the target's URL: {error}"))?;
    options.server_selection_timeout = Some(ANSWER);
    options.write_concern = Some(WriteConcern::majority());
    // A command whose answer is lost is repeated here, where it is known to be ours.
    options.retry_writes = Some(false);
    let database = options.default_database.clone();
    let client = own.reached(mongodb::Client::with_options(options))?;
    let database = client.database(database.as_deref().unwrap_or("locklab"));
    let locks = database.collection::<Document>("locklab_locks");
    let ttl = IndexOptions::builder().expire_after(UNUSED).build();
    let index = IndexModel::builder().keys(doc! {"expires": 1}).options(ttl).build();
    let made = timeout(ANSWER * 3, locks.create_index(index)).await;
    own.reached(made.map_err(|_| own.unreachable("no answer"))?)?;
    Ok(locks)
}

struct MongoDb {
    locks: Collection<Document>,
    reads_first: bool,
}

fn is_duplicate(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::Command(said) => said.code == DUPLICATE,
        ErrorKind::Write(WriteFailure::WriteError(said)) => said.code == DUPLICATE,
        _ => false,
    }
}

/// A command that the server refused has not run.
impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        match &*error.kind {
            ErrorKind::Command(said) => CommandError::Refused(said.message.clone()),
            ErrorKind::ServerSelection { message, .. } => CommandError::Refused(message.clone()),
            _ => CommandError::Lost(error.to_string()),
        }
    }
}

async fn answer<T>(asked: impl IntoFuture<Output = Result<T, Error>>) -> Result<T, CommandError> {
    Ok(answered(ANSWER * 2, asked).await??)
}

/// So long after the server's now.
fn from_now(lease: Duration) -> Document {
    doc! {"$add": ["$$NOW", whole_ms(lease) as i64]}
}

/// The owner's document, while it is the owner's.
fn own(row: &RowKey) -> Document {
    doc! {"_id": &row.lock, "owner": &row.owner, "$expr": {"$gt": ["$expires", "$$NOW"]}}
}

impl MongoDb {
    async fn set(&self, row: &RowKey, what: Document) -> Result<bool, CommandError> {
        Ok(answer(self.locks.update_one(own(row), vec![doc! {"$set": what}])).await?.matched_count == 1)
    }
}

#[async_trait]
impl Rows for MongoDb {
    async fn take(&self, row: &RowKey, lease: Duration) -> Result<Option<Fence>, CommandError> {
        let free = doc! {"_id": &row.lock, "$expr": {"$or": [
            {"$eq": [{"$ifNull": ["$owner", null]}, null]},
            {"$eq": ["$owner", &row.owner]},
            {"$lte": ["$expires", "$$NOW"]},
        ]}};
        let any = doc! {"_id": &row.lock};
        let held = doc! {"_id": &row.lock, "owner": {"$ne": null}, "$expr": {"$gt": ["$expires", "$$NOW"]}};
        if self.reads_first && answer(self.locks.find_one(held)).await?.is_some() {
            return Ok(None);
        }
        let change = vec![doc! {"$set": {
            "owner": &row.owner,
            "expires": from_now(lease),
            "fence": {"$max": [{"$add": [{"$ifNull": ["$fence", 0_i64]}, 1_i64]}, {"$toLong": "$$NOW"}]},
        }}];
        let take = self.locks.find_one_and_update(if self.reads_first { any } else { free }, change);
        let take = take.upsert(true).return_document(ReturnDocument::After);
        let sent = Instant::now();
        let document = match answered(ANSWER * 2, take).await? {
            Err(error) if is_duplicate(&error) => None,
            answer => answer?,
        };
        let fence = |document: Document| document.get_i64("fence").ok().map(u64::try_from);
        Ok(document.map(|document| (sent, fence(document).and_then(Result::ok))))
    }

    async fn keep(&self, row: &RowKey, lease: Duration) -> Result<bool, CommandError> {
        self.set(row, doc! {"expires": from_now(lease)}).await
    }

    async fn give(&self, row: &RowKey) -> Result<bool, CommandError> {
        self.set(row, doc! {"owner": null}).await
    }
}

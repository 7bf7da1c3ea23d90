//! MongoDB's lock: a document that one `findAndModify` takes over where it is free or over by the server's clock. **Untested here**: no package
//! source has a server, so it runs only on the URL of one, and no figure of it was ever published.
//!
//! - **Token**: a fence that the same command counts up. A TTL index removes what nobody took for a day; a fence then begins at the server's
//!   milliseconds, above what it was, unless the clock was set back.
//! - **Session**: none; the document has its end in it, and a renewal moves that on.
//! - **Loss**: a renewal that finds no such document. Writes wait for the majority, so a new primary has what was granted.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use mongodb::{
    Collection, IndexModel,
    bson::{Document, doc},
    error::{Error, ErrorKind, WriteFailure},
    options::{ClientOptions, IndexOptions, ReturnDocument, WriteConcern},
};
use tokio::time::timeout;

use super::{ANSWER, Hold, Own, Polled, Store, Taken, Want, answered, poll};
use crate::{links::Trouble, protocol::whole_ms, subject::SubjectError, subjects::common::Jitter};

/// After how long a lock that nobody took is removed.
const UNUSED: Duration = Duration::from_secs(86_400);
/// The code of a key that is there already.
const DUPLICATE: i32 = 11_000;

pub(super) async fn find_and_modify(own: Own) -> Result<Arc<dyn Store>, SubjectError> {
    connect(own, false).await
}

pub(super) async fn find_then_update(own: Own) -> Result<Arc<dyn Store>, SubjectError> {
    connect(own, true).await
}

async fn connect(own: Own, reads_first: bool) -> Result<Arc<dyn Store>, SubjectError> {
    Ok(Arc::new(MongoDb {
        locks: locks(&own).await?,
        jitter: own.jitter,
        reads_first,
    }))
}

/// Removes the documents of a run.
pub(super) async fn remove(own: &Own, prefix: &str) -> Result<(), SubjectError> {
    let last = format!("{prefix}{}", char::MAX);
    let of_run = doc! {"_id": {"$gte": prefix, "$lt": last}};
    let removed = answer(locks(own).await?.delete_many(of_run)).await;
    removed
        .map(drop)
        .map_err(|trouble| own.unreachable(trouble.text()))
}

/// The collection, with its index.
async fn locks(own: &Own) -> Result<Collection<Document>, SubjectError> {
    let options = ClientOptions::parse(&own.target).await;
    let mut options =
        options.map_err(|error| SubjectError::usage(format!("the target's URL: {error}")))?;
    options.server_selection_timeout = Some(ANSWER);
    options.write_concern = Some(WriteConcern::majority());
    // A command whose answer is lost is repeated here, where it is known to be ours.
    options.retry_writes = Some(false);
    let database = options
        .default_database
        .clone()
        .unwrap_or_else(|| "locklab".to_owned());
    let client = mongodb::Client::with_options(options).map_err(|error| own.unreachable(error))?;
    let locks = client
        .database(&database)
        .collection::<Document>("locklab_locks");
    let ttl = IndexOptions::builder().expire_after(UNUSED).build();
    let index = IndexModel::builder()
        .keys(doc! {"expires": 1})
        .options(ttl)
        .build();
    let made = timeout(ANSWER * 3, locks.create_index(index)).await;
    let made = made.map_err(|_| own.unreachable("no answer"))?;
    made.map_err(|error| own.unreachable(error))?;
    Ok(locks)
}

struct MongoDb {
    locks: Collection<Document>,
    jitter: Jitter,
    /// It looks and writes in two commands.
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
fn trouble(error: &Error) -> Trouble {
    match &*error.kind {
        ErrorKind::Command(said) => Trouble::Refused(said.message.clone()),
        ErrorKind::ServerSelection { message, .. } => Trouble::Refused(message.clone()),
        _ => Trouble::Lost(error.to_string()),
    }
}

async fn answer<T>(asked: impl IntoFuture<Output = Result<T, Error>>) -> Result<T, Trouble> {
    let answer = answered(ANSWER * 2, asked).await?;
    answer.map_err(|error| trouble(&error))
}

/// So long after the server's now.
fn from_now(lease: Duration) -> Document {
    doc! {"$add": ["$$NOW", whole_ms(lease) as i64]}
}

#[async_trait]
impl Store for MongoDb {
    async fn take(&self, want: &Want<'_>) -> Result<Option<Taken>, Trouble> {
        poll(self, want).await
    }
}

#[async_trait]
impl Polled for MongoDb {
    fn jitter(&self) -> &Jitter {
        &self.jitter
    }

    async fn once(&self, want: &Want<'_>) -> Result<Option<Taken>, Trouble> {
        // Who has it already is known by the owner's name, so the command may be sent again.
        let free = doc! {"_id": want.key, "$expr": {"$or": [
            {"$eq": [{"$ifNull": ["$owner", null]}, null]},
            {"$eq": ["$owner", &want.value]},
            {"$lte": ["$expires", "$$NOW"]},
        ]}};
        let any = doc! {"_id": want.key};
        let held =
            doc! {"_id": want.key, "owner": {"$ne": null}, "$expr": {"$gt": ["$expires", "$$NOW"]}};
        if self.reads_first && answer(self.locks.find_one(held)).await?.is_some() {
            return Ok(None);
        }
        let change = vec![doc! {"$set": {
            "owner": &want.value,
            "expires": from_now(want.lease),
            "fence": {"$max": [{"$add": [{"$ifNull": ["$fence", 0_i64]}, 1_i64]}, {"$toLong": "$$NOW"}]},
        }}];
        let filter = if self.reads_first { any } else { free };
        let take = self.locks.find_one_and_update(filter, change);
        let take = take.upsert(true).return_document(ReturnDocument::After);
        let sent = Instant::now();
        let document = match answered(ANSWER * 2, take).await? {
            Ok(document) => document,
            Err(error) if is_duplicate(&error) => None,
            Err(error) => return Err(trouble(&error)),
        };
        Ok(document.map(|document| Taken {
            token: document.get_i64("fence").ok().and_then(|fence| u64::try_from(fence).ok()),
            sent,
            hold: Box::new(MongoHold {
                locks: self.locks.clone(),
                own: doc! {"_id": want.key, "owner": &want.value, "$expr": {"$gt": ["$expires", "$$NOW"]}},
            }),
        }))
    }
}

struct MongoHold {
    locks: Collection<Document>,
    /// The document, while it is this holder's.
    own: Document,
}

impl MongoHold {
    async fn set(&self, what: Document) -> Result<bool, Trouble> {
        let update = self
            .locks
            .update_one(self.own.clone(), vec![doc! {"$set": what}]);
        Ok(answer(update).await?.matched_count == 1)
    }
}

#[async_trait]
impl Hold for MongoHold {
    async fn keep(&self, lease: Duration) -> Result<bool, Trouble> {
        self.set(doc! {"expires": from_now(lease)}).await
    }

    async fn give(&self) -> Result<bool, Trouble> {
        self.set(doc! {"owner": null}).await
    }
}

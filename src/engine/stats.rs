//! The statistics of a collection, exact for one instant: expired documents do not count.

use crate::storage::index::Index;
use crate::storage::{Cap, Collection, ReadPoint, View};
use crate::value::DocBuilder;

pub use crate::storage::Totals;

/// The figures that collStats, dbStats and `$collStats` show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorageStats {
    pub documents: Totals,
    /// Pairs of name and bytes, the `_id` index first.
    pub indexes: Vec<(String, u64)>,
    pub cap: Option<Cap>,
    /// False for the figures of a collection that is not there.
    pub exists: bool,
}

/// Returns the number of documents and their total size. It reads no document unless one of them is due to expire.
pub fn totals(collection: &Collection, at: ReadPoint) -> Totals {
    collection.read(at, |view| view.totals())
}

/// The largest number of expired documents whose index entries are looked up one by one. Looking up more would block other
/// clients. They are counted as average ones until the reaper has removed them.
const FEW: u64 = 2_000;

/// The approximate number of bytes that the `_id` map takes per document.
const ID_ENTRY_BYTES: u64 = 24;

// === impl StorageStats ===

impl StorageStats {
    pub fn of(collection: &Collection, at: ReadPoint) -> Self {
        collection.read(at, Self::seen)
    }

    pub fn seen(view: &View<'_>) -> Self {
        let documents = view.totals();
        let ended = view.ended().count;
        // Entries of expired documents wait for the reaper, but no longer count in the figures.
        let visible_bytes = |index: &Index| {
            let bytes = index.bytes() as u64;
            match ended {
                0 => bytes,
                1..=FEW => bytes.saturating_sub(view.ended_bytes(index)),
                _ => {
                    let all = u128::from(documents.count + ended);
                    let share = u128::from(bytes) * u128::from(documents.count) / all;
                    u64::try_from(share).unwrap_or(bytes)
                }
            }
        };
        let mut indexes = vec![("_id_".to_owned(), documents.count * ID_ENTRY_BYTES)];
        for index in view.indexes() {
            indexes.push((index.spec.name.clone(), visible_bytes(index)));
        }
        if let Some(ts) = view.ts_index()
            && view.index(&ts.name).is_none()
        {
            // It is a setting, not a structure: it takes no memory.
            indexes.push((ts.name.clone(), 0));
        }
        Self {
            documents,
            indexes,
            cap: view.options().cap,
            exists: true,
        }
    }

    pub fn index_bytes(&self) -> u64 {
        self.indexes.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Writes `storageStats` of `$collStats`, which is also most of collStats. Bytes are divided by `scale`.
    pub fn put(&self, out: &mut DocBuilder<'_>, scale: f64) {
        let scale = if scale >= 1.0 { scale } else { 1.0 };
        let scaled = |bytes: u64| (bytes as f64 / scale) as u64;
        let Totals { count, bytes } = self.documents;
        put_number(out, "size", scaled(bytes));
        put_number(out, "count", count);
        if let Some(average) = bytes.checked_div(count) {
            put_number(out, "avgObjSize", average);
        }
        out.put_i32("numOrphanDocs", 0);
        put_number(out, "storageSize", scaled(bytes));
        if self.exists {
            put_number(out, "freeStorageSize", 0);
            out.put_bool("capped", self.cap.is_some());
        }
        if let Some(cap) = self.cap {
            put_number(out, "max", cap.documents.unwrap_or(0));
            put_number(out, "maxSize", scaled(cap.bytes));
        }
        out.put_i32(
            "nindexes",
            i32::try_from(self.indexes.len()).unwrap_or(i32::MAX),
        );
        let mut details = out.doc("indexDetails");
        for (name, _) in &self.indexes {
            details.doc(name).end();
        }
        details.end();
        out.array("indexBuilds").end();
        put_number(out, "totalIndexSize", scaled(self.index_bytes()));
        put_number(out, "totalSize", scaled(bytes + self.index_bytes()));
        let mut sizes = out.doc("indexSizes");
        for (name, bytes) in &self.indexes {
            put_number(&mut sizes, name, scaled(*bytes));
        }
        sizes.end();
        out.put_i32("scaleFactor", scale as i32);
    }
}

/// Writes an int32 if the number fits, else an int64, as mongod does.
pub(super) fn put_number(out: &mut DocBuilder<'_>, name: &str, n: u64) {
    match i32::try_from(n) {
        Ok(n) => out.put_i32(name, n),
        Err(_) => out.put_i64(name, i64::try_from(n).unwrap_or(i64::MAX)),
    };
}

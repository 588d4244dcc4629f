//! Writes of a transaction: they go into its buffer, after the checks that a present write would make.
//!
//! A transaction writes only to documents that have not changed since its snapshot and that no other transaction has written
//! to: the first writer wins, and the other one ends with a conflict at once. So it need not check that again when it
//! commits, and no two transactions wait for each other. Any other writer waits for the transaction.

use std::sync::Arc;

use super::contents::{Cause, Change};
use super::idmap::with_id_key;
use super::index::{Index, IndexKeys, KeyBytes};
use super::shared::NumberedChange;
use super::versions::{Claims, OwnWrite, OwnWrites, ToldWrite, TransactionId};
use super::writer::{AllKeys, Before, New, NewTtl};
use super::{LogOp, NoDelta, RecordId, Refused, UpdateDelta, Writer, Written};
use crate::ttl::{End, OwnTtl};
use crate::value::{Doc, DocBuf};
use crate::wait::Wait;

// === impl Writer ===

impl Writer<'_> {
    // --- Writers outside a transaction ---

    /// Returns whether a transaction has written to the collection.
    #[inline]
    pub(super) fn has_claims(&self) -> bool {
        let versions = self.contents().versions();
        versions.is_some_and(|versions| !versions.own.is_empty())
    }

    fn claims(&self) -> Option<&Claims> {
        self.contents().versions().map(|versions| &versions.claims)
    }

    pub(super) fn check_record_claims(&self, id: RecordId) -> Result<(), Refused> {
        match self.claims().and_then(|claims| claims.record(id)) {
            Some(_) => Err(Refused::Claimed),
            None => Ok(()),
        }
    }

    /// Checks whether a transaction adds a document with that `_id`, or has written to the one that is there.
    pub(super) fn check_id_claims(
        &self,
        hash: u64,
        holder: Option<RecordId>,
    ) -> Result<(), Refused> {
        if self
            .claims()
            .is_some_and(|claims| claims.id(hash).is_some())
        {
            return Err(Refused::Claimed);
        }
        // An expired document is gone, and the transaction that wrote to it will notice.
        match holder.filter(|holder| self.visible(*holder).is_some()) {
            Some(holder) => self.check_record_claims(holder),
            None => Ok(()),
        }
    }

    pub(super) fn check_key_claims(&self, index: &Index, key: &KeyBytes) -> Result<(), Refused> {
        let claims = self.claims().filter(|claims| claims.has_keys());
        if claims.is_some_and(|claims| claims.key(index.number, key).is_some()) {
            return Err(Refused::Claimed);
        }
        let mut holders = index.holders(key);
        match holders.find(|holder| self.visible(*holder).is_some()) {
            Some(holder) => self.check_record_claims(holder),
            None => Ok(()),
        }
    }

    /// Returns a wait that ends when a transaction that has written to the collection ends after this call.
    pub fn released(&self) -> Option<Wait> {
        let versions = self.contents().versions()?;
        Some(Wait::until(versions.released.listen()))
    }

    // --- Writers in a transaction ---

    pub(super) fn buffer_insert(&mut self, bytes: &[u8]) -> Result<RecordId, Refused> {
        let own = self.begin_buffered()?;
        let doc = Doc::new(bytes);
        let hash = with_id_key(doc, |key| self.check_own_id(own, key))?;
        let keys = self.keys_of(doc, self.now)?;
        self.check_own_keys(own, None, &keys)?;
        let told = self.told(None, None, Some(doc), || None);
        let id = self.with_own(own, |buffer| {
            let id = buffer.add(hash, bytes.to_vec(), OwnTtl::of(doc));
            buffer.tell(told);
            id
        });
        self.contents_mut()
            .versions_mut()
            .claims
            .claim_id(hash, own);
        self.claim_keys(own, id, &keys);
        Ok(id)
    }

    pub(super) fn buffer_update(
        &mut self,
        id: RecordId,
        before: Before,
        new: &New,
        new_ttl: NewTtl,
        delta: &dyn UpdateDelta,
    ) -> Result<Option<Written>, Refused> {
        let own = self.begin_buffered()?;
        let Some(stored) = self.visible(id) else {
            return Ok(None);
        };
        // As in MongoDB, a document that stays the same is not written. But one that can end lives longer by it.
        if matches!(new, New::Same) && stored.end == End::NEVER {
            let len = stored.bytes.len();
            self.with_own(own, |buffer| buffer.touch(id));
            return Ok(Some(Written {
                before: before.ts,
                ts: self.now,
                len,
            }));
        }
        self.check_record(own, id)?;
        let bytes = match new {
            New::Same => stored.bytes.to_vec(),
            New::Patch(patch) => {
                let mut bytes = stored.bytes.to_vec();
                patch.apply(&mut bytes);
                bytes
            }
            New::Bytes(bytes) => {
                self.check_size(bytes)?;
                bytes.clone()
            }
        };
        let ttl = match new {
            New::Bytes(bytes) => new_ttl.read(bytes, before.own),
            _ => before.own,
        };
        let keys = self.keys_of(Doc::new(&bytes), self.now)?;
        self.check_own_keys(own, Some(id), &keys)?;
        let written = Written {
            before: before.ts,
            ts: self.now,
            len: bytes.len(),
        };
        let (old, after) = (Doc::new(stored.bytes), Doc::new(&bytes));
        let hash = with_id_key(old, |key| self.contents().ids().hash(key));
        let told = self.told(Some(id), Some(old), Some(after), || delta.delta(old, after));
        self.with_own(own, |buffer| {
            // A change of `_ts` alone is told to nobody.
            if !matches!(new, New::Same) {
                buffer.tell(told);
            }
            buffer.put(id, hash, OwnWrite::Written { bytes, ttl });
        });
        self.claim_record(own, id);
        self.claim_keys(own, id, &keys);
        Ok(Some(written))
    }

    pub(super) fn buffer_remove(&mut self, id: RecordId) -> Result<(), Refused> {
        let own = self.begin_buffered()?;
        self.check_record(own, id)?;
        let Some(stored) = self.visible(id) else {
            return Ok(());
        };
        let doc = Doc::new(stored.bytes);
        let hash = with_id_key(doc, |key| self.contents().ids().hash(key));
        let told = self.told(Some(id), Some(doc), None, || None);
        self.with_own(own, |buffer| {
            buffer.tell(told);
            buffer.remove(id, hash);
        });
        self.claim_record(own, id);
        Ok(())
    }

    /// Checks what does not depend on the document. Returns the transaction.
    fn begin_buffered(&self) -> Result<TransactionId, Refused> {
        if self.view().options().cap.is_some() {
            return Err(Refused::Capped);
        }
        if self.contents().shared().transactions.are_full() {
            return Err(Refused::TransactionTooLarge);
        }
        let own = self.at.transaction();
        Ok(own.unwrap_or(TransactionId::NONE))
    }

    /// Changes the buffer of the transaction in this collection.
    fn with_own<T>(&mut self, own: TransactionId, change: impl FnOnce(&mut OwnWrites) -> T) -> T {
        let versions = self.contents().versions();
        self.joins |= versions.is_none_or(|versions| !versions.own.contains_key(&own));
        let buffer = self.contents_mut().own_mut(own);
        let before = buffer.bytes();
        let done = change(buffer);
        let after = buffer.bytes();
        self.contents().shared().transactions.count(before, after);
        done
    }

    /// Returns what the log of changes will be told about a write when the transaction commits.
    fn told(
        &self,
        record: Option<RecordId>,
        before: Option<Doc<'_>>,
        after: Option<Doc<'_>>,
        delta: impl FnOnce() -> Option<DocBuf>,
    ) -> Option<ToldWrite> {
        let shared = self.contents().shared();
        let copy = |doc: Option<Doc<'_>>| doc.map(DocBuf::from);
        if !shared.log.is_recording() {
            return None;
        }
        let op = self.contents().logged(copy(before), copy(after), delta())?;
        shared.numbered(record, || op)
    }

    fn claim_record(&mut self, own: TransactionId, id: RecordId) {
        if !id.is_provisional() {
            let versions = self.contents_mut().versions_mut();
            versions.claims.claim_record(id, own);
        }
    }

    /// Claims the keys in unique indexes, and prepares all indexes for the arrays in the document.
    fn claim_keys(&mut self, own: TransactionId, id: RecordId, keys: &AllKeys) {
        for (at, keys) in keys.iter().enumerate() {
            self.contents_mut().expect_arrays(at, keys);
            let index = &self.indexes()[at];
            if !index.spec.unique && !index.spec.prepare_unique {
                continue;
            }
            let number = index.number;
            for key in &keys.keys {
                let claims = &mut self.contents_mut().versions_mut().claims;
                if claims.claim_key(number, key, own, id) {
                    self.with_own(own, |buffer| buffer.note_key(number, key.clone()));
                }
            }
        }
    }

    /// Checks that the transaction may write to a record.
    fn check_record(&self, own: TransactionId, id: RecordId) -> Result<(), Refused> {
        let Some(versions) = self.contents().versions() else {
            return Ok(());
        };
        match versions.claims.record(id) {
            Some(by) if by == own => return Ok(()),
            Some(_) => return Err(Refused::Conflict),
            None => {}
        }
        let as_of = self.at.as_of();
        match as_of.is_some_and(|time| versions.earlier.has_changed(id, time)) {
            true => Err(Refused::Conflict),
            false => Ok(()),
        }
    }

    /// Checks that the transaction may add a document with the `_id` of that key. Returns the hash of the key.
    fn check_own_id(&self, own: TransactionId, key: &[u8]) -> Result<u64, Refused> {
        let hash = self.contents().ids().hash(key);
        let view = self.view();
        // As in MongoDB, the transaction cannot have what its snapshot shows, even if somebody else has removed it since.
        if let Some((holder, _)) = view.by_key(key) {
            return Err(Refused::Duplicate {
                index: None,
                holder,
            });
        }
        let claimed = self.claims().and_then(|claims| claims.id(hash));
        if claimed.is_some_and(|by| by != own) {
            return Err(Refused::Conflict);
        }
        if let (Some(versions), Some(time)) = (self.contents().versions(), self.at.as_of()) {
            // A document with this `_id` that was added and removed since the snapshot.
            let mut records = versions.earlier.by_id(hash).iter();
            if records.any(|id| versions.earlier.has_changed(*id, time)) {
                return Err(Refused::Conflict);
            }
        }
        // A document that the snapshot does not show and the transaction has not removed was added since.
        match self.holder(hash, key) {
            Some(holder) if view.present(holder).is_some() => self.check_present(own, holder)?,
            _ => {}
        }
        Ok(hash)
    }

    /// Checks that a document that is there now, but not for the transaction, was removed by the transaction itself.
    fn check_present(&self, own: TransactionId, holder: RecordId) -> Result<(), Refused> {
        let claimed = self.claims().and_then(|claims| claims.record(holder));
        match claimed == Some(own) {
            true => Ok(()),
            false => Err(Refused::Conflict),
        }
    }

    /// Checks the keys of a document that the transaction writes (`id`, if it is there already) against unique indexes.
    fn check_own_keys(
        &self,
        own: TransactionId,
        id: Option<RecordId>,
        keys: &AllKeys,
    ) -> Result<(), Refused> {
        for (index, keys) in self.indexes().iter().zip(keys) {
            if !index.spec.unique && !index.spec.prepare_unique {
                continue;
            }
            for key in &keys.keys {
                self.check_own_key(own, id, index, key)?;
            }
        }
        Ok(())
    }

    fn check_own_key(
        &self,
        own: TransactionId,
        id: Option<RecordId>,
        index: &Index,
        key: &KeyBytes,
    ) -> Result<(), Refused> {
        let view = self.view();
        let claimed = self
            .claims()
            .and_then(|claims| claims.key(index.number, key));
        let is_own = |by: TransactionId| by == own;
        // As in MongoDB, a key that another transaction has brought in is a conflict first, also if the snapshot shows it.
        let has_come = |holder: RecordId| !index.holders(key).any(|other| other == holder);
        if claimed.is_some_and(|(by, holder)| !is_own(by) && has_come(holder)) {
            return Err(Refused::Conflict);
        }
        // What the transaction sees: its own documents, and those of its snapshot.
        let has_key = |holder: RecordId| {
            let stored = view.get(holder)?;
            let keys = IndexKeys::of(&index.spec, Doc::new(stored.bytes), stored.ts).ok()?;
            keys.keys.binary_search(key).ok()
        };
        let added = claimed
            .filter(|(by, _)| is_own(*by))
            .map(|(_, holder)| holder);
        let mut seen = view.holders(index, key).chain(added);
        if let Some(holder) = seen.find(|holder| Some(*holder) != id && has_key(*holder).is_some())
        {
            return Err(Refused::duplicate(index, key, holder));
        }
        if claimed.is_some_and(|(by, _)| !is_own(by)) {
            return Err(Refused::Conflict);
        }
        // What is there now.
        for holder in index.holders(key).filter(|holder| Some(*holder) != id) {
            if view.present(holder).is_some() {
                self.check_present(own, holder)?;
            }
        }
        Ok(())
    }

    // --- Commit ---

    /// Returns whether the transaction, which has written here, can commit. Its claims have kept other writers out, but the
    /// collection may have been dropped, a document that it wrote to may have ended, and there may be an index that it never
    /// checked.
    pub(super) fn can_commit(&self, transaction: TransactionId) -> bool {
        let versions = self.contents().versions();
        let Some(own) = versions.and_then(|versions| versions.own.get(&transaction)) else {
            return false;
        };
        let view = self.view();
        own.schema == self.contents().schema()
            && own.from(RecordId::FIRST).all(|(id, write)| match write {
                OwnWrite::Written { .. } => id.is_provisional() || view.present(id).is_some(),
                OwnWrite::Removed => true,
            })
    }

    /// Takes the writes of the transaction out of the collection, and removes what has ended where they add documents. What the
    /// transaction added and removed again leaves nothing, but for the log it took such a place, too.
    pub(super) fn make_way(&mut self, transaction: TransactionId) -> Option<OwnWrites> {
        let own = self.discard_own(transaction)?;
        for write in own.told().into_iter().flatten() {
            if let LogOp::Insert { document } = &write.op {
                self.free_holder(document.as_doc());
            }
        }
        for (id, write) in own.from(RecordId::FIRST) {
            if let OwnWrite::Written { bytes, .. } = write
                && id.is_provisional()
            {
                self.free_holder(Doc::new(bytes));
            }
        }
        Some(own)
    }

    /// Applies the writes of the transaction. Those that remove come first and those that add last, so that a key that moves
    /// from one document to another is free. Unique keys are not checked again: the transaction has claimed them. Appends
    /// what the log of changes is told.
    pub(super) fn apply_own(
        &mut self,
        own: Option<OwnWrites>,
        is_new: bool,
        changes: &mut Vec<NumberedChange>,
    ) {
        let Some(mut own) = own else {
            return;
        };
        let subject = Arc::clone(self.contents().subject());
        let mut tell = |number, op| {
            let subject = Arc::clone(&subject);
            changes.push(NumberedChange {
                number,
                subject,
                op,
            });
        };
        let told = own.take_told();
        // If the log was started in the middle of the transaction, it is told what the transaction has made of each document.
        let is_late = told.is_none() && self.contents().shared().log.is_recording();
        // That a document has ended is told when it is freed. What the transaction did with it before it removed it is over.
        let has_ended = |id: RecordId| {
            let is_removed = matches!(own.get(id), Some(OwnWrite::Removed));
            is_removed && self.visible(id).is_none()
        };
        for write in told.into_iter().flatten() {
            if !write.record.is_some_and(has_ended) {
                tell(write.number, write.op);
            }
        }
        if is_late && is_new {
            tell(0, self.created());
        }
        for (id, write) in own.from(RecordId::FIRST) {
            if matches!(write, OwnWrite::Removed) && self.visible(id).is_some() {
                if is_late && let Some(op) = self.outcome_of(id, None) {
                    tell(0, op);
                }
                self.take_out(id, Cause::Deleted);
            }
        }
        for (id, write) in own.from(RecordId::FIRST) {
            let OwnWrite::Written { bytes, ttl } = write else {
                continue;
            };
            if is_late && let Some(op) = self.outcome_of(id, Some(bytes)) {
                tell(0, op);
            }
            match id.is_provisional() {
                true => self.add_own(bytes, *ttl),
                false => self.replace_own(id, bytes, *ttl),
            }
        }
        for id in own.touched() {
            // Without a rule for dates and without a new key it cannot be refused, and a document that is gone stays gone.
            let _ = self.update(id, &New::Same, NewTtl::Same, &NoDelta);
        }
    }

    /// Returns what the log is told if it knows only the outcome of a transaction.
    fn outcome_of(&self, id: RecordId, after: Option<&[u8]>) -> Option<LogOp> {
        let before = self.contents().copy_of(id);
        let after = after.map(|bytes| Doc::new(bytes).into());
        self.contents().logged(before, after, None)
    }

    /// Takes the writes of the transaction out of the collection.
    pub(super) fn discard_own(&mut self, transaction: TransactionId) -> Option<OwnWrites> {
        self.contents_mut().take_own(transaction)
    }

    /// Removes the document that holds an `_id`, if it has expired.
    fn free_holder(&mut self, doc: Doc<'_>) {
        let holder = with_id_key(doc, |key| {
            let hash = self.contents().ids().hash(key);
            self.holder(hash, key)
        });
        let ended = holder.filter(|holder| self.visible(*holder).is_none());
        self.free(ended.as_slice());
    }

    fn add_own(&mut self, bytes: &[u8], ttl: OwnTtl) {
        let doc = Doc::new(bytes);
        let hash = self.contents().ids().hash_of(doc);
        let Ok(keys) = self.keys_of(doc, self.now) else {
            return;
        };
        let stamp = self.stamp(doc, self.now, ttl);
        self.commit(Change::Insert {
            hash,
            bytes,
            keys: &keys,
            stamp,
        });
    }

    fn replace_own(&mut self, id: RecordId, bytes: &[u8], ttl: OwnTtl) {
        let Some(stored) = self.visible(id) else {
            return;
        };
        let (doc, ts) = (Doc::new(bytes), self.ts_after(stored.ts));
        let before = self.keys_of(Doc::new(stored.bytes), stored.ts);
        let (Ok(before), Ok(after)) = (before, self.keys_of(doc, ts)) else {
            return;
        };
        let stamp = self.stamp(doc, ts, ttl);
        self.commit(Change::Replace {
            id,
            bytes,
            before: &before,
            after: &after,
            stamp,
            delta: &NoDelta,
        });
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::super::index::IndexSpec;
    use super::super::{Catalog, CollectionOptions, Namespace};
    use super::*;
    use crate::value::Millis;

    /// A transaction that gives a document many keys, one after the other, or adds documents and removes them again, keeps others
    /// from all of these keys until it ends.
    #[test]
    fn keys_that_no_document_has_any_more_count_until_the_transaction_ends() {
        const NOW: Millis = Millis(1_000_000);
        const MANY: usize = 100;
        let catalog = Arc::new(Catalog::new());
        let name = Namespace::new("db", "c");
        let c = catalog.create(name, CollectionOptions::default(), NOW, |rules| {
            let mut spec = IndexSpec::new("k_1", DocBuf::from(doc! {"k": 1}));
            spec.unique = true;
            rules.add_index(spec);
        });
        let c = c.unwrap();
        let bytes = |id: usize| {
            let key = format!("{id:0>5000}");
            doc! {"_id": i32::try_from(id).unwrap(), "k": key}
                .to_vec()
                .unwrap()
        };
        let transaction = catalog.begin();
        let at = transaction.read_point(NOW);
        for id in 0..MANY {
            let inserted = c.write_at(at, |writer| writer.insert(&bytes(id))).unwrap();
            let added = inserted.unwrap();
            let removed = c.write_at(at, |writer| writer.remove(added)).unwrap();
            assert!(removed.is_ok());
        }
        assert!(catalog.buffered_bytes() > MANY * 5_000);
        let outside = |id| {
            c.write(NOW, |writer| writer.insert(&bytes(id)).err())
                .unwrap()
        };
        assert!(matches!(outside(3), Some(Refused::Claimed)));
        drop(transaction);
        assert_eq!(catalog.buffered_bytes(), 0);
        assert!(outside(3).is_none());
    }
}

//! A journal against its high-water mark: has it once gone further?

use surestep::{Digest, Entry, Revision, SessionId, StoreError};

use crate::disk::Disk;
use crate::envelope;
use crate::fault::{found, io};
use crate::journal::{self, Survey};
use crate::layout::Place;
use crate::marks::HighMark;
use crate::pruned::{self, Tombstone};
use crate::store::Shared;

/// A session that is behind its mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    /// Where it stands; 0: it is gone.
    pub found: Revision,
    /// Where it once stood.
    pub mark: HighMark,
}

impl RolledBack {
    pub(crate) fn error(&self) -> StoreError {
        let HighMark { session, revision, .. } = &self.mark;
        StoreError::RolledBack { session: session.clone(), found: self.found, mark: *revision }
    }
}

impl<D: Disk> Shared<D> {
    /// Looks at a session and its mark. The mark first: a commit that is published in between only adds.
    ///
    /// Where there is a mark, an emptied journal is one that is behind it; else it is damage.
    pub(crate) fn survey(
        &self,
        session: &SessionId,
        place: &Place,
    ) -> Result<(Survey, Option<HighMark>, Option<RolledBack>), StoreError> {
        if let Some(tombstone) = pruned::find(&self.disk, &self.layout.pruned(), session)? {
            let Tombstone { session, revision, at, .. } = tombstone;
            return Err(StoreError::Pruned { session, revision, at });
        }
        let mark = self.marks.read(&self.disk, session)?;
        let survey = journal::survey(&self.disk, place, mark.is_some())?;
        let behind = match &mark {
            Some(mark) if !self.reaches(session, place, survey, mark)? => {
                Some(RolledBack { found: survey.last, mark: mark.clone() })
            }
            Some(_) | None => None,
        };
        match behind {
            Some(behind) if !self.even_rolled_back => Err(behind.error()),
            behind => Ok((survey, mark, behind)),
        }
    }

    /// Whether a journal holds the commit that the mark names, or an answer to its loss.
    fn reaches(
        &self,
        session: &SessionId,
        place: &Place,
        survey: Survey,
        mark: &HighMark,
    ) -> Result<bool, StoreError> {
        let there = match mark.revision {
            revision if revision > survey.last => false,
            revision if revision > survey.sealed => self.ends_with(place, revision, &mark.head)?,
            revision => {
                let sealed = envelope::commits(&self.disk, place, session, revision)?;
                sealed.first().is_some_and(|commit| commit.sum() == mark.head)
            }
        };
        Ok(there || self.is_answered(session, place, survey, mark)?)
    }

    /// Whether a commit has this sum, by the end of its text: reading it whole is the reader's to do.
    fn ends_with(&self, place: &Place, revision: Revision, sum: &Digest) -> Result<bool, StoreError> {
        let file = place.commit(revision);
        let text = found(self.disk.read(&file)).map_err(io("cannot read", &file))?.unwrap_or_default();
        Ok(text.ends_with(format!("\"sum\":\"{sum}\"}}").as_bytes()))
    }

    /// Whether a `restored` entry speaks of this mark, or of more: who wrote it was killed before the mark was set anew,
    /// or was a repair, which also counts commits that were never acknowledged.
    fn is_answered(
        &self,
        session: &SessionId,
        place: &Place,
        survey: Survey,
        mark: &HighMark,
    ) -> Result<bool, StoreError> {
        let commits = journal::commits(&self.disk, place, session, Revision::FIRST, survey)?;
        let answers = |entry: &Entry| {
            if let Entry::Restored(e) = entry {
                return e.mark_revision >= mark.revision
                    && e.mark_epoch >= mark.epoch
                    && e.mark_head == Some(mark.head);
            }
            false
        };
        Ok(commits.iter().flat_map(|commit| commit.entries()).any(answers))
    }
}

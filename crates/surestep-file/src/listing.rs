//! Listing the sessions, in the order of their ids.
//!
//! A folder whose name is plain can only be that of the session of the same id, so its name is enough to put it in
//! order; the id of every other one is read from its first commit. One that was never published is no session. One
//! that is damaged is listed as long as its id can be told, from whatever is left of it, so that reading it says what is
//! wrong; else it is listed without one. No damaged session hides another one.

use std::ffi::OsStr;

use surestep::{Nameless, Page, Revision, SessionId, SessionPage, StoreError};

use crate::check_session::id_in;
use crate::disk::{Disk, FileKind};
use crate::fault::{found, io};
use crate::layout::{Layout, Place};
use crate::{envelope, journal, names};

/// One page of sessions.
pub(crate) fn page<D: Disk>(disk: &D, layout: &Layout, page: &Page) -> Result<SessionPage, StoreError> {
    let folder = layout.sessions();
    let (mut all, mut nameless) = (Vec::new(), Vec::new());
    let names = found(disk.list(&folder)).map_err(io("cannot list", &folder))?;
    for name in names.unwrap_or_default() {
        match id_of(disk, layout, &name)? {
            None => {}
            Some(Ok(session)) => all.push(session),
            Some(Err(odd)) => nameless.push(odd),
        }
    }
    all.sort();
    nameless.sort_by(|a: &Nameless, b| a.name.cmp(&b.name));
    if let Some(after) = &page.after {
        nameless.clear();
        all.retain(|(id, _)| id > after);
    }
    let mut sessions = Vec::new();
    for (id, published) in all {
        if !published && !is_published(disk, &layout.session(&id))? {
            continue;
        }
        if sessions.len() == page.limit {
            return Ok(SessionPage { sessions, more: true, nameless });
        }
        sessions.push(id);
    }
    Ok(SessionPage { sessions, more: false, nameless })
}

/// An id, and whether its session is known to be published; or a session whose id nobody can tell.
type Told = Result<(SessionId, bool), Nameless>;

/// The id of a folder's session, and whether it is known to be published; `None` for what is not ours.
fn id_of<D: Disk>(disk: &D, layout: &Layout, name: &OsStr) -> Result<Option<Told>, StoreError> {
    let Some(name) = name.to_str() else { return Ok(None) };
    if names::is_plain(name) {
        return Ok(SessionId::new(name).ok().map(|id| Ok((id, false))));
    }
    if !names::is_hashed(name) {
        return Ok(None);
    }
    let place = layout.named(name);
    if !is_published(disk, &place)? {
        return Ok(None);
    }
    match envelope::peek(disk, &place) {
        Ok(Some(peek)) if names::of_id(peek.session.as_str()) == name => {
            return Ok(Some(Ok((peek.session, true))));
        }
        Ok(_) | Err(StoreError::Corrupt { .. }) => {}
        Err(error) => return Err(error),
    }
    // What stands in the place of a journal has no commits.
    let revisions = journal::listed(disk, &place).unwrap_or_default();
    for revision in &revisions {
        let file = place.commit(*revision);
        let Ok(bytes) = disk.read(&file) else { continue };
        if let Ok(commit) = journal::parse(&file, &bytes)
            && names::of_id(commit.session().as_str()) == name
        {
            return Ok(Some(Ok((commit.session().clone(), true))));
        }
    }
    let left = revisions.iter().filter_map(|revision| disk.read(&place.commit(*revision)).ok());
    if let Some(id) = left.into_iter().find_map(|bytes| id_in(&bytes, name)) {
        return Ok(Some(Ok((id, true))));
    }
    let file = place.commit(revisions.first().copied().unwrap_or(Revision::FIRST));
    let why = "no commit tells the id of the session".into();
    Ok(Some(Err(Nameless { name: name.to_owned(), file, why })))
}

/// Whether a session ever was published: it has a commit, or a lock that says so.
fn is_published<D: Disk>(disk: &D, place: &Place) -> Result<bool, StoreError> {
    let stat = found(disk.stat(&place.dir)).map_err(io("cannot examine", &place.dir))?;
    if stat.is_none_or(|stat| stat.kind != FileKind::Directory) {
        return Ok(false);
    }
    match journal::survey(disk, place, false) {
        Ok(survey) => Ok(!survey.is_absent()),
        Err(StoreError::Corrupt { .. } | StoreError::TooNew { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

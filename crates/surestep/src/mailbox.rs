//! A person's words for a session that somebody holds: its owner folds them in with its next commit.

use std::time::Duration;

use surestep_core::{HoldId, Me, Refused, Request, SessionId, Turn, TurnNumber, Word};

use crate::effect::Cancel;
use crate::engine::{Engine, Hands};
use crate::error::StepError;
use crate::scrub::Scrubber;
use crate::secret;

const fn rank(word: Word) -> u8 {
    match word {
        Word::Deny => 0,
        Word::Cancel => 1,
        Word::Landed | Word::NotLanded | Word::NotLandedNow | Word::Skip | Word::Approve => 2,
    }
}

/// A person's word, fit for the disk: a reason may quote a credential.
pub(crate) fn scrubbed(request: &Request) -> Request {
    let with = Scrubber::new();
    let mut request = request.clone();
    request.by = with.text(&request.by).into_owned();
    request.because = with.text(&request.because).into_owned();
    request.receipt = request.receipt.map(|receipt| secret::receipt(receipt, &with));
    request
}

impl Engine {
    /// Puts a person's word into the mailbox of a session that somebody holds.
    ///
    /// # Errors
    /// When the store could not keep it; [`Refused::Held`] for *not landed*, which cannot wait.
    pub async fn post(&self, session: &SessionId, request: &Request) -> Result<(), StepError> {
        if let (false, Some(op)) = (request.word.keeps(), request.op) {
            return Err(Refused::Held { op }.into());
        }
        let posted = self.store.request(session, &scrubbed(request)).await;
        posted.map_err(|source| StepError::Store { source, observed: None, indeterminate: false })
    }

    /// Folds in what fits. A word that does not fit is left where it is, and judged again by a later step: `not landed`
    /// may only have come too early. A word is judged once a step.
    pub(crate) fn fold(&self, mut turn: Turn, requests: &[Request], hands: &mut Hands) -> Turn {
        // A no goes before a yes, so that two words that contradict each other end in one way.
        let mut requests: Vec<&Request> = requests.iter().collect();
        requests.sort_by_key(|request| (rank(request.word), request.id.clone()));
        for request in requests {
            if turn.session().requests.contains(&request.id) || !hands.judged.insert(request.id.clone()) {
                continue;
            }
            let (folded, refused) = turn.fold(request, &self.clock.now());
            turn = folded;
            if let Some(refused) = refused {
                tracing::warn!(request = %request.id, word = ?request.word, why = %refused, "a word was refused");
            }
        }
        turn
    }

    /// The words in a session's mailbox that its owner has not folded in, and why it would not do so now. Writes nothing.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub async fn mailbox(&self, session: &SessionId) -> Result<Vec<(Request, Option<Refused>)>, StepError> {
        let loaded = self.load(session).await?;
        let Ok(hold) = HoldId::new("nobody") else { return Ok(Vec::new()) };
        let words: Vec<Request> = loaded.unfolded().cloned().collect();
        let me = Me { hold, owner: String::new(), store: self.store.id().to_owned() };
        let now = self.clock.now();
        let judge = |request: Request| {
            let turn =
                Turn::resume(loaded.envelope.clone(), me.clone(), loaded.proof.clone(), loaded.late.clone());
            let (_, refused) = turn.fold(&request, &now);
            (request, refused)
        };
        Ok(words.into_iter().map(judge).collect())
    }

    /// Looks each second whether a person cancelled the turn, and never ends.
    pub(crate) async fn watching(&self, session: &SessionId, turn: TurnNumber, cancel: &Cancel) {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let requests = self.store.requests(session).await.unwrap_or_default();
            let meant = |request: &Request| request.turn.is_none_or(|named| named == turn);
            if requests.iter().any(|request| request.word == Word::Cancel && meant(request)) {
                cancel.set();
            }
        }
    }

    /// As [`Engine::fold`], with what stands in the mailbox now. One that cannot be read is read by a later step.
    pub(crate) async fn fold_mailbox(&self, turn: Turn, hands: &mut Hands) -> Turn {
        match self.store.requests(&hands.hold.session).await {
            Ok(requests) => self.fold(turn, &requests, hands),
            Err(e) => {
                tracing::warn!(error = %e, "the mailbox cannot be read");
                turn
            }
        }
    }
}

//! Going on with a session whose store was put back to an older copy.

use surestep_core::{Digest, Epoch, Next, Revision, SessionId};

use crate::engine::{Engine, Hands, Step};
use crate::error::StepError;

impl Engine {
    /// Writes into a session's journal that its store was put back to an older copy, and that the session once got to
    /// this revision, epoch and head. Afterwards a step looks for each operation that is not settled, or asks; none is
    /// repeated blindly. A session that is gone is opened by it. Starts nothing.
    ///
    /// # Errors
    /// As [`Engine::answer`].
    pub async fn restore(
        &self,
        session: &SessionId,
        once: (Revision, Epoch, Option<Digest>),
    ) -> Result<Step, StepError> {
        let mut loaded = self.load(session).await?;
        let hold = self.hold(session).await?;
        self.reload(&mut loaded, &hold).await?;
        let mut hands = Hands::new(hold, None);
        let given = loaded.envelope.clone();
        let turn = self.take_up(loaded, &hands)?;
        let now = self.clock.now();
        let Next::Commit(staged) = turn.restore(once, &now)? else {
            return Err(StepError::NoSuchSession { session: session.clone() });
        };
        let envelope = self.commit(staged, &mut hands, &now).await?.into_envelope();
        let rest = envelope.standing(&self.clock.now());
        self.step_of(envelope, &given, rest).await
    }
}

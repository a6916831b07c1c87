//! The second port on the same file: each call is one read, or one write by whoever has the connection
//! that writes.

use async_trait::async_trait;
use memory::change::RootKey;
use memory::clock::Timestamp;
use memory::proposal::ProposalId;

use crate::error::StateError;
use crate::proposal::{AddedProposals, NewProposal, ProposalQuery, ProposalRow};
use crate::sqlite::{SqliteState, Turn, conversations, model_work, proposals, queue, sessions};
use crate::task::{
    Attempt, ConversationRow, DreamGates, End, Enqueued, LastDream, ModelWorkRow, NewTask,
    QueueLimits, RunRow, SegmentRow, SessionRow, TaskCount, TaskQuery, TaskRow, Tasks,
};

#[async_trait]
impl Tasks for SqliteState {
    async fn enqueue(&self, task: NewTask, limits: QueueLimits) -> Result<Enqueued, StateError> {
        let task = &task;
        self.write_in(Turn::Ahead, "queue a task", move |mut connection| async move {
            let answer = queue::enqueue(&mut connection, task, (limits, None)).await;
            (connection, answer)
        })
        .await
    }

    async fn enqueue_dream(
        &self,
        task: NewTask,
        limits: QueueLimits,
        gates: DreamGates,
    ) -> Result<Enqueued, StateError> {
        let task = &task;
        self.write("queue a dream", move |mut connection| async move {
            let answer = queue::enqueue(&mut connection, task, (limits, Some(gates))).await;
            (connection, answer)
        })
        .await
    }

    async fn last_dream(&self, workspace: &str) -> Result<LastDream, StateError> {
        let found = self.read("look for the last dream", move |mut connection| async move {
            let answer = sessions::last_dream(&mut connection, workspace).await;
            (connection, answer)
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn begin_next(
        &self,
        workspace: &str,
        at: Timestamp,
    ) -> Result<Option<TaskRow>, StateError> {
        const WANTED: &str = "begin a task";
        if !self.is_there(WANTED)? {
            return Ok(None);
        }
        self.write(WANTED, move |mut connection| async move {
            let answer = queue::begin_next(&mut connection, workspace, at).await;
            (connection, answer)
        })
        .await
    }

    async fn running(&self, workspace: &str) -> Result<Vec<TaskRow>, StateError> {
        let found = self.read("read the running tasks", move |mut connection| async move {
            let answer = queue::running(&mut connection, workspace).await;
            (connection, answer)
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn fail_unreadable(
        &self,
        workspace: &str,
        end: End<'_>,
        at: Timestamp,
    ) -> Result<u64, StateError> {
        const WANTED: &str = "fail a task that cannot be read";
        let found = self.read(WANTED, move |mut connection| async move {
            let answer = queue::unreadable(&mut connection, workspace).await;
            (connection, answer)
        });
        let found = found.await?.unwrap_or_default();
        if found.is_empty() {
            return Ok(0);
        }
        let found = &found;
        self.write(WANTED, move |mut connection| async move {
            let answer = queue::fail_unreadable(&mut connection, (found, end), at).await;
            (connection, answer)
        })
        .await
    }

    async fn prepare_outcome(
        &self,
        attempt: Attempt<'_>,
        outcome: &str,
    ) -> Result<bool, StateError> {
        const WANTED: &str = "prepare the end of a task";
        if !self.is_there(WANTED)? {
            return Ok(false);
        }
        self.write(WANTED, move |mut connection| async move {
            let answer = queue::prepare_outcome(&mut connection, attempt, outcome).await;
            (connection, answer)
        })
        .await
    }

    async fn requeue(&self, attempt: Attempt<'_>, at: Timestamp) -> Result<bool, StateError> {
        const WANTED: &str = "put a task back";
        if !self.is_there(WANTED)? {
            return Ok(false);
        }
        self.write(WANTED, move |mut connection| async move {
            let answer = queue::requeue(&mut connection, attempt, at).await;
            (connection, answer)
        })
        .await
    }

    async fn finish_task(
        &self,
        attempt: Attempt<'_>,
        end: End<'_>,
        at: Timestamp,
    ) -> Result<bool, StateError> {
        const WANTED: &str = "finish a task";
        if !self.is_there(WANTED)? {
            return Ok(false);
        }
        self.write(WANTED, move |mut connection| async move {
            let answer = queue::finish(&mut connection, (attempt, end), at).await;
            (connection, answer)
        })
        .await
    }

    async fn give_up(&self, id: &str, end: End<'_>, at: Timestamp) -> Result<bool, StateError> {
        const WANTED: &str = "take a task back";
        if !self.is_there(WANTED)? {
            return Ok(false);
        }
        self.write(WANTED, move |mut connection| async move {
            let answer = queue::give_up(&mut connection, (id, end), at).await;
            (connection, answer)
        })
        .await
    }

    async fn drop_ended(&self, before: Timestamp) -> Result<u64, StateError> {
        const WANTED: &str = "drop old tasks";
        // Looked at first: to write is to wait for others who write.
        let found = self.read(WANTED, move |mut connection| async move {
            let answer = queue::has_ended(&mut connection, before).await;
            (connection, answer)
        });
        if found.await? != Some(true) {
            return Ok(0);
        }
        self.write(WANTED, move |mut connection| async move {
            let answer = queue::drop_ended(&mut connection, before).await;
            (connection, answer)
        })
        .await
    }

    async fn count_tasks(&self, ended_since: Timestamp) -> Result<Vec<TaskCount>, StateError> {
        let found = self.read("count tasks", move |mut connection| async move {
            let answer = queue::count(&mut connection, ended_since).await;
            (connection, answer)
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn task(&self, id: &str) -> Result<Option<TaskRow>, StateError> {
        let found = self.read("read a task", move |mut connection| async move {
            let answer = queue::one(&mut connection, id).await;
            (connection, answer)
        });
        Ok(found.await?.flatten())
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRow>, StateError> {
        let found = self.read("read tasks", move |mut connection| async move {
            let answer = queue::find(&mut connection, query).await;
            (connection, answer)
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn workspaces_with_work(&self) -> Result<Vec<String>, StateError> {
        let found = self.read("look for unfinished tasks", move |mut connection| async move {
            let answer = queue::workspaces_with_work(&mut connection).await;
            (connection, answer)
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn add_session(&self, session: SessionRow) -> Result<(), StateError> {
        let session = &session;
        self.write("register a session", move |mut connection| async move {
            let answer = sessions::add(&mut connection, session).await;
            (connection, answer)
        })
        .await
    }

    async fn end_session(&self, id: &str) -> Result<bool, StateError> {
        const WANTED: &str = "end a session";
        if !self.is_there(WANTED)? {
            return Ok(false);
        }
        self.write(WANTED, move |mut connection| async move {
            let answer = sessions::end(&mut connection, id).await;
            (connection, answer)
        })
        .await
    }

    async fn session(&self, id: &str) -> Result<Option<SessionRow>, StateError> {
        let found = self.read("read a session", move |mut connection| async move {
            let answer = sessions::one(&mut connection, id).await;
            (connection, answer)
        });
        Ok(found.await?.flatten())
    }

    async fn sessions(&self, workspace: &str) -> Result<Vec<SessionRow>, StateError> {
        let found = self.read("read sessions", move |mut connection| async move {
            let answer = sessions::of_workspace(&mut connection, workspace).await;
            (connection, answer)
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn has_client(&self, workspace: &str, client: &str) -> Result<bool, StateError> {
        let found = self.read("look for a client", move |mut connection| async move {
            let answer = sessions::has_client(&mut connection, workspace, client).await;
            (connection, answer)
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn conversation(&self, id: &str) -> Result<Option<ConversationRow>, StateError> {
        let found = self.read("read a conversation", move |mut connection| async move {
            let answer = conversations::one(&mut connection, id).await;
            (connection, answer)
        });
        Ok(found.await?.flatten())
    }

    async fn keep_conversation(&self, row: ConversationRow) -> Result<bool, StateError> {
        let row = &row;
        self.write("keep a conversation", move |mut connection| async move {
            let answer = conversations::keep(&mut connection, row).await;
            (connection, answer)
        })
        .await
    }

    async fn drop_watched(&self) -> Result<u64, StateError> {
        let found = self.read("look for texts of turns", move |mut connection| async move {
            let answer = conversations::has_watched(&mut connection).await;
            (connection, answer)
        });
        if found.await? != Some(true) {
            return Ok(0);
        }
        self.write("drop texts of turns", move |mut connection| async move {
            let answer = conversations::drop_watched(&mut connection).await;
            (connection, answer)
        })
        .await
    }

    async fn keep_conversation_and_queue(
        &self,
        row: ConversationRow,
        review: NewTask,
        unfinished_max: usize,
    ) -> Result<bool, StateError> {
        let wanted = (&row, &review, unfinished_max);
        self.write("keep a conversation and queue its review", move |mut connection| async move {
            let answer = conversations::keep_and_queue(&mut connection, wanted).await;
            (connection, answer)
        })
        .await
    }

    async fn segment(&self, conversation: &str) -> Result<Option<SegmentRow>, StateError> {
        let found = self.read("read a segment", move |mut connection| async move {
            let answer = conversations::segment(&mut connection, conversation).await;
            (connection, answer)
        });
        Ok(found.await?.flatten())
    }

    async fn keep_segment(&self, row: SegmentRow) -> Result<bool, StateError> {
        let row = &row;
        self.write("keep a segment", move |mut connection| async move {
            let answer = conversations::keep_segment(&mut connection, row).await;
            (connection, answer)
        })
        .await
    }

    async fn add_run(&self, run: RunRow) -> Result<(), StateError> {
        let run = &run;
        self.write("note a run", move |mut connection| async move {
            let answer = sessions::add_run(&mut connection, run).await;
            (connection, answer)
        })
        .await
    }

    async fn end_run(
        &self,
        attempt: Attempt<'_>,
        outcome: &str,
        at: Timestamp,
    ) -> Result<(), StateError> {
        const WANTED: &str = "note the end of a run";
        if !self.is_there(WANTED)? {
            return Ok(());
        }
        self.write(WANTED, move |mut connection| async move {
            let answer = sessions::end_run(&mut connection, attempt, outcome, at).await;
            (connection, answer)
        })
        .await
    }

    async fn runs(&self, task: &str) -> Result<Vec<RunRow>, StateError> {
        let found = self.read("read runs", move |mut connection| async move {
            let answer = sessions::runs(&mut connection, task).await;
            (connection, answer)
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn add_model_work(&self, row: ModelWorkRow) -> Result<(), StateError> {
        let row = &row;
        self.write("note what a model did", move |mut connection| async move {
            let answer = model_work::add(&mut connection, row).await;
            (connection, answer)
        })
        .await
    }

    async fn model_work(
        &self,
        workspace: Option<&str>,
        before: Option<u64>,
        max: usize,
    ) -> Result<Vec<ModelWorkRow>, StateError> {
        let found = self.read("read what models did", move |mut connection| async move {
            let answer = model_work::list(&mut connection, workspace, before, max).await;
            (connection, answer)
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn background_tokens(&self, since: Timestamp) -> Result<u64, StateError> {
        let found = self.read("sum what models did", move |mut connection| async move {
            let answer = model_work::background_tokens(&mut connection, since).await;
            (connection, answer)
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn add_proposals(&self, new: &[NewProposal]) -> Result<AddedProposals, StateError> {
        if new.is_empty() {
            return Ok(AddedProposals::default());
        }
        self.write("add proposals", move |mut connection| async move {
            let answer = proposals::add(&mut connection, new).await;
            (connection, answer)
        })
        .await
    }

    async fn proposals(&self, query: &ProposalQuery) -> Result<Vec<ProposalRow>, StateError> {
        let found = self.read("read proposals", move |mut connection| async move {
            let answer = proposals::find(&mut connection, query).await;
            (connection, answer)
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn count_proposals(&self, roots: &[RootKey]) -> Result<u64, StateError> {
        let found = self.read("count proposals", move |mut connection| async move {
            let answer = proposals::count(&mut connection, roots).await;
            (connection, answer)
        });
        Ok(found.await?.unwrap_or_default())
    }

    async fn proposal(&self, id: ProposalId) -> Result<Option<ProposalRow>, StateError> {
        let found = self.read("read a proposal", move |mut connection| async move {
            let answer = proposals::one(&mut connection, id).await;
            (connection, answer)
        });
        Ok(found.await?.flatten())
    }

    async fn withdraw_proposals(&self, ids: &[ProposalId]) -> Result<(), StateError> {
        const WANTED: &str = "withdraw proposals";
        if ids.is_empty() || !self.is_there(WANTED)? {
            return Ok(());
        }
        self.write(WANTED, move |mut connection| async move {
            let answer = proposals::withdraw(&mut connection, ids).await;
            (connection, answer)
        })
        .await
    }

    async fn reject_proposal(&self, id: ProposalId, at: Timestamp) -> Result<bool, StateError> {
        const WANTED: &str = "reject a proposal";
        if !self.is_there(WANTED)? {
            return Ok(false);
        }
        self.write(WANTED, move |mut connection| async move {
            let answer = proposals::reject(&mut connection, id, at).await;
            (connection, answer)
        })
        .await
    }
}

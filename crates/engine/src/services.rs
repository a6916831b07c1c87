//! The services of a long-running process: lanes, feeds, the session registry, conversations and
//! recall.
//!
//! [`Engine::serve`] starts them with one background task, which publishes changes, maintains lanes
//! and keeps recall up to date.

use std::sync::Arc;

use state::StateError;
use store::{Caller, Memories};
use tokio::task::JoinHandle;

use crate::conversation::Conversations;
use crate::engine::Engine;
use crate::feed::{Feed, Feeds};
use crate::lane::{LaneSettings, Lanes, ModelSpending};
use crate::models::ModelJob;
use crate::recall_service::RecallService;
use crate::reranker::Reranker;
use crate::retriever::Retriever;
use crate::runner::Runner;
use crate::sessions::SessionRegistry;
use crate::workspace::Workspace;

/// The services of some workspaces. Dropping them stops the background task, so that changes are no
/// longer published.
#[derive(Debug)]
pub struct RunningServices {
    /// Runs tasks.
    pub lanes: Lanes,
    /// Publishes changes.
    pub feeds: Arc<Feeds>,
    /// The registered sessions.
    pub sessions: SessionRegistry,
    /// The conversations, with the memories they were shown.
    pub conversations: Conversations,
    /// Finds the memories that fit a prompt.
    pub recaller: Arc<RecallService>,
    /// Has a model choose among them for conversations, if one is configured.
    pub reranker: Option<Reranker>,
    background: JoinHandle<()>,
}

impl Drop for RunningServices {
    fn drop(&mut self) {
        self.background.abort();
    }
}

impl RunningServices {
    /// Returns the totals of models in this process, by job, model and outcome.
    pub fn spending(&self) -> Vec<((&'static str, String, &'static str), ModelSpending)> {
        let of_lanes = self.lanes.spending().into_iter();
        let of_lanes =
            of_lanes.map(|((kind, model, ended), spent)| ((kind.as_str(), model, ended), spent));
        let of_recall = self.reranker.iter().flat_map(Reranker::spending);
        let job = ModelJob::Recall.as_ref();
        let of_recall = of_recall.map(|((model, ended), spent)| ((job, model, ended), spent));
        of_lanes.chain(of_recall).collect()
    }
}

impl Engine {
    /// Starts the services for these workspaces, and continues tasks that an earlier process left.
    /// Tasks run in this process.
    pub async fn serve(
        &self,
        workspaces: &[Workspace],
        settings: LaneSettings,
    ) -> Result<RunningServices, StateError> {
        self.serve_with(self.runner(), workspaces, settings).await
    }

    /// Does the same, with tasks run by `runner`.
    pub async fn serve_with(
        &self,
        runner: Arc<dyn Runner>,
        workspaces: &[Workspace],
        settings: LaneSettings,
    ) -> Result<RunningServices, StateError> {
        let feeds = self.feeds();
        for workspace in workspaces {
            self.open_feed(&feeds, workspace);
        }
        let lanes = self.lanes_with(runner, settings, Arc::clone(&feeds) as Arc<dyn Feed>);
        let sessions = self.sessions(Arc::clone(&feeds));
        let recaller = self.recaller();
        let reranker = self.reranker();
        let retriever: Arc<dyn Retriever> = match &reranker {
            Some(reranker) => Arc::new(reranker.clone()),
            None => Arc::clone(&recaller) as Arc<dyn Retriever>,
        };
        let conversations = self.reviewed_conversations(retriever, &lanes, workspaces);
        let publishing = self.follow(Arc::clone(&feeds));
        if self.review().interval == 0 {
            self.storage.state.drop_watched().await?;
        }
        // Left tasks are resumed before any new one is accepted.
        lanes.resume(workspaces).await?;
        let background_lanes = lanes.clone();
        let (lane_changes, recall_changes) = (self.subscribe(), self.subscribe());
        let background_recall = Arc::clone(&recaller);
        let memories_of =
            |workspace: &Workspace| self.memories(&workspace.binding, Caller::person("recall"));
        let first_memories = workspaces.first().map(memories_of);
        let publishing = tokio::spawn(async move {
            tokio::join!(
                publishing,
                background_lanes.follow(lane_changes),
                background_lanes.maintain(),
                background_recall.follow(recall_changes),
                background_recall.persist_loop(),
                background_recall.embed_missing_loop(),
                // Prepared only for the first workspace, so that its first prompts are fast; others
                // are prepared on first use.
                prepare_recall(&background_recall, first_memories),
            );
        });
        Ok(RunningServices {
            lanes,
            feeds,
            sessions,
            conversations,
            recaller,
            reranker,
            background: publishing,
        })
    }
}

impl Engine {
    fn open_feed(&self, feeds: &Feeds, workspace: &Workspace) {
        let memories = self.memories(&workspace.binding, Caller::person("feed"));
        if workspace.trusted {
            feeds.open(&workspace.id, &memories);
        } else {
            feeds.open_untrusted(&workspace.id, &memories);
        }
    }

    /// Adds a workspace to running services, and continues tasks that an earlier process left there.
    pub async fn serve_workspace(
        &self,
        services: &RunningServices,
        workspace: &Workspace,
    ) -> Result<(), StateError> {
        self.open_feed(&services.feeds, workspace);
        services.lanes.register(workspace);
        services.lanes.resume(std::slice::from_ref(workspace)).await
    }
}

async fn prepare_recall(recaller: &RecallService, memories: Option<Memories>) {
    let Some(memories) = memories else { return };
    if let Err(error) = recaller.prepare(&memories).await {
        tracing::warn!(%error, "error while preparing recall");
    }
}

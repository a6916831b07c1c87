//! What a process that serves others keeps going: lanes, feeds, and who is registered.

use std::sync::Arc;

use state::{StateError, TaskStore as _};
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

/// What is kept going for some workspaces. Whoever drops it tells no changes any more.
#[derive(Debug)]
pub struct RunningServices {
    /// Carries tasks out.
    pub lanes: Lanes,
    /// Tells what changes.
    pub feeds: Arc<Feeds>,
    /// Knows who is registered.
    pub sessions: SessionRegistry,
    /// Knows who was shown what.
    pub conversations: Conversations,
    /// Finds what fits a prompt.
    pub recaller: Arc<RecallService>,
    /// Has a model choose among that, for conversations, if a person named one.
    pub reranker: Option<Reranker>,
    background: JoinHandle<()>,
}

impl Drop for RunningServices {
    fn drop(&mut self) {
        self.background.abort();
    }
}

impl RunningServices {
    /// Returns what models did in this process so far, by the work, the model and how it ended.
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
    /// Opens lanes and feeds for these workspaces, and goes on with what earlier lives left to be done. Tasks are done in
    /// this process.
    pub async fn serve(
        &self,
        workspaces: &[Workspace],
        settings: LaneSettings,
    ) -> Result<RunningServices, StateError> {
        self.serve_with(self.runner(), workspaces, settings).await
    }

    /// The same with tasks that this runner does.
    pub async fn serve_with(
        &self,
        runner: Arc<dyn Runner>,
        workspaces: &[Workspace],
        settings: LaneSettings,
    ) -> Result<RunningServices, StateError> {
        let feeds = self.feeds();
        for workspace in workspaces {
            let memories = self.memories(&workspace.binding, Caller::person("feed"));
            if workspace.trusted {
                feeds.open(&workspace.id, &memories);
            } else {
                feeds.open_untrusted(&workspace.id, &memories);
            }
        }
        let lanes = self.lanes_with(runner, settings, Arc::clone(&feeds) as Arc<dyn Feed>);
        let callers = self.sessions(Arc::clone(&feeds));
        let recaller = self.recaller();
        let reranker = self.reranker();
        let select: Arc<dyn Retriever> = match &reranker {
            Some(reranker) => Arc::new(reranker.clone()),
            None => Arc::clone(&recaller) as Arc<dyn Retriever>,
        };
        let conversations = self.reviewed_conversations(select, &lanes, workspaces);
        let following = self.follow(Arc::clone(&feeds));
        if self.review().interval == 0 {
            self.state.drop_watched().await?;
        }
        // What was left is gone on with before anything new is taken.
        lanes.resume(workspaces).await?;
        let maintained = lanes.clone();
        let (of_lanes, of_memories) = (self.subscribe(), self.subscribe());
        let finds = Arc::clone(&recaller);
        let looking =
            |workspace: &Workspace| self.memories(&workspace.binding, Caller::person("recall"));
        let first = workspaces.first().map(looking);
        let following = tokio::spawn(async move {
            tokio::join!(
                following,
                maintained.follow(of_lanes),
                maintained.maintain(),
                finds.follow(of_memories),
                finds.persist_loop(),
                finds.embed_missing_loop(),
                // Its first prompts find what they need; those of another folder wait until it is opened.
                prepare_recall(&finds, first),
            );
        });
        Ok(RunningServices {
            lanes,
            feeds,
            sessions: callers,
            conversations,
            recaller,
            reranker,
            background: following,
        })
    }
}

async fn prepare_recall(recaller: &RecallService, memories: Option<Memories>) {
    let Some(memories) = memories else { return };
    if let Err(error) = recaller.prepare(&memories).await {
        tracing::warn!(%error, "memories cannot be looked at ahead");
    }
}

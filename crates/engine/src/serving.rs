//! What a process that serves others keeps going: lanes, feeds, and who is registered.

use std::sync::Arc;

use state::{StateError, TaskStore as _};
use store::{Caller, Memories};
use tokio::task::JoinHandle;

use crate::callers::Callers;
use crate::conversation::Conversations;
use crate::feed::{Feed, Feeds};
use crate::lane::{LaneSettings, Lanes, Spent};
use crate::models::ModelJob;
use crate::open::Engine;
use crate::recaller::Recaller;
use crate::reranker::Reranker;
use crate::runner::Runner;
use crate::select::Select;
use crate::workspace::Workspace;

/// What is kept going for some workspaces. Whoever drops it tells no changes any more.
#[derive(Debug)]
pub struct Serving {
    /// Carries tasks out.
    pub lanes: Lanes,
    /// Tells what changes.
    pub feeds: Arc<Feeds>,
    /// Knows who is registered.
    pub callers: Callers,
    /// Knows who was shown what.
    pub conversations: Conversations,
    /// Finds what fits a prompt.
    pub recaller: Arc<Recaller>,
    /// Has a model choose among that, for conversations, if a person named one.
    pub reranker: Option<Reranker>,
    following: JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl Serving {
    /// Returns what models did in this process so far, by the work, the model and how it ended.
    pub fn spent(&self) -> Vec<((&'static str, String, &'static str), Spent)> {
        let of_lanes = self.lanes.spent().into_iter();
        let of_lanes =
            of_lanes.map(|((kind, model, ended), spent)| ((kind.as_str(), model, ended), spent));
        let of_recall = self.reranker.iter().flat_map(Reranker::spent);
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
    ) -> Result<Serving, StateError> {
        self.serve_with(self.runner(), workspaces, settings).await
    }

    /// The same with tasks that this runner does.
    pub async fn serve_with(
        &self,
        runner: Arc<dyn Runner>,
        workspaces: &[Workspace],
        settings: LaneSettings,
    ) -> Result<Serving, StateError> {
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
        let callers = self.callers(Arc::clone(&feeds));
        let recaller = self.recaller();
        let reranker = self.reranker();
        let select: Arc<dyn Select> = match &reranker {
            Some(reranker) => Arc::new(reranker.clone()),
            None => Arc::clone(&recaller) as Arc<dyn Select>,
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
                finds.keep_up(),
                finds.fill_up(),
                // Its first prompts find what they need; those of another folder wait until it is opened.
                look_ahead(&finds, first),
            );
        });
        Ok(Serving { lanes, feeds, callers, conversations, recaller, reranker, following })
    }
}

async fn look_ahead(recaller: &Recaller, memories: Option<Memories>) {
    let Some(memories) = memories else { return };
    if let Err(error) = recaller.prepare(&memories).await {
        tracing::warn!(%error, "memories cannot be looked at ahead");
    }
}

//! The context files of a project on another machine, loaded there in one call.
//!
//! The person's settings, and the folders that they trust on that machine, are sent along. The far side finds and reads
//! the files of the project alone, by the rules of a local project. What it sends is checked here.

use std::sync::Arc;

use async_trait::async_trait;

use super::link::Link;
use super::place::KnownPlace;
use super::wire::context::ContextRequest;
use super::wire::{self, Malformed, Operation, Reply};
use crate::backend::BackendError;
use crate::context_files::load::{ContextFileSet, ProjectLoad, RemoteProjectFiles};
use crate::remote_folder::RemoteFolder;

/// Loads the context files of a project on another machine.
#[derive(Clone, Debug)]
pub(crate) struct RemoteContext {
    link: Arc<Link>,
    folder: RemoteFolder,
    place: KnownPlace,
}

impl RemoteContext {
    pub(crate) const fn new(link: Arc<Link>, folder: RemoteFolder, place: KnownPlace) -> Self {
        Self { link, folder, place }
    }
}

#[async_trait]
impl RemoteProjectFiles for RemoteContext {
    fn folder(&self) -> &RemoteFolder {
        &self.folder
    }

    async fn load(&self, load: &ProjectLoad) -> Result<ContextFileSet, BackendError> {
        let session = self.link.session().await?;
        let request = ContextRequest {
            folder: self.folder.path().to_vec(),
            names: load.names.clone(),
            project_folders: load.project_folders.clone(),
            host_loaded: load.host_loaded.clone(),
            trusted: load.trusted.iter().map(|folder| folder.path().to_vec()).collect(),
            files_max: wire::number(load.files_max),
            bytes_max: wire::number(load.bytes_max),
        };
        let reply = session.call(0, Operation::LoadContext(request)).await?;
        let Reply::Context { place, files } = reply else { return Err(Malformed.into()) };
        self.place.check(&place).await?;
        Ok(files.check(&self.folder, load)?)
    }
}

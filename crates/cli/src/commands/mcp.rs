//! `lukasa mcp`: the MCP server for an agent, on stdin and stdout.

use engine::{BindingRequest, Caller};
use memory::access::AgentClass;
use memory::change::Provenance;
use memory::error_code::MemoryErrorCode;
use server::mcp::{McpConfig, ProjectSource, serve_stdio};

use crate::app::App;
use crate::args::Mcp;
use crate::exit::{Failure, Status, chain};

/// Serves until the client leaves.
pub(crate) async fn run(app: &App, args: &Mcp) -> Result<Status, Failure> {
    let class = AgentClass::from_name(Some(&args.agent_class));
    if class.as_ref() != args.agent_class {
        app.output.warning(&format!(
            "unknown agent class `{}`; the agent may only read, as with `explore`",
            args.agent_class
        ));
    }
    let mut provenance = Provenance::agent("mcp");
    provenance.session.clone_from(&args.session);
    let binding = BindingRequest { read_only: args.read_only, ..app.binding.clone() };
    // A project or folder named on the command line takes precedence over the client's roots.
    let named = app.globals.project.is_some() || app.globals.flat.is_some();
    let project = if named { ProjectSource::Binding } else { ProjectSource::ClientRoots };
    let host = McpConfig {
        engine: app.engine.clone(),
        binding,
        caller: Caller::new(class, provenance),
        project,
        remote_hosts: app.settings.remote_hosts(),
    };
    let recaller = app.engine.recaller();
    let served = tokio::select! {
        served = Box::pin(serve_stdio(host)) => served,
        () = recaller.embed_in_background() => Ok(()),
    };
    match served {
        Ok(()) => Ok(Status::Done),
        Err(error) => Err(Failure::new(MemoryErrorCode::StorageFailed, chain(&error))),
    }
}

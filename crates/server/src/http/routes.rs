//! The registration of routes: path and method come from the `#[utoipa::path]` attribute of a handler.
//!
//! Each route names the feature that it needs. A middleware (`owners.rs`) refuses requests for a disabled feature, and
//! those without the right to use the route, before the handler runs. The OpenAPI description is built from the same attributes, but only in tests: the program embeds the
//! finished document (see `openapi.rs`).

use std::collections::HashMap;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter};
use memory::owner::Role;
use utoipa::openapi::HttpMethod;

/// The features that a route can need, by the names that [`routes!`] uses.
pub(super) mod needs {
    use memory::feature::Feature;

    pub(in super::super) type FeatureGate = Option<Feature>;

    /// For routes about the daemon itself, which are always on.
    pub(in super::super) const NOTHING: FeatureGate = None;
    pub(in super::super) const MEMORY: FeatureGate = Some(Feature::Memory);
    pub(in super::super) const TOOL: FeatureGate = Some(Feature::Tool);
    pub(in super::super) const TASKS: FeatureGate = Some(Feature::Tasks);
    pub(in super::super) const RECALL: FeatureGate = Some(Feature::Recall);
    pub(in super::super) const CONTEXT_FILES: FeatureGate = Some(Feature::ContextFiles);
    pub(in super::super) const SAVE_MEMORY: FeatureGate = Some(Feature::SaveMemory);
    pub(in super::super) const MODELS: FeatureGate = Some(Feature::Models);
    pub(in super::super) const PAGE: FeatureGate = Some(Feature::Page);
}

/// The required feature of each route, by method and path.
pub(super) type RequiredFeatures = HashMap<(Method, String), needs::FeatureGate>;

/// A set of routes; in tests, with their description.
#[derive(Default)]
pub(super) struct Routes {
    router: Router,
    needs: RequiredFeatures,
    #[cfg(test)]
    description: description::Description,
}

/// The handlers of one path.
#[derive(Default)]
pub(super) struct Route {
    path: String,
    methods: MethodRouter,
    needs: Vec<(Method, needs::FeatureGate)>,
    #[cfg(test)]
    description: description::Description,
}

/// Makes a [`Route`] of handlers whose `#[utoipa::path]` has the same path.
macro_rules! routes {
    ($($handler:ident: $needs:ident),+ $(,)?) => { pastey::paste! {
        $crate::http::routes::Route::default()
            $( .on::<_, [<__path_ $handler>], _>(&$handler, $crate::http::routes::needs::$needs) )+
    }};
}
pub(super) use routes;

impl Routes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds the handlers of a path.
    pub(super) fn add(mut self, route: Route) -> Self {
        let needs = route.needs.into_iter();
        self.needs.extend(needs.map(|(method, needs)| ((method, route.path.clone()), needs)));
        self.router = self.router.route(&route.path, route.methods);
        #[cfg(test)]
        self.description.merge(route.description);
        self
    }

    /// Adds a route twice: as it is, for the daemon's first workspace, and with `/workspaces/{workspace}/` in place of
    /// `/workspace/`.
    pub(super) fn in_workspaces(self, route: Route) -> Self {
        let named = route.in_named_workspace();
        self.add(route).add(named)
    }

    /// Adds the routes of another set.
    pub(super) fn merge(mut self, others: Self) -> Self {
        self.router = self.router.merge(others.router);
        self.needs.extend(others.needs);
        #[cfg(test)]
        self.description.merge(others.description);
        self
    }

    /// Returns the router, and the features that its routes need.
    pub(super) fn into_router(self) -> (Router, RequiredFeatures) {
        (self.router, self.needs)
    }

    /// Returns the OpenAPI description of the routes.
    #[cfg(test)]
    pub(super) fn into_description(self) -> utoipa::openapi::OpenApi {
        self.description.into_openapi()
    }
}

impl Route {
    /// Returns this route with the workspace as part of the path.
    fn in_named_workspace(&self) -> Self {
        Self {
            path: in_named_workspace(&self.path),
            methods: self.methods.clone(),
            needs: self.needs.clone(),
            #[cfg(test)]
            description: self.description.in_named_workspace(),
        }
    }

    /// Adds a handler for the methods that `P` declares.
    #[cfg(not(test))]
    pub(super) fn on<T, P: utoipa::Path, H>(self, handler: &H, needs: needs::FeatureGate) -> Self
    where
        T: 'static,
        H: Handler<T, ()>,
    {
        self.mount::<T, P, H>(handler, needs)
    }

    /// Adds a handler for the methods that `P` declares, and their description.
    #[cfg(test)]
    pub(super) fn on<T, P, H>(mut self, handler: &H, needs: needs::FeatureGate) -> Self
    where
        T: 'static,
        P: for<'t> description::DescribedRoute<'t>,
        H: Handler<T, ()>,
    {
        self.description.add::<P>();
        self.mount::<T, P, H>(handler, needs)
    }

    fn mount<T, P: utoipa::Path, H>(mut self, handler: &H, needs: needs::FeatureGate) -> Self
    where
        T: 'static,
        H: Handler<T, ()>,
    {
        self.path = P::path();
        for method in P::methods() {
            let method = to_http_method(&method);
            let filter = MethodFilter::try_from(method.clone()).expect("a method of HTTP");
            self.methods = self.methods.on(filter, handler.clone());
            self.needs.push((method, needs));
        }
        self
    }
}

fn in_named_workspace(path: &str) -> String {
    path.replacen("/workspace/", "/workspaces/{workspace}/", 1)
}

/// The right that a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequiredRight {
    /// A token with this role, or a higher one.
    Role(Role),
    /// The daemon's own token: the route is about the machine of the daemon.
    Operator,
}

/// Returns the right that a route needs, by method and path. What is neither listed here nor a read changes something.
pub(super) fn required_right(method: &Method, route: &str) -> RequiredRight {
    match (method.as_str(), route) {
        (_, "/metrics" | "/v1/settings" | "/v1/settings/{key}" | "/v1/trust" | "/ui/tickets") => {
            RequiredRight::Operator
        }
        (_, "/v1/tokens" | "/v1/tokens/{id}") => RequiredRight::Role(Role::Admin),
        // A reader has the agent class that only reads. A login needs no token.
        ("POST", "/v1/tool" | "/ui/session") | (_, "/mcp") | ("GET", _) => {
            RequiredRight::Role(Role::Read)
        }
        _ => RequiredRight::Role(Role::Write),
    }
}

fn to_http_method(method: &HttpMethod) -> Method {
    match method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Post => Method::POST,
        HttpMethod::Head => Method::HEAD,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Trace => Method::TRACE,
        HttpMethod::Delete => Method::DELETE,
        HttpMethod::Options => Method::OPTIONS,
    }
}

#[cfg(test)]
mod description {
    use protocol::error::ErrorBody;
    use protocol::task::TaskKind;
    use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
    use utoipa::openapi::{
        ComponentsBuilder, OpenApi, OpenApiBuilder, Paths, RefOr, Required, Schema,
    };
    use utoipa::{__dev, PartialSchema as _, Path, ToSchema as _};

    /// The traits that `#[utoipa::path]` implements for a handler.
    pub(in super::super) trait DescribedRoute<'t>:
        Path + __dev::Tags<'t> + __dev::SchemaReferences
    {
    }

    impl<'t, P: Path + __dev::Tags<'t> + __dev::SchemaReferences> DescribedRoute<'t> for P {}

    fn workspace_parameter() -> Parameter {
        ParameterBuilder::new()
            .name("workspace")
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some("The id of the workspace"))
            .schema(Some(String::schema()))
            .build()
    }

    #[derive(Default)]
    pub(super) struct Description {
        paths: Paths,
        schemas: Vec<(String, RefOr<Schema>)>,
    }

    impl Description {
        pub(super) fn add<P: for<'t> DescribedRoute<'t>>(&mut self) {
            let mut operation = P::operation();
            let tags = P::tags();
            if !tags.is_empty() {
                let all = operation.tags.get_or_insert_default();
                all.extend(tags.into_iter().map(str::to_owned));
            }
            self.paths.add_path_operation(P::path(), P::methods(), operation);
            P::schemas(&mut self.schemas);
        }

        /// Returns this description with the workspace as part of the path.
        pub(super) fn in_named_workspace(&self) -> Self {
            let mut paths = Paths::new();
            for (path, item) in &self.paths.paths {
                let mut item = item.clone();
                let operations = [&mut item.get, &mut item.post, &mut item.delete];
                for operation in operations.into_iter().flatten() {
                    operation.operation_id = operation.operation_id.take().map(|id| id + "_in");
                    let summary = operation.summary.take();
                    operation.summary =
                        summary.map(|text| text.replace("the first workspace", "any workspace"));
                    operation.description = None;
                    let parameters = operation.parameters.get_or_insert_default();
                    parameters.insert(0, workspace_parameter().into());
                }
                paths.paths.insert(super::in_named_workspace(path), item);
            }
            Self { paths, schemas: Vec::new() }
        }

        pub(super) fn merge(&mut self, other: Self) {
            self.paths.merge(other.paths);
            self.schemas.extend(other.schemas);
        }

        pub(super) fn into_openapi(self) -> OpenApi {
            // Only parameters name `TaskKind` and only `ErrorResponse` names `ErrorBody`; the macro does not collect
            // the schemas of either.
            let mut schemas = self.schemas;
            schemas.push((TaskKind::name().into_owned(), TaskKind::schema()));
            schemas.push((ErrorBody::name().into_owned(), ErrorBody::schema()));
            ErrorBody::schemas(&mut schemas);
            let components = ComponentsBuilder::new().schemas_from_iter(schemas).build();
            OpenApiBuilder::new().paths(self.paths).components(Some(components)).build()
        }
    }
}

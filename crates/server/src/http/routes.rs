//! Routes as they are declared: what `#[utoipa::path]` says beside a handler is where it is served.
//!
//! The description of all routes is made from the same declarations, but in tests only: the program
//! carries what came of it, not what it takes to make it.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter};
use utoipa::openapi::HttpMethod;

use super::daemon::Shared;

/// Routes, with their description in tests.
#[derive(Default)]
pub(super) struct Routes {
    router: Router<Shared>,
    #[cfg(test)]
    description: description::Description,
}

/// What is served at one path.
#[derive(Default)]
pub(super) struct Route {
    path: String,
    methods: MethodRouter<Shared>,
    #[cfg(test)]
    description: description::Description,
}

/// Makes a [`Route`] of handlers that are declared by `#[utoipa::path]` with the same path.
macro_rules! routes {
    ($($handler:ident),+ $(,)?) => { pastey::paste! {
        $crate::http::routes::Route::default()
            $( .on::<_, [<__path_ $handler>], _>(&$handler) )+
    }};
}
pub(super) use routes;

impl Routes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds what is served at one more path.
    pub(super) fn routes(mut self, route: Route) -> Self {
        self.router = self.router.route(&route.path, route.methods);
        #[cfg(test)]
        self.description.merge(route.description);
        self
    }

    /// Adds other routes.
    pub(super) fn merge(mut self, others: Self) -> Self {
        self.router = self.router.merge(others.router);
        #[cfg(test)]
        self.description.merge(others.description);
        self
    }

    /// Returns what axum serves.
    pub(super) fn into_router(self) -> Router<Shared> {
        self.router
    }

    /// Returns the paths with what they describe.
    #[cfg(test)]
    pub(super) fn into_description(self) -> utoipa::openapi::OpenApi {
        self.description.into_openapi()
    }
}

impl Route {
    /// Serves the methods that `P` declares by a handler.
    #[cfg(not(test))]
    pub(super) fn on<T, P: utoipa::Path, H>(self, handler: &H) -> Self
    where
        T: 'static,
        H: Handler<T, Shared>,
    {
        self.served::<T, P, H>(handler)
    }

    /// Serves the methods that `P` declares by a handler, and describes them.
    #[cfg(test)]
    pub(super) fn on<T, P, H>(mut self, handler: &H) -> Self
    where
        T: 'static,
        P: for<'t> description::Declared<'t>,
        H: Handler<T, Shared>,
    {
        self.description.add::<P>();
        self.served::<T, P, H>(handler)
    }

    fn served<T, P: utoipa::Path, H>(mut self, handler: &H) -> Self
    where
        T: 'static,
        H: Handler<T, Shared>,
    {
        self.path = P::path();
        for method in P::methods() {
            self.methods = self.methods.on(filter(&method), handler.clone());
        }
        self
    }
}

fn filter(method: &HttpMethod) -> MethodFilter {
    match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Put => MethodFilter::PUT,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Head => MethodFilter::HEAD,
        HttpMethod::Patch => MethodFilter::PATCH,
        HttpMethod::Trace => MethodFilter::TRACE,
        HttpMethod::Delete => MethodFilter::DELETE,
        HttpMethod::Options => MethodFilter::OPTIONS,
    }
}

#[cfg(test)]
mod description {
    use utoipa::openapi::{ComponentsBuilder, OpenApi, OpenApiBuilder, Paths, RefOr, Schema};
    use utoipa::{__dev, Path};

    /// What `#[utoipa::path]` makes beside a handler.
    pub(in super::super) trait Declared<'t>:
        Path + __dev::Tags<'t> + __dev::SchemaReferences
    {
    }

    impl<'t, P: Path + __dev::Tags<'t> + __dev::SchemaReferences> Declared<'t> for P {}

    #[derive(Default)]
    pub(super) struct Description {
        paths: Paths,
        schemas: Vec<(String, RefOr<Schema>)>,
    }

    impl Description {
        pub(super) fn add<P: for<'t> Declared<'t>>(&mut self) {
            let mut operation = P::operation();
            let tags = P::tags();
            if !tags.is_empty() {
                let all = operation.tags.get_or_insert_default();
                all.extend(tags.into_iter().map(str::to_owned));
            }
            self.paths.add_path_operation(P::path(), P::methods(), operation);
            P::schemas(&mut self.schemas);
        }

        pub(super) fn merge(&mut self, other: Self) {
            self.paths.merge(other.paths);
            self.schemas.extend(other.schemas);
        }

        pub(super) fn into_openapi(self) -> OpenApi {
            let components = ComponentsBuilder::new().schemas_from_iter(self.schemas).build();
            OpenApiBuilder::new().paths(self.paths).components(Some(components)).build()
        }
    }
}

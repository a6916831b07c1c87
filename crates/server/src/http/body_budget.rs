//! A budget for the bytes of all request bodies in memory together.
//!
//! A body takes from the budget as its bytes arrive, not by its announced length. It gives them back when its
//! request is answered, because until then the parsed values are in memory. A body that exceeds the budget fails
//! with [`BudgetExhausted`]; the caller answers 503 with `Retry-After`. One owner of a database gets a share of the budget
//! (see `owner_shares.rs`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use hyper::body::{Body as Frames, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::owner_shares::{OwnerBodyBytes, OwnerConnection};

/// The budget that all bodies share.
#[derive(Clone, Debug)]
pub(super) struct BodyBudget(Arc<Semaphore>);

/// The share of one request, given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct BudgetPermit(Arc<Mutex<TakenBytes>>);

#[derive(Debug)]
struct TakenBytes {
    of_budget: Option<OwnedSemaphorePermit>,
    /// The same bytes of the share of the owner; `None` for the operator.
    of_owner: Option<OwnerBodyBytes>,
}

/// The error of a body that does not fit into the rest of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes of request bodies at the same time; try again")]
pub(super) struct BudgetExhausted;

impl BodyBudget {
    /// Creates a budget of this many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes)))
    }

    /// Wraps the body of a request so that reading it takes from the budget, and fails with [`BudgetExhausted`] when
    /// the budget is spent. Returns the permit that holds the share, or `None` for a request without a body.
    pub(super) fn limit(
        &self,
        request: Request,
        owner: Option<Arc<OwnerConnection>>,
    ) -> (Request, Option<BudgetPermit>) {
        if request.body().is_end_stream() {
            return (request, None);
        }
        let taken = TakenBytes { of_budget: None, of_owner: owner.map(OwnerBodyBytes::new) };
        let permit = BudgetPermit(Arc::new(Mutex::new(taken)));
        let (budget, body_permit) = (self.clone(), permit.clone());
        let request =
            request.map(|body| Body::new(LimitedBody { body, budget, permit: body_permit }));
        (request, Some(permit))
    }

    /// Adds this many bytes to a permit.
    fn acquire(&self, bytes: usize, permit: &BudgetPermit) -> Result<(), BudgetExhausted> {
        let mut taken = permit.0.lock();
        if let Some(of_owner) = &mut taken.of_owner
            && !of_owner.take(bytes)
        {
            return Err(BudgetExhausted);
        }
        let bytes = u32::try_from(bytes).map_err(|_| BudgetExhausted)?;
        let more =
            Arc::clone(&self.0).try_acquire_many_owned(bytes).map_err(|_| BudgetExhausted)?;
        match taken.of_budget.as_mut() {
            Some(of_budget) => of_budget.merge(more),
            None => taken.of_budget = Some(more),
        }
        Ok(())
    }
}

/// A body whose bytes count against the budget.
#[derive(Debug)]
struct LimitedBody {
    body: Body,
    budget: BodyBudget,
    permit: BudgetPermit,
}

impl Frames for LimitedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = frame.map_err(axum::BoxError::from).and_then(|frame| {
            self.budget.acquire(frame.data_ref().map_or(0, Bytes::len), &self.permit)?;
            Ok(frame)
        });
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::http::body::{self, find_cause};
    use crate::http::owner_shares::{OwnerShares, ShareLimits};

    fn request(bytes: usize) -> Request {
        Request::new(Body::from(vec![b'x'; bytes]))
    }

    #[tokio::test]
    async fn bodies_share_the_budget_until_their_permits_are_dropped() {
        let budget = BodyBudget::new(10);
        let (first, first_held) = budget.limit(request(6), None);
        assert_eq!(first.into_body().collect().await.unwrap().to_bytes().len(), 6);
        let (second, second_held) = budget.limit(request(6), None);
        let error = second.into_body().collect().await.unwrap_err();
        assert_eq!(find_cause::<BudgetExhausted>(&error), Some(&BudgetExhausted));
        drop(second_held);
        let (small, small_held) = budget.limit(request(4), None);
        assert!(small.into_body().collect().await.is_ok());
        drop((first_held, small_held));
        let (third, _third_held) = budget.limit(request(10), None);
        assert!(third.into_body().collect().await.is_ok());
    }

    #[tokio::test]
    async fn an_owner_takes_its_share_and_no_more() {
        let limits = ShareLimits { connections: 9, all_connections: 9, body_bytes: 6 };
        let shares = OwnerShares::new(limits);
        let owner = |name: &str| Some(shares.connect(name).unwrap());
        let budget = BodyBudget::new(10);
        let (first, first_held) = budget.limit(request(5), owner("a"));
        assert!(first.into_body().collect().await.is_ok());
        let (second, second_held) = budget.limit(request(2), owner("a"));
        let error = second.into_body().collect().await.unwrap_err();
        assert_eq!(find_cause::<BudgetExhausted>(&error), Some(&BudgetExhausted));
        let (other, other_held) = budget.limit(request(5), owner("b"));
        assert!(other.into_body().collect().await.is_ok());
        drop((first_held, second_held));
        let (third, _third_held) = budget.limit(request(5), owner("a"));
        assert!(third.into_body().collect().await.is_ok());
        drop(other_held);
        let (operators, _held) = budget.limit(request(5), None);
        assert!(operators.into_body().collect().await.is_ok());
    }

    #[tokio::test]
    async fn a_body_over_the_budget_is_answered_with_503_and_retry_after() {
        use axum::response::IntoResponse as _;
        let (request, _held) = BodyBudget::new(3).limit(request(4), None);
        let response = body::bytes(request).await.unwrap_err().into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("\"code\":\"overloaded\""));
    }

    #[tokio::test]
    async fn an_empty_body_takes_nothing_from_the_budget() {
        let (request, _held) = BodyBudget::new(0).limit(request(0), None);
        assert_eq!(body::bytes(request).await.unwrap().len(), 0);
    }
}

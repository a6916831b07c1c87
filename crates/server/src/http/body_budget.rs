//! How many bytes of bodies all requests together may hold.
//!
//! A body takes room as it arrives, not as it is announced, and the room is free again once its
//! request is answered, since until then its bytes live on as values.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use hyper::body::{Body as Frames, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The room that all bodies share.
#[derive(Clone, Debug)]
pub(super) struct BodyBudget(Arc<Semaphore>);

/// What one request holds of it, until the last clone is dropped.
#[derive(Clone, Debug, Default)]
pub(super) struct BudgetPermit(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

/// A body did not fit beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bodies of other requests leave no room for this one")]
pub(super) struct BudgetExhausted;

impl BodyBudget {
    /// Returns room for so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes)))
    }

    /// Lets the body of a request be read as far as there is room; then reading it fails with
    /// [`BudgetExhausted`]. What is returned beside it keeps the room; without a body there is none to keep.
    pub(super) fn limit(&self, request: Request) -> (Request, Option<BudgetPermit>) {
        if request.body().is_end_stream() {
            return (request, None);
        }
        let held = BudgetPermit::default();
        let room = self.clone();
        let taken = held.clone();
        let request =
            request.map(|body| Body::new(LimitedBody { body, budget: room, permit: taken }));
        (request, Some(held))
    }

    /// Takes room for so many bytes.
    fn acquire(&self, bytes: usize, held: &BudgetPermit) -> Result<(), BudgetExhausted> {
        let bytes = u32::try_from(bytes).map_err(|_| BudgetExhausted)?;
        let more =
            Arc::clone(&self.0).try_acquire_many_owned(bytes).map_err(|_| BudgetExhausted)?;
        let mut held = held.0.lock();
        match held.as_mut() {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }
}

/// A body that takes room.
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

    fn request(bytes: usize) -> Request {
        Request::new(Body::from(vec![b'x'; bytes]))
    }

    #[tokio::test]
    async fn bodies_share_the_room_until_their_requests_are_answered() {
        let room = BodyBudget::new(10);
        let (first, first_held) = room.limit(request(6));
        assert_eq!(first.into_body().collect().await.unwrap().to_bytes().len(), 6);
        let (second, second_held) = room.limit(request(6));
        let error = second.into_body().collect().await.unwrap_err();
        assert_eq!(find_cause::<BudgetExhausted>(&error), Some(&BudgetExhausted));
        drop(second_held);
        let (small, small_held) = room.limit(request(4));
        assert!(small.into_body().collect().await.is_ok());
        drop((first_held, small_held));
        let (third, _third_held) = room.limit(request(10));
        assert!(third.into_body().collect().await.is_ok());
    }

    #[tokio::test]
    async fn a_body_without_room_is_answered_with_when_to_try_again() {
        use axum::response::IntoResponse as _;
        let (request, _held) = BodyBudget::new(3).limit(request(4));
        let response = body::bytes(request).await.unwrap_err().into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("\"code\":\"overloaded\""));
    }

    #[tokio::test]
    async fn an_empty_body_needs_no_room() {
        let (request, _held) = BodyBudget::new(0).limit(request(0));
        assert_eq!(body::bytes(request).await.unwrap().len(), 0);
    }
}

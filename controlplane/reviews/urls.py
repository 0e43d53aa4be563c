"""Routes of reviews, below ``/api/v1/``."""

from django.urls import path

from controlplane.reviews import api

urlpatterns = [
    path("reviews", api.ReviewListView.as_view(), name="review-list"),
    path("reviews/<uuid:review_id>", api.ReviewView.as_view(), name="review"),
    path("reviews/<uuid:review_id>/approve", api.ApproveView.as_view(), name="review-approve"),
    path("reviews/<uuid:review_id>/reject", api.RejectView.as_view(), name="review-reject"),
    path("reviews/<uuid:review_id>/withdraw", api.WithdrawView.as_view(), name="review-withdraw"),
]

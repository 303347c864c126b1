package manager

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestMadeUpTokens: whoever has no token makes the process ask the API server a few times
// only, and those who may have been answered still are.
func TestMadeUpTokens(t *testing.T) {
	t.Parallel()
	clients, reviews := fake.NewClientset(), 0
	clients.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		reviews++
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		review.Status.Authenticated = review.Spec.Token == "good"
		return true, review, nil
	})
	clients.PrependReactor("create", "subjectaccessreviews",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &authorizationv1.SubjectAccessReview{
				Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true},
			}, nil
		})
	now := clocktesting.NewFakePassiveClock(time.Now())
	r := reviewerOf(clients, now)
	if got := r.review(t.Context(), "good", "get", "/metrics"); got != http.StatusOK {
		t.Fatal(got)
	}
	answers := map[int]int{}
	for i := range reviewsKept * 2 {
		answers[r.review(t.Context(), fmt.Sprint(i), "get", "/metrics")]++
	}
	if reviews != reviewsAtOnce || answers[http.StatusUnauthorized] != reviewsAtOnce-1 ||
		answers[http.StatusTooManyRequests] != reviewsKept*2-reviewsAtOnce+1 {
		t.Errorf("%d TokenReviews, answers %v", reviews, answers)
	}
	for i := range reviewsKept * 2 { // however many are answered in time
		r.denied.Add(reviewKey{path: fmt.Sprint(i)}, http.StatusUnauthorized, reviewDenied)
	}
	if got := r.review(t.Context(), "good", "get", "/metrics"); got != http.StatusOK {
		t.Errorf("%d for somebody who may", got)
	}
	now.SetTime(now.Now().Add(time.Second))
	for range 2 {
		if got := r.review(t.Context(), "another", "get", "/metrics"); got != http.StatusUnauthorized {
			t.Errorf("%d a second later, want it to be asked about", got)
		}
	}
	if reviews != reviewsAtOnce+1 {
		t.Errorf("%d TokenReviews in the end", reviews)
	}
}

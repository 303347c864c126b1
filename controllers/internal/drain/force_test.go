package drain

import (
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestForce(t *testing.T) {
	t.Parallel()
	w := newEnv(t, pod("a"), pod("b", claiming("v")), pod("c", terminatingAt(epoch.Add(time.Hour))),
		pod("d", ownedBy("DaemonSet")))
	w.request.Force, w.stay = true, true
	refuse := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no"))
	w.answer = func(pod string) error {
		if pod == "!a" {
			return refuse
		}
		return nil
	}
	_, calls, err := w.try()
	if !errors.Is(err, refuse) || !slices.Equal(calls, []string{"delete a", "delete b", "delete c"}) {
		t.Fatalf("calls %v, error %v; want all deleted although one is refused", calls, err)
	}
	w.answer = nil
	r, calls := w.pass()
	if !r.Done || !slices.Equal(calls, []string{"delete a"}) {
		t.Errorf("Drain() = %+v with %v; want done without waiting, and no pod deleted twice", r, calls)
	}
}

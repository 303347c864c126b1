package aws_test

import (
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// keptSpot is a class whose instances EC2 stops and starts again.
func keptSpot() spec {
	return spec{"instanceMarketOptions": spec{"marketType": "spot", "spotOptions": spec{
		"maxPrice": "0.05", "spotInstanceType": "persistent", "instanceInterruptionBehavior": "stop",
	}}}
}

// TestPersistentSpot: nothing is left of a VM whose spot request EC2 would fulfil again,
// however its instance ends.
func TestPersistentSpot(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *env, r *cloud.CreateRequest, id string){
		"ByName": func(*env, *cloud.CreateRequest, string) {},
		"ByID":   func(_ *env, r *cloud.CreateRequest, id string) { r.ProviderID = "aws:///eu-west-1/" + id },
		"EndedByOthers": func(w *env, r *cloud.CreateRequest, id string) {
			r.ProviderID = "aws:///eu-west-1/" + id
			w.cloud.End(id, "Client.UserInitiatedShutdown", "somebody")
		},
		"Forgotten": func(w *env, r *cloud.CreateRequest, id string) {
			r.ProviderID = "aws:///eu-west-1/" + id
			w.cloud.End(id, "Client.UserInitiatedShutdown", "somebody")
			w.now.Advance(2 * time.Hour)
		},
		"ClassChanged": func(w *env, r *cloud.CreateRequest, _ string) {
			_, r.Class = w.open(class("c", nil), credentials())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			a, c := w.open(class("c", keptSpot()), credentials())
			r, other := w.request(c, 1), w.request(c, 2)
			vm, err := a.Create(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Create(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			end(w, &r, vm.ID)
			for done := false; !done; w.now.Advance(time.Minute) {
				d, err := a.Delete(t.Context(), r.Ref)
				if err != nil {
					t.Fatal(err)
				}
				done = d.Done
			}
			requests := 0
			for _, left := range w.cloud.Ledger() {
				if left.Tags["Name"] == r.Name {
					t.Errorf("left: %s %s", left.Kind, left.ID)
				}
				if left.Kind == ec2test.KindSpotRequest {
					requests++
				}
			}
			if requests != 1 {
				t.Errorf("%d spot requests are left, want that of the other machine", requests)
			}
		})
	}
}

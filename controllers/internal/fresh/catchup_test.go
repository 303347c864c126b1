package fresh

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// listing is a reader whose lists are the Machines of a function.
func listing(t *testing.T, version string, machines func() []*machinev1.Machine) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := machinev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, _ ...client.ListOption) error {
			into.SetResourceVersion(version)
			return fill(into, machines())
		},
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object,
			_ ...client.GetOption,
		) error {
			for _, m := range machines() {
				if m.Name == key.Name {
					into.SetUID(m.UID)
					return nil
				}
			}
			return apierrors.NewNotFound(machinev1.GroupVersion.WithResource("machines").GroupResource(), key.Name)
		},
	}).Build()
}

func TestCatchUp(t *testing.T) {
	t.Parallel()
	at := func(version string) func(*machinev1.Machine) {
		return func(m *machinev1.Machine) { m.ResourceVersion = version }
	}
	type list = []*machinev1.Machine
	cases := map[string]struct {
		reason string
		live   list
		later  list // on the API server after the list
		cached []list
		// waits is for how long it waits at least; most is the upper bound.
		waits, most time.Duration
	}{
		"Current": {
			reason: "A cache that is up to date costs no wait.",
			live:   list{machine("a", at("5"))}, cached: []list{{machine("a", at("5"))}},
		},
		"Older": {
			reason: "A version from before the term is waited out.",
			live:   list{machine("a", at("5"))},
			cached: []list{{machine("a", at("4"))}, {machine("a", at("4"))}, {machine("a", at("6"))}},
			waits:  2 * cachePeriod, most: 2 * cachePeriod,
		},
		"Missing": {
			reason: "A Machine that the former leader made is waited for.",
			live:   list{machine("a", at("5"))}, cached: []list{{}, {machine("a", at("5"))}},
			waits: cachePeriod, most: cachePeriod,
		},
		"Deleted": {
			reason: "A Machine that was gone before is waited out.",
			cached: []list{{machine("a", at("5"))}, {}}, waits: cachePeriod, most: cachePeriod,
		},
		"Younger": {
			reason: "A Machine that was created after the list is no reason to wait.",
			cached: []list{{machine("a", at("11"))}},
		},
		"NeverShown": {
			reason: "A Machine that was deleted after the list may never be shown.",
			live:   list{machine("a", at("5"))}, later: list{}, cached: []list{{}},
			waits: reportPeriod, most: reportPeriod + time.Second,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lists, reads := 0, 0
				live := listing(t, "10", func() []*machinev1.Machine {
					if lists++; lists > 1 && tc.later != nil {
						return tc.later
					}
					return tc.live
				})
				cached := listing(t, "10", func() []*machinev1.Machine {
					reads++
					return tc.cached[min(reads, len(tc.cached))-1]
				})
				wall := clock.RealClock{} // of the bubble
				began := wall.Now()
				err := CatchUp(t.Context(), CatchUpDeps{Cache: cached, Live: live, Clock: wall},
					&machinev1.MachineList{})
				if took := wall.Since(began); err != nil || took < tc.waits || took > tc.most {
					t.Errorf("%v after %s, want %s to %s: %s", err, took, tc.waits, tc.most, tc.reason)
				}
			})
		})
	}
}

// TestCatchUpEnds: a process that stops does not wait for its cache.
func TestCatchUpEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		live := listing(t, "10", func() []*machinev1.Machine { return []*machinev1.Machine{machine("a")} })
		cached := listing(t, "1", func() []*machinev1.Machine { return nil })
		err := CatchUp(ctx, CatchUpDeps{Cache: cached, Live: live, Clock: clock.RealClock{}}, &machinev1.MachineList{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("CatchUp() = %v, want the end of its context", err)
		}
	})
}

// fill puts machines into a list, or their metadata into one of metadata.
func fill(into client.ObjectList, machines []*machinev1.Machine) error {
	items := make([]runtime.Object, 0, len(machines))
	for _, m := range machines {
		if _, partial := into.(*metav1.PartialObjectMetadataList); partial {
			items = append(items, &metav1.PartialObjectMetadata{ObjectMeta: m.ObjectMeta})
		} else {
			items = append(items, m)
		}
	}
	return meta.SetList(into, items)
}

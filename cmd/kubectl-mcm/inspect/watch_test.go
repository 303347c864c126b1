package inspect

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/fleet"
)

// A watcher is a command with --watch that runs in virtual time.
type watcher struct {
	*testing.T
	out, errors bytes.Buffer
	stop        context.CancelFunc
	ended       chan error
}

// watching starts a command in namespace garden, and waits until it has printed once.
func watching(t *testing.T, api client.Reader, args ...string) *watcher {
	t.Helper()
	w := &watcher{T: t, ended: make(chan error, 1)}
	root := &cobra.Command{Use: "kubectl-mcm", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringP("output", "o", "table", "that of commands that write")
	root.AddCommand(Commands(Deps{
		Connect: func() (Clusters, error) { return Clusters{Control: api, Target: api, Namespace: "garden"}, nil },
		Now:     func() time.Time { return now },
	})...)
	root.SetOut(&w.out)
	root.SetErr(&w.errors)
	root.SetArgs(append(args, "--watch"))
	var ctx context.Context
	ctx, w.stop = context.WithCancel(t.Context())
	go func() { w.ended <- root.ExecuteContext(ctx) }()
	synctest.Wait()
	return w
}

// next is what the command prints until it waits again, and after that time.
func (w *watcher) next(after time.Duration) string {
	w.Helper()
	w.out.Reset()
	time.Sleep(after)
	synctest.Wait()
	return w.out.String()
}

// end interrupts the command.
func (w *watcher) end() {
	w.Helper()
	w.stop()
	if err := <-w.ended; err != nil {
		w.Errorf("interrupted: %v, want no error", err)
	}
}

func edit[T client.Object](t *testing.T, api client.Client, o T, change func(T)) {
	t.Helper()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	change(o)
	if err := api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func workers() *machinev1.MachineDeployment {
	d := &machinev1.MachineDeployment{}
	d.Namespace, d.Name = "garden", "workers"
	return d
}

// TestWatchPrintsChanges: a page for changes that come together, and none where what is shown stays.
func TestWatchPrintsChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := fleet.API(t, fleet.Native()...).Build()
		w := watching(t, api, "tree", "workers")
		if first := w.out.String(); strings.Count(first, "NAME") != 1 || !strings.Contains(first, "workers") {
			t.Fatalf("printed %q, want the pool once", first)
		}
		if got := w.next(10 * refresh); got != "" {
			t.Errorf("printed %q although nothing changed", got)
		}
		edit(t, api, workers(), func(d *machinev1.MachineDeployment) { d.Annotations = map[string]string{"a": "b"} })
		if got := w.next(2 * collect); got != "" {
			t.Errorf("printed %q although nothing that it shows changed", got)
		}
		for range 3 {
			edit(t, api, workers(), func(d *machinev1.MachineDeployment) { d.Spec.Replicas++ })
		}
		if got := w.next(2 * collect); strings.Count(got, "NAME") != 1 || !strings.HasPrefix(got, "\n") {
			t.Errorf("printed %q for three changes at once, want one page more", got)
		}
		w.end()
	})
}

// TestWatchDocuments: programs tell documents apart.
func TestWatchDocuments(t *testing.T) {
	t.Parallel()
	for format, separator := range map[string]string{"yaml": "---\napiVersion", "json": "{", "name": "machinedeployment"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := fleet.API(t, fleet.Native()...).Build()
				w := watching(t, api, "top", "-o", format)
				edit(t, api, workers(), func(d *machinev1.MachineDeployment) { d.Spec.Replicas++ })
				if got := w.next(2 * collect); !strings.HasPrefix(got, separator) {
					t.Errorf("printed %q, want it to begin with %q", got, separator)
				}
				w.end()
			})
		})
	}
}

// TestWatchOutlivesTheAPIServer: it says that it could not read, tries again, and opens watches that ended.
func TestWatchOutlivesTheAPIServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		api := fleet.API(t, fleet.Native()...).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				if down.Load() {
					return errors.New("connection refused")
				}
				return c.List(ctx, l, opts...)
			},
			Watch: func(ctx context.Context, c client.WithWatch, l client.ObjectList,
				opts ...client.ListOption,
			) (watch.Interface, error) {
				opened, err := c.Watch(ctx, l, opts...)
				time.AfterFunc(time.Minute, opened.Stop) // as API servers end them
				return opened, err
			},
		}).Build()
		w := watching(t, api, "why", "machinedeployment/workers")
		down.Store(true)
		if got := w.next(2 * time.Minute); got != "" || !strings.Contains(w.errors.String(), "connection refused") {
			t.Errorf("printed %q and %q, want the cause alone", got, w.errors.String())
		}
		down.Store(false)
		w.next(time.Minute)
		edit(t, api, workers(), func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 9 })
		if got := w.next(2 * collect); !strings.Contains(got, "9") {
			t.Errorf("printed %q after the API server came back, want the change", got)
		}
		w.stop()
		if code, coded := errors.AsType[output.ExitCodeError](<-w.ended); !coded || int(code) != exitWaits {
			t.Errorf("exit code %d, want that the pool is not complete", code)
		}
	})
}

// TestWatchRefusals: what is wrong from the beginning ends the command.
func TestWatchRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := fleet.API(t, fleet.Native()...).Build()
		w := watching(t, api, "tree", "nothing")
		if err := <-w.ended; err == nil || !strings.Contains(err.Error(), "nothing: no pool has that name") {
			t.Errorf("got %v, want that there is no such pool", err)
		}
		w.stop()
		if _, err := run(t, client.Reader(struct{ client.Reader }{api}), "tree", "-w"); err == nil ||
			!strings.Contains(err.Error(), "cannot watch") {
			t.Errorf("got %v of a client that cannot watch", err)
		}
	})
}

// TestWatchWithFewPermissions: what may not be watched is said once, and the rest is.
func TestWatchWithFewPermissions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := fleet.API(t, fleet.Native()...).WithInterceptorFuncs(interceptor.Funcs{
			Watch: func(ctx context.Context, c client.WithWatch, l client.ObjectList,
				opts ...client.ListOption,
			) (watch.Interface, error) {
				if l.GetObjectKind().GroupVersionKind().Kind == "NodeList" {
					return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no"))
				}
				return c.Watch(ctx, l, opts...)
			},
		}).Build()
		w := watching(t, api, "tree")
		edit(t, api, workers(), func(d *machinev1.MachineDeployment) { d.Spec.Replicas++ })
		if got := w.next(2 * collect); got == "" {
			t.Error("printed nothing for a change of what may be watched")
		}
		if got := w.errors.String(); strings.Count(got, "Nodes: ") != 1 {
			t.Errorf("warned %q, want once about Nodes", got)
		}
		w.end()
	})
}

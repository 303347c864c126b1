package manager

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/internal/tracing"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// account is who the Deployment in config/manager runs as.
const account = "system:serviceaccount:machine-controller-manager:machine-controller-manager"

// running is a manager in this process.
type running struct {
	port, second int
	stop         context.CancelFunc
	ended        chan error
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	return startTraced(t, nil, args...)
}

// startTraced starts a manager that exports its traces through tracer; nil exports none.
func startTraced(t *testing.T, tracer *tracing.Tracer, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{port: freePort(t), second: freePort(t), stop: stop, ended: make(chan error, 1)}
	args = append(args, "--address=127.0.0.1", fmt.Sprintf("--port=%d", r.port),
		fmt.Sprintf("--machine-controller-port=%d", r.second))
	o, err := parse(args...)
	if err != nil {
		t.Fatal(err)
	}
	o.tracer = tracer
	go func() { r.ended <- o.work(ctx, []cloud.Driver{sim.NewDriver(nil)}) }()
	t.Cleanup(stop)
	return r
}

// get returns what a port serves, or an error text.
func get(ctx context.Context, port int, path string) (status int, body string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path),
		http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(content)
}

// eventually waits until check returns "", and fails with what it said last.
func eventually(t *testing.T, within time.Duration, check func(ctx context.Context) string) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, within, true,
		func(ctx context.Context) (bool, error) {
			said := check(ctx)
			if ctx.Err() == nil { // else it could only say that time is up
				last = said
			}
			return said == "", nil
		})
	if err != nil {
		t.Fatalf("after %s: %s", within, last)
	}
}

func (r *running) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, func(ctx context.Context) string {
		select {
		case err := <-r.ended:
			t.Fatalf("the manager ended: %v", err)
		default:
		}
		if status, body := get(ctx, r.port, "/readyz"); status != http.StatusOK {
			return body
		}
		return ""
	})
}

func holder(ctx context.Context, t *testing.T, c client.Client, namespace, name string) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, lease); err != nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func awaitHolders(t *testing.T, c client.Client, namespace string, held bool) {
	t.Helper()
	eventually(t, time.Minute, func(ctx context.Context) string {
		one := holder(ctx, t, c, namespace, machinev1.LeaseMachineControllerManager)
		two := holder(ctx, t, c, namespace, machinev1.LeaseMachineController)
		if one != two || (one != "") != held {
			return fmt.Sprintf("the leases are held by %q and %q", one, two)
		}
		return ""
	})
}

func adminClient(t *testing.T, c *cluster.Cluster) client.Client {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(c.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

// steal gives a lease to somebody who does not expect to be asked first.
func steal(t *testing.T, admin client.Client, namespace, name string) {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	other := client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"holderIdentity":"thief","leaseDurationSeconds":3600}}`))
	if err := admin.Patch(t.Context(), lease, other); err != nil {
		t.Fatal(err)
	}
}

package logging

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// logging returns a context whose logger writes to the builder, up to that verbosity.
func logging(t *testing.T, verbosity int) (context.Context, *strings.Builder) {
	t.Helper()
	var out strings.Builder
	l := funcr.New(func(_, args string) { out.WriteString(args + "\n") }, funcr.Options{Verbosity: verbosity})
	return log.IntoContext(t.Context(), l), &out
}

func machine() *machinev1.Machine {
	return &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
}

// act does something through a logged client to a Machine that exists.
type act func(ctx context.Context, c client.Client, m *machinev1.Machine) error

func statusOf(change func(*machinev1.MachineStatus)) act {
	return func(ctx context.Context, c client.Client, m *machinev1.Machine) error {
		base := m.DeepCopy()
		change(&m.Status)
		return c.Status().Patch(ctx, m, client.MergeFrom(base))
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "token"}, StringData: map[string]string{"k": "canary"},
	}
	cases := map[string]struct {
		reason    string
		do        act
		verbosity int
		want      string // part of the only line; empty is none
		fail      error
	}{
		"Create": {
			reason: "an object is named, and its content is not shown",
			do: func(ctx context.Context, c client.Client, _ *machinev1.Machine) error {
				return c.Create(ctx, secret.DeepCopy())
			},
			want: `"msg"="Created object" "kind"="Secret" "object"={"name"="token" "namespace"="ns"}`,
		},
		"Delete": {
			reason: "a deletion is an effect",
			do:     func(ctx context.Context, c client.Client, m *machinev1.Machine) error { return c.Delete(ctx, m) },
			want:   `"msg"="Deleted object" "kind"="Machine"`,
		},
		"Phase": {
			reason: "a phase is shown with its cause",
			do: statusOf(func(s *machinev1.MachineStatus) {
				s.CurrentStatus.Phase, s.LastOperation.Description = machinev1.MachineFailed, "no capacity"
			}),
			want: `"phase"="Failed" "operation"="" "state"="" "cause"="no capacity"`,
		},
		"Report": {
			reason: "a report is none",
			do:     statusOf(func(s *machinev1.MachineStatus) { s.LastOperation.Description = "waiting" }),
		},
		"ReportVerbose": {
			reason: "it is there with a higher verbosity", verbosity: verbosityRetries,
			do:   statusOf(func(s *machinev1.MachineStatus) { s.LastOperation.Description = "waiting" }),
			want: `"msg"="Patched object"`,
		},
		"ProviderID": {
			reason: "from then on no other VM is created",
			do: func(ctx context.Context, c client.Client, m *machinev1.Machine) error {
				base := m.DeepCopy()
				m.Spec.ProviderID = "sim:///1"
				return c.Patch(ctx, m, client.MergeFrom(base))
			},
			want: `"msg"="Recorded VM" "kind"="Machine" "object"={"name"="m" "namespace"="ns"} "providerID"="sim:///1"`,
		},
		"Evict": {
			reason: "an eviction is an effect on a pod",
			do: func(ctx context.Context, c client.Client, _ *machinev1.Machine) error {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
				return c.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{})
			},
			want: `"msg"="Evicted pod" "kind"="Pod"`,
		},
		"Failure": {
			reason: "what is tried again is no effect", fail: errors.New("refused"),
			do: func(ctx context.Context, c client.Client, m *machinev1.Machine) error { return c.Delete(ctx, m) },
		},
		"FailureVerbose": {
			reason: "it is there with a higher verbosity", fail: errors.New("refused"), verbosity: verbosityRetries,
			do:   func(ctx context.Context, c client.Client, m *machinev1.Machine) error { return c.Delete(ctx, m) },
			want: `"object"={"name"="m" "namespace"="ns"} "request"="Deleted object" "cause"="refused"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, out := logging(t, tc.verbosity)
			m := machine()
			err := tc.do(ctx, NewClient(serving(t, m, tc.fail)), m)
			if !errors.Is(err, tc.fail) {
				t.Fatalf("%v, want %v", err, tc.fail)
			}
			got := out.String()
			if strings.Count(got, "\n") > 1 || (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s: logged %q, want %q", tc.reason, got, tc.want)
			}
			if strings.Contains(got, "canary") {
				t.Errorf("the log has a secret: %s", got)
			}
		})
	}
}

// serving returns a client of an API server with o that refuses deletions with fail.
func serving(t *testing.T, o client.Object, fail error) client.Client {
	t.Helper()
	funcs := interceptor.Funcs{
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object,
			...client.SubResourceCreateOption,
		) error {
			return nil
		},
	}
	if fail != nil {
		funcs.Delete = func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return fail }
	}
	return harness.New(t, harness.With(o), harness.Answered(funcs)).Client
}

// failing is an account whose calls fail.
type failing struct {
	cloud.Account
	err error
}

func (f failing) Create(context.Context, cloud.CreateRequest) (cloud.VM, error) {
	return cloud.VM{}, f.err
}

func (f failing) Get(context.Context, cloud.Ref) (cloud.VM, error) { return cloud.VM{}, f.err }

func (f failing) Delete(context.Context, cloud.Ref) (cloud.Deletion, error) {
	return cloud.Deletion{RetryAfter: time.Second, Remaining: []string{"disk d-1"}}, nil
}

// TestAccount: a failed call is logged with the wait before the next one, and only where
// -v asks for it.
func TestAccount(t *testing.T) {
	t.Parallel()
	throttled := &cloud.Error{
		Code: cloud.Throttled, Reason: "TooMany", RetryAfter: time.Minute, Err: errors.New("slow down"),
	}
	request := cloud.CreateRequest{
		Ref: cloud.Ref{Name: "m", OwnerID: "o", Class: cloud.Class{Name: "c"}}, UserData: []byte("canary"),
	}
	for verbosity, want := range map[int]string{
		0: "",
		verbosityRetries: `"msg"="Cloud call failed" "provider"="sim" "operation"="create VM" "class"="c" "machine"="m" ` +
			`"ownerID"="o" "providerID"="" "code"="Throttled" "cause"="`,
	} {
		ctx, out := logging(t, verbosity)
		a := Account(cloud.AccountInfo{Driver: cloud.Traits{Name: "sim"}}, failing{err: throttled})
		if _, err := a.Create(ctx, request); !errors.Is(err, throttled) {
			t.Error(err)
		}
		got := out.String()
		if (got == "") != (want == "") || !strings.Contains(got, want) || strings.Contains(got, "canary") {
			t.Errorf("-v=%d: logged %q, want %q", verbosity, got, want)
		}
		if want != "" && !strings.Contains(got, `"reason"="TooMany" "retryAfter"="1m0s"`) {
			t.Errorf("-v=%d: logged %q, want the wait", verbosity, got)
		}
	}
	ctx, out := logging(t, verbosityRetries)
	gone := Account(cloud.AccountInfo{}, failing{err: cloud.Errorf(cloud.NotFound, "get VM", "Gone", "no VM")})
	if _, err := gone.Get(ctx, cloud.Ref{}); err == nil || out.Len() > 0 {
		t.Errorf("%v, logged %q: that there is no VM is an answer", err, out)
	}
	_, err := gone.Delete(ctx, cloud.Ref{Name: "m"})
	if err != nil || !strings.Contains(out.String(), `"remaining"=["disk d-1"]`) {
		t.Errorf("%v, logged %q: want what the deletion has left", err, out)
	}
}

package published

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/mcmdriver"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/mcmdriver/mcmtest"
	"github.com/ironcore-dev/machine-controller-manager-provider-ironcore-metal/pkg/api/v1alpha1"
	metalclient "github.com/ironcore-dev/machine-controller-manager-provider-ironcore-metal/pkg/client"
	"github.com/ironcore-dev/machine-controller-manager-provider-ironcore-metal/pkg/cmd"
	"github.com/ironcore-dev/machine-controller-manager-provider-ironcore-metal/pkg/metal"
	metalv1alpha1 "github.com/ironcore-dev/metal-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const namespace = "metal"

// metalCloud is the API of the bare metal cloud, whose VMs are claims of servers. Each claim is bound at once.
type metalCloud struct {
	client client.Client

	mu     sync.Mutex
	lose   bool
	refuse error
	passed time.Duration
}

// apply stands before each server-side apply of the driver.
func (m *metalCloud) apply(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
	opts ...client.PatchOption,
) error {
	claim, ok := o.(*metalv1alpha1.ServerClaim)
	if !ok || p.Type() != types.ApplyPatchType {
		return c.Patch(ctx, o, p, opts...)
	}
	m.mu.Lock()
	refused, lost := m.refuse, m.lose
	m.lose = false
	m.mu.Unlock()
	if refused != nil {
		return refused
	}
	claim.Spec.ServerRef = &corev1.LocalObjectReference{Name: "server"}
	if err := c.Patch(ctx, o, p, opts...); err != nil {
		return err
	}
	if lost {
		return errors.New("connection reset by peer")
	}
	return nil
}

// refusals are answers of the cloud. The driver has one code for all of them, Internal, which leaves open what became
// of a request: users see the cloud's words, and the autoscaler hears of no shortage.
var refusals = map[string]error{
	"forbidden": apierrors.NewForbidden(schema.GroupResource{Resource: "serverclaims"}, "m", errors.New("no rights")),
	"quota": apierrors.NewForbidden(schema.GroupResource{Resource: "serverclaims"}, "m",
		errors.New("exceeded quota: claims")),
	"invalid":      apierrors.NewInvalid(schema.GroupKind{Kind: "ServerClaim"}, "m", nil),
	"unauthorized": apierrors.NewUnauthorized("no token"),
	"throttled":    apierrors.NewTooManyRequests("later", 1),
	"unavailable":  apierrors.NewServiceUnavailable("starting"),
}

// TestIroncoreMetal plays the kit with github.com/ironcore-dev/machine-controller-manager-provider-ironcore-metal.
func TestIroncoreMetal(t *testing.T) {
	t.Parallel()
	mcmtest.Run(t, func(t *testing.T) mcmtest.Harness {
		t.Helper()
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, metalv1alpha1.AddToScheme} {
			if err := add(scheme); err != nil {
				t.Fatal(err)
			}
		}
		m := &metalCloud{}
		server := &metalv1alpha1.Server{ObjectMeta: metav1.ObjectMeta{Name: "server"}}
		m.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(server).
			WithInterceptorFuncs(interceptor.Funcs{Patch: m.apply}).Build()
		return m.harness(t)
	})
}

func (m *metalCloud) harness(t *testing.T) mcmtest.Harness {
	t.Helper()
	connection := &metalclient.Provider{}
	connection.SetClient(m.client)
	want := map[string]cloud.Code{}
	for fault := range refusals {
		want[fault] = cloud.Unknown
	}
	return mcmtest.Harness{
		Driver: mcmdriver.Wrap(metal.NewDriver(connection, namespace, cmd.NodeNamePolicyServerClaimName), mcmdriver.Traits{
			Cloud:            cloud.Traits{Name: v1alpha1.ProviderName, NodeNamed: true},
			ProviderIDPrefix: v1alpha1.ProviderName + "://", FindsByName: true,
			Now: func() time.Time {
				m.mu.Lock()
				defer m.mu.Unlock()
				return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(m.passed)
			},
		}),
		Spec:    []byte(`{"image":"registry.example.com/os:1","labels":{"cluster":"c"},"ignition":"{}"}`),
		BadSpec: []byte(`{"image":7}`),
		VMs: func() []string {
			var claims metalv1alpha1.ServerClaimList
			if err := m.client.List(t.Context(), &claims, client.InNamespace(namespace)); err != nil {
				t.Fatal(err)
			}
			var names []string
			for i := range claims.Items {
				names = append(names, claims.Items[i].Name)
			}
			return names
		},
		Lose: func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.lose = true
		},
		Refuse: func(fault string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.refuse = refusals[fault]
		},
		Refusals: want,
		Advance: func(d time.Duration) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.passed += d
		},
	}
}

package manager

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers"
)

// elector is the part of a manager that metrics need.
type elector struct {
	ctrl.Manager
	client  client.Client
	elected chan struct{}
}

func (e elector) GetClient() client.Client { return e.client }

func (e elector) Elected() <-chan struct{} { return e.elected }

// TestObjectsInMetrics: a process shows the objects of the controllers that it runs, and none as a
// standby. It must not read others: each kind that is read is watched, which takes permissions.
func TestObjectsInMetrics(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		group controllers.APIGroup
		want  []string
	}{
		"native":         {controllers.Native, []string{"mcm_machine_info"}},
		"infrastructure": {controllers.Infrastructure, []string{"mcm_mcmcluster_info", "mcm_mcmmachine_info"}},
		"bootstrap":      {controllers.Bootstrap, nil},
		"control plane":  {controllers.ControlPlane, []string{"mcm_mcmexternalcontrolplane_info"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var which []string
			for _, known := range controllers.All() {
				if known.Group == c.group {
					which = append(which, known.Name)
				}
			}
			if groups := groupsOf(which); !slices.Equal(groups, []string{string(c.group)}) {
				t.Errorf("the process runs the APIs %v", groups)
			}
			w := &wiring{manager: elector{client: oneOfEach(t), elected: make(chan struct{})}}
			if shown := infos(t, w, which); len(shown) > 0 {
				t.Errorf("a standby shows %v", shown)
			}
			elected := make(chan struct{})
			close(elected)
			w.manager = elector{client: oneOfEach(t), elected: elected}
			if shown := infos(t, w, which); !slices.Equal(shown, c.want) {
				t.Errorf("a leader shows %v, want %v", shown, c.want)
			}
		})
	}
}

func oneOfEach(t *testing.T) client.Client {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "a"}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(&machinev1.Machine{ObjectMeta: meta},
		&infrav1.MCMMachine{ObjectMeta: meta}, &infrav1.MCMCluster{ObjectMeta: meta},
		&controlplanev1.MCMExternalControlPlane{ObjectMeta: meta}).Build()
}

// infos are the metrics that describe objects.
func infos(t *testing.T, w *wiring, which []string) []string {
	t.Helper()
	scrape := func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }
	registry := prometheus.NewRegistry()
	for _, c := range w.objects(scrape, which) {
		registry.MustRegister(c)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		if strings.HasSuffix(f.GetName(), "_info") {
			names = append(names, f.GetName())
		}
	}
	return names
}

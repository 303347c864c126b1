package recovery

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// refusing is an API server that refuses to list some kinds.
type refusing struct {
	client.Reader
	classes []machinev1.MachineClass
	refuse  func(client.ObjectList) bool
}

func (r refusing) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if r.refuse(list) {
		return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right"))
	}
	if classes, ok := list.(*machinev1.MachineClassList); ok {
		classes.Items = r.classes
	}
	return nil
}

// TestRead: who recovers machines of one API needs no permissions to the other.
func TestRead(t *testing.T) {
	t.Parallel()
	ofCluster := func(list client.ObjectList) bool {
		_, is := list.(*clusterv1.ClusterList)
		return is
	}
	cases := map[string]struct {
		reason string
		vms    func(*testing.T, *State)
		refuse func(client.ObjectList) bool
		fails  bool
	}{
		"Native": {
			reason: "No VM is one of Cluster API.", refuse: ofCluster,
			vms: func(t *testing.T, s *State) {
				t.Helper()
				s.lose(t, 1)
			},
		},
		"ClusterAPI": {
			reason: "The Cluster tells the sets.", refuse: ofCluster, fails: true,
			vms: func(t *testing.T, s *State) {
				t.Helper()
				s.loseOfCluster(t, "m")
			},
		},
		"Nodes": {
			reason: "A machine whose Node is not known could be replaced.", fails: true,
			vms: func(*testing.T, *State) {},
			refuse: func(list client.ObjectList) bool {
				_, is := list.(*corev1.NodeList)
				return is
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := restored()
			tc.vms(t, s)
			api := refusing{classes: s.MachineClasses, refuse: tc.refuse}
			got, err := Read(t.Context(), api, api, "default")
			if (err != nil) != tc.fails || !tc.fails && len(got.Listings) != len(s.Listings) {
				t.Errorf("%s\n%v", tc.reason, err)
			}
			if err != nil && !strings.Contains(err.Error(), "list ") {
				t.Errorf("error %q does not tell what was listed", err)
			}
		})
	}
}

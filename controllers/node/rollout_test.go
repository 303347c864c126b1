package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func controlledBy(o metav1.Object, kind, name string) {
	o.SetOwnerReferences([]metav1.OwnerReference{{
		Kind: kind, Name: name, UID: types.UID(name + "-uid"),
		Controller: new(true),
	}})
}

// setOf is a MachineSet of a deployment.
func setOf(deployment, name string, replicas int32, options ...func(*machinev1.MachineSet)) *machinev1.MachineSet {
	s := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid")}}
	s.Spec.Replicas = replicas
	controlledBy(s, "MachineDeployment", deployment)
	for _, o := range options {
		o(s)
	}
	return s
}

func ofSet(m *machinev1.Machine) { controlledBy(m, "MachineSet", "new") }

func TestAutoscalersKeepOffNodesOfARollout(t *testing.T) {
	t.Parallel()
	going := func(s *machinev1.MachineSet) {
		s.DeletionTimestamp, s.Finalizers = new(metav1.NewTime(epoch)), []string{"x/y"}
	}
	said := note(machinev1.ScaleDownDisabledAnnotation, "false")
	cases := map[string]struct {
		reason  string
		node    *corev1.Node
		machine *machinev1.Machine
		sets    []client.Object
		off     bool
		want    string // scale-down-disabled
		byUs    bool
	}{
		"Rollout": {
			"Old machines are still to be replaced.", node(), machine(ofSet),
			[]client.Object{setOf("d", "new", 1), setOf("d", "old", 2)},
			false, "true", true,
		},
		"Over": {
			"There is nothing left to replace.", node(), machine(ofSet),
			[]client.Object{setOf("d", "new", 3), setOf("d", "old", 0)},
			false, "", false,
		},
		"Growing": {
			"A pool that grows is no rollout.", node(), machine(ofSet),
			[]client.Object{setOf("d", "new", 3), setOf("other", "set", 2)},
			false, "", false,
		},
		"SetGoes": {
			"A set that is being deleted is not rolled.", node(), machine(ofSet),
			[]client.Object{setOf("d", "new", 3), setOf("d", "old", 2, going)},
			false, "", false,
		},
		"Made": {
			"A node that was there before is for the deployment's controller.", node(owned), machine(ofSet),
			[]client.Object{setOf("d", "new", 1), setOf("d", "old", 2)},
			false, "", false,
		},
		"User's": {
			"What the user has said stays.", node(said), machine(ofSet),
			[]client.Object{setOf("d", "new", 1), setOf("d", "old", 2)},
			false, "false", false,
		},
		"SetIsGone": {
			"A machine may outlive its set.", node(), machine(ofSet),
			[]client.Object{setOf("d", "old", 2)},
			false, "", false,
		},
		"Single": {
			"A machine may have no set.", node(), machine(),
			[]client.Object{setOf("d", "old", 2)},
			false, "",
			false,
		},
		"Off": {
			"It can be switched off.", node(), machine(ofSet),
			[]client.Object{setOf("d", "new", 1), setOf("d", "old", 2)},
			true, "", false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, append([]client.Object{tc.node, tc.machine}, tc.sets...)...)
			w.controller.AnnotateDuringRollout = !tc.off
			w.reconcile()
			n := w.node()
			_, byUs := n.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation]
			if got := n.Annotations[machinev1.ScaleDownDisabledAnnotation]; got != tc.want || byUs != tc.byUs {
				t.Errorf("scale-down-disabled is %q, by us: %v; want %q, %v: %s", got, byUs, tc.want, tc.byUs, tc.reason)
			}
			if n.Annotations[machinev1.NodeMachineAnnotation] != "m" || len(w.writes()) > 1 {
				t.Errorf("writes %v, want one for all", w.writes())
			}
		})
	}
}

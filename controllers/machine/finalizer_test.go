package machine

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
)

func TestNameIsKept(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		record func() naming.Ordinals // of the set, whose Machine has ordinal 4
		change func(*machinev1.MachineSet, *machinev1.Machine)
		kept   bool
	}{
		"Open": {
			reason: "A request to create it may still be under way.",
			record: func() naming.Ordinals { return naming.Ordinals{Next: 6, Open: 3} },
			kept:   true,
		},
		"Closed": {
			reason: "Who made it had all answers.",
			record: func() naming.Ordinals { return naming.Ordinals{Next: 6, Open: 6} },
		},
		"Others": {
			reason: "Only the reserved ordinals are in doubt.",
			record: func() naming.Ordinals { return naming.Ordinals{Next: 6, Open: 5} },
		},
		"Forced": {
			reason: "The user does not want to wait.",
			record: func() naming.Ordinals { return naming.Ordinals{Next: 6, Open: 3} },
			change: func(_ *machinev1.MachineSet, m *machinev1.Machine) {
				m.Labels = map[string]string{machinev1.ForceDeletionLabel: "True"}
			},
		},
		"AnotherSet": {
			reason: "A set of the same name that came later knows nothing of it.",
			record: func() naming.Ordinals { return naming.Ordinals{Next: 6, Open: 3} },
			change: func(s *machinev1.MachineSet, _ *machinev1.Machine) { s.UID = "another" },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			w.fence = fence.New(w.clock, time.Hour)
			w.fence.Acquired(w.clock.Now())
			w.restart()
			set := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "set", UID: "set-uid"}}
			m := newMachine(naming.NewNames(set).Name(4), w.clock.Now())
			set.Annotations = map[string]string{machinev1.OrdinalsAnnotation: tc.record().String()}
			m.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: machinev1.GroupVersion.String(), Kind: machinev1.MachineSetKind, Name: set.Name, UID: set.UID,
				Controller: new(true),
			}}
			if tc.change != nil {
				tc.change(set, m)
			}
			w.create(set)
			w.create(m)
			w.settle(m.Name, func() bool { return w.machine(m.Name).Spec.ProviderID != "" })
			w.delete(w.machine(m.Name))
			if tc.kept {
				w.settle(m.Name, func() bool {
					return strings.HasPrefix(w.condition(m.Name, machinev1.ConditionDeleted), machinev1.ReasonNameInUse)
				})
				if _, live := w.vms(); live != 0 {
					t.Error("its VM waits for the name")
				}
				w.pass(fence.Reach)
			}
			w.settle(m.Name, func() bool {
				if strings.HasPrefix(w.condition(m.Name, machinev1.ConditionDeleted), machinev1.ReasonNameInUse) {
					t.Fatal(tc.reason)
				}
				return w.machine(m.Name) == nil
			})
		})
	}
}

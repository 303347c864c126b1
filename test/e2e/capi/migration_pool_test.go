package capi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A movingPool is a pool that moves between the two APIs.
type movingPool struct {
	*bothAPIs
	migration.Pool
}

// movingPool makes a native MachineDeployment, as change says.
func (d *bothAPIs) movingPool(t *testing.T, namespace, name, class string, replicas int32,
	change ...func(*machinev1.MachineDeployment),
) *movingPool {
	t.Helper()
	o := stack.Deployment(name, class, replicas, "100%", "0")
	o.Namespace = namespace
	for _, c := range change {
		c(o)
	}
	if err := d.cl.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return &movingPool{d, migration.Pool{Kind: migration.KindDeployment, Namespace: namespace, Name: name}}
}

func (h *movingPool) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: h.Namespace, Name: name}
}

// nativeMachines are the names of the pool's Machines of the native API, which all
// have to be Running.
func (h *movingPool) nativeMachines(ctx context.Context) (map[string]bool, error) {
	var list machinev1.MachineList
	if err := h.cl.List(ctx, &list, client.InNamespace(h.Namespace),
		client.MatchingLabels{machinev1.NameLabel: h.Name}); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i := range list.Items {
		m := &list.Items[i]
		_, held := m.Annotations[machinev1.MigrationHoldAnnotation]
		if phase := m.Status.CurrentStatus.Phase; held || phase != machinev1.MachineRunning || !m.DeletionTimestamp.IsZero() {
			return nil, fmt.Errorf("native Machine %s is %s, held: %v, deleted: %v", m.Name, phase, held, m.DeletionTimestamp)
		}
		names[m.Name] = true
	}
	return names, nil
}

// capiMachines are those of Cluster API.
func (h *movingPool) capiMachines(ctx context.Context) (map[string]bool, error) {
	var list clusterv1.MachineList
	if err := h.cl.List(ctx, &list, client.InNamespace(h.Namespace),
		client.MatchingLabels{machinev1.NameLabel: h.Name}); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i := range list.Items {
		m := &list.Items[i]
		_, paused := m.Annotations[clusterv1.PausedAnnotation]
		if paused || m.Status.Phase != string(clusterv1.MachinePhaseRunning) || !m.DeletionTimestamp.IsZero() {
			return nil, fmt.Errorf("machine %s is %s, paused: %v, deleted: %v", m.Name, m.Status.Phase, paused,
				m.DeletionTimestamp)
		}
		if err := condition(m.Status.Conditions, clusterv1.AvailableCondition); err != nil {
			return nil, fmt.Errorf("machine %s: %w", m.Name, err)
		}
		names[m.Name] = true
	}
	return names, nil
}

// looseNative and looseOnClusterAPI report whether a pool without a MachineDeployment
// works on an API.
func (h *movingPool) looseNative(want int, alone bool) func(context.Context) error {
	return func(ctx context.Context) error {
		names, err := h.nativeMachines(ctx)
		if err == nil && alone {
			err = h.nothingOnClusterAPI(ctx)
		}
		if err != nil {
			return err
		}
		return h.isThere(ctx, names, want)
	}
}

func (h *movingPool) looseOnClusterAPI(want int, alone bool) func(context.Context) error {
	return func(ctx context.Context) error {
		names, err := h.capiMachines(ctx)
		if err == nil && alone {
			err = h.nothingOnNative(ctx)
		}
		if err != nil {
			return err
		}
		return h.isThere(ctx, names, want)
	}
}

// vms are the names of the pool's VMs that are there to stay.
func (h *movingPool) vms(ctx context.Context) (map[string]bool, error) {
	all, err := h.Cloud.VMs(ctx)
	names := map[string]bool{}
	for name := range all {
		if name == h.Name || strings.HasPrefix(name, h.Name+"-") {
			names[name] = true
		}
	}
	return names, err
}

// onNative reports whether the pool works on the native API with so many machines,
// and its conditions are good. With alone, nothing is left on the other API.
func (h *movingPool) onNative(want int, alone bool) func(context.Context) error {
	return func(ctx context.Context) error {
		d := &machinev1.MachineDeployment{}
		if err := h.cl.Get(ctx, h.key(h.Name), d); err != nil {
			return err
		}
		names, err := h.nativeMachines(ctx)
		if err != nil {
			return err
		}
		s := d.Status
		if got := []int32{
			d.Spec.Replicas, s.Replicas, s.ReadyReplicas, s.AvailableReplicas,
			s.UpdatedReplicas,
		}; got[0] != got[1] || got[1] != got[2] || got[2] != got[3] || got[3] != got[4] ||
			int(got[0]) != want {
			return fmt.Errorf("native MachineDeployment %s has replicas, total, ready, available, updated %v, want %d", h.Name,
				got, want)
		}
		if s.ObservedGeneration != d.Generation {
			return errors.New("the native MachineDeployment has not been looked at")
		}
		for _, c := range s.Conditions {
			if c.Type == machinev1.MachineDeploymentAvailable && c.Status != machinev1.ConditionTrue {
				return fmt.Errorf("native MachineDeployment %s: %s is %s: %s", h.Name, c.Type, c.Status, c.Message)
			}
		}
		if err := h.nativeSets(ctx, want); err != nil {
			return err
		}
		if alone {
			if err := h.nothingOnClusterAPI(ctx); err != nil {
				return err
			}
		}
		return h.isThere(ctx, names, want)
	}
}

// nativeSets reports whether one MachineSet has all machines.
func (h *movingPool) nativeSets(ctx context.Context, want int) error {
	var list machinev1.MachineSetList
	if err := h.cl.List(ctx, &list, client.InNamespace(h.Namespace),
		client.MatchingLabels{machinev1.NameLabel: h.Name}); err != nil {
		return err
	}
	full := 0
	for i := range list.Items {
		s := &list.Items[i]
		switch {
		case int(s.Spec.Replicas) == want && int(s.Status.ReadyReplicas) == want:
			full++
		case s.Spec.Replicas != 0 || s.Status.Replicas != 0:
			return fmt.Errorf("native MachineSet %s has %d of %d machines", s.Name, s.Status.Replicas, s.Spec.Replicas)
		}
	}
	if full != 1 && want > 0 {
		return fmt.Errorf("%d native MachineSets have all machines", full)
	}
	return nil
}

// nothingOnClusterAPI reports whether nothing of the pool is left there.
func (h *movingPool) nothingOnClusterAPI(ctx context.Context) error {
	for _, list := range []client.ObjectList{
		&clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{}, &infrav1.MCMMachineList{},
		&clusterv1.MachineHealthCheckList{},
	} {
		if err := h.nothing(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

// nothingOnNative is the reverse.
func (h *movingPool) nothingOnNative(ctx context.Context) error {
	for _, list := range []client.ObjectList{
		&machinev1.MachineDeploymentList{}, &machinev1.MachineSetList{},
		&machinev1.MachineList{},
	} {
		if err := h.nothing(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

func (h *movingPool) nothing(ctx context.Context, list client.ObjectList) error {
	if err := h.cl.List(ctx, list, client.InNamespace(h.Namespace)); err != nil {
		return err
	}
	names, err := namesOf(list)
	for _, name := range names {
		if name == h.Name || strings.HasPrefix(name, h.Name+"-") {
			return fmt.Errorf("%s is left in %T", name, list)
		}
	}
	return err
}

// onClusterAPI reports whether the pool works on Cluster API with so many machines,
// and what core says of it is good.
func (h *movingPool) onClusterAPI(want int, alone bool) func(context.Context) error {
	return func(ctx context.Context) error {
		d := &clusterv1.MachineDeployment{}
		if err := h.cl.Get(ctx, h.key(h.Name), d); err != nil {
			return err
		}
		names, err := h.capiMachines(ctx)
		if err != nil {
			return err
		}
		s := d.Status
		got := []int32{
			value(d.Spec.Replicas), value(s.Replicas), value(s.ReadyReplicas), value(s.AvailableReplicas),
			value(s.UpToDateReplicas),
		}
		if got[0] != got[1] || got[1] != got[2] || got[2] != got[3] || got[3] != got[4] || int(got[0]) != want {
			return fmt.Errorf("MachineDeployment %s has replicas, total, ready, available, up to date %v, want %d", h.Name, got,
				want)
		}
		if s.ObservedGeneration != d.Generation {
			return errors.New("the MachineDeployment has not been looked at")
		}
		if err := condition(s.Conditions, clusterv1.MachineDeploymentAvailableCondition); err != nil {
			return err
		}
		if err := h.sets(ctx, want); err != nil {
			return err
		}
		if alone {
			if err := h.nothingOnNative(ctx); err != nil {
				return err
			}
		}
		return h.isThere(ctx, names, want)
	}
}

// sets reports whether one MachineSet of Cluster API has all machines.
func (h *movingPool) sets(ctx context.Context, want int) error {
	var list clusterv1.MachineSetList
	if err := h.cl.List(ctx, &list, client.InNamespace(h.Namespace),
		client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: h.Name}); err != nil {
		return err
	}
	full := 0
	for i := range list.Items {
		s := &list.Items[i]
		switch replicas := int(value(s.Spec.Replicas)); {
		case replicas == want && int(value(s.Status.AvailableReplicas)) == want:
			full++
		case replicas != 0 || value(s.Status.Replicas) != 0:
			return fmt.Errorf("MachineSet %s has %d of %d machines", s.Name, value(s.Status.Replicas), replicas)
		}
	}
	if full != 1 && want > 0 {
		return fmt.Errorf("%d MachineSets have all machines", full)
	}
	return nil
}

// isThere reports whether each Machine has its VM and its ready Node, and there are
// no others.
func (h *movingPool) isThere(ctx context.Context, names map[string]bool, want int) error {
	vms, err := h.vms(ctx)
	if err != nil {
		return err
	}
	var nodes corev1.NodeList
	if err := h.cl.List(ctx, &nodes); err != nil {
		return err
	}
	ready := 0
	for i := range nodes.Items {
		if n := &nodes.Items[i]; names[n.Name] && n.DeletionTimestamp.IsZero() && isReady(n) {
			ready++
		}
	}
	for name := range names {
		if !vms[name] {
			return fmt.Errorf("Machine %s has no VM", name)
		}
	}
	if len(names) != want || len(vms) != want || ready != want {
		return fmt.Errorf("%s has %d Machines, %d VMs and %d ready Nodes, want %d of each", h.Name, len(names), len(vms),
			ready, want)
	}
	return nil
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func value[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// longTimeouts are settings of machines that are told to both APIs.
func longTimeouts(d *machinev1.MachineDeployment) {
	d.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{
		MachineDrainTimeout:    &metav1.Duration{Duration: 17 * time.Minute},
		MachineHealthTimeout:   &metav1.Duration{Duration: 11 * time.Minute},
		MachineCreationTimeout: &metav1.Duration{Duration: 13 * time.Minute},
	}
}

// kindOf is the kind of an object as Go names its type.
func kindOf(o any) string {
	name := fmt.Sprintf("%T", o)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// namesOf are the names of a list's objects.
func namesOf(list client.ObjectList) ([]string, error) {
	var names []string
	err := meta.EachListItem(list, func(o runtime.Object) error {
		names = append(names, o.(client.Object).GetName())
		return nil
	})
	return names, err
}

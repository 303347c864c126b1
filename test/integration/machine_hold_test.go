package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// A whole pool is held, as for a move to another API. Whatever is done to it then
// has no consequence, also not for a manager that starts in between. Once it is
// released, in whatever order, all of it has.
func heldPoolIsLeftAlone(s *env) {
	s.move()
	s.class()
	s.classNamed(s.name + "-2")
	const health = 2
	flags := []string{
		"--machine-safety-outage-protection=false", "--machine-safety-orphan-vms-period=3s",
		"--machine-health-timeout=2s",
	}
	manager := s.manage(flags...)
	d := s.pool(4, func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.MachineHealthTimeout = seconds(health) })
	all := s.running(4)
	s.hold("move-1", d, all)
	held, err := manager.Metric(s.Context(), "mcm_migration_held_objects")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(held).To(BeNumerically(">", 0))

	before := s.picture()
	s.Expect(s.Edit(s.Context(), d, func() {
		d.Spec.Replicas = 6
		d.Spec.Template.Spec.Class.Name = s.name + "-2"
	})).To(Succeed())
	s.Expect(s.Client.Delete(s.Context(), &all[0])).To(Succeed())
	s.Expect(s.Cloud.Terminate(s.Context(), vmID(&all[1]))).To(Succeed())
	s.Expect(s.Client.Delete(s.Context(), s.node(&all[2]))).To(Succeed())
	s.kubelet(&all[3], map[string]any{"ready": false})
	s.holds(4*health*time.Second, "nothing happens", func(context.Context) error { return s.same(before, vmID(&all[1])) })
	s.Expect(manager.Terminate()).To(Succeed())
	manager = s.manage(flags...)
	s.eventually("the next manager works", func(ctx context.Context) error {
		n, err := manager.Metric(ctx, "mcm_workqueue_work_duration_seconds_count")
		if err == nil && n == 0 {
			return fmt.Errorf("it has reconciled nothing")
		}
		return err
	})
	s.holds(4*health*time.Second, "nothing happens after a restart either", func(context.Context) error {
		return s.same(before, vmID(&all[1]))
	})

	s.release(d, all)
	s.eventually("all that was asked for happens", func(ctx context.Context) error {
		now, err := s.list(ctx)
		if err != nil {
			return err
		}
		for i := range now {
			if now[i].Spec.Class.Name != s.name+"-2" {
				return fmt.Errorf("machine %s is of class %s", now[i].Name, now[i].Spec.Class.Name)
			}
		}
		return nil
	})
	for _, m := range s.running(6) {
		s.Expect(s.alive(s.Context(), m.Name)).To(Succeed())
	}
	for i := range all {
		s.gone(&all[i])
	}
	s.Expect(s.Client.Delete(s.Context(), d)).To(Succeed())
	s.gone(d)
	s.none()
}

// sets are those of the env.
func (s *env) sets() []machinev1.MachineSet {
	s.Helper()
	list := &machinev1.MachineSetList{}
	s.Expect(s.Client.List(s.Context(), list, client.InNamespace(s.namespace))).To(Succeed())
	return list.Items
}

// poolObjects are a deployment, the sets and machines.
func (s *env) poolObjects(d *machinev1.MachineDeployment, machines []machinev1.Machine) []client.Object {
	s.Helper()
	objects := []client.Object{d}
	for _, set := range s.sets() {
		objects = append(objects, &set)
	}
	for i := range machines {
		objects = append(objects, &machines[i])
	}
	return objects
}

// hold puts a hold on a pool from the top down, and waits until all have answered.
func (s *env) hold(value string, d *machinev1.MachineDeployment, machines []machinev1.Machine) {
	s.Helper()
	objects := s.poolObjects(d, machines)
	for _, o := range objects {
		s.Expect(s.Edit(s.Context(), o, func() {
			o.SetAnnotations(merged(o.GetAnnotations(), machinev1.MigrationHoldAnnotation, value))
		})).To(Succeed())
	}
	for _, o := range objects {
		s.eventually(o.GetName()+" answers", func(ctx context.Context) error {
			if err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if !machinev1.HoldAnswered(o) || o.GetAnnotations()[machinev1.MigrationHeldAnnotation] != value {
				return fmt.Errorf("annotations %v", o.GetAnnotations())
			}
			return nil
		})
		s.told(machinev1.EventHeld, o.GetName())
	}
}

// release takes the holds off, from the bottom up.
func (s *env) release(d *machinev1.MachineDeployment, machines []machinev1.Machine) {
	s.Helper()
	objects := s.poolObjects(d, machines)
	slices.Reverse(objects)
	for _, o := range objects {
		s.Expect(s.Edit(s.Context(), o, func() { machinev1.DropHold(o) })).To(Succeed())
	}
}

func merged(all map[string]string, key, value string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	return all
}

// picture is what a held pool must not change: the versions of sets and machines,
// their number, the VMs that there ever were, and what only managers write to nodes.
type picture struct {
	objects map[string]string
	nodes   map[string]string
	vms     map[string]bool // by id, whether it lives
}

func (s *env) picture() picture {
	s.Helper()
	p := picture{objects: map[string]string{}, nodes: map[string]string{}, vms: map[string]bool{}}
	for _, set := range s.sets() {
		p.objects["MachineSet "+set.Name] = set.ResourceVersion
	}
	machines, err := s.list(s.Context())
	s.Expect(err).NotTo(HaveOccurred())
	for i := range machines {
		m := &machines[i]
		// Deleting one is what the test does; its metadata must not change otherwise.
		p.objects["Machine "+m.Name] = s.text(m.UID, m.Generation-deletions(m), m.Finalizers, m.Labels, m.Annotations, m.Spec,
			m.Status)
		node := &corev1.Node{}
		if err := s.Client.Get(s.Context(), client.ObjectKey{Name: m.Labels[machinev1.NodeLabel]}, node); err == nil {
			p.nodes[node.Name] = s.text(node.UID, node.Finalizers, node.Labels, node.Annotations, givenTaints(node),
				node.Spec.Unschedulable)
		}
	}
	all, err := s.vms(s.Context())
	s.Expect(err).NotTo(HaveOccurred())
	for _, vms := range all {
		for _, vm := range vms {
			p.vms[vm.ID] = vm.Deleting.IsZero()
		}
	}
	return p
}

// text is what values are, in words.
func (s *env) text(values ...any) string {
	s.Helper()
	text, err := json.Marshal(values)
	s.Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// deletions is how much the API server adds to the generation of an object whose
// deletion was asked for.
func deletions(o metav1.Object) int64 {
	if o.GetDeletionTimestamp().IsZero() {
		return 0
	}
	return 1
}

// same says what differs from before, except for a VM that the test has ended and
// the nodes that the cloud takes away with it.
func (s *env) same(before picture, ended string) error {
	s.Helper()
	now := s.picture()
	for what, version := range before.objects {
		if now.objects[what] != version {
			return fmt.Errorf("%s was %s, is %s", what, version, now.objects[what])
		}
	}
	for name, is := range now.nodes {
		if was := before.nodes[name]; was != is {
			return fmt.Errorf("Node %s was %s, is %s", name, was, is)
		}
	}
	for id, lived := range before.vms {
		if id != ended && now.vms[id] != lived {
			return fmt.Errorf("VM %s lived: %t, lives: %t", id, lived, now.vms[id])
		}
	}
	if len(now.objects) != len(before.objects) || len(now.vms) != len(before.vms) {
		return fmt.Errorf("%d objects and %d VMs, there were %d and %d", len(now.objects), len(now.vms), len(before.objects),
			len(before.vms))
	}
	return nil
}

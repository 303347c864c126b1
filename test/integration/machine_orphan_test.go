package integration

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// orphan makes a VM without Machine in the env's account; owner is its owner
// id, empty for one that MCM made.
func (s *env) orphan(name, owner string) sim.Resource {
	s.Helper()
	in := sim.VMInput{Zone: stack.Zone, InstanceType: "small", Image: "linux-1", Tags: stack.OwnershipTags()}
	in.Tags[sim.NameTag] = name
	if owner != "" {
		in.Tags[machinev1.OwnerIDAnnotation] = owner
	}
	r, err := s.Cloud.MakeVM(s.Context(), account(s.name), in)
	s.Expect(err).NotTo(HaveOccurred())
	return r
}

// collected waits until a VM is gone that was made now and has no owner.
// Then the collector has judged twice everything that is as old.
func (s *env) collected() {
	s.Helper()
	r := s.orphan("nobody", "nobody's")
	s.removed(r)
}

func (s *env) removed(r sim.Resource) {
	s.Helper()
	s.eventually("VM "+r.ID+" is removed", func(ctx context.Context) error {
		vms, err := s.vms(ctx)
		for _, vm := range vms[r.Tags[sim.NameTag]] {
			if vm.ID == r.ID && vm.Gone.IsZero() {
				return fmt.Errorf("it is there")
			}
		}
		return err
	})
}

func orphanGoesAndFailingClassStopsNobody(s *env) {
	s.classNamed("a-failing-class", func(_ *machinev1.MachineClass, secret *corev1.Secret) {
		secret.Data["secretKey"] = []byte("wrong")
	})
	s.class()
	m := s.single("has-vm")
	s.phase(m, machinev1.MachineRunning)
	s.told("OrphanScanFailed", "a-failing-class")

	ours, mcms, second := s.orphan("lost", "nobody's"), s.orphan("lost-by-mcm", ""), s.orphan(m.Name,
		m.Annotations[machinev1.OwnerIDAnnotation])
	for _, r := range []sim.Resource{ours, mcms, second} {
		s.removed(r)
	}
	s.Expect(s.told("OrphanRemoved", s.name)).To(ContainSubstring("vm-"))
	s.phase(m, machinev1.MachineRunning)
	s.Expect(s.Client.Delete(s.Context(), m)).To(Succeed())
	s.none()
}

func orphanIsOnlyReported(s *env) {
	s.class(func(c *machinev1.MachineClass, _ *corev1.Secret) {
		c.Annotations = map[string]string{machinev1.ReportOrphansAnnotation: ""}
	})
	r := s.orphan("reported", "nobody's")
	s.Expect(s.told("OrphanFound", s.name)).To(ContainSubstring(r.ID))
	before, err := s.Cloud.CallsOf(s.Context(), s.name, sim.OpList)
	s.Expect(err).NotTo(HaveOccurred())
	s.eventually("three more looks", func(ctx context.Context) error {
		now, err := s.Cloud.CallsOf(ctx, s.name, sim.OpList)
		if err == nil && now < before+3 {
			return fmt.Errorf("%d of 3", now-before)
		}
		return err
	})
	s.Expect(s.alive(s.Context(), "reported")).To(Succeed())
}

// The VM exists, and every answer that says so is lost: the Machine does not
// know it for long, and all that time it is not an orphan. In the end the
// Machine has that VM and no other.
func vmOfMachineBeingMadeIsNoOrphan(s *env) {
	s.fault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultLost, Name: "lost-answers"})
	s.class()
	m := s.single("lost-answers")
	s.Expect(s.says(m, machinev1.ConditionVMReady, machinev1.ReasonCloudUnavailable)).NotTo(BeEmpty())
	s.Expect(m.Spec.ProviderID).To(BeEmpty())
	s.eventually("its VM exists", func(ctx context.Context) error { return s.alive(ctx, m.Name) })
	s.collected()
	s.Expect(s.alive(s.Context(), m.Name)).To(Succeed())
	s.repair()
	s.phase(m, machinev1.MachineRunning)
	s.collected()
	s.Expect(s.alive(s.Context(), m.Name)).To(Succeed())
}

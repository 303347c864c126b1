package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// lostMachinesAreRecovered takes a pool back to what a backup has of it, as a restore of
// etcd does: fewer Machines, smaller sizes, names that were not used yet. The orphan
// collector keeps the VMs, and kubectl mcm recover gives them their Machines back.
func lostMachinesAreRecovered(s *env) {
	const before, after = 3, 8
	s.move()
	s.class()
	m := s.manage()
	d := s.pool(before)
	kept := uids(s.running(before))
	sets := s.sets()
	s.Expect(sets).To(HaveLen(1))
	backup := sets[0].Annotations[machinev1.OrdinalsAnnotation]
	s.Expect(s.Edit(s.Context(), d, func() { d.Spec.Replicas = after })).To(Succeed())
	machines := s.running(after)
	nodes := s.nodeUIDs(machines)
	s.Expect(m.Kill()).To(Succeed())
	s.restore(d, &sets[0], backup, before, machines, kept)

	s.manage("--machine-safety-orphan-vms-period=3s")
	s.eventually("the collector lists the VMs", func(ctx context.Context) error { return s.listed(ctx, after-before) })
	plan := s.kubectlMCM("recover", "plan")
	s.Expect(plan).To(ContainSubstring("spec.replicas of the MachineSet: 3, becomes 8"))
	s.Expect(plan).To(ContainSubstring("names of machines: the next"))
	s.Expect(s.list(s.Context())).To(HaveLen(before), "a plan changes nothing")
	s.Expect(s.kubectlMCM("recover", "apply")).To(ContainSubstring("5 machines recovered"))
	s.recovered(machines, nodes)
	s.Expect(s.Client.Get(s.Context(), client.ObjectKeyFromObject(d), d)).To(Succeed())
	s.Expect(d.Spec.Replicas).To(BeNumerically("==", after))
	s.eventually("nothing is listed any more", func(ctx context.Context) error { return s.listed(ctx, 0) })

	// A further machine gets a name that no VM has, and the pool is an ordinary one.
	s.Expect(s.Edit(s.Context(), d, func() { d.Spec.Replicas = after + 1 })).To(Succeed())
	s.running(after + 1)
	s.onlyVMs(after + 1)
	s.Expect(s.Client.Delete(s.Context(), d)).To(Succeed())
	s.gone(d)
	s.none()
}

// nodeUIDs returns the UIDs of the Nodes of machines, by name of the machine.
func (s *env) nodeUIDs(machines []machinev1.Machine) map[string]types.UID {
	s.Helper()
	out := map[string]types.UID{}
	for i := range machines {
		out[machines[i].Name] = s.node(&machines[i]).UID
	}
	return out
}

// restore takes a deployment and its set back, and drops the machines that are not kept.
func (s *env) restore(d *machinev1.MachineDeployment, set *machinev1.MachineSet, ordinals string, replicas int32,
	machines []machinev1.Machine, kept map[types.UID]bool,
) {
	s.Helper()
	for i := range machines {
		lost := &machines[i]
		if kept[lost.UID] {
			continue
		}
		lost = lost.DeepCopy()
		s.Expect(s.Edit(s.Context(), lost, func() { lost.Finalizers = nil })).To(Succeed())
		s.Expect(s.Client.Delete(s.Context(), lost)).To(Succeed())
	}
	s.Expect(s.Edit(s.Context(), set, func() {
		set.Spec.Replicas = replicas
		set.Annotations[machinev1.OrdinalsAnnotation] = ordinals
		set.Annotations[machinev1.DesiredReplicasAnnotation] = fmt.Sprint(replicas)
		set.Annotations[machinev1.MaxReplicasAnnotation] = fmt.Sprint(replicas + 1)
	})).To(Succeed())
	s.Expect(s.Edit(s.Context(), d, func() { d.Spec.Replicas = replicas })).To(Succeed())
}

// listed returns an error unless the class lists so many VMs without a machine.
func (s *env) listed(ctx context.Context, want int) error {
	class := &machinev1.MachineClass{}
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.name}, class); err != nil {
		return err
	}
	var held machinev1.HeldOrphans
	text := class.Annotations[machinev1.HeldOrphansAnnotation]
	if text != "" {
		if err := json.Unmarshal([]byte(text), &held); err != nil {
			return err
		}
	}
	if held.Count != want {
		return fmt.Errorf("%d are listed, want %d: %s", held.Count, want, text)
	}
	return nil
}

// recovered waits until the machines are Running again, and checks that each has the VM and
// the Node that it had.
func (s *env) recovered(was []machinev1.Machine, nodes map[string]types.UID) {
	s.Helper()
	now := map[string]*machinev1.Machine{}
	machines := s.running(len(was))
	for i := range machines {
		now[machines[i].Name] = &machines[i]
	}
	for i := range was {
		m := now[was[i].Name]
		s.Expect(m).NotTo(BeNil(), "Machine %s is not back", was[i].Name)
		s.Expect(m.Spec.ProviderID).To(Equal(was[i].Spec.ProviderID))
		s.Expect(machinev1.OwnerID(m)).To(Equal(machinev1.OwnerID(&was[i])))
		s.Expect(m.Annotations).NotTo(HaveKey(machinev1.MigrationHoldAnnotation))
		s.Expect(s.node(m).UID).To(Equal(nodes[m.Name]))
	}
	s.onlyVMs(len(was))
}

// onlyVMs checks that the account has had so many VMs ever, and that all of them live.
func (s *env) onlyVMs(n int) {
	s.Helper()
	vms, err := s.vms(s.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(vms).To(HaveLen(n), "VMs were made for other machines")
	for name := range vms {
		s.Expect(s.alive(s.Context(), name)).To(Succeed())
	}
}

// kubectlMCM runs the plugin in the env's namespace, and returns what it prints.
func (s *env) kubectlMCM(args ...string) string {
	s.Helper()
	args = append(args, "-n", s.namespace, "--kubeconfig", s.Cluster.Kubeconfig())
	out, err := exec.CommandContext(s.Context(), filepath.Join(binaries, "kubectl-mcm"), args...).CombinedOutput()
	s.Logf("kubectl mcm %v\n%s", args, out)
	s.Expect(err).NotTo(HaveOccurred(), string(out))
	return string(out)
}

// fewLostMachinesAreRecovered: the collector would remove a few orphans, so a restore is
// made with a collector that only reports. Meanwhile the sets use the names again, for new
// Machines that find the VMs of these names.
func fewLostMachinesAreRecovered(s *env) {
	s.move()
	s.class()
	m := s.manage()
	d := s.pool(2)
	machines := s.running(2)
	single := s.single("restored-single")
	s.phase(single, machinev1.MachineRunning)
	machines = append(machines, *single)
	nodes := s.nodeUIDs(machines)
	s.Expect(m.Kill()).To(Succeed())
	sets := s.sets()
	s.restore(d, &sets[0], "", 0, machines, nil)

	m = s.manage("--machine-safety-orphan-vms-period=3s", "--machine-safety-orphan-vms-report-only")
	s.eventually("the collector lists the VMs", func(ctx context.Context) error { return s.listed(ctx, 3) })
	s.Expect(s.kubectlMCM("recover", "apply", "--class", s.name)).To(ContainSubstring("3 machines recovered"))
	s.recoveredNames(machines)
	s.Expect(m.Terminate()).To(Succeed())
	s.manage("--machine-safety-orphan-vms-period=3s")
	s.collected()
	for i := range machines {
		s.Expect(s.alive(s.Context(), machines[i].Name)).To(Succeed())
		s.Expect(s.node(&machines[i]).UID).To(Equal(nodes[machines[i].Name]))
	}
}

// recoveredNames waits until Machines of these names are Running with the VMs that they had.
func (s *env) recoveredNames(was []machinev1.Machine) {
	s.Helper()
	for i := range was {
		s.eventually("Machine "+was[i].Name+" is Running", func(ctx context.Context) error {
			m := &machinev1.Machine{}
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(&was[i]), m)
			switch {
			case apierrors.IsNotFound(err):
				return errors.New("it does not exist")
			case err == nil && m.Spec.ProviderID != was[i].Spec.ProviderID:
				return fmt.Errorf("it has VM %s", m.Spec.ProviderID)
			case err != nil:
				return err
			}
			return isRunning(ctx, s.Client, m)
		})
	}
}

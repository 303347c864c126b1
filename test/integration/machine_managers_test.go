package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

func machineWithoutTargetCluster(s *env) {
	s.move()
	s.class()
	s.manage("--target-kubeconfig=none")
	m := s.single("no-target-single", func(m *machinev1.Machine) { m.Labels = nil })
	s.phase(m, machinev1.MachineAvailable)
	s.Expect(m.Labels).NotTo(HaveKey(machinev1.NodeLabel))
	s.Expect(m.Status.LastOperation.Type).To(Equal(machinev1.MachineOperationCreate))
	s.Expect(m.Status.LastOperation.State).To(Equal(machinev1.MachineStateSuccessful))
	kinds := map[corev1.NodeAddressType]string{}
	for _, a := range m.Status.Addresses {
		kinds[a.Type] = a.Address
	}
	s.Expect(kinds).To(And(HaveKeyWithValue(corev1.NodeHostName, m.Name),
		HaveKeyWithValue(corev1.NodeInternalIP, HavePrefix("10."))))
	token, err := s.tokenOf(s.Context(), m.Name)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(token).To(BeNil(), "there is nothing to join")
	s.told("Created", m.Name)

	d := s.pool(2)
	s.eventually("machines without node are available", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if d.Status.AvailableReplicas != 2 || d.Status.ReadyReplicas != 0 {
			return fmt.Errorf("%d available, %d ready", d.Status.AvailableReplicas, d.Status.ReadyReplicas)
		}
		return nil
	})
	nodes, _, err := s.Nodes(s.Context())
	s.Expect(err).NotTo(HaveOccurred())
	for i := range nodes {
		s.Expect(nodes[i].Name).NotTo(HavePrefix(s.name), "a VM has joined a cluster that is none of its")
	}
	s.Expect(s.Client.Delete(s.Context(), m)).To(Succeed())
	s.Expect(s.Client.Delete(s.Context(), d)).To(Succeed())
	s.gone(m, d)
	s.none()
}

// killedManagerMakesExactlyOneVM kills managers while they make machines, and
// counts what was ever made.
func killedManagerMakesExactlyOneVM(s *env) {
	const rounds, each = 3, 10
	seed := rand.Uint64()
	s.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	s.move()
	s.class()
	d := s.pool(0)
	for round := range rounds {
		m := s.manage("--leader-elect=false")
		s.Expect(s.Edit(s.Context(), d, func() { d.Spec.Replicas = int32((round + 1) * each) })).To(Succeed())
		s.killAfter(m, round*each+random.IntN(each-2)+1, upTo(100*time.Millisecond))
		// The next one dies while it finds its way, or finishes the work.
		s.killAfter(s.manage("--leader-elect=false"), 0, time.Second+upTo(2*time.Second))
	}
	m := s.manage("--leader-elect=false")
	machines := s.running(rounds * each)
	vms, err := s.vms(s.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(vms).To(HaveLen(rounds*each), "VMs were made for other machines")
	for i := range machines {
		s.Expect(s.alive(s.Context(), machines[i].Name)).To(Succeed())
	}
	// All go, and the manager dies in the middle of that too.
	s.Expect(s.Edit(s.Context(), d, func() { d.Spec.Replicas = 0 })).To(Succeed())
	s.killAfter(m, 0, upTo(time.Second))
	s.manage("--leader-elect=false")
	s.none()
	for i := range machines {
		s.gone(&machines[i])
	}
}

// killAfter kills a manager some time after the cloud has that many VMs.
func (s *env) killAfter(m *stack.Manager, vms int, wait time.Duration) {
	s.Helper()
	s.eventually("it is time to kill", func(ctx context.Context) error {
		made, err := s.vms(ctx)
		if err == nil && len(made) < vms {
			return fmt.Errorf("%d of %d VMs are made", len(made), vms)
		}
		return err
	})
	select {
	case <-time.After(wait):
	case <-s.Context().Done():
	}
	s.Expect(m.Kill()).To(Succeed())
}

// onlyOneManagerWorks starts two managers while MCM holds one of its leases.
func onlyOneManagerWorks(s *env) {
	s.move()
	s.class()
	lease := &coordinationv1.Lease{ObjectMeta: s.meta(machinev1.LeaseMachineController)}
	now := metav1.NowMicro()
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: new("mcm"), LeaseDurationSeconds: new(int32(600)),
		AcquireTime: &now, RenewTime: &now,
	}
	s.Expect(s.Client.Create(s.Context(), lease)).To(Succeed())
	// Leases have the default length: on a busy machine a leader cannot renew a shorter one in time.
	const retry = "--leader-elect-retry-period=500ms"
	managers := []*stack.Manager{s.manage(retry), s.manage(retry)}
	d := s.pool(2)
	for _, m := range managers {
		s.eventually(m.Name+" can take over", m.Ready)
	}
	s.holds(3*time.Second, "nobody works while MCM does", func(ctx context.Context) error {
		all, err := s.list(ctx)
		if err == nil && len(all) > 0 {
			return fmt.Errorf("there are %d machines", len(all))
		}
		return err
	})
	// MCM ends, and one of the two takes both leases.
	s.Expect(s.Edit(s.Context(), lease, func() {
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(""), new(int32(1))
	})).To(Succeed())
	s.running(2)
	holder := s.holder()
	s.Expect(holder).NotTo(BeEmpty())
	leader, standby := managers[0], managers[1]
	if !s.works(leader) {
		leader, standby = standby, leader
	}
	s.Expect(s.works(leader)).To(BeTrue())
	s.Expect(s.works(standby)).To(BeFalse(), "both work")
	// The leader dies without notice, and the other goes on.
	s.Expect(leader.Kill()).To(Succeed())
	s.Expect(s.Edit(s.Context(), d, func() { d.Spec.Replicas = 3 })).To(Succeed())
	for _, m := range s.running(3) {
		s.Expect(s.alive(s.Context(), m.Name)).To(Succeed())
	}
	s.Expect(s.works(standby)).To(BeTrue())
	successor := s.holder()
	s.Expect(successor).NotTo(Equal(holder))
	// It ends in good order. A request of the leader that died may still arrive, so the
	// leases are left to expire, which tells the next leader.
	s.Expect(standby.Terminate()).To(Succeed())
	s.Expect(s.holder()).To(Equal(successor))
}

// works reports whether a manager has reconciled anything. A standby fills its queues.
func (s *env) works(m *stack.Manager) bool {
	s.Helper()
	n, err := m.Metric(s.Context(), "mcm_workqueue_work_duration_seconds_count")
	s.Expect(err).NotTo(HaveOccurred())
	return n > 0
}

// holder is who holds both leases.
func (s *env) holder() string {
	s.Helper()
	var holders []string
	for _, name := range []string{machinev1.LeaseMachineControllerManager, machinev1.LeaseMachineController} {
		lease := &coordinationv1.Lease{}
		s.Expect(s.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, lease)).To(Succeed())
		holders = append(holders, ptr.Deref(lease.Spec.HolderIdentity, ""))
	}
	s.Expect(holders[0]).To(Equal(holders[1]), "both leases are held by the same one")
	return holders[0]
}

// machinesOfMCMAreAdopted writes what MCM leaves behind when it is stopped, and
// starts the manager on it.
func machinesOfMCMAreAdopted(s *env) {
	const token = "adopt0.0123456789abcdef"
	s.move()
	s.class(func(c *machinev1.MachineClass, secret *corev1.Secret) {
		c.Finalizers, secret.Finalizers = []string{machinev1.Finalizer}, []string{machinev1.SecretFinalizer}
	})
	s.Expect(s.Client.Create(s.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-adopt0"},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": "adopt0", "token-secret": "0123456789abcdef",
			"usage-bootstrap-authentication": "true",
		},
	})).To(Succeed())
	stays, stayingVM := s.madeByMCM("mcm-stays", token)
	goes, goingVM := s.madeByMCM("mcm-goes", token)
	s.Expect(s.Client.Delete(s.Context(), goes)).To(Succeed())
	s.Expect(s.Client.Get(s.Context(), client.ObjectKeyFromObject(goes), goes)).To(Succeed())
	goes.Status.CurrentStatus.Phase = machinev1.MachineTerminating
	goes.Status.LastOperation = machinev1.LastOperation{
		Description: "Drain successful. Initiate VM deletion", State: machinev1.MachineStateProcessing,
		Type: machinev1.MachineOperationDelete, LastUpdateTime: metav1.Now(),
	}
	s.Expect(s.Client.Status().Update(s.Context(), goes)).To(Succeed())

	m := s.manage("--machine-safety-orphan-vms-period=3s")
	s.gone(goes)
	s.removed(goingVM)
	node := s.node(stays)
	s.collected()

	was := stays.DeepCopy()
	s.Expect(s.Client.Get(s.Context(), client.ObjectKeyFromObject(stays), stays)).To(Succeed())
	s.Expect(stays.UID).To(Equal(was.UID))
	s.Expect(stays.Spec.ProviderID).To(Equal(was.Spec.ProviderID))
	s.Expect(stays.Status.CurrentStatus).To(Equal(was.Status.CurrentStatus), "its phase has never changed")
	s.Expect(stays.Status.LastOperation).To(Equal(was.Status.LastOperation))
	s.Expect(s.alive(s.Context(), stays.Name)).To(Succeed())
	s.Expect(s.node(stays).UID).To(Equal(node.UID))
	made, err := s.Cloud.CallsOf(s.Context(), s.name, sim.OpCreateVM)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(made).To(Equal(3), "the manager has made nothing")
	s.Expect(m.Ended()).To(BeFalse())
	// And it can be deleted as any other.
	s.Expect(s.Client.Delete(s.Context(), stays)).To(Succeed())
	s.gone(stays, node)
	s.removed(stayingVM)
}

// madeByMCM returns a Running machine as MCM leaves it behind: no owner id on
// anything, and a VM whose node has joined.
func (s *env) madeByMCM(name, token string) (*machinev1.Machine, sim.Resource) {
	s.Helper()
	in := sim.VMInput{Zone: stack.Zone, InstanceType: "small", Image: "linux-1", Tags: stack.OwnershipTags()}
	in.Tags[sim.NameTag] = name
	in.UserData = fill(s.UserData(), token, name)
	vm, err := s.Cloud.MakeVM(s.Context(), account(s.name), in)
	s.Expect(err).NotTo(HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.eventually("node "+name+" joins", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		if c := nodeCondition(node, corev1.NodeReady); c == nil || c.Status != corev1.ConditionTrue {
			return errors.New("not ready")
		}
		return nil
	})
	s.Expect(s.Edit(s.Context(), node, func() {
		node.Labels[machinev1.MachineNameLabel] = name
		node.Finalizers = append(node.Finalizers, machinev1.NodeFinalizer)
	})).To(Succeed())
	m := s.single(name, func(m *machinev1.Machine) {
		m.Finalizers = []string{machinev1.Finalizer}
		m.Labels[machinev1.NodeLabel] = name
		m.Annotations = map[string]string{machinev1.PriorityAnnotation: "3"}
		m.Spec.ProviderID = sim.ProviderID(stack.Region, vm.ID)
	})
	m.Status.Conditions = node.Status.Conditions
	m.Status.CurrentStatus = machinev1.CurrentStatus{
		Phase:          machinev1.MachineRunning,
		LastUpdateTime: metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second)),
	}
	m.Status.LastOperation = machinev1.LastOperation{
		Description: "Machine " + name + " successfully joined the cluster", State: machinev1.MachineStateSuccessful,
		Type: machinev1.MachineOperationCreate, LastUpdateTime: m.Status.CurrentStatus.LastUpdateTime,
	}
	s.Expect(s.Client.Status().Update(s.Context(), m)).To(Succeed())
	return m, vm
}

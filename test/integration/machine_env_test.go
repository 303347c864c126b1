package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// machineTests returns tests of what becomes of machines. They share a stack and
// its manager, and run all at once: what they do is mostly waiting.
func machineTests() map[string]func(*env) {
	return map[string]func(*env){
		"one-at-a-time":   brokenNodesAreReplacedOneAtATime,
		"outage":          nodesLostTogetherAreKept,
		"recovery":        unhealthyMachineRecovers,
		"never-fails":     unhealthyMachineMayStayUnknown,
		"never-joins":     machineThatNeverJoinsIsReplaced,
		"never-made":      machineWithoutVMFails,
		"delete-node":     deletedNodeTakesItsMachineAlong,
		"former-node":     patchOfFormerNodeIsRefused,
		"template":        nodeFollowsItsTemplate,
		"capacity":        nodeFollowsVirtualCapacity,
		"preserve-failed": failedMachineIsKeptUntilExpiry,
		"preserve-node":   nodeAnnotationPreserves,
		"preserve-now":    preservationNowExpires,
		"token":           bootstrapTokenLivesUntilTheNodeJoins,
		"placeholders":    bothFormsOfPlaceholdersArrive,
		"orphan":          orphanGoesAndFailingClassStopsNobody,
		"orphan-report":   orphanIsOnlyReported,
		"lost-answers":    vmOfMachineBeingMadeIsNoOrphan,
		"finalizers":      finalizersKeepWhatIsNeeded,
		"delete-bad-spec": badSpecDoesNotBlockDeletion,
		"delete-no-class": missingClassWaitsVisibly,
		"delete-lost":     lostAnswersOfDeletionLoseNothing,
		"throttled":       throttledMachineSaysSo,
		"unavailable":     unavailableCloudIsNamed,
		"exhausted":       exhaustedCapacityIsToldAtOnce,
		"fallback":        exhaustedClassFallsBack,
		"revoked":         revokedCredentialsAreNamed,
		"no-target":       machineWithoutTargetCluster,
		"killed":          killedManagerMakesExactlyOneVM,
		"pair":            onlyOneManagerWorks,
		"adopted":         machinesOfMCMAreAdopted,
		"held":            heldPoolIsLeftAlone,
		"restored":        lostMachinesAreRecovered,
		"restored-few":    fewLostMachinesAreRecovered,
	}
}

func TestMachines(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{},
		"--machine-safety-orphan-vms-period=3s",
		// Tests break nodes of one zone side by side, which would be an outage of it.
		"--machine-safety-outage-protection=false",
		"--bootstrap-token-auth-extra-groups=system:bootstrappers:worker")
	s.Expect(s.Cloud.SetAccounts(t.Context(), accounts()...)).To(Succeed())
	var all sync.WaitGroup
	launch := &sync.Mutex{}
	tests := machineTests()
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		// Not t.Parallel, which would wait for as many cores.
		all.Go(func() { t.Run(name, func(t *testing.T) { tests[name](s.env(t, name, launch)) }) })
	}
	all.Wait()
}

// accounts are those of all tests, so that faults, calls and orphans of one do
// not concern the others.
func accounts() []sim.Tenant {
	var out []sim.Tenant
	for _, name := range slices.Sorted(maps.Keys(machineTests())) {
		out = append(out, account(name))
	}
	return out
}

func account(name string) sim.Tenant {
	return sim.Tenant{ID: name, SecretKeys: []string{"key of " + name}}
}

// env is a pool of machines with a name of its own, which is also that of its
// class, its Secret and its account.
type env struct {
	*suite
	name, namespace string
	launch          *sync.Mutex // held while a manager is started: a stack starts one at a time
}

func (s *suite) env(t *testing.T, name string, launch *sync.Mutex) *env {
	t.Helper()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(timeout)
	g.SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	return &env{
		suite: &suite{Stack: s.Stack, T: t, Gomega: g, manager: s.manager}, name: name,
		namespace: stack.Namespace, launch: launch,
	}
}

// move gives an env a namespace of its own, for a manager of its own.
func (s *env) move() {
	s.Helper()
	s.namespace = s.name
	s.Expect(s.Client.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}})).To(Succeed())
}

// manage starts a manager of the env's namespace.
func (s *env) manage(flags ...string) *stack.Manager {
	s.Helper()
	s.launch.Lock()
	defer s.launch.Unlock()
	m, err := s.StartManager(append([]string{"--namespace=" + s.namespace}, flags...)...)
	s.Expect(err).NotTo(HaveOccurred())
	return m
}

func (s *env) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: s.namespace}
}

// class creates the env's class and Secret, changed as asked for.
func (s *env) class(change ...func(*machinev1.MachineClass, *corev1.Secret)) {
	s.Helper()
	s.classNamed(s.name, change...)
}

func (s *env) classNamed(name string, change ...func(*machinev1.MachineClass, *corev1.Secret)) {
	s.Helper()
	c, secret := s.Class(name, "small")
	c.Namespace, secret.Namespace, c.SecretRef.Namespace = s.namespace, s.namespace, s.namespace
	secret.Data["accountID"], secret.Data["secretKey"] = []byte(s.name), []byte(account(s.name).SecretKeys[0])
	for _, f := range change {
		f(c, secret)
	}
	s.Expect(s.Client.Create(s.Context(), secret)).To(Succeed())
	s.Expect(s.Client.Create(s.Context(), c)).To(Succeed())
}

// bootsWith adds lines to the boot data of a class.
func bootsWith(lines string) func(*machinev1.MachineClass, *corev1.Secret) {
	return func(_ *machinev1.MachineClass, secret *corev1.Secret) {
		secret.Data[machinev1.UserDataKey] = append(secret.Data[machinev1.UserDataKey], lines...)
	}
}

// specField sets a field of a class's provider spec; nil removes it.
func (s *env) specField(c *machinev1.MachineClass, field string, value any) {
	s.Helper()
	var spec map[string]any
	s.Expect(json.Unmarshal(c.ProviderSpec.Raw, &spec)).To(Succeed())
	if spec[field] = value; value == nil {
		delete(spec, field)
	}
	text, err := json.Marshal(spec)
	s.Expect(err).NotTo(HaveOccurred())
	c.ProviderSpec.Raw = text
}

// pool creates the env's MachineDeployment.
func (s *env) pool(replicas int32, change ...func(*machinev1.MachineDeployment)) *machinev1.MachineDeployment {
	s.Helper()
	d := stack.Deployment(s.name, s.name, replicas, "1", "1")
	d.Namespace = s.namespace
	d.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{}
	for _, f := range change {
		f(d)
	}
	s.Expect(s.Client.Create(s.Context(), d)).To(Succeed())
	return d
}

// single creates a Machine that no set looks after.
func (s *env) single(name string, change ...func(*machinev1.Machine)) *machinev1.Machine {
	s.Helper()
	m := fixture.Machine(name, s.name, fixture.In[*machinev1.Machine](s.namespace),
		fixture.Labels[*machinev1.Machine](machinev1.NameLabel, s.name))
	m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{}
	for _, f := range change {
		f(m)
	}
	s.Expect(s.Client.Create(s.Context(), m)).To(Succeed())
	return m
}

// list returns the env's machines by name.
func (s *env) list(ctx context.Context) ([]machinev1.Machine, error) {
	var list machinev1.MachineList
	err := s.Client.List(ctx, &list, client.InNamespace(s.namespace), client.MatchingLabels{machinev1.NameLabel: s.name})
	return list.Items, err
}

// vmID is the cloud's id of a machine's VM.
func vmID(m *machinev1.Machine) string {
	return m.Spec.ProviderID[strings.LastIndexByte(m.Spec.ProviderID, '/')+1:]
}

// kubelet changes how the kubelet of a machine does.
func (s *env) kubelet(m *machinev1.Machine, how map[string]any) {
	s.Helper()
	s.Expect(s.Cloud.Kubelet(s.Context(), vmID(m), how)).To(Succeed())
}

// vms returns all VMs that the env's account ever had, by the name of their machine.
func (s *env) vms(ctx context.Context) (map[string][]sim.Resource, error) {
	all, err := s.Cloud.Ledger(ctx, sim.KindVM)
	out := map[string][]sim.Resource{}
	for _, r := range all {
		if r.Account == s.name {
			out[r.Tags[sim.NameTag]] = append(out[r.Tags[sim.NameTag]], r)
		}
	}
	return out, err
}

// alive returns an error unless the account has exactly one VM of that name ever,
// and that lives.
func (s *env) alive(ctx context.Context, name string) error {
	vms, err := s.vms(ctx)
	if err != nil {
		return err
	}
	if len(vms[name]) != 1 || !vms[name][0].Deleting.IsZero() {
		return fmt.Errorf("VMs of %s: %+v, want one that lives", name, vms[name])
	}
	return nil
}

// none waits until nothing of the env's account is left in the cloud.
func (s *env) none() {
	s.Helper()
	s.eventually("nothing is left in the cloud", func(ctx context.Context) error {
		all, err := s.Cloud.Live(ctx, "")
		for _, r := range all {
			if r.Account == s.name {
				return fmt.Errorf("there is %s %s of %s", r.Kind, r.ID, r.Tags[sim.NameTag])
			}
		}
		return err
	})
}

func (s *env) fault(f sim.Fault) {
	s.Helper()
	f.Account = s.name
	s.Expect(s.Cloud.AddFault(s.Context(), f)).To(Succeed())
}

// repair takes the env's own faults back.
func (s *env) repair() {
	s.Helper()
	s.Expect(s.Cloud.ClearFaultsOf(s.Context(), s.name)).To(Succeed())
}

func seconds(n int) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Second}
}

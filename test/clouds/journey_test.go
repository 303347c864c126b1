package clouds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const (
	replicas = 5
	timeout  = 15 * time.Minute // of what takes seconds: the machine may have much other work
)

// TestClouds lets one manager make, roll, repair and delete a MachineDeployment in
// each cloud, and machines of Cluster API, all at once.
func TestClouds(t *testing.T) {
	t.Parallel()
	s, _ := start(t)
	var all sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(backends())) {
		// Not t.Parallel, which would wait for as many cores.
		all.Go(func() { t.Run(name, func(t *testing.T) { travel(t, s, name, backends()[name](t)) }) })
	}
	all.Wait()
}

// start starts a manager that reaches all clouds, and more of Kubernetes' controllers.
func start(t *testing.T, controllers ...string) (*stack.Stack, *stack.Manager) {
	t.Helper()
	cluster.Require(t)
	s, err := stack.Start(t.Context(), stack.Options{
		Binaries: binaries, Controllers: cluster.Controllers(controllers...), ClusterAPI: true,
		Cloud: []string{"--delete-nodes=false"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Logs())
		}
		if err := s.Stop(); err != nil {
			t.Log(err)
		}
	})
	m, err := s.StartManager("--machine-safety-orphan-vms-period=10s")
	if err != nil {
		t.Fatal(err)
	}
	return s, m
}

// journey is a MachineDeployment in one cloud.
type journey struct {
	*testing.T
	*stack.Stack
	provider, name string
	cloud          backend
	kubelets       *kubelets
	boots          map[string][]byte // entries of the classes' Secrets
	timeout        time.Duration     // of each step
}

func newJourney(t *testing.T, s *stack.Stack, provider string, b backend) *journey {
	t.Helper()
	j := &journey{T: t, Stack: s, provider: provider, name: strings.ToLower(provider), cloud: b, timeout: timeout}
	j.boots = map[string][]byte{machinev1.UserDataKey: s.UserData()}
	j.kubelets = &kubelets{cloud: b, admin: s.Client, nodes: map[string]string{}}
	return j
}

func travel(t *testing.T, s *stack.Stack, provider string, b backend) {
	t.Helper()
	j := newJourney(t, s, provider, b)
	ctx, stop := context.WithCancel(t.Context())
	var playing sync.WaitGroup
	playing.Go(func() { j.kubelets.run(ctx) })
	t.Cleanup(func() { stop(); playing.Wait() })
	for generation := range 2 {
		j.makeClass(generation)
	}
	d := stack.Deployment(j.name, j.className(0), replicas, "2", "1")
	j.must(s.Client.Create(t.Context(), d))
	j.eventually("five machines run and their nodes have joined", j.settled(0, ""))
	j.must(s.Edit(t.Context(), d, func() { d.Spec.Template.Spec.Class.Name = j.className(1) }))
	j.eventually("all VMs are of the new class", j.settled(1, ""))
	vms, err := b.VMs(t.Context())
	j.must(err)
	victim := vms[len(vms)/2].ID
	j.approveDeletion(vms[len(vms)/2].NodeName)
	j.must(b.Kill(t.Context(), victim))
	j.eventually("a VM that was killed is replaced", j.settled(1, victim))
	j.must(s.Client.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	j.eventually("nothing is left", j.nothing)
	j.throughClusterAPI()
	j.removeOwners()
	j.eventually("the classes go", j.withoutClasses)
}

// approveDeletion lets the Machine of a Node follow the Node's deletion at once, as a person does. All
// clouds lose a VM within the same five minutes here, and the manager takes more than three Nodes that are
// deleted together for a mistake.
func (j *journey) approveDeletion(name string) {
	j.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	j.must(j.Edit(j.Context(), node, func() {
		machinev1.SetAnnotation(node, machinev1.NodeDeletionAnnotation, machinev1.NodeDeletionApproved)
	}))
}

func (j *journey) must(err error) {
	j.Helper()
	if err != nil {
		j.Fatal(err)
	}
}

// eventually waits until check returns nil.
func (j *journey) eventually(what string, check func(context.Context) error) {
	j.Helper()
	start := time.Now()
	if err := stack.Until(j.Context(), j.timeout, check); err != nil {
		j.Fatalf("%s: %v; kubelets: %v\n%s", what, err, j.kubelets.error(), j.describe())
	}
	j.Logf("%s: after %s", what, time.Since(start).Round(time.Second/10))
}

// describe says of each machine why it is not yet there.
func (j *journey) describe() string {
	machines, err := j.Machines(context.WithoutCancel(j.Context()), j.name)
	text := fmt.Sprint(err)
	for i := range machines {
		m := &machines[i]
		text += fmt.Sprintf("\n%s: %s, %s; %s", m.Name, m.Status.CurrentStatus.Phase, m.Status.LastOperation.State,
			m.Status.LastOperation.Description)
	}
	return text
}

func (j *journey) className(generation int) string {
	return fmt.Sprintf("%s-v%d", j.name, generation+1)
}

// makeClass creates a class and its Secret.
func (j *journey) makeClass(generation int) {
	j.Helper()
	described := j.cloud.Class(generation)
	spec, err := json.Marshal(described.Spec)
	j.must(err)
	meta := metav1.ObjectMeta{Name: j.className(generation), Namespace: stack.Namespace}
	secret := &corev1.Secret{ObjectMeta: meta, Data: j.cloud.Credentials()}
	maps.Copy(secret.Data, j.boots)
	c := &machinev1.MachineClass{
		ObjectMeta: meta, Provider: j.provider,
		SecretRef: &corev1.SecretReference{Name: meta.Name, Namespace: meta.Namespace},
	}
	c.ProviderSpec.Raw = spec
	c.NodeTemplate = &machinev1.NodeTemplate{
		InstanceType: described.InstanceType, Region: described.Region, Zone: described.Zone,
		Capacity: corev1.ResourceList{
			"cpu": resource.MustParse("2"), "memory": resource.MustParse("2Gi"),
			"gpu": resource.MustParse("0"),
		},
	}
	j.must(j.Client.Create(j.Context(), secret))
	j.must(j.Client.Create(j.Context(), c))
}

// settled reports whether there are five Running machines of a generation, each
// with its own VM and its own ready node, and nothing besides; but not the VM
// that was killed.
func (j *journey) settled(generation int, killed string) func(context.Context) error {
	return func(ctx context.Context) error {
		machines, err := j.Machines(ctx, j.name)
		if err != nil {
			return err
		}
		vms, err := j.cloud.VMs(ctx)
		if err != nil {
			return err
		}
		if len(machines) != replicas || len(vms) != replicas {
			return fmt.Errorf("%d machines, %d VMs", len(machines), len(vms))
		}
		nodes, err := j.nodes(ctx)
		if err != nil {
			return err
		}
		byID := map[string]vm{}
		for _, v := range vms {
			if v.Generation != generation || v.ID == killed {
				return fmt.Errorf("VM %s is of generation %d", v.ID, v.Generation+1)
			}
			byID[v.MCM] = v
		}
		for i := range machines {
			if err := joined(&machines[i], byID, nodes, j.className(generation)); err != nil {
				return fmt.Errorf("machine %s: %w", machines[i].Name, err)
			}
		}
		return nil
	}
}

// joined reports whether a machine is Running, its providerID is in MCM's form that
// of a VM, and the node that it names is that of this VM and ready.
func joined(m *machinev1.Machine, vms map[string]vm, nodes map[string]corev1.Node, class string) error {
	v, there := vms[m.Spec.ProviderID]
	node := nodes[v.NodeName]
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case m.Status.CurrentStatus.Phase != machinev1.MachineRunning || m.Spec.Class.Name != class:
		return fmt.Errorf("it is %q and of class %s", m.Status.CurrentStatus.Phase, m.Spec.Class.Name)
	case !there:
		return fmt.Errorf("it has providerID %q, which is no VM's", m.Spec.ProviderID)
	case m.Labels[machinev1.NodeLabel] != v.NodeName || node.Spec.ProviderID != v.ProviderID || !ready:
		return fmt.Errorf("its node %q is not %q, of %q and ready", m.Labels[machinev1.NodeLabel], v.NodeName, v.ProviderID)
	case node.Labels["pool"] == "":
		return errors.New("its node lacks the template's label")
	}
	return nil
}

func (j *journey) nodes(ctx context.Context) (map[string]corev1.Node, error) {
	var list corev1.NodeList
	if err := j.Client.List(ctx, &list); err != nil {
		return nil, err
	}
	nodes := map[string]corev1.Node{}
	for _, n := range list.Items {
		nodes[n.Name] = n
	}
	return nodes, nil
}

// nothing reports whether machines, nodes and all that was in the cloud are gone.
func (j *journey) nothing(ctx context.Context) error {
	machines, err := j.Machines(ctx, j.name)
	if err != nil {
		return err
	}
	left, err := j.cloud.Ledger(ctx)
	if err != nil {
		return err
	}
	nodes, err := j.nodes(ctx)
	if err != nil {
		return err
	}
	ours := 0
	for _, n := range nodes {
		if n.Labels["pool"] == j.name {
			ours++
		}
	}
	if len(machines) > 0 || len(left) > 0 || ours > 0 {
		return fmt.Errorf("%d machines, %d nodes, in the cloud %s", len(machines), ours, strings.Join(left, ", "))
	}
	return nil
}

// withoutClasses deletes classes and Secrets, and reports whether they are gone: no
// finalizer of ours holds them.
func (j *journey) withoutClasses(ctx context.Context) error {
	for generation := range 2 {
		meta := metav1.ObjectMeta{Name: j.className(generation), Namespace: stack.Namespace}
		for _, o := range []client.Object{&machinev1.MachineClass{ObjectMeta: meta}, &corev1.Secret{ObjectMeta: meta}} {
			if err := client.IgnoreNotFound(j.Client.Delete(ctx, o)); err != nil {
				return err
			}
			if err := j.Client.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T %s is still there: %w", o, meta.Name, err)
			}
		}
	}
	return nil
}

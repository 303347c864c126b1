package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const (
	clusterName = "workers"
	givenSecret = "given"
)

// core plays what Cluster API does for machines that stay: it makes
// them with their owners, and carries what the providers say from one object to
// the next. Source: the contract pages of Cluster API v1.14.
type core struct{ client.Client }

// openCore has a stack serve Cluster API's kinds. It comes before a manager,
// which looks once for what is served.
func openCore(ctx context.Context, s *stack.Stack) (*core, error) {
	ctrl.SetLogger(logr.Discard()) // of clients, which complain of its absence
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, bootstrapv1.AddToScheme,
		controlplanev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find the module of Cluster API: %w", err)
	}
	crds := filepath.Join(strings.TrimSpace(string(out)), "core", "config", "crd", "bases")
	for _, name := range []string{"clusters", "machines", "machinesets", "machinedeployments"} {
		if err := s.Cluster.ApplyFile(ctx, filepath.Join(crds, "cluster.x-k8s.io_"+name+".yaml")); err != nil {
			return nil, err
		}
	}
	c, err := client.New(s.Cluster.Config(), client.Options{Scheme: scheme})
	return &core{c}, err
}

// kubeconfig is the one of the Cluster's nodes, which are those of the stack.
func kubeconfig(s *stack.Stack) ([]byte, error) {
	path, err := s.Cluster.KubeconfigFor("workload", "system:masters")
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func at(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: stack.Namespace, Name: name,
		Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName},
	}
}

func ref(group, kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: kind, Name: name}
}

// populate makes a Cluster.
func (c *core) populate(ctx context.Context, s *stack.Stack) error {
	given, err := kubeconfig(s)
	if err != nil {
		return err
	}
	owner := &clusterv1.Cluster{ObjectMeta: at(clusterName)}
	owner.Finalizers = []string{clusterv1.ClusterFinalizer}
	owner.Spec.InfrastructureRef = ref(infrav1.GroupVersion.Group, "MCMCluster", clusterName)
	owner.Spec.ControlPlaneRef = ref(controlplanev1.GroupVersion.Group, "MCMExternalControlPlane", clusterName)
	if err := c.Create(ctx, owner); err != nil {
		return err
	}
	infra := &infrav1.MCMCluster{ObjectMeta: at(clusterName)}
	plane := &controlplanev1.MCMExternalControlPlane{ObjectMeta: at(clusterName)}
	plane.Spec.KubeconfigSecretRef = &controlplanev1.NameReference{Name: givenSecret}
	for _, o := range []client.Object{infra, plane} {
		o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner,
			clusterv1.GroupVersion.WithKind("Cluster"))})
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: givenSecret},
		Data:       map[string][]byte{"value": given},
	}
	for _, o := range []client.Object{secret, infra, plane} {
		if err := c.Create(ctx, o); err != nil {
			return err
		}
	}
	for _, name := range []string{"worker-1", "worker-2"} {
		if err := c.worker(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// worker makes a Machine with its infrastructure and its boot data.
func (c *core) worker(ctx context.Context, name string) error {
	owner := &clusterv1.Cluster{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: stack.Namespace, Name: clusterName}, owner); err != nil {
		return err
	}
	m := &clusterv1.Machine{ObjectMeta: at(name)}
	m.Finalizers = []string{clusterv1.MachineFinalizer}
	m.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster",
		Name: owner.Name, UID: owner.UID,
	}}
	m.Spec.ClusterName = clusterName
	m.Spec.InfrastructureRef = ref(infrav1.GroupVersion.Group, "MCMMachine", name)
	m.Spec.Bootstrap.ConfigRef = ref(bootstrapv1.GroupVersion.Group, "MCMConfig", name)
	if err := c.Create(ctx, m); err != nil {
		return err
	}
	infra := &infrav1.MCMMachine{ObjectMeta: at(name)}
	infra.Spec.MachineClassRef.Name = second
	infra.Spec.NodeTemplate.Labels = map[string]string{"pool": clusterName}
	config := &bootstrapv1.MCMConfig{ObjectMeta: at(name)}
	config.Spec.MachineClassRef = &bootstrapv1.NameReference{Name: second}
	for _, o := range []client.Object{infra, config} {
		o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(m, clusterv1.GroupVersion.WithKind("Machine"))})
		if err := c.Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// pass carries on what there is to carry on. It returns how many Machines there
// are, and as an error what is not there yet.
func (c *core) pass(ctx context.Context) (int, error) {
	if err := c.gates(ctx); err != nil {
		return 0, err
	}
	var machines clusterv1.MachineList
	if err := c.List(ctx, &machines, client.InNamespace(stack.Namespace)); err != nil {
		return 0, err
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return 0, err
	}
	var waiting error
	for i := range machines.Items {
		if err := c.machine(ctx, &machines.Items[i], nodes.Items); err != nil {
			waiting = err
		}
	}
	return len(machines.Items), waiting
}

// gates opens what providers wait for.
func (c *core) gates(ctx context.Context) error {
	key := client.ObjectKey{Namespace: stack.Namespace, Name: clusterName}
	owner, infra, plane := &clusterv1.Cluster{}, &infrav1.MCMCluster{}, &controlplanev1.MCMExternalControlPlane{}
	for _, o := range []client.Object{owner, infra, plane} {
		if err := c.Get(ctx, key, o); err != nil {
			return err
		}
	}
	before := owner.DeepCopy()
	if yes(infra.Status.Initialization.Provisioned) {
		owner.Status.Initialization.InfrastructureProvisioned = new(true)
	}
	if yes(plane.Status.Initialization.ControlPlaneInitialized) &&
		!yes(owner.Status.Initialization.ControlPlaneInitialized) {
		owner.Status.Initialization.ControlPlaneInitialized = new(true)
		conditions.Set(owner, metav1.Condition{
			Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue,
			Reason: clusterv1.ClusterControlPlaneInitializedReason,
		})
	}
	if err := c.Status().Patch(ctx, owner, client.MergeFrom(before)); err != nil {
		return err
	}
	if !yes(owner.Status.Initialization.ControlPlaneInitialized) {
		return fmt.Errorf("cluster %s is not provisioned: %v %v", clusterName, infra.Status.Conditions,
			plane.Status.Conditions)
	}
	return nil
}

// machine brings a Machine on, up to its Node.
func (c *core) machine(ctx context.Context, m *clusterv1.Machine, nodes []corev1.Node) error {
	infra, config := &infrav1.MCMMachine{}, &bootstrapv1.MCMConfig{}
	for _, o := range []client.Object{infra, config} {
		if err := c.Get(ctx, client.ObjectKeyFromObject(m), o); err != nil {
			return err
		}
	}
	before := m.DeepCopy()
	if yes(config.Status.Initialization.DataSecretCreated) {
		m.Spec.Bootstrap.DataSecretName = new(config.Status.DataSecretName)
	}
	if yes(infra.Status.Initialization.Provisioned) {
		m.Spec.ProviderID = infra.Spec.ProviderID
	}
	if err := c.Patch(ctx, m, client.MergeFrom(before)); err != nil {
		return err
	}
	for i := range nodes {
		if m.Spec.ProviderID == "" || nodes[i].Spec.ProviderID != m.Spec.ProviderID {
			continue
		}
		before = m.DeepCopy()
		m.Status.Initialization.InfrastructureProvisioned = new(true)
		m.Status.NodeRef.Name = nodes[i].Name
		conditions.Set(m, metav1.Condition{
			Type: clusterv1.MachineNodeHealthyCondition, Status: metav1.ConditionTrue,
			Reason: clusterv1.MachineNodeHealthyReason,
		})
		return c.Status().Patch(ctx, m, client.MergeFrom(before))
	}
	return fmt.Errorf("machine %s of Cluster API has no Node: infrastructure %v, boot data %v", m.Name,
		infra.Status.Conditions, config.Status.Conditions)
}

func yes(b *bool) bool { return b != nil && *b }

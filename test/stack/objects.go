package stack

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// UserData is boot data with which a simulated VM joins the stack's cluster.
func (s *Stack) UserData() []byte {
	return fmt.Appendf(nil, "server: %s\ncaData: %s\ntoken: %s\nnodeName: %s\n",
		s.Cluster.URL(), base64.StdEncoding.EncodeToString(s.Cluster.CA()),
		machinev1.BootstrapTokenPlaceholder, machinev1.MachineNamePlaceholder)
}

// Class returns a MachineClass of the simulated cloud and its Secret.
func (s *Stack) Class(name, instanceType string) (*machinev1.MachineClass, *corev1.Secret) {
	spec, err := json.Marshal(map[string]any{
		"endpoint": s.Cloud.Endpoint, "region": Region, "zone": Zone, "instanceType": instanceType, "image": "linux-1",
		"tags": ownership,
	})
	if err != nil {
		panic(err) // a literal
	}
	meta := metav1.ObjectMeta{Name: name, Namespace: Namespace}
	c := &machinev1.MachineClass{
		ObjectMeta: meta, Provider: "sim",
		SecretRef: &corev1.SecretReference{Name: name, Namespace: Namespace},
	}
	c.ProviderSpec.Raw = spec
	c.NodeTemplate = &machinev1.NodeTemplate{
		InstanceType: instanceType, Region: Region, Zone: Zone,
		Capacity: corev1.ResourceList{
			"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"),
			"gpu": resource.MustParse("0"),
		},
	}
	secret := &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{
		"accountID": []byte(AccountID), "secretKey": []byte(SecretKey), machinev1.UserDataKey: s.UserData(),
	}}
	return c, secret
}

// CreateClass creates a class and its Secret.
func (s *Stack) CreateClass(ctx context.Context, name, instanceType string) error {
	c, secret := s.Class(name, instanceType)
	return errors.Join(s.Client.Create(ctx, secret), s.Client.Create(ctx, c))
}

// ApplySamples applies config/samples/sim, with this stack's addresses in the
// places that the samples ask to fill in.
func (s *Stack) ApplySamples(ctx context.Context) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "config", "samples", "sim")
	for _, file := range []string{
		"secret.yaml", "machineclass-v1.yaml", "machineclass-v2.yaml",
		"machinedeployment.yaml",
	} {
		objects, err := cluster.Read(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		for _, o := range objects {
			s.fillIn(o.Object)
		}
		if err := s.Cluster.Apply(ctx, objects...); err != nil {
			return fmt.Errorf("apply %s: %w", file, err)
		}
	}
	return nil
}

// fillIn puts this stack's addresses into a sample.
func (s *Stack) fillIn(sample map[string]any) {
	if data, ok := sample["stringData"].(map[string]any); ok {
		data[machinev1.UserDataKey] = string(s.UserData())
	}
	if spec, ok := sample["providerSpec"].(map[string]any); ok {
		spec["endpoint"] = s.Cloud.Endpoint
	}
}

// Deployment returns a MachineDeployment with rolling updates, whose nodes have the
// label pool.
func Deployment(name, class string, replicas int32, surge, unavailable string) *machinev1.MachineDeployment {
	d := fixture.MachineDeployment(name, class, replicas, fixture.RollingUpdate(surge, unavailable))
	d.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"pool": name}
	return d
}

// Edit changes an object with a merge patch, until it is not stale.
func (s *Stack) Edit(ctx context.Context, o client.Object, change func()) error {
	for {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before := o.DeepCopyObject().(client.Object)
		change()
		err := s.Client.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// Machines returns the Machines, of one pool if it is named.
func (s *Stack) Machines(ctx context.Context, pool string) ([]machinev1.Machine, error) {
	var list machinev1.MachineList
	opts := []client.ListOption{client.InNamespace(Namespace)}
	if pool != "" {
		opts = append(opts, client.MatchingLabels{machinev1.NameLabel: pool})
	}
	err := s.Client.List(ctx, &list, opts...)
	return list.Items, err
}

// Nodes returns the Nodes, and how many of them are ready.
func (s *Stack) Nodes(ctx context.Context) (nodes []corev1.Node, ready int, err error) {
	var list corev1.NodeList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, 0, err
	}
	for _, n := range list.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && n.DeletionTimestamp.IsZero() {
				ready++
			}
		}
	}
	return list.Items, ready, nil
}

// runningOf counts the Machines of a class that are Running and stay.
func runningOf(machines []machinev1.Machine, class string) int {
	running := 0
	for i := range machines {
		m := &machines[i]
		if m.Status.CurrentStatus.Phase == machinev1.MachineRunning && m.DeletionTimestamp.IsZero() &&
			m.Spec.Class.Name == class {
			running++
		}
	}
	return running
}

// Settled reports whether a pool has that many Running Machines of a class, with
// ready nodes and VMs in the cloud, and nothing besides. The error says what is
// different.
func (s *Stack) Settled(ctx context.Context, pool, class string, want int) error {
	machines, err := s.Machines(ctx, pool)
	if err != nil {
		return err
	}
	running := runningOf(machines, class)
	_, ready, err := s.Nodes(ctx)
	if err != nil {
		return err
	}
	vms, err := s.Cloud.VMs(ctx)
	if err != nil {
		return err
	}
	if running != want || len(machines) != want || ready != want || len(vms) != want {
		return fmt.Errorf("%d Machines, %d Running of class %s, %d ready nodes, %d VMs; want %d of each", len(machines),
			running, class, ready, len(vms), want)
	}
	return nil
}

package capi

import (
	"bytes"
	"maps"
	"testing"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// oddPools are pools without a MachineDeployment.
type oddPools struct {
	set     *movingPool // a MachineSet whose Machines and VMs are as MCM has made them
	machine *movingPool // a Machine
}

const (
	ofSet     = 2 // machines
	oddClass  = "odd"
	mcmFormID = "sim:///" + stack.Region + "/"
)

// oddPools makes them, while no manager runs that could make machines of its own.
func (d *bothAPIs) oddPools(t *testing.T) oddPools {
	t.Helper()
	d.class(t, fleetNamespace, oddClass, "small")
	odd := oddPools{
		set:     &movingPool{d, migration.Pool{Kind: migration.KindSet, Namespace: fleetNamespace, Name: "foreign"}},
		machine: &movingPool{d, migration.Pool{Kind: migration.KindMachine, Namespace: fleetNamespace, Name: "single"}},
	}
	set := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: odd.set.Name}}
	labels := map[string]string{machinev1.NameLabel: odd.set.Name}
	set.Spec.Replicas, set.Spec.Selector = ofSet, &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec.Class = machinev1.ClassSpec{
		APIGroup: machinev1.GroupVersion.Group,
		Kind:     machinev1.MachineClassKind, Name: oddClass,
	}
	if err := d.cl.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"foreign-a", "foreign-b"} {
		d.foreign(t, set, name)
	}
	single := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: fleetNamespace, Name: odd.machine.Name,
		Labels: map[string]string{machinev1.NameLabel: odd.machine.Name},
	}}
	single.Spec.Class = set.Spec.Template.Spec.Class
	if err := d.cl.Create(t.Context(), single); err != nil {
		t.Fatal(err)
	}
	return odd
}

// foreign makes a VM and its Machine as MCM leaves them behind: without
// owner ids.
func (d *bothAPIs) foreign(t *testing.T, set *machinev1.MachineSet, name string) {
	t.Helper()
	tags := stack.OwnershipTags()
	maps.Copy(tags, map[string]string{sim.NameTag: name})
	account := sim.Tenant{ID: stack.AccountID, SecretKeys: []string{stack.SecretKey}}
	vm, err := d.Cloud.MakeVM(t.Context(), account, sim.VMInput{
		Zone: stack.Zone, InstanceType: "small", Image: "linux-1", Tags: tags, UserData: d.joinData(t, name),
	})
	if err != nil {
		t.Fatal(err)
	}
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: name, Finalizers: []string{machinev1.Finalizer},
		Labels: map[string]string{machinev1.NameLabel: set.Name, machinev1.NodeLabel: name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set,
			machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))},
	}}
	m.Spec.Class, m.Spec.ProviderID = set.Spec.Template.Spec.Class, mcmFormID+vm.ID
	if err := d.cl.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// joinData are boot data with a bootstrap token in them.
func (d *bothAPIs) joinData(t *testing.T, name string) []byte {
	t.Helper()
	const id, secret = "abcdef", "0123456789abcdef"
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
		},
	}
	if err := client.IgnoreAlreadyExists(d.cl.Create(t.Context(), token)); err != nil {
		t.Fatal(err)
	}
	data := bytes.ReplaceAll(d.UserData(), []byte(machinev1.BootstrapTokenPlaceholder), []byte(id+"."+secret))
	return bytes.ReplaceAll(data, []byte(machinev1.MachineNamePlaceholder), []byte(name))
}

// both are the pools.
func (o oddPools) both() []*movingPool { return []*movingPool{o.set, o.machine} }

func (o oddPools) onNative(t *testing.T) {
	t.Helper()
	o.set.until(t, "a MachineSet of MCM works", o.set.looseNative(ofSet, true))
	o.machine.until(t, "a Machine works", o.machine.looseNative(1, true))
}

func (o oddPools) there(t *testing.T) {
	t.Helper()
	moveAll(t, o.both(), there()...)
	o.set.until(t, "a MachineSet of MCM works on Cluster API", o.set.looseOnClusterAPI(ofSet, false))
	o.machine.until(t, "a Machine works on Cluster API", o.machine.looseOnClusterAPI(1, false))
}

func (o oddPools) finish(t *testing.T) {
	t.Helper()
	moveAll(t, o.both(), "finish")
}

func (o oddPools) back(t *testing.T) {
	t.Helper()
	moveAll(t, o.both(), home()...)
	o.set.until(t, "a MachineSet of MCM works natively again", o.set.looseNative(ofSet, false))
	o.machine.until(t, "a Machine works natively again", o.machine.looseNative(1, false))
}

// shrink: a VM that MCM has made goes with its Machine, and the other one stays.
func (o oddPools) shrink(t *testing.T) {
	t.Helper()
	set := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: o.set.Namespace, Name: o.set.Name}}
	if err := edit(t.Context(), o.set.cl, set, func(s *machinev1.MachineSet) { s.Spec.Replicas = ofSet - 1 }); err != nil {
		t.Fatal(err)
	}
	o.set.until(t, "a MachineSet of MCM has shrunk", o.set.looseNative(ofSet-1, true))
}

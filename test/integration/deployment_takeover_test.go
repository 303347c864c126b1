package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// TestTakeover shows that a fleet as MCM leaves it is taken over as it is: names
// and hashes are not what we would compute, Machines were named by the API
// server, and neither they nor their VMs have an owner id.
func TestTakeover(t *testing.T) {
	t.Parallel()
	base := startWithout(t, stack.Options{})
	f := &trial{suite: base, name: "fleet"}
	v1, v2 := f.class("v1"), f.class("v2")
	d, set := f.leftByMCM(v1)
	var before []machinev1.Machine
	for _, suffix := range []string{"4xk8d", "aeiou", "zz01l"} {
		before = append(before, *f.machineOfMCM(set, suffix))
	}
	generation := set.Generation
	var err error
	f.manager, err = f.StartManager()
	f.Expect(err).NotTo(HaveOccurred())

	f.Expect(uids(f.settled(d))).To(Equal(uids(before)))
	f.until(set, "the set is looked at", func() error {
		if set.Status.ObservedGeneration < set.Generation || set.Status.AvailableReplicas != 3 {
			return fmt.Errorf("%d available", set.Status.AvailableReplicas)
		}
		return nil
	})
	f.Expect(f.sets(d)).To(HaveLen(1))
	f.Expect(set.Generation).To(Equal(generation), "its spec was written")
	f.vms(before, 3)

	f.edit(d, func() { d.Spec.Replicas = 5 })
	more := f.settled(d)
	for uid := range uids(before) {
		f.Expect(uids(more)).To(HaveKey(uid))
	}
	f.Expect(f.sets(d)).To(HaveLen(1))
	f.edit(d, func() { d.Spec.Replicas = 2 })
	f.vms(f.settled(d), 2)
	f.edit(d, func() { d.Spec.Template.Spec.Class.Name = v2 })
	f.vms(f.settled(d), 2)
	f.Expect(f.sets(d)).To(HaveLen(2))
	f.remove(d)
	f.vms(nil, 0)
	f.sound()
}

// vms waits until the cloud has exactly that many VMs, those of the machines.
func (t *trial) vms(machines []machinev1.Machine, want int) {
	t.Helper()
	t.eventually(fmt.Sprintf("%d VMs", want), func(ctx context.Context) error {
		live, err := t.Cloud.VMs(ctx)
		if err != nil || len(live) != want {
			return fmt.Errorf("%d VMs: %w", len(live), err)
		}
		for i := range machines {
			if vm, ok := live[machines[i].Name]; !ok || !strings.HasSuffix(machines[i].Spec.ProviderID, "/"+vm.ID) {
				return stack.Fatal(fmt.Errorf("machine %s has VM %q, its providerID is %s", machines[i].Name, vm.ID,
					machines[i].Spec.ProviderID))
			}
		}
		return nil
	})
}

// leftByMCM makes a MachineDeployment of three and its MachineSet as MCM has them.
func (t *trial) leftByMCM(class string) (*machinev1.MachineDeployment, *machinev1.MachineSet) {
	t.Helper()
	const hash = "1594612345"
	d := t.deployment(class, 3, "1", "0", func(d *machinev1.MachineDeployment) {
		d.Finalizers = []string{machinev1.Finalizer}
		d.Annotations = map[string]string{machinev1.RevisionAnnotation: "7"}
	})
	set := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Name: t.name + "-59b4f", Namespace: stack.Namespace,
		Finalizers: []string{machinev1.Finalizer},
	}}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d,
		machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind))}
	set.Annotations = map[string]string{
		machinev1.RevisionAnnotation: "7", machinev1.RevisionHistoryAnnotation: "1,7,7,7",
		machinev1.DesiredReplicasAnnotation: "3", machinev1.MaxReplicasAnnotation: "4",
	}
	set.Spec.Replicas, set.Spec.Template = 3, *d.Spec.Template.DeepCopy()
	set.Spec.Template.Labels[machinev1.TemplateHashLabel] = hash
	set.Labels = maps.Clone(set.Spec.Template.Labels)
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: maps.Clone(set.Spec.Template.Labels)}
	t.Expect(t.Client.Create(t.Context(), set)).To(Succeed())
	return d, set
}

// machineOfMCM makes a VM that joins, and the Machine that MCM would have for it.
func (t *trial) machineOfMCM(set *machinev1.MachineSet, suffix string) *machinev1.Machine {
	t.Helper()
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
		GenerateName: set.Name + "-", Name: set.Name + "-" + suffix, Namespace: stack.Namespace,
		Finalizers:  []string{machinev1.Finalizer},
		Labels:      maps.Clone(set.Spec.Template.Labels),
		Annotations: map[string]string{machinev1.PriorityAnnotation: machinev1.DefaultPriority},
	}}
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set,
		machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))}
	m.Spec = *set.Spec.Template.Spec.DeepCopy()
	m.Spec.ProviderID = "sim:///" + stack.Region + "/" + t.vmOfMCM(m.Name)
	m.Labels[machinev1.NodeLabel] = m.Name
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
	t.eventually("node "+m.Name+" joins", func(ctx context.Context) error {
		return t.Client.Get(ctx, client.ObjectKeyFromObject(node), node)
	})
	t.edit(node, func() {
		node.Finalizers = append(node.Finalizers, machinev1.NodeFinalizer)
		node.Labels[machinev1.MachineNameLabel], node.Labels["pool"] = m.Name, t.name
		node.Annotations = with(node.Annotations, machinev1.LastAppliedNodeTemplateAnnotation,
			`{"metadata":{"creationTimestamp":null,"labels":{"pool":"`+t.name+`"}},"spec":{}}`)
	})
	t.Expect(t.Client.Create(t.Context(), m)).To(Succeed())
	before := m.DeepCopy()
	now := metav1.Now()
	m.Status.CurrentStatus = machinev1.CurrentStatus{Phase: machinev1.MachineRunning, LastUpdateTime: now}
	m.Status.LastOperation = machinev1.LastOperation{
		Type: machinev1.MachineOperationCreate, State: machinev1.MachineStateSuccessful, LastUpdateTime: now,
		Description: "Machine " + m.Name + " successfully joined the cluster",
	}
	m.Status.Conditions = node.Status.Conditions
	t.Expect(t.Client.Status().Patch(t.Context(), m, client.MergeFrom(before))).To(Succeed())
	return m
}

// vmOfMCM makes a VM with the tags that MCM's drivers give and returns its id.
func (t *trial) vmOfMCM(name string) string {
	t.Helper()
	id, secret := name[len(name)-5:]+"0", "0123456789abcdef"
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name:      "bootstrap-token-" + id,
		Namespace: metav1.NamespaceSystem,
	}, Type: "bootstrap.kubernetes.io/token"}
	token.StringData = map[string]string{
		"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
		"auth-extra-groups": "", "expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	}
	t.Expect(t.Client.Create(t.Context(), token)).To(Succeed())
	data := strings.NewReplacer(machinev1.BootstrapTokenPlaceholder, id+"."+secret, machinev1.MachineNamePlaceholder,
		name).Replace(string(t.UserData()))
	in := sim.VMInput{
		Zone: stack.Zone, InstanceType: "small", Image: "linux-1", UserData: []byte(data),
		Tags: map[string]string{
			sim.NameTag: name, "kubernetes.io/cluster/sim": "1", "kubernetes.io/role/node": "1",
		},
	}
	text, err := json.Marshal(in)
	t.Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, t.Cloud.Endpoint+"/v1/regions/"+stack.Region+
		"/vms", bytes.NewReader(text))
	t.Expect(err).NotTo(HaveOccurred())
	req.SetBasicAuth(stack.AccountID, stack.SecretKey)
	resp, err := http.DefaultClient.Do(req)
	t.Expect(err).NotTo(HaveOccurred())
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	t.Expect(err).NotTo(HaveOccurred())
	t.Expect(resp.StatusCode).To(BeNumerically("<", 300), string(answer))
	var made sim.Resource
	t.Expect(json.Unmarshal(answer, &made)).To(Succeed())
	return made.ID
}

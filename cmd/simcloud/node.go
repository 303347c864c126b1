package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// kubeletVersion is what a kubelet says it is, unless its user data says more.
const kubeletVersion = "v1.36.3"

// newNode returns the Node that a VM registers.
func newNode(k *kubelet, r sim.Resource, t sim.InstanceType, conditions []corev1.NodeCondition) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname: k.nodeName, corev1.LabelOSStable: "linux", corev1.LabelArchStable: t.Architecture,
		corev1.LabelInstanceTypeStable: r.VM.InstanceType, corev1.LabelTopologyRegion: r.Region,
		corev1.LabelTopologyZone: r.Zone,
	}
	maps.Copy(labels, k.boot.Labels)
	version := k.boot.KubeletVersion
	if version == "" {
		version = kubeletVersion
	}
	capacity := capacityOf(t)
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: k.nodeName, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: k.providerID, Taints: k.boot.Taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity, Conditions: conditions, Addresses: addressesOf(k, r),
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: r.ID, SystemUUID: r.ID, BootID: r.ID, KernelVersion: "6.12.0", OSImage: r.VM.Image,
				ContainerRuntimeVersion: "sim://1", KubeletVersion: version, OperatingSystem: "linux", Architecture: t.Architecture,
			},
		},
	}
}

// capacityOf returns what a type offers; what is no quantity is left out.
func capacityOf(t sim.InstanceType) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{
		corev1.ResourceCPU: t.CPU, corev1.ResourceMemory: t.Memory, corev1.ResourcePods: t.Pods,
		corev1.ResourceEphemeralStorage: t.EphemeralStorage, "nvidia.com/gpu": t.GPU,
	} {
		quantity, err := resource.ParseQuantity(text)
		if err == nil && !quantity.IsZero() {
			out[name] = quantity
		}
	}
	return out
}

func addressesOf(k *kubelet, r sim.Resource) []corev1.NodeAddress {
	out := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: k.nodeName}}
	for _, a := range r.VM.Addresses {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeAddressType(a.Kind), Address: a.Value})
	}
	return out
}

// conditions returns those that a node that has joined should have by now.
func (f *fleet) conditions(how behaviour, joined, now time.Time) []corev1.NodeCondition {
	at := metav1.NewTime(now)
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: "as the simulated kubelet was told", LastHeartbeatTime: at,
			LastTransitionTime: at,
		}
	}
	wanted := map[corev1.NodeConditionType]corev1.NodeCondition{
		corev1.NodeMemoryPressure: condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		corev1.NodeDiskPressure:   condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		corev1.NodePIDPressure:    condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		corev1.NodeReady:          condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
	}
	if !yes(how.Ready) || now.Before(joined.Add(how.readyDelay(f.options.readyDelay))) {
		wanted[corev1.NodeReady] = condition(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady")
	}
	for kind, status := range how.Conditions {
		wanted[corev1.NodeConditionType(kind)] = condition(corev1.NodeConditionType(kind), corev1.ConditionStatus(status),
			"Simulated")
	}
	return slices.SortedFunc(maps.Values(wanted), func(a, b corev1.NodeCondition) int {
		return strings.Compare(string(a.Type), string(b.Type))
	})
}

// show writes the conditions that have changed since they were shown, and
// returns when others will.
func (f *fleet) show(ctx context.Context, k *kubelet, how behaviour) (time.Duration, error) {
	now := time.Now()
	wait := time.Duration(0)
	if ready := k.joined.Add(how.readyDelay(f.options.readyDelay)); yes(how.Ready) && now.Before(ready) {
		wait = ready.Sub(now)
	}
	var changed []corev1.NodeCondition
	for _, c := range f.conditions(how, k.joined, now) {
		if k.shown[c.Type] != c.Status {
			changed = append(changed, c)
		}
	}
	if len(changed) == 0 {
		return wait, nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": changed}})
	if err != nil {
		return 0, fmt.Errorf("encode conditions: %w", err)
	}
	_, err = f.client.CoreV1().Nodes().Patch(ctx, k.nodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
		"status")
	if apierrors.IsNotFound(err) {
		return wait, nil // somebody deleted the node; it does not come back while the VM runs
	}
	if err != nil {
		return 0, err
	}
	for _, c := range changed {
		k.shown[c.Type] = c.Status
	}
	return wait, nil
}

// renew keeps the node's Lease fresh, and returns when it is due again.
func (f *fleet) renew(ctx context.Context, k *kubelet, how behaviour) (time.Duration, error) {
	if f.options.leasePeriod <= 0 || !yes(how.Lease) {
		return 0, nil
	}
	now := time.Now()
	if k.leaseDue.After(now) {
		return k.leaseDue.Sub(now), nil
	}
	stamp := metav1.NewMicroTime(now)
	if k.leased {
		if err := f.stampLease(ctx, k, stamp); err != nil {
			return 0, err
		}
	}
	if !k.leased {
		_, err := f.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, f.lease(k, stamp),
			metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // of an earlier life: renewed at once
			k.leased = true
			return time.Millisecond, nil
		}
		if err != nil {
			return 0, err
		}
		k.leased = true
	}
	k.leaseDue = now.Add(f.options.leasePeriod)
	return f.options.leasePeriod, f.look(ctx, k, now)
}

// leasesALook is after how many renewals a kubelet looks at its Node.
const leasesALook = 3

// look notes conditions that the node lifecycle controller has declared unknown
// while nothing was heard of this kubelet: they are shown again.
func (f *fleet) look(ctx context.Context, k *kubelet, now time.Time) error {
	if k.lookDue.After(now) {
		return nil
	}
	k.lookDue = now.Add(leasesALook * f.options.leasePeriod)
	// From the API server's memory, as real kubelets ask.
	node, err := f.client.CoreV1().Nodes().Get(ctx, k.nodeName, metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Status == corev1.ConditionUnknown && c.Reason == "NodeStatusUnknown" && k.shown[c.Type] != c.Status {
			delete(k.shown, c.Type)
			f.queue.Add(k.id)
		}
	}
	return nil
}

// stampLease renews the node's Lease, and notes if it is gone.
func (f *fleet) stampLease(ctx context.Context, k *kubelet, now metav1.MicroTime) error {
	patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro))
	_, err := f.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).
		Patch(ctx, k.nodeName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		k.leased = false
		return nil
	}
	return err
}

func (f *fleet) lease(k *kubelet, now metav1.MicroTime) *coordinationv1.Lease {
	const renewalsMissed = 4 // before a kubelet's lease ends
	lasts := max(f.options.leasePeriod*renewalsMissed, time.Second)
	seconds := int32(lasts / time.Second) //nolint:gosec // flags of centuries are not meant
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.nodeName, Namespace: corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: k.nodeName, UID: k.nodeUID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new(k.nodeName), LeaseDurationSeconds: new(seconds), RenewTime: &now},
	}
}

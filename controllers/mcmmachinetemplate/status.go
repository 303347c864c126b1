package mcmmachinetemplate

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// What MCM calls GPUs, and what nodes, and so autoscalers, call them.
const (
	gpuOfMCM   = "gpu"
	gpuOfNodes = "nvidia.com/gpu"
)

// report returns the status that follows from s. It is pure. What is unknown stays as it
// was.
func report(s *scope) infrav1.MCMMachineTemplateStatus {
	status := *s.object.Status.DeepCopy()
	set := func(c metav1.Condition) { capi.SetCondition(&status.Conditions, c, s.object.Generation, s.now) }
	set(capi.PausedCondition(s.paused))
	if s.paused != "" {
		return status
	}
	status.MachineClassName = s.class
	if s.capacity != nil {
		status.Capacity, status.NodeInfo = s.capacity, s.info
	}
	condition := s.condition
	if was := meta.FindStatusCondition(status.Conditions, condition.Type); s.fromCloud && was != nil &&
		was.Reason == condition.Reason && was.Status == condition.Status {
		condition.Message = was.Message
	}
	set(condition)
	unchanged := capi.SpecUnchangedCondition(s.edited, "MCMMachineTemplate", "spec.template.spec.infrastructureRef")
	set(unchanged)
	ready := metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonReady}
	for _, c := range []metav1.Condition{unchanged, condition} {
		if c.Status == metav1.ConditionFalse {
			ready.Status, ready.Reason, ready.Message = c.Status, c.Reason, c.Message
			break
		}
	}
	set(ready)
	return status
}

// ofClass returns the capacity in nodeTemplate of the class; ok is false if it lacks cpu or
// memory. Its virtualCapacity does not count: no controller applies it to the Nodes of
// MCMMachines.
func ofClass(r class.Resolved) (corev1.ResourceList, infrav1.NodeInfo, bool) {
	if r.Object == nil || r.Object.NodeTemplate == nil {
		return nil, infrav1.NodeInfo{}, false
	}
	t := r.Object.NodeTemplate
	_, cpu := t.Capacity[corev1.ResourceCPU]
	_, memory := t.Capacity[corev1.ResourceMemory]
	if !cpu || !memory {
		return nil, infrav1.NodeInfo{}, false
	}
	architecture := ""
	if t.Architecture != nil {
		architecture = *t.Architecture
	}
	return named(t.Capacity), infoOf(architecture), true
}

// ofCloud returns the capacity that the cloud reports; problem is what is invalid in it.
func ofCloud(found cloud.Capacity) (corev1.ResourceList, infrav1.NodeInfo, string) {
	all := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(found.Resources)) {
		quantity, err := resource.ParseQuantity(found.Resources[name])
		if err != nil {
			return nil, infrav1.NodeInfo{}, fmt.Sprintf("%s is %q, which is no quantity", name, found.Resources[name])
		}
		all[corev1.ResourceName(name)] = quantity
	}
	return named(all), infoOf(found.Architecture), ""
}

// named gives GPUs the name that nodes have for them, and leaves out what there
// is none of.
func named(all corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, quantity := range all {
		if name == gpuOfMCM {
			if _, said := all[gpuOfNodes]; said {
				continue
			}
			name = gpuOfNodes
		}
		if !quantity.IsZero() {
			out[name] = quantity
		}
	}
	return out
}

// infoOf leaves out an architecture that the CRD does not admit.
func infoOf(architecture string) infrav1.NodeInfo {
	info := infrav1.NodeInfo{OperatingSystem: "linux"}
	if slices.Contains([]string{"amd64", "arm64", "s390x", "ppc64le"}, architecture) {
		info.Architecture = architecture
	}
	return info
}

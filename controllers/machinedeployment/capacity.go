package machinedeployment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// offerCapacity annotates a deployment that is a node group of the upstream
// cluster-autoscaler (CAPI_GROUP=machine.sapcloud.io) with the capacity, labels
// and taints of its nodes, from the MachineClass and the node template. The
// autoscaler needs them to scale from zero. Annotations of users stay.
func (s *scope) offerCapacity(ctx context.Context) (bool, error) {
	if _, group := s.d.Annotations[machinev1.NodeGroupMaxSizeAnnotation]; !group {
		s.applyCapacity(nil)
		return true, nil
	}
	class, err := s.comingClass(ctx)
	if err != nil || class == nil {
		return true, err // the machines report a missing class
	}
	s.applyCapacity(capacityOf(class.NodeTemplate, &s.d.Spec.Template.Spec.NodeTemplateSpec))
	if s.bounds.Replicas == 0 && !s.capacityKnown() {
		s.problems = append(s.problems, cloud.Problem{
			Severity: cloud.Warning,
			Field:    fmt.Sprintf("annotations %s and %s", machinev1.CapacityCPUAnnotation, machinev1.CapacityMemoryAnnotation),
			Message: fmt.Sprintf("are missing: the autoscaler cannot scale from zero; give MachineClass %s a nodeTemplate, "+
				"or set them", class.Name),
		})
	}
	return true, nil
}

// comingClass returns the class that new machines get; nil if it does not exist.
func (s *scope) comingClass(ctx context.Context) (*machinev1.MachineClass, error) {
	first := s.d.Spec.Template.Spec.Class.Name
	names := append([]string{first}, machinev1.FallbackClasses(s.d, first)...)
	all, err := fallback.Candidates(ctx, s.Client, fallback.ReadOnlyClass,
		fallback.Pool{Namespace: s.d.Namespace, Classes: names})
	if err != nil {
		return nil, err
	}
	return s.Fallback.Coming(all, "").Object, nil
}

// capacityKnown reports whether the autoscaler can read the capacity of a node.
func (s *scope) capacityKnown() bool {
	return s.desired.Annotations[machinev1.CapacityCPUAnnotation] != "" &&
		s.desired.Annotations[machinev1.CapacityMemoryAnnotation] != ""
}

// applyCapacity sets the capacity annotations to the offer, except those that a user
// has written: all that exist and were not written here.
func (s *scope) applyCapacity(offer map[string]string) {
	var ours map[string]string
	record, recorded := s.d.Annotations[machinev1.OfferedCapacityAnnotation]
	if err := json.Unmarshal([]byte(record), &ours); err != nil {
		ours = nil // without a record, all existing annotations are a user's
	}
	written := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(union(ours, offer))) {
		is, there := s.d.Annotations[key]
		value, wanted := offer[key]
		if before, was := ours[key]; there && (!was || before != is) {
			continue
		}
		if wanted {
			machinev1.SetAnnotation(s.desired, key, value)
			written[key] = value
		} else {
			delete(s.desired.Annotations, key)
		}
	}
	switch {
	case len(written) > 0:
		text, _ := json.Marshal(written) // strings cannot fail
		machinev1.SetAnnotation(s.desired, machinev1.OfferedCapacityAnnotation, string(text))
	case recorded:
		delete(s.desired.Annotations, machinev1.OfferedCapacityAnnotation)
	}
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return all
}

// capacityOf returns the autoscaler's annotations for the nodes of a class; nil for
// a class without nodeTemplate.
func capacityOf(class *machinev1.NodeTemplate, node *machinev1.NodeTemplateSpec) map[string]string {
	if class == nil {
		return nil
	}
	offer := map[string]string{}
	for resource, key := range map[corev1.ResourceName]string{
		corev1.ResourceCPU: machinev1.CapacityCPUAnnotation, corev1.ResourceMemory: machinev1.CapacityMemoryAnnotation,
		corev1.ResourceEphemeralStorage: machinev1.CapacityDiskAnnotation,
		corev1.ResourcePods:             machinev1.CapacityMaxPodsAnnotation,
	} {
		if q, ok := class.Capacity[resource]; ok && !q.IsZero() {
			offer[key] = q.String()
		}
	}
	if gpus, ok := class.Capacity["gpu"]; ok && !gpus.IsZero() {
		offer[machinev1.CapacityGPUTypeAnnotation] = "nvidia.com/gpu"
		offer[machinev1.CapacityGPUCountAnnotation] = gpus.String()
	}
	if text := joinLabels(nodeLabels(class, node)); text != "" {
		offer[machinev1.CapacityNodeLabelAnnotation] = text
	}
	if text := joinTaints(node.Spec.Taints); text != "" {
		offer[machinev1.CapacityNodeTaintAnnotation] = text
	}
	return offer
}

// nodeLabels returns the labels that a node will have.
func nodeLabels(class *machinev1.NodeTemplate, node *machinev1.NodeTemplateSpec) map[string]string {
	labels := map[string]string{
		corev1.LabelInstanceTypeStable: class.InstanceType, corev1.LabelTopologyRegion: class.Region,
		corev1.LabelTopologyZone: class.Zone,
	}
	if class.Architecture != nil {
		labels[corev1.LabelArchStable] = *class.Architecture
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	maps.Copy(labels, node.Labels)
	return labels
}

// joinLabels returns the labels as "a=1,b=2", sorted.
func joinLabels(all map[string]string) string {
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, key+"="+all[key])
	}
	return strings.Join(texts, ",")
}

// joinTaints returns the taints as "a=1:NoSchedule,b=2:NoExecute", in the given order.
func joinTaints(taints []corev1.Taint) string {
	var texts []string
	for _, t := range taints {
		texts = append(texts, fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect))
	}
	return strings.Join(texts, ",")
}

// deploymentsOfClass returns the node groups whose machines refer to a class.
func (c *Controller) deploymentsOfClass(ctx context.Context, o client.Object) []types.NamespacedName {
	list := &machinev1.MachineDeploymentList{}
	err := c.Client.List(ctx, list, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{index.DeploymentByClass: o.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Look up machine deployments of a class", "MachineClass",
			client.ObjectKeyFromObject(o))
		return nil
	}
	var keys []types.NamespacedName
	for i := range list.Items {
		if _, group := list.Items[i].Annotations[machinev1.NodeGroupMaxSizeAnnotation]; group {
			keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return keys
}

// classChanged lets through updates of a class that change the capacity of its nodes, or whether
// machines can have it in place of another class.
func classChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*machinev1.MachineClass), e.ObjectNew.(*machinev1.MachineClass)
	return !apiequality.Semantic.DeepEqual(before.NodeTemplate, after.NodeTemplate) ||
		!bytes.Equal(before.ProviderSpec.Raw, after.ProviderSpec.Raw) || before.Provider != after.Provider ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
}

// reportProviderIDForm sets the condition about the form of the machines'
// providerIDs. MCM's orphan collector would delete the VM of a machine with another
// form than MCM's, so going back to MCM is safe only without the condition.
func (s *scope) reportProviderIDForm(conditions *[]metav1.Condition) {
	other := 0
	for _, o := range s.sets {
		for _, m := range o.machines {
			if m.Annotations[machinev1.ProviderIDFormAnnotation] != "" {
				other++
			}
		}
	}
	asked := s.d.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormNode
	switch {
	case asked:
		s.setProgressCondition(conditions, metav1.Condition{
			Type: machinev1.ConditionProviderIDForm, Status: metav1.ConditionTrue, Reason: machinev1.ReasonNodeForm,
			Message: "Machines carry the providerIDs of their nodes; before MCM takes over again, remove annotation " +
				machinev1.ProviderIDFormAnnotation + " and wait until this condition is gone",
		})
	case other > 0:
		s.setProgressCondition(conditions, metav1.Condition{
			Type: machinev1.ConditionProviderIDForm, Status: metav1.ConditionFalse, Reason: machinev1.ReasonRestoringForm,
			Message: fmt.Sprintf("%d machines do not yet carry MCM's form of their providerID again; MCM must not take "+
				"over before", other),
		})
	case meta.RemoveStatusCondition(conditions, machinev1.ConditionProviderIDForm):
		s.emitNormal(machinev1.EventProviderIDsRestored,
			"Every machine carries MCM's form of its providerID: MCM could take over")
	}
}

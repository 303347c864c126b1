package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/nodetemplate"
)

// capacity applies the virtual capacity of the class to the Node, and removes what an
// earlier one had. Without a class nothing changes: the cache may be behind.
func capacity(want *corev1.Node, class *machinev1.MachineClass) []nodetemplate.Problem {
	if class == nil {
		return nil
	}
	virtual, problems := virtualCapacity(class)
	last, known, broken := lastCapacity(want)
	problems = append(problems, broken...)
	replaceCapacity(want, last, virtual)
	switch {
	case len(virtual) == 0:
		delete(want.Annotations, machinev1.LastAppliedVirtualCapacityAnnotation)
	case !known || !equality.Semantic.DeepEqual(last, virtual):
		if text, err := json.Marshal(virtual); err == nil {
			want.Annotations[machinev1.LastAppliedVirtualCapacityAnnotation] = string(text)
		}
	}
	return problems
}

// replaceCapacity replaces last by virtual. Equal quantities keep their format.
func replaceCapacity(want *corev1.Node, last, virtual corev1.ResourceList) {
	for name := range last {
		if _, still := virtual[name]; !still {
			delete(want.Status.Capacity, name)
		}
	}
	for name, quantity := range virtual {
		if have, ok := want.Status.Capacity[name]; ok && have.Cmp(quantity) == 0 {
			continue
		}
		if want.Status.Capacity == nil {
			want.Status.Capacity = corev1.ResourceList{}
		}
		want.Status.Capacity[name] = quantity
	}
}

// virtualCapacity returns the valid part of the class's virtual capacity. A resource
// that the kubelet reports is invalid: both would overwrite it for ever.
func virtualCapacity(class *machinev1.MachineClass) (corev1.ResourceList, []nodetemplate.Problem) {
	out := corev1.ResourceList{}
	if class.NodeTemplate == nil {
		return out, nil
	}
	var problems []nodetemplate.Problem
	for _, name := range slices.Sorted(maps.Keys(class.NodeTemplate.VirtualCapacity)) {
		quantity := class.NodeTemplate.VirtualCapacity[name]
		wrong := ""
		switch {
		case !strings.Contains(string(name), "/"):
			wrong = "the kubelet reports it; name an extended resource, for example example.com/resource"
		case len(validation.IsQualifiedName(string(name))) > 0:
			wrong = "it is no resource name; name an extended resource, for example example.com/resource"
		case quantity.Sign() < 0 || quantity.MilliValue()%1000 != 0:
			wrong = "its quantity must be a whole number from 0"
		}
		if wrong != "" {
			problems = append(problems, nodetemplate.Problem{Text: fmt.Sprintf(
				"MachineClass %s: nodeTemplate.virtualCapacity: %q is not applied to the node: %s", class.Name, name, wrong)})
			continue
		}
		out[name] = quantity
	}
	return out, problems
}

// lastCapacity returns the virtual capacity that was applied last, and whether
// that is known. One that cannot be read counts as empty.
func lastCapacity(node *corev1.Node) (last corev1.ResourceList, known bool, broken []nodetemplate.Problem) {
	text, ok := node.Annotations[machinev1.LastAppliedVirtualCapacityAnnotation]
	if !ok {
		return nil, false, nil
	}
	if err := json.Unmarshal([]byte(text), &last); err != nil {
		return nil, false, []nodetemplate.Problem{{Note: true, Text: nodetemplate.Unreadable(node,
			machinev1.LastAppliedVirtualCapacityAnnotation,
			"capacity that is not in the virtualCapacity of the MachineClass any more", err)}}
	}
	return last, true, nil
}

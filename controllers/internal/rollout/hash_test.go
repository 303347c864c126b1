package rollout

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// pinned is the hash of the template below.
const pinned = "330777276"

// TestHashLasts pins the hash: it depends on names of types and fields, and a
// change would rename every new set.
func TestHashLasts(t *testing.T) {
	t.Parallel()
	spec := template()
	spec.Spec.NodeTemplateSpec.Labels = map[string]string{"z": "1", "a": "2"}
	spec.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MaxEvictRetries: new(int32(10))}
	if got := Hash(spec, nil); got != pinned {
		t.Errorf("hash %s, want %s", got, pinned)
	}
	if got := Hash(spec.DeepCopy(), nil); got != Hash(spec, nil) {
		t.Errorf("the hash depends on where the template is: %s", got)
	}
	if got := Hash(spec, new(int32(1))); got == Hash(spec, nil) {
		t.Errorf("a collision does not change the hash")
	}
	spec.CreationTimestamp = metav1.Time{}
	spec.Spec.NodeTemplateSpec.Labels["a"] = "3"
	if got := Hash(spec, nil); got == pinned {
		t.Errorf("the node template is no part of the hash")
	}
}

func TestSetName(t *testing.T) {
	t.Parallel()
	for hash, length := range map[string]int{"3141592653": 5, "12": 2} {
		name := SetName("pool", hash)
		suffix, ok := strings.CutPrefix(name, "pool-")
		if !ok || len(suffix) != length {
			t.Errorf("name %q of hash %s", name, hash)
		}
	}
}
